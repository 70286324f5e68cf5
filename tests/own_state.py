"""A machine of its own for one run of the tests: none of them writes a key, a secret or a store's name into the folder
of the person who runs it, and runs beside each other do not wait for each other's slots."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

from workbench.interpreter import spare_grammar

for _name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
    os.environ[_name] = tempfile.mkdtemp(prefix="workbench-tests-")
    atexit.register(shutil.rmtree, os.environ[_name], ignore_errors=True)
# No engine starts before a test asks for one.
os.environ.setdefault("WORKBENCH_AHEAD", "0")
# Nor do they share slots with the other users of this machine.
os.environ["WORKBENCH_MACHINE"] = "off"
# As Workbench's own processes: two seconds less in each process that runs tests.
spare_grammar()

"""A machine of its own for one run of the tests: none of them writes a key, a secret or a store's name into the folder
of the person who runs it, and runs beside each other do not wait for each other's slots."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile

for _name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
    os.environ[_name] = tempfile.mkdtemp(prefix="workbench-tests-")
    atexit.register(shutil.rmtree, os.environ[_name], ignore_errors=True)
# No engine starts before a test asks for one.
os.environ.setdefault("WORKBENCH_AHEAD", "0")
# Nor do they share slots with the other users of this machine.
os.environ["WORKBENCH_MACHINE"] = "off"
# jsonschema, which nbformat imports, compiles a grammar of international addresses at its import: two seconds in each
# process that runs tests. With None that import fails, and jsonschema works without the grammar.
sys.modules.setdefault("rfc3987_syntax", None)

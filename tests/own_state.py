"""A state folder for one run of the tests: none of them writes a key, a secret or a store's name into the folder of the
person who runs it."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="workbench-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

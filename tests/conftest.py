"""Property tests repeat the same examples, and nobody times them; HYPOTHESIS_PROFILE=explore looks for new ones."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile

from hypothesis import HealthCheck, settings

# A busy machine is no defect of the code, and a test that fails now and then is.
_calm = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("calm", derandomize=True, **_calm)
settings.register_profile("explore", max_examples=1000, **_calm)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "calm"))

# A run in the background (of a shell script, of a build server) inherits an ignored SIGINT, and so would every process
# that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test writes a key or a secret into the folder of the person who runs it; and tests that run at the same time, or
# beside that person's own engines, do not wait for each other's slots: each process of pytest has a machine of its own.
for _name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
    os.environ[_name] = tempfile.mkdtemp(prefix="workbench-tests-")
    atexit.register(shutil.rmtree, os.environ[_name], ignore_errors=True)

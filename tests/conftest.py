"""Property tests repeat the same examples, without a deadline. HYPOTHESIS_PROFILE=explore tries new examples."""

from __future__ import annotations

import os
import signal

import own_state  # noqa: F401 - importing it is all
from hypothesis import HealthCheck, settings

# No deadline: a busy machine is not a defect of the code, but a test that fails now and then is a defect.
_calm = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("calm", derandomize=True, **_calm)
settings.register_profile("explore", max_examples=1000, **_calm)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "calm"))

# A run in the background (of a shell script, of a build server) inherits an ignored SIGINT, and so would every process
# that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

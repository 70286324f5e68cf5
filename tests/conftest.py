"""Property tests repeat the same examples, without a deadline. HYPOTHESIS_PROFILE=explore tries new examples."""

from __future__ import annotations

import os
import signal
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import own_state  # noqa: F401 - importing it is all
import pytest
from hypothesis import HealthCheck, settings

from workbench import launch
from workbench.snapshot import modules

_TESTS = f"{Path(__file__).parent}{os.sep}"
#: How pytest names the modules that it collects.
_PACKAGE = "tests."

# No deadline: a busy machine is not a defect of the code, but a test that fails now and then is a defect.
_calm = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("calm", derandomize=True, **_calm)
settings.register_profile("explore", max_examples=1000, **_calm)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "calm"))

# A run in the background (of a shell script, of a build server) inherits an ignored SIGINT, and so would every process
# that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", autouse=True)
def _imports_of_its_own(request: pytest.FixtureRequest) -> Iterator[None]:
    """What is launched in a test finds imported what the test's own file imports, as in a kernel of its own.

    The process that runs the tests has collected all files, and so has imported torch, pandas, transformers and more,
    which each engine would import ahead. And a snapshot holds what a test file imports of the tests' helpers, but not
    the file itself: the package of it is all files of the tests, and copying those took a third of a second each time.
    """
    seen: set[str] = set()
    own, before = _imported_by(request.module, seen), dict(sys.modules)
    others = {
        name: path
        for name, module in before.items()
        if (name not in seen or name.startswith(_PACKAGE))
        and str(path := getattr(module, "__file__", None)).startswith(_TESTS)
    }

    def has_imported(package: str) -> bool:
        module = sys.modules.get(package)
        return module is not None and (package in own or module is not before.get(package))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "has_imported", has_imported)
        patch.setattr(modules, "_others", others)
        yield


def _imported_by(module: types.ModuleType, seen: set[str]) -> set[str]:
    """The packages that a file of the tests imports, or one that it imports of them."""
    seen.add(module.__name__)
    found = set()
    for value in [*vars(module).values()]:
        name = value.__name__ if isinstance(value, types.ModuleType) else str(getattr(value, "__module__", ""))
        found.add(name.partition(".")[0])
        other = sys.modules.get(name)
        if other is not None and name not in seen and str(getattr(other, "__file__", "")).startswith(_TESTS):
            found |= _imported_by(other, seen)
    return found

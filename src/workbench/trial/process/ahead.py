"""What is imported before runners are forked. Law: an import that leaves more behind than its modules is left to the
runners, so that training with it ahead and without it give the same.

A process looks at itself before and after each import. Where a package has started a thread or a process, opened a
file or a device, drawn random numbers, or changed settings, variables, signals, folders or another package's functions,
the process is not forked from: another one takes its place, in which that package is not imported.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import signal
import sys
import threading
import types
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from workbench.errors import BadSetting
from workbench.snapshot.surroundings import settings
from workbench.snapshot.surroundings.used import counts
from workbench.trial.kinds import loaded
from workbench.trial.process import isolation
from workbench.trial.process.processes import descendants

#: What a module imports late, at its first use: torch's first optimizer would take a second in every runner.
_COMPANIONS = {"torch": "torch._dynamo"}
#: Of Python's own modules, those in which a function's replacement changes results. Others are mended by many packages
#: (torch puts its own in the place of ``inspect.getfile``, typing_extensions in that of newer typing).
_COMPUTES = frozenset({"builtins", "random", "math", "statistics"})
_PYTHONS = sys.stdlib_module_names
_FUNCTIONS = frozenset({types.FunctionType, types.BuiltinFunctionType, type})


class Unfit(Exception):
    """A package whose import left something behind; ``why`` says what."""

    def __init__(self, package: str, why: str) -> None:
        super().__init__(package, why)
        self.package, self.why = package, why


def import_trusted(names: Iterable[str]) -> dict[str, str]:
    """Import modules that are known to leave nothing behind that counts; why those failed that did."""
    failed: dict[str, str] = {}
    for modules in _by_package(names).values():
        _import(modules, failed)
    return failed


def import_ahead(
    names: Iterable[str], secrets: Collection[str], looked_up: Callable[[], Collection[str]]
) -> dict[str, str]:
    """Import modules, and look at what that leaves behind; why those failed that did. Raises Unfit.

    secrets: variables that only a leg brings. looked_up: names of the variables that were looked up so far.
    """
    failed: dict[str, str] = {}
    functions = _Functions()
    for package, modules in _by_package(names).items():
        before, libraries = _around(), _libraries()
        _import(modules, failed)
        for what, now in _around().items():
            if before.get(what, now) != now:
                raise Unfit(package, f"importing it changes {what}")
        for name, now in _libraries().items():
            if libraries.get(name, now) != now:
                raise Unfit(package, f"importing it changes settings of {name}")
        missing = sorted(set(secrets) & set(looked_up()))
        if missing:
            raise Unfit(package, f"importing it looks up {missing[0]}, which is a secret")
        functions.look(package)
    return failed


def _import(modules: Iterable[str], failed: dict[str, str]) -> None:
    for name in modules:
        if name not in sys.modules:
            try:
                importlib.import_module(name)
            except Exception as error:
                # It is only a head start: the training code meets the same error, with its line.
                failed[name] = f"{type(error).__name__}: {error}"


def _by_package(names: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        package = _top(name)
        modules = found.setdefault(package, [])
        if not modules:
            modules.append(package)
            modules += [late for late in (_COMPANIONS.get(package),) if late is not None]
        if name not in modules:
            modules.append(name)
    return found


def _top(name: str) -> str:
    return name.partition(".")[0]


def _around() -> dict[str, Any]:
    """What an import may leave behind in this process. Libraries that are not loaded are not named."""
    found: dict[str, Any] = {
        "the number of threads": _threads(),
        "child processes": sorted(descendants(os.getpid())),
        "open files": _descriptors(),
        "the working directory": os.readlink("/proc/self/cwd"),
        "sys.path": list(sys.path),
        "signal handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "variables": {name: value for name, value in os.environ.items() if counts(name)},
        "hooks": (sys.excepthook, sys.displayhook, threading.excepthook, sys.unraisablehook, sys.gettrace()),
        "filters of warnings": _filters(),
        "Python's random state": random.getstate(),
    }
    try:
        found["settings"] = {name: one for name, one in settings.here().items() if name != settings.FILTERS}
    except BadSetting as error:
        found["settings"] = str(error)
    numpy, torch = loaded("numpy"), loaded("torch")
    if numpy is not None and hasattr(numpy, "random"):
        found["NumPy's random state"] = str(numpy.random.get_state(legacy=True))
    if torch is not None and hasattr(torch, "get_rng_state"):
        found["torch's random state"] = torch.get_rng_state().numpy().tobytes()
        found["the GPU"] = bool(torch.cuda.is_initialized())
    return found


def _threads() -> int:
    """Threads that are alive when a fork is over: OpenBLAS ends its own before one, and starts them again when needed.

    jemalloc, which is in pyarrow, has a thread of its own as well, and takes care of forks.
    """
    if len(_listed("/proc/self/task")) > 1:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    return sum(not _name(thread).startswith("jemalloc_bg") for thread in _listed("/proc/self/task"))


def _name(thread: str) -> str:
    with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/comm") as file:
        return file.read()
    return ""


def _filters() -> list[str]:
    """The filters of warnings that a person may have written; modules add such as name a message or their own class."""
    found = []
    for action, message, category, module, line in warnings.filters:
        assert isinstance(category, type)
        if action == "error" or (message is None and module is None and category.__module__ == "builtins"):
            found.append(f"{action} {category.__qualname__} {line}")
    return sorted(found)


def _libraries() -> dict[str, Any]:
    found = {}
    for name, look in isolation.LIBRARIES.items():
        if name in sys.modules:
            with contextlib.suppress(Exception):  # half of it was imported
                found[name] = look()
    return found


def _listed(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


def _descriptors() -> dict[str, str]:
    found = {}
    for name in _listed("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the folder's own
            found[name] = os.readlink(f"/proc/self/fd/{name}")
    return found


def let_go(path: Sequence[str], before: Sequence[str]) -> None:
    """Forget modules that were imported ahead and that ``path`` would find elsewhere: a project's file comes first.

    before: the search path with which they were imported.
    """
    found: set[str] = set()
    for entry in path:
        if entry in before:
            continue
        for name in _listed(entry):
            found.add(name.partition(".")[0])
    for top in found & {_top(name) for name in sys.modules} - _PYTHONS - {"workbench"}:
        folder = _folder(sys.modules.get(top))
        if folder is None:
            continue
        nearer = path[: path.index(folder)] if folder in path else path
        if any(entry not in before and _holds(entry, top) for entry in nearer):
            for name in [name for name in sys.modules if _top(name) == top]:
                del sys.modules[name]


def _folder(module: Any) -> str | None:
    """The folder on the search path in which a package or module lies; None for one without a file."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return None
    folder = os.path.dirname(file)
    return os.path.dirname(folder) if os.path.basename(file).startswith("__init__.") else folder


def _holds(entry: str, top: str) -> bool:
    return os.path.exists(os.path.join(entry, f"{top}.py")) or os.path.exists(os.path.join(entry, top, "__init__.py"))


class _Functions:
    """The functions and classes of all modules, to see whether a package puts its own in the place of another's."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {}
        self.look("")

    def look(self, package: str) -> None:
        """Take note of what is new. Raises Unfit where ``package`` has replaced something that was there."""
        for name, module in list(sys.modules.items()):
            if not isinstance(module, types.ModuleType) or (_top(name) in _PYTHONS and name not in _COMPUTES):
                continue
            now = {key: value for key, value in list(vars(module).items()) if type(value) in _FUNCTIONS}
            for key, value in self._known.get(name, {}).items():
                if now.get(key) is not value and _top(name) != package:
                    raise Unfit(package, f"importing it changes {name}.{key}")
            self._known[name] = now

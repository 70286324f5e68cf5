"""What is imported before runners are forked. Law: if an import leaves more behind than its modules, runners do it
themselves, so that training gives the same results with and without importing ahead.

A process inspects itself before and after each import. If a package has started a thread or a process, opened a file
or a device, drawn random numbers, or changed settings, variables, signals, folders or another package's functions, the
process is not forked from: another one replaces it, in which that package is not imported.
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
from workbench.snapshot.imported import loaded
from workbench.snapshot.settings import settings
from workbench.snapshot.surroundings.used import counts
from workbench.trial.process import isolation
from workbench.trial.process.processes import descendants

#: Modules that another imports late, at first use: torch's first optimizer would take a second in every runner.
_COMPANIONS = {"torch": "torch._dynamo"}
#: Those of Python's own modules in which replacing a function changes results. Many packages patch other modules
#: (torch replaces ``inspect.getfile``, typing_extensions functions of newer typing).
_COMPUTES = frozenset({"builtins", "random", "math", "statistics"})
_PYTHONS = sys.stdlib_module_names
_FUNCTIONS = frozenset({types.FunctionType, types.BuiltinFunctionType, type})


class Unfit(Exception):
    """A package whose import left something behind; ``why`` describes it."""

    def __init__(self, package: str, why: str) -> None:
        super().__init__(package, why)
        self.package, self.why = package, why


def import_trusted(names: Iterable[str]) -> dict[str, str]:
    """Import modules known to leave nothing important behind; errors by name."""
    failed: dict[str, str] = {}
    for modules in _by_package(names).values():
        _import(modules, failed)
    return failed


def import_ahead(
    names: Iterable[str], secrets: Collection[str], looked_up: Callable[[], Collection[str]]
) -> dict[str, str]:
    """Import modules, and check what that leaves behind; errors by name. Raises Unfit.

    secrets: variables that only a leg has. looked_up: names of the variables that were read so far.
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
                # This is only a head start: the training code gets the same error, with its line.
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
    """Everything of this process that an import may change. Libraries that are not loaded are left out."""
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
    """Threads that survive a fork: OpenBLAS ends its own before one, and starts them again when needed.

    jemalloc, which pyarrow contains, also has its own thread, and handles forks.
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
    """The warning filters that a user may have set; modules add filters for a message or their own class."""
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
            with contextlib.suppress(Exception):  # it is only partly imported
                found[name] = look()
    return found


def _listed(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


def _descriptors() -> dict[str, str]:
    found = {}
    for name in _listed("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own descriptor
            found[name] = os.readlink(f"/proc/self/fd/{name}")
    return found


def let_go(path: Sequence[str], before: Sequence[str]) -> None:
    """Forget modules imported ahead that ``path`` would find elsewhere: a project's file takes precedence.

    before: the search path with which they were imported.
    """
    found: set[str] = set()
    for entry in path:
        if entry in before:
            continue
        for name in _listed(entry):
            found.add(name.partition(".")[0])
    for top in {name for name in found if name in sys.modules} - _PYTHONS - {"workbench"}:
        folder = _folder(sys.modules.get(top))
        if folder is None:
            continue
        nearer = path[: path.index(folder)] if folder in path else path
        if any(entry not in before and _holds(entry, top) for entry in nearer):
            for name in [name for name in sys.modules if _top(name) == top]:
                del sys.modules[name]


def _folder(module: Any) -> str | None:
    """The folder on the search path that contains a package or module; None for one without a file."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return None
    folder = os.path.dirname(file)
    return os.path.dirname(folder) if os.path.basename(file).startswith("__init__.") else folder


def _holds(entry: str, top: str) -> bool:
    return os.path.exists(os.path.join(entry, f"{top}.py")) or os.path.exists(os.path.join(entry, top, "__init__.py"))


class _Functions:
    """The functions and classes of all modules, to detect whether a package replaces those of another."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {}
        self.look("")

    def look(self, package: str) -> None:
        """Record what is new. Raises Unfit if ``package`` has replaced an existing one."""
        for name, module in list(sys.modules.items()):
            if not isinstance(module, types.ModuleType) or (_top(name) in _PYTHONS and name not in _COMPUTES):
                continue
            now = {key: value for key, value in list(vars(module).items()) if type(value) in _FUNCTIONS}
            for key, value in self._known.get(name, {}).items():
                if now.get(key) is not value and _top(name) != package:
                    raise Unfit(package, f"importing it changes {name}.{key}")
            self._known[name] = now

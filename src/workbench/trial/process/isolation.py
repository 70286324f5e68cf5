"""Isolates trials that share a process. Law: what cannot be reset and checked ends the runner.

A baseline is taken in a fresh runner. After each leg, everything possible is reset and checked again; any difference
means that the runner is not reused.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps it in enumerations, which take far longer
import contextlib
import logging
import marshal
import os
import signal
import sys
import threading
import types
import warnings
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from workbench.snapshot.imported import Newest, loaded
from workbench.snapshot.settings import settings
from workbench.snapshot.settings.libraries import TABLE
from workbench.snapshot.surroundings import used

_OURS = "workbench-"


class Baseline:
    """The state of a fresh runner, with which its state after each leg is compared."""

    def __init__(self) -> None:
        self._modules = Newest()
        self._filters = list(warnings.filters)
        self._handlers = {number: _signal.getsignal(number) for number in _SIGNALS}
        self._streams = (sys.stdin, sys.stdout, sys.stderr)
        self._hooks = (sys.excepthook, sys.displayhook, threading.excepthook, sys.unraisablehook)
        self._recursion = sys.getrecursionlimit()
        self._path = list(sys.path)
        self._mask = os.umask(0o077)
        os.umask(self._mask)
        hooks = loaded("torch.utils.hooks")
        self._hooks_so_far = hooks.RemovableHandle.next_id if hooks is not None else 0
        self._loggers = _Loggers()
        self._settings = _looked(lambda: settings.read(TABLE))
        self._libraries: dict[str, Any] = {}
        self._take_libraries()

    def _take_libraries(self) -> None:
        for name, look in LIBRARIES.items():
            if name in sys.modules:
                self._libraries[name] = _looked(look)

    def reset(self) -> str | None:
        """Reset what a leg may have changed; why the runner may not be reused, or None if it may."""
        sys.stdin, sys.stdout, sys.stderr = self._streams
        sys.excepthook, sys.displayhook, threading.excepthook, sys.unraisablehook = self._hooks
        sys.path[:] = self._path
        sys.settrace(None)
        sys.setprofile(None)
        sys.setrecursionlimit(self._recursion)
        os.umask(self._mask)
        warnings.resetwarnings()
        warnings.filters.extend(self._filters)  # type: ignore[attr-defined]
        for number, handler in self._handlers.items():
            if _signal.getsignal(number) is not handler and handler is not None:
                signal.signal(number, handler)
        signal.alarm(0)
        self._loggers.reset()
        hooks = loaded("torch.utils.hooks")
        if hooks is not None:
            # Hooks are numbered per process: the next trial's must get the same numbers as the last one's.
            hooks.RemovableHandle.next_id = self._hooks_so_far
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
        for check in (self._forget_modules, self._check_libraries, _check_threads, _check_children):
            why = check()
            if why is not None:
                return why
        return None

    def _forget_modules(self) -> str | None:
        """The next leg imports the experiment's own modules again: they may count or cache."""
        later = self._modules.later()
        if later is None:
            return (
                "the training code removed or reloaded modules that were imported before, or imports some in a thread"
            )
        for name, module in later.items():
            if not is_installed(module):
                del sys.modules[name]
        return None

    def _check_libraries(self) -> str | None:
        for name, look in LIBRARIES.items():
            if name not in sys.modules:
                continue
            if name not in self._libraries:
                return f"{name} was first imported by the training code, so its settings have no baseline"
            before, now = self._libraries[name], _looked(look)
            if before != now:
                changed = [key for key in now if now[key] != before.get(key)]
                return f"the training code changed {name}'s {', '.join(changed)}"
        if changed := [*_looked(lambda: settings.changed(self._settings, TABLE))]:
            return f"the training code changed {', '.join(changed)}"
        return None


_compile = SourceFileLoader.source_to_code
#: By file of the experiment's own modules: its bytes, and their code as Python writes it into a compiled file.
_compiled: dict[str, tuple[bytes, bytes]] = {}


def keep_code() -> None:
    """Compile each of the experiment's own modules once in this process, though each leg executes them again: Python's
    compiled files are turned off in many containers."""
    SourceFileLoader.source_to_code = _source_to_code  # type: ignore[method-assign, assignment]


def _source_to_code(loader: SourceFileLoader, data: Any, path: Any, **options: Any) -> types.CodeType:
    if options or not isinstance(data, bytes) or not isinstance(path, str) or is_installed_file(path):
        return _compile(loader, data, path, **options)
    known = _compiled.get(path)
    if known is None or known[0] != data:
        known = _compiled[path] = data, marshal.dumps(_compile(loader, data, path))
    # Always a new one: torch's compiler attaches to a function's code what it has made of it.
    code: types.CodeType = marshal.loads(known[1])  # noqa: S302 - of a line above
    return code


class _Loggers:
    """The loggers of a fresh runner. A level, or a handler, that a trial sets would hold for the next one as well."""

    def __init__(self) -> None:
        self._disable, self._warns = logging.root.manager.disable, warnings.showwarning
        self._states = {name: _state(logger) for name, logger in _loggers().items()}

    def reset(self) -> None:
        """Set them as they were, and forget those that the training code has made. Those of a library stay as it needs
        them: many set theirs up once, when they are first used."""
        if warnings.showwarning is not self._warns:
            logging.captureWarnings(False)
            warnings.showwarning = self._warns
        logging.disable(self._disable)
        for name, logger in _loggers().items():
            if is_installed(sys.modules.get(name.partition(".")[0])):
                continue
            if name in self._states:
                logger.setLevel(self._states[name][0])
                logger.propagate, logger.disabled, logger.handlers[:], logger.filters[:] = self._states[name][1:]
            else:
                logger.setLevel(logging.NOTSET)  # something of the process may still hold it
                del logging.root.manager.loggerDict[name]


def _loggers() -> dict[str, logging.Logger]:
    made = logging.root.manager.loggerDict
    return {"": logging.root, **{name: one for name, one in made.items() if isinstance(one, logging.Logger)}}


def _state(one: logging.Logger) -> tuple[int, bool, bool, list[logging.Handler], list[Any]]:
    return one.level, one.propagate, one.disabled, [*one.handlers], [*one.filters]


def _looked(look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the training code's filters may raise, and the lookups here are not its own
        return look()


_SIGNALS = tuple(number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP))


def _check_threads() -> str | None:
    alive = [
        thread.name
        for thread in threading.enumerate()
        if thread is not threading.main_thread() and not thread.name.startswith(_OURS)
    ]
    return f"threads of the training code are alive: {', '.join(alive)}" if alive else None


def _check_children() -> str | None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return "processes of the training code are alive"
    return None


def _torch() -> dict[str, Any]:
    torch: Any = loaded("torch")
    hooks = sorted((name, one) for name, one in vars(torch.nn.modules.module).items() if name.startswith("_global_"))
    return {
        "number of threads": torch.get_num_threads(),
        "inference mode": torch.is_inference_mode_enabled(),
        "tensor hooks": [len(one) for _, one in hooks if isinstance(one, dict)],
        "class functions": tuple(id(function) for function in _PATCHED(torch)),
    }


_PATCHED: Callable[[Any], list[Any]] = lambda torch: [  # noqa: E731 - a table
    torch.nn.Module.forward,
    torch.nn.Module.__call__,
    torch.nn.Linear.forward,
    torch.optim.Optimizer.__init__,
    torch.Tensor.backward,
    torch.manual_seed,
    torch.save,
    torch.load,
]


def _numpy() -> dict[str, Any]:
    numpy: Any = loaded("numpy")
    return {"print options": {key: str(value) for key, value in numpy.get_printoptions().items()}}


def _pandas() -> dict[str, Any]:
    pandas: Any = loaded("pandas")
    return {"display.max_rows": pandas.get_option("display.max_rows")}


#: What training code may change, besides the settings of `workbench.snapshot.settings`, by the module that holds it.
LIBRARIES: dict[str, Callable[[], dict[str, Any]]] = {
    "torch": _torch,
    "numpy": _numpy,
    "pandas": _pandas,
}


def is_installed(module: Any) -> bool:
    """True for modules of the environment; False for the experiment's own and for those made by code."""
    file = getattr(module, "__file__", None)
    if file is None:
        spec = getattr(module, "__spec__", None)
        return spec is not None and spec.origin in ("built-in", "frozen")
    return is_installed_file(str(file))


def is_installed_file(path: str) -> bool:
    """Whether a module's file belongs to the environment: this interpreter's, the user's own, or what ``PYTHONPATH``
    adds, as on clusters whose packages are in folders of their own."""
    return used.is_installed_file(path) or path.startswith(_RUNNERS)


#: The folder of what a runner has of Workbench, which may be a checkout.
_RUNNERS = str(Path(__file__).resolve().parent.parent)

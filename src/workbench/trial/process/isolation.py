"""Isolates trials that share a process. Law: what cannot be reset and checked ends the runner.

A baseline is taken in a fresh runner. After each leg, everything possible is reset and checked again; any difference
means that the runner is not reused.
"""

from __future__ import annotations

import contextlib
import locale
import os
import signal
import sys
import sysconfig
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.snapshot.imported import loaded
from workbench.snapshot.settings.libraries import precision

_OURS = "workbench-"


class Baseline:
    """The state of a fresh runner, with which its state after each leg is compared."""

    def __init__(self) -> None:
        self._modules = set(sys.modules)
        self._filters = list(warnings.filters)
        self._handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        self._streams = (sys.stdin, sys.stdout, sys.stderr)
        self._hooks = (sys.excepthook, sys.displayhook, threading.excepthook, sys.unraisablehook)
        self._recursion = sys.getrecursionlimit()
        self._path = list(sys.path)
        self._mask = os.umask(0o077)
        os.umask(self._mask)
        hooks = loaded("torch.utils.hooks")
        self._hooks_so_far = hooks.RemovableHandle.next_id if hooks is not None else 0
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
            if signal.getsignal(number) is not handler and handler is not None:
                signal.signal(number, handler)
        signal.alarm(0)
        self._forget_modules()
        hooks = loaded("torch.utils.hooks")
        if hooks is not None:
            # Hooks are numbered per process: the next trial's must get the same numbers as the last one's.
            hooks.RemovableHandle.next_id = self._hooks_so_far
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
        for check in (self._check_libraries, _check_threads, _check_children):
            why = check()
            if why is not None:
                return why
        return None

    def _forget_modules(self) -> None:
        """The next leg imports the experiment's own modules again: they may count or cache."""
        for name in sys.modules.keys() - self._modules:
            if not is_installed(sys.modules[name]):
                del sys.modules[name]

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
        return None


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
    cudnn = torch.backends.cudnn
    return {
        "default dtype": str(torch.get_default_dtype()),
        "default device": str(torch.get_default_device()),
        "number of threads": torch.get_num_threads(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "matmul precision": precision(torch),
        "cudnn flags": (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32),
        "mkldnn flag": torch.backends.mkldnn.enabled,
        "tensor hooks": len(torch.nn.modules.module._global_forward_hooks),
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
    printing = {key: str(value) for key, value in numpy.get_printoptions().items()}
    return {"error handling": numpy.geterr(), "print options": printing}


def _locale() -> dict[str, Any]:
    return {"setting": locale.setlocale(locale.LC_ALL)}


def _decimal() -> dict[str, Any]:
    decimal: Any = loaded("decimal")
    context = decimal.getcontext()
    return {"context": (context.prec, context.rounding)}


def _pandas() -> dict[str, Any]:
    pandas: Any = loaded("pandas")
    return {"options": {key: str(pandas.get_option(key)) for key in ("mode.copy_on_write", "display.max_rows")}}


#: Process settings that training code may change, by the module that holds them.
LIBRARIES: dict[str, Callable[[], dict[str, Any]]] = {
    "torch": _torch,
    "numpy": _numpy,
    "locale": _locale,
    "decimal": _decimal,
    "pandas": _pandas,
}


def is_installed(module: Any) -> bool:
    """True for modules of the environment; False for the experiment's own and for those made by code."""
    file = getattr(module, "__file__", None)
    if file is None:
        spec = getattr(module, "__spec__", None)
        return spec is not None and spec.origin in ("built-in", "frozen")
    return str(file).startswith(INSTALLED)


#: The folders of the environment's own modules.
INSTALLED = (
    *{sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")},
    str(Path(__file__).resolve().parent.parent),
)

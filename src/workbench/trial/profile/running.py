"""Train some steps of a recorded trial under torch's profiler, and answer where their time went. Law: it reads the
store, and changes nothing there.

It runs in a process of the training environment's Python (see :mod:`workbench.trial.export.apart`):

    python -m workbench.trial.profile.running ORDER ANSWER
"""

from __future__ import annotations

import builtins
import contextlib
import math
import os
import resource
import sys
import tempfile
import threading
import time
import types
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from workbench.errors import NotFound, TrialFailed
from workbench.records import Spec
from workbench.records.names import trial_label
from workbench.search.seeds import trial_seed
from workbench.snapshot import spawned
from workbench.snapshot.imported import loaded
from workbench.snapshot.settings.settings import Holding
from workbench.store import Store
from workbench.trial import iterators, make_current
from workbench.trial.api.heard import listening
from workbench.trial.api.trial import LegLeft, Trial
from workbench.trial.export.apart import answered
from workbench.trial.generators import seeds
from workbench.trial.process import tracebacks
from workbench.trial.process.crowding import cores
from workbench.trial.process.leg import BACKEND
from workbench.trial.process.program import fill, prepare, run_code
from workbench.trial.process.script import as_main, in_text
from workbench.trial.profile.advice import Fed, setting
from workbench.trial.profile.lines import Lines
from workbench.trial.profile.spans import Shares, Span, divided
from workbench.trial.profile.verdict import verdict, without_torch
from workbench.trial.profile.waiting import Waiting
from workbench.trial.profile.window import ProfileCourse, Window
from workbench.trial.shared.values import Values

#: Nanoseconds in seconds.
_NS = 1e-9
#: Seconds between looks at how the loader that is waited for longest feeds the training code.
_LOOK_S = 0.1


class Measured:
    """What is measured while the window is open."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace
        self._thread = threading.get_native_id()
        self.waiting = Waiting(0, None, lambda line: None, lambda: True, least_s=math.inf)
        self.lines = Lines()
        #: Where the time went; None for code without torch.
        self.shares: Shares | None = None
        #: The most memory of the GPU that tensors took (bytes); None if none is used.
        self.gpu_bytes: int | None = None
        #: Seconds of the window, and the share of them in which the training thread computed.
        self.seconds = self.computes = 0.0
        self._profile: Any = None
        self._began = self._computed = 0.0
        #: The same moment for the profiler, whose events have the time of day (nanoseconds).
        self._stamp = 0

    def open(self) -> None:
        """Measure from now on."""
        torch: Any = loaded("torch")
        if torch is not None:
            from torch.profiler import ProfilerActivity, profile

            kinds = [ProfilerActivity.CPU]
            if torch.cuda.is_initialized():
                kinds.append(ProfilerActivity.CUDA)
                torch.cuda.synchronize()
                torch.cuda.reset_peak_memory_stats()
            self._profile = profile(activities=kinds)
            self._profile.start()
        self.lines.start()
        self.waiting.begin()
        self._stamp, self._began, self._computed = time.time_ns(), time.perf_counter(), _busy_s()

    def close(self) -> None:
        """Measure no longer, write the trace, and divide the time."""
        torch: Any = loaded("torch")
        if self._profile is not None and torch.cuda.is_initialized():
            torch.cuda.synchronize()
            self.gpu_bytes = int(torch.cuda.max_memory_allocated())
        end = time.time_ns()
        self.seconds = time.perf_counter() - self._began
        self.computes = min(1.0, (_busy_s() - self._computed) / self.seconds)
        self.lines.stop()
        if self._profile is not None:
            self._profile.stop()
            self.shares = divided(self._spans(), self._stamp * _NS, end * _NS)
            self._profile.export_chrome_trace(str(self._trace))

    def _spans(self) -> list[Span]:
        found = []
        for one in self._profile.profiler.kineto_results.events():
            on_gpu = one.device_type().name != "CPU"
            # What the GPU is said to do for a named part of the code lies over the kernels themselves.
            if (on_gpu and not one.is_user_annotation()) or (not on_gpu and one.device_resource_id() == self._thread):
                begin = one.start_ns() * _NS
                found.append(Span(one.name(), begin, begin + one.duration_ns() * _NS, on_gpu))
        return found


class Requests:
    """Requests for batches: each may open or close the window, and is measured."""

    def __init__(self, window: Window, waiting: Waiting) -> None:
        self._window, self._waiting = window, waiting
        self._pid, self._next = os.getpid(), 0.0
        #: The loader that is waited for longest, as of the last look.
        self.longest: Fed | None = None

    def enter(self) -> bool:
        """A request begins; False where it is not measured."""
        if os.getpid() != self._pid or not self._waiting.enter():
            return False
        try:
            self._window.batch()
        except BaseException:
            self._waiting.leave(None, 0.0, False)
            raise
        return True

    def leave(self, iterator: Any, begun: float, is_edge: bool) -> None:
        """The request has ended."""
        self._waiting.leave(iterator, begun, is_edge)
        now = time.perf_counter()
        if iterator is None or self._window.opened is None or now < self._next:
            return
        if self._waiting.is_longest(iterator):
            self._next = now + _LOOK_S
            self.longest = self._waiting.fed(iterator)


def _busy_s() -> float:
    """Seconds in which this thread has computed, or was ready to and waited for a core that others had."""
    try:
        running, ready, *_ = Path("/proc/thread-self/schedstat").read_text().split()
    except (OSError, ValueError):  # not every kernel counts it
        return time.thread_time()
    return (int(running) + int(ready)) * _NS


def profiled(order: Mapping[str, Any]) -> dict[str, Any]:
    """Measure a trial. The order: ``store``, ``experiment``, ``trial``, ``configuration``, ``steps``, ``trace`` (a
    file) and ``slots`` (those of the machine in which its trials train).

    Raises TrialFailed if the training code fails, or ends before something was measured.
    """
    store = Store(order["store"])
    spec, label = store.read_spec(order["experiment"]), trial_label(order["trial"])
    trace = Path(order["trace"])
    measured = Measured(trace)
    steps = min(order["steps"], max(1, spec.length - 1))
    window = Window(steps, is_warm=spec.length == 1, opens=measured.open, closes=measured.close)
    requests = Requests(window, measured.waiting)
    try:
        _train(store, spec, order, window, requests)
    except (Exception, SystemExit) as error:
        told = tracebacks.describe(error, spec.program.filename)
        line = f" (line {told['line']})" if told["line"] else ""
        raise TrialFailed(f"{label} failed before it was measured: {told['type']}: {told['message']}{line}") from error
    window.close()
    if window.opened is None:
        raise TrialFailed(
            f"{label} ended before its second step, so nothing was measured: the first one is left out, because it is "
            "slow for reasons of its own. Profile a trial with more steps."
        )
    return {
        **_described(measured, requests.longest, order["slots"], spec.training.threads),
        "steps": {"whole": window.steps, "updates": window.updates, "before": window.before},
        "trace": str(trace) if measured.shares is not None else None,
    }


def _train(store: Store, spec: Spec, order: Mapping[str, Any], window: Window, requests: Requests) -> None:
    """Train until the window has closed, or the training code has ended."""
    number, configuration = order["trial"], order["configuration"]
    os.environ["MPLBACKEND"] = BACKEND
    try:
        os.chdir(spec.training.cwd)
    except OSError as error:
        raise NotFound(f"the notebook's folder {spec.training.cwd} cannot be entered ({error.strerror}).") from None
    holding = Holding(spec.training.settings, spec.training.threads)
    seed, seeded = spec.seeds_of(number)
    hooked = False

    def imported() -> None:
        nonlocal hooked
        holding.imported()
        iterators.torch_imported()
        optimizer: Any = loaded("torch.optim.optimizer")
        if optimizer is not None and not hooked:
            hooked = True
            optimizer.register_optimizer_step_post_hook(window.update)

    is_strict = spec.deterministic == "strict"
    seeds.set_all(seed, seeded, is_strict=is_strict, imported=imported, of_packages=True)
    iterators.watch(None, requests)
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    namespace, function = fill(store, spec, main)
    imported()  # captured names may have imported torch
    with tempfile.TemporaryDirectory(prefix="workbench-profile-") as folder:
        _announce(store, spec, main, configuration, Path(folder) / "told.json")
        course = ProfileCourse(window, spec.length, Path(folder))
        values = Values(store, spec.id, main.__dict__, writes=False)
        loader = trial_seed(seed, seeded, "loader")
        trial = Trial(course, seeded, configuration, spec.length, loader, Path(folder) / "files", values)
        make_current(trial)
        with (
            contextlib.suppress(LegLeft),
            as_main(spec.program, configuration),
            listening(spec.program, spec.goal.metric, trial),
        ):
            code, arguments = prepare(spec, trial, namespace, function)
            run_code(code, namespace, arguments)


def _announce(store: Store, spec: Spec, main: types.ModuleType, configuration: Mapping[str, Any], file: Path) -> None:
    """Let processes that the training code spawns find its names."""
    program = spec.program
    spawned.announce(
        main,
        file,
        store=store.root,
        capture=program.capture,
        overlays=program.overlays,
        source="" if program.kind == "function" else program.source,
        filename=program.filename,
        values=in_text(program, configuration),
        is_script=program.kind == "script",
        module=program.module,
    )


def _described(measured: Measured, longest: Fed | None, slots: int, threads: int) -> dict[str, Any]:
    """The measurements and what they mean, as plain data."""
    shares, on_gpu = measured.shares, measured.gpu_bytes is not None
    if shares is None:
        told: dict[str, Any] = {"limit": None, "words": without_torch(measured.computes), "advice": []}
    else:
        loader = f"{longest.name}: {setting(longest, slots, cores())}" if longest is not None else ""
        told = asdict(verdict(shares, on_gpu=on_gpu, loader=loader, threads=threads))
    torch: Any = loaded("torch")
    return {
        "seconds": measured.seconds,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "shares": None if shares is None else asdict(shares),
        "verdict": told,
        "memory": {
            # Kilobytes on Linux, of the whole life of this process.
            "process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "gpu": measured.gpu_bytes,
        },
        "lines": [asdict(line) for line in measured.lines.costliest()],
    }


if __name__ == "__main__":
    answered(profiled, *sys.argv[1:])

"""One leg, from the order to its outcome: surroundings, namespace, seeds, the training code, and how it was left."""

from __future__ import annotations

import builtins
import importlib
import os
import platform
import sys
import time
import types
from pathlib import Path
from typing import Any

from workbench.errors import NotFound, VersionsDiffer
from workbench.records import PROTOCOL, Spec
from workbench.search.seeds import trial_seed
from workbench.snapshot import cell, loading, spawned
from workbench.store import Store
from workbench.trial import make_current, seeds, tracebacks
from workbench.trial.course import LegCourse, Order, Place
from workbench.trial.isolation import Baseline
from workbench.trial.kinds import loaded
from workbench.trial.runner import Link
from workbench.trial.trial import LegLeft, Trial
from workbench.trial.vault import Settler, StoreVault
from workbench.trial.wire import Message

BACKEND = "module://workbench.trial.backend"


class Legs:
    """Runs legs one after another in this process. ``own``: the process is a runner, to be arranged and reset."""

    def __init__(self, link: Link, *, own: bool = False) -> None:
        self.link = link
        self._own = own
        self._specs: dict[tuple[str, str], Spec] = {}
        self._settler = Settler()
        self._baseline = Baseline() if own else None
        self._environ = dict(os.environ)
        self._used = False
        self._told: Path | None = None

    def run(self, order: Message) -> Message:
        """Run one leg; the message that says how it was left."""
        begun = time.monotonic()
        left = _Left()
        main = sys.modules["__main__"]
        try:
            if order.get("protocol", PROTOCOL) != PROTOCOL:
                raise VersionsDiffer(
                    f"the worker speaks protocol {order.get('protocol')}, this environment's Workbench {PROTOCOL}. "
                    "Install the same version of Workbench in both."
                )
            self._run(order, left)
        except BaseException as error:  # the outcome tells; nothing of the training code may end the runner
            left.fail(error, order)
        message = left.message(order)
        why = left.why or self._reset()
        if not self._own:
            sys.modules["__main__"] = main
        message |= {"reusable": why is None, "why": why, "seconds": round(time.monotonic() - begun, 6)}
        return message

    def _run(self, order: Message, left: _Left) -> None:
        store = Store(order["store"])
        spec = self._spec(store, order)
        left.filename = spec.program.filename
        if self._own:
            self._arrange(spec)
        main = _fresh_main()
        paths = store.experiment(spec.id).trial(order["trial"])
        wanted = Order.of(order)
        seeds.set_all(spec.seed, wanted.trial)
        namespace, function = fill(store, spec, main)
        if self._own:
            self._announce(store, spec, main, wanted)
        place = Place(namespace, run_code.__code__, environment=_environment)
        vault = StoreVault(paths, wanted.attempt, self._settler)
        course = left.course = LegCourse(wanted, spec.goal, self.link, vault, place, paths.files, spec.checkpoint_s)
        seed = trial_seed(spec.seed, wanted.trial, "loader")
        trial = Trial(course, wanted.trial, wanted.configuration, wanted.max_steps, seed, paths.files)
        make_current(trial)
        try:
            code, arguments = prepare(spec, trial, namespace, function)
            place.hidden = hidden_names(namespace)
            try:
                run_code(code, namespace, arguments)
            except LegLeft as gone:
                left.outcome = gone.outcome
            else:
                left.outcome = course.finish()
        finally:
            make_current(None)

    def _spec(self, store: Store, order: Message) -> Spec:
        key = (str(order["store"]), str(order["experiment"]))
        if key not in self._specs:
            self._specs[key] = store.read_spec(order["experiment"])
        return self._specs[key]

    def _arrange(self, spec: Spec) -> None:
        """Working directory, search path, environment and threads, as the spec has them."""
        training = spec.training
        try:
            os.chdir(training.cwd)
        except OSError as error:
            raise NotFound(
                f"the notebook's folder {training.cwd} cannot be entered on this machine ({error.strerror}). Workers "
                "must see the folder under the same path."
            ) from None
        if training.path:
            sys.path[:] = training.path
        environ = {**self._environ, **training.env, "MPLBACKEND": BACKEND}
        if dict(os.environ) != environ:
            os.environ.clear()
            os.environ.update(environ)
        pyplot = loaded("matplotlib.pyplot")
        if pyplot is not None and not self._used:
            pyplot.switch_backend(BACKEND)
        torch = loaded("torch")
        if torch is not None and torch.get_num_threads() != training.threads:
            torch.set_num_threads(training.threads)
        if torch is not None and spec.deterministic == "strict":
            torch.use_deterministic_algorithms(True)
        if not self._used:
            self._used = True
            self._baseline = Baseline()

    def _announce(self, store: Store, spec: Spec, main: types.ModuleType, order: Order) -> None:
        """Let processes that the training code spawns find the names of this leg."""
        if self._told is None:
            # A file without a name: it goes with this process, and only its children know where it is.
            self._told = Path(f"/proc/{os.getpid()}/fd/{os.memfd_create('workbench')}")
        program = spec.program
        spawned.announce(
            main,
            self._told,
            store=store.root,
            capture=program.capture,
            source=program.source if program.kind == "cell" else "",
            filename=program.filename,
            values=order.configuration,
        )

    def _reset(self) -> str | None:
        if not self._own:
            return "this process is no runner"
        sys.modules["__main__"] = types.ModuleType("__main__")
        assert self._baseline is not None
        return self._baseline.reset()


def fill(store: Store, spec: Spec, main: types.ModuleType) -> tuple[dict[str, Any], Any]:
    """The training code's namespace, filled with what it takes from the notebook; and the function, for one."""
    program = spec.program
    if program.kind == "function" and program.module:
        function = getattr(importlib.import_module(program.module), str(program.entry))
        return function.__globals__, function
    namespace = main.__dict__
    if program.capture is not None:
        loading.load(store, program.capture, namespace)
    return namespace, namespace.get(str(program.entry)) if program.kind == "function" else None


def prepare(
    spec: Spec, trial: Trial, namespace: dict[str, Any], function: Any
) -> tuple[types.CodeType | Any, dict[str, Any] | None]:
    """The code to run and, for a function, the arguments to call it with; the namespace gets what they need."""
    program = spec.program
    tracebacks.show_source(program.filename, program.source)
    if program.kind == "function":
        from workbench.snapshot.function import arguments

        given = arguments(function, trial.configuration)
        return function, {**given, "": trial}
    import workbench

    for name, value in {**cell.supplied(), "wb": workbench}.items():
        namespace.setdefault(name, value)
    namespace["trial"] = trial
    namespace[cell.PICK] = cell.picker(trial.configuration)
    return cell.transform(program.source, program.filename, trial.configuration), None


def hidden_names(namespace: dict[str, Any]) -> frozenset[str]:
    """Names that are ours or given anew to every leg, and so no state."""
    ours = {**cell.supplied(), "trial": None, cell.PICK: None, "wb": None}
    return frozenset(name for name in ours if name in namespace)


def run_code(code: Any, namespace: dict[str, Any], arguments: dict[str, Any] | None) -> None:
    """Run the training code. Its frames lie right above this one: that is how its functions are told from ours."""
    if arguments is None:
        exec(code, namespace)  # noqa: S102 - what this program is for
    else:
        trial = arguments.pop("")
        code(trial, **arguments)


def _fresh_main() -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return main


def _environment() -> dict[str, Any]:
    """What a leg's page says of the place where it trained."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "host": platform.node(),
        "machine": platform.machine(),
        "pid": os.getpid(),
        "device": "cpu",
    }
    for name in ("torch", "numpy"):
        module = loaded(name)
        if module is not None:
            found[name] = str(module.__version__)
    torch = loaded("torch")
    if torch is not None:
        found["threads"] = torch.get_num_threads()
        # Only a GPU that the training code uses already: asking for its name would take hold of it.
        if torch.cuda.is_initialized():
            found["device"] = torch.cuda.get_device_name()
            found["cuda"] = torch.version.cuda
    return found


class _Left:
    """How a leg was left, as it becomes known."""

    def __init__(self) -> None:
        self.course: LegCourse | None = None
        self.outcome = "failed"
        self.filename = ""
        self.error: dict[str, Any] | None = None
        self.why: str | None = None

    def fail(self, error: BaseException, order: Message) -> None:
        course = self.course
        missing = course is not None and course.missing
        self.outcome = "failed"
        self.error = tracebacks.describe(error, self.filename, missing_goal=missing)
        self.why = f"the training code failed ({self.error['type']})"
        print(self.error["traceback"], file=sys.stderr)  # noqa: T201 - into the trial's log
        tracebacks.forget_frames(error)

    def message(self, order: Message) -> Message:
        course = self.course
        if course is not None and self.outcome == "stopped" and course.left is not None:
            reason = course.left.reason
        else:
            reason = ""
        return {
            "op": "left",
            "outcome": self.outcome,
            "step": course.step if course is not None else order.get("start", 0),
            "metrics": course.latest() if course is not None else {},
            "error": self.error,
            "reason": reason,
        }

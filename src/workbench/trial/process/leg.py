"""One leg, from the order to its outcome: surroundings, namespace, seeds, the training code, and how it ended."""

from __future__ import annotations

import builtins
import math
import os
import platform
import secrets
import sys
import time
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from workbench.errors import FolderGone, FolderUnreachable, VersionsDiffer
from workbench.messages import Left, LegOrder, Outcome, Plain
from workbench.records import PROTOCOL, Spec
from workbench.search.seeds import trial_seed
from workbench.snapshot import spawned
from workbench.snapshot.imported import loaded
from workbench.snapshot.settings.settings import Holding
from workbench.snapshot.surroundings.seen import Seen
from workbench.snapshot.surroundings.used import used
from workbench.store import Store
from workbench.store.keeping import remote
from workbench.store.keeping.checkpoints import Skipped
from workbench.trial import iterators, make_current
from workbench.trial.api.heard import listening
from workbench.trial.api.trial import Course, LegLeft, Trial
from workbench.trial.course.apart import Apart, Unseen
from workbench.trial.course.check import CheckVault, Watch
from workbench.trial.course.course import LegCourse
from workbench.trial.course.fork import Fork
from workbench.trial.course.place import Place
from workbench.trial.course.reopened import Reopened, flush
from workbench.trial.course.saver import Vault, When
from workbench.trial.course.setup import Setup
from workbench.trial.course.twin import Twin, TwinCourse
from workbench.trial.course.vault import Settler, StoreVault, Writer
from workbench.trial.generators import kept, seeds
from workbench.trial.process import determinism, devices, tracebacks, view
from workbench.trial.process.ahead import let_go
from workbench.trial.process.crowding import Crowding
from workbench.trial.process.forkserver import made_by_imports, search_path
from workbench.trial.process.isolation import Baseline
from workbench.trial.process.measuring import Measuring
from workbench.trial.process.processes import descendants
from workbench.trial.process.program import fill, hidden_names, prepare, run_code
from workbench.trial.process.runner import Link, Runner, to_log
from workbench.trial.process.script import command_line, ending, in_text
from workbench.trial.process.surroundings import arranged, put
from workbench.trial.process.view import View, arrange
from workbench.trial.profile.waiting import Waiting
from workbench.trial.ranks.link import RankLink
from workbench.trial.ranks.meeting import Ranks
from workbench.trial.ranks.vaults import FirstVault, OtherVault
from workbench.trial.shared.values import Values

#: After this many seconds of a leg, its process is checked again for open or mapped files.
LOOK_AFTER_S = 0.25
#: Checks at the ends of steps take at most this share of the time, at most once in this many seconds.
LOOK_COST, LOOK_EVERY_S = 0.005, 1.0
BACKEND = "module://workbench.trial.process.backend"


class Legs:
    """Runs legs one after another in this process. ``own``: the process is a runner, which may be set up and reset."""

    def __init__(self, link: Link, *, own: bool = False) -> None:
        self.link = link
        self._own = own
        self._specs: dict[tuple[str, str], tuple[Store, Spec]] = {}
        self._settler = Settler()
        #: In a process that is not a runner everything happens in one thread.
        self._writer = Writer() if own else None
        self._baseline = Baseline() if own else None
        self._sight = Sight() if own else None
        self._unseen: Unseen = nullcontext if self._sight is None else self._sight.seen.passing
        self._environ = dict(os.environ)
        self._is_first = True
        self._held: Holding | None = None
        #: The variables of an experiment with these of its legs alone.
        self._arranged: tuple[str, Mapping[str, str], dict[bytes, bytes]] | None = None
        self._told: Path | None = None

    def run(self, order: LegOrder) -> Left:
        """Run one leg; the message that says how it ended."""
        left = _Left()
        main, words = sys.modules["__main__"], sys.argv
        try:
            if order.protocol != PROTOCOL:
                raise VersionsDiffer(
                    f"the worker speaks protocol {order.protocol}, this environment's Workbench {PROTOCOL}. "
                    "Install the same version of Workbench in both."
                )
            self._run(order, left)
        except BaseException as error:  # the outcome reports it; no error of the training code may end the runner
            left.fail(error)
        message = left.message(order)
        why = left.why or self._reset()
        if not self._own:
            sys.modules["__main__"], sys.argv = main, words
        peak = devices.peak_memory() if self._own else None
        return replace(message, reusable=why is None, why=why, seconds=left.seconds, device_peak=peak)

    def _run(self, order: LegOrder, left: _Left) -> None:
        store, spec = self._known(order)
        left.filename = spec.program.filename
        seed, number = spec.seeds_of(order.trial)
        # Processes are forked from one another: without any seed their numbers would be the same.
        drawn = secrets.randbits(63) if self._own and spec.deterministic == "off" else seed
        experiment, ranks, alone = store.experiment(spec.id), None, order.secrets
        paths = experiment.trial(order.trial)
        if order.rank is not None:
            # A check may train beside the trial that it checks.
            own = paths if order.check is None else experiment.check(order.trial)
            ranks = Ranks(order.rank, own.ranks, is_elastic=order.is_gang, strategy=spec.strategy)
            drawn = ranks.meet(spec.program.source, drawn)
            alone = {**alone, **ranks.variables}
        sys.argv = command_line(spec.program, order.configuration)
        shown = View()
        if self._own:
            shown = arrange(order.back, spec.training.cwd)
            self._arrange(spec, alone, shown.where)
        main = _fresh_main()
        if self._sight is not None:
            self._sight.begin(store, shown.copies)
        if self._own:
            devices.share.begin(order.parts)
        is_strict = self._own and spec.deterministic == "strict"
        seeds.set_all(drawn, number, is_strict=is_strict, imported=self._imported, of_packages=self._own)
        says = lambda words: left.course.says(words) if left.course else None  # noqa: E731
        crowding = Crowding(order.slots, experiment.crowded, says, order.parts)
        reports = lambda: left.course is not None and bool(left.course.reports.history)  # noqa: E731
        waiting = Waiting(order.slots, experiment.starved, says, reports)
        iterators.watch(crowding.look, waiting)
        if isinstance(self.link, Runner):
            self.link.watch(waiting.so_far)
        namespace, function = fill(store, spec, main)
        if self._own:
            self._announce(store, spec, main, order)
        place = Place(namespace, run_code.__code__, environment=_environment, modules=self._own)
        place.begins = partial(self._begins, place, crowding, waiting, is_strict=is_strict)
        if self._sight is not None:
            place.back = shown.told()
            place.seen, place.stepped = self._sight.first, self._sight.step
        if self._own and order.check is None and ranks is None:
            self._measure(place, left, at_once=spec.packs)
        vault = self._vault(store, spec, order)
        link, when = self.link, When.of(spec)
        if order.check is not None:
            remote.at_hand(store, spec, order.trial, order.start or None)
            aside = experiment.check(order.trial)
            vault, paths, when = CheckVault(paths, aside, order.start, order.check.keeps), aside, When(math.inf)
            place.compares = True
            if self._own:
                link = left.watch = Watch(self.link, store.root, paths, self._unseen)
        files = paths.files
        if ranks is not None:
            link, vault = RankLink(link, ranks), FirstVault(vault, ranks) if ranks.is_first else OtherVault(ranks)
            files = files if ranks.is_first else paths.rank_files(ranks.rank.index)
        fork = Fork.of(store, spec)

        def train(course: Course) -> None:
            # A trial that is trained again gets the number of the one that it repeats.
            loader = trial_seed(seed, number, "loader")
            seen = self._sight.seen if self._sight is not None else None
            # Only a runner sees which files are read, and so when a result must be made again.
            values = Values(store, spec.id, main.__dict__, seen, copies=shown.copies, writes=self._own)
            trial = Trial(course, number, order.configuration, order.max_steps, loader, files, values)
            make_current(trial)
            code, arguments = prepare(spec, trial, namespace, function)
            place.hidden = hidden_names(namespace)
            with ending(spec.program), listening(spec.program, spec.goal.metric, trial):
                run_code(code, namespace, arguments)

        second = None
        if spec.verify and self._is_first and self._own and order.check is None and (not ranks or ranks.may_run_twice):
            second = partial(
                self._second, (str(store.root), str(files)), place, train, () if ranks is None else ranks.descriptors
            )
        setup = Setup(experiment, second, ranks)
        self._is_first = False
        course = left.course = LegCourse(
            order, spec.goal, link, vault, place, files, when, self._writer, fork, setup,
            waiting.without(partial(self._following, store, spec, left, place)), ranks,
        )  # fmt: skip
        if isinstance(vault, FirstVault):
            vault.tell_resumes()
        if self._own and order.check is None and ranks is None:
            reopened = Reopened(paths, str(files), store.root, self._unseen, trained=course.has_trained)
            place.made, place.lost = reopened.put_back, reopened.tables.lost
        try:
            try:
                train(course)
            except LegLeft as gone:
                left.outcome = cast(Outcome, gone.outcome)  # other outcomes are those of an export, where no leg trains
            else:
                left.outcome = cast(Outcome, course.finish())
            if ranks is not None:
                ranks.close()
        finally:
            make_current(None)
            if ranks is not None:
                ranks.forget()
            iterators.watch()
            if isinstance(self.link, Runner):
                self.link.watch(None)
            setup.close()
            if self._sight is not None:
                left.seen = self._sight.last()  # while the names of the leg still keep its files open
            if self._writer is not None:
                self._writer.wait()

    def _begins(self, place: Place, crowding: Crowding, waiting: Waiting, *, is_strict: bool) -> None:
        """A set-up is done."""
        place.made(True)
        if is_strict:
            determinism.hold_again()
        if self._sight is not None:
            crowding.look_at_files(self._sight.seen.passed_on())
        waiting.begin()

    def _measure(self, place: Place, left: _Left, *, at_once: bool) -> None:
        """Measure what the leg uses, and tell the engine."""
        measuring = Measuring(self.link.send, lambda: left.course.step if left.course else 0, at_once=at_once)
        stepped = place.stepped

        def both() -> None:
            stepped()
            measuring.stepped()

        place.turns, place.stepped = measuring.begin, both

    def _imported(self) -> None:
        """Training code has imported something."""
        if self._held is not None:
            self._held.imported()
        iterators.torch_imported()
        devices.share.torch_imported()

    def _vault(self, store: Store, spec: Spec, order: LegOrder) -> Vault:
        fetch = partial(_fetch, store, spec, order) if spec.storage else None
        paths = store.experiment(spec.id).trial(order.trial)
        return StoreVault(paths, order.attempt, self._settler, order.start, fetch)

    def _following(
        self, store: Store, spec: Spec, left: _Left, place: Place, message: Left
    ) -> tuple[LegOrder, Vault] | None:
        """Send ``message``, the end of a leg at its level, and wait for the trial's next leg: its order, and its
        checkpoints."""
        if not isinstance(self.link, Runner):
            return None
        seen = self._sight.last() if self._sight is not None else None
        order = self.link.wait(replace(message, seen=seen, seconds=left.seconds, device_peak=devices.peak_memory()))
        if order is None:
            return None
        left.begun = time.monotonic()
        if self._sight is not None:
            place.seen = self._sight.again
        return order, self._vault(store, spec, order)

    def _second(
        self, folders: tuple[str, str], place: Place, train: Callable[[Course], None], others: Sequence[int], lock: int
    ) -> Twin:
        """A second run of the set-up, forked now. Only in a process that has not trained yet: it has no threads.

        folders: the store's, and the trial's own files. lock: a descriptor that the second run closes, so that a killed
        first run leaves its lock at once; like others.
        """
        apart = partial(Apart, folders=folders, unseen=self._unseen)
        closed = (lock, *others, *([self.link.connection.fileno()] if isinstance(self.link, Runner) else ()))
        return Twin(lambda tell: train(TwinCourse(place, tell)), closed, apart)

    def _known(self, order: LegOrder) -> tuple[Store, Spec]:
        key = (order.store, order.experiment)
        if key not in self._specs:
            store = Store(order.store)
            self._specs[key] = store, store.read_spec(order.experiment)
        return self._specs[key]

    def _arrange(self, spec: Spec, alone: Mapping[str, str], folder: str) -> None:
        """Set working directory, search path, environment, settings and threads as the spec says.

        alone: variables that only legs have. folder: the notebook's, or its replacement.
        """
        training = spec.training
        try:
            os.chdir(folder)
        except OSError as error:
            is_gone = isinstance(error, FileNotFoundError | NotADirectoryError)
            raise (FolderGone if is_gone else FolderUnreachable)(
                f"the notebook's folder {training.cwd} cannot be entered on this machine ({error.strerror}). Workers "
                "must see the folder under the same path."
            ) from None
        if training.path:
            if self._held is None:
                let_go(training.path, search_path)
            sys.path[:] = training.path
        if self._arranged is None or self._arranged[:2] != (spec.id, alone):
            own = {**alone, "MPLBACKEND": BACKEND}
            wanted = {**made_by_imports, **arranged(training, self._environ), **own}
            coded = {os.fsencode(name): os.fsencode(value) for name, value in wanted.items()}
            self._arranged = (spec.id, alone, coded)
        put(self._arranged[2])
        pyplot = loaded("matplotlib.pyplot")
        if pyplot is not None and self._held is None:
            pyplot.switch_backend(BACKEND)
        if self._held is None:
            self._held = Holding(training.settings, training.threads)
            self._baseline = Baseline()

    def _announce(self, store: Store, spec: Spec, main: types.ModuleType, order: LegOrder) -> None:
        """Let processes that the training code spawns find the names of this leg."""
        if self._told is None:
            # An anonymous file: it disappears with this process, and only its children know its path.
            self._told = Path(f"/proc/{os.getpid()}/fd/{os.memfd_create('workbench')}")
        program = spec.program
        spawned.announce(
            main,
            self._told,
            store=store.root,
            capture=program.capture,
            overlays=program.overlays,
            source="" if program.kind == "function" else program.source,
            filename=program.filename,
            values=in_text(program, order.configuration),
            is_script=program.kind == "script",
            module=program.module,
            seen=self._sight.seen.file if self._sight is not None else None,
        )

    def _reset(self) -> str | None:
        if not self._own:
            return "this process is not a runner"
        sys.modules["__main__"] = types.ModuleType("__main__")
        assert self._baseline is not None
        return kept.end() or self._baseline.reset()


def _fetch(store: Store, spec: Spec, order: LegOrder, after: int, most: int) -> list[Skipped]:
    patience = remote.PATIENCE_S
    return remote.bring(store, spec, order.trial, after=after, most=most, attempt=order.attempt, patience_s=patience)


def _fresh_main() -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return main


def _environment() -> dict[str, Any]:
    """What a leg's page shows about where it trained."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "host": platform.node(),
        "machine": platform.machine(),
        "pid": os.getpid(),
        "device": "cpu",
    }
    for name in ("torch", "numpy"):
        if (module := loaded(name)) is not None:
            found[name] = str(module.__version__)
    torch = loaded("torch")
    if torch is not None:
        found["threads"] = torch.get_num_threads()
        # Only a GPU that the training code already uses: asking for its name would initialise it.
        if torch.cuda.is_initialized():
            found["device"] = torch.cuda.get_device_name()
            found["cuda"] = torch.version.cuda
    return found


class Sight:
    """What a runner sees of the files that its legs read and of their other inputs, as messages report it."""

    def __init__(self) -> None:
        self.seen, self._used, self._snapshots = Seen(), used(), ""
        self._began = 0.0
        #: The time of the next check at the end of a step.
        self._next = 0.0
        self._looked = False
        self._told: Plain | None = None
        self._copies: dict[str, str] = {}

    def begin(self, store: Store, copies: Mapping[str, str]) -> None:
        """Start a leg. copies: by path, the copies that replace files which have changed since."""
        self.seen.begin(store.root, {os.path.realpath(copy): file for file, copy in copies.items()})
        self._copies = {file: os.path.realpath(copy) for file, copy in copies.items()}
        self._snapshots = os.path.join(os.path.realpath(store.snapshots), "")
        self._began, self._told = time.monotonic(), None
        self._next = self._began + LOOK_EVERY_S

    def first(self) -> Plain:
        """What was read before its loop started."""
        self._look()
        return self.again()

    def again(self) -> Plain:
        """What was read so far, for the trial's next leg in this process."""
        self._told = self._now()
        return {**self._told, **self._loaded()}

    def last(self) -> Plain | None:
        """What was read until it ended, if that is more than was reported. What it wrote is in the files then."""
        if self.seen.writes:
            flush()
        self._look()
        found, loaded = self._now(), self._loaded()
        return {**found, **loaded} if found != self._told or loaded else None

    def step(self) -> None:
        """A step has ended: sometimes check again, for readers that keep a file open only briefly."""
        if time.monotonic() >= self._next:
            self._look()

    def _look(self) -> None:
        # A check costs as much as a very short leg, which therefore has one per process.
        begun = time.monotonic()
        if not self._looked or begun - self._began > LOOK_AFTER_S:
            self._looked = True
            self.seen.look(descendants(os.getpid(), but=Twin.alive))
            now = time.monotonic()
            self._next = now + max(LOOK_EVERY_S, (now - begun) / LOOK_COST)

    def _loaded(self) -> Plain:
        return {"loaded": loaded} if (loaded := self._used.loaded()) else {}

    def _now(self) -> Plain:
        used = self._used.told(self._snapshots)
        # Code of the project of which there is no copy is read from the disk, as data is.
        self.seen.note(told[0] for name, told in used["modules"].items() if told and name in sys.modules)
        paths, beyond = self.seen.told()
        # Not those that were imported in advance, for other cells of the notebook.
        around = self.seen.around({*used["packages"], *used["modules"]})
        told = {"paths": paths, "beyond": beyond, **around, **self.seen.written(), **used}
        told |= {**self.seen.listed(), **self.seen.looked_up(), "marks": self.seen.marks(paths)}
        read = {path: copy for path, copy in self.seen.copied.items() if path not in view.covered}
        copies = {**self._copies, **read}
        behind = {path: copies[path] for path in paths if path in copies and self._is_copy(path)}
        return {**told, "copies": behind} if behind else told

    def _is_copy(self, path: str) -> bool:
        """Whether the copy was read at ``path``: an absolute path bypasses a folder of links."""
        return path in view.covered or not self.seen.has_read(path)


class _Left:
    """How a leg ended, as it becomes known."""

    def __init__(self) -> None:
        #: When the leg began (monotonic seconds).
        self.begun = time.monotonic()
        self.course: LegCourse | None = None
        self.watch: Watch | None = None
        self.seen: Plain | None = None
        self.outcome: Outcome = "failed"
        self.filename = ""
        self.error: dict[str, Any] | None = None
        self.why: str | None = None

    def fail(self, error: BaseException) -> None:
        course = self.course
        missing = course is not None and course.missing
        self.outcome = "failed"
        if course is not None:
            course.give_up()
        self.error = tracebacks.describe(error, self.filename, missing_goal=missing)
        self.why = f"the training code failed ({self.error['type']})"
        to_log(self.error["traceback"], is_error=True)
        tracebacks.forget_frames(error)

    @property
    def seconds(self) -> float:
        """How long the leg has taken."""
        return round(time.monotonic() - self.begun, 6)

    def message(self, order: LegOrder) -> Left:
        course = self.course
        if course is not None and self.outcome == "stopped" and course.left is not None:
            reason = course.left.reason
        else:
            reason = ""
        preempted = course is not None and course.preempted
        return Left(
            outcome="died" if preempted else self.outcome,
            cause="preempted" if preempted else None,
            step=course.left_at if course is not None else order.start,
            metrics=course.latest() if course is not None else {},
            error=self.error,
            reason=reason,
            seen=None if self.watch is not None else self.seen,
            touched=None if self.watch is None else self.watch.touched(),
        )

"""Training again, for the user: replays and repeats, with starting, waiting and results."""

from __future__ import annotations

import contextlib
import html
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from workbench.errors import TrialFailed
from workbench.experiment.experiment import Experiment
from workbench.experiment.trial import Trial
from workbench.records import Json
from workbench.replay import Prepared
from workbench.status.waiting import LOOK_S
from workbench.store import Store
from workbench.store.lists.catalog import Reference

if TYPE_CHECKING:
    from workbench.records import Spec

#: Seconds that an engine may take from an experiment's end to its verdict; after that it is computed here.
_VERDICT_S = 10.0


class Again:
    """An experiment that trains something again, and its result. ``experiment`` is its handle."""

    #: The key under which the engine stores the result.
    kind = "replay"

    def __init__(self, store: Store, made: Prepared) -> None:
        self.experiment = Experiment.of(store, made.spec.id)
        #: What differs from the original, in words; known before anything trains.
        self.notes = made.notes
        self._found: dict[str, Json] | None = None

    def start(self) -> None:
        """Have the engine start it."""
        self.experiment.start()

    def wait(self, timeout: float | None = None) -> Again:
        """Wait until it ends. An interrupt leaves it running. Raises TimeoutError."""
        try:
            self.experiment.wait(timeout)
        except TrialFailed:
            pass  # the verdict says so
        self._found = self._concluded()
        return self

    @property
    def is_ended(self) -> bool:
        """True once there is nothing more to train."""
        return self.experiment.is_ended

    def _concluded(self) -> dict[str, Json]:
        return concluded(self.experiment, self.kind)

    def to_dict(self) -> dict[str, Json]:
        """Its result as plain data; empty before it has ended."""
        if self._found is None and self.is_ended:
            self._found = self._concluded()
        return {**(self._found or {}), "label": self.experiment.label, "notes": list(self.notes)}

    @property
    def words(self) -> str:
        """Its result, in a line."""
        return str(self.to_dict().get("words") or f"{self.experiment.label} is {self.experiment.state}")

    def __repr__(self) -> str:
        return "\n".join([f"{self.experiment.label}: {self.words}", *(f"  {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        notes = "".join(f"<div style='opacity:.65'>{html.escape(note)}</div>" for note in self.notes)
        return f"<div><b>{html.escape(self.experiment.label)}</b> {html.escape(self.words)}{notes}</div>"


class Replay(Again):
    """A trial trained again with its own seeds."""

    @property
    def verdict(self) -> str | None:
        """*identical*, *within tolerance*, *parts* or *failed*; None before it has ended. The goal decides; the words
        name other metrics that differ, such as a time."""
        verdict = self.to_dict().get("verdict")
        return None if verdict is None else str(verdict)

    @property
    def parts_at(self) -> int | None:
        """The first step at which a value that decides differs; None if none does."""
        step = self.to_dict().get("parts_at")
        return None if step is None else int(step)


class Repeats(Again):
    """A trial's configuration trained with other seeds; seeds already trained are not trained again."""

    kind = "repeat"

    def __init__(self, store: Store, made: Prepared) -> None:
        super().__init__(store, made)
        self._spec = made.spec
        self._others = [Experiment.of(store, one) for one in made.reuses if one != made.spec.id]

    def start(self) -> None:
        """Have the engine start it, and also experiments that train some of its seeds already."""
        for one in (*self._others, self.experiment):
            one.start()

    def wait(self, timeout: float | None = None) -> Again:
        """Wait until it ends. An interrupt leaves it running. Raises TimeoutError."""
        for one in self._others:
            with contextlib.suppress(TrialFailed):
                one.wait(timeout)
        return super().wait(timeout)

    @property
    def is_ended(self) -> bool:
        """True once there is nothing more to train."""
        return all(one.is_ended for one in (*self._others, self.experiment))

    def _concluded(self) -> dict[str, Json]:
        """Computed here: the engine's result covers only what had been trained by then."""
        from workbench.compare.verdict import conclusion

        return conclusion(self.experiment.store, self._spec)[self.kind]

    @property
    def mean(self) -> float | None:
        """The mean of the goal over the seeds."""
        mean: float | None = self.to_dict().get("mean")
        return mean

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean; None for fewer than two seeds, and where all gave the same bits."""
        found = self.to_dict()
        return None if found.get("low") is None else (float(found["low"]), float(found["high"]))


def concluded(experiment: Experiment, kind: str) -> dict[str, Json]:
    """The result that the engine stored for an ended experiment; computed here if the engine did not."""
    from workbench.compare.verdict import conclusion
    from workbench.store.series import Series

    path = experiment.store.experiment(experiment.id).series
    deadline = time.monotonic() + _VERDICT_S
    while time.monotonic() < deadline:
        if path.exists():
            with Series.read(path) as series:
                kept: dict[str, Json] | None = series.meta().get(kind)
            if kept is not None:
                return kept
        time.sleep(LOOK_S)
    return conclusion(experiment.store, experiment.spec)[kind]


def replay(
    ref: str | Trial | Experiment,
    *,
    env: str = "same",
    tolerance: float | None = None,
    wait: bool = True,
    store: str | Store | None = None,
    trust: bool = False,
) -> Replay:
    """Train a trial (of an experiment, its best) again from step 0 with its own code, data references and seeds.

    env: ``same`` (the current environment; differences are reported), ``rebuild`` (a virtual environment with the
    recorded versions), or an interpreter. tolerance: relative difference up to which values count as within tolerance.
    A published experiment (``~/public/digits#t0007``, or an experiment that was opened there) is first imported into
    ``store``; trust: trust its author. Raises NotFound if recorded files are gone, Untrusted.
    """
    from workbench.replay import replay as prepare

    place, reference = referred(ref, store, trust=trust)
    made = Replay(place, prepare(place, reference, env=env, tolerance=tolerance))
    made.start()
    if wait:
        made.wait()
    return made


def repeat(
    ref: str | Trial | Experiment, seeds: int = 5, *, wait: bool = True, store: str | Store | None = None
) -> Repeats:
    """Train a trial's configuration with this many other seeds: mean and 95 % interval of its goal.

    A seed that was trained before counts, and is not trained again, if all that it depends on is unchanged.
    Comparisons of the trial then say whether a difference is within noise.
    """
    from workbench.replay import repeat as prepare

    place, reference = referred(ref, store)
    made = Repeats(place, prepare(place, reference, seeds))
    made.start()
    if wait:
        made.wait()
    return made


def referred(
    ref: str | Trial | Experiment, store: str | Store | None, *, trust: bool = False
) -> tuple[Store, str | Reference]:
    """The store in which it can be trained, and the trial or experiment there; a published one is imported."""
    from workbench.experiment.published import at_home, found

    home = store if isinstance(store, Store) else Store.find(store)
    if isinstance(ref, Trial):
        experiment = ref.experiment
        meant = experiment.store, Reference(experiment.id, experiment.label, ref.number)
    elif isinstance(ref, Experiment):
        meant = ref.store, Reference(ref.id, ref.label)
    elif (publication := found(ref)) is not None:
        meant = publication
    else:
        return home.check(), ref
    if not meant[0].published.exists():
        return meant
    meant[0].trusted = meant[0].trusted or trust
    return at_home(*meant, home)


def nightly(
    store: Store, since: str, say: Callable[[str], None], *, env: str = "same", tolerance: float | None = None
) -> list[dict[str, Json]]:
    """Replay the best trial of every experiment that was created since a date (``2026-11-01``) and has ended.

    One after the other; ``say`` gets a line for each. Those that cannot be replayed are in the answer as *refused*.
    """
    from workbench.errors import WorkbenchError

    found: list[dict[str, Json]] = []
    for spec in _created_since(store, since):
        experiment = Experiment.of(store, spec.id)
        if not experiment.is_ended:
            continue
        told: dict[str, Any] = {"experiment": spec.id, "label": experiment.label}
        try:
            made = replay(experiment, env=env, tolerance=tolerance)
            told |= {**made.to_dict(), "label": experiment.label, "replay": made.experiment.label}
        except WorkbenchError as error:
            told |= {"verdict": "refused", "words": f"refused: {error}"}
        found.append(told)
        say(f"{experiment.label}: {told['words']}")
    return found


def _created_since(store: Store, since: str) -> list[Spec]:
    from workbench.errors import StoreError

    specs = []
    for one in store.experiment_ids():
        try:
            spec = store.read_spec(one, viewing=True)
        except StoreError:
            continue  # damaged; doctor reports it
        if spec.created >= since and not (spec.replays or spec.repeats or spec.puts_back):
            specs.append(spec)
    return specs

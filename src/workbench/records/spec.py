"""The spec of an experiment: all that defines it. Law: data only; the specs of later versions are refused by number."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from workbench.errors import NewerSchema
from workbench.records.settings import Argument, Goal, Json, Keep, Program, Scheduler, Searcher, Training

#: Number of the spec, journal and manifest formats this version writes. Older ones are read; newer ones are refused.
SCHEMA = 1

#: Marks an option that changes no result: the same content with another value shows the earlier result.
BESIDE = {"beside": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The options of a search that a spec keeps as they were chosen. Law: each is declared here, once; a spec, a launch
    and a train cell's options inherit it."""

    #: How many configurations; None: the scheduler decides.
    trials: int | None = None
    #: With how many seeds each configuration is trained.
    seeds_each: int = 1
    #: The maximum number of slots.
    parallel: int | None = field(default=None, metadata=BESIDE)
    #: Its share of contended slots relative to other experiments of the same priority; a higher priority comes first.
    weight: float = field(default=1.0, metadata=BESIDE)
    priority: int = field(default=0, metadata=BESIDE)
    #: Seconds after which the search is stopped.
    limit_s: float | None = field(default=None, metadata=BESIDE)
    #: Slots of one trial: a whole number, or a fraction of one; and whether several have copies or shards of a model.
    slots: float = 1
    strategy: Literal["replicate", "fsdp"] = "replicate"
    seed: int = 0
    deterministic: Literal["off", "seeded", "strict"] = "seeded"
    #: Seconds without a report after which a trial counts as hung; None: learned.
    hang_s: float | None = field(default=None, metadata=BESIDE)
    #: Seconds in which a trial's first step must have begun; None: there is no limit.
    setup_limit_s: float | None = field(default=None, metadata=BESIDE)
    #: Whether the first promotion is checked against an undisturbed turn.
    verify: bool = field(default=True, metadata=BESIDE)
    #: Which checkpoints are kept, until the user sets another rule.
    keep: Keep = field(default_factory=Keep, metadata=BESIDE)
    #: Rules of which the user wants to be notified.
    alerts: tuple[str, ...] = field(default=(), metadata=BESIDE)
    #: The URL to which checkpoints are copied; it may contain a secret.
    storage: str | None = field(default=None, metadata=BESIDE)
    #: Other programs that show each trial as a run while it trains (see ``store.mirrors``).
    mirror: tuple[Json, ...] = field(default=(), metadata=BESIDE)
    #: The maximum size in bytes at which a file that training reads is kept by content; 0 keeps none.
    keep_data: int = field(default=50_000_000, metadata=BESIDE)

    @property
    def per_slot(self) -> int:
        """How many trials may train in one slot at the same time: 4 for a quarter of a slot each."""
        # A little is added because of the last bit: 1 / (1 / 49) is less than 49.
        return 1 if self.slots >= 1 else int(1 / self.slots + 1e-9)

    def recorded(self) -> dict[str, Any]:
        """These options by name."""
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(Recorded)}


@dataclass(frozen=True, slots=True)
class Spec(Recorded):
    """Everything that defines an experiment; written once as ``spec.json``.

    space: the space as ``space.Space.to_json()``. content: fingerprint by which running the same cell again reattaches.
    probe: the other trials start after the first trial's first report. checkpoint_s: minimum seconds between
    checkpoints that lie between levels, less in a leg's first seconds; they take at most a hundredth of the time.
    save_s, save_steps: exact seconds or steps between them instead, if the user set them. grace_s: how long a stopped
    trial may take before it is killed.
    max_restarts: failures caused by the trial itself, without a newer checkpoint in between, before it fails finally.
    seeds: for the first trials, the experiment's seed and the trial's number from which their seeds come, if not their
    own. max_steps: the length of a trial as its training code sees it, if only a part of it is trained. replays,
    repeats: the trial (``experiment``, ``trial``) that is trained again, with the same seeds or with others. puts_back:
    which differences between two trials are put back. parent: for a fork, the checkpoint from which its trials start
    (``experiment``, ``trial``, ``step``, ``digest``, ``label``), the parent's ``configuration``, and the ``seeds`` of
    its set-up. notify: where notifications go (``webhook``, ``command``, ``on``). since: differences from an earlier
    version in what training depends on, besides code, values and settings: that version's ``experiment`` and the
    ``differences``. data_back: files that have changed since, by path, with the content that training sees (``kept``, a
    blob, and files ``beside`` it by the suffix of their names). slots_least: the fewest slots of one trial, if it may
    train on up to ``slots``. packs: as many trials share a slot as one's measured needs allow. sizes: for a trial that
    is trained again, the steps from which it had so many slots.
    """

    id: str
    name: str
    version: int
    created: str
    goal: Goal
    space: Json
    scheduler: Scheduler
    searcher: Searcher
    program: Program
    training: Training
    snapshot: str | None = None
    content: str = ""
    typed: str = ""
    expanded: str = ""
    notebook: str | None = None
    probe: bool = True
    checkpoint_s: float = 0.2
    save_s: float | None = None
    save_steps: int | None = None
    grace_s: float = 0.25
    max_restarts: int = 2
    seeds: tuple[tuple[int, int], ...] = ()
    max_steps: int | None = None
    replays: Json = None
    repeats: Json = None
    puts_back: Json = None
    parent: Json = None
    notify: Json = None
    since: Json = None
    data_back: dict[str, Json] = field(default_factory=dict)
    slots_least: int | None = None
    packs: bool = False
    sizes: tuple[tuple[int, int], ...] = ()
    launched: Json = None
    schema: int = SCHEMA

    @property
    def length(self) -> int:
        """Steps of a whole trial as its training code sees them."""
        return self.max_steps or self.scheduler.last

    @property
    def base(self) -> int:
        """The step at which its trials start: 0, or a fork's."""
        return int(self.parent["step"]) if self.parent else 0

    @property
    def is_elastic(self) -> bool:
        """Whether the legs of a trial may have different numbers of slots."""
        return self.slots_least is not None or bool(self.sizes)

    @property
    def slots_words(self) -> str:
        """The slots of one trial as the option writes them: ``4``, ``2-8`` or ``auto``."""
        least = "" if self.slots_least is None else f"{self.slots_least}-"
        return "auto" if self.packs else f"{least}{self.slots:g}"

    def seeds_of(self, trial: int) -> tuple[int, int]:
        """The experiment's seed and the trial's number from which the seeds of ``trial`` come."""
        if trial < len(self.seeds):
            return self.seeds[trial]
        if self.parent and self.parent.get("seeds"):
            seed, number = self.parent["seeds"]
            return int(seed), int(number)
        return self.seed, trial

    @property
    def label(self) -> str:
        """``name@version``, as shown to users."""
        return f"{self.name}@{self.version}"

    def to_json(self) -> dict[str, Json]:
        """Plain data for ``spec.json``."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Spec:
        """The inverse of :meth:`to_json`. Raises NewerSchema for a spec written by a later Workbench."""
        check_schema(data, "this experiment")
        known = {f.name for f in dataclasses.fields(cls)}
        fields = {key: value for key, value in data.items() if key in known}
        training = dict(fields["training"])
        training["path"] = tuple(training.get("path", ()))
        training["preload"] = tuple(training.get("preload", ()))
        fields["goal"] = Goal(**fields["goal"])
        fields["scheduler"] = Scheduler(**fields["scheduler"])
        fields["searcher"] = Searcher.from_json(fields["searcher"])
        program = dict(fields["program"])
        program["overlays"] = tuple((digest, tuple(names)) for digest, names in program.get("overlays") or ())
        program["arguments"] = tuple(Argument(**one) for one in program.get("arguments") or ())
        program["metrics"] = tuple(program.get("metrics") or ())
        fields["program"] = Program(**program)
        fields["training"] = Training(**training)
        fields["seeds"] = tuple((seed, trial) for seed, trial in fields.get("seeds") or ())
        fields["keep"] = Keep(**(fields.get("keep") or {}))
        fields["alerts"] = tuple(fields.get("alerts", ()))
        fields["mirror"] = tuple(fields.get("mirror") or ())
        fields["sizes"] = tuple((step, slots) for step, slots in fields.get("sizes") or ())
        return cls(**fields)


def check_schema(data: Mapping[str, Json], what: str, known: int = SCHEMA) -> None:
    """Raise NewerSchema for data written by a later Workbench; data without a number counts as schema 1."""
    found = int(data.get("schema", 1))
    if found > known:
        raise NewerSchema(
            f"{what} has schema {found}; this Workbench knows up to {known}. Upgrade Workbench to open it."
        )

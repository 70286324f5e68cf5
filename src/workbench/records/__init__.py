"""Data that passes between rooms: states, settings and names. Law: data only; no clock, no file, no decision."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from workbench.errors import BadOption, NewerSchema

#: Number of the spec, journal and manifest formats this version writes. Older ones are read; newer ones are refused.
SCHEMA = 1
#: Number of the engine–worker–runner protocol; both sides exchange it before anything else.
PROTOCOL = 10

Json = Any
Metrics = dict[str, float]
Configuration = dict[str, Any]

# ---------------------------------------------------------------------------------------------------------------------
# States


TrialState = Literal["waiting", "running", "paused", "stopping", "completed", "stopped", "failed"]
ExperimentState = Literal["waiting", "running", "paused", "stopping", "completed", "stopped", "failed"]

#: The only transitions out of an ended state, of trials and of experiments: the search was extended.
BY_EXTENSION: frozenset[tuple[str, str]] = frozenset(
    {
        *(("completed", "running"), ("stopped", "paused")),  # trials
        *(("completed", "waiting"), ("stopped", "waiting"), ("failed", "waiting")),  # experiments
    }
)
#: Legal transitions of a trial. *paused*: it holds no slot and waits at a rung (or for the user).
LEGAL_TRIAL: frozenset[tuple[str, str]] = frozenset(
    {
        *(("waiting", state) for state in ("running", "paused", "stopped")),
        ("running", "waiting"),  # its leg was lost; it waits for a slot to continue
        ("running", "paused"),
        ("running", "stopping"),
        ("running", "completed"),
        ("running", "stopped"),  # it left at a turn where the scheduler had already stopped it
        ("running", "failed"),
        ("paused", "running"),
        ("paused", "stopped"),
        ("paused", "completed"),
        ("stopping", "stopped"),
        ("stopping", "completed"),  # it completed before the order arrived
        ("stopping", "failed"),
        ("completed", "running"),  # the search was extended
        ("stopped", "paused"),
    }
)
#: Legal transitions of an experiment.
LEGAL_EXPERIMENT: frozenset[tuple[str, str]] = frozenset(
    {
        ("waiting", "running"),
        ("waiting", "paused"),
        ("waiting", "stopping"),
        ("waiting", "completed"),  # it was extended, but nothing was left to train
        ("waiting", "stopped"),
        ("waiting", "failed"),
        ("running", "waiting"),  # other engines of this machine hold all slots
        ("running", "paused"),
        ("running", "stopping"),
        ("running", "completed"),
        ("running", "stopped"),  # the user had stopped its trials one by one
        ("running", "failed"),
        ("paused", "running"),
        ("paused", "waiting"),
        ("paused", "stopping"),
        ("paused", "completed"),  # its last legs completed instead of pausing
        ("paused", "stopped"),
        ("paused", "failed"),
        ("stopping", "stopped"),
        ("stopping", "completed"),
        ("stopping", "failed"),
        ("stopping", "running"),  # it was extended before its last legs had left
        ("stopping", "waiting"),
        ("stopping", "paused"),
        ("completed", "waiting"),  # it was extended
        ("stopped", "waiting"),
        ("failed", "waiting"),
    }
)
#: States that a trial or an experiment leaves only if its search is extended.
ENDED: frozenset[str] = frozenset({"completed", "stopped", "failed"})
#: What viewers show for a trial that runs, and whose first step has not started, if that takes seconds.
SETTING_UP = "setting up"
#: What lists show for an experiment with invalid files. It has no state, and cannot be continued.
UNREADABLE = "unreadable"

# ---------------------------------------------------------------------------------------------------------------------
# Values of a metric


def plain_value(value: float | None) -> float | str | None:
    """A metric's value for JSON, which lacks nan and infinities: they become the words nan, inf and -inf."""
    if value is None or math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def value_of(plain: float | str | None) -> float | None:
    """The inverse of :func:`plain_value`."""
    return None if plain is None else float(plain)


# ---------------------------------------------------------------------------------------------------------------------
# Settings


#: Means "all of them" where a number is expected.
MANY = 1_000_000
#: Characters up to which given configurations are shown in full.
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Goal:
    """The metric that ranks trials, and which way is better."""

    metric: str
    mode: Literal["max", "min"] = "max"

    def better(self, value: float, than: float) -> bool:
        """True if ``value`` is strictly better than ``than``. nan and infinities are worse than any number."""
        if not (math.isfinite(value) and math.isfinite(than)):
            return math.isfinite(value)
        return value > than if self.mode == "max" else value < than

    def __str__(self) -> str:
        return f"{self.mode} {self.metric}"


@dataclass(frozen=True, slots=True)
class Scheduler:
    """The rule that compares trials, and its geometry in steps.

    kind: ``hyperband`` (synchronous), ``asha``, ``median`` or ``all`` (every trial to the end).
    first, last: steps of the first and last rung; ``last`` is a trial's whole length. eta: one in ``eta`` is promoted.
    table: Hyperband's start sizes: ``algorithm1`` (ceilings; the default) or ``table1`` (the paper's printed table).
    mode: ASHA by ``stop`` (train on unless stopped) or by ``promote`` (pause at each rung).
    brackets: ASHA's set of brackets, as in Determined's adaptive ASHA.
    """

    kind: Literal["hyperband", "asha", "median", "all"] = "hyperband"
    first: int = 1
    last: int = 1
    eta: int = 3
    table: Literal["algorithm1", "table1"] = "algorithm1"
    mode: Literal["stop", "promote"] = "promote"
    brackets: Literal["aggressive", "standard", "conservative"] = "aggressive"

    @property
    def stops_most(self) -> bool:
        """Whether a trial that reaches a rung is more likely to be stopped there than not."""
        return self.kind == "asha" and self.mode == "stop"

    def __post_init__(self) -> None:
        if isinstance(self.eta, bool) or not isinstance(self.eta, int) or self.eta < 2:
            raise BadOption(f"--eta {self.eta}: expected an integer of 2 or more. Use --eta 3, or --eta 4.")
        if self.first < 1 or self.last < self.first:
            raise BadOption(
                f"--steps {self.first}-{self.last}: expected first and last rung in steps, 1 ≤ first ≤ last. "
                "For example: --steps 1-27."
            )


@dataclass(frozen=True, slots=True)
class Searcher:
    """The way configurations are proposed.

    kind: ``random``, ``grid`` or ``sobol``. given: configurations that the user gave, each with some or all
    hyperparameters; the searcher proposes the others. only: the search consists of these; otherwise they come first.
    """

    kind: Literal["random", "grid", "sobol"] = "random"
    given: tuple[Configuration, ...] = ()
    only: bool = False

    def __str__(self) -> str:
        if not self.given:
            return self.kind
        text = json.dumps(self.given)
        shown = text[1:-1]
        if len(text) > _SHOWN:
            # Two long lists of the same length must differ in a comparison.
            shown = f"{len(self.given)} configurations ({hashlib.sha256(text.encode()).hexdigest()[:8]})"
        return f"{self.kind}, {'only' if self.only else 'first'} {shown}"

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Searcher:
        """The searcher that a spec's plain data describe."""
        return cls(**{**data, "given": tuple(dict(one) for one in data.get("given", ()))})


@dataclass(frozen=True, slots=True)
class Keep:
    """Which checkpoints are kept when no trial needs them any more to continue.

    experiment: for this many best trials, the checkpoint that ranks them; at least 1, so that the best can be loaded.
    best, latest: for each trial that completed, failed or was stopped by the user, this many with the best goal, and
    this many newest. stopped: 1 also keeps those of trials that the search stopped; 0 (the default) keeps none of them.
    """

    experiment: int = 1
    best: int = 1
    latest: int = 1
    stopped: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (("experiment", 1, MANY), ("best", 0, MANY), ("latest", 0, MANY), ("stopped", 0, 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise BadOption(
                    f"keep {name}={value!r}: expected a whole number from {least} to {most}. "
                    "For example: experiment=1,best=1,latest=1,stopped=0."
                )

    @classmethod
    def of(cls, rule: str | Mapping[str, int], before: Keep | None = None) -> Keep:
        """The rule written as ``experiment=1,best=1,latest=1``, as ``all``, or as an object with these fields; other
        settings are taken from ``before``. Raises BadOption.
        """
        if isinstance(rule, str) and rule.strip() == "all":
            return cls(experiment=MANY, best=MANY, latest=MANY, stopped=1)
        fields = dataclasses.asdict(before or cls())
        parts = [part.partition("=") for part in rule.split(",")] if isinstance(rule, str) else []
        given = {name.strip(): value.strip() for name, _, value in parts} if isinstance(rule, str) else rule
        for name, value in given.items():
            if name not in fields or not re.fullmatch(r"\d{1,9}", str(value)):
                raise BadOption(
                    f"keep {rule!r}: expected experiment, best, latest and stopped, each with a whole number, or all. "
                    "For example: experiment=1,best=1,latest=1,stopped=0."
                )
            fields[name] = int(value)
        return cls(**fields)

    def __str__(self) -> str:
        if min(self.experiment, self.best, self.latest) == MANY and self.stopped:
            return "all"
        return ",".join(f"{f.name}={getattr(self, f.name)}" for f in dataclasses.fields(self))


@dataclass(frozen=True, slots=True)
class Argument:
    """A part of a script's arguments: ``text`` as it is, or followed by the value of the hyperparameter ``name``.

    The value is the next word, or belongs to the same word if ``text`` ends with ``=``. is_flag: ``text`` alone, if the
    value is true.
    """

    text: str
    name: str | None = None
    is_flag: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """The training code that a runner executes.

    kind: ``cell`` (source run as ``__main__``), ``script`` (the same, with the arguments and the name of a file) or
    ``function`` (a captured callable, named by ``entry``).
    source: the text to compile; for a function, its source for display.
    filename: the name in tracebacks; a script's path. capture: digest of the blob of notebook names, or None.
    entry: the captured function's name, for kind ``function``.
    module: for a function from a project module, the module's name; for a script, its own if it runs as a module.
    overlays: digests of further captures, each with the names that are taken from it instead of from ``capture``.
    arguments: a script's. metrics: patterns of the lines by which a script says its metrics. listens: whether its
    metrics are those that it gives to TensorBoard, Weights & Biases or MLflow. call: how a function is called
    (``snapshot.reading.calls.Call``); None: its first parameter gets the trial.
    """

    kind: Literal["cell", "script", "function"]
    source: str
    filename: str
    capture: str | None = None
    entry: str | None = None
    module: str | None = None
    overlays: tuple[tuple[str, tuple[str, ...]], ...] = ()
    arguments: tuple[Argument, ...] = ()
    metrics: tuple[str, ...] = ()
    listens: bool = False
    call: Json = None


@dataclass(frozen=True, slots=True)
class Training:
    """The training environment that every runner gets: the kernel's own interpreter and surroundings.

    path: ``sys.path`` of the kernel, the snapshot's copied code first. preload: installed modules that the forkserver
    imports ahead. env: environment variables set for the runner besides threads and hash seed. versions: of Python and
    of the packages that must be the same on every worker (``python``, ``torch``, ``numpy``, ``workbench``).
    is_whole: ``env`` is complete; runners of earlier specs inherit other variables. secrets: variables whose values are
    not recorded, with keyed hashes (``store.private``). settings: of the kernel's process (``snapshot.settings``).
    """

    python: str
    cwd: str
    path: tuple[str, ...] = ()
    threads: int = 1
    hash_seed: int = 0
    env: dict[str, str] = field(default_factory=dict)
    preload: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    is_whole: bool = False
    secrets: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Json] = field(default_factory=dict)


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

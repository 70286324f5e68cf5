"""What an experiment was asked for, in parts: goal, scheduler, searcher, checkpoints kept, program, environment.

Law: data only, checked when it is made.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from workbench.errors import BadOption

Json = Any
Configuration = dict[str, Any]

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

"""The conclusions of replays and repeats. Law: the goal decides about a replay. *Identical* means that its values are
the same bit for bit. Other metrics that differ, such as a time, are named; they decide only if the weights differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from workbench.compare.comparison import differences
from workbench.compare.noise import interval
from workbench.compare.repeats import repeats_of
from workbench.compare.section import change, counted, listed, number
from workbench.compare.sections.curves import bits, curve
from workbench.compare.sides import Side
from workbench.errors import NotFound, StoreError, WorkbenchError
from workbench.records import Json, Spec
from workbench.records.names import trial_label
from workbench.standing import SEED_ADVICE
from workbench.store import Store
from workbench.store.files.parts import NAMED
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.lists.catalog import Reference
from workbench.store.series import Series

#: Relative difference up to which a replay counts as within tolerance unless told: single precision holds 7 digits, and
#: a few of them are lost when sums are computed in another order.
TOLERANCE = 1e-4
#: Values smaller than this differ by noise only.
_SMALL = 1e-8
_TENSORS = "tensors.safetensors"


def conclusion(store: Store, spec: Spec) -> dict[str, dict[str, Json]]:
    """What the store keeps about an experiment that trained something again: under ``replay`` or ``repeat``, or
    nothing."""
    if spec.replays:
        return {"replay": verdict(store, spec)}
    if spec.repeats:
        return {"repeat": repeated(store, spec)}
    return {}


def verdict(store: Store, spec: Spec) -> dict[str, Json]:
    """The verdict on a replay.

    ``verdict`` is *identical*, *within tolerance*, *parts* (at step ``parts_at``) or *failed*; ``words`` is one line of
    text, ``why`` holds the known causes, the most likely first. ``others`` are the metrics that differ although the
    verdict does not depend on them, each with the first step at which it does.
    """
    origin: Mapping[str, Any] = spec.replays or {}
    label = str(origin.get("label", origin["experiment"])).partition("/")[0]
    found: dict[str, Json] = {
        "verdict": "failed",
        "of": {key: origin.get(key) for key in ("experiment", "trial", "label")},
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "tolerance": float(origin.get("tolerance", TOLERANCE)),
        "parts_at": None,
        "worst": None,
        "why": [],
        "others": [],
    }
    sides = []
    try:
        for reference in (
            Reference(origin["experiment"], label, int(origin["trial"])),
            Reference(spec.id, spec.label, 0),
        ):
            sides.append(Side(store, reference))  # noqa: PERF401 - closed below
        a, b = sides
        found["why"] = [f"{one.kind}: {one.summary}" for one in differences(a, b) if one.causes and one.items]
        if spec.deterministic == "off":
            found["why"].insert(0, "seeds: none is set (--deterministic off), so other numbers were drawn")
        _judge(found, a, b, spec)
    except WorkbenchError as error:
        found["words"] = f"failed: the original cannot be read ({error})"
    finally:
        for side in sides:
            side.close()
    return found


class _Parting(NamedTuple):
    """One value that differs."""

    step: int
    metric: str
    before: float
    after: float

    @property
    def words(self) -> str:
        """``loss 0.5 → 0.25``."""
        return change(self.metric, self.before, self.after)


@dataclass(frozen=True, slots=True)
class Parted:
    """Where the values of two trials differ, bit for bit.

    values: how many the first one has. missing: how many of them the second one lacks. same: whether those of the goal
    are the same. judged: the differences that decide. others: the first one of each other metric. weights: whether
    those of the last step are the same; None if they are not both kept.
    """

    values: int
    missing: int
    same: bool
    judged: list[_Parting]
    others: list[_Parting]
    weights: bool | None

    @property
    def named(self) -> list[str]:
        """The others as words."""
        return [f"{one.words} from step {one.step}" for one in self.others]


def parted(a: Side, b: Side, steps: int, goal: str) -> Parted:
    """Compare two trials up to a step."""
    values, missing, differ = 0, 0, []
    for name in a.metrics:
        one, other = curve(a, a.trial, name), curve(b, b.trial, name)
        for key, value in sorted(one.items()):
            if key[0] > steps:
                continue
            values += 1
            if key not in other:
                missing += 1
            elif bits(value) != bits(other[key]):
                differ.append(_Parting(key[0], name, value, other[key]))
    weights, same = _weights(a, b, steps), all(one.metric != goal for one in differ)
    # A goal such as an accuracy may be the same by chance: where the weights differ, all metrics are judged.
    judged = [one for one in differ if one.metric == goal or (same and weights is False)]
    return Parted(values, missing, same, judged, _firsts(one for one in differ if one not in judged), weights)


def _judge(found: dict[str, Json], a: Side, b: Side, spec: Spec) -> None:
    steps, goal = spec.scheduler.last, spec.goal.metric
    compared = parted(a, b, steps, goal)
    values, weights, judged, others = compared.values, compared.weights, compared.judged, compared.others
    found |= {"steps": steps, "values": values, "weights": weights}
    if compared.missing or not values:
        reason = str(b.row.get("reason") or "it ended early")
        found["words"] = f"failed: {compared.missing} of {values} values are missing ({reason})"
        return
    found["others"] = [{"metric": one.metric, "step": one.step} for one in others]
    named = f"; not the same: {listed(compared.named)}" if others else ""
    if not judged:
        found["verdict"] = "identical"
        kept = {True: f", and the same weights at step {steps}", False: "; but other weights", None: ""}[weights]
        what = f"{goal} in" if others else f"{counted(values, 'value')} of"
        found["words"] = f"identical: {what} {counted(steps, 'step')}, the same bit for bit{kept}{named}"
        return
    first = min(judged, key=lambda one: one.step)
    worst = max(_apart(one.before, one.after) for one in judged)
    found |= {"parts_at": first.step, "worst": worst if math.isfinite(worst) else None}
    reason = listed(found["why"], 4) or "nothing that is recorded differs"
    but = f"; {goal} has the same bits, but the weights do not" if compared.same else named
    if worst <= found["tolerance"]:
        found["verdict"] = "within tolerance"
        found["words"] = (
            f"within tolerance: values {'' if compared.same else f'of {goal} '}differ from step {first.step} on by at "
            f"most {worst:.2g} of themselves (allowed {found['tolerance']:g}){but}; {reason}"
        )
        return
    found["verdict"] = "parts"
    found["words"] = f"differs from step {first.step}: {first.words}{but}; {reason}"


def _firsts(differ: Iterable[_Parting]) -> list[_Parting]:
    """The first difference of each metric, the earliest first."""
    found: dict[str, _Parting] = {}
    for one in sorted(differ, key=lambda one: one.step):
        found.setdefault(one.metric, one)
    return [*found.values()]


def _apart(one: float, other: float) -> float:
    """Their difference relative to the larger; zero if both are close to zero."""
    if bits(one) == bits(other):
        return 0.0
    if not (math.isfinite(one) and math.isfinite(other)):
        return math.inf
    apart = abs(one - other)
    return 0.0 if apart <= _SMALL else apart / max(abs(one), abs(other))


def _weights(a: Side, b: Side, step: int) -> bool | None:
    """Whether the tensors of both checkpoints at ``step`` are the same bytes; None if one has no checkpoint there."""
    files, apart = [], []
    for side in (a, b):
        try:
            kept = Checkpoints(side.store.experiment(side.spec.id).trial(side.trial or 0)).at(step)
        except (NotFound, StoreError):  # cleaned up, or damaged: nothing to compare
            return None
        if _TENSORS not in kept.manifest.files:
            return None
        files.append(kept.manifest.files[_TENSORS])
        apart.append(any(NAMED.fullmatch(name) for name in kept.manifest.files))
    if apart[0] != apart[1]:  # one kept large tensors in the same file: perhaps the same bytes
        return None
    # It refers to large tensors by their digests.
    return bool(files[0] == files[1])


def repeated(store: Store, spec: Spec) -> dict[str, Json]:
    """Mean and 95 % interval of the goal over the seeds that ``spec`` asks for, with each seed's value.

    Seeds that an earlier experiment has trained are included.
    """
    origin: Mapping[str, Any] = spec.repeats or {}
    seeds = [(int(seed), int(trial)) for seed, trial in origin.get("seeds") or spec.seeds]
    results = repeats_of(store, str(origin["experiment"]), int(origin["trial"]), seeds=seeds)
    values = [{"seed": seed, "value": results[seed, trial].value} for seed, trial in seeds if (seed, trial) in results]
    found = {**interval([float(one["value"]) for one in values]), "values": values, "metric": spec.goal.metric}
    found["of"] = {key: origin.get(key) for key in ("experiment", "trial", "label")}
    lost = len(values) - found["n"]
    if found["deviation"] is None:
        found["words"] = f"{found['n']} of {len(seeds)} repeats ended; an interval needs two"
    elif found["low"] is None:
        found["words"] = (
            f"{spec.goal.metric} {number(found['mean'])}: all {found['n']} seeds gave the same bits, so there is no "
            f"interval{f' ({lost} more diverged)' if lost else ''}; {SEED_ADVICE}"
        )
    else:
        half = (found["high"] - found["low"]) / 2
        found["words"] = (
            f"{spec.goal.metric} {number(found['mean'])} ± {number(half)} (95 % interval of the mean of {found['n']} "
            f"seeds; one seed scatters by {number(found['deviation'])}{f'; {lost} more diverged' if lost else ''})"
        )
    return found


def replays_of(store: Store, experiment: str, trial: int) -> list[dict[str, Json]]:
    """The verdicts of all finished replays of a trial, the newest first."""
    found: list[dict[str, Json]] = []
    for one in reversed(store.experiment_ids()):
        origin = store.read_spec_json(one).get("replays")
        path = store.experiment(one).series
        if not isinstance(origin, dict) or (origin.get("experiment"), origin.get("trial")) != (experiment, trial):
            continue
        if path.exists():
            with Series.read(path) as series:
                kept = series.meta().get("replay")
            if kept:
                found.append({**kept, "experiment": one, "trial": trial_label(0)})
    return found

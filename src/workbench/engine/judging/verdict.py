"""Whether resuming is exact: compares a trial's reports with those of an undisturbed check. Law: pure; equal means
equal bits."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.records import Json, Spec
from workbench.records.names import trial_label

#: Reported values by metric and step.
Reports = Mapping[tuple[str, int], float]

IDENTICAL, PARTS, COULD_NOT, NOT_CHECKED = "identical", "parts", "could not", "not checked"


@dataclass(frozen=True, slots=True)
class Task:
    """One check: train the trial undisturbed from ``start`` to ``until``, and compare every step in between.

    resumed: the step of the checkpoint from which the trial itself was resumed, or None. start: 0; or the step of a
    checkpoint if the trial itself was never disturbed, so that the check is what resumes.
    """

    trial: int
    start: int
    until: int
    resumed: int | None
    why: str

    @property
    def at(self) -> int:
        """The step at which the trial or the check was resumed; 0 if neither was."""
        return self.start or self.resumed or 0

    def to_json(self) -> dict[str, Json]:
        """Its fields in a verdict."""
        return {"trial": self.trial, "start": self.start, "resumed": self.resumed, "until": self.until}


def compared(task: Task, goal: str, trial: Reports, calm: Reports) -> dict[str, Json]:
    """The verdict: ``verdict``, and if they differ ``step``, ``metric``, ``a`` (the trial's value), ``b`` and
    ``before``.

    Every difference counts. Differences after resuming come first, and the goal before other metrics. ``unsteady``
    names the metrics that differ before anything was resumed (a time, or training that does not repeat itself).
    """
    parting: dict[str, int] = {}
    for (metric, step), value in sorted(calm.items(), key=lambda item: item[0][1]):
        inside = task.start < step <= task.until
        if inside and (metric, step) in trial and metric not in parting and not _same(trial[metric, step], value):
            parting[metric] = step
    for metric, step in sorted(trial, key=lambda key: key[1]):
        seen = task.start < step <= task.until and (metric, step) not in calm
        if seen and parting.get(metric, step + 1) > step:
            parting[metric] = step
    steady = {metric: step for metric, step in parting.items() if step > task.at}
    unsteady = sorted(metric for metric in parting if metric not in steady)
    verdict: dict[str, Json] = {"verdict": IDENTICAL, "unsteady": unsteady}
    wanted = {goal: parting[goal]} if goal in unsteady else steady or parting
    if wanted:
        # The goal first, if several metrics differ at one step.
        metric = min(wanted, key=lambda name: (wanted[name], name != goal, name))
        step = wanted[metric]
        if goal not in parting:
            verdict["same"] = goal
        verdict |= {"verdict": PARTS, "step": step, "metric": metric, "before": step <= task.at}
        verdict |= {"a": _plain(trial[metric, step]), "b": _plain(calm.get((metric, step)))}
    elif not any(task.start < step <= task.until for _, step in calm):
        verdict |= {"verdict": COULD_NOT, "why": f"nothing was reported up to step {task.until}"}
    return verdict


def _same(a: float, b: float) -> bool:
    return struct.pack("<d", a) == struct.pack("<d", b) or (math.isnan(a) and math.isnan(b))


def _plain(value: float | None) -> Json:
    return value if value is None or math.isfinite(value) else str(value)


def causes(
    spec: Spec,
    left_out: Sequence[Mapping[str, str]],
    places: Sequence[Mapping[str, Any]],
    touched: Mapping[str, Sequence[str]],
) -> list[str]:
    """Possible causes of the difference, the likeliest first.

    left_out: names that no checkpoint of the trial holds, with reasons. places: where its legs and the check trained.
    touched: what the check saw the training code change outside of its names.
    """
    unseeded = "--deterministic off: nothing is seeded, so every beginning draws other numbers"
    found = [unseeded] if spec.deterministic == "off" else []
    found += [f"it writes {name}, which is not put back" for name in touched["files"]]
    if left_out:
        found.append("names left out: " + ", ".join(f"{one['name']} ({one['reason']})" for one in left_out[:6]))
    devices = sorted({str(place["device"]) for place in places if place.get("device")})
    if devices not in ([], ["cpu"]) and spec.deterministic != "strict":
        found.append(f"{', '.join(devices)} without --deterministic strict: a GPU may sum in another order each time")
    for key, words in (("threads", "numbers of threads"), ("device", "devices"), ("torch", "versions of torch")):
        different = sorted({str(place[key]) for place in places if place.get(key)})
        if len(different) > 1:
            found.append(f"different {words}: {' and '.join(different)}")
    if spec.training.threads > 1:
        found.append(f"{spec.training.threads} threads: sums over several threads may differ from run to run")
    return found


def sentence(verdict: Mapping[str, Json]) -> str:
    """The verdict in words: ``resuming t0003 at step 3 is exact: the same to step 9 as undisturbed``."""
    trial, until = trial_label(int(verdict["trial"])), verdict["until"]
    at = verdict.get("start") or verdict.get("resumed") or 0
    what = f"resuming {trial} at step {at}" if at else f"training {trial} again"
    kind = verdict["verdict"]
    if kind == IDENTICAL:
        whole = ", and so has the state" if verdict.get("state") == IDENTICAL else ""
        return f"{what} is exact: every metric to step {until} has the same bits as undisturbed{whole}"
    if kind == PARTS and verdict.get("differs"):
        names = ", ".join(verdict["differs"][:6])
        return (
            f"{what}: every metric to step {until} has the same bits as undisturbed, but the state differs in {names}"
        )
    if kind == PARTS:
        a, b = (_shown(verdict.get(key)) for key in ("a", "b"))
        where = f"differs from step {verdict['step']}: {verdict['metric']} {a} vs {b} undisturbed"
        same = verdict.get("same")
        itself = verdict["metric"] if same else "training"
        about = f"before anything was resumed, so {itself} does not repeat itself" if verdict.get("before") else (
            "something in the loop is not restored"
        )  # fmt: skip
        more = [*([f"{same} has the same bits"] if same else []), *(verdict.get("causes") or ())]
        return f"{what} {where}: {about}{''.join(f'; {one}' for one in more)}"
    return f"{what} {'was not checked' if kind == NOT_CHECKED else 'could not be checked'}: {verdict.get('why')}"


def _shown(value: Json) -> str:
    if value is None:
        return "not reported"
    return value if isinstance(value, str) else f"{value:.17g}"

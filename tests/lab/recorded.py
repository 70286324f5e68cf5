"""A store as an engine leaves it, but written without one, for tests that show experiments."""

from __future__ import annotations

import math
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.store import Store, new_id
from workbench.store.series import Series

SPACE = {
    "lr": {"kind": "loguniform", "low": 1e-4, "high": 1.0},
    "hidden": {"kind": "choice", "options": [32, 64, 128, 256]},
    "dropout": {"kind": "uniform", "low": 0.0, "high": 0.5},
}


def spec(name: str = "digits", version: int = 1, **changes: Any) -> Spec:
    """An experiment's definition; ``changes`` are fields."""
    fields: dict[str, Any] = {
        "id": new_id(),
        "name": name,
        "version": version,
        "created": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "goal": Goal("val_acc", "max"),
        "space": SPACE,
        "scheduler": Scheduler("hyperband", 1, 27, 3),
        "searcher": Searcher(),
        "program": Program("cell", "lr = loguniform(1e-4, 1.0)\nfor epoch in trial.steps():\n    ...\n", "<cell>"),
        "training": Training(python="python", cwd="."),
        "trials": None,
        "content": "c" * 64,
    }
    return Spec(**{**fields, **changes})


class Recording:
    """Writes an experiment's series in steps, as the engine would: :meth:`turn` trains everybody one step."""

    def __init__(self, root: Path, trials: int = 24, steps: int = 27, seed: int = 0, **changes: Any) -> None:
        self.store = Store(root).create()
        self.spec = spec(**changes)
        self.store.write_spec(self.spec)
        self.paths = self.store.experiment(self.spec.id)
        self.series = Series.open(self.paths.series)
        self.steps, self.step = steps, 0
        self.best: tuple[int, float] | None = None
        self._random = random.Random(seed)
        self.began = datetime.now(UTC)
        self.trials: dict[int, dict[str, Any]] = {}
        for number in range(trials):
            lr = 10 ** self._random.uniform(-4, 0)
            hidden = self._random.choice([32, 64, 128, 256])
            dropout = round(self._random.uniform(0, 0.5), 4)
            quality = 1 - abs(math.log10(lr) + 1.2) / 4 + 0.02 * math.log2(hidden / 64) - 0.1 * dropout
            cut = next((rung for rung in (1, 3, 9) if self._random.random() > quality - 0.15), steps)
            self.trials[number] = {
                "configuration": {"lr": lr, "hidden": hidden, "dropout": dropout},
                "bracket": 3,
                "state": "running",
                "step": 0,
                "value": None,
                "quality": quality,
                "cut": min(cut, steps),
                "reason": "bracket 3, rung 0: it is new",
            }
        self.series.put_meta("label", self.spec.label)
        self.series.put_meta("planned", {"trials": trials, "legs": trials * 2, "steps": trials * 9})
        self.series.put_meta("started", self.began.isoformat(timespec="milliseconds"))
        self._state("running", "training")
        for number in self.trials:
            self._put(number)
        self.series.flush()

    def turn(self) -> bool:
        """One more step for every running trial. False once nothing runs."""
        self.step += 1
        rows = []
        for number, trial in self.trials.items():
            if trial["state"] != "running":
                continue
            top = 0.55 + 0.43 * max(0.05, min(trial["quality"], 1))
            speed = 0.5 + trial["configuration"]["lr"] ** 0.3
            value = top - (top - 0.1) * math.exp(-self.step * speed / 2.2) + self._random.gauss(0, 0.006)
            at = datetime.now(UTC).timestamp()
            rows.append((number, "val_acc", self.step, 0, value, at))
            rows.append((number, "loss", self.step, 0, max(0.01, 2.3 * (1 - value)), at))
            trial["step"], trial["value"] = self.step, value
            if self.best is None or value > self.best[1]:
                self.best = (number, value)
            if self.step >= trial["cut"]:
                whole = trial["cut"] == self.steps
                trial["state"] = "completed" if whole else "stopped"
                trial["reason"] = (
                    "it trained all its steps"
                    if whole
                    else f"bracket 3, rung {[1, 3, 9].index(trial['cut'])} at step {self.step}: {value:.3g} is rank "
                    f"{number + 9} of {len(self.trials)}, {len(self.trials) // 3} go on; the cut is {value + 0.02:.3g}"
                )
            self._put(number)
        self.series.add_points(rows)
        running = any(trial["state"] == "running" for trial in self.trials.values())
        self._state("running", "training")
        self.series.flush()
        return running

    def fail(self, number: int, error: str) -> None:
        """Let a trial fail."""
        self.trials[number].update(state="failed", reason=error)
        self._put(number)
        self.series.flush()

    def end(self, state: str = "completed", reason: str = "every trial has ended") -> None:
        """Finish the experiment."""
        self.series.put_meta("ended", (self.began + timedelta(seconds=42.3)).isoformat(timespec="milliseconds"))
        self._state(state, reason)
        self.series.flush()

    def all(self) -> Recording:
        """Train to the end and finish."""
        while self.turn():
            pass
        self.end()
        return self

    def _state(self, state: str, reason: str) -> None:
        counts = Counter(trial["state"] for trial in self.trials.values())
        running = counts["running"]
        self.series.put_meta("state", state)
        self.series.put_meta("counts", dict(counts))
        self.series.put_meta("reason", reason)
        self.series.put_meta("slots", {"used": min(running, 2) if state == "running" else 0, "given": 2})
        self.series.put_meta("seconds_left", 3.0 * (self.steps - self.step) if state == "running" else None)
        self.series.put_meta("best", {"trial": self.best[0], "value": self.best[1]} if self.best else None)

    def _put(self, number: int) -> None:
        trial = self.trials[number]
        fields = {key: trial[key] for key in ("configuration", "bracket", "state", "reason", "step", "value")}
        self.series.put_trial(number, **fields)

"""Trials as runs of Weights & Biases. Law: row numbers rise over a run's whole life, so W&B drops rows that it has.

W&B decides where credentials come from (``WANDB_API_KEY``, ``~/.netrc``); none is recorded.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import wandb

from workbench.exporters.mirrors.foreign import Point, Run
from workbench.records import Json, Spec
from workbench.store.lists.mirrors import Mirror

#: Maximum number of open runs. A paused trial's run is closed, and resumes under its id.
MOST_OPEN = 32
_NO_NAME = re.compile(r"[^\w-]")


class Writer:
    """Writes into the project ``mirror.where``, or if that is offline into a folder for ``wandb sync``."""

    def __init__(self, mirror: Mirror, spec: Spec) -> None:
        entity, _, project = mirror.where.rpartition("/")
        self._where: dict[str, Any] = {
            "project": project or spec.name,
            "entity": entity or None,
            "dir": mirror.folder,
            "mode": "offline" if mirror.offline else None,
        }
        self._group = spec.label
        self._open: OrderedDict[str, Any] = OrderedDict()

    def names(self, metrics: Sequence[str]) -> dict[str, str]:
        """Every name is allowed."""
        return {name: name for name in metrics}

    def begin(self, run: Run, known: Json) -> Json:
        """Open the run. What is known of a run is its number of rows."""
        self._run(run)
        return known or 0

    def points(self, run: Run, known: Json, points: Sequence[Point], again: bool) -> Json:
        """Write a row for each step, with the trial's own step and the time of the report."""
        row, place = int(known), self._run(run)
        for step, group in groupby(points, key=lambda point: point[1]):
            rows: list[dict[str, float]] = [{}]
            for name, _, value, at in group:
                if name in rows[-1]:
                    rows.append({})  # logged again inside the step
                rows[-1] |= {name: value, "trial_step": step, "_timestamp": at}
            for one in rows:
                place.log(one, step=row)
                row += 1
        return row

    def end(self, run: Run, known: Json) -> Json:
        """Close the run, with its state and last value."""
        place = self._run(run)
        place.summary.update({"workbench.state": run.state, **({} if run.value is None else {run.metric: run.value})})
        place.finish(exit_code=1 if run.state == "failed" else 0)
        self._open.pop(run.id)
        return known

    def close(self) -> None:
        """Wait until everything is uploaded, or offline in its file."""
        while self._open:
            self._open.popitem()[1].finish()
        # W&B's service closes the file of a finished run a little later. Its end is waited for, except in a notebook
        # with a run of its own, which that would end.
        if wandb.run is None:
            wandb.teardown()

    def _run(self, run: Run) -> Any:
        if run.id not in self._open:
            if len(self._open) >= MOST_OPEN:
                self._open.popitem(last=False)[1].finish()
            place = wandb.init(
                **self._where,
                id=_NO_NAME.sub("-", run.id),
                name=run.name,
                group=self._group,
                config={**run.parameters, "workbench": run.tags},
                resume="allow",
                reinit="create_new",
                settings=wandb.Settings(
                    console="off", silent=True, disable_git=True, save_code=False, x_disable_meta=True
                ),
            )
            place.define_metric("trial_step", hidden=True)
            place.define_metric("*", step_metric="trial_step")
            self._open[run.id] = place
        self._open.move_to_end(run.id)
        return self._open[run.id]

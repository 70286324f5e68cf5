"""A notebook without Jupyter: cells executed in one namespace, and a train cell frozen as Shift-Enter freezes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.launch import Origin, draft
from workbench.records import Goal, Spec
from workbench.settled import settled
from workbench.snapshot.reading.cell import read_cell
from workbench.store import Store
from workbench.store.lists.catalog import Catalog
from workbench.store.series import Series

#: A train cell whose value follows from what it captures, its hyperparameter, and chance.
TRAIN = """
lr = loguniform(1e-4, 1.0)
for epoch in trial.steps():
    trial.report(val_acc=float(score(X, lr)))
"""


class Notebook:
    """One notebook: :meth:`run` executes a cell, :meth:`launch` writes what a train cell's launch writes."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store.create()
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.cells: list[dict[str, str]] = []

    def run(self, *cells: str) -> Notebook:
        """Execute cells, in order."""
        for cell in cells:
            exec(compile(cell, f"<cell {len(self.cells)}>", "exec"), self.names)
            self.cells.append({"source": cell})
        return self

    def launch(self, train: str = TRAIN, name: str = "digits", line: str = "--steps 1-9", **settings: Any) -> Spec:
        """Freeze ``train`` and write its spec. ``line`` is what the magic line says; ``settings`` is what it means."""
        typed = f"%%train {name} --goal max val_acc {line}"
        notebook = settings.pop("notebook", None)
        read = read_cell(f"# {typed}\n{train}", self.names)
        chosen = settled(
            read,
            goal=Goal("val_acc"),
            steps=settings.pop("steps", (1, 9)),
            scheduler=settings.pop("scheduler", None),
            **settings,
        )
        cells = [*self.cells, {"source": f"{typed}\n{train}", "cell_id": "the-train-cell"}]
        origin = Origin(typed, typed, notebook, cells, "the-train-cell")
        spec = draft(read, self.names, name, chosen, self.store, origin).launch()
        catalog = Catalog(self.store)
        catalog.upsert_experiment(
            spec.id,
            {"name": spec.name, "version": spec.version, "label": spec.label, "state": "completed",
             "created": spec.created, "goal": str(spec.goal), "best": None},
        )  # fmt: skip
        catalog.close()
        return spec


def put_results(
    store: Store,
    spec: Spec,
    trials: Mapping[int, tuple[Mapping[str, Any], list[float]]],
    **detail: Any,
) -> None:
    """Write what an engine writes of these trials: each one's configuration and its goal's values from step 1 on."""
    with Series.open(store.experiment(spec.id).series) as series:
        for number, (configuration, values) in trials.items():
            series.put_trial(
                number, configuration=dict(configuration), state="completed", step=len(values), value=values[-1],
                level=len(values), best=max(values),
            )  # fmt: skip
            series.put_leg(number, 1, start=0, until=len(values), outcome="completed", detail=detail)
            series.add_points((number, spec.goal.metric, step, 0, value, 1.0) for step, value in enumerate(values, 1))

"""A store with a search whose goal is a known function: the search itself runs, in a world that trains nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.recorded import spec
from search_world import World

from workbench.facts import to_line
from workbench.records import Goal, Scheduler, Spec
from workbench.search import Search
from workbench.space import Space
from workbench.store import Store
from workbench.store.journal import Journal
from workbench.store.lists.catalog import Catalog
from workbench.store.series import Series

ALL = Scheduler("all", 1, 9)


def levelled(
    store: Store,
    space: Space,
    value: Callable[[dict[str, Any], int], float],
    scheduler: Scheduler = ALL,
    *,
    catalog: Catalog | None = None,
    **changes: Any,
) -> Spec:
    """Search; ``value(configuration, step)`` is the goal, and ``loss`` its negative. ``changes``: fields of the spec.

    catalog: the store's, if it is open.
    """
    made = spec(**{"space": space.to_json(), "scheduler": scheduler, "goal": Goal("val_acc", "max"), **changes})
    store.write_spec(made)
    search = Search.of(made)
    reported: dict[tuple[int, int], float] = {}

    def told(trial: int, step: int) -> float:
        return reported.setdefault((trial, step), value(dict(search.trials[trial].configuration), step))

    world = World(search, slots=3, value=told).run()
    with Journal.open(store.experiment(made.id).journal) as journal:
        journal.append({"kind": "Began", "experiment": made.id})
        for fact in world.facts:
            journal.append(to_line(fact))
    with Series.open(store.experiment(made.id).series) as series:
        for number, view in search.trials.items():
            series.put_trial(
                number, configuration=dict(view.configuration), bracket=view.bracket, state=view.state,
                step=view.step, level=view.step, value=view.value, reason=view.reason,
                started=_at(number), ended=_at(number + 1),
            )  # fmt: skip
        for (trial, step), one in reported.items():
            series.add_points([(trial, made.goal.metric, step, 0, one, 1e9), (trial, "loss", step, 0, -one, 1e9)])
        series.put_meta("state", "completed")
    best = search.best
    entry = {
        "name": made.name, "version": 1, "label": made.label, "created": made.created, "state": "completed",
        "goal": str(made.goal), "trials": len(search.trials), "best": best.to_json() if best else None,
    }  # fmt: skip
    own = catalog or Catalog(store)
    own.upsert_experiment(made.id, entry)
    own.flush()
    if catalog is None:
        own.close()
    return made


def _at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}.000+00:00"

"""Which hyperparameters matter, for the panel. Law: :mod:`workbench.compare.importance` computes; this module keeps its
answers until the experiment grows.
"""

from __future__ import annotations

import dataclasses
from http import HTTPStatus
from typing import Any

from workbench.errors import BadOption
from workbench.store import Store
from workbench.store.files.database import state_of
from workbench_ext.server.base import Refused
from workbench_ext.server.curves import Kept
from workbench_ext.server.experiments import found

Json = Any

#: Answers by their inputs.
_kept: Kept[dict[str, Json]] = Kept(64, lambda _: 1)


def importance(store: Store, name: str, metric: str | None, level: int | None) -> Json:
    """The importances of each hyperparameter for ``metric`` (None: the goal) at a level (None: the highest that enough
    trials reached). Raises Refused (409) if they cannot be computed."""
    from workbench.compare.importance import importance  # NumPy and others, so only on request

    experiment_id, _ = found(store, name)
    paths = store.experiment(experiment_id)
    journal = paths.journal.stat().st_size if paths.journal.exists() else 0
    key = (paths.series, metric, level, journal, *state_of(paths.series))
    kept = _kept.get(key)
    if kept is not None:
        return kept
    try:
        told = importance(store, experiment_id, metric, level)
    except BadOption as error:
        raise Refused(HTTPStatus.CONFLICT, str(error)) from error
    return _kept.put(key, dataclasses.asdict(told))

"""Facts about an experiment's set-up, written by its first leg. Law: it reads; a missing file means that nothing is
known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.errors import StoreError
from workbench.store.files.atomic import read_json
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.layout import ExperimentPaths


def made_anew(paths: ExperimentPaths) -> list[str]:
    """Names whose values the set-up does not reproduce; checkpoints contain the first values."""
    return [str(name) for name in _known(paths).get("names") or ()]


def not_known(paths: ExperimentPaths) -> str:
    """Why it is not known which values the set-up does not reproduce; empty if it is known, or was not checked."""
    return str(_known(paths).get("failed") or "")


def begins_again(paths: ExperimentPaths, trial: int) -> bool:
    """Whether the trial can be trained from its beginning again, with the first values of its set-up."""
    return not made_anew(paths) or not Checkpoints(paths.trial(trial).setup).is_empty


def _known(paths: ExperimentPaths) -> Mapping[str, Any]:
    try:
        found = read_json(paths.setup)
    except (StoreError, OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

"""What is known of an experiment's set-up, as its first leg wrote it. Law: it reads; a missing file says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.errors import StoreError
from workbench.store.files.atomic import read_json
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.layout import ExperimentPaths


def made_anew(paths: ExperimentPaths) -> list[str]:
    """Names that the set-up makes otherwise each time; checkpoints hold what they were."""
    return [str(name) for name in _known(paths).get("names") or ()]


def not_known(paths: ExperimentPaths) -> str:
    """Why it is not known what the set-up makes otherwise each time; empty where it is, or was not looked for."""
    return str(_known(paths).get("failed") or "")


def begins_again(paths: ExperimentPaths, trial: int) -> bool:
    """Whether the trial can be trained from its beginning once more, with what its set-up made then."""
    return not made_anew(paths) or not Checkpoints(paths.trial(trial).setup).is_empty


def _known(paths: ExperimentPaths) -> Mapping[str, Any]:
    try:
        found = read_json(paths.setup)
    except (StoreError, OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

"""The catalog's entry for an experiment that an engine has open. Law: data; nothing here decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.engine.asking import again
from workbench.records import Spec

if TYPE_CHECKING:
    from workbench.engine.loop import ExperimentLoop


def named(spec: Spec) -> dict[str, Any]:
    """The fields known from the start."""
    return {"name": spec.name, "version": spec.version, "label": spec.label, "created": spec.created}


def listed(loop: ExperimentLoop) -> dict[str, Any]:
    """The fields of an open experiment."""
    spec, best = loop.spec, loop.shown.best
    return {
        "started": loop.life.started,
        "state": loop.state,
        "reason": loop.reason,
        "pause": loop.pause,
        "disk": loop.disk,
        "goal": str(spec.goal),
        "trials": len(loop.search.trials),
        "planned": loop.shown.planned,
        "counts": loop.shown.counts,
        **loop.shown.outcome,
        "best": best.to_json() if best else None,
        "content": spec.content,
        "notebook": spec.notebook,
        "ended": loop.life.ended,
        "parent": spec.parent["label"] if spec.parent else None,
        "verify": loop.verification.word,
        "checked": loop.verification.checked,
        "tells": loop.tells,
        **({"lost": loop.loss.said} if loop.loss.said else {}),
        **again.entry(spec, loop.conclusion),
    }

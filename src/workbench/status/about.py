"""What an experiment was asked to do, as its user would type it. Law: read from its spec, once for every face."""

from __future__ import annotations

from workbench.records import Json, Spec
from workbench.space import Space


def about(spec: Spec, last: int) -> dict[str, Json]:
    """``goal``, ``search`` and ``slots`` in words, one line of ``space`` for each hyperparameter, and who ``launched``
    it (None in specs of earlier versions). last: the longest trials' steps, which an extension changes."""
    return {
        "goal": str(spec.goal),
        "search": search_words(spec, last),
        "slots": spec.slots_words,
        "space": Space.from_json(spec.space).describe().splitlines(),
        "launched": spec.launched,
    }


def search_words(spec: Spec, last: int) -> str:
    """``hyperband, steps 1-27, η=3, random, seed 0``."""
    one = spec.scheduler
    return f"{one.kind}, steps {one.first}-{last}, η={one.eta}, {spec.searcher}, seed {spec.seed}"

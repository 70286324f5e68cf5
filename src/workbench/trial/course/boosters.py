"""Boosters of XGBoost that train by hand. Law: one that each step makes from the last one is exact.

A booster that ``update`` trains over several steps keeps what it draws from: samplers, which draw their seeds when it
first trains, and in releases before 3.3 a generator of the thread. No saved booster has them. With
``tree_method="approx"`` a DMatrix keeps the bins of earlier rounds besides, which follow from the rows that were drawn.
"""

from __future__ import annotations

import contextlib
import functools
import json
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from workbench.snapshot.surroundings.arriving import when_imported

DRAWS = (
    "XGBoost draws its rows or features from what no saved booster holds: go on with "
    "xgboost.train(..., xgb_model=booster) in each step, and not with update"
)
BINS = (
    'XGBoost draws its rows, and with tree_method="approx" its data keep bins of earlier rounds: use tree_method="hist"'
)
_SELECTORS = ("random", "shuffle")
_FEATURES = ("colsample_bytree", "colsample_bylevel", "colsample_bynode")

#: Turns begun in this process, and the turn in which each booster was made.
_turns = 0
_made: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
#: The turn in which each booster trained last; why some would train otherwise after a resume.
_trained: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_drawing: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def turn_begins() -> None:
    """The next turn begins."""
    global _turns
    _turns += 1
    _watch()


@functools.cache
def _watch() -> None:
    """Look at boosters from now on, for this process's life. Those of the set-up have no turn."""
    when_imported("xgboost.core", _lead)


def drawing() -> Iterator[tuple[Any, str]]:
    """The boosters that would train otherwise after a resume, each with its reason."""
    return iter([*_drawing.items()])


def _lead(core: types.ModuleType) -> None:
    booster = core.Booster
    for name in ("__init__", "__setstate__"):
        setattr(booster, name, _after(getattr(booster, name), _is_made))
    for name in ("update", "boost"):
        setattr(booster, name, _after(getattr(booster, name), _has_trained))


def _after(does: Callable[..., Any], then: Callable[[Any], None]) -> Callable[..., Any]:
    @functools.wraps(does)
    def led(booster: Any, *rest: Any, **options: Any) -> Any:
        result = does(booster, *rest, **options)
        with contextlib.suppress(Exception):  # a release whose configuration is another: training goes on
            then(booster)
        return result

    return led


def _is_made(booster: Any) -> None:
    _made[booster] = _turns


def _has_trained(booster: Any) -> None:
    if _trained.get(booster) == _turns:
        return
    _trained[booster] = _turns
    # It is configured now, so that asking changes nothing.
    options = dict(_options(json.loads(booster.save_config())))
    rows = float(options.get("subsample", 1)) != 1
    features = any(float(options.get(name, 1)) != 1 for name in _FEATURES)
    if rows and options.get("tree_method") == "approx":
        _drawing[booster] = BINS
    elif (rows or features or options.get("feature_selector") in _SELECTORS) and _made.get(booster) != _turns:
        _drawing[booster] = DRAWS


def _options(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _options(value)
        else:
            yield name, value

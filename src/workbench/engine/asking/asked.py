"""What requests may say, as a table: fields by kind, and the values that each takes. Law: it is data and pure checks.

Who can write into the store's ``requests`` folder may write anything there. What passes here has the types that the
engine's answers work with; whether it makes sense is theirs to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from workbench.errors import BadInput

#: Numbers beyond this mean nothing here: of trials, steps, seconds.
MOST = 10**9
#: Bytes that a quota may name: more than any disk has.
MOST_BYTES = 10**18

Check = Callable[[Any], bool]


def _text(most: int) -> Check:
    return lambda value: isinstance(value, str) and len(value) <= most


def _whole(least: int, most: int = MOST) -> Check:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _seconds(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and 0 < value <= MOST


def _texts(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= 1000 and all(map(_text(1000), value))


def _rule(value: Any) -> bool:
    if isinstance(value, dict):
        return len(value) <= 10 and all(map(_whole(0), value.values()))
    return _text(200)(value)


#: A value's check, and what a message says is wanted.
_ID = (_text(64), "an experiment's id")
_TRIAL = (_whole(0), "a trial's number")
_STEP = (_whole(0), "a step")
_REASON = (_text(10_000), "text of at most 10,000 characters")
_TEXT = (_text(100_000), "text of at most 100,000 characters")
_TEXTS = (_texts, "a list of at most 1,000 texts")

#: Fields by kind: those that a request must have, and those that it may leave out or give as null.
FIELDS: Mapping[str, tuple[Mapping[str, tuple[Check, str]], Mapping[str, tuple[Check, str]]]] = {
    "start": ({"experiment": _ID}, {}),
    "ping": ({}, {}),
    "mend": ({}, {}),
    "end": ({}, {}),
    "stop": ({"experiment": _ID}, {"trial": _TRIAL, "reason": _REASON}),
    "pause": ({"experiment": _ID}, {"reason": _REASON}),
    "resume": ({"experiment": _ID}, {"reason": _REASON}),
    "extend": (
        {"experiment": _ID},
        {
            "trials": (_whole(0, 10**7), "a number of trials"),
            "last": (_whole(1), "a number of steps"),
            "seconds": (_seconds, "a number of seconds above 0"),
            "reason": _REASON,
        },
    ),
    "verify": ({"experiment": _ID, "trial": _TRIAL}, {"step": _STEP, "reason": _REASON}),
    "replay": ({"experiment": _ID}, {"trial": _TRIAL}),
    "rename": ({"experiment": _ID, "name": _REASON}, {}),
    "tag": ({"experiment": _ID, "tags": _TEXTS}, {}),
    "note": ({"experiment": _ID, "note": _TEXT}, {}),
    "adopt": ({"experiment": _ID}, {"name": _REASON, "tags": _TEXTS, "note": _TEXT}),
    "pin": ({"experiment": _ID}, {"trial": _TRIAL, "step": _STEP}),
    "unpin": ({"experiment": _ID}, {"trial": _TRIAL, "step": _STEP}),
    "keep": ({"experiment": _ID, "rule": (_rule, "a rule such as experiment=1,best=1")}, {}),
    "delete": ({"experiment": _ID}, {"trial": _TRIAL}),
    "gc": ({}, {"dry_run": (lambda value: isinstance(value, bool), "true or false")}),
    "quota": ({}, {"bytes": (_whole(0, MOST_BYTES), "a number of bytes, or null for none")}),
}


def check_request(request: Mapping[str, Any]) -> None:
    """Raises BadInput where a field of ``request`` is missing or has a value of another kind.

    A kind that is not in the table is not looked at: who answers refuses it by name.
    """
    kind = request["kind"]
    must, may = FIELDS.get(kind, ({}, {}))
    for name, (is_sound, wanted) in {**must, **may}.items():
        value = request.get(name)
        if value is None and name not in must:
            continue
        if not is_sound(value):
            shown = repr(value)
            given = shown if len(shown) <= 60 else f"{shown[:57]}..."
            raise BadInput(f"request {kind}: {name} is {given}; expected {wanted}. Ask again with that.")

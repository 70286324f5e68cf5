"""Requests come back as they were written; what a field cannot take is refused with what was expected."""

from __future__ import annotations

import json
import typing
from typing import Any

import pytest

from workbench import asked
from workbench.asked import KINDS, Extend, Keep, Pin, Quota, Stop, plain, read
from workbench.errors import BadField, BadInput, NotFound

REQUESTS = [
    Stop("e", 3, "enough"),
    Stop("e"),
    Extend(experiment="e", trials=0, last=81, seconds=1.5),
    Pin("e", 0, 27),
    Keep("e", "latest=2"),
    Keep("e", {"latest": 2}),
    Quota(10**18),
    Quota(),
    asked.Tag("e", ["a", "b"]),
    asked.Gc(dry_run=True),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_a_request_comes_back_as_it_was_written(request_: asked.Request) -> None:
    data = json.loads(json.dumps(plain(request_)))
    assert read(data) == request_
    assert None not in data.values()


def test_the_table_has_every_kind_and_every_field_says_what_it_takes() -> None:
    assert set(KINDS.values()) == set(typing.get_args(asked.Request))
    for word, kind in KINDS.items():
        for name in typing.get_type_hints(kind):
            with pytest.raises(BadInput, match=f"request {word}: .*; expected "):
                read(
                    {"kind": word, "experiment": "e", **dict.fromkeys(typing.get_type_hints(kind), object()), name: ...}
                )


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"kind": "stop"}, "experiment is None; expected an experiment's id"),
        ({"kind": "stop", "experiment": "x" * 65}, "expected an experiment's id"),
        ({"kind": "stop", "experiment": "e", "trial": -1}, "trial is -1; expected a trial's number"),
        ({"kind": "stop", "experiment": "e", "trial": True}, "trial is True"),
        ({"kind": "stop", "experiment": "e", "trial": 1.5}, r"trial is 1\.5"),
        ({"kind": "pin", "experiment": "e", "step": 10**30}, "expected a step"),
        ({"kind": "extend", "experiment": "e", "seconds": float("nan")}, "a number of seconds above 0"),
        ({"kind": "extend", "experiment": "e", "seconds": float("inf")}, "a number of seconds above 0"),
        ({"kind": "extend", "experiment": "e", "seconds": 0}, "a number of seconds above 0"),
        ({"kind": "tag", "experiment": "e", "tags": ["a", 1]}, "a list of at most 50 tags of at most 100 char"),
        ({"kind": "keep", "experiment": "e"}, "rule is None; expected a rule"),
        ({"kind": "keep", "experiment": "e", "rule": {"latest": -1}}, "expected a rule"),
        ({"kind": "keep", "experiment": "e", "rule": {str(n): 1 for n in range(11)}}, "expected a rule"),
        ({"kind": "stop", "experiment": "e", "trial": "x"}, "trial is 'x'; expected a trial's number, or its label"),
        ({"kind": "stop", "experiment": "e", "trial": "t9999999999"}, "expected a trial's number, or its label"),
        ({"kind": "rename", "experiment": "e", "name": "../x"}, "is not a name for an experiment"),
        ({"kind": "note", "experiment": "e", "note": "x" * 10_001}, "at most 10,000 characters"),
        ({"kind": "keep", "experiment": "e", "rule": {"nothing": 1}}, "expected experiment, best, latest and stopped"),
        ({"kind": "keep", "experiment": "e", "rule": "latest=-1"}, "expected experiment, best, latest and stopped"),
        ({"kind": "quota", "bytes": 10**19}, "a number of bytes"),
        ({"kind": "gc", "dry_run": 1}, "true or false"),
    ],
)
def test_what_a_field_cannot_take_is_refused(data: dict[str, Any], says: str) -> None:
    with pytest.raises(BadField, match=says) as caught:
        read(data)
    assert f": {caught.value.field} is" in str(caught.value) or caught.value.field in ("name", "rule")


def test_a_trial_may_be_named_by_its_label_and_tags_come_in_order() -> None:
    assert read({"kind": "pin", "experiment": "e", "trial": "t0007", "step": 3}) == Pin("e", 7, 3)
    assert read({"kind": "tag", "experiment": "e", "tags": ["b", " a", "b", ""]}) == asked.Tag("e", ["a", "b"])


@pytest.mark.parametrize("kind", ["frobnicate", None, 7, ["stop"], {}])
def test_an_unknown_kind_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(NotFound, match="is not known; expected adopt, delete"):
        read({"kind": kind, "experiment": "e"})


def test_a_field_of_a_later_version_is_ignored() -> None:
    assert read({"kind": "stop", "experiment": "e", "gently": True}) == Stop("e")

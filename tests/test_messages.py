"""Messages come back as they were sent; what is none is refused by name."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench import messages
from workbench.errors import BadMessage
from workbench.messages import KINDS, Begun, LegOrder, Level, Points, Skip, plain, read

ORDER = LegOrder(
    store="/s",
    experiment="e",
    trial=3,
    attempt=1,
    start=0,
    until=9,
    levels=frozenset({1, 3, 9}),
    max_steps=27,
    configuration={"lr": 0.1, "seed": 2**100, "path": "\udcff", "deep": [{"a": None}]},
    known_step=0,
    resume=False,
)


def over_the_wire(message: Any) -> Any:
    return read(json.loads(json.dumps(plain(message), ensure_ascii=False)))


def test_the_table_has_every_class_that_a_message_may_be() -> None:
    assert set(KINDS.values()) == set(typing.get_args(messages.Message))
    assert all(dataclasses.is_dataclass(kind) for kind in KINDS.values())


def messages_of(kind: type) -> st.SearchStrategy[Any]:
    """Messages of one kind, with anything in their fields that is plain data of their type."""
    data = st.dictionaries(st.text(), st.integers() | st.text() | st.none() | st.lists(st.booleans()))
    hints = typing.get_type_hints(kind)
    fields = {
        field.name: data if "Any" in str(hints[field.name]) else st.from_type(hints[field.name])
        for field in dataclasses.fields(kind)
    }
    if kind is Points:
        rows = st.lists(st.tuples(st.text(), st.integers(), st.floats()).map(list))
        fields = {"rows": rows, "waited": st.none() | st.tuples(st.floats(), st.floats())}
    return st.builds(kind, **fields)


def written(message: Any) -> str:
    """A message as text: nan is not equal to itself, and a set has no order."""
    data = plain(message)
    return repr(data | {"levels": sorted(data.get("levels", ()))})


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_comes_back_as_it_was(kind: type) -> None:
    @given(messages_of(kind))
    def comes_back(message: Any) -> None:
        found = over_the_wire(message)
        assert type(found) is kind
        assert written(found) == written(message)

    comes_back()


def test_what_json_and_python_have_beyond_others_survives() -> None:
    assert over_the_wire(ORDER) == ORDER
    assert math.isnan(over_the_wire(Level(1, {"a": math.nan})).metrics["a"])
    assert over_the_wire(Points([], (2.0, 1.5))) == Points([], (2.0, 1.5))
    assert over_the_wire(Begun(step=1, skipped=[Skip(2, "cut")])).skipped == [Skip(2, "cut")]


def test_numbers_of_other_libraries_travel_as_numbers() -> None:
    data = plain(Begun(step=1, found={"value": np.float64(0.5), "name": np.str_("x")}))
    assert [type(value) for value in data["found"].values()] == [float, str]
    with pytest.raises(TypeError, match="object"):
        plain(Begun(step=1, found={"value": object()}))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "expected one of"),
        ([], "expected one of"),
        ({}, "expected one of"),
        ({"op": ["kill"]}, "expected one of"),
        ({"op": "order"}, "'order'"),
        ({"op": "kill"}, "`id`"),
        ({"op": "kill", "id": "1"}, r"\$\.id"),
        ({"op": "kill", "id": True}, r"\$\.id"),
        ({"op": "level", "step": 1, "metrics": {"a": "0.5"}}, r"\$\.metrics"),
        ({"op": "left", "outcome": "well"}, r"\$\.outcome"),
    ],
)
def test_what_is_no_message_is_refused_with_the_field(data: Any, says: str) -> None:
    with pytest.raises(BadMessage, match=says):
        read(data)


def test_a_field_of_a_later_version_is_passed_over() -> None:
    assert read({"op": "kill", "id": 1, "how": "gently"}) == messages.Kill(1)

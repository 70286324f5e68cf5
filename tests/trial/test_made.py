"""What a checkpoint says of everything that it does not hold: the same, whatever was asked before."""

from __future__ import annotations

import gc
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.trial.classifier import Classifier
from workbench.trial.course.made import Making
from workbench.trial.discovery import Survey
from workbench.trial.looking.collector import uncollected
from workbench.trial.modules import OwnModules
from workbench.trial.namespace import roots

NAMES = "abcd"
CHANGES = st.lists(
    st.sampled_from([*NAMES, *(f"{name}." for name in NAMES), *(f"-{name}" for name in NAMES)]), max_size=3
)


@given(st.lists(CHANGES, max_size=4))
def test_a_later_answer_does_not_depend_on_earlier_ones(steps: list[list[str]]) -> None:
    main = {name: {"items": [number], "plain": number} for number, name in enumerate(NAMES)}
    where = roots(main, [], ())
    base = Survey(Classifier(main), where)
    making = Making(base)
    for changes in steps:
        for change in changes:
            name = change.strip("-.")
            if change.startswith("-"):
                main.pop(name, None)
            elif change.endswith("."):
                main.get(name, {}).get("items", []).append(0)
            else:
                main[name] = {"items": [], "plain": 9}
        later = Survey(base.classifier, where, base)
        assert making.of(later) == Making(base).of(later)


def test_a_module_that_takes_the_place_of_another_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = types.ModuleType("mine"), types.ModuleType("mine")
    own = OwnModules({})
    assert "mine" not in own.look()
    monkeypatch.setitem(sys.modules, "mine", first)
    assert own.look()["mine"] is first
    monkeypatch.setitem(sys.modules, "mine", second)
    assert own.look()["mine"] is second
    monkeypatch.delitem(sys.modules, "mine")
    assert "mine" not in own.look()


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_is_as_it_was_after_an_error(collects: bool) -> None:
    def failing() -> None:
        with uncollected():
            assert not gc.isenabled()
            raise ZeroDivisionError

    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with pytest.raises(ZeroDivisionError):
            failing()
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()

"""What a checkpoint says of everything that it does not hold: the same, whatever was asked before."""

from __future__ import annotations

import gc
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.snapshot.imported import Newest
from workbench.trial import modules
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


def test_a_set_up_is_asked_only_for_modules_that_were_not_imported_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in a fork of a process that has looked, which this one is not.
    monkeypatch.setattr(modules, "_ahead", Newest())
    first, second = types.ModuleType("mine"), types.ModuleType("json")
    own = OwnModules({})
    assert own.first() == {}
    monkeypatch.setitem(sys.modules, "mine", first)
    assert own.first() == {"mine": first}
    monkeypatch.setitem(sys.modules, "json", second)
    assert own.first() == {"mine": first}
    assert own.look()["json"] is second
    monkeypatch.delitem(sys.modules, "csv")  # then all are asked
    assert own.first() == own.look()


def test_own_modules_that_were_imported_ahead_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = types.ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", mine)
    monkeypatch.setitem(sys.modules, "newest", types)
    for name, empty in (("_ahead", None), ("_held", {}), ("_foreign", {})):
        monkeypatch.setattr(modules, name, empty)
    modules.know_installed()
    assert OwnModules({}).first()["mine"] is mine
    monkeypatch.setitem(sys.modules, "mine", types.ModuleType("mine"))
    assert "mine" not in OwnModules({}).first()


def tokens(source: str, filename: str = "<made>", **constants: object) -> list[tuple[str, object]]:
    """What a survey sees of the names that ``source`` gives, in a process of its own for all that it can know."""
    names: dict[str, object] = {"__name__": "made"}
    exec(compile(source, filename, "exec"), names)
    function = names.get("f")
    if isinstance(function, types.FunctionType) and constants:
        code = function.__code__
        function.__code__ = code.replace(co_consts=tuple(constants.get(str(one), one) for one in code.co_consts))
    main = {name: value for name, value in names.items() if not name.startswith("__") and name in ("f", "value")}
    return [(name, token) for _, name, token in Survey(Classifier(main), roots(main, [], ())).tokens()]


def test_an_enum_of_bare_objects_is_the_same_in_each_process() -> None:
    source = "import enum\nclass Sentinel(enum.Enum):\n    UNSET = object(); OTHER = object()\nvalue = Sentinel."
    assert tokens(f"{source}UNSET") == tokens(f"{source}UNSET")
    assert tokens(f"{source}UNSET") != tokens(f"{source}OTHER")


def test_a_function_of_no_module_is_known_by_what_it_does() -> None:
    source = "def f(x):\n    return x in 'set'\n"
    # Sets of one content, which go through their elements in another order.
    one, other = frozenset([0, 8]), frozenset([8, 0])
    assert list(one) != list(other)
    assert tokens(source, set=one) == tokens(source, "<made again>", set=other)
    assert tokens(source, set=one) != tokens(source, set=frozenset([0, 9]))
    assert tokens(source) != tokens(source.replace("in", "not in"))


def test_a_function_that_is_called_main_s_is_not_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)

    def bound(body: str) -> list[tuple[str, object]]:
        exec(f"def f(x):\n    return {body}", names := {"__name__": "__main__"})
        main.f = names["f"]  # type: ignore[attr-defined]
        where = roots(vars(main), [], ())
        return [(name, token) for _, name, token in Survey(Classifier(vars(main)), where).tokens() if name == "f"]

    assert bound("x + 1") == bound("x + 1")
    assert bound("x + 1") != bound("x * 100")


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

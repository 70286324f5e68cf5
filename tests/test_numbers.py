"""Numbers are shown in the same way everywhere. The panel's tests read the same table."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.cli import words
from workbench.compare import section
from workbench.records import numbers
from workbench.status import board, figure

CASES = json.loads((Path(__file__).parent / "fixtures" / "numbers.json").read_text())


@pytest.mark.parametrize("shown", [numbers.shown, board.number, words.number, section.number])
@pytest.mark.parametrize(("value", "text"), CASES)
def test_every_face_shows_a_number_in_the_same_way(shown, value, text):
    assert shown(float(value)) == text


def test_whole_settings_and_texts_stay_as_they_are():
    assert [board.number(one) for one in (1048576, True, None, "sgd")] == ["1048576", "True", "–", "sgd"]
    assert [numbers.shown(one) for one in (math.nan, math.inf, -math.inf, -0.0)] == ["nan", "inf", "-inf", "0"]


@given(st.floats(-1e300, 1e300))
def test_it_is_close_and_never_looks_whole(value):
    text = numbers.shown(value)
    assert math.isclose(float(text), value, rel_tol=5e-4, abs_tol=0)
    if 1e-3 <= abs(value) < 1e6 and abs(value - round(value)) > 1e-8 * abs(value):
        assert not float(text).is_integer()


def test_a_point_of_the_figure_that_is_not_whole_stays_so():
    assert [figure.number_of(one) for one in (0.99999994, 0.1234567, 1.0, math.nan)] == [0.99999994, 0.123457, 1, None]

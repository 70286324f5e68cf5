"""A magic's line with variables: configurations reach their option as they are, typed or from the notebook."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import BadOption
from workbench.experiment.grammar import parse
from workbench.lab.expanding import expanded

values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text())
configurations = st.dictionaries(st.text(), st.one_of(values, st.lists(values), st.dictionaries(st.text(), values)))


@given(st.one_of(configurations, st.lists(configurations, min_size=1)))
def test_a_variable_reaches_its_option_whatever_it_holds(value):
    several = value if isinstance(value, list) else [value]
    for form in ("$value", '"$value"', "{value}", "$value --wait"):
        assert list(parse(expanded(f"x --first {form}", {"value": value})).first.values) == several


def test_a_table_and_a_class_are_written_as_data():
    class Relu:
        pass

    names = {"table": pd.DataFrame({"lr": [0.1, None], "act": [Relu, Relu]}), "path": "a.json", "n": 3}
    line = expanded("x --first $table --trials {n + 1} --store $path", names)
    assert parse(line).first.values == ({"lr": 0.1, "act": "Relu"}, {"lr": None, "act": "Relu"})
    assert line.endswith("--trials 4 --store a.json")


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("""--first '{"lr": 0.1}'""", [{"lr": 0.1}]),
        (
            """--first='[{"lr": 0.1}, {"lr": 0.2, "o": {"k": {}}}]' --seed $seed""",
            [{"lr": 0.1}, {"lr": 0.2, "o": {"k": {}}}],
        ),
        ("""--first "{'lr': 0.1}" --seed {seed}""", [{"lr": 0.1}]),
        ("""--first "{'lr': $lr}" """, [{"lr": 0.5}]),
        ("""--first '{"lr": 0.1}' --alert 'log ~ "{seed}"'""", [{"lr": 0.1}]),
    ],
)
def test_a_dict_that_is_typed_stays(line, first):
    options = parse(expanded(line, {"seed": 7, "lr": 0.5}))
    assert list(options.first.values) == first
    assert options.alerts in ((), ('log ~ "7"',))


@pytest.mark.parametrize("line", ["--trials $nothing", "--first {lr: 0.1}", "--first '{'"])
def test_what_cannot_be_expanded_is_refused(line):
    with pytest.raises(BadOption, match="cannot be expanded"):
        expanded(line, {})


@pytest.mark.parametrize("text", ['{"lr": 0.1}', '[{"lr": 0.1}]', "'{\"lr\": 0.1}'", "\"{'lr': 0.1}\""])
def test_a_comment_needs_no_quotes(text):
    assert parse("", f"#| first: {text}\n").first.values == ({"lr": 0.1},)

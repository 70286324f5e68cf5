"""Configurations as they are typed, kept in tables and made in Python; and which of them are refused, by number."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from workbench.errors import BadOption, NotFound
from workbench.given import read, searching
from workbench.records import Searcher
from workbench.space import Parameter, Space, choice, loguniform, randint, uniform

SPACE = Space(
    {
        "lr": loguniform(1e-4, 1),
        "units": randint(16, 64),
        "act": choice("relu", "7"),
        "momentum": uniform(0, 1, when=Parameter("act") == "relu"),
    }
)
WHOLE = {"lr": 0.1, "units": 32, "act": "relu", "momentum": 0.9}
OTHER = {"lr": 0.2, "units": 64, "act": "7"}


def taken(first=None, configurations=None, written="--"):
    return searching(Searcher(), SPACE, first, configurations, written)


def tables(folder):
    """The same two configurations in every form."""
    (folder / "a.json").write_text(json.dumps([WHOLE, {**OTHER, "momentum": None}]))
    (folder / "a.jsonl").write_text(f"{json.dumps(WHOLE)}\n\n{json.dumps(OTHER)}\n")
    (folder / "a.csv").write_text("lr, units, act, momentum\n0.1,32,relu,0.9\n2e-1,64,7,\n", encoding="utf-8-sig")
    yield from (str(folder / name) for name in ("a.json", "a.jsonl", "a.csv"))
    yield folder / "a.csv"
    yield [WHOLE, OTHER]
    yield (WHOLE, OTHER)
    yield json.dumps([WHOLE, OTHER])
    yield repr([WHOLE, {**OTHER, "momentum": None}])
    yield pd.DataFrame([WHOLE, OTHER])
    yield pd.DataFrame(
        {
            "lr": np.array([0.1, 0.2]),
            "units": pd.array([32, 64], dtype="Int64"),
            "act": pd.Categorical(["relu", "7"]),
            "momentum": pd.array([0.9, None], dtype="Float64"),
        }
    )


def test_every_form_gives_the_same(tmp_path):
    for given in tables(tmp_path):
        assert taken(given) == Searcher(given=(WHOLE, OTHER)), given
        assert taken(None, given) == Searcher(given=(WHOLE, OTHER), only=True), given
    assert taken(WHOLE) == taken(json.dumps(WHOLE)) == Searcher(given=(WHOLE,))


def test_a_path_is_of_this_folder_or_of_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    for path in ("a.json", "home/b.json"):
        (tmp_path / path).write_text('{"lr": 0.1}')
    assert taken("a.json") == taken("~/b.json") == Searcher(given=({"lr": 0.1},))


def test_nothing_given_first_is_no_difference():
    assert taken() == taken([]) == taken(pd.DataFrame({"lr": []})) == Searcher()


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ("{lr: 0.1}", ["--first {lr: 0.1}: it is not valid JSON", "in single quotes: --first '{\"lr\": 0.1}'"]),
        ("best", ["--first best", ".json, .jsonl or .csv", "--first '{\"lr\": 0.1}'"]),
        ("table.xlsx", ["--first table.xlsx", ".csv"]),
        ({"lr": 2.0}, ["--first: lr is 2.0", "loguniform(0.0001, 1)"]),
        ([WHOLE, {"lr": 2.0}], ["--first, configuration 2: lr is 2.0"]),
        ([WHOLE, 3], ["--first, configuration 2: int was given", "such as {'lr': 0.1}"]),
        ('[0.1, "a"]', ["configuration 1: float was given"]),
        ("[[]]", ["configuration 1: list"]),
        (3, ["--first int: expected a dict"]),
        (b"{}", ["--first bytes"]),
        ({}, ["no hyperparameter has a value; expected one or more of lr, units, act, momentum"]),
        ({"ler": 0.1}, ["ler is not a hyperparameter", "Did you mean lr?"]),
        (pd.DataFrame({"state": ["completed"], "lr": [0.1]}), ["--first, row 1: state is not a hyperparameter"]),
        (pd.DataFrame({"lr": [0.1, 5.0]}), ["--first, row 2: lr is 5.0"]),
        ([{"lr": 0.1}] * 10_001, ["10,001 configurations were given; expected 10,000 at most"]),
    ],
)
def test_what_is_wrong_is_said_with_its_number(given, parts):
    with pytest.raises(BadOption) as caught:
        taken(given)
    for part in parts:
        assert part in str(caught.value)


def test_a_wrong_row_of_a_table_is_named_with_its_file(tmp_path):
    (tmp_path / "warm.csv").write_text("lr,units\n0.1,32\n0.1,6.5\n")
    with pytest.raises(
        BadOption, match=r"--configurations, warm.csv, row 2: units is '6.5'; expected a value of randint"
    ):
        taken(None, str(tmp_path / "warm.csv"))
    (tmp_path / "warm.json").write_text("[{]")
    with pytest.raises(BadOption, match=r"warm.json: it is not valid JSON"):
        taken(str(tmp_path / "warm.json"))
    (tmp_path / "warm.jsonl").write_text("3\n")
    with pytest.raises(BadOption, match=r"warm.jsonl, line 1: expected an object"):
        taken(str(tmp_path / "warm.jsonl"))
    for name in ("none.json", "none.csv"):
        with pytest.raises(NotFound, match=rf"there is no table .*{name}"):
            taken(str(tmp_path / name))
    (tmp_path / "latin.json").write_bytes(b'{"act": "\xe9"}')
    with pytest.raises(BadOption, match="Expected JSON as UTF-8"):
        taken(str(tmp_path / "latin.json"))


@pytest.mark.parametrize(
    "given",
    [
        "{\x07",
        "[\u202e]",
        "\x1b[31m.csv",
        "\x1b.txt",
        '{"\\u202elr": 1}',
        '{"act": "\\u001b[31m"}',
        {"\x07": 1},
        {"lr": "\n"},
    ],
)
def test_no_message_carries_characters_that_act(given):
    with pytest.raises(BadOption) as caught:
        taken(given)
    assert str(caught.value).isprintable()


def test_both_at_once_and_an_empty_list_are_refused_as_they_were_written():
    with pytest.raises(BadOption, match=r"^--first and --configurations were given; expected one of them"):
        taken(WHOLE, WHOLE)
    with pytest.raises(BadOption, match=r"^first= and configurations= were given"):
        taken(WHOLE, WHOLE, written="")
    with pytest.raises(BadOption, match="configurations= is empty: there is nothing to train"):
        taken(None, [], written="")
    with pytest.raises(BadOption, match=r"^first=: lr is 2.0"):
        taken({"lr": 2.0}, written="")


def test_what_was_read_is_not_read_again(tmp_path):
    (tmp_path / "a.json").write_text('{"lr": 0.1}')
    rows = read(str(tmp_path / "a.json"), "first")
    (tmp_path / "a.json").unlink()
    assert taken(rows) == Searcher(given=({"lr": 0.1},))

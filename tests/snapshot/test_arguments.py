"""A script's arguments: which words make hyperparameters, and which words a trial's script gets."""

from __future__ import annotations

import argparse
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import BadOption, BadSpace
from workbench.snapshot.reading.arguments import argument_words, read_arguments, split_arguments


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--lr 'loguniform(1e-4, 1)' --epochs 20", ["--lr", "loguniform(1e-4, 1)", "--epochs", "20"]),
        ("--lr loguniform(1e-4, 1)", ["--lr", "loguniform(1e-4, 1)"]),
        ("--a f(1,\n  2)  # a comment\n--name 'two words'", ["--a", "f(1,\n  2)", "--name", "two words"]),
        ("--opt choice(\"a b\", c)", ["--opt", 'choice("a b", c)']),
        ("a\\ b \\\n c ''", ["a b", "c", ""]),
        ("--color a#b # c", ["--color", "a#b"]),
        ("", []),
    ],
)  # fmt: skip
def test_words_are_split_as_in_a_shell_and_calls_stay_whole(text, words):
    assert split_arguments(text) == words


@pytest.mark.parametrize(
    ("words", "space"),
    [
        (["--lr", "loguniform(1e-4, 1)"], "lr = loguniform(0.0001, 1)"),
        (["--lr=loguniform(1e-4, 10**-1)"], "lr = loguniform(0.0001, 0.1)"),
        (["-l", "uniform(-1, 1)"], "l = uniform(-1, 1)"),
        (["--weight-decay", "uniform(0, 1)"], "weight_decay = uniform(0, 1)"),
        (["+model.net-2.lr=uniform(0, 1)"], "model_net_2_lr = uniform(0, 1)"),
        (["--lambda", "uniform(0, 1)"], "lambda_ = uniform(0, 1)"),
        (["--opt", "choice(adam, 'sgd', \"adam-w\", nn.SGD)"], "opt = choice('adam', 'sgd', 'adam-w', 'nn.SGD')"),
        (["--layers", "choice([64, 64], (32,))"], "layers = choice([64, 64], [32])"),
        (["--clip", "choice(None, uniform(0, 1))"], "clip = choice(None, uniform(0, 1))"),
        (["--amp", "flag()"], "amp = choice(False, True)"),
        (
            ["--opt", "choice(a, b)", "--m", "uniform(0, 1, when=opt == a)"],
            "opt = choice('a', 'b')\nm = uniform(0, 1, when=opt == 'a')",
        ),
        (
            ["--n", "randint(1, 4)", "--m", "choice(1, 2, when=(n > 1) & (n < 4))"],
            "n = randint(1, 4)\nm = choice(1, 2, when=(n > 1) & (n < 4))",
        ),
        (["--expression", "f(x)", "data/(1).csv", "--", "x=y"], ""),
    ],
)  # fmt: skip
def test_calls_of_distributions_are_hyperparameters(words, space):
    assert read_arguments(words)[1].describe() == space


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["uniform(0, 1)"], "write --name 'uniform(0, 1)'"),
        (["train", "uniform(0, 1)"], "stands alone"),
        (["--lr=0.1", "uniform(0, 1)"], "stands alone"),
        (["--lr", "uniform(0, 1)", "uniform(0, 1)"], "stands alone"),
        (["-1", "uniform(0, 1)"], "stands alone"),
        (["--lr", "logunifrom(1, 2)"], "is loguniform(…) meant?"),
        (["--lr", "Uniform(1, 2)"], "is uniform(…) meant?"),
        (["--lr", "uniform(0, 1) + 1"], "one distribution and nothing else"),
        (["--lr", "uniform(0, 1"], "one distribution and nothing else"),
        (["--lr", "uniform(0, 1)", "--lr", "uniform(0, 1)"], "two distributions"),
        (["--a-b", "uniform(0, 1)", "--a.b", "uniform(0, 1)"], "two distributions"),
        (["--amp=flag()"], "a flag has no value"),
        (["--lr", "uniform(low, 1)"], "low"),
        (["--lr", "uniform(0)"], "missing"),
        (["--lr", "uniform(2, 1)"], "uniform(2, 1)"),
        (["--lr", "choice(a-b, c)"], "`a - b` is not plain"),
        (["--lr", "choice(open(1))"], "is not plain"),
        (["--lr", "choice([x for x in y])"], "is not plain"),
        (["--lr", "choice({1: 2})"], "is not plain"),
        (["--lr", "choice(1j)"], "cannot be an argument"),
        (["--lr", "choice(b'x')"], "cannot be an argument"),
        (["--m", "uniform(0, 1, when=opt == 1)", "--opt", "choice(1, 2)"], "no argument before it"),
        (["--opt", "choice(1, 2)", "--m", "uniform(0, 1, when=otp == 1)"], "is opt meant?"),
    ],
)
def test_what_is_no_distribution_is_refused_by_name(words, told):
    with pytest.raises((BadOption, BadSpace)) as raised:
        read_arguments(words)
    assert told in str(raised.value)


@pytest.mark.parametrize("text", ["'open", "choice(1, 2", "[1"])
def test_quotes_and_brackets_without_their_partner_are_refused(text):
    with pytest.raises(BadOption, match="is not closed"):
        split_arguments(text)


@pytest.mark.parametrize(
    ("words", "configuration", "given"),
    [
        (["train", "--lr", "uniform(0, 1)", "--x", "1"], {"lr": 0.25}, ["train", "--lr", "0.25", "--x", "1"]),
        (["--lr=uniform(0, 1)"], {"lr": 1e-05}, ["--lr=1e-05"]),
        (["--shift", "uniform(-1, 1)"], {"shift": -1e-05}, ["--shift", "-0.00001"]),
        (["--layers", "choice([1, 2], [3])"], {"layers": [1, 2]}, ["--layers", "1", "2"]),
        (["net.layers=choice([1, 2], [3])"], {"net_layers": [1, 2]}, ["net.layers=[1,2]"]),
        (["--amp", "flag()", "x"], {"amp": True}, ["--amp", "x"]),
        (["--amp", "flag()", "x"], {"amp": False}, ["x"]),
        (["--amp", "choice(True, False)"], {"amp": False}, ["--amp", "False"]),
        (["--clip", "choice(None, 1)", "x"], {"clip": None}, ["x"]),
        (["--clip=choice(None, 1)", "x"], {"clip": None}, ["x"]),
    ],
)
def test_a_script_gets_the_trials_values(words, configuration, given):
    assert argument_words(read_arguments(words)[0], configuration) == given


@given(st.integers(0, 2**32))
def test_an_argument_parser_gets_back_what_was_chosen(seed):
    arguments, space = read_arguments(
        [
            *("--lr", "loguniform(1e-9, 1)", "--opt", "choice(adam, sgd)", "--m", "uniform(-1e-4, 0, when=opt == sgd)"),
            *("--layers", "choice([64, 32], [1])", "--amp", "flag()", "--n", "randint(-3, 3)"),
        ]
    )
    configuration = space.sample(random.Random(seed))
    parser = argparse.ArgumentParser()
    for name, kind in (("lr", float), ("opt", str), ("m", float), ("n", int)):
        parser.add_argument(f"--{name}", type=kind)
    parser.add_argument("--layers", type=int, nargs="+")
    parser.add_argument("--amp", action="store_true")
    assert vars(parser.parse_args(argument_words(arguments, configuration))) == configuration

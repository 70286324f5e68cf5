"""What the search core is told and orders comes back from a journal line as it was."""

from __future__ import annotations

import json

import pytest

from workbench.facts import (
    CapacityChanged,
    Ended,
    Failed,
    Finish,
    Left,
    Lost,
    PauseAsked,
    Reached,
    ResumeAsked,
    Run,
    Settle,
    Stop,
    StopAsked,
    fact_from_line,
    instruction_from_line,
    to_line,
)

FACTS = [
    CapacityChanged(3),
    Reached(7, 9, 0.5),
    Ended(7, 27, float("inf")),
    Failed(7, "ValueError: no"),
    Lost(7, "its worker went away"),
    Left(7),
    StopAsked(None, "enough"),
    StopAsked(7, "enough"),
    PauseAsked("lunch"),
    ResumeAsked("back"),
]
INSTRUCTIONS = [
    Run(7, 3, 9, "rank 1"),
    Stop(7, "rank 9"),
    Stop(7, "lunch", then="paused"),
    Settle(7, "completed", "done"),
    Finish("completed", "all done"),
]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
def test_a_fact_comes_back_from_its_line(fact):
    line = json.loads(json.dumps({**to_line(fact), "n": 5, "at": "2026-01-01T00:00:00Z"}))
    assert fact_from_line(line) == fact
    assert instruction_from_line(line) is None


@pytest.mark.parametrize("instruction", INSTRUCTIONS, ids=lambda instruction: type(instruction).__name__)
def test_an_instruction_comes_back_from_its_line(instruction):
    line = json.loads(json.dumps(to_line(instruction)))
    assert instruction_from_line(line) == instruction
    assert fact_from_line(line) is None


def test_a_value_that_is_no_number_comes_back_too():
    line = json.loads(json.dumps(to_line(Reached(7, 9, float("nan")))))
    value = fact_from_line(line).value
    assert value != value


@pytest.mark.parametrize("line", [{}, {"kind": "answer"}, {"kind": "Spec"}])
def test_other_lines_are_neither(line):
    assert fact_from_line(line) is None
    assert instruction_from_line(line) is None

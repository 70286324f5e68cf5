"""Which names a loop assigns in each turn before it reads them, and which it carries over to the next turn."""

import sys

import pytest

from workbench.trial.course.liveness import assigned_first, carried_over

NAMES = {"x", "y", "z"}


def found(source, asked=assigned_first):
    """The names that are assigned first, asked where the loop waits for its second turn."""
    answers = []

    class Turns:
        def __iter__(self):
            return self

        def __next__(self):
            frame = sys._getframe(1)
            answers.append(asked(frame, NAMES))
            if len(answers) == 3:
                raise StopIteration
            return len(answers)

    namespace = {"turns": Turns(), "x": 0, "y": 0, "z": 0, "print": lambda *_: None, "cond": False}
    exec(compile(source, "<test>", "exec"), namespace)
    return answers[1]


def test_a_loop_through_a_generator_is_asked_at_its_own_instruction():
    """Python 3.12 goes into such a generator without a call, from the second turn on."""
    answers = []

    def turns():
        for turn in range(20):
            frame = sys._getframe(1)
            answers.append((assigned_first(frame, NAMES), carried_over(frame, NAMES)))
            yield turn

    source = "for t in turns():\n    x = t\n    if cond:\n        y = t\n    z = y + x\n"
    exec(compile(source, "<test>", "exec"), {"turns": turns, "y": 0, "cond": False})
    assert answers == 20 * [({"x", "z"}, {"y"})]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("for t in turns:\n    x = t\n    y = x + 1\n", {"x", "y"}),
        ("for t in turns:\n    if cond:\n        x = t\n    y = 1\n", {"y"}),
        ("for t in turns:\n    x = t\n    y = x + 1\nprint(y)\n", {"x"}),
        ("for t in turns:\n    y = x\n    x = t\n", {"y"}),
        ("for t in turns:\n    if t == 2:\n        x = 1\n    y = x\n", {"y"}),
        ("for t in turns:\n    if t == 2:\n        x = 1\n    else:\n        x = 2\n    y = x\n", {"x", "y"}),
        ("for t in turns:\n    for x in [1, 2]:\n        y = x\n", {"x", "y"}),
        ("for t in turns:\n    for x in []:\n        y = x\n    z = y\n", {"x", "z"}),
        ("for t in turns:\n    x += 1\n", set()),
        ("for t in turns:\n    try:\n        x = int(t)\n    except ValueError:\n        print(x)\n", set()),
        ("def f():\n    return x\nfor t in turns:\n    x = 1\n    y = f()\n", {"y"}),
        ("for t in turns:\n    x = 1\n    y = [z for _ in range(2)]\n", {"x", "y"}),
        ("for t in turns:\n    x = 1\n    del x\n", {"x"}),
        ("for t in turns:\n    if cond:\n        del x\n    x = 1\n", set()),
        ("for t in turns:\n    x = 1\n    print(globals())\n", set()),
        ("def f():\n    for t in turns:\n        x = 1\n        y = x\n    return y\nf()\n", {"x"}),
        ("def f():\n    x = y = 0\n    for t in turns:\n        y = x\n        x = 1\nf()\n", {"y"}),
        ("def f():\n    x = 0\n    for t in turns:\n        y = [x for x in [t]]\n        x += 1\nf()\n", {"y"}),
        ("x = 0\nfor t in turns:\n    y = [x for x in [t]]\n    x += 1\n", {"y"}),
        ("def f():\n    x = 0\n    g = lambda: x\n    for t in turns:\n        x = 1\nf()\n", set()),
        ("it = iter(turns)\nwhile (t := next(it, None)) is not None:\n    x = 1\n    y = x\n", {"x", "y"}),
        ("while True:\n    try: t = next(turns)\n    except StopIteration: break\n    x = y = t\nprint(x)\n", {"y"}),
        ("for t in turns:\n    for x, y in [(1, 2)]:\n        z = x\n        if cond: break\n", {"x", "y", "z"}),
    ],
)
def test_names_assigned_before_they_are_read(source, expected):
    assert found(source) == expected


def test_what_a_captured_function_reads_is_read():
    assert found(
        "for t in turns:\n    x = t\n    y = t\n", lambda frame, names: assigned_first(frame, names, {"y"})
    ) == {"x"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("for t in turns:\n    x = t\n    y = x\nprint(x)\n", set()),
        ("for t in turns:\n    x = x + t\n    y = 1\n", {"x"}),
        ("def f():\n    x = 0\n    for t in turns:\n        y = [x for x in [t]]\n        x += 1\nf()\n", {"x"}),
        ("for t in turns:\n    for y in [1]:\n        x = y\n    z = x\n", set()),
        ("for t in turns:\n    if cond:\n        x = t\n    y = x\n", {"x"}),
        ("for t in turns:\n    try:\n        x = t\n    except ValueError:\n        print(y)\n    z = x\n", set()),
        ("def f():\n    return x, print.__name__\nfor t in turns:\n    x = y = 1\n    f()\n", {"x"}),
        ("def f():\n    x = y = 0\n    for t in turns:\n        y = x\n        x = 1\n    return y\nf()\n", {"x"}),
        ("def f():\n    return next(it, None)\nit = iter(turns)\nx = 0\nwhile f() is not None:\n    y = 1\n", set()),
    ],
)
def test_names_that_a_turn_leaves_to_the_next(source, expected):
    assert found(source, carried_over) == expected

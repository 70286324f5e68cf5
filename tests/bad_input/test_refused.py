"""What can be known before anything starts: refused in one short message, and nothing is started."""

from __future__ import annotations

import re
import socket
import sqlite3
import threading

import pytest

from workbench.errors import BadCapture, BadCell, BadMetric, BadName, BadOption, BadSpace

LINE = "%%train digits --goal max val_acc --steps 1-9"
#: Characters that act instead of being shown.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]")
LOOP = "for epoch in trial.steps():\n    trial.report(val_acc=1)\n"


def refused(person, text, kind, line, parts):
    """The cell ``text`` is refused by ``kind`` at ``line``, which is pointed at; ``parts`` stand in the message."""
    said = person.cell(text)
    assert type(said.error) is kind
    assert said.error.line == line
    message = str(said.error)
    for part in parts:
        assert part in message
    # One message and the lines around the one it is about; nothing of our insides.
    assert said.shown.rstrip().endswith(f"{kind.__name__}: {message}")
    assert len(said.shown.splitlines()) <= 5 + len(message.splitlines())
    assert "Traceback" not in said.shown
    assert "workbench/" not in said.shown
    if line is not None:
        assert f"----> {line:3} {CONTROL.sub('�', text.splitlines()[line - 1])}" in said.shown
    assert not CONTROL.search(said.shown)
    assert person.started_nothing()


# ---------------------------------------------------------------------------------------------------------------------
# The loop and the goal


@pytest.mark.parametrize(
    ("body", "line", "parts"),
    [
        (
            "for epoch in range(20):\n    trial.report(val_acc=1)",
            2,
            [
                "line 2: this cell never calls trial.steps()",
                "given:  for epoch in range(20):",
                "write:  for epoch in trial.steps():",
                "--steps 1-20",
            ],
        ),
        (
            "import tqdm\nfor i in tqdm.tqdm(range(1, 11)):\n    trial.report(val_acc=1)",
            3,
            ["given:  for i in tqdm.tqdm(range(1, 11)):", "write:  for i in trial.steps():", "use i + 1"],
        ),
        (
            "step = 0\nwhile step < 100:\n    step += 1\n    trial.report(val_acc=1)",
            3,
            ["given:  while step < 100:", "write:  for step in trial.steps():", "leave out the line that counts step"],
        ),
        (
            "for i, epoch in enumerate(trial.steps()):\n    trial.report(val_acc=i)",
            2,
            ["enumerate()", "`for epoch in trial.steps():`", "use epoch where i was used"],
        ),
        (
            "lr = float(input('lr? '))\n" + LOOP,
            2,
            ["line 2: `input('lr? ')` reads from the keyboard", "a trial has no keyboard input", "a cell above"],
        ),
    ],
    ids=["range", "tqdm", "while", "enumerate", "input"],
)
def test_a_loop_that_cannot_be_stopped_and_resumed(person, body, line, parts):
    refused(person, f"{LINE}\n{body}", BadCell, line, parts)


def test_a_goal_that_is_never_reported(person):
    refused(
        person,
        f"{LINE}\nfor epoch in trial.steps():\n    loss = 1 / (epoch + 1)\n",
        BadMetric,
        2,
        ["The goal is max val_acc", "never reports", "`trial.report(val_acc=...)` at the end of the loop's body"],
    )


def test_a_goal_by_another_name(person):
    refused(
        person,
        f"{LINE}\nfor epoch in trial.steps():\n    trial.report(valid_acc=1, loss=2)\n",
        BadMetric,
        3,
        ["line 3: this cell reports loss, valid_acc", "the goal is max val_acc", "--goal max valid_acc"],
    )


# ---------------------------------------------------------------------------------------------------------------------
# The space


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("uniform()", ["`uniform()`", "'low' and 'high'", "For example: `uniform(0.0, 1.0)`"]),
        ("loguniform(0.1)", ["`loguniform(0.1)`", "'high'", "For example: `loguniform(1e-4, 1.0)`"]),
        ("uniform(1, 1)", ["expected a range, and low equals high", "the constant 1"]),
        ("uniform(1, 0)", ["expected low below high", "Swap them: uniform(0, 1)"]),
        ("randint(8, 1)", ["expected low below high", "Swap them: randint(1, 8)"]),
        ("loguniform(1, 1e-4)", ["`loguniform(1, 1e-4)`", "Swap them: loguniform(0.0001, 1)"]),
        ("loguniform(0, 1)", ["above 0, which has no logarithm", "such as 1e-6, or uniform"]),
        ("loguniform(-1, 1)", ["above 0, which has no logarithm"]),
        ("uniform(0, float('inf'))", ["expected two finite numbers", "inf is not one"]),
        ("quniform(0, 1, 0)", ["expected a step q above 0", "q=0.1"]),
        ("choice()", ["expected at least one option", "choice(32, 64, 128)"]),
        ("choice([])", ["given one list", "choice(32, 64)"]),
        ("choice([32, 64])", ["given one list", "Write choice(32, 64)"]),
    ],
)
def test_a_distribution_without_meaning(person, text, parts):
    refused(person, f"{LINE}\nlr = {text}\n{LOOP}", BadSpace, 2, ["line 2: ", *parts])


@pytest.mark.parametrize(
    ("body", "line", "parts"),
    [
        (
            "for k in range(3):\n    lr = uniform(0, 1)\n" + LOOP,
            3,
            ["`uniform(0, 1)` stands inside a loop", "top level", "`lr = uniform(0, 1)`"],
        ),
        (
            "for epoch in trial.steps():\n    lr = uniform(0, 1)\n    trial.report(val_acc=lr)",
            3,
            ["stands inside a loop", "`lr = uniform(0, 1)`"],
        ),
        (
            "lr, wd = uniform(0, 1), loguniform(1e-6, 1)\n" + LOOP,
            2,
            ["stands in a tuple", "one name each", "`lr = uniform(0, 1)`"],
        ),
        (
            "lr = 10 ** uniform(-4, 0)\n" + LOOP,
            2,
            ["stands inside an expression", "`value = uniform(-4, 0)`", "use the name here"],
        ),
        ("options = dict(lr=uniform(0, 1))\n" + LOOP, 2, ["inside an expression", "`lr = uniform(0, 1)`"]),
        (
            "lr = trial.suggest_float('lr', 1e-4, 1, log=True)\n" + LOOP,
            2,
            ["`trial.suggest_float('lr', 1e-4, 1, log=True)` is Optuna's", "Write `lr = loguniform(1e-4, 1)`"],
        ),
        (
            "n = trial.suggest_int('units', 1, 8)\n" + LOOP,
            2,
            ["Write `units = randint(1, 8)`"],
        ),
        (
            "o = trial.suggest_categorical('opt', ['sgd', 'adam'])\n" + LOOP,
            2,
            ["Write `opt = choice('sgd', 'adam')`"],
        ),
    ],
    ids=["loop", "training loop", "tuple", "expression", "argument", "float", "int", "categorical"],
)
def test_a_distribution_in_the_wrong_place(person, body, line, parts):
    refused(person, f"{LINE}\n{body}", BadCell, line, [f"line {line}: ", *parts])


# ---------------------------------------------------------------------------------------------------------------------
# Options and names


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("--steps 0-9", ["--steps 0-9: expected", "1 ≤ first ≤ last", "For example: --steps 1-9."]),
        ("--steps 9-3", ["--steps 9-3: expected", "For example: --steps 3-9."]),
        ("--steps ten", ["--steps ten: expected", "For example: --steps 1-27."]),
        ("--steps 1-9 --eta 1", ["--eta 1: expected a whole number of 2 or more", "--eta 3"]),
        ("--steps 1-9 --weight 0", ["--weight 0.0: expected a number above 0", "at most 1000"]),
        ("--steps 1-9 --weight nan", ["--weight nan: expected a number above 0"]),
        ("--steps 1-9 --weight much", ["--weight much", "a number above 0", "--weight 2"]),
        ("--steps 1-9 --priority 1.5", ["--priority 1.5", "a whole number"]),
        ("--steps 1-9 --priority 1000", ["--priority 1000: expected a whole number from -100 to 100"]),
        *(
            (f"--steps 1-9 --slots {bad}", [f"--slots {bad}", "a whole number of slots", "from 1/16 to 1/2"])
            for bad in ("0", "-1", "1.5", "0.75", "0.01", "1/17", "1/0", "nan", "inf", "a-quarter")
        ),
        ("--steps 1-9 --strategy fsdp", ["strategy fsdp with --slots 1", "expected 2 slots or more"]),
        ("--steps 1-9 --slots 2 --strategy zero", ["--strategy zero", "replicate", "fsdp"]),
        ("--steps 1-9 --slots 4 --parallel 2", ["--parallel 2 is fewer slots than --slots 4", "Expected 4 or more"]),
        (
            "--steps 1-9 --slots 4-8 --parallel 2",
            ["--parallel 2 is fewer slots than --slots 4-8", "Expected 4 or more"],
        ),
        ("--steps 1-9 --slots 8-2", ["--slots 8-2: expected the fewest and the most", "For example: --slots 2-8."]),
        ("--steps 1-9 --sheduler asha", ["--sheduler is not an option", "Did you mean --scheduler hyperband|asha|"]),
        ("--steps 1-9 --scheduler ahsa", ["--scheduler ahsa: expected hyperband, asha, median or all", "asha."]),
        ("--steps 1-9 --frobnicate", ["--frobnicate is not an option", "The options are --goal, --steps"]),
        ("--steps 1-9 --cluster nonsense", ["--cluster nonsense: expected", "tcp://10.0.0.5:8786"]),
    ],
)
def test_an_option_without_meaning(person, line, parts):
    refused(person, f"%%train digits --goal max val_acc {line}\n{LOOP}", BadOption, None, parts)


def test_an_option_in_a_comment_is_pointed_at(person):
    text = f"%%train digits\n#| goal: max val_acc\n#| stesp: 1-9\n{LOOP}"
    refused(person, text, BadOption, 3, ["#| stesp is not an option", "Did you mean #| steps: FIRST-LAST?"])


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../etc", "'../etc'"),
        ("a/b", "'a/b'"),
        ("a\x07b", r"'a\x07b'"),
        ("a\x1b[2Jb", r"'a\x1b[2Jb'"),
        ("a\u202eb", r"'a\u202eb'"),
        ("n" * 300, "n...' (300 characters)"),
    ],
    ids=["up", "slash", "bell", "escape", "right to left", "300"],
)
@pytest.mark.parametrize("where", ["line", "comment"])
def test_a_name_that_could_act(person, name, shown, where):
    parts = [shown, "is not a name for an experiment", "1 to 100 letters", "such as digits or resnet-18"]
    if where == "line":
        refused(person, f"%%train '{name}' --goal max val_acc --steps 1-9\n{LOOP}", BadName, None, parts)
    else:
        refused(person, f"%%train --goal max val_acc --steps 1-9\n#| name: {name}\n{LOOP}", BadName, 2, parts)


# ---------------------------------------------------------------------------------------------------------------------
# What cannot travel


@pytest.fixture
def things(tmp_path):
    made = {
        "guard": threading.Lock(),
        "notes": open(tmp_path / "notes.txt", "w", encoding="utf-8"),
        "batches": (number for number in range(3)),
        "database": sqlite3.connect(":memory:"),
        "line": socket.socket(),
    }
    yield made
    for name in ("notes", "database", "line"):
        made[name].close()


THINGS = [
    ("guard", "with guard:\n        pass", "_thread.lock, which belongs to the threads", "Make it in the train cell"),
    ("notes", "notes.write('x')", "an open file", "Open it in the train cell"),
    ("batches", "next(batches)", "a generator, which is partly consumed", "keep its values with list(...)"),
    ("database", "database.execute('select 1')", "sqlite3.Connection, which is a live", "Connect in the train cell"),
    ("line", "line.send(b'x')", "socket.socket, which is a live connection", "Connect in the train cell"),
]


@pytest.mark.parametrize(("name", "use", "what", "do"), THINGS, ids=[row[0] for row in THINGS])
def test_a_name_that_cannot_be_pickled(person, things, name, use, what, do):
    person.names[name] = things[name]
    text = f"{LINE}\nfor epoch in trial.steps():\n    {use}\n    trial.report(val_acc=1)\n"
    refused(person, text, BadCapture, 3, [f"line 3: `{name}` is ", what, do])


@pytest.mark.parametrize(("name", "use", "what", "do"), THINGS, ids=[row[0] for row in THINGS])
def test_a_name_that_cannot_be_pickled_through_a_helper_of_another_cell(person, things, name, use, what, do):
    person.names[name] = things[name]
    assert person.cell(f"def helper():\n    {use}\n").error is None
    text = f"{LINE}\nfor epoch in trial.steps():\n    helper()\n    trial.report(val_acc=1)\n"
    first = use.splitlines()[0]
    used = f"line 3: the cell uses `helper`, which uses `{name}` (line 2: `{first}`). `{name}` is "
    refused(person, text, BadCapture, 3, [used, what, do])


def test_a_part_that_cannot_be_pickled_is_named_by_its_path(person):
    person.cell("import threading\nclass Data:\n    pass\ndata = Data()\ndata.parts = {'a': [threading.RLock()]}\n")
    text = f"{LINE}\nfor epoch in trial.steps():\n    trial.report(val_acc=len(data.parts))\n"
    refused(person, text, BadCapture, 3, ["line 3: `data` cannot be sent", "data.parts['a'][0] is a _thread.RLock"])


# ---------------------------------------------------------------------------------------------------------------------
# The function form: the person's line, then the message, in its own words


FUNCTION = """import workbench as wb
def train(trial, lr={lr}):
    for epoch in {loop}:
        {body}trial.report({metric}=lr)
exp = wb.Experiment({name!r}, train, goal=wb.maximize("val_acc"), scheduler=wb.Hyperband({steps}))
exp.start()
"""
PLAIN = {
    "lr": "wb.uniform(0, 1)", "loop": "trial.steps()", "body": "", "metric": "val_acc", "name": "digits",
    "steps": "max_steps=9",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "kind", "line", "parts"),
    [
        ({"lr": "wb.uniform(1, 0)"}, BadSpace, 2, ["uniform(1, 0): expected low below high", "uniform(0, 1)"]),
        ({"lr": "wb.choice()"}, BadSpace, 2, ["choice(): expected at least one option"]),
        (
            {"loop": "range(9)"},
            BadCell,
            5,
            ["line 3: this function never calls trial.steps()", "given:  for epoch in range(9):", "max_steps=9"],
        ),
        ({"loop": "enumerate(trial.steps())"}, BadCell, 5, ["enumerate()", "`for epoch in trial.steps():`"]),
        ({"metric": "acc"}, BadMetric, 5, ["this function reports acc", "max val_acc", "goal=wb.maximize('acc')"]),
        ({"name": "../etc"}, BadName, 5, ["'../etc' is not a name"]),
        ({"name": "n" * 300}, BadName, 5, ["(300 characters) is not a name"]),
        ({"steps": "max_steps=9, min_steps=0"}, BadOption, 5, ["min_steps=0, max_steps=9: expected two integers"]),
        ({"steps": "max_steps=9, eta=1"}, BadOption, 5, ["eta=1: expected an integer of 2 or more", "eta=3"]),
        (
            {"body": "guard.locked(); "},
            BadCapture,
            6,
            ["`train` uses `guard` (line 4: `guard.locked();", "Make it in the training function"],
        ),
    ],
)
def test_a_function_is_refused_as_calmly(person, change, kind, line, parts):
    person.names["guard"] = threading.Lock()
    text = FUNCTION.format(**{**PLAIN, **change})
    said = person.cell(text)
    assert type(said.error) is kind
    message = str(said.error)
    for part in parts:
        assert part in message
    assert said.shown == f"----> {line:3} {text.splitlines()[line - 1]}\n\n{kind.__name__}: {message}\n"
    assert person.started_nothing()


# ---------------------------------------------------------------------------------------------------------------------
# The command line


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("plan --steps 0-9", ["--steps: '0-9' was given", "1 ≤ first ≤ last", "such as 1-27"]),
        ("plan --steps 1-9 --eta 1", ["--eta: '1' was given", "a whole number of 2 or more"]),
        ("plan --steps 1-9 --sheduler asha", ["--sheduler is not an option", "Did you mean --scheduler?"]),
        ("plan --steps 1-9 --scheduler ahsa", ["'ahsa' was given", "Did you mean asha?"]),
        ("shwo digits", ["shwo is not a verb", "Did you mean show?"]),
        ("--stoer x ls", ["--stoer is not an option", "Did you mean --store?"]),
        ("engine start --cluster nonsense", ["--cluster nonsense: expected", "tcp://10.0.0.5:8786"]),
    ],
)
def test_a_command_without_meaning(person, words, parts):
    said = person.command(*words.split())
    assert said.error == 2
    for part in parts:
        assert part in said.shown
    assert len(said.shown.splitlines()) == 1
    assert person.started_nothing()

"""Loops that count for themselves, in real runners: whatever ends a leg, every report is that of an undisturbed run."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from thorough import IS_THOROUGH
from trial.world import Experiment, Server, points, said

from workbench.trial.api.own import NEVER_RESTORES, SAVES_NOTHING, saved_in

pytestmark = pytest.mark.usefixtures("server")

#: It saves and reports now and then, before or after one another, as a file or as a folder, and dies where told.
LOOP = """
import json, os, pathlib, signal
saved = trial.restore()
if saved:
    assert saved.is_dir() == FOLDER, saved
state = json.loads((saved / "state.json" if FOLDER else saved).read_text()) if saved else {"step": 0, "value": 0.0}
mine = pathlib.Path("mine"); mine.mkdir(exist_ok=True)

def die(place):
    told = pathlib.Path("die")
    if told.exists() and told.read_text() == f"{state['step']} {place}":
        told.unlink()
        os.kill(os.getpid(), signal.SIGKILL)

def keep():
    (mine / "state.json").write_text(json.dumps(state))
    trial.save(mine if FOLDER else mine / "state.json", step=state["step"])
    (mine / "state.json").write_text("what was saved is a copy")

going = True
while going and state["step"] < trial.max_steps:
    state["step"] += 1
    state["value"] = 0.9 * state["value"] + state["step"] ** 0.5
    die("first")
    if SAVES and SAVES_FIRST and state["step"] % SAVES == 0:
        keep()
    die("between")
    if state["step"] % REPORTS == 0:
        going = trial.report(step=state["step"], score=state["value"])
    die("late")
    if SAVES and not SAVES_FIRST and state["step"] % SAVES == 0:
        keep()
    die("last")
with open("ended", "a") as file:
    file.write(f"{state['step']} ")
"""
PLACES = ("first", "between", "late", "last")


def loop(*, folder: bool = True, saves: int = 1, reports: int = 1, saves_first: bool = True) -> str:
    text = LOOP.replace("FOLDER", str(folder)).replace("SAVES_FIRST", str(saves_first))
    return text.replace("SAVES", str(saves)).replace("REPORTS", str(reports))


class Driver:
    """What an engine does with one trial: leg after leg from level to level, again where one dies."""

    def __init__(self, server: Server, cell: Experiment, levels: tuple[int, ...]) -> None:
        self.server, self.cell, self.levels = server, cell, levels
        self.points: dict[int, float] = {}
        self.told: dict[int, float] = {}
        self.says: list[str] = []
        self.legs = 0
        self.checkpoint = 0

    def run(self) -> Driver:
        for until in self.levels:
            while not self.leg(until):
                assert self.legs < 40
        return self

    def leg(self, until: int) -> bool:
        self.legs += 1
        level = max(self.told, default=0)
        order = self.cell.order(
            until,
            start=max(level, min(self.checkpoint, until)),
            levels=self.levels,
            told=level,
            known_step=max(self.points, default=0),
            resume=self.legs > 1,
        )
        heard = self.server.runner().leg(order)
        for (_, step, _), value in points(heard).items():
            assert self.points.setdefault(step, value) == value
        for one in said(heard, "level"):
            assert one["step"] not in self.told or one["step"] == until, "a level is told once"
            if one["step"] < until:
                self.told[one["step"]] = one["metrics"]["score"]
        self.says += [one["text"] for one in said(heard, "says")]
        self.checkpoint = max([self.checkpoint, *(one["step"] for one in said(heard, "saved"))])
        left = heard[-1] if heard else {"op": "nothing"}
        if left["op"] != "left":
            return False
        assert left["error"] is None, left["error"]["traceback"]
        if left["outcome"] == "reached":
            assert left["step"] == until
            self.told[until] = left["metrics"]["score"]
            return True
        if left["outcome"] == "completed":
            self.told[self.levels[-1]] = left["metrics"]["score"]
            return True
        return False


def ended(cell: Experiment) -> list[int]:
    path = cell.store.root.parent / "ended"
    return [int(step) for step in path.read_text().split()] if path.exists() else []


KILLS = st.lists(st.tuples(st.integers(1, 9), st.sampled_from(PLACES)), max_size=3)


@settings(
    max_examples=25 if IS_THOROUGH else 10,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    folder=st.booleans(),
    saves=st.sampled_from([0, 1, 2, 3, 4]),
    reports=st.sampled_from([1, 2, 4]),
    saves_first=st.booleans(),
    levels=st.sampled_from([(9,), (1, 3, 9), (3, 9), (2, 4, 5, 9)]),
    kills=KILLS,
)
# A kill in each place.
@example(
    folder=True,
    saves=2,
    reports=1,
    saves_first=False,
    levels=(1, 3, 9),
    kills=[(7, "last"), (5, "late"), (4, "between"), (2, "first")],
)
def test_every_report_and_every_level_is_that_of_an_undisturbed_run(
    server, experiment, tmp_path, folder, saves, reports, saves_first, levels, kills
):
    text = textwrap.dedent(loop(folder=folder, saves=saves, reports=reports, saves_first=saves_first))
    if reports > 2 * levels[0]:
        levels = levels[1:] or levels
    for name in ("die", "ended"):
        (tmp_path / name).unlink(missing_ok=True)
    calm: Any = Driver(server, experiment(text, steps=9), (9,)).run()
    wild = Driver(server, experiment(text, steps=9), levels)
    for until in levels:
        while True:
            if kills and not (tmp_path / "die").exists():
                (tmp_path / "die").write_text("{} {}".format(*kills.pop()))
            if wild.leg(until):
                break
    assert wild.points == calm.points
    for level in levels[:-1]:
        assert wild.told[level] == calm.points[min(step for step in calm.points if step >= level)]
    assert wild.told[9] == calm.points[max(calm.points)]


@pytest.mark.parametrize("folder", [True, False])
def test_what_is_restored_is_what_was_saved_a_file_or_a_folder(server, experiment, folder):
    cell = experiment(loop(folder=folder), steps=9)
    driver = Driver(server, cell, (3, 9)).run()
    assert driver.legs == 2
    kept = cell.paths().checkpoints / "step-00000009"
    assert saved_in(kept) == (kept / "saved" if folder else kept / "saved" / "state.json")


def test_a_level_between_two_reports_is_told_at_the_next_with_that_reports_values(server, experiment):
    cell = experiment(loop(reports=2), steps=12)
    told = server.runner().leg(cell.order(9, levels=(3, 9)))
    levels = {one["step"]: one["metrics"]["score"] for one in said(told, "level")}
    reported = {step: value for (_, step, _), value in points(told).items()}
    assert levels == {3: reported[4], 9: reported[10]}
    assert (told[-1]["outcome"], told[-1]["step"], told[-1]["metrics"]["score"]) == ("reached", 9, reported[10])


def test_code_after_the_loop_runs_once_where_each_step_is_saved(server, experiment):
    cell = experiment(loop(), steps=9)
    Driver(server, cell, (1, 3, 9)).run()
    assert ended(cell) == [9]


def test_a_loop_that_saves_nothing_starts_again_and_is_told_so_once(server, experiment):
    driver = Driver(server, experiment(loop(saves=0), steps=9), (1, 3, 9)).run()
    assert set(driver.says) == {SAVES_NOTHING}
    assert sorted(driver.points) == list(range(1, 10))
    one = Driver(server, experiment(loop(saves=0), steps=9), (9,)).run()
    assert one.says == []


def test_a_loop_that_never_asks_for_what_it_saved_is_told_so(server, experiment):
    cell = experiment(loop().replace("trial.restore()", "None"), steps=9)
    driver = Driver(server, cell, (3, 9)).run()
    assert driver.says == [NEVER_RESTORES]
    assert driver.legs == 2


IGNORES = """
done, answers = 0, []
while done < 40:
    done += 1
    try:
        answers.append(trial.report(step=done, score=done))
    except BaseException as gone:
        with open("gone", "a") as file:
            file.write(f"{done} {answers} {type(gone).__name__}\\n")
        raise
open("after", "w").close()
"""


@pytest.mark.parametrize(("until", "outcome", "step"), [(2, "reached", 2), (4, "completed", 4)])
def test_a_loop_that_goes_on_all_the_same_is_left(server, experiment, tmp_path, until, outcome, step):
    told = server.runner().leg(experiment(IGNORES, steps=4).order(until, levels=(2, 4)))
    answers = [True] * (until - 1) + [False]
    assert (tmp_path / "gone").read_text() == f"{until + 1} {answers} LegLeft\n"
    assert (told[-1]["outcome"], told[-1]["step"]) == (outcome, step)
    assert not (tmp_path / "after").exists()


STOPPED = """
import json, pathlib, time
done = json.loads(trial.restore().read_text()) if trial.restore() else 0
going = True
while going:
    done += 1
    time.sleep(0.005)
    going = trial.report(step=done, score=done)
path = pathlib.Path("done.json"); path.write_text(json.dumps(done))
trial.save(path)
open("after", "w").close()
"""


@pytest.mark.parametrize("keep", [True, False])
def test_a_loop_that_is_stopped_may_save_once_more_and_goes_on_from_there(server, experiment, tmp_path, keep):
    cell = experiment(STOPPED, steps=100_000)
    runner = server.runner()
    runner.connection.send(cell.order())
    told = runner.until("points")
    runner.connection.send({"op": "stoporder", "reason": "make room", "keep": keep})
    told += runner.until("left")
    left = told[-1]
    assert (left["outcome"], left["reason"]) == ("stopped", "make room")
    assert said(told, "saved")[-1]["step"] == left["step"] > 0
    assert not (tmp_path / "after").exists()
    runner = server.runner()
    runner.connection.send(cell.order(start=left["step"], known_step=left["step"]))
    again = runner.until("points")
    assert said(again, "begun")[0]["step"] == left["step"]
    assert min(step for _, step, _ in points(again)) == left["step"] + 1
    runner.connection.send({"op": "stoporder", "reason": "enough", "keep": False})
    runner.until("left")


def test_the_last_of_several_saves_of_a_step_counts(server, experiment):
    cell = experiment(
        """
        import pathlib
        path = pathlib.Path("what"); path.write_text("first")
        was = trial.restore()
        for done in range(4 if was else 0, 8):
            for words in ("one", "two"):
                path.write_text(f"{words} {done + 1}")
                trial.save(path, step=done + 1)
            if not trial.report(step=done + 1, score=len(was.read_text().split()[0] + was.read_text()) if was else 0):
                path.write_text(f"three {done + 1}")
                trial.save(path, step=done + 1)
                break
        """,
        steps=8,
    )
    first = server.runner().leg(cell.order(4, levels=(4, 8)))
    assert (first[-1]["outcome"], first[-1]["error"]) == ("reached", None)
    folder = cell.paths().checkpoints
    assert saved_in(folder / "step-00000004").read_text() == "two 4"
    assert sorted(one.name for one in folder.iterdir() if one.name.startswith(".writing")) == []
    second = server.runner().leg(cell.order(8, start=4, levels=(4, 8), told=4))
    assert points(second) == {("score", step, 0): float(len("twotwo 4")) for step in range(5, 9)}


def test_a_goal_that_is_reported_seldom_is_waited_for_and_one_that_never_is_fails(server, experiment):
    seldom = """
    for done in range(1, 11):
        trial.report(step=done, loss=1 / done)
        if done % 5 == 0 and not trial.report(step=done, score=done):
            break
    """
    told = server.runner().leg(experiment(seldom, steps=10).order(3, levels=(3, 10)))
    assert (told[-1]["outcome"], told[-1]["step"], told[-1]["metrics"]["score"]) == ("reached", 3, 5.0)
    never = "done = 0\nwhile trial.report(step=(done := done + 1), loss=1):\n    pass\n"
    error = server.runner().leg(experiment(never, steps=100).order(3, levels=(3, 100)))[-1]["error"]
    assert error["cause"] == "missing_goal"
    assert "at step 6" in error["message"]
    ends = "trial.report(step=1, loss=1)\n"
    error = server.runner().leg(experiment(ends, steps=100).order(3, levels=(3, 100)))[-1]["error"]
    assert error["cause"] == "missing_goal"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("trial.report(step=1, score=1)\nfor epoch in trial.steps():\n    pass", "Use one of them"),
        ("for epoch in trial.steps():\n    trial.report(step=1, score=1)", "Leave step out"),
        ("for epoch in trial.steps():\n    trial.save('.')", "Leave it out"),
        ("trial.report(step=0, score=1)", "from 1 on"),
        ("trial.report(step=2**63, score=1)", "below 2**63"),
        ("trial.report(step=1.0, score=1)", "an int; a float was given"),
        ("trial.report(step=True, score=1)", "an int; a bool was given"),
        ("for done in (2, 1): trial.report(step=done, score=1)", "step=1) came after step=2"),
        ("trial.save('.')", "before the first report"),
        ("trial.save('.', step=0)", "with step=0"),
        ("trial.save('nowhere', step=1)", "no such file or folder"),
        ("x = 1", "trial.report(step=…)"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_to_write(server, experiment, text, says):
    error = server.runner().leg(experiment(text + "\n", steps=4).order())[-1]["error"]
    assert says in error["message"]


def test_a_step_may_be_a_whole_number_of_any_type(server, experiment):
    text = "import numpy as np\nfor done in np.arange(1, 5): trial.report(step=done, score=1)\n"
    told = server.runner().leg(experiment(text, steps=4).order())
    assert (told[-1]["error"], told[-1]["step"]) == (None, 4)


def test_a_checkpoint_of_an_earlier_version_gives_its_folder(tmp_path):
    (tmp_path / "saved").mkdir()
    assert saved_in(tmp_path) == tmp_path / "saved"
    assert saved_in(tmp_path / "saved") is None

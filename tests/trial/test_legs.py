"""Legs: when they begin and end, what they tell, and what a failing one says."""

import math
import os

import pytest
from small import damage
from trial.world import points, said, trained_here

from workbench.messages import plain
from workbench.records import Program
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.trial.api.batches import BY_STEPS


class Here:
    """A link that goes nowhere, for legs in this process."""

    def __init__(self):
        self.told = []

    def report(self, points):
        pass

    def send(self, message):
        self.told.append(plain(message))

    def flush(self):
        pass

    def stop(self):
        return None


COUNT = """
seen = []
for epoch in trial.steps():
    seen.append(epoch)
    trial.report(score=epoch + 0.5, n=len(seen))
print("after the loop", seen)
"""


def kinds(told):
    """What was said, without what is said more often where the machine is slow."""
    return [m["op"] for m in told if m["op"] not in ("points", "measured") and not m.get("passing")]


def test_a_leg_trains_to_its_level_and_the_next_goes_on(server, experiment):
    cell = experiment(COUNT, steps=4)
    runner = server.runner()
    told = runner.leg(cell.order(2))
    assert kinds(told) == ["begun", "level", "saved", "left"]
    left = told[-1]
    assert (left["outcome"], left["step"], left["metrics"]) == ("reached", 2, {"score": 1.5, "n": 2.0})
    assert [step for _, step, _ in points(told)] == [1, 1, 2, 2]
    assert said(told, "saved")[0]["found"] == {
        "objects": [],
        "names": ["epoch", "seen"],
        "left_out": [],
        "resumes": BY_STEPS,
    }
    told = runner.leg(cell.order(4, start=2, levels=(3,)))
    assert said(told, "begun")[0]["step"] == 2
    assert [m["step"] for m in said(told, "level")] == [3, 4]
    assert told[-1]["outcome"] == "completed"
    assert told[-1]["metrics"] == {"score": 3.5, "n": 4.0}
    runner.kill()
    output = runner.output()
    assert output.count("after the loop") == 1
    assert "after the loop [0, 1, 2, 3]" in output


def test_a_level_is_told_before_its_checkpoint_is_made(server, experiment):
    cell = experiment(
        """
        import time
        class Slow:
            def __reduce__(self):
                time.sleep(0.05)
                return Slow, ()
        slow = None
        for epoch in trial.steps():
            slow = Slow()
            trial.report(score=1)
        """
    )
    told = server.runner().leg(cell.order(1))
    assert kinds(told) == ["begun", "level", "saved", "left"]
    assert said(told, "saved")[0]["seconds"] > 0.05


def test_what_was_told_to_a_lost_engine_is_told_again(server, experiment):
    cell = experiment(COUNT, steps=4)
    server.runner().leg(cell.order(3, levels=(1,)))
    told = server.runner().leg(cell.order(4, start=3, levels=(1, 3), known_step=1))
    assert points(told) == {
        (name, step, 0): value for step in (2, 3, 4) for name, value in {"score": step - 0.5, "n": float(step)}.items()
    }
    assert [m["step"] for m in said(told, "level")] == [3, 4]


def test_without_a_checkpoint_the_trial_begins_anew(server, experiment):
    cell = experiment(COUNT)
    told = server.runner().leg(cell.order(2, start=1))
    assert said(told, "begun")[0]["step"] == 0
    assert told[-1]["metrics"]["n"] == 2


def test_a_damaged_checkpoint_is_passed_over(server, experiment):
    cell = experiment(COUNT, steps=4)
    server.runner().leg(cell.order(3, levels=(1, 2, 3)))
    damage(cell.paths().bundle, "step-00000003/graph.pkl")
    told = server.runner().leg(cell.order(4, start=3))
    assert said(told, "begun")[0]["step"] == 2
    assert told[-1]["metrics"] == {"score": 3.5, "n": 4.0}


def test_a_leg_whose_work_is_done_already_leaves_at_once(server, experiment):
    cell = experiment(COUNT, steps=4)
    server.runner().leg(cell.order(2))
    told = server.runner().leg(cell.order(2, start=2))
    assert kinds(told) == ["begun", "left"]
    assert told[-1]["outcome"] == "reached"


def test_a_trial_that_was_over_only_runs_the_code_after_its_loop(server, experiment):
    cell = experiment(COUNT, steps=2)
    server.runner().leg(cell.order(2))
    runner = server.runner()
    told = runner.leg(cell.order(2, start=2))
    assert told[-1]["outcome"] == "completed"
    runner.kill()
    assert "after the loop [0, 1]" in runner.output()


# ---------------------------------------------------------------------------------------------------------------------
# Stopping

FOREVER = """
import sys
try:
    for epoch in trial.steps():
        print("turn", epoch, flush=True)
        {body}
finally:
    print("finally", flush=True)
print("after the loop")
"""


def stopped(server, experiment, body, *, keep, after):
    cell = experiment(FOREVER.format(body=body), steps=10**6)
    runner = server.runner()
    runner.connection.send(cell.order(levels=(1,)))
    told = runner.until(*after)
    runner.connection.send({"op": "stoporder", "reason": "rank 40 of 81", "keep": keep})
    told += runner.until("left")
    runner.kill()
    return cell, told, runner.output()


def test_a_stop_is_obeyed_at_the_next_turn(server, experiment):
    _, told, output = stopped(
        server, experiment, "trial.report(score=1); import time; time.sleep(0.002)", keep=False, after=("level",)
    )
    assert (told[-1]["outcome"], told[-1]["reason"]) == ("stopped", "rank 40 of 81")
    assert "finally" in output
    assert "after the loop" not in output


def test_a_stop_that_keeps_takes_a_checkpoint_along(server, experiment):
    cell, told, _ = stopped(
        server, experiment, "trial.report(score=1); import time; time.sleep(0.002)", keep=True, after=("level",)
    )
    assert told[-1]["outcome"] == "stopped"
    assert said(told, "saved")[-1]["step"] == told[-1]["step"]
    assert Checkpoints(cell.paths()).newest().step == told[-1]["step"]


def test_a_stop_is_obeyed_at_a_report_inside_a_long_turn(server, experiment):
    _, told, _ = stopped(
        server,
        experiment,
        "trial.report(score=1)\n        while epoch == 1: trial.report(score=2)",
        keep=False,
        after=("saved",),
    )
    assert (told[-1]["outcome"], told[-1]["step"]) == ("stopped", 1)


def test_a_stop_for_a_leg_that_has_left_does_not_stop_the_next(server, experiment):
    cell = experiment(COUNT, steps=4)
    runner = server.runner()
    first, second = cell.order(2), cell.order(4, start=2)
    runner.leg(first)
    runner.connection.send({"op": "stoporder", "reason": "", "keep": False})
    assert runner.leg(second)[-1]["outcome"] == "completed"


def test_training_code_cannot_swallow_the_end_of_its_leg(server, experiment):
    cell = experiment(
        """
        steps = trial.steps()
        while True:
            try:
                epoch = next(steps)
                trial.report(score=epoch)
            except BaseException as error:
                print("swallowed", type(error).__name__)
                if type(error).__name__ != "LegLeft":
                    break
                try:
                    trial.report(score=1)
                except BaseException:
                    break
        """
    )
    told = server.runner().leg(cell.order(2))
    assert (told[-1]["outcome"], told[-1]["step"]) == ("reached", 2)


def test_a_break_completes_the_trial(server, experiment):
    cell = experiment(
        """
        for epoch in trial.steps():
            trial.report(score=epoch)
            if epoch == 1:
                break
        print("after the loop")
        """,
        steps=9,
    )
    runner = server.runner()
    told = runner.leg(cell.order(3))
    assert (told[-1]["outcome"], told[-1]["step"], told[-1]["metrics"]) == ("completed", 2, {"score": 1.0})
    told = runner.leg(cell.order(3, start=2))
    assert (told[-1]["outcome"], told[-1]["step"]) == ("completed", 2)
    assert points(told) == {}
    runner.kill()
    assert runner.output().count("after the loop") == 2


def test_an_argument_parser_sees_no_words_and_each_leg_has_its_own(server, experiment):
    """Code of a script that was moved into a cell: defaults count."""
    cell = experiment(
        """
        import argparse, sys
        parser = argparse.ArgumentParser()
        parser.add_argument("--rate", type=float, default=0.5)
        given = parser.parse_args()
        for epoch in trial.steps():
            trial.report(score=given.rate, words=len(sys.argv))
            sys.argv.append("--more")
        """,
        steps=2,
    )
    runner = server.runner()
    for number in (1, 2):
        told = runner.leg(cell.order(1, trial=number))
        assert told[-1]["outcome"] == "reached", told[-1]["error"]
        assert points(told) == {("score", 1, 0): 0.5, ("words", 1, 0): 1.0}
    runner.kill()


def test_checkpoints_are_made_by_time_too_and_only_the_newest_of_those_stays(experiment, monkeypatch):
    monkeypatch.setattr("workbench.trial.course.saver.STALL", 0)
    monkeypatch.setattr("workbench.trial.course.saver.WRITING", 0)
    monkeypatch.setattr("workbench.trial.course.saver.CHEAP_S", 60.0)  # a slow disk makes no checkpoint dear
    cell = experiment(COUNT, steps=6, checkpoint_s=0.0)
    link = Here()
    assert trained_here(link, cell.order(5, levels=(2,)))["outcome"] == "reached"
    assert [(m["step"], m["passing"]) for m in said(link.told, "saved")] == [
        (1, True),
        (2, False),
        (3, True),
        (4, True),
        (5, False),
    ]
    assert Checkpoints(cell.paths()).steps() == [2, 5]
    assert Checkpoints(cell.paths().passing).is_empty


def test_a_leg_in_this_process_leaves_it_as_it_was(experiment):
    import sys

    main, folder = sys.modules["__main__"], os.getcwd()
    link = Here()
    left = trained_here(link, experiment(COUNT).order(1))
    assert (left["outcome"], left["reusable"]) == ("reached", False)
    assert sys.modules["__main__"] is main
    assert os.getcwd() == folder


# ---------------------------------------------------------------------------------------------------------------------
# Failing


def failed(server, experiment, source, **order):
    cell = experiment(source)
    runner = server.runner()
    told = runner.leg(cell.order(2, **order))
    assert told[-1]["outcome"] == "failed"
    assert told[-1]["reusable"] is False
    return told[-1]["error"]


def test_an_error_shows_the_lines_of_the_cell_and_none_of_ours(server, experiment):
    error = failed(
        server,
        experiment,
        """\
        def divide(a, b):
            return a / b

        for epoch in trial.steps():
            divide(1, epoch)
        """,
    )
    assert (error["type"], error["message"], error["line"]) == ("ZeroDivisionError", "division by zero", 2)
    assert error["cause"] == "exception"
    assert "return a / b" in error["traceback"]
    assert "divide(1, epoch)" in error["traceback"]
    assert "workbench/trial" not in error["traceback"]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("'high'", "score='high'|the text 'high'"),
        ("None", "None"),
        ("1j", "complex"),
        ("torch.zeros(3)", "a Tensor of 3 elements"),
        ("[1, 2]", "a list of 2 elements"),
        ("object()", "an object"),
    ],
)
def test_a_metric_that_is_no_number_fails_where_it_was_reported(server, experiment, given, shown):
    error = failed(server, experiment, f"import torch\nfor epoch in trial.steps():\n    trial.report(score={given})\n")
    assert (error["type"], error["cause"], error["line"]) == ("BadMetric", "bad_metric", 3)
    assert "trial t0000 reported score=" in error["message"]
    assert "at step 1" in error["message"]
    assert any(one in error["message"] for one in shown.split("|"))


@pytest.mark.parametrize("given", ["float('nan')", "torch.tensor(float('inf'))", "-float('inf')"])
def test_any_metric_may_be_nan_or_infinite(server, experiment, given):
    text = f"import torch\nfor epoch in trial.steps():\n    trial.report(score={given}, loss=float('nan'))\n"
    told = server.runner().leg(experiment(text).order(1))
    assert math.isnan(points(told)["loss", 1, 0])
    assert not math.isfinite(points(told)["score", 1, 0])
    assert told[-1]["outcome"] == "reached"
    assert not math.isfinite(next(one for one in told if one["op"] == "level")["metrics"]["score"])


def test_a_goal_that_nobody_reports_fails_at_the_level_naming_both(server, experiment):
    error = failed(server, experiment, "for epoch in trial.steps():\n    trial.report(acc=1)\n")
    assert error["cause"] == "missing_goal"
    assert error["message"] == (
        "trial t0000 reported {'acc'} at step 2, but the goal is max score. Report score in every turn of the loop, or "
        "change --goal."
    )


@pytest.mark.parametrize(
    ("source", "cause", "message"),
    [
        ("raise SystemExit", "exit", "called exit"),
        ("import sys; sys.exit(0)", "exit", "called exit(0)"),
        ("input('go on? ')", "exception", "a trial has no keyboard input"),
        ("raise KeyboardInterrupt", "exception", ""),
        ("x = 1", "exception", "without a turn of trial.steps()"),
        (
            "for a in trial.steps():\n    trial.report(score=1)\n    for b in trial.steps(): pass",
            "exception",
            "second time",
        ),
        ("import torch; raise torch.OutOfMemoryError('CUDA out of memory')", "cuda_out_of_memory", "CUDA"),
    ],
)
def test_each_failure_says_its_cause(server, experiment, source, cause, message):
    error = failed(server, experiment, source)
    assert error["cause"] == cause
    assert message in error["message"]


def test_a_wrong_protocol_is_refused(server, experiment):
    error = failed(server, experiment, COUNT, protocol=99)
    assert error["type"] == "VersionsDiffer"


# ---------------------------------------------------------------------------------------------------------------------
# Other loops and other programs


def test_a_loop_of_its_own_reports_its_steps_and_keeps_its_own_checkpoints(server, experiment, tmp_path):
    cell = experiment(
        """
        import json, pathlib
        folder = trial.restore()
        done = json.loads((folder / "state.json").read_text())["done"] if folder else 0
        mine = pathlib.Path("mine"); mine.mkdir(exist_ok=True)
        while done < trial.max_steps:
            done += 1
            (mine / "state.json").write_text(json.dumps({"done": done}))
            trial.save(mine, step=done)
            if not trial.report(step=done, score=done):
                break
        """,
        steps=4,
    )
    told = server.runner().leg(cell.order(2))
    assert [m["step"] for m in said(told, "level")] == [2]
    assert (told[-1]["outcome"], told[-1]["step"]) == ("reached", 2)
    told = server.runner().leg(cell.order(4, start=2))
    assert (told[-1]["outcome"], told[-1]["step"]) == ("completed", 4)
    assert set(points(told)) == {("score", 3, 0), ("score", 4, 0)}


def test_a_function_of_a_module_is_called_with_its_configuration(server, experiment, tmp_path):
    (tmp_path / "mymodule.py").write_text(
        "count = 0\n"
        "def train(trial, lr=0.1, width=3):\n"
        "    global count\n"
        "    total = 0.0\n"
        "    for epoch in trial.steps():\n"
        "        count += 1; total += lr\n"
        "        trial.report(score=total, count=count, width=width)\n"
    )
    import sys

    from workbench.records import Training

    cell = experiment(
        "",
        program=Program("function", "", "mymodule.py", entry="train", module="mymodule"),
        training=Training(sys.executable, str(tmp_path), (str(tmp_path), *sys.path)),
    )
    configuration = {"lr": 0.5, "width": 7}
    assert server.runner().leg(cell.order(2, configuration=configuration))[-1]["error"] is None
    runner = server.runner()
    told = runner.leg(cell.order(4, start=2, configuration=configuration))
    assert told[-1]["metrics"] == {"score": 2.0, "count": 4.0, "width": 7.0}
    # The next leg imports the module again.
    assert runner.leg(cell.order(1, trial=1, configuration=configuration))[-1]["metrics"]["count"] == 1


def test_hyperparameters_are_replaced_by_the_trials_values(server, experiment):
    cell = experiment(
        """
        lr = loguniform(1e-4, 1.0)
        size: int = choice(32, 64)
        act = wb.choice(min, max)
        for epoch in trial.steps():
            trial.report(score=lr, size=size, act=act(1, 2), same=trial.configuration["lr"] == lr)
        """
    )
    told = server.runner().leg(cell.order(1, configuration={"lr": 0.25, "size": 64, "act": "max"}))
    assert told[-1]["metrics"] == {"score": 0.25, "size": 64.0, "act": 2.0, "same": 1.0}


def test_points_figures_and_texts_inside_a_step(server, experiment):
    pytest.importorskip("matplotlib")
    cell = experiment(
        """
        import matplotlib.pyplot as plt
        for epoch in trial.steps():
            for batch in range(3):
                trial.log(loss=batch / 10)
            plt.plot([1, 2]); plt.show()
            fig, ax = plt.subplots()
            trial.log(curve=fig, note="well", rows=[1, 2])
            trial.report(score=1)
        """
    )
    told = server.runner().leg(cell.order(2))
    assert told[-1]["error"] is None
    assert {key: value for key, value in points(told).items() if key[0] == "loss"} == {
        ("loss", step, index): (index - 1) / 10 for step in (1, 2) for index in (1, 2, 3)
    }
    assert sorted(path.name for path in cell.paths().files.iterdir()) == [
        *(f"{name}-00000{step}{rest}" for name, rest in (("curve", ".png"), ("figure", "-1.png")) for step in (1, 2)),
        *(f"{name}-00000{step}{rest}" for name, rest in (("note", ".txt"), ("rows", ".json")) for step in (1, 2)),
    ]

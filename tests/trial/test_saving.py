"""Checkpoints between levels: when they come, that training does not wait for them, and what a kill then costs."""

import contextlib
import itertools
import os
import signal
import time

import pytest
from small import damage
from trial.loops import FOOT, HEAD, MODEL
from trial.test_resume import result
from trial.world import Server, points, said

from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.layout import bundle_of
from workbench.trial.course.vault import StoreVault

TRAINING = (
    HEAD
    + MODEL
    + """
import time
for epoch in trial.steps():
    for x, y in batches():
        opt.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step()
    trial.report(score=loss)
"""
)


def calm(server, experiment, source, steps):
    """What an undisturbed leg says, and its result."""
    cell = experiment(source + FOOT, steps=steps)
    runner = server.runner()
    told = runner.leg(cell.order())
    assert told[-1]["outcome"] == "completed", told[-1]["error"]
    runner.kill()
    return points(told), result(runner.output())


def test_a_kill_between_levels_costs_the_turns_since_the_newest_checkpoint(server, experiment):
    expected = calm(server, experiment, TRAINING, 40)
    cell = experiment(TRAINING + FOOT, steps=40, save_steps=3)
    runner = server.runner()
    runner.connection.send(cell.order())
    told = runner.until("saved", step=9)
    runner.kill()
    told += runner.until("left")  # what it had said before it was killed
    saved = max(message["step"] for message in said(told, "saved"))
    runner = server.runner()
    # The engine has heard of none of them: what lies on the disk counts.
    again = runner.leg(cell.order(resume=True))
    assert said(again, "begun")[0]["step"] >= saved >= 9
    runner.kill()
    assert (points(told) | points(again), result(runner.output())) == expected
    assert not list(cell.paths().passing.rglob("step-*"))


def test_a_kill_in_the_moment_in_which_a_checkpoint_appears_costs_no_logged_point(server, experiment):
    """What a step has logged is not logged again by a leg that resumes after it."""
    source = """
    import time
    for step in trial.steps():
        trial.log(inside=step + 0.5)
        time.sleep(0.02)
        trial.report(score=1.0)
    """
    for nth in range(1, 9):
        cell = experiment(source, steps=4000, save_steps=1)
        runner, appeared, seen = server.runner(), bundle_of(cell.paths().passing), set()
        runner.connection.send(cell.order() | {"is_short": True})  # its messages wait for its end
        deadline = time.monotonic() + 60
        while len(seen) < nth:
            assert time.monotonic() < deadline
            with contextlib.suppress(FileNotFoundError):
                seen.add(appeared.stat().st_mtime_ns)
        os.kill(runner.pid, signal.SIGKILL)
        runner.exited()
        told = points(runner.until("left"))
        newest = Checkpoints(cell.paths().passing).newest(4000)
        assert newest is not None
        begun = newest.step
        assert begun >= 1
        logged = {step for name, step, index in told if name == "inside"}
        assert len(logged) >= begun, (begun, told)


def test_what_is_written_is_the_state_at_that_moment_though_training_goes_on(server, experiment, tmp_path):
    source = """
    import os, torch
    state = torch.zeros(3_000_000)
    kept = [0]
    for epoch in trial.steps():
        state += 1
        kept.append(epoch)
        assert float(state.min()) == float(state.max()) == epoch + 1 and kept[-1] == epoch
        trial.report(score=float(state[0]), n=len(kept))
    """
    cell = experiment(source, steps=60, save_steps=1)
    runner = server.runner()
    runner.connection.send(cell.order())
    told = runner.until("saved", step=20)
    runner.kill()
    again = server.runner().leg(cell.order(resume=True))
    begun = said(again, "begun")[0]["step"]
    assert begun >= 20
    assert again[-1]["outcome"] == "completed", again[-1]["error"]
    assert points(again)["n", 60, 0] == 61
    # The copy is what training waits for; writing 12 MB and bringing them to the disk takes longer.
    waited = [message["stall"] for message in said(told, "saved")]
    whole = [message["seconds"] for message in said(told, "saved")]
    assert sorted(waited)[len(waited) // 2] < sorted(whole)[len(whole) // 2] / 2


def test_by_default_checkpoints_take_under_a_hundredth_of_the_time(server, experiment):
    source = """
    import time, torch
    state, began = torch.zeros(1_000_000), time.monotonic()
    for epoch in trial.steps():
        state += 1
        time.sleep(0.001)
        trial.report(score=1.0, at=time.monotonic() - began)
    """
    cell = experiment(source, steps=100_000, checkpoint_s=0.05)
    runner = server.runner()
    runner.connection.send(cell.order())
    told = runner.until("begun")
    for _ in range(4):
        told += runner.until("saved", passing=True)
    runner.kill()
    told += runner.until("left")  # what it had said before it was killed
    assert told[-1]["op"] != "left", told[-1]
    at = {step: value for (name, step, _), value in points(told).items() if name == "at"}
    passing = [(message["step"], message["stall"]) for message in said(told, "saved") if message.get("passing")]
    assert at[passing[0][0] + 1] >= 0.05, passing
    for (step, stall), (later, _) in itertools.pairwise(passing[:-1]):
        assert at[later + 1] - at[step] >= 100 * stall, passing  # it was taken at the end of turn ``later``
    begun = said(told, "begun")[0]
    assert begun["setup_s"] >= 0


def test_a_notice_makes_the_leg_leave_with_a_checkpoint_and_is_not_its_fault(server, experiment, tmp_path):
    expected = calm(server, experiment, TRAINING, 5)
    stay = tmp_path / "stay"  # while it is there, the trial waits for the notice
    stay.touch()
    held = f"while epoch == 1 and os.path.exists({str(stay)!r}): time.sleep(0.01)"
    source = TRAINING.replace("import time", "import os, time").replace(
        "    trial.report(score=loss)", f"    trial.report(score=loss)\n    {held}"
    )
    cell = experiment(source + FOOT, steps=5)
    runner = server.runner()
    runner.connection.send(cell.order())
    told = runner.until("points")
    os.kill(runner.pid, signal.SIGTERM)
    stay.unlink()
    told += runner.until("left")
    left = told[-1]
    assert (left["outcome"], left["cause"], left["reusable"]) == ("died", "preempted", False)
    assert "SIGTERM" in left["reason"]
    assert left["step"] == said(told, "saved")[-1]["step"] > 0
    runner.kill()
    runner = server.runner()
    again = runner.leg(cell.order(start=left["step"]))
    assert said(again, "begun")[0]["step"] == left["step"]
    runner.kill()
    assert (points(told) | points(again), result(runner.output())) == expected


def test_a_runner_that_only_waits_goes_at_once_at_a_notice(server):
    runner = server.runner()
    os.kill(runner.pid, signal.SIGTERM)
    assert runner.exited()["status"] == 128 + signal.SIGTERM


def test_a_forkserver_outlives_a_notice_for_the_sake_of_its_runners(experiment):
    noticed = Server(preload=())
    os.kill(noticed.ready["pid"], signal.SIGTERM)
    assert noticed.runner().leg(experiment(TRAINING, steps=1).order())[-1]["outcome"] == "completed"
    noticed.close()


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_taken(server, experiment):
    cell = experiment(TRAINING, steps=100_000, save_steps=1)
    runner = server.runner()
    runner.leg(cell.order(2))
    runner.connection.send(cell.order(100_000, start=2))
    runner.until("saved", step=5)
    runner.kill()
    # The kill may have come between the newest and the removal of the one before.
    between = Checkpoints(cell.paths().passing)
    for step in between.steps():
        damage(between.bundle, f"step-{step:08d}/graph.pkl")
    runner = server.runner()
    told = runner.leg(cell.order(9, start=5))
    begun = said(told, "begun")[0]
    assert begun["step"] == 2
    skipped = begun["skipped"]
    assert max(one["step"] for one in skipped) >= 5
    assert all("graph.pkl" in one["why"] for one in skipped)
    runner.kill()
    assert runner.output().count("is damaged and skipped") == len(skipped)


@pytest.mark.parametrize("passing", [False, True])
def test_a_newer_attempt_keeps_an_older_one_from_writing_between_levels(experiment, passing):
    paths = experiment("").paths()
    old, new = StoreVault(paths, 1), StoreVault(paths, 2)

    def write(folder):
        (folder / "x").write_text("x")

    old.keep(1, write, passing=True)
    assert new.newest(5)[0] == 1
    with pytest.raises(OSError, match="attempt 2 of the trial has begun"):
        old.keep(2, write, passing=True)
    new.keep(3, write, passing=passing)
    assert new.newest(5)[0] == 3
    assert new.is_passing == passing
    assert len(list(paths.folder.rglob("step-*"))) == 1

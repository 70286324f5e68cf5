"""What a viewer knows of an experiment: read by cursor, in words, never more than a screen can show."""

import dataclasses
import math

import pytest
from lab.recorded import Recording

from workbench.space import Space, choice, uniform
from workbench.status import NO_ENGINE, NOT_TAKEN
from workbench.status.board import Board, Curve, configured, duration, number, progress, sentence
from workbench.store import new_id
from workbench.store.owner.lease import EngineLease


@pytest.fixture
def recording(tmp_path):
    made = Recording(tmp_path / "store", trials=6, steps=9)
    yield made
    made.series.close()


@pytest.fixture
def board(recording):
    made = Board(recording.store, recording.spec.id)
    yield made
    made.close()


def test_a_look_brings_only_what_is_new(recording, board):
    recording.turn()
    first = board.look()
    assert len(first.points) == 6
    assert len(first.trials) == 6
    assert first.words
    assert not board.look()
    recording.turn()
    running = sum(trial["state"] == "running" for trial in recording.trials.values())
    assert len(board.look().points) >= running


def test_an_experiment_that_the_engine_has_not_begun_is_waiting(recording):
    recording.series.close()
    recording.paths.series.unlink()
    board = Board(recording.store, recording.spec.id)
    assert not board.look()
    assert (board.status.state, board.status.reason) == ("waiting", NOT_TAKEN)
    assert not board.is_ended


def test_before_an_engine_has_begun_each_configuration_counts_as_all_of_its_trials(recording):
    recording.series.close()
    recording.paths.series.unlink()
    folds = Space({"x": uniform(0.0, 1.0), "fold": choice(0, 1, 2, repeat=True)}).to_json()
    asked = dataclasses.replace(recording.spec, id=new_id(), trials=4, seeds_each=2, space=folds)
    recording.store.write_spec(asked)
    assert Board(recording.store, asked.id).status.progress.planned == 24


def test_another_metric_can_be_chosen(recording, board):
    recording.turn()
    board.look()
    assert board.names == ["val_acc", "loss"]
    board.choose("loss")
    assert len(board.curves) == 6
    recording.turn()
    assert board.look().points
    assert all(len(curve.x) == len(set(curve.x)) for curve in board.curves.values())


def test_logged_points_share_the_width_of_their_step(recording, board):
    board.choose("batch_loss")
    recording.series.add_points([(0, "batch_loss", 1, k, 1.0 / k, 0.0) for k in (1, 2)])
    recording.series.flush()
    board.look()
    assert board.curves[0].x.tolist() == [0.5, 1.0]
    recording.series.add_points([(0, "batch_loss", 1, k, 1.0 / k, 0.0) for k in (3, 4)])
    recording.series.flush()
    assert board.look().anew
    assert board.curves[0].x.tolist() == [0.25, 0.5, 0.75, 1.0]


def test_a_repeated_report_replaces_its_point():
    curve = Curve()
    for x, y in ((1, 0.1), (3, 0.3), (2, 0.2), (3, 0.35)):
        curve.put(x, y)
    assert (curve.x.tolist(), curve.y.tolist()) == ([1, 2, 3], [0.1, 0.2, 0.35])


def test_a_thinned_curve_keeps_its_ends_and_its_peaks():
    curve = Curve()
    for k in range(10_000):
        curve.put(k, math.sin(k / 700))
    curve.put(5000.5, 9.0)
    curve.put(10_000, math.nan)
    x, y = curve.thinned(100)
    assert len(x) <= 102
    assert (x[0], x[-1]) == (0, 10_000)
    assert 9.0 in y
    assert x == sorted(x)


def test_trials_are_ranked_by_the_goal_and_the_unknown_come_last(recording, board):
    recording.turn()
    recording.series.put_trial(4, value=math.nan)
    recording.series.flush()
    board.look()
    ranked = board.ranked()
    values = [row["value"] for row in ranked[:-1]]
    assert values == sorted(values, reverse=True)
    assert ranked[-1]["number"] == 4


def test_the_first_of_the_ranked_is_the_best_whatever_others_reported(recording, board):
    """It is compared at the highest level: a better value below it, or of a failed trial, does not count."""
    put = recording.series.put_trial
    for trial in range(6):
        put(trial, state="stopped", level=1, step=1, value=0.5, best=0.5)
    put(3, state="completed", level=9, step=9, value=0.8, best=0.85)
    put(1, state="stopped", level=3, step=4, value=0.95, best=0.99)
    put(2, state="failed", level=9, step=9, value=0.97, best=0.97)
    put(4, state="stopped", level=9, step=9, value=math.nan, best=0.98)
    recording.series.put_meta("best", {"trial": 3, "value": 0.8})
    recording.series.flush()
    board.look()
    assert [row["number"] for row in board.ranked()] == [3, 1, 0, 5, 4, 2]


def test_words_for_people(recording, board):
    recording.turn()
    board.look()
    with EngineLease.acquire(recording.store, address="tcp://127.0.0.1:1"):
        assert progress(board).startswith("digits@1 running: 3 of 6 trials ended, best val_acc ")
        assert "2 slots, about 24 s left" in progress(board)
    assert progress(board).startswith(f"digits@1 waiting: {NO_ENGINE}, 3 of 6 trials ended, best val_acc ")
    recording.end()
    board.look()
    best, value = recording.best
    assert sentence(board).startswith(
        f"digits@1 completed: 6 trials in 42 s, best val_acc {value:.4g} by t{best:04d} (lr="
    )
    of = {"mean": value, "deviation": 0.0, "trials": 2}
    recording.series.put_meta("best", {"trial": best, "value": value, "of": of})
    recording.series.flush()
    board.look()
    assert "; all 2 trials of the best configuration gave the same bits; if the seed should matter" in sentence(board)
    assert (duration(3.21), duration(42), duration(90), duration(3600), duration(7500)) == (
        "3.2 s", "42 s", "2 min", "1 h", "2 h 5 min",
    )  # fmt: skip
    assert (number(0.123456), number(None), number("sgd"), number(64)) == ("0.1235", "–", "sgd", "64")
    assert configured({"lr": 0.01, "opt": "sgd", "momentum": None}) == "lr=0.01  opt=sgd"

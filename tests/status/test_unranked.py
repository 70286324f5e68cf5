"""Why there is no best trial, and what to do: the same words in a notebook, at the command line and before a replay."""

import math

import pytest
from cli.stored import typed
from lab.recorded import Recording, spec

import workbench as wb
from workbench.errors import NotFound
from workbench.experiment import Experiment
from workbench.replay.again import recorded
from workbench.status.unranked import why_none_is_best


def row(number, state="failed", value=None, best=None):
    return {"number": number, "state": state, "value": value, "best": best}


@pytest.mark.parametrize(
    ("rows", "why", "trial"),
    [
        ([], "none has reported val_acc", None),
        ([row(0), row(1, "stopped")], "none has reported val_acc", None),
        ([row(0, "completed", math.nan)], "none has reported a finite val_acc", None),
        (
            [row(0, value=0.2, best=0.3), row(1, value=math.nan, best=0.7), row(2)],
            "each trial that has reported val_acc failed, and failed trials are not compared",
            "t0001 (exp['t0001']) has reported val_acc 0.7",
        ),
        (
            [row(0, value=0.9, best=0.9), row(1, "stopped", 0.4, 0.4)],
            "trials are compared at levels, and none has reported val_acc at one",
            "t0000 (exp['t0000']) has reported val_acc 0.9",
        ),
    ],
)
def test_the_reason_is_that_of_the_trials(rows, why, trial):
    words = why_none_is_best(spec(), "digits@1", rows, is_ended=True)
    shown = "`workbench show digits@1` shows its trials, in Python exp.trials."
    named = "" if trial is None else f" Name one: digits@1/{trial}."
    assert words == f"digits@1 has no best trial: {why}. {shown}{named}"
    assert why_none_is_best(spec(), "digits@1", rows, is_ended=False) == words.replace("trial:", "trial yet:", 1)


def test_each_face_says_it_after_all_trials_failed_late(tmp_path):
    recording = Recording(tmp_path / "store", trials=2)
    recording.series.put_meta("state", "failed")
    for number in range(2):
        recording.series.put_trial(number, state="failed", step=5, value=0.5 + number, best=0.5 + number)
    recording.series.close()
    store, label = recording.store, recording.spec.label
    exp = wb.open("digits", store=store)
    assert isinstance(exp, Experiment)
    words = r"has no best trial: each trial that has reported val_acc failed.*digits@1/t0001 \(exp\['t0001'\]\)"
    for ask in (lambda: exp.best, lambda: recorded(store, label)):
        with pytest.raises(NotFound, match=words):
            ask()
    said = typed("best", "digits", store=store)
    assert "each trial that has reported val_acc failed" in said.err
    exp._board.close()

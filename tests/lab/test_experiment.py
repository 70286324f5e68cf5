"""The function form and the handles, by a real engine; and what ``import workbench`` costs and offers."""

import asyncio
import contextlib
import doctest
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from lab.recorded import Recording
from running import engine, engine_pid, until

import workbench as wb
from workbench import asking
from workbench.asked import End, plain
from workbench.errors import BadCell, BadMetric, BadName, BadOption, BadSpace, Broken, NotFound, TrialFailed
from workbench.experiment import experiment as module
from workbench.space import Space
from workbench.store import Store
from workbench.store.lists.catalog import Catalog

OFFSET = 0.25


LR, KIND = wb.loguniform(1e-3, 1), wb.choice("a", "b")


def train(trial, lr=LR, kind=KIND):
    weight = 0.0
    for _epoch in trial.steps():
        weight += lr * (1 - weight)
        trial.report(val_acc=weight + OFFSET, loss=1 - weight)


def slow(trial, lr=LR):
    for _epoch in trial.steps():
        time.sleep(0.2)
        trial.report(val_acc=lr)


def broken(trial, lr=LR):
    for _epoch in trial.steps():
        trial.report(val_acc=lr / 0)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("functions") / ".workbench")
    with engine(store, workers=1):
        until(lambda: engine_pid(store))
        yield store


def made(store, name="quick", function=train, **fields):
    given = {"goal": wb.maximize("val_acc"), "scheduler": wb.Hyperband(max_steps=9), "store": store, **fields}
    return wb.Experiment(name, function, **given)


def test_a_search_over_a_function(store, capsys):
    exp = made(store)
    assert repr(exp) == "<quick: not started>"
    assert exp.plan().trials == 17
    exp.start().wait(60)
    assert exp.state == "completed"
    assert len(exp.trials) == 17
    measured = ["best", "best_step", "loss", "loss.low", "loss.high", "loss.at_best", "duration", "slot_time"]
    columns = [name for name in exp.trials.columns if name not in ("setup_time", "bytes", "slot")]
    assert columns == ["state", "step", "val_acc", "lr", "kind", *measured, "reason"]
    assert exp.trials["step"].is_monotonic_decreasing
    assert all(values.is_monotonic_decreasing for _, values in exp.trials.groupby("step")["val_acc"])
    best = exp.best
    assert best.value == exp.trials["val_acc"].iloc[0]
    assert best.label == exp.trials.index[0]
    assert (best.status, best.step) == ("completed", 9)
    assert exp[best.label].configuration == exp[best.number].configuration == best.configuration
    assert [trial.number for trial in exp] == [trial.number for trial in exp.records] == [*range(17)]
    assert best.curve().index.tolist() == list(range(1, 10))
    assert list(best.curves().columns) == ["val_acc", "loss"]
    assert exp.curves("loss").shape == (9, 17)
    assert best.load().weight == pytest.approx(best.value - OFFSET)
    assert wb.last() is exp
    assert wb.open("quick", store=store).id == exp.id
    assert repr(exp).startswith("<quick@1 completed: 17 trials in ")
    assert "<b" in exp._repr_html_()
    assert "<b" in best._repr_html_()


def test_the_same_content_is_not_trained_again(store):
    first = made(store, "twice", trials=2).start().wait(60)
    assert made(store, "twice", trials=2).start().id == first.id
    again = made(store, "twice", trials=2).start(again=True).wait(60)
    assert again.label == "twice@2"
    assert again.changed == ["the same as @1, trained again"]
    other = made(store, "twice", trials=2, seed=4).start().wait(60)
    assert other.changed == ["changed since @2: seed 0 → 4"]


def test_stop_pause_and_resume(store):
    exp = made(store, "slow", slow).start()
    exp.pause()
    until_state(exp, "paused")
    exp.resume()
    until_state(exp, "running")
    exp.stop("t0000")
    until(lambda: exp["t0000"].status == "stopped")
    assert exp["t0000"].reason
    exp.stop()
    exp.wait(30)
    assert exp.state == "stopped"
    exp.stop()


async def test_awaiting_an_experiment_leaves_the_loop_free(store):
    exp = made(store, "awaited").start()
    turns = 0

    async def count():
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    counting = asyncio.create_task(count())
    assert await exp is exp
    counting.cancel()
    assert exp.state == "completed"
    assert turns > 5


async def test_awaiting_an_experiment_replaces_a_killed_engine(tmp_path):
    own = Store(tmp_path / ".workbench")
    with engine(own, workers=1):
        exp = made(own, "survives", slow, scheduler=wb.All(3), trials=1).start()
        killed = engine_pid(own)
        os.kill(killed, signal.SIGKILL)
        until(lambda: engine_pid(own) is None)
        try:
            async with asyncio.timeout(60):
                assert await exp is exp
            assert exp.state == "completed"
        finally:
            if engine_pid(own) is not None:
                asking.ask(own, End())
                until(lambda: engine_pid(own) is None)


def test_a_failed_experiment_raises_with_the_trials_own_words(store):
    exp = made(store, "broken", broken).start()
    with pytest.raises(TrialFailed, match="ZeroDivisionError"):
        exp.wait(60)
    assert exp.state == "failed"
    assert "lr / 0" in exp.records[0].error


def test_watch_says_lines_where_there_is_no_notebook(store, capsys):
    made(store, "watched", trials=2).start().watch()
    assert capsys.readouterr().out.splitlines()[-1].startswith("watched@1 completed: 2 trials in ")


def test_a_wait_that_is_interrupted_says_that_it_goes_on(tmp_path, monkeypatch):
    recording = Recording(tmp_path / "store", trials=2)
    exp = module.Experiment.of(recording.store, recording.spec.id)

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt, match="digits@1 continues"):
        exp.wait()
    with pytest.raises(TimeoutError, match=r"has not ended within 0 s; it continues"):
        exp.wait(timeout=0)
    exp._board.close()
    recording.series.close()


def test_a_trial_of_an_ended_experiment_is_not_resumed_in_silence(store):
    exp = made(store, name="over", scheduler=wb.All(1), trials=1).start().wait(60)
    for ask, done in ((exp["t0000"].resume, "resumed"), (exp["t0000"].pause, "paused")):
        with pytest.raises(BadOption, match=f"t0000 cannot be {done}: its experiment is completed. Extend"):
            ask()
    exp["t0000"].stop()
    exp.resume()
    assert exp.state == "completed"


def test_simulating_needs_no_engine(tmp_path):
    exp = made(Store(tmp_path / "store"))
    simulation = exp.simulate(lambda configuration, step: 1 - configuration["lr"] / step, slots=2)
    assert simulation is not None
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("fields", "kind", "part"),
    [
        ({"goal": "val_acc"}, BadOption, "expected wb.maximize"),
        ({"scheduler": "hyperband"}, BadOption, "expected a scheduler, such as wb.Hyperband"),
        ({"goal": wb.maximize("acc")}, BadMetric, "acc"),
        ({"function": lambda trial: None}, BadCell, "has no loop over trial.steps"),
        ({"space": {"lrs": 0.1}}, BadSpace, "lrs, which is not a parameter .is lr meant"),
        ({"trials": 0}, BadOption, "--trials 0"),
        ({"limit_s": float("inf")}, BadOption, "limit_s=inf: expected seconds, more than 0"),
        ({"limit_s": "1h"}, BadOption, "limit_s='1h': expected seconds"),
    ],
)
def test_bad_input_is_refused(tmp_path, fields, kind, part):
    with pytest.raises(kind, match=part):
        made(Store(tmp_path / "store"), **fields)


def test_what_is_not_there_is_said(tmp_path):
    recording = Recording(tmp_path / "store", trials=2)
    exp = module.Experiment.of(recording.store, recording.spec.id)
    with pytest.raises(NotFound, match="no best trial yet"):
        _ = exp.best
    with pytest.raises(NotFound, match="no trial t0009; it has 2"):
        _ = exp["t0009"]
    recording.turn()
    with pytest.raises(NotFound, match="has not reported f1; reported are val_acc, loss"):
        exp[0].curve("f1")
    with pytest.raises(NotFound, match="has no experiment 'digit'"):
        wb.open("digit", store=recording.store)
    assert wb.open("digits", store=recording.store).id == exp.id
    exp._board.close()
    recording.series.close()


@pytest.mark.parametrize("lost", ["missing", "damaged"])
def test_results_that_were_lost_are_said_and_not_shown_as_none(tmp_path, lost):
    recording = Recording(tmp_path / "store", trials=2)
    recording.turn()
    recording.series.close()
    with contextlib.closing(Catalog(recording.store)) as catalog:
        row = {"label": "digits@1", "state": "completed", "created": recording.spec.created, "trials": 2}
        row["best"] = {"trial": 0, "value": 0.5}
        catalog.upsert_experiment(recording.spec.id, row)
    for file in recording.paths.folder.glob("series.db*"):
        file.unlink()
    if lost == "damaged":
        recording.paths.series.write_bytes(b"x" * 5000)
    results = {
        name: getattr(module.Experiment, name).fget
        for name in ("best", "trials", "records", "configurations", "metrics")
    }
    results |= {"at_level": module.Experiment.at_level, "curves": module.Experiment.curves, "one": lambda exp: exp[0]}
    for result in results.values():
        with pytest.raises(Broken, match=r"series.db.* `workbench doctor --mend` restores"):
            result(module.Experiment.of(recording.store, recording.spec.id))
    assert module.Experiment.of(recording.store, recording.spec.id).state == "completed"


def test_trials_and_steps_may_be_numbers_of_numpy(tmp_path, monkeypatch):
    recording = Recording(tmp_path / "store", trials=2)
    exp = module.Experiment.of(recording.store, recording.spec.id)
    assert exp[np.int64(1)].number == 1
    for wrong in (True, np.bool_(True), -1, 1.0, None):
        with pytest.raises(BadName, match="is not a trial: expected its number or its label"):
            _ = exp[wrong]
    sent = []
    # What would be sent counts, and whether JSON can hold it: no engine needs to answer.
    monkeypatch.setattr("workbench.asking.ask", lambda store, request: sent.append(request))
    exp.extend(trials=np.int64(2), max_steps=np.int64(81), limit_s=np.int64(60))
    exp.pause(np.int64(1))
    assert json.loads(json.dumps([*map(plain, sent)])) == [
        {"kind": "extend", "experiment": exp.id, "trials": 2, "last": 81, "seconds": 60.0},
        {"kind": "pause", "experiment": exp.id, "trial": 1},
    ]
    with pytest.raises(NotFound, match="no checkpoint"):
        exp[0].load(np.int64(3))
    exp._board.close()
    recording.series.close()


@pytest.mark.parametrize("large", [7, 2**53 + 1, 2**63 - 1, 2**64 + 1])
def test_whole_numbers_stay_whole_beside_missing_ones(tmp_path, large):
    recording = Recording(tmp_path / "store", trials=3, space=Space({}).to_json())
    for number, layers in enumerate((large, None, 2)):
        recording.series.put_trial(number, configuration={"layers": layers, "lr": 0.5 if number else None})
    recording.series.flush()
    exp = module.Experiment.of(recording.store, recording.spec.id)
    for table in (exp.trials, exp.configurations):
        assert table["layers"].dropna().tolist() == [large, 2]
        assert {type(one) for one in table["layers"].dropna()} <= {int, np.int64}
        assert table["lr"].dtype == float
    exp._board.close()
    recording.series.close()


def test_the_example_in_the_docstring_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tests = doctest.DocTestFinder().find(module.Experiment, "Experiment", globs={})
    (tmp_path / "example.py").write_text("".join(example.source for example in tests[0].examples))
    done = subprocess.run([sys.executable, "example.py"], capture_output=True, text=True, check=True)
    assert done.stdout == tests[0].examples[-1].want


def test_importing_is_cheap_and_offers_these_names():
    code = (
        "import sys, json, workbench as wb; wb.choice, wb.Hyperband;"
        "print(json.dumps([sorted(sys.modules), sorted(wb.__all__), [n for n in wb.__all__ if not hasattr(wb, n)]]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules, names, missing = json.loads(done.stdout)
    assert not {"torch", "dask", "distributed", "pandas", "plotly", "matplotlib", "IPython", "anywidget"} & {*modules}
    assert not missing
    assert names == [
        *(
            "ASHA",
            "All",
            "Audio",
            "Experiment",
            "Histogram",
            "Hyperband",
            "Image",
            "Median",
            "Parameter",
            "Table",
            "Trial",
            "choice",
            "compare",
            "last",
            "loguniform",
            "maximize",
        ),
        *("minimize", "open", "quniform", "randint", "repeat", "replay", "trial", "uniform", "why"),
    ]
    with pytest.raises(AttributeError, match="it has ASHA"):
        _ = wb.nothing


def until_state(exp, state):
    until(lambda: exp.state == state)

"""The table of trials has every metric, whatever its name, beside what was measured."""

from __future__ import annotations

import pytest
from cli.stored import Written

import workbench as wb
from workbench.store import Store
from workbench.store.lists.catalog import Catalog
from workbench.store.series import Series

X = wb.uniform(0.0, 1.0)


@pytest.fixture
def written(tmp_path):
    store = Store(tmp_path / ".workbench").create()
    return Written(store, Catalog(store))


def test_all_metrics_durations_and_slots_are_columns(written):
    spec = written.experiment()
    with Series.open(written.store.experiment(spec.id).series) as series:
        series.add_points((1, "val/loss", step, 0, value, 1.0) for step, value in ((1, 0.5), (2, 0.2), (3, 0.3)))
        series.put_leg(1, 1, began=10.0, left=14.5)
    written.checkpoint(spec, 1, 3)
    table = wb.open("digits", store=written.store).trials
    row = table.loc["t0001"]
    assert (row["best"], row["best_step"]) == (0.975, 3)
    assert list(row[["val/loss", "val/loss.low", "val/loss.high", "val/loss.at_best"]]) == [0.3, 0.2, 0.5, 0.3]
    assert (row["duration"], row["slot_time"], row["slot"]) == (4.5, 4.5, "cpu0")
    assert row["bytes"] > 0
    assert "setup_time" not in table.columns, "a column appears only if it is informative"
    assert list(table.columns[:5]) == ["state", "step", "val_acc", "lr", "hidden"]
    assert table.columns[-1] == "reason"


def test_a_metric_with_the_name_of_another_column_hides_nothing(written):
    spec = written.experiment()
    with Series.open(written.store.experiment(spec.id).series) as series:
        series.add_points([(1, "step", 1, 0, 99.0, 1.0), (1, "lr", 1, 0, 88.0, 1.0), (1, "slot", 1, 0, 77.0, 1.0)])
    row = wb.open("digits", store=written.store).trials.loc["t0001"]
    assert (row["step"], row["lr"], row["slot"]) == (3, 0.05, "cpu0")
    assert (row["metric.step"], row["metric.lr"], row["metric.slot"]) == (99.0, 88.0, 77.0)


def test_a_hyperparameter_with_the_name_of_the_goal_or_of_another_column_hides_nothing(written):
    spec = written.experiment(space={"val_acc": wb.choice("top1", "top5"), "state": wb.randint(0, 9), "lr": X})
    with Series.open(written.store.experiment(spec.id).series) as series:
        for number in range(3):
            series.put_trial(number, configuration={"val_acc": "top5", "state": 2, "lr": 0.1})
    table = wb.open("digits", store=written.store).trials
    row = table.loc["t0001"]
    assert (row["val_acc"], row["state"], row["lr"]) == (0.925, "completed", 0.1)
    assert (row["configuration.val_acc"], row["configuration.state"]) == ("top5", 2)
    assert list(table.columns[:6]) == ["state", "step", "val_acc", "configuration.val_acc", "configuration.state", "lr"]


@pytest.mark.parametrize("name", ["state", "step", "mean", "reason"])
def test_a_goal_with_the_name_of_another_column_hides_nothing(written, name):
    written.experiment("named", metric=name)
    table = wb.open("named", store=written.store).trials
    assert list(table.columns[:3]) == ["state", "step", f"metric.{name}"]
    row = table.loc["t0001"]
    assert (row["state"], row["step"], row[f"metric.{name}"]) == ("completed", 3, 0.925)
    assert isinstance(row["reason"], str)


def test_what_trials_used_is_in_the_table_and_over_time(written):
    spec = written.experiment()
    with Series.open(written.store.experiment(spec.id).series) as series:
        series.add_points([(2, "system/memory", 1, 0, 99.0, 1.0)])
        series.add_samples(1, [("cpu", 10.0, 15.0, 1.0), ("cpu", 15.0, 20.0, 0.5), ("memory", 10.0, 20.0, 2e9)])
    exp = wb.open("digits", store=written.store)
    row = exp.trials.loc["t0001"]
    assert row["system/cpu"] == 0.75
    assert row["trial.system/memory"] == 2e9, "a metric of that name keeps it"
    assert exp.trials.loc["t0002", "system/memory"] == 99.0
    assert exp.trials.columns[-1] == "reason"
    used = exp["t0001"].system
    assert used.index.name == "seconds"
    assert used["cpu"].tolist() == [1.0, 1.0, 0.5]
    assert used["memory"].dropna().tolist() == [2e9, 2e9]
    assert exp["t0002"].system.empty
    assert exp.metrics == ["val_acc", "system/memory"]


def test_a_damaged_series_takes_no_known_trial_away(written):
    spec = written.experiment()
    exp = wb.open("digits", store=written.store)
    assert len(exp.trials) == 3
    written.store.experiment(spec.id).series.write_bytes(b"no database " * 1000)
    assert list(exp.trials.columns) == ["state", "step", "val_acc", "lr", "hidden", "off", "reason"]

"""MLflow's stores differ in what they return: an export is read back the same from each of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from running import spec_of

from workbench.exporters.mirrors.following import write
from workbench.store import Store
from workbench.store.series import Series

#: MLflow uses what SQLAlchemy 2.1 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
#: A place for MLflow's runs below a folder, by the kind of its store.
PLACES: dict[str, Callable[[Path], str]] = {
    "folder": lambda folder: (folder / "mlruns").as_uri(),
    "database": lambda folder: f"sqlite:///{folder}/mlflow.db",
}


@pytest.fixture(params=PLACES)
def where(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "database":
        # Nothing else here needs them, so they are not installed for the tests alone.
        pytest.importorskip("sqlalchemy")
        pytest.importorskip("alembic")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return PLACES[request.param](tmp_path)


def store_with(folder: Path, points: list[tuple[str, int, int, float, float]]) -> Store:
    """A store with one experiment of one trial. points: metric, step, index, value, time."""
    store, spec = Store(folder / "store").create(), spec_of("", folder, name="values")
    store.write_spec(spec)
    with Series.open(store.experiment(spec.id).series) as series:
        series.put_trial(0, configuration={"x": 0.5}, state="completed", ended="2026-01-01T00:00:00+00:00")
        series.add_points([(0, *point) for point in points])
        series.put_meta("state", "completed")
    return store


def test_values_that_a_store_keeps_in_its_own_way_are_read_back_and_not_sent_again(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [0.5, math.inf, -math.inf, math.nan, -0.0]
    points = [("score", step, 0, value, 1000.0 + step) for step, value in enumerate(values)]
    store = store_with(tmp_path, points)
    told = write(store, "values", f"mlflow:{where}")
    assert told["read_back"] == told["points"] == len(values)
    sent: list[Any] = []
    log_batch = MlflowClient.log_batch

    def noting(client: MlflowClient, key: str, metrics: Any = (), **more: Any) -> Any:
        sent.extend(metrics)
        return log_batch(client, key, metrics, **more)

    monkeypatch.setattr(MlflowClient, "log_batch", noting)
    assert write(store, "values", f"mlflow:{where}") == told
    assert sent == []


def test_equal_points_of_one_millisecond_are_not_missing(where: str, tmp_path: Path) -> None:
    store = store_with(tmp_path, [("score", 1, index, 0.5, 1000.0001 + index / 10000) for index in range(3)])
    for _ in range(2):
        told = write(store, "values", f"mlflow:{where}")
        assert told["read_back"] == told["points"] == 3


def test_metrics_whose_names_become_equal_stay_apart(where: str, tmp_path: Path) -> None:
    long = "m" * 260
    metrics = ["a(b)", "a[b]", "a_b_", "a_b__2", f"{long}1", f"{long}2"]
    store = store_with(tmp_path, [(name, 1, 0, float(at), 1000.0) for at, name in enumerate(metrics)])
    for _ in range(2):
        told = write(store, "values", f"mlflow:{where}")
        assert told["read_back"] == told["points"] == len(metrics)
    client = MlflowClient(tracking_uri=where)
    experiment = client.get_experiment_by_name("values")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    names = ["a_b_", "a_b__2", "a_b__3", "a_b__2_2", "m" * 250, "m" * 248 + "_2"]
    assert run.data.metrics == {name: float(at) for at, name in enumerate(names)}

"""Tables of points: nothing in them replaces anything else."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path

import pandas as pd
import pytest
from running import ended, engine, spec_of, start

from workbench.errors import BadOption, StoreError, StoreFull
from workbench.records import Scheduler
from workbench.share import write_table
from workbench.space import Parameter, choice, randint
from workbench.space.forms import Distribution
from workbench.store import Store
from workbench.store.series import Series

SOURCE = """
time = randint(1, 9)
value = choice("a", "b")
deep = choice(True, False)
step = randint(1, 3)
state = choice("on", "off")
units = randint(1, 9, when=deep == True)
for epoch in trial.steps():
    trial.report(score=float(time))
"""
#: Hyperparameters with the names of a table's own columns, and one that some trials do not have.
SPACE: dict[str, Distribution] = {
    "time": randint(1, 9),
    "value": choice("a", "b"),
    "deep": choice(True, False),
    "step": randint(1, 3),
    "state": choice("on", "off"),
    "units": randint(1, 9, when=Parameter("deep") == True),  # noqa: E712 - a condition
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A search that has ended."""
    folder = tmp_path_factory.mktemp("home")
    made = Store(folder / "store").create()
    spec = spec_of(SOURCE, folder, space=SPACE, scheduler=Scheduler("all", 2, 2, 3), trials=6, name="named")
    with engine(made):
        start(made, spec)
        assert ended(made, spec) == "completed"
    return made


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_hyperparameters_do_not_replace_the_columns_of_points(store: Store, tmp_path: Path, suffix: str) -> None:
    write_table(store, "named", path := tmp_path / f"points.{suffix}")
    frame = pd.read_csv(path) if suffix == "csv" else pd.read_parquet(path)
    own = ["experiment", "trial", "metric", "step", "index", "value", "time"]
    apart = ["configuration.time", "configuration.value", "deep", "configuration.step", "configuration.state"]
    assert list(frame.columns) == [*own, *apart, "units", "state"]
    assert set(frame["step"]) == {1, 2}
    assert set(frame["metric"]) == {"score"}
    assert set(frame["state"]) == {"completed"}
    assert (frame["value"] == frame["configuration.time"]).all()
    assert set(frame["configuration.state"]) <= {"on", "off"}


def test_whole_numbers_stay_whole_where_some_trials_have_none(store: Store, tmp_path: Path) -> None:
    write_table(store, "named", path := tmp_path / "points.csv")
    units = set(pd.read_csv(path, dtype=str, keep_default_na=False)["units"])
    assert len(units) > 1
    assert "" in units
    assert all(text.isdigit() for text in units - {""})
    write_table(store, "named", path := tmp_path / "points.parquet")
    assert pd.api.types.is_numeric_dtype(pd.read_parquet(path)["units"])


def test_the_table_of_a_trial_has_its_points_alone(store: Store, tmp_path: Path) -> None:
    write_table(store, "named", tmp_path / "all.csv")
    write_table(store, "named@1/t0003", tmp_path / "one.csv")
    whole, one = pd.read_csv(tmp_path / "all.csv"), pd.read_csv(tmp_path / "one.csv")
    assert set(one["trial"]) == {"t0003"}
    pd.testing.assert_frame_equal(one, whole[whole["trial"] == "t0003"].reset_index(drop=True))
    with pytest.raises(BadOption, match="names a step; expected an experiment or a trial"):
        write_table(store, "named@1/t0003:1", tmp_path / "step.csv")


def test_a_disk_that_is_full_takes_nothing_from_the_file_that_was_there(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("mine\n")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The limit is for the new file, and not for the memory file of the series, which the first reader makes.
    with contextlib.ExitStack() as readers:
        for key in store.experiment_ids():
            readers.enter_context(Series.read(store.experiment(key).series))
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
        try:
            with pytest.raises(StoreFull, match="what was there before is untouched"):
                write_table(store, "named", path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == "mine\n"
    assert [one.name for one in tmp_path.glob("*points*")] == ["points.csv"]


def test_a_folder_that_is_missing_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no folder .*missing\. Make it, or choose another place"):
        write_table(store, "named", tmp_path / "missing" / "points.csv")

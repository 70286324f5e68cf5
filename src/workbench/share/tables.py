"""An experiment's trials and curves as plain tables. Law: they contain every point, with its trial's configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.errors import BadOption
from workbench.records.names import column_of, trial_label
from workbench.records.texts import escaped
from workbench.store import Store
from workbench.store.files.atomic import telling, unfinished_name
from workbench.store.lists.catalog import resolve, shown_as
from workbench.store.series import Series


def points(store: Store, ref: str) -> pd.DataFrame:
    """One row for each point of an experiment, or of a trial: experiment, trial, metric, step, index inside the step,
    value, time (UTC), and the trial's hyperparameters and state.

    A hyperparameter with the name of another column is ``configuration.…``, as in ``exp.trials``.
    """
    reference = resolve(store.check(), ref)
    if reference.step is not None:
        raise BadOption(f"{ref!r} names a step; expected an experiment or a trial of it.")
    experiment, only = reference.experiment, reference.trial
    label = shown_as(store, store.read_spec(experiment))
    with Series.read(store.experiment(experiment).series) as series:
        rows = series.points(None if only is None else [only])
        trials = {row["number"]: row for row in series.trials() if only in (None, row["number"])}
    frame = pd.DataFrame(rows, columns=["trial", "metric", "step", "index", "value", "time"])
    frame["time"] = pd.to_datetime(frame["time"], unit="s", utc=True)
    frame.insert(0, "experiment", label)
    names = list(dict.fromkeys(name for row in trials.values() for name in row["configuration"]))
    taken = {*frame.columns, "state"}
    for name in names:
        values = escaped({number: row["configuration"].get(name) for number, row in trials.items()})
        # As objects whole numbers stay whole: beside an inactive one, pandas would make 7 a 7.0.
        are_whole = all(value is None or type(value) is int for value in values.values())
        found = pd.Series(values, dtype=object if are_whole else None)
        frame[column_of("configuration", name, taken)] = frame["trial"].map(found)
    frame["state"] = frame["trial"].map({number: row["state"] for number, row in trials.items()})
    frame["trial"] = frame["trial"].map(trial_label)
    return frame


def write_table(store: Store, ref: str, target: Path) -> dict[str, Any]:
    """Write all points as ``.csv`` or ``.parquet``; the number of rows, and the path.

    A file that was there is replaced once the new one is whole, so that a full disk takes nothing from it.
    """
    if target.suffix not in (".csv", ".parquet"):
        raise BadOption(f"{target}: expected a name that ends with .csv or .parquet.")
    frame = points(store, ref)
    path = Path(os.path.realpath(target))
    unfinished = unfinished_name(path)
    with telling(target):
        try:
            if target.suffix == ".csv":
                frame.to_csv(unfinished, index=False)
            else:
                # A choice may mix numbers and texts; Parquet's columns must not.
                mixed = [name for name in frame.columns if frame[name].dropna().map(type).nunique() > 1]
                frame.astype(dict.fromkeys(mixed, "string")).to_parquet(unfinished, index=False)
            os.replace(unfinished, path)
        except ImportError:
            raise BadOption("Parquet needs pyarrow: pip install pyarrow, or write .csv.") from None
        finally:
            unfinished.unlink(missing_ok=True)
    return {"file": str(target), "rows": len(frame)}

"""Pausing an experiment without an engine. Law: only while no engine works in the store."""

from __future__ import annotations

from workbench.records import ENDED
from workbench.store.journal import Journal
from workbench.store.layout import Store
from workbench.store.lists.summary import entry_of
from workbench.store.series import Series


def pause(store: Store, experiment_id: str, why: str) -> None:
    """Pause the experiment and its trials for the reason ``why``; ended and paused ones are unchanged.

    Raises StoreError if its records cannot be read.
    """
    paths, entry = store.experiment(experiment_id), entry_of(store, experiment_id)
    if entry is None or entry["state"] in (*ENDED, "paused"):
        return
    with Journal.open(paths.journal) as journal:
        journal.append({"kind": "PauseAsked", "cause": "person", "reason": why})
    if paths.series.exists():
        with Series.open(paths.series) as series:
            series.put_meta("state", "paused")
            series.put_meta("reason", why)
            for trial in series.trials():
                if trial["state"] not in ENDED:
                    series.put_trial(trial["number"], state="paused", reason=why)

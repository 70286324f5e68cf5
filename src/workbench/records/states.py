"""States of trials and experiments, and their legal transitions. Law: tables only."""

from __future__ import annotations

from typing import Literal

TrialState = Literal["waiting", "running", "paused", "stopping", "completed", "stopped", "failed"]
ExperimentState = Literal["waiting", "running", "paused", "stopping", "completed", "stopped", "failed"]

#: The only transitions out of an ended state, of trials and of experiments: the search was extended.
BY_EXTENSION: frozenset[tuple[str, str]] = frozenset(
    {
        *(("completed", "running"), ("stopped", "paused")),  # trials
        *(("completed", "waiting"), ("stopped", "waiting"), ("failed", "waiting")),  # experiments
    }
)
#: Legal transitions of a trial. *paused*: it holds no slot and waits at a rung (or for the user).
LEGAL_TRIAL: frozenset[tuple[str, str]] = frozenset(
    {
        *(("waiting", state) for state in ("running", "paused", "stopped")),
        ("running", "waiting"),  # its leg was lost; it waits for a slot to continue
        ("running", "paused"),
        ("running", "stopping"),
        ("running", "completed"),
        ("running", "stopped"),  # it left at a turn where the scheduler had already stopped it
        ("running", "failed"),
        ("paused", "running"),
        ("paused", "stopped"),
        ("paused", "completed"),
        ("stopping", "stopped"),
        ("stopping", "completed"),  # it completed before the order arrived
        ("stopping", "failed"),
        ("completed", "running"),  # the search was extended
        ("stopped", "paused"),
    }
)
#: Legal transitions of an experiment.
LEGAL_EXPERIMENT: frozenset[tuple[str, str]] = frozenset(
    {
        ("waiting", "running"),
        ("waiting", "paused"),
        ("waiting", "stopping"),
        ("waiting", "completed"),  # it was extended, but nothing was left to train
        ("waiting", "stopped"),
        ("waiting", "failed"),
        ("running", "waiting"),  # other engines of this machine hold all slots
        ("running", "paused"),
        ("running", "stopping"),
        ("running", "completed"),
        ("running", "stopped"),  # the user had stopped its trials one by one
        ("running", "failed"),
        ("paused", "running"),
        ("paused", "waiting"),
        ("paused", "stopping"),
        ("paused", "completed"),  # its last legs completed instead of pausing
        ("paused", "stopped"),
        ("paused", "failed"),
        ("stopping", "stopped"),
        ("stopping", "completed"),
        ("stopping", "failed"),
        ("stopping", "running"),  # it was extended before its last legs had left
        ("stopping", "waiting"),
        ("stopping", "paused"),
        ("completed", "waiting"),  # it was extended
        ("stopped", "waiting"),
        ("failed", "waiting"),
    }
)
#: States that a trial or an experiment leaves only if its search is extended.
ENDED: frozenset[str] = frozenset({"completed", "stopped", "failed"})
#: What viewers show for a trial that runs, and whose first step has not started, if that takes seconds.
SETTING_UP = "setting up"
#: What lists show for an experiment with invalid files. It has no state, and cannot be continued.
UNREADABLE = "unreadable"

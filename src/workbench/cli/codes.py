"""Exit codes of the command line. Law: each error class has one, in one table."""

from __future__ import annotations

from workbench.errors import (
    BadInput,
    ClusterError,
    EngineRunning,
    NotAdopted,
    NotFound,
    Paused,
    StoreError,
    TrialError,
    WorkbenchError,
)

OK, FAILED, BAD, MISSING, AWAY, STORE, STOPPED, UNSURE, PAUSED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 7, 8, 130

#: What each exit code means, for help and docs.
EXIT_CODES = {
    OK: "done",
    FAILED: "the experiment failed (watch), a trial differs (verify, replay), a notebook failed (replay), or doctor "
    "found a problem",
    BAD: "bad input: an unknown verb or option, or an invalid value",
    MISSING: "not found: no such store, experiment, trial, log or result",
    AWAY: "the engine or the cluster is not available, or another engine holds the store",
    STORE: "trouble with the store: full, read-only, damaged, not yours, or of a later Workbench",
    STOPPED: "the experiment was stopped (watch)",
    UNSURE: "it could not be determined (verify)",
    PAUSED: "the awaited experiment is paused until it is resumed",
    INTERRUPTED: "interrupted; the experiment continues",
}

#: The exit code for each error class; the first match counts.
_OF: tuple[tuple[type[BaseException], int], ...] = (
    (BadInput, BAD),
    (NotFound, MISSING),
    (EngineRunning, AWAY),
    (ClusterError, AWAY),
    (StoreError, STORE),
    (Paused, PAUSED),
    (NotAdopted, STORE),
    (TrialError, FAILED),
    (WorkbenchError, FAILED),
    (OSError, STORE),
)


def code_of(error: WorkbenchError | OSError) -> int:
    """The exit code for an error."""
    return next(code for kind, code in _OF if isinstance(error, kind))

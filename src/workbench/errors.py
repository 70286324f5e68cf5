"""Every error Workbench raises on purpose. Law: each says what was given, what was expected and what to do.

WorkbenchError
├── BadInput (ValueError)      the user can fix it; refused before anything starts
│   ├── BadCell                the cell's own text, with its line
│   ├── BadSpace               a hyperparameter or its distribution
│   ├── BadOption              an option of the magic, the command line or a constructor
│   ├── BadMetric              a reported value, or a goal that is never reported
│   ├── BadName                a name of an experiment, metric, trial or file
│   ├── BadCapture             a name from the notebook that cannot be sent to training
│   ├── BadSetting             a setting of the notebook's process that cannot be sent to training
│   └── InUse                  it cannot be removed: it runs, is pinned, or has descendants
├── NotFound (LookupError)     no such experiment, trial, checkpoint or store
├── Declined                   the user was asked, and said no
├── Untrusted                  loading or training it would run another person's code
│   └── NotAdopted             the whole store is not known as this user's
├── StoreError (OSError)       the disk's side
│   ├── StoreFull
│   ├── StoreReadOnly
│   ├── NewerSchema            written by a later Workbench: open read-only
│   ├── Broken                 a file is damaged; content that other files also hold can be restored
│   ├── Unreadable             an experiment's files are not valid, so it does not continue
│   ├── StaleAttempt           a write by an attempt that is no longer the trial's
│   └── EngineRunning          a second engine for one store
├── ClusterError               Dask's side
│   ├── NoAnswer               no cluster answers at an address
│   ├── VersionsDiffer         training environment or protocol differ between machines
│   ├── StoreNotShared         a worker cannot see the store
│   └── BadMessage             what a process sent is not a message of this protocol
├── Paused                     the awaited experiment is paused, and does not resume by itself
└── TrialError                 the training code's side
    ├── TrialFailed            it raised, exited or was killed
    ├── NotebookFailed         a cell of an executed notebook raised
    └── CannotResume           the state cannot be restored exactly
"""

from __future__ import annotations

import linecache
import os
import sysconfig
import traceback

#: Folders with code that is not the user's: Workbench, Python, and installed packages.
_NOT_THEIRS = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    *{sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")},
    "<string>",
    "<frozen",
)


class WorkbenchError(Exception):
    """The root of all errors that Workbench raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of its own traceback: the user's own lines on the stack, and the message."""
        shown: list[str] = []
        for frame, line in traceback.walk_tb(self.__traceback__):
            filename = frame.f_code.co_filename
            text = "" if filename.startswith(_NOT_THEIRS) else linecache.getline(filename, line, frame.f_globals)
            if text.strip():
                shown += [f"File {filename}"] if os.path.exists(filename) else []
                shown.append(f"----> {line:3} {text.rstrip()}")
        return [*shown, *([""] if shown else []), f"{type(self).__name__}: {self}"]


class BadInput(WorkbenchError, ValueError):
    """Input that the user can fix. ``line`` is the 1-based line of the cell, if any."""

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class BadField(BadInput):
    """A request's field has no meaning. ``field`` is its name, where it was read."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class BadCell(BadInput):
    """The text of a train cell cannot be searched over as it stands."""


class BadSpace(BadInput):
    """A hyperparameter's distribution has no meaning (no range, reversed bounds, log of zero, …)."""


class BadOption(BadInput):
    """An option is unknown or its value is not valid."""


class BadMetric(BadInput):
    """A reported value is not a number, or the goal was never reported."""


class BadName(BadInput):
    """A name is empty, too long, or holds characters that do not belong in a name."""


class BadCapture(BadInput):
    """A name that the cell uses from the notebook cannot be sent to another process."""


class BadSetting(BadInput):
    """A setting of the notebook's process cannot be sent to the processes that train."""


class InUse(BadInput):
    """It cannot be removed because it is still needed: it runs, is pinned, or has descendants."""


class NotFound(WorkbenchError, LookupError):
    """No such experiment, trial, checkpoint or store."""


class FolderGone(NotFound):
    """The folder in which a trial trains cannot be entered."""


class FolderUnreachable(FolderGone):
    """It may exist: its file system does not answer, is stale, or refuses."""


class Untrusted(WorkbenchError):
    """Loading it would run code of an author who is not trusted."""


class Declined(WorkbenchError):
    """The user was asked and said no; nothing was written."""


class NotAdopted(Untrusted):
    """The store is not known as this user's: it can be read, and nothing in it runs before the user adopts it."""


class StoreError(WorkbenchError, OSError):
    """The store could not do what was asked; nothing in it was damaged."""


class StoreFull(StoreError):
    """No space is left on the store's disk."""


class StoreReadOnly(StoreError):
    """The store cannot be written."""


class NewerSchema(StoreError):
    """Written by a later Workbench: it can be read, not written."""


#: How to rebuild a series that is lost or damaged.
MEND = "`workbench doctor --mend` restores what the journal and checkpoints hold."


class Broken(StoreError):
    """A file of the store is damaged. Content that other files also hold can be restored."""


class Unreadable(StoreError):
    """An experiment's files are not valid, so it does not continue."""


class StaleAttempt(StoreError):
    """A write by an attempt that is no longer its trial's newest."""


class EngineRunning(StoreError):
    """Another engine holds this store."""


class ClusterError(WorkbenchError):
    """The Dask cluster's side."""


class NoAnswer(ClusterError):
    """No cluster answers at the given address."""


class VersionsDiffer(ClusterError):
    """Two machines hold different versions of what must be the same."""


class StoreNotShared(ClusterError):
    """A worker cannot see the store."""


class BadMessage(ClusterError):
    """What a process sent is not a message of this protocol. The text names the wrong field."""


class Paused(WorkbenchError):
    """The awaited experiment is paused, and continues only when the user resumes it. cause: as in ``PauseAsked``."""

    cause: str = "person"


class TrialError(WorkbenchError):
    """The training code's side."""


class TrialFailed(TrialError):
    """The training code raised, exited or was killed."""


class NotebookFailed(TrialError):
    """An executed notebook raised an error in a cell, or its kernel died."""


class CannotResume(TrialError):
    """A trial's state cannot be restored exactly; continuing would be silently wrong."""

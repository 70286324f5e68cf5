"""The cells that a kernel has executed, with what IPython's history lacks: when, which cell, and how it ended.

Law: it only observes; its errors never reach the user's cell.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from workbench.snapshot.reading.facts import Facts, facts_of


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a cell: its number in the kernel, its start (seconds since 1970), the cell's id if known, its
    text, and whether it ended without an error.
    """

    number: int
    at: float
    cell_id: str | None
    source: str
    is_whole: bool = True

    @property
    def facts(self) -> Facts:
        """What its text does with names."""
        return facts_of(self.source)


class Log:
    """The executions of one kernel, since Workbench was loaded."""

    def __init__(self) -> None:
        self.runs: dict[int, Run] = {}
        #: By name: the executions that assign it, in order.
        self.binders: dict[str, list[Run]] = defaultdict(list)
        self._began = time.time()

    def add(self, run: Run) -> None:
        """Add an execution."""
        self.runs[run.number] = run
        for name in run.facts.may_bind:
            self.binders[name].append(run)

    # -- IPython's events ---------------------------------------------------------------------------------------------

    def begins(self, info: Any) -> None:
        """A cell starts."""
        self._began = time.time()

    def ended(self, result: Any) -> None:
        """A cell has ended. Its use of names is analysed now, while no user waits."""
        with contextlib.suppress(Exception):
            info = result.info
            if info.store_history and result.execution_count is not None:
                number, cell_id = int(result.execution_count), getattr(info, "cell_id", None)
                self.add(Run(number, self._began, cell_id, str(info.raw_cell), bool(result.success)))


_LOGS: weakref.WeakKeyDictionary[Any, Log] = weakref.WeakKeyDictionary()


def log_of(shell: Any) -> Log | None:
    """The log of this shell, or None if there is none."""
    with contextlib.suppress(TypeError):  # it is not a shell
        return _LOGS.get(shell)
    return None


def watch(shell: Any) -> None:
    """Keep a log of the executions of ``shell``."""
    if shell not in _LOGS:
        log = _LOGS[shell] = Log()
        shell.events.register("pre_run_cell", log.begins)
        shell.events.register("post_run_cell", log.ended)


def unwatch(shell: Any) -> None:
    """Stop keeping the log."""
    log = _LOGS.pop(shell, None)
    if log is not None:
        for event, hook in (("pre_run_cell", log.begins), ("post_run_cell", log.ended)):
            with contextlib.suppress(ValueError):
                shell.events.unregister(event, hook)


def executed(shell: Any, history: Any) -> tuple[dict[str, Any], ...]:
    """The executed cells in order, as a snapshot stores them: texts, and ids and failures if the log has them."""
    log = log_of(shell)
    found = []
    for number, source in enumerate(history.input_hist_raw):
        cell: dict[str, Any] = {"source": source}
        run = log.runs.get(number) if log is not None else None
        if run is not None and run.source == source:
            cell |= {"cell_id": run.cell_id, **({} if run.is_whole else {"failed": True})}
        found.append(cell)
    return tuple(found)

"""A check of a trial against an uninterrupted turn, asked for by a user. Law: it waits, and says why it has to."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.asked import Verify
from workbench.asking import Tending, ask
from workbench.experiment.trial import Verdict
from workbench.records.names import trial_label
from workbench.records.plain import plain
from workbench.status.board import Board
from workbench.status.waiting import LOOK_S, Pauses

if TYPE_CHECKING:
    from workbench.experiment import Experiment


def checked(
    experiment: Experiment, look: Callable[[], Board], trial: int, step: int | None, timeout: float | None
) -> Verdict:
    """The verdict, as :meth:`Experiment.verify` says. look: reads what is new."""
    before = experiment[trial].verdict
    answer = ask(experiment.store, Verify(experiment.id, trial, plain(step)))
    deadline, tend = None if timeout is None else time.monotonic() + timeout, Tending(experiment.store)
    pauses = Pauses(experiment.label)
    while True:
        found = experiment[trial].verdict
        if found is not None and found != before and found.details["until"] == answer["until"]:
            return found
        if not (board := look()).is_ended:
            pauses.check(board.meta)
        tend()
        if deadline is not None and time.monotonic() > deadline:
            raise TimeoutError(f"{experiment.label}/{trial_label(trial)} was not checked within {timeout:g} s.")
        time.sleep(LOOK_S)

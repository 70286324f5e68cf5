"""What a search has come to when nothing of it is left to run: a state, and why. Law: it reads, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from workbench.facts import Finish, StopAsked
from workbench.records.names import trial_label
from workbench.search.rule import Words
from workbench.standing import Standings
from workbench.words import few

__all__ = ["finished", "resting"]

#: Trials that a sentence names.
_NAMED = 5


def finished(
    ended: Mapping[str, int],
    begun: int,
    stopped: StopAsked | None,
    was_asked: bool,
    standings: Standings,
    words: Words,
) -> Finish:
    """The last instruction of a search.

    ended: how many trials ended in each state, of so many ``begun``. stopped: how a person stopped all of them.
    was_asked: a person has stopped single trials.
    """
    state: Literal["completed", "stopped", "failed"] = "completed"
    if stopped is not None:
        state = stopped.then
    elif not ended["completed"]:
        # Where trials have diverged, the rule itself may have stopped the last: it did all that it was to do.
        by_rule = bool(standings.diverged) and not was_asked
        state = "failed" if not ended["stopped"] else "completed" if by_rule else "stopped"
    counts = ", ".join(f"{ended[kind]} {kind}" for kind in ("completed", "stopped", "failed") if ended[kind])
    best, standing = "", standings.best
    if standing is not None:
        best = f"; best {words.value(standing.key)} by {trial_label(standing.trial)} at step {-standing.below}"
        if (of := standings.spread(standing.trial)) is not None:
            best += f" (its {of[1].trials} trials: {of[1].mean:.6g} {of[1].scatter})"
        best += ", which diverged later" if standing.diverged else ""
    elif standings.diverged:
        best = f"; no finite {words.metric}"
    asked = "" if stopped is None else f"{stopped.reason.removesuffix('.')}; "
    trials = f"{begun} trial{'s' * (begun != 1)}"
    return Finish(state, f"{asked}{trials}, {counts or 'none ended'}{best}")


def resting(held: Iterable[int]) -> str:
    """Why nothing runs although the search has not ended: all that is left waits for these trials."""
    names = [trial_label(number) for number in sorted(held)]
    listed = ", ".join(few(names, _NAMED))
    one = len(names) == 1
    are, them = ("is", "it") if one else ("are", "them")
    return f"{listed} {are} paused, and nothing else is left to train; resume {them} to continue"

"""Legs of several ranks, as the engine's side of the cluster sees them. Law: all ranks train, or none.

Each rank is ordered, trained and stopped like a leg of its own, in a slot of its own. The engine sees one leg: what the
first rank says, and one end, when the last rank has left. If a rank is lost or fails, the others wait for it forever;
they are stopped after a moment, in which the error that came first is told from those that follow from it.
"""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from workbench.cluster.address import machine
from workbench.cluster.backend import Slot, Survivor, leader, rank_key
from workbench.messages import FromLeg, Left, Order, Rank
from workbench.store import Store

#: Seconds from a bad end of a rank, or any end of the first one, until the others are stopped: their own ends say what
#: came first.
CAUSE_S = 1.0
#: Where the ranks of one machine listen.
LOOPBACK = "127.0.0.1"
#: Why the ranks are stopped that the first one has left behind, or that a lost one has.
BEHIND = "another rank of its trial has left"
#: How collectives fail in a rank whose peer is gone (messages of gloo and NCCL as torch 2.13 raises them).
_PEER_GONE = re.compile(
    r"gloo|NCCL|connection (was )?(closed|reset)|broken pipe|socket|TCPStore|recv|timed out", re.IGNORECASE
)
#: How they fail in a rank whose peer is there, and does not answer; and what that means.
_TIMED_OUT = re.compile(r"Timed out waiting \d+ms")
SILENT = (
    "another rank has not joined a collective for as long as one may take. It hangs, or it went another way than this "
    "one: all ranks must do the same backward passes and steps. The ends of the ranks' logs show where they were"
)


def ranks(order: Order, slots: Sequence[Slot]) -> list[Order]:
    """The orders of a leg's ranks, one for each of ``slots``."""
    if len(slots) == 1 and not order.leg.is_gang:
        return [order]
    meeting, hosts = secrets.token_hex(8), [machine(slot.worker) for slot in slots]
    there, seen = Counter(hosts), Counter[str]()
    # On one machine nothing listens on other interfaces than the loopback.
    first = LOOPBACK if len(there) == 1 else hosts[0]
    trial = Store(order.leg.store).experiment(order.leg.experiment).trial(order.leg.trial)
    found = []
    for index, host in enumerate(hosts):
        rank = Rank(index=index, size=len(slots), here=seen[host], here_size=there[host], host=first, meeting=meeting)
        seen[host] += 1
        # No other leg may follow in the process of a rank: its process group and its threads cannot be undone.
        leg = dataclasses.replace(order.leg, rank=rank, may_wait=False, is_short=False)
        log = str(trial.rank_log(index)) if index else order.log
        found.append(dataclasses.replace(order, key=rank_key(order.key, index), leg=leg, log=log, strict=True))
    return found


@dataclass(slots=True)
class _Gang:
    size: int
    #: The ends of ranks, by rank, in the order in which they came.
    ends: dict[int, Left] = field(default_factory=dict)
    is_ending: bool = False


class Gangs:
    """The legs of several ranks that are under way."""

    def __init__(self, stop_later: Callable[[str], object]) -> None:
        """stop_later: after :data:`CAUSE_S` seconds, stops the ranks of a leg that are still there."""
        self._stop_later = stop_later
        self._gangs: dict[str, _Gang] = {}

    def begin(self, key: str, size: int) -> None:
        """The leg of ``key`` has this many ranks."""
        if size > 1:
            self._gangs[key] = _Gang(size)

    def joined(self, survivors: Iterable[Survivor]) -> list[Survivor]:
        """Legs that an earlier engine started, from the survivors among their ranks; only those that are all there."""
        there = {one.story.key: one for one in survivors}
        found = []
        for key, one in there.items():
            if one.story.ranks == 1:
                found.append(one)
                continue
            members = [there.get(rank_key(key, rank)) for rank in range(one.story.ranks)]
            if not one.story.rank and all(member and not member.story.is_over for member in members):
                self.begin(key, len(members))
                mates = [member.slot for member in members[1:] if member]
                found.append(dataclasses.replace(one, mates=mates))
        return found

    def keys(self, key: str) -> list[str]:
        """The keys of all ranks of a leg that have not left, the first rank's first; none of one that is over."""
        gang = self._gangs.get(key)
        if gang is None:
            return []
        return [rank_key(key, rank) for rank in range(gang.size) if rank not in gang.ends]

    def take(self, key: str, message: FromLeg) -> FromLeg | None:
        """A rank of ``key`` says this. Returns what the engine should hear of it."""
        whole = leader(key)
        gang = self._gangs.get(whole)
        if gang is None:
            return message if whole == key else None
        if not isinstance(message, Left):
            return message if whole == key else None
        gang.ends[int(key[len(whole) + 1 :] or 0)] = message
        if len(gang.ends) == gang.size:
            del self._gangs[whole]
            return merged(gang.ends)
        # Another rank may be through before the first one, which tests and exports at the end.
        if not gang.is_ending and (whole == key or message.outcome in ("died", "failed")):
            gang.is_ending = True
            self._stop_later(whole)
        return None


def merged(ends: dict[int, Left]) -> Left:
    """The end of a leg by those of its ranks, the earliest first: the first rank's, unless another was the cause."""
    first = ends[0]
    bad = [(rank, left) for rank, left in ends.items() if left.outcome in ("died", "failed")]
    is_well = first.outcome in ("reached", "completed")
    # Once the first rank is through, all is saved: the others may be ended in whatever they do.
    if not bad or (is_well and [*ends].index(0) < [*ends].index(bad[0][0])):
        return first
    rank, cause = min(bad, key=lambda one: _weight(one[1]))
    if first.outcome == cause.outcome and first.error and _words(first) == _words(cause):
        rank, cause = 0, first  # all fail in the same way: one of them came first by chance
    where, error = f"rank {rank}: " if rank else "", cause.error
    if error is not None:
        told = str(error.get("message", ""))
        error = {**error, "message": where + (f"{SILENT} ({told})" if _TIMED_OUT.search(told) else told)}
    reason = where + cause.reason if cause.reason else cause.reason
    # An error of the training code says nothing about a worker: a rank has its own part of the data.
    died = [one for one, left in bad if left.outcome == "died"]
    return dataclasses.replace(
        cause, step=first.step, reason=reason, error=error, rank=died[0] if len(died) == 1 else None
    )


def _weight(left: Left) -> int:
    """Sorts bad ends: lost processes, then errors of the training code, then those that follow from others."""
    if left.outcome == "died":
        return 0
    return 2 if _PEER_GONE.search(_words(left)) else 1


def _words(left: Left) -> str:
    return f"{(left.error or {}).get('type', '')} {(left.error or {}).get('message', '')}"

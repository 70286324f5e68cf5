"""What other users of a machine or a cluster hold and claim, as one engine sees it. Law: it reads, and decides nothing.

Of another user only the sums count, so nothing that the user's engines say of each other matters here. On a machine the
system says who a user is. On a cluster each engine says it: Dask lets anyone who reaches it run code there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from workbench.engine.fair import Claim
from workbench.engine.users import together
from workbench.store.owner.claimed import Said, survey
from workbench.store.owner.listed import person
from workbench.store.owner.machine import Machine
from workbench.store.owner.slots import Claimant


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The slots of one kind, and who claims them.

    name, weight: of this user's claim. slots: names. unknown: those of them that are held by processes of which nothing
    is known. mine: those that this user holds. users: the other users' claims, each that of all of a user's engines;
    others: the same for gifts and words.
    """

    name: str
    weight: float
    slots: frozenset[str]
    unknown: frozenset[str]
    mine: frozenset[str]
    users: tuple[Claim, ...]
    others: tuple[Claimant, ...]

    @classmethod
    def of(cls, machine: Machine, names: Collection[str]) -> Neighbours:
        """Those who use slots of the same kind (cores or GPUs) as ``names``."""
        kinds = set(map(_kind, names))
        slots = frozenset(name for name in machine.slots if _kind(name) in kinds)
        found = survey(machine)
        held = {name: user for name, user in found.held.items() if name in slots}
        claims = [one for one in found.claims if (one.wants | one.holds) & slots]
        me, users, others = os.geteuid(), [], []
        for user in sorted({one.user for one in claims} | {user for user in held.values() if user is not None}):
            if user != me:
                theirs = frozenset(name for name, holder in held.items() if holder == user)
                said = [one for one in claims if one.user == user]
                claim = together(
                    user_name(user), _engines(said, theirs, slots), len(theirs), machine.weight(user), len(slots)
                )
                users.append(claim)
                others.append(_claimant(claim, person(user), said, slots - theirs))
        unknown = frozenset(name for name, user in held.items() if user is None)
        mine = frozenset(name for name, user in held.items() if user == me)
        return cls(user_name(me), machine.weight(me), slots, unknown, mine, tuple(users), tuple(others))

    @classmethod
    def on_cluster(cls, names: Collection[str], mine: Claimant, claims: Collection[Claimant]) -> Neighbours | None:
        """Those who use a cluster. names: slots that this engine can use. claims: those of all other engines.

        None where all engines are one user's, or where one does not say whose it is.
        """
        owners = {one.owner for one in (mine, *claims)}
        if len(owners) == 1 or "" in owners:
            return None
        slots = frozenset(names).union(*(one.wants | one.holds for one in (mine, *claims)))
        users, others = [], []
        for owner in sorted(owners - {mine.owner}):
            said = [one for one in claims if one.owner == owner]
            theirs = frozenset().union(*(one.holds for one in said))
            users.append(together(user_name(owner), map(claim_of, said), len(theirs), 1.0, len(slots)))
            others.append(_claimant(users[-1], owner, said, slots - theirs))
        held = mine.holds.union(*(one.holds for one in claims if one.owner == mine.owner))
        return cls(user_name(mine.owner), 1.0, slots, frozenset(), held, tuple(users), tuple(others))

    def me(self, engines: Iterable[Claim], held: int) -> Claim:
        """This user's claim, of the user's engines."""
        return together(self.name, engines, held, self.weight, len(self.slots))


def user_name(user: int | str) -> str:
    """The name of a user's claim. No engine's claim has such a name."""
    return f"user {user}"


def claim_of(one: Claimant) -> Claim:
    """What an engine or a user claims, without names of slots."""
    most = min(one.held + one.lacks, max(one.slots, one.held))
    return Claim(one.name, one.held, most, one.weight, one.priority, one.debt, one.since, one.unit)


def _engines(said: Iterable[Said], theirs: frozenset[str], slots: frozenset[str]) -> list[Claim]:
    """The claims of the engines of a user who holds ``theirs``."""
    found = []
    for one in said:
        held = len(one.holds & theirs)
        found.append(Claim(one.token, held, held + min(one.lacks, len(one.wants & slots)), unit=one.unit))
    return found


def _claimant(claim: Claim, user: str, said: Collection[Said | Claimant], slots: frozenset[str]) -> Claimant:
    since = min((one.since for one in said if one.lacks), default="")
    wants = slots.intersection(*[frozenset().union(*(one.wants for one in said))])
    lacks = min(len(wants), claim.most - claim.held)
    return Claimant(
        claim.name, "", since, claim.held, wants, lacks, claim.most, claim.weight, unit=claim.unit, user=user
    )


def _kind(name: str) -> str:
    return re.split(r"[-0-9]", name, maxsplit=1)[0]

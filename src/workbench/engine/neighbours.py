"""What other users of this machine hold and claim, as one engine sees it. Law: it reads, and decides nothing.

Of another user only the sums count, so nothing that the user's engines say of each other matters here.
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

    slots: names. unknown: those of them that are held by processes of which nothing is known. mine: those that this
    user holds. users: the other users' claims, each that of all of a user's engines; others: the same for gifts and
    words.
    """

    machine: Machine
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
                others.append(_claimant(claim, user, said, slots - theirs))
        unknown = frozenset(name for name, user in held.items() if user is None)
        mine = frozenset(name for name, user in held.items() if user == me)
        return cls(machine, slots, unknown, mine, tuple(users), tuple(others))

    def me(self, engines: Iterable[Claim], held: int) -> Claim:
        """This user's claim, of the user's engines."""
        return together(user_name(os.geteuid()), engines, held, self.machine.weight(os.geteuid()), len(self.slots))


def user_name(user: int) -> str:
    """The name of a user's claim. No engine's claim has such a name."""
    return f"user {user}"


def _engines(said: Iterable[Said], theirs: frozenset[str], slots: frozenset[str]) -> list[Claim]:
    """The claims of the engines of a user who holds ``theirs``."""
    found = []
    for one in said:
        held = len(one.holds & theirs)
        found.append(Claim(one.token, held, held + min(one.lacks, len(one.wants & slots)), unit=one.unit))
    return found


def _claimant(claim: Claim, user: int, said: Collection[Said], slots: frozenset[str]) -> Claimant:
    since = min((one.since for one in said if one.lacks), default="")
    wants = slots.intersection(*[frozenset().union(*(one.wants for one in said))])
    lacks = min(len(wants), claim.most - claim.held)
    return Claimant(
        claim.name, "", since, claim.held, wants, lacks, claim.most, claim.weight, unit=claim.unit, user=person(user)
    )


def _kind(name: str) -> str:
    return re.split(r"[-0-9]", name, maxsplit=1)[0]

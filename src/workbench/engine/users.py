"""How a machine's slots are divided among its users, and each user's part among the user's engines. Law: pure.

Both divisions are those of :mod:`workbench.engine.fair`. Among users only the administrator's weights count: what a
user says of weights and priorities counts within the user's part, so that neither these nor many engines bring more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from workbench.engine.fair import Claim, aged, allot

#: Seconds after which a user's debt counts a third. Each engine keeps its own account of all users, and asks no other
#: one for it: so accounts that began at different times become equal.
FORGET_S = 120.0
#: A debt below this is forgotten.
_LEAST = 0.01


def divide(slots: int, users: Sequence[Claim], mine: str, engines: Sequence[Claim]) -> dict[str, int]:
    """How many of ``slots`` each user, and each of the engines of the user ``mine``, should have now, by name.

    Names of users and engines must differ.
    """
    found = allot(slots, [replace(one, priority=0) for one in users])
    return found | allot(found.get(mine, 0), engines)


def together(name: str, engines: Iterable[Claim], held: int, weight: float, slots: int) -> Claim:
    """The claim of a user with these engines, who holds ``held`` of ``slots`` slots.

    If one engine's trials need several slots, the user takes turns with as many, so that these trials start some time.
    """
    known = list(engines)
    lacks = sum(max(0, one.most - one.held) for one in known)
    units = [one.unit for one in known if one.unit <= slots and one.most >= one.unit]
    return Claim(name, held, min(slots, held + lacks), weight, unit=max(units, default=1))


class Accounts:
    """What each user has had above the user's share, as one engine has seen it."""

    def __init__(self) -> None:
        self._debts: dict[str, float] = {}

    def known(self, users: Iterable[Claim]) -> list[Claim]:
        """These claims with the debts of their users."""
        return [replace(one, debt=self._debts.get(one.name, 0.0)) for one in users]

    def age(self, slots: int, users: Iterable[Claim], seconds: float) -> None:
        """``seconds`` have passed in which the users had what they hold. Those who claim nothing are remembered."""
        now = aged(slots, self.known(users), seconds)
        kept: Mapping[str, float] = {**self._debts, **now}
        left = math.exp(-seconds / FORGET_S)
        self._debts = {name: debt * left for name, debt in kept.items() if abs(debt) * left > _LEAST}

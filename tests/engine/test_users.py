"""The division of a machine among users, and of each user's part: what holds for all claims, and over time."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thorough import IS_THOROUGH

from workbench.engine.fair import Claim, shares
from workbench.engine.neighbours import Neighbours, claim_of
from workbench.engine.users import FORGET_S, Accounts, divide, together
from workbench.store.owner.listed import account, person
from workbench.store.owner.slots import Claimant, claimant_of, facts_of

WEIGHTS = st.sampled_from([0.5, 1.0, 2.0, 3.0])
SLOTS = st.integers(0, 16)


@st.composite
def engines(draw: st.DrawFn, prefix: str, units: tuple[int, ...] = (1,)) -> list[Claim]:
    """The claims of one user's engines, with all that these may say of themselves."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        unit, held = draw(st.sampled_from(units)), draw(st.integers(0, 3))
        found.append(
            Claim(
                f"{prefix}{number}",
                held * unit,
                (held + draw(st.integers(0, 6))) * unit,
                draw(st.sampled_from([0.1, 1.0, 1e6])),
                draw(st.sampled_from([-1, 0, 10**9])),
                draw(st.floats(-60, 60)),
                unit=unit,
            )
        )
    return found


def user(name: str, found: list[Claim], slots: int, weight: float = 1.0) -> Claim:
    return together(name, found, sum(one.held for one in found), weight, slots)


@given(SLOTS, engines("a"), engines("b"), engines("c"), WEIGHTS)
def test_each_user_gets_the_share_of_the_weight_and_the_engines_get_what_their_user_has(
    slots: int, a: list[Claim], b: list[Claim], c: list[Claim], weight: float
) -> None:
    users = [user("A", a, slots, weight), user("B", b, slots), user("C", c, slots)]
    fair, found = shares(slots, users), divide(slots, users, "A", a)
    assert sum(found[one.name] for one in users) == min(slots, sum(one.most for one in users))
    for one in users:
        assert fair[one.name] - 1 < found[one.name] < fair[one.name] + 1 + 1e-6
    assert sum(found[one.name] for one in a) == min(found["A"], sum(one.most for one in a))


@given(SLOTS, engines("a"), engines("b"), WEIGHTS, st.integers(-9, 9))
def test_priorities_weights_and_debts_that_a_user_says_bring_the_user_nothing(
    slots: int, a: list[Claim], b: list[Claim], weight: float, priority: int
) -> None:
    modest = [dataclasses.replace(one, weight=1.0, priority=0, debt=0.0) for one in a]
    greedy = dataclasses.replace(user("A", a, slots), priority=priority)
    other = user("B", b, slots, weight)
    first = divide(slots, [user("A", modest, slots), other], "B", b)
    assert divide(slots, [greedy, other], "B", b) == first


@given(SLOTS, st.integers(1, 6), engines("b"))
def test_many_engines_bring_a_user_no_more_than_one(slots: int, count: int, b: list[Claim]) -> None:
    many, one = [Claim(f"a{number}", 0, slots) for number in range(count)], [Claim("a", 0, slots)]
    other = user("B", b, slots)
    found = [divide(slots, [user("A", claims, slots), other], "B", b) for claims in (many, one)]
    assert found[0] == found[1]


@given(SLOTS, engines("a", (1, 2, 4)), engines("b", (1, 2, 4)))
def test_trials_of_several_slots_get_all_of_them_or_none(slots: int, a: list[Claim], b: list[Claim]) -> None:
    users = [user("A", a, slots), user("B", b, slots)]
    found = divide(slots, users, "A", a)
    assert sum(found[one.name] for one in users) <= slots
    assert all(found[one.name] % one.unit == 0 for one in (*users, *a))
    assert sum(found[one.name] for one in a) <= found["A"]


def test_a_user_whose_one_search_needs_several_slots_has_a_turn_with_as_many() -> None:
    mixed = [Claim("gang", 0, 4, unit=4), Claim("single", 2, 4)]
    other = [Claim("b", 2, 4)]
    users = [dataclasses.replace(user("A", mixed, 4), debt=-9.0), user("B", other, 4)]
    assert divide(4, users, "A", mixed)["A"] == 4
    assert together("A", [Claim("too-large", 0, 8, unit=8)], 0, 1.0, 4).unit == 1, "it can never start"


def test_a_user_who_leaves_and_comes_back_has_still_had_more() -> None:
    account, both = Accounts(), [Claim("A", 2, 2), Claim("B", 0, 2)]
    for _ in range(10):
        account.age(2, both, 1.0)
    account.age(2, both[1:], 1.0)
    back = {one.name: one.debt for one in account.known(both)}
    assert back["A"] > 5.0, back


CASES = (
    [*itertools.product((0.0, 90.0), (1, 2, 3, 5), ((1.0, 1.0), (2.0, 1.0), (1.0, 1.0, 1.0), (3.0, 1.0, 0.5)))]
    if IS_THOROUGH
    else [
        (0.0, 2, (1.0, 1.0)),
        (90.0, 1, (2.0, 1.0)),
        (90.0, 3, (1.0, 1.0)),
        (0.0, 3, (2.0, 1.0)),
        (90.0, 5, (1.0, 1.0, 1.0)),
        (0.0, 1, (1.0, 1.0, 1.0)),
        (0.0, 5, (3.0, 1.0, 0.5)),
        (90.0, 2, (3.0, 1.0, 0.5)),
    ]
)


@pytest.mark.parametrize(("late", "slots", "weights"), CASES)
def test_accounts_that_began_at_different_times_still_give_each_user_the_share(
    late: float, slots: int, weights: tuple[float, ...]
) -> None:
    """Each user gives and takes by an account of its own; the last one's forgets everything after ``late`` seconds."""
    had = simulated(slots, weights, late)
    for mine, weight in zip(had, weights, strict=True):
        assert mine / sum(had) == pytest.approx(weight / sum(weights), abs=0.1)


def simulated(slots: int, weights: tuple[float, ...], late: float) -> list[float]:
    """Slot-seconds of each user in the five minutes after ``late``, where a slot is held for a second at least."""
    step, names = 0.1, [str(number) for number in range(len(weights))]
    held, had, since = [0] * len(weights), [0.0] * len(weights), [0.0] * len(weights)
    accounts = [Accounts() for _ in weights]
    for tick in range(round((late + 300.0) / step)):
        now = tick * step
        if abs(now - late) < step / 2:
            accounts[-1] = Accounts()
        users = [Claim(name, held[at], slots, weights[at]) for at, name in enumerate(names)]
        for at, one in enumerate(accounts):
            one.age(slots, users, step)
            goal = divide(slots, one.known(users), names[at], [])[names[at]]
            if held[at] > goal and now - since[at] > 1.0:
                held[at] -= 1
            elif held[at] < goal and sum(held) < slots:
                held[at], since[at] = held[at] + 1, now
        if now >= late:
            had = [total + count * step for total, count in zip(had, held, strict=True)]
    return had


def test_a_debt_is_forgotten_in_some_minutes() -> None:
    account, both = Accounts(), [Claim("A", 1, 1), Claim("B", 0, 1)]
    account.age(1, both, 10.0)
    assert account.known(both)[0].debt > 2.0
    account.age(1, [], 10 * FORGET_S)
    assert account.known(both)[0].debt == 0.0


# -- on a cluster ------------------------------------------------------------------------------------------------------


def engine(name: str, owner: str, holds: str = "", wants: str = "", lacks: int = 0, weight: float = 1.0) -> Claimant:
    """An engine's claim; slots are letters."""
    held, more = frozenset(holds), frozenset(wants)
    return Claimant(name, f"/{name}", "", len(held), more, lacks, len(held | more), weight, holds=held, owner=owner)


@pytest.mark.parametrize("others", [[], [("b", "ada")], [("b", "")], [("b", "grace"), ("c", "")]])
def test_a_cluster_is_not_divided_among_users_where_one_has_all_engines_or_one_is_not_known(
    others: list[tuple[str, str]],
) -> None:
    claims = [engine(name, owner) for name, owner in others]
    assert Neighbours.on_cluster("st", engine("a", "ada"), claims) is None


def test_the_engines_of_another_user_of_a_cluster_claim_together() -> None:
    mine, own = engine("a", "ada", "s", "tuv", 2), engine("b", "ada", "t", "suv", 1)
    theirs = [engine("c", "grace", "u", "stv", 2, weight=9.0), engine("d", "grace", "v", "stu", 1)]
    found = Neighbours.on_cluster("stuv", mine, [own, *theirs])
    assert found is not None
    assert (found.slots, found.mine, found.unknown) == (frozenset("stuv"), frozenset("st"), frozenset())
    (claim,), (other,) = found.users, found.others
    assert (claim.name, claim.held, claim.most, claim.weight) == ("user grace", 2, 4, 1.0)
    assert (str(other), other.lacks, other.wants) == ("grace", 2, frozenset("st"))
    goals = divide(
        4, (found.me([claim_of(mine), claim_of(own)], 2), claim), "user ada", [claim_of(mine), claim_of(own)]
    )
    assert goals == {"user ada": 2, "user grace": 2, "a": 1, "b": 1}


def test_whose_an_engine_is_goes_with_its_claim_and_earlier_versions_do_not_say_it() -> None:
    said = facts_of(engine("a", "ada", "s", "t", 1))
    assert claimant_of("a", json.loads(json.dumps(said))) == engine("a", "ada", "s", "t", 1)
    del said["owner"]
    assert claimant_of("a", said).owner == ""


def test_the_user_of_jupyterhub_counts_before_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_USER", "")
    assert account() == person(os.geteuid())
    monkeypatch.setenv("JUPYTERHUB_USER", "ada")
    assert account() == "ada"

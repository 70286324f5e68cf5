"""A day on one machine, simulated: twelve searches that come and go, and the division of slots that the engine uses.

    python -m benchmarks day --picture docs/pictures/day.png
    python -m benchmarks day --random 20

Nothing is trained. ``engine/fair.py`` decides; legs start, end and make room here as in one engine: the search that has
had least comes first, and none overtakes it; there is one look a second; trials make room after the patience of
``engine/sharing.py``, and leave after their step. Measured are windows of five minutes: what each search had, and its
due, which is its weighted max-min fair share of each moment, as far as whole trials can have it (``fair.reachable``).
Both are parts of the machine. Only windows count in which searches could use more slots than there are, and searches
that were there for the whole window.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.engine.fair import Claim, aged, allot, in_turn, reachable
from workbench.engine.sharing import LOOKS_IDLE, PATIENCE_S, tenure

HOUR, WINDOW = 3600.0, 300.0
#: So many trials a search may have, as far as it says before it lends.
MANY = 100


@dataclass(frozen=True, slots=True)
class Demand:
    """A search: when it arrives (hours), and its trials.

    unit: slots of each trial. minutes: how long a trial trains, on average. wave: how many trials may train at once;
    a new wave starts when the last trial of the one before has ended, as at a rung.
    """

    name: str
    arrives: float
    trials: int
    minutes: float
    unit: int = 1
    weight: float = 1.0
    priority: int = 0
    wave: int = 1000


DAY = (
    Demand("language", 0.0, trials=3, minutes=150, unit=4),
    Demand("images", 0.5, trials=300, minutes=4),
    Demand("ablations", 2.0, trials=24, minutes=40, weight=2.0),
    Demand("audio", 3.0, trials=6, minutes=60, unit=2),
    Demand("tuning", 4.0, trials=4000, minutes=0.1, wave=81),
    Demand("graphs", 6.0, trials=40, minutes=15, unit=2, wave=8),
    Demand("fine-tuning", 8.0, trials=12, minutes=20, unit=4, weight=2.0),
    Demand("urgent", 10.0, trials=6, minutes=10, unit=2, priority=1),
    Demand("speech", 10.5, trials=30, minutes=20),
    Demand("baselines", 12.0, trials=40, minutes=20, weight=0.5),
    Demand("robots", 14.0, trials=1000, minutes=0.33, weight=3.0),
    Demand("proteins", 16.0, trials=3, minutes=180, unit=2),
)


@dataclass(slots=True)
class _Leg:
    """A trial in its slots: its set-up ends at ``began``, and it leaves at ``ends`` with ``left`` seconds to train."""

    began: float
    ends: float
    left: float = 0.0
    is_leaving: bool = False


@dataclass(slots=True)
class _Search:
    """A search that has arrived."""

    demand: Demand
    place: int
    #: Trials that did not start yet in this wave, and in all waves after it.
    fresh: int
    later: int
    legs: list[_Leg] = field(default_factory=list)
    #: Legs that wait for slots; it cannot take them back.
    ordered: int = 0
    #: Seconds that trials which made room have left to train.
    waiting: list[float] = field(default_factory=list)
    debt: float = 0.0
    #: Since when it has no slot although it could use some and has a share.
    without_since: float | None = None
    #: For how many looks it had fewer legs than it may have, and how many it had then; when it lent something last.
    idle: int = 0
    idle_legs: int = 0
    lent: float = -PATIENCE_S
    #: Whether it had more slots than it should have at the last look.
    was_over: bool = False

    @property
    def lends(self) -> bool:
        """As an experiment does, it leaves a part of its share to others when it has no trial for it."""
        return self.idle >= LOOKS_IDLE and self.count + self.ordered <= self.idle_legs

    def look(self, goal: int, count: int, now: float) -> None:
        """Note whether it uses what it should have. count: how many searches there are."""
        legs = self.count + self.ordered
        if self.lends:
            self.lent, idle = now, count > 1
        else:
            self.idle = min(self.idle, LOOKS_IDLE - 1)
            idle = legs < goal // self.demand.unit and count > 1
        self.idle = self.idle + 1 if idle else 0
        self.idle_legs = legs

    @property
    def training(self) -> list[_Leg]:
        return [leg for leg in self.legs if not leg.is_leaving]

    @property
    def count(self) -> int:
        """How many legs it has that are not leaving."""
        return sum([not leg.is_leaving for leg in self.legs])

    @property
    def held(self) -> int:
        return self.count * self.demand.unit

    def claim(self, can_use: bool = False) -> Claim:
        """What it tells the engine: the same as an experiment does. can_use: what it could use now instead."""
        one, held = self.demand, self.held
        most = held + (self.fresh + len(self.waiting)) * one.unit
        if (self.fresh or self.later) and not (self.lends or can_use):
            most = max(most, MANY * one.unit)
        return Claim(str(self.place), held, most, one.weight, one.priority, self.debt, f"{self.place:03}", one.unit)


@dataclass(slots=True)
class _Window:
    """Slot-seconds of a window of five minutes, by search."""

    had: dict[int, float] = field(default_factory=dict)
    due: dict[int, float] = field(default_factory=dict)
    #: Seconds in which each could use slots and had a share, and in which all together could use more than there are.
    present: dict[int, float] = field(default_factory=dict)
    contended: float = 0.0


class Day:
    """Simulates ``demands`` on ``slots`` slots for ``hours``; what happened is in its attributes afterwards."""

    def __init__(self, demands: Sequence[Demand], slots: int, hours: float, setup: float, seed: int) -> None:
        self.demands, self.slots, self.setup = demands, slots, setup
        self.end = hours * HOUR
        self.chance = random.Random(seed)
        self.now = 0.0
        self.searches: dict[int, _Search] = {}
        self.windows = [_Window() for _ in range(int(-(-self.end // WINDOW)))]
        #: Slot-seconds in which a slot was empty although a search could have used it; and all of such times.
        self.idle = self.contended = 0.0
        #: How often trials made room, and the slot-seconds of set-ups that they paid again.
        self.rooms = 0
        self.again = 0.0
        #: The longest time without a slot for a search that had a share, and which search that was.
        self.longest = (0.0, "")
        self._events: list[tuple[float, int, str, int]] = []
        self._count = 0
        self._shares: dict[str, float] = {}
        #: Searches whose legs wait for slots: none overtakes the first, so that a trial of several gets them.
        self._queue: list[int] = []
        self._claims: dict[int, Claim] = {}

    def run(self) -> Day:
        """The whole day."""
        for place, one in enumerate(self.demands):
            self._at(one.arrives * HOUR, "arrives", place)
        self._at(1.0, "look", 0)
        while self._events and self._events[0][0] <= self.end:
            at, _, kind, place = heapq.heappop(self._events)
            self._pass(at)
            if kind == "arrives":
                one = self.demands[place]
                self.searches[place] = _Search(one, place, 0, one.trials)
            elif kind == "look":
                self._look()
                self._at(at + 1.0, "look", 0)
            self._ends()
            self._starts()
        self._pass(self.end)
        return self

    def _at(self, time: float, kind: str, place: int) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, self._count, kind, place))

    def _pass(self, until: float) -> None:
        """Count what each search has until then. Nothing changes in between."""
        while self.now < until:
            number = int(self.now // WINDOW)
            seconds = min(until, (number + 1) * WINDOW) - self.now
            window = self.windows[min(number, len(self.windows) - 1)]
            for place, one in self._claims.items():
                used = len(self.searches[place].legs) * self.demands[place].unit * seconds
                window.had[place] = window.had.get(place, 0.0) + used
                window.due[place] = window.due.get(place, 0.0) + self._shares[one.name] * seconds
                if self._shares[one.name] > 0:
                    window.present[place] = window.present.get(place, 0.0) + seconds
            if len(self._claims) > 1 and sum(one.most for one in self._claims.values()) > self.slots:
                window.contended += seconds
                self.contended += self.slots * seconds
                self.idle += self._free() * seconds
            self.now += seconds
        self.now = until

    def _leaving(self) -> int:
        return sum([leg.is_leaving * one.demand.unit for one in self.searches.values() for leg in one.legs])

    def _free(self) -> int:
        return self.slots - sum([len(one.legs) * one.demand.unit for one in self.searches.values()])

    def _ends(self) -> None:
        """Take away the legs that have ended, and open the next wave of searches whose last trial has."""
        for place, one in list(self.searches.items()):
            over = [leg for leg in one.legs if leg.ends <= self.now]
            if over:
                one.legs = [leg for leg in one.legs if leg.ends > self.now]
                one.waiting += [leg.left for leg in over if leg.left > 0]
            if not one.legs and not one.waiting and not one.fresh:
                one.fresh = min(one.demand.wave, one.later)
                one.later -= one.fresh
                if not one.fresh:
                    del self.searches[place]

    def _look(self) -> None:
        """Once a second: debts, who lends, and trials that make room."""
        claims = [one.claim() for one in self.searches.values()]
        debts, goals = aged(self.slots, claims, 1.0), allot(self.slots, claims)
        for one in self.searches.values():
            one.debt = debts[str(one.place)]
            one.look(goals[str(one.place)], len(self.searches), self.now)
        short = [one for one in self.searches.values() if one.ordered and one.held < goals[str(one.place)]]
        lacking = sum(goals[str(one.place)] - one.held for one in short) - self._leaving() - self._free()
        returns = any(self.now - one.lent < PATIENCE_S for one in short)
        top = max((one.demand.priority for one in short), default=0)
        for one in sorted(self.searches.values(), key=lambda one: goals[str(one.place)] - one.held):
            before, one.was_over = one.was_over, one.held > goals[str(one.place)]
            least = tenure(returns or one.demand.priority < top, self.setup)
            legs = [leg for leg in one.training if self.now - leg.began >= least] if before else []
            while legs and lacking > 0 and one.held > goals[str(one.place)]:
                self._makes_room(one, legs.pop())
                lacking -= one.demand.unit

    def _makes_room(self, one: _Search, leg: _Leg) -> None:
        step = min(self.chance.uniform(0.0, 1.0), leg.ends - self.now)
        leg.left, leg.ends, leg.is_leaving = leg.ends - self.now - step, self.now + step, True
        self._at(leg.ends, "leaves", one.place)
        self.rooms += 1
        self.again += self.setup * one.demand.unit

    def _starts(self) -> None:
        """Order legs for searches that should have more, and start legs in the order of the queue."""
        goals = allot(self.slots, [one.claim() for one in self.searches.values()])
        for one in self.searches.values():
            there = min(goals[str(one.place)] // one.demand.unit - one.count, one.fresh + len(one.waiting))
            self._queue += [one.place] * max(0, there - one.ordered)
            one.ordered = max(one.ordered, there)
        while self._queue and self._free() >= min(self.demands[place].unit for place in self._queue):
            claims = [one.claim() for one in self.searches.values()]
            turns = in_turn(claims, allot(self.slots, claims))
            self._queue.sort(key=lambda place: turns.index(str(place)))
            if self._free() < self.demands[self._queue[0]].unit:
                break
            one = self.searches[self._queue.pop(0)]
            one.ordered -= 1
            seconds = one.waiting.pop() if one.waiting else self._drawn(one)
            one.legs.append(_Leg(self.now + self.setup, self.now + self.setup + seconds))
            self._at(one.legs[-1].ends, "ends", one.place)
        self._claims = {one.place: one.claim(can_use=True) for one in self.searches.values()}
        self._shares = reachable(self.slots, list(self._claims.values()))
        for one in self.searches.values():
            waits = not one.legs and self._shares[str(one.place)] > 0
            if waits:
                one.without_since = self.now if one.without_since is None else one.without_since
                self.longest = max(self.longest, (self.now - one.without_since, one.demand.name))
            elif one.without_since is not None:
                self.longest = max(self.longest, (self.now - one.without_since, one.demand.name))
                one.without_since = None

    def _drawn(self, one: _Search) -> float:
        one.fresh -= 1
        return one.demand.minutes * 60 * self.chance.uniform(0.3, 1.7)

    def deviations(self) -> Iterator[tuple[float, int, int]]:
        """How far a search was from its due, as a part of the machine; the number of the window, and of the search."""
        whole = self.slots * WINDOW
        for number, window in enumerate(self.windows):
            if window.contended >= WINDOW - 1e-6:
                for place, seconds in window.present.items():
                    if seconds >= WINDOW - 1e-6:
                        yield (window.had[place] - window.due[place]) / whole, number, place


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--slots", type=int, default=8, help="slots of the machine (8)")
    parser.add_argument("--setup", type=float, default=0.5, help="seconds of each leg's set-up (0.5)")
    parser.add_argument("--random", type=int, default=0, help="simulate so many other days, with drawn searches")
    parser.add_argument("--picture", type=Path, help="draw the day into this file")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Of the day, and of the random ones: largest deviation, idle slots, the longest wait."""
    day = Day(DAY, options.slots, 24.0, options.setup, seed=0).run()
    if options.picture:
        draw(day, options.picture)
    found: dict[str, Any] = {"slots": options.slots, "the day": summary(day)}
    for seed in range(options.random):
        found[f"drawn {seed}"] = summary(
            Day(drawn(seed, options.slots), options.slots, 24.0, options.setup, seed).run()
        )
    return found


def drawn(seed: int, slots: int) -> list[Demand]:
    """Twelve searches of random sizes, weights and times, about as much work as the day has room for."""
    chance = random.Random(seed)
    found = []
    for number in range(12):
        unit = chance.choice([one for one in (1, 1, 2, 4) if one <= slots])
        minutes = chance.choice((0.1, 0.5, 5.0, 30.0, 150.0))
        hours = chance.uniform(0.5, 1.5) * slots * 24 / 12
        found.append(
            Demand(
                f"{number}-of-{unit}",
                arrives=chance.uniform(0.0, 18.0),
                trials=max(1, round(hours * 60 / unit / minutes)),
                minutes=minutes,
                unit=unit,
                weight=chance.choice((0.5, 1.0, 1.0, 2.0, 3.0)),
                priority=1 if chance.random() < 0.1 else 0,
                wave=chance.choice((9, 81, 1000)),
            )
        )
    return found


def summary(day: Day) -> dict[str, Any]:
    """What was measured of a simulated day."""
    found = sorted(day.deviations(), key=lambda one: abs(one[0]))
    worst, number, place = found[-1] if found else (0.0, 0, 0)
    return {
        "windows_of_contention": len({number for _, number, _ in found}),
        "largest_deviation": worst,
        "of": f"{day.demands[place].name} at {number * WINDOW / HOUR:.2f} h",
        "deviation_of_99_in_100": abs(found[int(len(found) * 0.99)][0]) if found else 0.0,
        "idle_slots": day.idle / day.contended if day.contended else 0.0,
        "longest_wait_s": day.longest[0],
        "waits": day.longest[1],
        "made_room": day.rooms,
        "set_ups_again": day.again / (day.slots * day.end),
    }


def draw(day: Day, path: Path) -> None:
    """Slots by search over the day, and how far each search was from its due in each window of five minutes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    hours = [number * WINDOW / HOUR for number in range(len(day.windows))]
    had = [[window.had.get(place, 0.0) / WINDOW for window in day.windows] for place in range(len(day.demands))]
    colours = [mpl.colormaps["tab20"](place) for place in range(len(day.demands))]
    figure = Figure(figsize=(11, 6.2))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    labels = [f"{one.name}{words(one)}" for one in day.demands]
    above.stackplot(hours, had, labels=labels, colors=colours, step="post", linewidth=0)
    above.set(ylabel="slots", ylim=(0, day.slots), title=f"{len(day.demands)} searches share {day.slots} slots")
    above.legend(loc="center left", bbox_to_anchor=(1.0, 0.4), frameon=False, fontsize=8, reverse=True)
    found = list(day.deviations())
    for place in range(len(day.demands)):
        mine = [(hours[number], 100 * value) for value, number, at in found if at == place]
        below.scatter(*zip(*mine, strict=True) if mine else ((), ()), s=4, color=colours[place])
    most = max(15.0, *(110 * abs(value) for value, _, _ in found))
    below.axhspan(-10, 10, color="0.94", zorder=0)
    below.set(xlabel="hour", ylabel="had less due,\n% of the machine", xlim=(0, hours[-1]), ylim=(-most, most))
    below.set_xticks(range(0, 25, 2))
    figure.tight_layout()
    figure.savefig(path, dpi=90, pil_kwargs={"optimize": True})


def words(one: Demand) -> str:
    """What is special about a search, for the legend."""
    parts = [f"{one.unit} slots"] * (one.unit > 1) + [f"weight {one.weight:g}"] * (one.weight != 1)
    parts += [f"priority {one.priority}"] * (one.priority != 0)
    return f" ({', '.join(parts)})" if parts else ""

"""A scheduler of configurations that are trained several times. Law: the rule inside knows groups and means only.

A group has its value at a level when the last of its members has one there: the mean of the members' values, which
diverged if one of them did. Members that failed or were stopped by the user no longer count; one whose training code
ended by itself counts with its last value.
"""

from __future__ import annotations

import math
from collections import deque

from workbench.search.members import Members
from workbench.search.rule import Place, Rule, Verdict, Words
from workbench.search.rungs import Ladder
from workbench.standing import spread

__all__ = ["Grouped"]


class _Group:
    """The members of one configuration that count, and their keys at the levels that the rule has not been told."""

    __slots__ = ("ended", "keys", "members", "says", "told", "until")

    def __init__(self, trials: range) -> None:
        self.members = set(trials)
        #: The keys of those whose code ended by itself.
        self.ended: dict[int, float] = {}
        self.keys: dict[int, dict[int, float]] = {}
        #: The last level told to the rule, and the one at which the members' legs end.
        self.told = self.until = 0
        #: The mean and the spread there, in words.
        self.says = ""


class Grouped:
    """``rule``, for which each group is one trial, as a rule for the trials themselves."""

    def __init__(self, rule: Rule, members: Members, words: Words) -> None:
        self._rule, self._of, self._words = rule, members, words
        self._groups: dict[int, _Group] = {}
        #: Places given out by the rule, whose members have none yet.
        self._places: deque[Place] = deque()
        self.trials = rule.trials * members.count

    def levels(self, trial: int) -> tuple[int, ...]:
        return self._rule.levels(self._of.group(trial))

    def bracket(self, trial: int) -> int:
        return self._rule.bracket(self._of.group(trial))

    def order(self, trial: int) -> tuple[int, int, int]:
        rung, bracket, number = self._rule.order(self._of.group(trial))
        return rung, bracket, number * self._of.count + trial % self._of.count

    def ask(self, slots: int) -> Place | None:
        while True:
            while self._places:
                place = self._places.popleft()
                group = self._group(place.trial)
                if place.trial in group.members and place.trial not in group.ended:
                    return place
            found = self._rule.ask(max(1, slots // self._of.count))
            if found is None:
                return None
            trials = self._of.trials(found.trial)
            group = self._group(trials[0])
            group.until, reason = found.until, found.reason + group.says
            self._places.extend(Place(trial, found.start, found.until, reason) for trial in trials)

    # -- telling

    def tell(self, trial: int, step: int, key: float) -> list[Verdict]:
        group = self._group(trial)
        if trial not in group.members or step <= group.told:
            return []
        group.keys.setdefault(step, {})[trial] = key
        verdicts = self._compare(trial)
        if step == group.until and step in group.keys:
            verdicts.append(Verdict(trial, False, self._waits(group, step, key)))
        return verdicts

    def end(self, trial: int, key: float) -> list[Verdict]:
        group = self._group(trial)
        if trial not in group.members:
            return []
        group.ended[trial] = key
        return self._compare(trial)

    def withdraw(self, trial: int) -> list[Verdict]:
        group = self._group(trial)
        if trial not in group.members:
            return []
        group.members.remove(trial)
        group.ended.pop(trial, None)
        for keys in group.keys.values():
            keys.pop(trial, None)
        if not group.members:
            return self._verdicts(self._rule.withdraw(self._of.group(trial)))
        return self._compare(trial)

    def _compare(self, trial: int) -> list[Verdict]:
        """Tell the rule the levels at which the trial's group is complete now."""
        number = self._of.group(trial)
        group = self._group(trial)
        verdicts: list[Verdict] = []
        for step in sorted(group.keys):
            keys = {**group.ended, **group.keys[step]}
            if not group.members <= keys.keys():
                break
            if group.keys.pop(step):
                group.told, key = step, self._mean(group, list(keys.values()))
                verdicts += self._rule.tell(number, step, key)
                if any(verdict.stop and verdict.trial == number for verdict in verdicts):
                    return self._verdicts(verdicts)  # its later values change nothing
        if group.members <= group.ended.keys():
            verdicts += self._rule.end(number, self._mean(group, list(group.ended.values())))
        return self._verdicts(verdicts)

    def _mean(self, group: _Group, keys: list[float]) -> float:
        """The mean of the members' keys."""
        found = spread(keys)
        if math.isnan(found.mean):
            group.says = f"; {sum(map(math.isinf, keys))} of its {found.trials} trials diverged"
            return math.inf
        group.says = f" (means; this one of {found.trials} trials, {found.scatter})"
        return found.mean

    def _waits(self, group: _Group, step: int, key: float) -> str:
        missing = len(group.members - group.keys.get(step, {}).keys() - group.ended.keys())
        return (
            f"step {step}: {self._words.value(key)}; the mean waits for {missing} more of {len(group.members)} trials"
        )

    def _verdicts(self, verdicts: list[Verdict]) -> list[Verdict]:
        """The rule's verdicts about groups, as verdicts about the members that count."""
        found: list[Verdict] = []
        for verdict in verdicts:
            trials = self._of.trials(verdict.trial)
            group = self._group(trials[0])
            if verdict.stop:
                group.keys.clear()
            found += [
                Verdict(trial, verdict.stop, verdict.reason + group.says)
                for trial in trials
                if trial in group.members and trial not in group.ended
            ]
        return found

    def _group(self, trial: int) -> _Group:
        number = self._of.group(trial)
        group = self._groups.get(number)
        if group is None:
            group = self._groups[number] = _Group(self._of.trials(number))
        return group

    # -- the rest is the rule's

    def extend(self, ladders: tuple[Ladder, ...]) -> list[Verdict]:
        verdicts = self._rule.extend(ladders)
        self.trials = self._rule.trials * self._of.count
        return self._verdicts(verdicts)

    def place(self, trial: int) -> int:
        return self._rule.place(self._of.group(trial))

    @property
    def marks(self) -> list[list[tuple[int, float | None]]]:
        count = self._of.count
        return [[(going * count, key) for going, key in bracket] for bracket in self._rule.marks]

    def unranks(self, trial: int) -> bool:
        group = self._group(trial)
        return group.members <= {trial} and self._rule.unranks(self._of.group(trial))

    @property
    def done(self) -> bool:
        return self._rule.done

"""Applies the retention rule to one experiment's checkpoints. Law: no training and no decision waits for it.

Which checkpoints to remove is decided from the journal, written to the journal, and then carried out in a thread. On a
full disk that line waits for space. Checkpoints that earlier lines already made removable are removed without it, which
frees the space.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from workbench.errors import StoreError
from workbench.records import Keep, Spec
from workbench.search import Search
from workbench.store.journal import Journal
from workbench.store.keeping.cleaning import remove, removed_line, split, steps_of
from workbench.store.keeping.retention import History, Protected, verdict
from workbench.store.layout import ExperimentPaths

#: The number of trials in one line of the journal, and in one look.
BATCH = 200

#: Runs a blocking call in a thread and returns its result.
Aside = Callable[..., Any]


class Retainer:
    """Decides which checkpoints of one experiment stay. The loop passes it the journal's lines; the engine calls it now
    and then."""

    def __init__(self, spec: Spec, paths: ExperimentPaths, search: Search) -> None:
        self._spec, self._paths, self._search = spec, paths, search
        self.history = History(spec.goal, spec.scheduler.last, search.plan.members.count)
        #: Trials to look at.
        self._due: dict[int, None] = {}
        self._best: list[int] = []
        #: The number of the newest line about each trial.
        self._told: dict[int, int] = {}
        #: Checkpoints that are being removed right now: they cannot be pinned any more.
        self.going: set[tuple[int, int]] = set()
        self._cleaning = asyncio.Lock()
        #: Trials that lost a checkpoint and whose storage was not updated yet.
        self.trimmed: set[int] = set()

    def take(self, line: Mapping[str, Any], n: int) -> None:
        """Read a line that was journaled as number ``n``."""
        trial = self.history.take(line)
        if trial is not None:
            self._due[trial] = None
            self._told[trial] = n

    def look_at_all(self) -> None:
        """The rule, or what is protected, has changed."""
        self._due.update(dict.fromkeys(self.history.trials))

    @property
    def is_due(self) -> bool:
        """Whether there is something to look at, and no cleaning is under way."""
        return bool(self._due) and not self._cleaning.locked()

    async def clean(self, rule: Keep, protected: Callable[[], Protected], journal: Journal, aside: Aside) -> int:
        """Remove checkpoints of the due trials that the rule does not keep. Returns how many were removed.

        Concurrent calls take turns: when one returns, all that was due when it started is done.
        """
        gone = 0
        async with self._cleaning:
            while self._due:
                batch = [self._due.popitem()[0] for _ in range(min(BATCH, len(self._due)))]
                gone += await self._clean(self._with_displaced(batch, rule), rule, protected, journal, aside)
        return gone

    async def _clean(
        self, batch: list[int], rule: Keep, protected: Callable[[], Protected], journal: Journal, aside: Aside
    ) -> int:
        there = await aside(steps_of, self._paths, batch)
        # Decide after looking, and publish the decision in the same step: from now on a request for a checkpoint sees
        # that it is being removed.
        going, staying = self._decided(there, rule, protected())
        if not going:
            return 0
        marked = {(trial, step) for trial, steps in going.items() for step in steps}
        self.going |= marked
        try:
            # This also writes the earlier lines, which made these checkpoints removable.
            journal.append(removed_line(going, f"the rule {rule}"))
            try:
                await aside(journal.commit)
            except StoreError:
                going = {trial: steps for trial, steps in going.items() if self._told[trial] <= journal.durable}
            await aside(remove, self._paths, going, staying)
            self.trimmed |= going.keys()
        finally:
            self.going -= marked
        return sum(map(len, going.values()))

    def _decided(
        self, there: Mapping[int, list[int]], rule: Keep, protected: Protected
    ) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        for trial in there:
            if trial in self._search.trials:
                self.history.revive(trial, self._search.trials[trial].state)
        return split(verdict(self.history, rule, there, protected))

    def _with_displaced(self, batch: list[int], rule: Keep) -> list[int]:
        """``batch`` and the trials that were among the best and no longer are."""
        best = [*self.history.best(rule.experiment), *self.history.heirs(rule.experiment)]
        displaced = set(self._best) - set(best)
        self._best = best
        return sorted({*batch, *displaced})

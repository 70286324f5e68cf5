"""The line of a list, read from a journal: it names the best trial that the search itself names."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import spec_of
from search_world import FOLDED, GOAL, GROUPED, SCHEDULERS, SPACE, World, noise, search

from workbench.facts import Extended, Fact, Instruction, to_line
from workbench.records import Scheduler
from workbench.search import Search
from workbench.space import uniform
from workbench.standing import Best
from workbench.store.lists.summary import summary

quick = settings(max_examples=12 if settings().derandomize else 400)


class Recorder:
    """A search that keeps its journal, and after each fact which trial was the best."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self.lines: list[dict[str, Any]] = []
        self.bests: list[tuple[int, Best | None]] = []

    def handle(self, fact: Fact) -> list[Instruction]:
        said = self._search.handle(fact)
        for one in (fact, *said):
            self.lines.append({"n": len(self.lines) + 1, "at": "2026-11-22T12:00:00.000+00:00", **to_line(one)})
        self.bests.append((len(self.lines), self._search.best))
        return said

    def __getattr__(self, name: str) -> Any:
        return getattr(self._search, name)


def best_of(name: str, lines: list[dict[str, Any]]) -> Best | None:
    if name in GROUPED:
        about: dict[str, Any] = {"scheduler": GROUPED[name], "space": FOLDED.to_json(), "seeds_each": 2}
    else:
        about = {"scheduler": SCHEDULERS[name], "space": SPACE.to_json()}
    spec = dataclasses.replace(spec_of("", Path(), goal=GOAL), seed=0, trials=None, **about)
    best = summary(spec, json.loads(json.dumps(lines)))["best"]
    return None if best is None else Best.from_json(best)


@pytest.mark.parametrize("name", [*SCHEDULERS, "hyperband x4", "asha-stop x4"])
@quick
@given(
    seed=st.integers(0, 10_000),
    rate=st.sampled_from([0.0, 0.3]),
    breaks=st.sampled_from([0.0, 0.2]),
    diverging=st.sampled_from([0.0, 0.3]),
    more=st.sampled_from([None, Extended("more", trials=5), Extended("higher", last=30)]),
)
def test_it_names_the_best_that_the_search_names(name, seed, rate, breaks, diverging, more):
    def value(trial: int, step: int) -> float:
        return float("nan") if noise(trial + seed, step + 1) < diverging else noise(trial, step)

    recorder = Recorder(search(name))
    world = World(
        recorder, 3, seed, value, fails=lambda trial, step: noise(trial + seed, step) < rate,
        breaks=lambda trial, step: noise(trial - seed, step) < breaks, losses=0.1, unsettled=0.05,
    )  # fmt: skip
    world.run()
    if more is not None:
        world.tell(more)
        while not world.search.done:
            world.turn()
    for count, best in recorder.bests[:: max(1, len(recorder.bests) // 12)] + recorder.bests[-1:]:
        assert best_of(name, recorder.lines[:count]) == best


def test_a_planted_number_of_slots_keeps_nobody_busy():
    """A search would begin as many trials at once: millions of slots would be minutes of work and gigabytes."""
    spec = spec_of("", Path(), space={"x": uniform(0.0, 1.0)}, scheduler=Scheduler("asha", 1, 81, 3), trials=10**6)
    at = {"at": "2026-11-22T12:00:00.000+00:00"}
    lines = [{"n": 1, **at, "kind": "Began"}, {"n": 2, **at, "kind": "CapacityChanged", "slots": 10**7}]
    assert summary(spec, lines)["trials"] <= len(lines)

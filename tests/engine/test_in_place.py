"""A trial that is promoted at once continues where it is: no set-up, no checkpoint read, and the same result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from running import ended, engine, lines, spec_of, start, until

from workbench import asked
from workbench.asking import ask
from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.series import Series

SPACE = {"x": uniform(0.0, 1.0)}
#: Random numbers and a sum over all turns show a wrong continuation. The legs last longer than those that queue.
CODE = """
x = uniform(0.0, 1.0)
import random, time
total = 0.0
for epoch in trial.steps():
    time.sleep(0.2)
    total = 0.9 * total + x + 0.01 * random.random()
    trial.report(score=total, noise=random.random())
"""


def legs_above(store: Store, spec: Spec) -> list[dict[str, Any]]:
    """The rows of all legs that started above step 0, in the order of their start."""
    with Series.read(store.experiment(spec.id).series) as series:
        legs = [leg for trial in series.trials() for leg in series.legs(trial["number"]) if leg["start"]]
    return sorted(legs, key=lambda leg: str(leg["started"]))


def test_later_promotions_go_on_in_place_and_a_check_finds_them_exact(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    # Hyperband promotes a rung's best when the last of it reports: that one is often among them.
    spec = spec_of(CODE, tmp_path, space=SPACE, scheduler=Scheduler(kind="asha", first=1, last=9, eta=3), seed=4)
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
        above = legs_above(store, spec)
        stays = [leg for leg in above if leg["detail"].get("in_place")]
        assert stays
        assert not above[0]["detail"].get("in_place"), "the first promotion resumes: it is checked"
        before = {(leg["trial"], leg["attempt"]): leg for trial in {leg["trial"] for leg in stays}
                  for leg in _legs(store, spec, trial)}  # fmt: skip
        for leg in stays:
            assert leg["pid"] == before[leg["trial"], leg["attempt"] - 1]["pid"]
            assert leg["slot"] == before[leg["trial"], leg["attempt"] - 1]["slot"]
        until(lambda: lines(store, spec, "Verified"), what="the check of the first promotion")
        trial = max(stays, key=lambda leg: int(leg["step"]))["trial"]
        ask(store, asked.Verify(experiment=spec.id, trial=trial))
        until(lambda: len(lines(store, spec, "Verified")) == 2, what="the check of one in place")
        assert [line["verdict"] for line in lines(store, spec, "Verified")] == ["identical", "identical"]


def _legs(store: Store, spec: Spec, trial: int) -> list[dict[str, Any]]:
    with Series.read(store.experiment(spec.id).series) as series:
        return series.legs(trial)

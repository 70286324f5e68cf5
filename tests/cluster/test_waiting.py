"""Training code that waits at its level: its trial's next leg continues there, and any other leg gets its place."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from by_hand import Cluster
from running import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Every set-up and every end of training code is noted in a file; the metrics depend on all turns before.
CODE = """
x = uniform(0.0, 1.0)
import os, random, time
def note(word):
    with open("noted", "a") as file:
        file.write(f"{word} {trial.number}\\n")
note("setup")
total = 0.0
try:
    for epoch in trial.steps():
        total = 0.9 * total + x + 0.01 * random.random()
        trial.report(score=total, noise=random.random())
finally:
    END
    note("left")
"""
RETURNS = CODE.replace("END", "pass")
#: The same for a loop that counts its own steps, and saves before it reports.
OWN = """
x = uniform(0.0, 1.0)
import json, pathlib
saved = trial.restore()
step, total = json.loads(saved.read_text()) if saved else (0, 0.0)
with open("noted", "a") as file:
    file.write(f"setup {trial.number}\\n")
while step < trial.max_steps:
    step, total = step + 1, 0.9 * total + x
    pathlib.Path("own.json").write_text(json.dumps([step, total]))
    trial.save("own.json", step=step)
    if not trial.report(score=total, noise=x, step=step):
        break
"""


@pytest.mark.parametrize("code", [RETURNS, OWN], ids=["steps", "own"])
async def test_the_next_leg_continues_in_place_and_reports_what_an_undisturbed_one_does(
    cluster: Cluster, tmp_path: Path, code: str
) -> None:
    async with cluster.world(tmp_path, code) as here:
        legs = [await here.train(0, 1, 0, 1), await here.train(0, 2, 1, 3), await here.train(0, 3, 3, 9)]
        keys = [key for key, _ in legs]
        assert [(left.outcome, left.step, left.waits) for _, left in legs] == [
            ("reached", 1, True),
            ("reached", 3, True),
            ("completed", 9, False),
        ]
        assert [here.ears.begun(key).in_place for key in keys] == [False, True, True]
        assert len({here.ears.begun(key).pid for key in keys}) == 1
        assert here.noted().count("setup 0") == 1
        whole, _ = await here.same_again().train(0, 1, 0, 9)
        assert here.ears.points(*keys) == here.ears.points(whole)


async def test_the_log_of_a_leg_is_complete_while_its_training_code_waits(cluster: Cluster, tmp_path: Path) -> None:
    code = CODE.replace("END", "print('and left')").replace(
        "        total = 0.9", "        print('half', end='')\n        total = 0.9"
    )
    async with cluster.world(tmp_path, code) as here:
        log = here.store.experiment(here.spec.id).trial(0).log
        await here.train(0, 1, 0, 1)
        assert log.read_text().splitlines() == ["[attempt 1 from step 0]", "half"]
        await here.train(0, 2, 1, 3)
        assert log.read_text().splitlines()[2:] == ["[attempt 2 from step 1]", "halfhalf"]
        await here.backend.release(here.slot)
        assert log.read_text().splitlines()[-1] == "and left"


async def test_another_leg_gets_the_place_after_the_training_code_has_left(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.world(tmp_path, RETURNS) as here:
        await here.train(0, 1, 0, 1)
        key, _ = await here.train(1, 1, 0, 1)
        assert here.noted()[:3] == ["setup 0", "left 0", "setup 1"]
        assert not here.ears.begun(key).in_place
        key, _ = await here.train(0, 2, 1, 3)
        assert not here.ears.begun(key).in_place


async def test_training_code_that_nobody_continues_leaves_and_its_trial_resumes_from_the_checkpoint(
    cluster: Cluster,
    tmp_path: Path,
) -> None:
    async with cluster.world(tmp_path, RETURNS) as here:
        first, _ = await here.train(0, 1, 0, 1)
        await asyncio.to_thread(until, lambda: "left 0" in here.noted(), what="the end of the wait")
        second, left = await here.train(0, 2, 1, 3, may_wait=False)
        assert (here.ears.begun(second).in_place, left.waits, left.outcome) == (False, False, "reached")
        third, _ = await here.train(0, 3, 3, 9)
        whole, _ = await here.same_again().train(0, 1, 0, 9)
        assert here.ears.points(first, second, third) == here.ears.points(whole)


async def test_a_process_that_is_killed_while_it_waits_costs_nothing(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.world(tmp_path, RETURNS) as here:
        key, _ = await here.train(0, 1, 0, 1)
        pid = here.ears.begun(key).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        key, left = await here.train(0, 2, 1, 9)
        assert left.outcome == "completed" or left.outcome == "died"
        if left.outcome == "died":  # the order was faster than the news of the death
            key, left = await here.train(0, 3, 1, 9)
        assert (left.outcome, here.ears.begun(key).in_place) == ("completed", False)
        assert here.ears.begun(key).pid != pid


@pytest.mark.parametrize(
    ("order", "why"),
    [((0, 3, 1, 3), "another attempt lies between"), ((0, 2, 0, 3), "it starts further down")],
)
async def test_a_leg_that_does_not_continue_exactly_there_begins_anew(
    cluster: Cluster, tmp_path: Path, order: tuple[int, int, int, int], why: str
) -> None:
    async with cluster.world(tmp_path, RETURNS) as here:
        await here.train(0, 1, 0, 1)
        key, left = await here.train(*order)
        assert (left.outcome, here.ears.begun(key).in_place) == ("reached", False), why


async def test_a_slot_that_is_given_to_another_engine_is_empty(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.world(tmp_path, RETURNS) as here:
        await here.train(0, 1, 0, 1)
        await here.backend.release(here.slot)
        assert here.noted() == ["setup 0", "left 0"]


@pytest.mark.parametrize("end", ["raise ValueError('in vain')", "time.sleep(600)", "os._exit(3)"])
async def test_training_code_that_does_not_leave_well_holds_up_no_other_leg(
    cluster: Cluster, tmp_path: Path, end: str
) -> None:
    async with cluster.world(tmp_path, CODE.replace("END", f"if trial.number == 0: {end}"), grace_s=0.2) as here:
        _, left = await here.train(0, 1, 0, 1)
        assert left.outcome == "reached"
        async with asyncio.timeout(20):
            _, left = await here.train(1, 1, 0, 1)
        assert left.outcome == "reached"


async def test_a_stop_at_the_last_moment_reaches_training_code_that_waits(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.world(tmp_path, RETURNS) as here:
        key = here.order(0, 1, 0, 1)
        here.backend.stop(key, "a person asked", None)
        left = await here.ears.left(key)
        assert left.outcome in ("stopped", "reached")
        key, left = await here.train(0, 2, 0, 3)
        assert left.outcome == "reached"


async def test_a_leg_that_is_stopped_while_it_waits_behind_another_one_ends(cluster: Cluster, tmp_path: Path) -> None:
    # The first one is still leaving when the second one is stopped.
    async with cluster.world(tmp_path, CODE.replace("END", "time.sleep(3)")) as here:
        first = here.order(0, 1, 0, 1, may_wait=False)
        await asyncio.to_thread(until, (tmp_path / "noted").exists, what="the first leg")
        second = here.order(1, 1, 0, 1)
        await asyncio.sleep(0)  # it is on its way
        here.backend.stop(second, "a person asked", None)
        async with asyncio.timeout(2):
            assert (await here.ears.left(second)).outcome == "stopped"
        assert (await here.ears.left(first)).outcome == "reached"
        assert here.noted() == ["setup 0", "left 0"]

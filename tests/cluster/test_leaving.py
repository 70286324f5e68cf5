"""Legs that leave before they have begun, and what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from by_hand import Cluster
from unforkable import unforkable

pytestmark = pytest.mark.asyncio(loop_scope="module")

CODE = """
x = uniform(0.0, 1.0)
import os
for epoch in trial.steps():
    with open("forkserver", "w") as file:
        file.write(str(os.getppid()))
    trial.report(score=x)
"""


async def test_a_leg_whose_process_cannot_be_started_says_why_and_the_next_one_trains(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with cluster.world(tmp_path, CODE) as here:
        alone = {"strict": True, "may_wait": False}
        _, left = await here.train(0, 1, 0, 1, **alone)
        assert left.outcome == "reached"
        forkserver = int((tmp_path / "forkserver").read_text())
        with unforkable(forkserver):
            await here.train(1, 1, 0, 1, **alone)  # in a process that was forked ahead, perhaps
            _, left = await here.train(2, 1, 0, 1, **alone)
        assert (left.outcome, left.cause) == ("died", "cluster")
        assert left.reason.startswith("its process could not be started: [Errno 11] Resource temporarily unavailable")
        _, left = await here.train(2, 2, 0, 1, **alone)
        assert left.outcome == "reached"
        assert int((tmp_path / "forkserver").read_text()) == forkserver

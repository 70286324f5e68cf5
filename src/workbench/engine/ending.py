"""How an experiment ends: the verdict of a replay, and work whose errors are only logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from workbench.compare.verdict import conclusion
from workbench.records import Spec
from workbench.store import Store

if TYPE_CHECKING:
    from workbench.engine.loop import ExperimentLoop

log = logging.getLogger("workbench.engine")


async def close(loop: ExperimentLoop) -> None:
    """Write the last of an experiment that is over, and close its files."""
    running, spec = asyncio.get_running_loop(), loop.spec
    await running.run_in_executor(None, loop.loss.look_again)
    if (spec.replays or spec.repeats) and not loop.conclusion:
        loop.conclusion = await asyncio.to_thread(concluded, loop.store, spec)
        loop.journal.append({"kind": "Concluded", **loop.conclusion})
        for key, found in loop.conclusion.items():
            loop.series.put_meta(key, found)
    await loop.around.clean(loop)
    await loop.commit()
    await running.run_in_executor(None, loop.journal.close)
    await running.run_in_executor(None, loop.series.close)
    # Once more: the engine drops what is closed in the next turn.
    running.call_soon(loop.around.changed, loop)


def concluded(store: Store, spec: Spec) -> dict[str, Any]:
    """The verdict of training again. It reads both experiments, so it blocks."""
    try:
        return conclusion(store, spec)
    except Exception as error:  # the original may be damaged in any way, but this experiment has ended well
        kind = "replay" if spec.replays else "repeat"
        return {kind: {"verdict": "failed", "words": f"failed: no comparison ({error!r})"}}


def as_far_as_it_goes(work: Callable[[], Any]) -> None:
    """Do ``work``; log its error, if any."""
    try:
        work()
    except Exception as error:
        log.error("what has failed is not written: %r", error)

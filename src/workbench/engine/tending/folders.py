"""The folders in which searches train. Law: a search pauses while its folder is gone, and no trial fails by it. It goes
on by itself once the folder is there again.

The training code's relative paths lead from this folder, so that nothing can be trained elsewhere instead.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from workbench.cluster.backend import Backend
from workbench.errors import BadOption
from workbench.facts import PauseAsked, ResumeAsked

if TYPE_CHECKING:
    from workbench.engine.loop import ExperimentLoop

log = logging.getLogger("workbench.engine")

#: Seconds between two looks; and how many in a row find no folder before a search pauses, since a file system that is
#: mounted again is missing for a moment. Together less than a trial that could not enter its folder waits before it is
#: tried again.
LOOK_S, LOOKS = 1.0, 3


def gone(loop: ExperimentLoop, backend: Backend) -> str | None:
    """What to do about the folder of ``loop`` if it does not exist; None if it does, or if other machines train."""
    return _words(loop) if is_there(loop, backend) is False else None


def _words(loop: ExperimentLoop) -> str:
    """That the folder of ``loop`` is gone, and what to do about it."""
    folder, here = loop.spec.training.cwd, str(loop.store.root.parent)
    # A link that leads nowhere is replaced: `ln -s` alone would refuse.
    link = f"`ln -s{'fn' * os.path.islink(folder)} {shlex.quote(here)} {shlex.quote(folder)}`"
    return (
        f"the folder {folder}, in which it trains, is gone. Put it back, or link it to where it is now ({link} if that "
        f"is {here})"
    )


def is_there(loop: ExperimentLoop, backend: Backend) -> bool | None:
    """Whether the folder of ``loop`` exists, or other machines train; None if its file system does not say."""
    folder = loop.spec.training.cwd
    if not folder or backend.most_slots is None or not os.path.isabs(folder):
        return True
    try:
        os.stat(os.path.join(folder, ""))  # the slash at its end: a file in its place does not count
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # a file server that does not answer, a mount that is stale, a ticket that has expired
        return None
    return True


def check(loop: ExperimentLoop, backend: Backend) -> None:
    """Raise BadOption if the folder of ``loop``, which a user resumes, is gone."""
    if (why := gone(loop, backend)) is not None:
        raise BadOption(f"{loop.spec.label} cannot continue: {why}, then resume.")


async def watch(loops: Mapping[str, ExperimentLoop], at_work: asyncio.Event, backend: Backend) -> None:
    """Check the folders of open experiments, until cancelled. at_work: set while one is open."""
    missed: Counter[str] = Counter()
    while True:
        await at_work.wait()
        for loop in list(loops.values()):
            before, key = loop.life.pause, loop.spec.id
            if loop.finished.is_set() or before not in (None, "folder"):
                missed.pop(key, None)
                continue
            there = await asyncio.to_thread(is_there, loop, backend)
            missed[key] = missed[key] + 1 if there is False else 0
            if loop.finished.is_set() or loop.life.pause != before:
                continue  # a person was faster
            if before == "folder" and there:
                log.info("%s goes on: its folder is there again", loop.spec.label)
                loop.tell(ResumeAsked("its folder is there again"))
            elif before is None and missed[key] >= LOOKS:
                why = _words(loop)
                log.warning("%s pauses: %s", loop.spec.label, why)
                loop.tell(PauseAsked(f"{why}; it then continues by itself", "folder"))
        await asyncio.sleep(LOOK_S)

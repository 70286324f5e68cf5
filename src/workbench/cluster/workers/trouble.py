"""How an ended runner died. Law: reads the kernel's counters; decides nothing about retries."""

from __future__ import annotations

import math
import signal as signals
import time
from pathlib import Path

from workbench.trial.process.runner import NOTICE

#: Seconds for which the kernel's count is taken as known: reading it takes as long as a very short leg's way here.
LOOK_S = 1.0


def oom_kills() -> int:
    """How many processes of this control group the kernel has killed for lack of memory; 0 if it does not report that.

    Source: the ``oom_kill`` line of ``memory.events`` (cgroup v2) or ``memory.oom_control`` (v1).
    """
    for path in _counters():
        try:
            for line in path.read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
        except (OSError, ValueError):
            continue
    return 0


def _counters() -> list[Path]:
    found: list[Path] = []
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                found.append(Path("/sys/fs/cgroup") / path.lstrip("/") / "memory.events")
            elif "memory" in controllers.split(","):
                found.append(Path("/sys/fs/cgroup/memory") / path.lstrip("/") / "memory.oom_control")
    except (OSError, ValueError):
        pass
    return found


class OomKills:
    """The kernel's count, read at most once in :data:`LOOK_S` seconds unless a process has died."""

    def __init__(self) -> None:
        self._count, self._read_at = 0, -math.inf

    def lately(self) -> int:
        """The count at most ``LOOK_S`` seconds ago."""
        if time.monotonic() - self._read_at > LOOK_S:
            self._count, self._read_at = oom_kills(), time.monotonic()
        return self._count

    def more_than(self, before: int) -> bool:
        """Whether the count is higher now than ``before``."""
        self._read_at = -math.inf
        return self.lately() > before


def how_it_died(
    status: int | None, signal: int | None, out_of_memory: bool, *, has_begun: bool = True
) -> tuple[str, str]:
    """The cause (a word of ``engine.faults``) and a sentence for a runner that ended without a message.

    A SIGKILL that Workbench did not send is the cluster's fault, unless the kernel counted a kill for memory. An idle
    runner ends by itself when the machine's shutdown is announced; a leg may be on its way there then.
    """
    if out_of_memory:
        return "memory", "the machine ran out of memory and the kernel killed the training code"
    if signal == signals.SIGKILL:
        return "cluster", "the training code was killed from outside (SIGKILL)"
    if not has_begun and (status == 128 + signals.SIGTERM or signal == signals.SIGTERM):
        return "preempted", NOTICE
    if signal is not None:
        name = signals.Signals(signal).name if signal in set(signals.Signals) else str(signal)
        return "signal", f"the training code died by {name}"
    return "exit", f"the training code ended its process (exit status {status})"

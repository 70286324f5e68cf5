"""Training that takes more memory than there is: the kernel kills it, and the trial says so. The limit is real."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import ended, engine, lines, spec_of, start, until

from workbench.records import Scheduler, Searcher
from workbench.space import choice
from workbench.store import Store
from workbench.store.series import Series

#: Bytes for engine, workers and runners together: the greedy trial wants more than that, the modest one does not.
LIMIT = 900 << 20
CODE = """
greedy = choice(False, True)
held = []
for epoch in trial.steps():
    while greedy and epoch:
        held.append(bytearray(b"x") * (64 << 20))
    trial.report(score=float(epoch))
"""
#: Enters a control group, and becomes an engine.
ENTERING = """
import os, runpy, sys
with open(sys.argv.pop(1), "w") as group:
    group.write(str(os.getpid()))
runpy.run_module("workbench.engine", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with little memory, below this process's own, whose limits hold on."""
    found = _made()
    if found is None:
        # Only the kernel itself can kill for want of memory; what the engine makes of it, test_faults.py shows.
        pytest.skip("this machine lets nobody make a control group with a limit of memory")
    yield found
    until(lambda: _is_gone(found), 20, f"the end of {found}")


def _is_gone(group: Path) -> bool:
    """Remove a group; while its last processes are being buried that is refused."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def _made() -> Path | None:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        mounted = {"memory": "/sys/fs/cgroup/memory", "": "/sys/fs/cgroup"}.get(controllers)
        made = Path(f"{mounted}/{path.strip('/')}/workbench-test-{uuid.uuid4().hex[:8]}")
        if mounted is None or not made.parent.is_dir():
            continue
        with contextlib.suppress(OSError):
            made.mkdir()
            try:
                (made / ("memory.limit_in_bytes" if controllers else "memory.max")).write_text(str(LIMIT))
                return made
            except OSError:
                made.rmdir()
    return None


def test_a_trial_that_the_kernel_killed_for_memory_is_tried_alone_and_then_fails_by_that_name(
    group: Path, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store").create()
    spec = spec_of(
        CODE,
        tmp_path,
        space={"greedy": choice(False, True)},
        scheduler=Scheduler(kind="all", first=3, last=3),
        searcher=Searcher("grid"),
        verify=False,
    )
    with engine(store, program=["-c", ENTERING, str(group / "cgroup.procs")]):
        start(store, spec)
        assert ended(store, spec) == "completed"
    with Series.read(store.experiment(spec.id).series) as series:
        trials = {trial["configuration"]["greedy"]: trial for trial in series.trials()}
    assert trials[False]["state"] == "completed"
    assert trials[True]["state"] == "failed"
    assert "ran out of memory and the kernel killed the training code once more" in trials[True]["reason"]
    assert "it was alone on its machine; make the model, the batch" in trials[True]["reason"]
    gone = [line for line in lines(store, spec, "LegLeft") if line["trial"] == trials[True]["number"]]
    assert [(line["outcome"], line["cause"]) for line in gone] == [("died", "memory")] * 2

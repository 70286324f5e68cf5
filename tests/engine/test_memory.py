"""Training that takes more memory than there is: the kernel kills it, and the trial says so. The limit is real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from grouped import ENTERING, limited
from running import ended, engine, lines, spec_of, start

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


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with little memory."""
    with limited(LIMIT) as found:
        yield found


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

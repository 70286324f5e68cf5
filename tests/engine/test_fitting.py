"""A slot is offered only where the measured peak of a trial fits beside what programs outside hold."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.stored import typed
from grouped import ENTERING, limited
from running import ended, engine, few_cores, meta, spec_of, start, state, until

from workbench.cluster.backend import Slot
from workbench.cluster.workers import machine as machines
from workbench.engine.legs.dividing import Need
from workbench.engine.legs.fitting import lack
from workbench.engine.legs.leg import Leg
from workbench.engine.legs.placing import Waiting, share
from workbench.records import Scheduler
from workbench.space import uniform
from workbench.store import Store
from workbench.store.owner.cluster import read_cluster
from workbench.store.owner.slots import holders

GB = 10**9
NEED = Need(device=5_200 * 10**6, device_total=24 * GB, memory=2 * GB, memory_total=16 * GB)
PYTHON = {"pid": 4711, "name": "python", "memory": 20 * GB}


def a_machine(gpu: Any = None, memory: Any = None, total: int = 24 * GB) -> dict[str, Any]:
    """A machine with a worker and a GPU: on both, programs outside hold memory."""
    return {
        "memory": {"total": 64 * GB, "used": 0, "others": 0, "limit": 16 * GB, "outside": memory or []},
        "workers": {"tcp://a:1": {"gpu": [{"total": total, "used": 0, "outside": gpu}]}},
    }


def why(need: Need | None = NEED, found: Any = None, beside: int = 0, taken: int = 0) -> str:
    return lack(need, a_machine([PYTHON]) if found is None else found, "tcp://a:1", "gpu-GPU-00", beside, taken)


def test_the_reason_says_what_is_free_what_is_needed_and_who_holds_the_rest() -> None:
    assert why() == "waits for memory: gpu-GPU-00 has 4 GB free, a trial needs 5.2; python (pid 4711) holds 20 GB"
    small = {**PYTHON, "memory": 9 * GB}
    assert why(beside=2, found=a_machine([small])) == (
        "waits for memory: gpu-GPU-00 has 4.6 GB free, a trial needs 5.2; python (pid 4711) holds 9 GB"
    )
    several = [{"pid": pid, "name": "x", "memory": pid * GB} for pid in (1, 5, 9, 4)]
    assert why(found=a_machine(several)).endswith("x (pid 9) holds 9 GB, x (pid 5) holds 5 GB, 2 more")
    here = a_machine([], [{"pid": 7, "name": "blender", "memory": 15 * GB}])
    assert why(found=here) == (
        "waits for memory: this machine has 1 GB free, a trial needs 2; blender (pid 7) holds 15 GB"
    )
    part = a_machine([], [{"pid": 7, "name": "blender", "memory": 9 * GB}])
    assert [bool(why(found=part, taken=count * 2 * GB)) for count in range(4)] == [False, False, False, True]


@pytest.mark.parametrize(
    ("given", "because"),
    [
        ({"need": None}, "its peak is not known"),
        ({"need": Need()}, "its peak could not be measured"),
        ({"found": {}}, "the machine was not looked at yet"),
        ({"found": a_machine(None)}, "the driver does not tell who holds the memory"),
        ({"found": a_machine([{**PYTHON, "memory": None}])}, "nor how much each holds"),
        ({"found": a_machine([])}, "nobody else holds any"),
        ({"found": a_machine([{**PYTHON, "memory": GB}])}, "it fits beside it"),
        ({"found": a_machine([PYTHON], total=5 * GB)}, "it would not fit without it either"),
        ({"beside": 4}, "the trials beside it leave no room for it, and not the program"),
    ],
)
def test_otherwise_it_starts(given: dict[str, Any], because: str) -> None:
    assert why(**given) == "", because


def test_a_leg_takes_a_slot_where_it_fits_and_holds_up_nobody_where_it_does_not() -> None:
    slots = [Slot(f"tcp://host{at}:1", 0, []) for at in range(2)]
    waiting = [Waiting(Leg(trial, 1, 0, 9, "go", f"k{trial}"), 1) for trial in range(3)]

    def placed(full: set[int], large: set[int]) -> tuple[list[tuple[int, int]], list[tuple[int, str]], int | None]:
        lacks = lambda leg, slot, given: "no" if leg.trial in large and slots.index(slot) in full else ""  # noqa: E731
        found = share(slots, waiting, lambda slot: 0, (), lambda leg: False, 0.0, lack=lacks)
        blocked = found.blocked.leg.trial if found.blocked else None
        given = [(one.leg.trial, slots.index(where)) for one, (where,) in found.placements]
        return given, [(one.leg.trial, words) for one, words in found.lacking], blocked

    assert placed({0}, {0}) == ([(0, 1), (1, 0)], [], 2)
    assert placed({0, 1}, {0}) == ([(1, 0), (2, 1)], [(0, "no")], None)
    assert placed({0}, {0, 1, 2}) == ([(0, 1)], [(1, "no"), (2, "no")], None)


# -- what is seen of a machine -----------------------------------------------------------------------------------------


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """NVIDIA's own library, answering for a GPU of which two processes hold memory: a worker, and a program."""
    library = types.ModuleType("pynvml")
    library.NVMLError = type("NVMLError", (Exception,), {})
    library.nvmlInit = library.nvmlShutdown = lambda: None
    library.nvmlDeviceGetCount = lambda: 1
    library.nvmlDeviceGetHandleByIndex = lambda index: index
    library.nvmlDeviceGetUUID = lambda handle: "GPU-00"
    library.nvmlDeviceGetName = lambda handle: "H100"
    library.nvmlDeviceGetMemoryInfo = lambda handle: types.SimpleNamespace(used=21 * GB, total=24 * GB)
    library.nvmlDeviceGetUtilizationRates = lambda handle: types.SimpleNamespace(gpu=85)
    library.nvmlDeviceGetPowerUsage = lambda handle: 312_400
    command = [sys.executable, "-c", "input()"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE) as worker,
        subprocess.Popen(command, stdin=subprocess.PIPE) as other,
    ):
        library.nvmlDeviceGetComputeRunningProcesses = lambda handle: [
            types.SimpleNamespace(pid=worker.pid, usedGpuMemory=GB),
            types.SimpleNamespace(pid=other.pid, usedGpuMemory=20 * GB),
        ]
        monkeypatch.setitem(sys.modules, "pynvml", library)
        yield worker.pid, other.pid
        worker.communicate(b"\n")
        other.communicate(b"\n")


def test_a_look_at_a_gpu_names_the_program_for_which_a_trial_waits(gpu: tuple[int, int]) -> None:
    seen = machines.survey({"tcp://a:1": {"pid": gpu[0], "visible": "0"}})
    found = lack(NEED, seen, "tcp://a:1", "gpu-GPU-00", 0, 0)
    assert found.startswith("waits for memory: gpu-GPU-00 has 4 GB free, a trial needs 5.2; python")
    assert found.endswith(f"(pid {gpu[1]}) holds 20 GB")


# -- a real engine -----------------------------------------------------------------------------------------------------

#: Bytes for engine, workers, runners and the program outside together; of the trial; and of the program.
LIMIT, TRIAL, PROGRAM_HOLDS = 4 << 30, 1 << 30, 3_200_000_000
#: Takes a gigabyte in its first step, which takes more than a second, and gives it back. Then it waits for a file.
SOURCE = f"""
x = uniform(0.0, 1.0)
import pathlib, time
held = None
for epoch in trial.steps():
    if epoch == 0:
        held = b"x" * {TRIAL}
        time.sleep(1.1)
        held = None
    else:
        pathlib.Path(f"light-{{trial.number}}").touch()
        while not pathlib.Path("go").exists():
            time.sleep(0.01)
    trial.report(score=x)
"""
#: Enters a control group and holds memory until it reads a line.
HOLDS = f"""
import os, sys
with open(sys.argv[1], "w") as group:
    group.write(str(os.getpid()))
held = b"x" * {PROGRAM_HOLDS}
print("held", flush=True)
input()
"""


def held_by(store: Store, pid: int) -> int:
    """The bytes of memory that a program held at the engine's last look."""
    return sum(one["memory"] for one in read_cluster(store).get("outside", ()) if one["pid"] == pid)


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with little memory."""
    with limited(LIMIT) as found:
        yield found


def test_a_trial_waits_for_memory_that_a_program_outside_holds_and_starts_when_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: Path
) -> None:
    store = Store(tmp_path / "store").create()
    scheduler = Scheduler(kind="all", first=2, last=2)
    spec = spec_of(SOURCE, tmp_path, space={"x": uniform(0.0, 1.0)}, scheduler=scheduler, trials=2, verify=False)
    tasks = str(group / "cgroup.procs")
    command = [sys.executable, "-c", HOLDS, tasks]
    with few_cores(tmp_path, monkeypatch, 2), engine(store, workers=1, program=["-c", ENTERING, tasks]):
        start(store, spec)
        until((tmp_path / "light-0").exists, what="the second step of the first trial")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == "held\n"
            until(lambda: held_by(store, program.pid) >= PROGRAM_HOLDS, what="a look at all that it holds")
            (tmp_path / "go").touch()
            reason = until(
                lambda: (found := meta(store, spec)["reason"]).startswith("waits for memory") and found,
                what="the reason why the second trial waits",
            )
            assert reason.startswith("waits for memory: this machine has 1.1 GB free, a trial needs 1.1; python")
            assert reason.endswith(f" (pid {program.pid}) holds 3.2 GB")
            assert state(store, spec) == "waiting"
            assert not (tmp_path / "light-1").exists()
            assert holders(), "its slot is kept"
            shown = until(lambda: "waits for memory" in (out := typed("queue").out) and out, what="the queue saying so")
            assert f"({spec.label}) {reason}." in shown
            program.communicate("\n")
        assert ended(store, spec) == "completed"
    assert (tmp_path / "light-1").exists()
    assert "waits for memory" not in meta(store, spec)["reason"]

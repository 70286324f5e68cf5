"""What the slots of a machine use: the table of it, GPUs as a driver tells them, and a real search."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.stored import typed
from running import ended, engine, few_cores, spec_of, start, until

from workbench.records import Scheduler
from workbench.space import uniform
from workbench.status.load import Gpu, Load, Outside, loads, read
from workbench.store import Store
from workbench.store.owner.runtime import folder
from workbench.store.owner.slots import Holder, holders, is_its_process, take

#: One turn that computes until a file appears, and holds 64 MB.
BUSY = """
x = uniform(0.0, 1.0)
import pathlib
held = bytearray(64 << 20)
for epoch in trial.steps():
    while not pathlib.Path("go").exists():
        sum(range(10_000))
    trial.report(score=x)
"""
#: The same, at rest.
CALM = BUSY.replace("import pathlib", "import pathlib, time").replace("sum(range(10_000))", "time.sleep(0.01)")
#: A program that holds the slots of both GPUs until it reads a line.
HOLDING = """
from workbench.store.owner.slots import take
leases = [take([name], "/nlp/.workbench") for name in ("gpu-GPU-00", "gpu-GPU-11")]
print("held", flush=True)
input()
"""
#: Two GPUs as the driver tells them.
ONE, TWO = (
    {
        "index": str(number), "uuid": f"GPU-{number}{number}", "name": "H100", "used": 10 << 30, "total": 80 << 30,
        "utilisation": 0.5, "power_w": 312.5, "holders": {},
    }
    for number in range(2)
)  # fmt: skip
USED = {"memory": 7, "cpu": 1.5}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A runtime folder of its own, and two cores: the names of their slots."""
    with few_cores(tmp_path, monkeypatch, 2) as names:
        yield names


def gpu(told: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A GPU as the driver tells it, with other fields."""
    return {**told, **fields}


@pytest.mark.parametrize(
    ("slot", "pids", "gpus", "found"),
    [
        ("cpu0", [1], [], None),
        ("cpu0", [1], [ONE, TWO], None),
        ("cpu0", [1, 2], [ONE, gpu(TWO, holders={2: 5})], "gpu-GPU-11"),
        ("gpu-GPU-11", [1], [ONE, TWO], "gpu-GPU-11"),
        ("gpu-GPU-1", [1], [ONE, TWO], "gpu-GPU-11"),
        ("gpu-1", [1], [ONE, TWO], "gpu-GPU-11"),
        ("gpu-GPU-77", [1], [ONE, gpu(TWO, holders={1: 5})], None),
        ("gpu-MIG-GPU-1_7_0", [1], [ONE, TWO], None),
        ("gpu-GPU-11", [1], [gpu(TWO, holders=None)], "gpu-GPU-11"),
        ("cpu0", [1], [gpu(TWO, holders=None)], None),
    ],
)
def test_the_gpu_of_a_slot(slot: str, pids: list[int], gpus: list[dict[str, Any]], found: str | None) -> None:
    told = loads({slot: USED}, gpus, {slot: pids}, {})
    expected = found and Gpu(found, "H100", 0.5, 10 << 30, 80 << 30, 312.5)
    assert told.slots == {slot: Load(1.5, 7, expected)}


@pytest.mark.parametrize(
    ("holders", "names", "outside"),
    [
        ({}, {}, []),
        (None, {}, []),
        ({1: 5, 2: 6}, {1: "python", 2: "python"}, []),
        ({9: 6, 1: 5}, {1: "python", 9: "blender"}, [Outside("gpu-GPU-00", 9, "blender", 6)]),
        ({9: None}, {9: "blender"}, [Outside("gpu-GPU-00", 9, "blender", None)]),
        ({4711: 6, 9: 7}, {9: "blender"}, []),
    ],
    ids=["none", "unknown", "ours", "one of two", "bytes unknown", "pids of the host"],
)
def test_memory_of_programs_outside_of_workbench(
    holders: dict[int, int | None] | None, names: dict[int, str], outside: list[Outside]
) -> None:
    told = loads({"cpu0": USED, "cpu1": USED}, [gpu(ONE, holders=holders)], {"cpu0": [1], "cpu1": [2]}, names)
    assert list(told.outside) == outside


def test_without_the_library_of_gpus_slots_are_read(machine: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)  # importing it raises ImportError
    lease = take(machine[:1], "/nlp/.workbench")
    assert lease is not None
    try:
        found = read(holders())
    finally:
        lease.release()
    assert found.slots[machine[0]].gpu is None
    assert found.slots[machine[0]].memory_bytes > 1 << 20
    assert found.outside == ()


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """NVIDIA's own library, answering for two GPUs: no machine of the tests has one. On the first this process and
    another one hold memory; the second does not tell what it draws. The number of the other process."""
    library = types.ModuleType("pynvml")
    library.NVMLError = type("NVMLError", (Exception,), {})
    library.nvmlInit = library.nvmlShutdown = lambda: None
    library.nvmlDeviceGetCount = lambda: 2
    library.nvmlDeviceGetHandleByIndex = lambda index: index
    library.nvmlDeviceGetHandleByUUID = lambda uuid: int(uuid[-1])
    library.nvmlDeviceGetUUID = lambda handle: f"GPU-{handle}{handle}"
    library.nvmlDeviceGetName = lambda handle: b"H100"
    library.nvmlDeviceGetMemoryInfo = lambda handle: types.SimpleNamespace(used=10**10, total=8 * 10**10)
    library.nvmlDeviceGetUtilizationRates = lambda handle: types.SimpleNamespace(gpu=85)

    def power(handle: int) -> int:
        if handle:
            raise library.NVMLError("not supported")
        return 312_400

    library.nvmlDeviceGetPowerUsage = power
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        pids = {0: [os.getpid(), other.pid], 1: []}
        library.nvmlDeviceGetComputeRunningProcesses = lambda handle: [
            types.SimpleNamespace(pid=pid, usedGpuMemory=3 * 10**9) for pid in pids[handle]
        ]
        monkeypatch.setitem(sys.modules, "pynvml", library)
        yield other.pid
        other.communicate()


def test_gpus_are_read_with_their_power_and_programs_outside(two_gpus: int, machine: list[str]) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        found, shown = typed("queue", "--json").json, typed("queue").out
        holder.communicate("\n")
    one, two = (slot["gpu"] for slot in found["slots"])
    assert one == {
        "slot": "gpu-GPU-00", "name": "H100", "utilisation": 0.85, "memory_bytes": 10**10,
        "memory_total_bytes": 8 * 10**10, "power_w": 312.4,
    }  # fmt: skip
    assert (two["slot"], two["power_w"]) == ("gpu-GPU-11", None)
    outside = {one["pid"]: one for one in found["outside"]}
    assert outside.keys() == {os.getpid(), two_gpus}
    assert outside[two_gpus]["gpu"] == "gpu-GPU-00"
    assert (outside[two_gpus]["memory_bytes"], outside[two_gpus]["name"][:6]) == (3 * 10**9, "python")
    assert "85%  10 GB of 80 GB  312 W" in shown
    assert "85%  10 GB of 80 GB  –    " in shown
    name = outside[two_gpus]["name"]
    assert f"gpu-GPU-00: 3 GB is held outside of Workbench, by {name} (process {two_gpus}).\n" in shown


def test_a_driver_that_fails_hides_no_slot(two_gpus: int, machine: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> int:
        raise sys.modules["pynvml"].NVMLError("driver/library version mismatch")

    monkeypatch.setattr(sys.modules["pynvml"], "nvmlDeviceGetCount", fails)
    assert read([]).outside == ()


def test_a_search_that_computes_and_one_that_rests(tmp_path: Path, machine: list[str]) -> None:
    if len(machine) < 2:
        pytest.skip("two cores are needed")
    stores = {}
    for name, source in (("busy", BUSY), ("calm", CALM)):
        spec = spec_of(
            source, tmp_path, name=name, space={"x": uniform(0, 1)}, scheduler=Scheduler("all", 1, 1), trials=1
        )
        stores[name] = Store(tmp_path / name / ".workbench"), spec
    with engine(stores["busy"][0], workers=1), engine(stores["calm"][0], workers=1):
        for store, spec in stores.values():
            start(store, spec)

        def training() -> dict[str, Any] | None:
            slots = {one["experiment"]: one for one in typed("queue", "--json").json["slots"] if one["trial"]}
            if slots.keys() != {"busy@1", "calm@1"} or any(one["memory_bytes"] < 64 << 20 for one in slots.values()):
                return None
            # Setting up computes as well. Other programs may take a part of the core.
            calm, busy = slots["calm@1"]["utilisation"], slots["busy@1"]["utilisation"]
            return slots if calm < 0.3 < 0.4 < busy else None

        slots = until(training, what="a trial that computes and one that rests")
        # A share above one is another thread, or the clock's ticks.
        assert slots["busy@1"]["utilisation"] < 1.5
        assert all(64 << 20 < one["memory_bytes"] < 1 << 30 for one in slots.values())
        assert {one["gpu"] for one in slots.values()} == {None}
        # The first look of a process measures as well.
        command = [sys.executable, "-m", "workbench", "queue", "--json"]
        first = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        assert {type(one["utilisation"]) for one in first["slots"]} == {float}
        shown = typed("queue").out.splitlines()
        assert shown[0].split() == ["slot", "held", "by", "experiment", "trial", "core", "memory", "since"]
        for line in shown[1:3]:
            cells = line.split()
            assert cells[4].endswith("%")
            assert cells[6] == "MB"
        (tmp_path / "go").touch()
        assert {ended(*one) for one in stores.values()} == {"completed"}


def test_a_holder_whose_process_is_another_one_has_no_load(machine: list[str]) -> None:
    lease = take(machine[:1], "/nlp/.workbench")
    assert lease is not None
    try:
        (ours,) = holders()
        assert is_its_process(ours)
        assert not is_its_process(Holder(machine[0], pid=os.getppid()))
        assert not is_its_process(Holder(machine[0], pid=2**70))
        assert read(holders()).slots[machine[0]].memory_bytes > 1 << 20
        path = folder("slots") / machine[0]
        path.write_text(json.dumps({"store": "/nlp/.workbench", "pid": os.getppid(), "since": "x"}))
        (held,) = typed("queue", "--json").json["slots"]
        assert (held["utilisation"], held["memory_bytes"], held["gpu"]) == (None, None, None)
        assert typed("queue").out.splitlines()[1].split()[-3:] == ["–", "–", "–"]
    finally:
        lease.release()

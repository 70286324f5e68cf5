"""What a cluster of this machine does with NVIDIA's GPUs, where a driver lists some and where it answers."""

from __future__ import annotations

import dataclasses
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
from cli.stored import typed
from running import ended, engine, meta, spec_of, start

from workbench.cluster import devices
from workbench.records import Scheduler, Training
from workbench.store import Store
from workbench.store.series import Series
from workbench.trial.process.surroundings import arranged


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A driver that lists two GPUs, as in ``/proc/driver/nvidia/gpus``."""
    folder = tmp_path / "gpus"
    for bus in ("0000:01:00.0", "0000:02:00.0"):
        (folder / bus).mkdir(parents=True)
    monkeypatch.setenv(devices.DRIVER_VARIABLE, str(folder))
    monkeypatch.delenv(devices.VISIBLE, raising=False)
    return folder


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA's own library, answering for two GPUs: no machine of the tests has one."""
    library = types.ModuleType("pynvml")
    library.nvmlInit = library.nvmlShutdown = lambda: None
    library.nvmlDeviceGetCount = lambda: 2
    library.nvmlDeviceGetHandleByIndex = lambda index: index
    library.nvmlDeviceGetUUID = lambda handle: f"GPU-{handle}{handle}"
    monkeypatch.setitem(sys.modules, "pynvml", library)


def test_without_a_driver_there_is_nothing_to_say() -> None:
    around = {devices.DRIVER_VARIABLE: "/nowhere"}
    assert devices.plan(None, around) == devices.Plan()
    assert devices.plan(4, around) == devices.Plan()


@pytest.mark.usefixtures("driver", "answering")
def test_without_dask_cuda_slots_are_cores_that_see_no_gpu_and_the_command_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "dask_cuda", None)
    found = devices.plan(None)
    assert (found.trains_on_gpus, found.hides_gpus) == (False, True)
    assert "this machine has 2 NVIDIA GPUs, but dask-cuda cannot be used" in found.note
    assert f"{sys.executable} -m pip install 'workbench[cuda]'" in found.note


@pytest.mark.usefixtures("driver", "answering")
def test_with_dask_cuda_each_gpu_is_a_slot_unless_cores_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask_cuda", types.ModuleType("dask_cuda"))
    assert devices.plan(None) == devices.Plan(trains_on_gpus=True)
    cores = devices.plan(3)
    assert (cores.trains_on_gpus, cores.hides_gpus) == (False, True)
    assert "3 CPU slots were asked for" in cores.note


@pytest.mark.usefixtures("driver")
def test_a_driver_that_does_not_answer_is_named() -> None:
    found = devices.plan(None)
    assert found.hides_gpus
    assert "2 NVIDIA GPUs, but the driver does not answer" in found.note
    assert "nvidia-smi" in found.note


@pytest.mark.usefixtures("driver", "answering")
@pytest.mark.parametrize("value", ["", "-1", "NoDevFiles"])
def test_who_has_hidden_the_gpus_is_told_nothing(value: str) -> None:
    assert devices.plan(None, {devices.VISIBLE: value}) == devices.Plan(hides_gpus=True)


@pytest.mark.usefixtures("answering")
@pytest.mark.parametrize(
    ("visible", "name"),
    [
        ("1,0", "gpu-GPU-11"),
        ("GPU-8d1f,GPU-77", "gpu-GPU-8d1f"),
        ("MIG-GPU-1/7/0", "gpu-MIG-GPU-1_7_0"),
        ("", None),
        (None, None),
    ],
)
def test_a_gpu_is_leased_by_its_uuid(visible: str | None, name: str | None) -> None:
    assert devices.slot_name(visible) == name


@pytest.mark.usefixtures("answering")
@pytest.mark.parametrize(
    ("visible", "names"),
    [
        ({}, ["gpu-GPU-00", "gpu-GPU-11"]),
        ({devices.VISIBLE: "1"}, ["gpu-GPU-11"]),
        ({devices.VISIBLE: "GPU-77, 0"}, ["gpu-GPU-77", "gpu-GPU-00"]),
        ({devices.VISIBLE: ""}, []),
    ],
)
def test_the_slots_of_gpus_are_those_on_which_a_cluster_trains(
    visible: dict[str, str], names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dask_cuda", None)
    assert devices.slot_names(visible) == []
    installed = types.ModuleType("dask_cuda")
    installed.__spec__ = ModuleSpec("dask_cuda", None)
    monkeypatch.setitem(sys.modules, "dask_cuda", installed)
    assert devices.slot_names(visible) == names


@pytest.mark.parametrize(
    ("hides", "env", "seen"),
    [
        ("none", {}, None),
        ("all", {}, ""),
        ("all", {"CUDA_VISIBLE_DEVICES": "0"}, ""),
        ("unnamed", {}, ""),
        ("unnamed", {"CUDA_VISIBLE_DEVICES": "0"}, "0"),
    ],
)
@pytest.mark.parametrize("is_whole", [True, False])
def test_what_a_slot_that_is_a_core_sees(hides: Any, env: dict[str, str], seen: str | None, is_whole: bool) -> None:
    training = Training(python="python", cwd="/", env=env, is_whole=is_whole)
    assert arranged(training, {}, has_devices=False, hides=hides).get("CUDA_VISIBLE_DEVICES") == seen


@pytest.mark.usefixtures("driver")
def test_training_on_a_core_sees_no_gpu_and_the_experiment_says_why(tmp_path: Path) -> None:
    source = "import os\nfor epoch in trial.steps():\n    trial.report(score=len(os.environ['CUDA_VISIBLE_DEVICES']))\n"
    store = Store(tmp_path / "store")
    spec = spec_of(source, tmp_path, scheduler=Scheduler(kind="all", first=1, last=1), trials=1, verify=False)
    spec = dataclasses.replace(spec, training=dataclasses.replace(spec.training, is_whole=False))
    with engine(store, workers=1):
        start(store, spec)
        assert ended(store, spec) == "completed"
    with Series.read(store.experiment(spec.id).series) as series:
        assert [row["value"] for row in series.trials()] == [0.0]
    assert any("this machine has 2 NVIDIA GPUs" in line for line in meta(store, spec)["says"])


@pytest.mark.usefixtures("driver")
def test_doctor_says_it_too(tmp_path: Path) -> None:
    found = " ".join(typed("doctor", store=Store(tmp_path / "store")).out.split())
    assert "this machine has 2 NVIDIA GPUs, but the driver does not answer" in found

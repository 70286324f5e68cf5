"""Trials as other programs' runs: written once, or while they train; nothing is lost and nothing doubled."""

from __future__ import annotations

import copy
import json
import os
import signal
import struct
import subprocess
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import psutil
import pytest
from running import SLOW, end, ended, engine, engine_process, lines, processes_below, spec_of, start, state, until

from workbench import Experiment, maximize
from workbench.cli import main
from workbench.errors import BadOption
from workbench.exporter import mirrored
from workbench.exporters.mirrors import following
from workbench.exporters.mirrors.following import write
from workbench.exporters.mirrors.progress import Progress, progress
from workbench.exporters.mirrors.words import read
from workbench.records import Scheduler, Spec
from workbench.share import export
from workbench.space import uniform
from workbench.store import Store
from workbench.store.files import packed
from workbench.store.lists.catalog import read_catalog
from workbench.store.lists.mirrors import Mirror
from workbench.store.series import Series

#: Its third turn waits for a file, so that something can be killed while it trains.
GATED = """
x = uniform(0.0, 1.0)
import pathlib, random, time
total = 0.0
for epoch in trial.steps():
    while epoch == 2 and not pathlib.Path("go").exists():
        time.sleep(0.01)
    total = 0.9 * total + x + 0.01 * random.random()
    for part in range(20):
        trial.log(part=total + part)
    trial.report(score=total, noise=random.random())
"""
ALL: dict[str, Any] = {
    "space": {"x": uniform(0.0, 1.0)},
    "scheduler": Scheduler(kind="all", first=1, last=4),
    "trials": 4,
    "verify": False,
}
SETTINGS: dict[str, Any] = {
    "space": {"x": uniform(0.0, 1.0)},
    "scheduler": Scheduler(kind="hyperband", first=1, last=9, eta=3),
    "verify": False,
}
X = uniform(0.0, 1.0)


def points(store: Store, spec: Spec) -> Counter[tuple[Any, ...]]:
    with Series.read(store.experiment(spec.id).series) as series:
        return Counter(
            (trial, name, step, round(at * 1000), value) for trial, name, step, _, value, at in series.points()
        )


def in_mlflow(folder: Path, spec: Spec) -> tuple[dict[int, Any], Counter[tuple[Any, ...]]]:
    """The runs by trial, and all points, as MLflow's own client gives them."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=folder.as_uri())
    experiment = client.get_experiment_by_name(spec.name)
    runs = {} if experiment is None else client.search_runs([experiment.experiment_id], max_results=1000)
    found = {int(one.data.tags["workbench.id"].rpartition("/t")[2]): one for one in runs}
    assert len(found) == len(runs)
    told = [
        (number, one.key, one.step, one.timestamp, one.value)
        for number, run in found.items()
        for name in run.data.metrics
        for one in client.get_metric_history(run.info.run_id, name)
    ]
    return found, Counter(told)


def in_tensorboard(folder: Path, spec: Spec) -> Counter[tuple[Any, ...]]:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found: Counter[tuple[Any, ...]] = Counter()
    for path in (folder / spec.label).glob("t*/events.out.tfevents*"):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                if not value.tag.startswith("_hparams_"):
                    number = value.tensor.float_val[0]
                    found[int(path.parent.name[1:]), value.tag, event.step, round(event.wall_time * 1000), number] += 1
    return found


def as_single(found: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """TensorBoard's scalars have single precision."""
    import numpy as np

    return Counter({(*key[:-1], float(np.float32(key[-1]))): count for key, count in found.items()})


def word(store: Store, spec: Spec) -> str | None:
    return next((entry.get("mirror") for entry in read_catalog(store) if entry["id"] == spec.id), None)


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Spec]:
    """A search that has ended, in a store without an engine."""
    folder = tmp_path_factory.mktemp("home")
    store = Store(folder / "store").create()
    spec = spec_of(SLOW.replace("0.05", "0") + "    print('turn', epoch)\n", folder, name="carried", **SETTINGS)
    with engine(store):
        start(store, spec)
        assert ended(store, spec) == "completed"
    packed.pack(store.experiment(spec.id).trials)  # what the engine may have left before it did
    return store, spec


def test_an_experiment_goes_to_mlflow_and_comes_back_the_same(
    carried: tuple[Store, Spec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store, spec = carried
    for _ in range(2):  # a second writing adds nothing
        told = write(store, "carried", f"mlflow:{tmp_path}/mlruns")
        runs, found = in_mlflow(tmp_path / "mlruns", spec)
        assert found == points(store, spec)
        assert told["trials"] == len(runs)
        assert told["read_back"] == told["points"] == sum(found.values())
    with Series.read(store.experiment(spec.id).series) as series:
        for row in series.trials():
            run = runs[row["number"]]
            assert run.data.params == {"x": str(row["configuration"]["x"])}
            assert run.info.status == {"completed": "FINISHED", "stopped": "KILLED"}[row["state"]]
            assert run.data.tags["workbench.reason"] == row["reason"]
            times = [at for number, _, _, at, _ in found if number == row["number"]]
            # The worker says when a leg began, a busy one late; its runner says when a point was reported.
            began = min(leg["began"] for leg in series.legs() if leg["trial"] == row["number"] and leg.get("began"))
            assert abs(run.info.start_time - 1000 * began) <= 1
            assert run.info.start_time - 10_000 <= min(times)
            assert max(times) <= run.info.end_time + 100
            assert run.data.tags["workbench.experiment"] == "carried@1"
            kept = Path(url2pathname(urlsplit(run.info.artifact_uri).path)) / "log.txt"
            assert kept.read_bytes() == packed.read(store.experiment(spec.id).trial(row["number"]).log)
    words = ["--store", str(store.root), "export", "carried", "--to", f"mlflow:{tmp_path}/mlruns", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["read_back"] == sum(found.values())


def test_an_export_of_several_batches_adds_nothing_the_second_time(
    carried: tuple[Store, Spec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "MOST_POINTS", 50)
    store, spec = carried
    for _ in range(2):
        told = write(store, "carried", f"mlflow:{tmp_path}/mlruns")
        assert in_mlflow(tmp_path / "mlruns", spec)[1] == points(store, spec)
        assert told["read_back"] == told["points"] > 2 * 50


def test_points_that_mlflow_has_twice_are_counted(
    carried: tuple[Store, Spec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store, spec = carried
    told = write(store, "carried", f"mlflow:{tmp_path}/mlruns")
    runs, found = in_mlflow(tmp_path / "mlruns", spec)
    number, name, step, at, value = next(iter(found))
    client = MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    client.log_batch(runs[number].info.run_id, metrics=[Metric(name, value, at, step)])
    again = write(store, "carried", f"mlflow:{tmp_path}/mlruns")
    assert again == {**told, "read_back": told["points"] + 1}


def test_what_was_half_written_to_tensorboard_is_written_once(
    carried: tuple[Store, Spec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tens of megabytes that nothing else here needs, so they are not installed for the tests alone.
    pytest.importorskip("tensorboard")
    store, spec = carried
    assert write(store, "carried", f"tensorboard:{tmp_path}/runs")["trials"] == 17
    once = in_tensorboard(tmp_path / "runs", spec)
    assert once == as_single(points(store, spec))
    accounts: list[Progress] = []
    monkeypatch.setattr(following, "keep", lambda *known: accounts.append(copy.deepcopy(known[3])))
    monkeypatch.setattr(following, "MOST_POINTS", 100)
    where = Mirror("tensorboard", f"{tmp_path}/runs")
    following.Mirroring(store, spec, where, Progress(), keeps=True).look()
    assert len({known.cursor for known in accounts}) > 3
    # As processes leave it that were killed somewhere behind the account of what they had written.
    for known in accounts[20::6]:
        for file in (tmp_path / "runs").rglob("events*"):
            file.write_bytes(file.read_bytes() + b"torn")
        following.Mirroring(store, spec, where, copy.deepcopy(known), keeps=False).look()
        assert in_tensorboard(tmp_path / "runs", spec) == once


def test_an_experiment_goes_to_wandb_offline(
    carried: tuple[Store, Spec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Twenty megabytes that nothing else here needs, so it is not installed for the tests alone.
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    store, spec = carried
    told = write(store, "carried", "wandb:digits")
    assert told["points"] == sum(points(store, spec).values())
    files = list((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(files) == told["trials"] == 17
    assert in_wandb(files) == Counter({(*key[:3], key[4]): count for key, count in points(store, spec).items()})


def records_of(data: bytes) -> Iterator[bytes]:
    """The records in a file of W&B's: LevelDB's log format, behind a head of seven bytes."""
    place, parts = 7, b""
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def in_wandb(files: list[Path]) -> Counter[tuple[Any, ...]]:
    """The points in the files of an offline run."""
    from wandb.proto.wandb_internal_pb2 import Record

    found: Counter[tuple[Any, ...]] = Counter()
    for path in files:
        for data in records_of(path.read_bytes()):
            record = Record()
            record.ParseFromString(data)
            items = {one.key or ".".join(one.nested_key): json.loads(one.value_json) for one in record.history.item}
            for name, value in items.items():
                if name and not name.startswith("_") and name != "trial_step":
                    found[int(path.stem.rpartition("-t")[2]), name, items["trial_step"], value] += 1
    return found


def mirrors_of(store: Store, process: subprocess.Popen[bytes]) -> dict[str, int]:
    """The mirrors' processes by kind."""
    found = {}
    for pid in processes_below(process.pid):
        try:
            command = psutil.Process(pid).cmdline()
        except psutil.NoSuchProcess:
            continue
        if "workbench.exporters.mirrors.following" in command and str(store.root) in command:
            found[command[-1]] = pid
    return found


def test_mirrors_lose_and_double_nothing_though_they_and_the_engine_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tens of megabytes that nothing else here needs, so they are not installed for the tests alone.
    pytest.importorskip("tensorboard")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store = Store(tmp_path / "store").create()
    mirrors = mirrored([f"mlflow:{tmp_path}/mlruns,tensorboard:{tmp_path}/runs"])
    spec = spec_of(GATED, tmp_path, name="mirrored", mirror=mirrors, **ALL)
    start(store, spec)
    process = engine_process(store)
    try:
        until(lambda: progress(store, spec.id, "mlflow").cursor and progress(store, spec.id, "tensorboard").cursor)
        killed = mirrors_of(store, process)
        assert killed.keys() == {"mlflow", "tensorboard"}
        for pid in killed.values():
            os.kill(pid, signal.SIGKILL)
        until(lambda: len({*mirrors_of(store, process).values()} - {*killed.values()}) == 2, 30, "other mirrors")
        assert state(store, spec) == "running"
        left = [*mirrors_of(store, process).values()]
        process.kill()
        process.wait()
        until(lambda: not any(map(psutil.pid_exists, left)), 15, "the end of what the engine had started")
        process = engine_process(store)
        (tmp_path / "go").touch()
        assert ended(store, spec) == "completed"
        until(lambda: word(store, spec) is None, 40, "all of it in the mirrors")
    finally:
        end(process)
    runs, found = in_mlflow(tmp_path / "mlruns", spec)
    assert found == points(store, spec)
    assert [run.info.status for run in runs.values()] == ["FINISHED"] * 4
    assert in_tensorboard(tmp_path / "runs", spec) == as_single(points(store, spec))
    assert not lines(store, spec, "StopAsked")
    # The exported spec names no mirror: a store that imports it sends its results nowhere.
    export(store, "mirrored", tmp_path / "mirrored.zip")
    with zipfile.ZipFile(tmp_path / "mirrored.zip") as archive:
        assert json.loads(archive.read(f"experiments/{spec.id}/spec.json"))["mirror"] == []


def test_a_mirror_that_is_down_stops_nothing_and_it_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    (tmp_path / "go").touch()
    store = Store(tmp_path / "store").create()
    (tmp_path / "mlruns").write_text("no folder")
    mirrors = (Mirror("mlflow", (tmp_path / "mlruns").as_uri()).to_json(),)
    spec = spec_of(GATED, tmp_path, name="down", mirror=mirrors, **ALL)
    with engine(store):
        start(store, spec)
        assert ended(store, spec) == "completed"
        until(lambda: (word(store, spec) or "").startswith("mlflow waits since "), 20, "a word of the trouble")
        os.unlink(tmp_path / "mlruns")
        until(lambda: word(store, spec) is None, 40, "the end of the trouble")
        assert in_mlflow(tmp_path / "mlruns", spec)[1] == points(store, spec)
    assert store.engine_log.read_text().count("training goes on") == 1


def test_a_bad_name_is_refused_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(trial, x=X):
        for _ in trial.steps():
            trial.report(score=x)

    options = {"goal": maximize("score"), "scheduler": SETTINGS["scheduler"], "store": str(tmp_path / "store")}
    with pytest.raises(BadOption, match=r"mirror= 'mlfow': expected mlflow, tensorboard, wandb.*Did you mean mlflow"):
        Experiment("bad", train, mirror="mlfow", **options)
    assert not (tmp_path / "store").exists()
    with pytest.raises(BadOption, match=r"no wandb\. Pip install wandb"):
        read(["wandb"], installed=lambda name: None)
    with pytest.raises(BadOption, match="password") as refused:
        read(["mlflow:https://me:s3cr3t@host/x"], installed=lambda name: True)
    assert "s3cr3t" not in str(refused.value)
    for wrong in ("wandb:a b", "tensorboard:s3://x", f"tensorboard:{__file__}", "mlflow,mlflow"):
        with pytest.raises(BadOption):
            mirrored([wrong])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    found = read(["mlflow", "tensorboard", "wandb:team/digits"], installed=lambda name: True)
    assert found == [
        Mirror("mlflow", (tmp_path / "mlruns").as_uri()),
        Mirror("tensorboard", str(tmp_path / "runs")),
        Mirror("wandb", "team/digits", True, str(tmp_path)),
    ]

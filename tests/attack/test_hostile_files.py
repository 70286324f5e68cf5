"""Files that another user planted in a store, while a real engine trains an ordinary search.

The search gives the right result. The engine refuses invalid requests, and marks damaged experiments as unreadable.
No file stops the engine or keeps it busy for ever.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
from running import SLOW, ended, engine, engine_pid, lines, meta, outcome, spec_of, start, until

from workbench.cli.commands.doctor import CHECKS, _safely
from workbench.records import ENDED, UNREADABLE, Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store, requests
from workbench.store.files.database import is_wal
from workbench.store.journal import Journal, read
from workbench.store.lists.catalog import read_catalog
from workbench.store.owner.adoption import adopt
from workbench.store.series import Series

FAILING = (str(Path(__file__).with_name("failing.py")),)
STEPS = Scheduler(kind="hyperband", first=1, last=9, eta=3)


def search(folder: Path, name: str) -> Spec:
    return spec_of(SLOW.replace("0.05", "0.02"), folder, name=name, space={"x": uniform(0.0, 1.0)}, scheduler=STEPS)


def name_of(number: int) -> str:
    return f"20261120-140312-{number:06d}-0123abcd.json"


#: Requests by what is wrong with them.
NO_REQUEST: dict[str, bytes] = {
    "deep": b'{"kind":' + b"[" * 200_000,
    "deep object": b'{"a":' * 100_000,
    "not a number": b'{"kind":"extend","experiment":"x","seconds":NaN}',
    "a million digits": b'{"kind":"pin","experiment":"x","trial":' + b"9" * 1_000_000 + b"}",
    "no UTF-8": b'{"kind":"\xff\xfe\xfa"}',
    "twice": b'{"kind":"end","kind":"ping"}',
    "nothing": b"",
    "a list": b"[1, 2]",
    "a schema that is a list": b'{"kind":"ping","schema":[]}',
}
#: Values of another kind than any field takes.
ODD: tuple[Any, ...] = (7.5, -1, 10**30, True, [], {}, "x" * 200_000, [[]], {"a": []})


def plant_requests(store: Store, tmp_path: Path) -> int:
    """Plant invalid requests: wrong files, and fields with values of the wrong type. Returns the number of files."""
    folder, number = store.requests, 0
    for data in NO_REQUEST.values():
        (folder / name_of(number := number + 1)).write_bytes(data)
    with open(folder / name_of(number := number + 1), "wb") as file:
        file.truncate(100 << 20)
    os.mkfifo(folder / name_of(number := number + 1))
    (folder / name_of(number := number + 1)).symlink_to("/etc/passwd")
    (folder / name_of(number := number + 1)).symlink_to("/nowhere/at/all")
    (folder / name_of(number := number + 1)).mkdir()
    secret = tmp_path / "secret.json"
    secret.write_text('{"kind":"end"}')
    os.link(secret, folder / name_of(number := number + 1))
    listening = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(folder)  # a socket's path is short
    listening.bind(name_of(number := number + 1))
    os.chdir(here)
    listening.close()
    if os.getuid() == 0:
        os.mknod(folder / name_of(number := number + 1), 0o600 | 0o020000, os.makedev(1, 5))
        foreign = folder / name_of(number := number + 1)
        foreign.write_text('{"kind":"end"}')
        os.chown(foreign, 65534, 65534)
    for name in ("...", "a\nb\x1b[31m.json", "\udcff.json", "x" * 250, "-rf.json", "refused.json"):
        (folder / name).write_text("{}")
        number += 1
    kinds = (
        "stop",
        "extend",
        "verify",
        "rename",
        "tag",
        "note",
        "pin",
        "keep",
        "delete",
        "quota",
        "gc",
        "replay",
        "start",
    )
    fields = (
        "experiment",
        "trial",
        "step",
        "trials",
        "last",
        "seconds",
        "name",
        "tags",
        "note",
        "rule",
        "bytes",
        "reason",
    )
    for kind in kinds:
        for odd in ODD:
            (folder / name_of(number := number + 1)).write_text(
                json.dumps({"kind": kind, **dict.fromkeys(fields, odd)})
            )
    return number


def journals(spec: Spec) -> dict[str, list[dict[str, Any]] | bytes]:
    """Invalid journals, by what is wrong with them."""
    began: dict[str, Any] = {"kind": "Began", "experiment": spec.id, "label": spec.label}
    capacity, run = (
        {"kind": "CapacityChanged", "slots": 2},
        {"kind": "Run", "trial": 0, "start": 0, "until": 1, "reason": ""},
    )
    return {
        "unknown-trial": [began, {"kind": "Reached", "trial": 777, "step": 1, "value": 0.5}],
        "never-begun": [began, capacity, {"kind": "LegStarted", "trial": 16, "attempt": 1, "start": 0, "until": 1}],
        "negative": [began, capacity, run, {"kind": "Reached", "trial": 0, "step": -1, "value": 0.5}],
        "wrong-type": [began, capacity, {"kind": "Run", "trial": "0", "start": [], "until": {}, "reason": 7}],
        "many-slots": [began, {"kind": "CapacityChanged", "slots": 10**18}],
        "no-fields": [began, {"kind": "Reached"}, {"kind": "LegLeft"}],
        "deep": b'{"n":1,"at":"","kind":"Began","x":' + b"[" * 200_000 + b"\n" + b'{"n":2,"at":"","kind":"x"}\n',
        "digits": b'{"n":1,"at":"","kind":"Began","x":' + b"9" * 1_000_000 + b"}\n" + b'{"n":2,"at":"","kind":"x"}\n',
        "jumps": b'{"n":1,"at":"","kind":"Began"}\n{"n":1000000,"at":"","kind":"CapacityChanged","slots":2}\n',
        "binary": os.urandom(4096) + b"\n",
    }


def plant_experiments(store: Store, folder: Path) -> dict[str, str]:
    """Write experiments with invalid files; returns their IDs, by what is wrong with them."""
    planted = {}
    for wrong, content in journals(search(folder, "x")).items():
        spec = search(folder, wrong)
        store.write_spec(spec)
        path = store.experiment(spec.id).journal
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            with Journal.open(path) as journal:
                for line in content:
                    journal.append(line)
        planted[wrong] = spec.id
    for wrong in ("pipe", "link", "folder", "spec-pipe", "spec-deep", "spec-types", "spec-huge"):
        spec = search(folder, wrong)
        path = store.write_spec(spec)
        paths = store.experiment(spec.id)
        data = spec.to_json()
        if wrong == "pipe":
            os.mkfifo(paths.journal)
        elif wrong == "link":
            paths.journal.symlink_to("/dev/zero")
        elif wrong == "folder":
            paths.journal.mkdir()
        else:
            paths.journal.write_text('{"n":1,"at":"","schema":1,"kind":"Began"}\n')
            path.unlink()
            if wrong == "spec-pipe":
                os.mkfifo(path)
            elif wrong == "spec-deep":
                path.write_bytes(b'{"a":' * 100_000)
            elif wrong == "spec-types":
                path.write_text(json.dumps({**data, "goal": 7, "scheduler": [], "training": "x"}))
            else:
                path.write_text(json.dumps({**data, "scheduler": {**data["scheduler"], "last": 10**18}}))
        planted[wrong] = spec.id
    return planted


def answers(store: Store) -> dict[str, dict[str, Any]]:
    return {line["request"]: line for line in read(store.journal_path) if line.get("kind") == "answer"}


def by_id(store: Store) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in read_catalog(store)}


@pytest.mark.timeout(300)
def test_what_was_planted_is_set_aside_and_the_search_comes_out_right(tmp_path: Path) -> None:
    calm, store = (Store(tmp_path / name / ".workbench").create() for name in ("calm", "hostile"))
    one = search(tmp_path, "ordinary")
    start(calm, one)
    with engine(calm):
        assert ended(calm, one) == "completed"
    planted = plant_experiments(store, tmp_path)
    count = plant_requests(store, tmp_path)
    start(store, one)
    with engine(store) as process:
        until(lambda: lines(store, one, "Reached"), what="a first level")
        (tmp_path / "again").mkdir()
        plant_requests(store, tmp_path / "again")
        for number in range(2000):
            (store.requests / f"flood-{number}").touch()
        assert ended(store, one) == "completed"
        until(lambda: os.listdir(store.requests) == ["refused"], what="the end of what was planted")
        asked = requests.put(store, {"kind": "ping"})
        until(lambda: asked in answers(store))
        assert process.poll() is None, "the engine lives"
        assert engine_pid(store) == process.pid
        until(lambda: len(read_catalog(store)) == len(planted) + 1, what="a list of all experiments")
        until(lambda: by_id(store)[one.id]["state"] in ENDED, what="a list in which the search has ended")
        rows = by_id(store)
    assert outcome(store, one) == outcome(calm, one)
    assert len(os.listdir(store.refused_requests)) >= len(NO_REQUEST) + 2000
    refused = [line for line in answers(store).values() if not line["accepted"]]
    # What is asked of gc is fine whatever else it says; ids of odd names may be one.
    assert len(refused) >= count - len(ODD) - 6, "each was answered"
    assert all(line["error"] for line in refused)
    for wrong, experiment in planted.items():
        assert rows[experiment]["state"] == UNREADABLE, (wrong, rows[experiment])
        assert rows[experiment]["reason"]
    assert rows[one.id]["state"] == "completed"
    found = [finding for look in CHECKS for finding in _safely(look, store)]
    says = " ".join(finding.says for finding in found if finding.level == "problem")
    for wrong in set(planted) - {"unknown-trial", "never-begun", "negative", "many-slots", "spec-huge"}:
        assert planted[wrong] in says, wrong
    assert os.path.exists("/etc/passwd")


def test_a_mistake_in_the_engine_ends_its_experiment_alone_and_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path / ".workbench").create()
    broken, well = search(tmp_path, "broken"), search(tmp_path, "well")
    start(store, broken)
    start(store, well)
    with engine(store, program=FAILING) as process:
        assert ended(store, broken) == "failed"
        assert ended(store, well) == "completed"
        assert process.poll() is None
    assert "ZeroDivisionError('a mistake in the engine')" in meta(store, broken)["reason"]
    assert lines(store, broken, "Finish")[-1]["state"] == "failed"
    row = next(row for row in read_catalog(store) if row["id"] == broken.id)
    assert row["state"] == "failed"
    assert "a mistake in the engine" in row["reason"]
    assert "Traceback" in store.engine_log.read_text()


def write_over(path: Path) -> None:
    with open(path, "r+b") as file:
        file.write(os.urandom(max(4096, path.stat().st_size)))


#: What is done to a series while the engine has it open.
DAMAGE = {
    "removed": lambda path: [os.unlink(f"{path}{ending}") for ending in ("", "-wal", "-shm")],
    "junk": write_over,
    "cut": lambda path: os.truncate(path, 4096),
}


def test_a_series_that_is_damaged_under_the_engine_costs_no_trial(tmp_path: Path) -> None:
    store = Store(tmp_path / ".workbench").create()
    calm = search(tmp_path, "calm")
    # The last level waits for the damage, however late this process is.
    last, waits = (
        "    time.sleep(0.02)\n",
        "    while epoch == 8 and not os.path.exists({!r}):\n        time.sleep(0.01)\n",
    )
    specs = {name: search(tmp_path, name) for name in DAMAGE}
    for name, spec in specs.items():
        source = spec.program.source.replace(last, last + waits.format(str(tmp_path / name)))
        source = source.replace("import random", "import os, random")
        specs[name] = dataclasses.replace(spec, program=dataclasses.replace(spec.program, source=source))
    with engine(store):
        start(store, calm)
        assert ended(store, calm) == "completed"
        for name, spec in specs.items():
            start(store, spec)
            until(lambda spec=spec: len(lines(store, spec, "Reached")) >= 4)
            DAMAGE[name](store.experiment(spec.id).series)
            (tmp_path / name).touch()
            until(lambda spec=spec: lines(store, spec, "Finish"), what=f"the end of {name}")
        until(lambda: {row["state"] for row in read_catalog(store)} == {"completed"} and len(read_catalog(store)) == 4)
        # What resuming was checked for is waited for, and what checkpoints know is put back then.
        until(lambda: all(is_at_rest(store, spec) for spec in specs.values()), what="series that are written no more")
    whole = outcome(store, calm)
    for name, spec in specs.items():
        found = outcome(store, spec)
        assert found["trials"] == whole["trials"], name
        told = meta(store, spec).get("lost")
        if name == "removed" or told is None:  # SQLite may still have had all pages, and written them over the damage
            assert found["points"] == whole["points"]
        else:
            goals = [point for point in found["points"] if point[1] == "score"]
            assert len(goals) == told["put_back"] <= told["points"]
            assert set(found["points"]) <= set(whole["points"])


def is_at_rest(store: Store, spec: Spec) -> bool:
    """Whether nothing of the experiment is left to write."""
    path = store.experiment(spec.id).series
    return path.exists() and not is_wal(path) and not os.path.lexists(f"{path}-wal")


def lost_told(store: Store, spec: Spec) -> bool:
    return bool(lines(store, spec, "SeriesLost"))


@pytest.mark.parametrize("damage", ["deleted", "emptied", "pipe"])
def test_the_next_engine_puts_back_what_an_ended_experiment_has_lost(tmp_path: Path, damage: str) -> None:
    recorded = Path(__file__).parents[1] / "fixtures" / "stores" / "v1"
    shutil.copytree(recorded, tmp_path / ".workbench")
    store = Store(tmp_path / ".workbench")
    adopt(store)
    path = store.experiment(store.experiment_ids()[0]).series
    path.unlink()
    if damage == "emptied":
        path.touch()
    elif damage == "pipe":
        os.mkfifo(path)
    spec = store.read_spec(store.experiment_ids()[0])
    with engine(store):
        until(lambda: lost_told(store, spec))
        until(lambda: path.is_file() and meta(store, spec).get("state") == "completed")
        another = search(tmp_path, "another")
        start(store, another)
        assert ended(store, another) == "completed"
    told = meta(store, spec)["lost"]
    assert 0 < told["put_back"] <= told["points"]
    assert told["sources"] == ["the journal", "checkpoints"]
    assert {row["state"] for row in outcome_rows(store, spec)} == {"completed", "failed", "stopped"}


def outcome_rows(store: Store, spec: Spec) -> list[dict[str, Any]]:
    with Series.read(store.experiment(spec.id).series) as series:
        return series.trials()

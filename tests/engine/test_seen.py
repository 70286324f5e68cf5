"""Files that a trial reads without naming them are seen, kept with it, shown, compared, and checked before a replay."""

import hashlib
import json
import shutil
import zipfile
from pathlib import Path

import pytest
from running import ended, engine, spec_of, start

import workbench as wb
from workbench.cli import main
from workbench.compare import compare
from workbench.records import Scheduler
from workbench.share import export
from workbench.share.archive import take_in
from workbench.store import Store
from workbench.store.keeping.cleaning import sweep
from workbench.store.keeping.kept import read as read_kept
from workbench.store.keeping.naming import named_by_experiment
from workbench.store.keeping.usage import experiment_usage
from workbench.store.lists.said import Said
from workbench.store.series import Series

#: Which files it reads, no text in it names.
CELL = """
import glob
total = sum(float(line) for name in sorted(glob.glob("*.cs" + "v")) for line in open(name))
try:
    open("noth" + "ing.csv")
except OSError:
    pass
for epoch in trial.steps():
    trial.report(score=total + epoch)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("seen")
    (found / "part1.csv").write_text("1\n2\n")
    return found


@pytest.fixture(scope="module")
def store(folder):
    found = Store(folder / "store")
    with engine(found):
        yield found


def trained(store, folder, name):
    spec = spec_of(CELL, folder, name=name, scheduler=Scheduler("all", 2, 2), trials=1)
    start(store, spec)
    assert ended(store, spec) == "completed"
    return spec


def test_data_that_nobody_named_is_seen_shown_compared_and_checked(store, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    first = trained(store, folder, "first")
    with Series.read(store.experiment(first.id).series) as series:
        [leg] = series.legs(0)
    part = str(folder / "part1.csv")
    assert list(leg["detail"]["seen"]["files"]) == [part]
    found = leg["detail"]["seen"]["files"][part]
    assert (found["size"], found["rows"], len(found["digest"])) == (4, 2, 32)

    assert main(["--store", str(store.root), "show", f"{first.id}/t0000"]) == 0
    assert "data seen (there may be more)" in (shown := capsys.readouterr().out)
    assert "part1.csv" in shown
    assert main(["--store", str(store.root), "show", f"{first.id}/t0000", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["seen"]["files"]) == [part]

    (folder / "part1.csv").write_text("1\n2\n3\n")
    (folder / "part2.csv").write_text("4\n")
    made = wb.replay(f"{first.id}/t0000", store=store)
    [note] = made.notes
    assert note.startswith(f"{part}, which the trial was seen to read, changed since: 4 → 6 bytes, digest")
    assert made.verdict == "parts"
    told = compare(store, f"{first.id}/t0000", f"{made.experiment.id}/t0000")
    assert told["sections"][0]["kind"] == "data"
    items = {Path(item["name"]).name: item["note"] for item in told["sections"][0]["items"]}
    # The replay met the old bytes of the one; that the other is new, it cannot hide.
    assert items == {"part2.csv": "only on one side, as far as Workbench saw"}
    assert (folder / "part1.csv").read_text() == "1\n2\n3\n"
    second = trained(store, folder, "second")
    told = compare(store, f"{first.id}/t0000", f"{second.id}/t0000")
    items = {Path(item["name"]).name: item["note"] for item in told["sections"][0]["items"]}
    assert items == {"part1.csv": "1 row more, 2 bytes more", "part2.csv": "only on one side, as far as Workbench saw"}


READS_ONE = """
rows = open("kept" + ".csv").read()
for epoch in trial.steps():
    trial.report(score=1.0)
"""


def test_data_is_kept_as_long_as_an_experiment_names_it_and_counted(store, folder, tmp_path):
    (folder / "kept.csv").write_text("5,6\n")
    spec = spec_of(READS_ONE, folder, name="kept", scheduler=Scheduler("all", 1, 1), trials=1)
    start(store, spec)
    assert ended(store, spec) == "completed"
    paths = store.experiment(spec.id)
    with Series.read(paths.series) as series:
        [leg] = series.legs(0)
    sha = leg["detail"]["seen"]["files"][str(folder / "kept.csv")]["kept"]
    assert store.get_blob(sha, verify=True) == b"5,6\n"
    assert read_kept(paths) == {sha: {"path": str(folder / "kept.csv"), "size": 4}}
    assert sha in named_by_experiment(store, spec.id)
    assert sweep(store, Said(), young_s=-10, dry_run=True).things["blobs"] == 0
    assert experiment_usage(store, spec.id).own >= 4

    # An archive holds it where that is asked for only; what is published never does.
    digest = leg["detail"]["seen"]["files"][str(folder / "kept.csv")]["digest"]
    for data in (False, True):
        target = tmp_path / f"{data}.zip"
        export(store, spec.id, target, data=data)
        names = zipfile.ZipFile(target).namelist()
        assert (f"blobs/{sha}" in names) is data
        assert (f"experiments/{spec.id}/data.json" in names) is data
        other = Store(tmp_path / f"{data}").create()
        take_in(other, target)
        assert other.has_blob(sha) is data
    assert digest

    shutil.rmtree(paths.folder)
    assert sweep(store, Said(), young_s=-10, dry_run=True).things["blobs"] == 1


def test_nothing_is_kept_where_a_person_says_so(store, folder):
    (folder / "kept.csv").write_text("7,8\n")
    spec = spec_of(READS_ONE, folder, name="unkept", scheduler=Scheduler("all", 1, 1), trials=1, keep_data=0)
    start(store, spec)
    assert ended(store, spec) == "completed"
    with Series.read(store.experiment(spec.id).series) as series:
        [leg] = series.legs(0)
    assert leg["detail"]["seen"]["files"][str(folder / "kept.csv")]["not_kept"] == "off"
    assert not store.has_blob(hashlib.sha256(b"7,8\n").hexdigest())
    assert read_kept(store.experiment(spec.id)) == {}


def test_what_was_seen_and_what_cannot_be_is_always_a_line(store, folder, capsys):
    source = """
import subprocess
{started}
for epoch in trial.steps():
    trial.report(score=1.0)
"""
    line = "not seen: files that libraries in C or subprocesses open and close themselves"
    for started, shown in (("", line), ("subprocess.run(['true'])", f"{line}; started here: true")):
        text = source.format(started=started)
        spec = spec_of(text, folder, name="none", scheduler=Scheduler("all", 1, 1), trials=1)
        start(store, spec)
        assert ended(store, spec) == "completed"
        assert main(["--store", str(store.root), "show", f"{spec.id}/t0000"]) == 0
        assert f"data seen: none\n  {shown}\n" in capsys.readouterr().out

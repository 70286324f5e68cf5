"""What is acknowledged outlives the process, wherever it dies. Real processes, really gone."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.records import Keep
from workbench.store import Store, journal, requests
from workbench.store.journal import Journal
from workbench.store.keeping import cleaning
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.lists.catalog import Catalog, read_catalog
from workbench.store.lists.said import said
from workbench.store.owner.cluster import read_cluster
from workbench.store.owner.lease import EngineLease, read_engine
from workbench.store.series import Series

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}


def lives(scenario, folder):
    """The stores that a scenario left, dying at each of its calls in turn, with what it had been told till then."""
    command = [sys.executable, str(Path(__file__).with_name("dying.py")), scenario, str(folder)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 6
    tolds = sorted(folder.glob("*.told"), key=lambda path: int(path.name.split("-")[0]))
    found = [(Store(t.with_suffix("")), [json.loads(line) for line in t.read_text().splitlines()]) for t in tolds]
    assert len(found) == 2 * int(done.stdout) + 1
    return found


def test_a_journal_keeps_every_committed_line(tmp_path):
    for store, told in lives("journal", tmp_path):
        damage = []
        ks = [line["k"] for line in journal.read(store.journal_path, damage=damage)]
        assert ks == list(range(len(ks))), store
        assert len(ks) >= max(told, default=0), store
        assert len(damage) <= 1
        with Journal.open(store.journal_path) as writer:
            assert writer.n == len(ks)
            writer.append({"kind": "x", "k": len(ks)})
        damage.clear()
        again = [line["k"] for line in journal.read(store.journal_path, damage=damage)]
        assert again == [*ks, len(ks)]
        assert damage == []


def test_a_request_is_there_once_told_and_gone_once_removed(tmp_path):
    for store, told in lives("ask", tmp_path):
        asked = max((words[1:] for words in told if words[0] == "asked"), key=len, default=[])
        removed = [words[1] for words in told if words[0] == "removed"]
        pending = requests.pending(store)
        assert [request["k"] for _, request in pending] in ([], [0], [1], [0, 1]), store
        there = {number for number, _ in pending}
        assert not there & set(removed), store
        assert set(asked[1:]) <= there, store
        if asked and not removed:
            # The last call under way may have been its removal.
            assert asked[0] in there or len(asked) == 2, store
        assert len(requests.pending(store)) == len(pending)


def test_specs_and_blobs_are_whole_or_not_there(tmp_path):
    for store, told in lives("spec", tmp_path):
        ids = store.experiment_ids()
        assert {word["spec"] for word in told if "spec" in word} <= set(ids), store
        for key in ids:
            assert store.read_spec(key).id == key
        for sha in (path.name for path in store.blobs.iterdir() if not path.name.endswith(".writing")):
            assert store.get_blob(sha, verify=True)
        for word in told:
            if "blob" in word:
                assert store.get_blob(word["blob"], verify=True)


def test_a_checkpoint_that_was_published_is_found_whole(tmp_path):
    for store, told in lives("checkpoint", tmp_path):
        checkpoints = Checkpoints(store.experiment("a").trial(0))
        newest = checkpoints.newest()
        published = [tuple(words) for words in told if words != "removed"]
        assert checkpoints.skipped == [], store
        if published:
            assert (newest.step, newest.attempt) >= max(published), store
        if newest is not None:
            expected = f"{newest.step} {newest.attempt} ".encode() * 100
            assert newest.file("state.bin").read_bytes() == expected
        assert {step for step, _ in published} - set(checkpoints.steps()) <= {3}
        if "removed" in told:
            assert checkpoints.steps() == [9, 27]
        aside = checkpoints.begin(81, 4)
        checkpoints.publish(aside, 81, 4)
        assert [name for name in os.listdir(checkpoints.folder) if name.startswith(".writing")] == []


def test_the_list_is_always_whole_and_never_older_than_told(tmp_path):
    order = ["waiting", "running", "completed"]
    for store, told in lives("catalog", tmp_path):
        entries = read_catalog(store)
        states = {entry["state"] for entry in entries}
        assert len(entries) in (0, 2), store
        assert len(states) <= 1
        if told:
            assert order.index(states.pop()) >= order.index(told[-1]), store
        catalog = Catalog(store)
        assert catalog.damage == []
        assert catalog.experiments() == entries


def test_a_lease_is_free_wherever_its_engine_died(tmp_path):
    for store, _ in lives("lease", tmp_path):
        info = read_engine(store)
        assert info is None or not info.alive, store
        with EngineLease.acquire(store):
            assert read_engine(store).alive


def test_a_series_is_whole_or_not_there_while_it_is_made_and_moved_aside(tmp_path):
    for store, told in lives("series", tmp_path):
        path = store.root / "series.db"
        if told and told[-1] == 0:
            # The process had destroyed the file on purpose, and died while it moved the file away and made a new one.
            with Series.open(path) as series:
                assert len(series.points()) == 50 * len(series.trials()), store
            continue
        if not path.exists():
            assert not told, store
            continue
        with Series.read(path) as reader:
            assert len(reader.trials()) >= (told[-1] if told else 0), store
            assert len(reader.points()) == 50 * len(reader.trials())
        with Series.open(path) as series:
            assert series.damage == []


def is_whole(store, key, steps):
    """The experiment is listed, its spec and blob can be read, and these checkpoints of its trials are sound."""
    assert store.get_blob(store.read_spec(key).program.capture, verify=True)
    assert key in {entry["id"] for entry in read_catalog(store)}
    for trial, wanted in enumerate(steps):
        checkpoints = Checkpoints(store.experiment(key).trial(trial))
        there = {found.step for found in checkpoints.all(verify="digest")}
        assert checkpoints.skipped == [], store
        assert set(wanted) <= there, store


def test_a_deletion_that_was_told_is_finished_and_one_that_was_not_has_taken_nothing(tmp_path):
    for store, told in lives("delete", tmp_path):
        deleted = said(store).deleted == {"a"}
        assert deleted or not told, store
        is_whole(store, "b", [(1, 3, 9), (1,)])
        if not deleted:
            is_whole(store, "a", [(1, 3, 9), (1,)])
            continue
        for left in cleaning.begun_deletions(store, said(store)):
            shutil.rmtree(left)
        assert os.listdir(store.experiments) == ["b"], store
        catalog = Catalog(store)
        catalog.rebuild_if_needed()
        catalog.close()
        assert [entry["id"] for entry in read_catalog(store)] == ["b"], store


def test_what_stays_is_whole_wherever_cleaning_up_died_and_the_next_one_finishes(tmp_path):
    for store, told in lives("clean", tmp_path):
        is_whole(store, "a", [(1, 3, 9), (1,)])
        is_whole(store, "b", [(9,), ()])
        if "rule" in told:
            assert Checkpoints(store.experiment("b").trial(0)).steps() == [9], store
        gone = cleaning.removed(store, "b", 0).keys() | cleaning.removed(store, "b", 1).keys()
        for trial, steps in ((0, {1, 3}), (1, {1})):
            left = set(Checkpoints(store.experiment("b").trial(trial)).steps())
            assert not (steps - left) - gone, "nothing goes before the journal says so"
        cleaning.clean_ended(store, "b", said(store))
        cleaning.sweep(store, said(store))
        assert len(list(store.blobs.iterdir())) == 2, store
        assert list(store.snapshots.iterdir()) == []
        assert [path for path in store.root.rglob("*") if path.name.startswith(".")] == []
        is_whole(store, "b", [(9,), ()])


def test_pins_and_rules_that_were_told_hold(tmp_path):
    for store, told in lives("wishes", tmp_path):
        found, count = said(store), max(told, default=0)
        pinned = {pin[2] for pin in found.pins}
        assert (3 in pinned) or count < 2, store
        assert found.rules.get("b") == Keep(1, 2, 2, 1) or count < 3
        assert (1 not in pinned) or count < 4
        listed = Catalog.rebuild(store).get("b")
        assert listed.get("pins", []) == found.pins_of("b")


def test_what_viewers_are_told_of_the_cluster_is_whole_or_not_there(tmp_path):
    for store, told in lives("cluster", tmp_path):
        if told:
            assert int(json.loads(store.cluster_json.read_bytes())["at"]) >= told[-1], store
        assert read_cluster(store)["workers"] == []  # its engine is gone


FLUSH = """
import sys
from pathlib import Path
from workbench.store.series import Series
series = Series.open(Path(sys.argv[1]))
step = 0
while True:
    series.add_points([(trial, "acc", step, 0, step / 7, 0.0) for trial in range(200)])
    series.put_trial(step % 50, state="running", step=step)
    series.put_meta("step", step)
    series.flush()
    print(step, flush=True)
    step += 1
"""


@pytest.mark.parametrize("after", [1, 7, 40])
def test_points_that_were_flushed_survive_kill_9_while_the_next_are_written(tmp_path, after):
    path = tmp_path / "series.db"
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", FLUSH, str(path)], env=ENVIRONMENT, stdout=subprocess.PIPE)
        told = -1
        for line in writer.stdout:
            told = int(line)
            if told >= after:
                break
        os.kill(writer.pid, signal.SIGKILL)
        told = max([told, *(int(line) for line in writer.stdout if line.endswith(b"\n"))])
        writer.wait()
        writer.stdout.close()
        with Series.read(path) as reader:
            steps = [step for step, _, _ in reader.curves(trials=[199])[199, "acc"]]
            assert steps[: told + 1] == list(range(told + 1))
            assert reader.meta()["step"] >= told
            assert len(reader.points()) == 200 * len(steps)
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()


COMMIT = """
import sys
from pathlib import Path
from workbench.store.owner.cluster import read_cluster
from workbench.store.journal import Journal
journal = Journal.open(Path(sys.argv[1]))
while True:
    for _ in range(7):
        journal.append({"kind": "x", "text": "y" * 3000})
    print(journal.commit(), flush=True)
"""


def test_lines_that_were_committed_survive_kill_9_while_the_next_are_written(tmp_path):
    path, told = tmp_path / "events.jsonl", 0
    for after in (1, 3, 10, 30):
        writer = subprocess.Popen([sys.executable, "-c", COMMIT, str(path)], env=ENVIRONMENT, stdout=subprocess.PIPE)
        for _ in range(after):
            told = int(writer.stdout.readline())
        writer.kill()
        told = max([told, *(int(line) for line in writer.stdout if line.endswith(b"\n"))])
        writer.wait()
        writer.stdout.close()
        numbers = [line["n"] for line in journal.read(path)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= told


LOOK = """
import sys, time
from pathlib import Path
from workbench.store.series import Series
path, until, looks, slowest = Path(sys.argv[1]), time.monotonic() + float(sys.argv[2]), 0, 0.0
while not path.exists():
    time.sleep(0.001)
while time.monotonic() < until:
    begun = time.monotonic()
    with Series.read(path) as reader:
        _, points = reader.points_after(0, limit=100)
        reader.trials_after(0), reader.meta(), reader.names()
    slowest = max(slowest, time.monotonic() - begun)
    looks += 1
print(looks, slowest)
"""
REOPEN = """
import sys, time
from pathlib import Path
from workbench.store.series import Series
path, until, step = Path(sys.argv[1]), time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < until:
    with Series.open(path) as series:  # opening and closing are the moments at which SQLite locks others out
        for _ in range(5):
            step += 1
            series.add_points([(trial, "acc", step, 0, step / 7, 0.0) for trial in range(500)])
            series.put_trial(step % 50, state="running", step=step)
            series.flush()
"""


def test_a_reader_that_opens_while_the_engine_opens_writes_and_closes_never_fails(tmp_path):
    path = tmp_path / "series.db"
    readers = [
        subprocess.Popen([sys.executable, "-c", LOOK, str(path), "2"], env=ENVIRONMENT, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    subprocess.run([sys.executable, "-c", REOPEN, str(path), "2.5"], env=ENVIRONMENT, check=True)
    for reader in readers:
        out, _ = reader.communicate()
        assert reader.returncode == 0
        looks, slowest = out.split()
        assert int(looks) >= 3
        assert float(slowest) < 5

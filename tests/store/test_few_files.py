"""Small checkpoints in one file, and the small files of an ended experiment in one: whole at any moment, and few."""

import os
import sqlite3
import sys
from contextlib import closing

import pytest
from small import damage, members

from workbench.cluster.workers.log import LogWriter
from workbench.errors import StaleAttempt, StoreError
from workbench.store.files import bundle, packed
from workbench.store.keeping import folders
from workbench.store.keeping.checkpoints import Checkpoints, settle
from workbench.store.series import Series


@pytest.fixture
def paths(store):
    return store.experiment("20261120-140312-aaaaaa")


@pytest.fixture
def trial(paths):
    return paths.trial(7)


def put(trial, step, data=b"state", attempt=1, **more):
    return Checkpoints(trial).put({"graph.pkl": data, "tensors.safetensors": data * 2}, step, attempt, **more)


def content(trial):
    return {one.step: one.file("graph.pkl").read_bytes() for one in Checkpoints(trial).all()}


def entries(paths):
    return sorted(os.listdir(paths.trials))


def test_small_checkpoints_of_a_trial_are_one_file_and_all_trials_have_one_fence(paths):
    for number in range(5):
        for step in (1, 3, 9):
            put(paths.trial(number), step, b"%d at %d" % (number, step))
    # What the last change took the place of stays beside it until the new file is on the disk.
    assert [name for name in entries(paths) if not name.endswith(".old")] == ["attempts", *BUNDLES]
    assert content(paths.trial(3)) == {1: b"3 at 1", 3: b"3 at 3", 9: b"3 at 9"}
    checkpoints = Checkpoints(paths.trial(3))
    newest = checkpoints.newest(8)
    assert (newest.step, str(newest.folder).rstrip("/")) == (3, f"{paths.trial(3).bundle}/step-00000003")
    assert newest.manifest.files["graph.pkl"].size == 6


BUNDLES = [f"t{number:04d}.zip" for number in range(5)]


def test_settling_leaves_one_file_for_a_trial(paths, trial):
    checkpoints = Checkpoints(trial)
    for step in (1, 3):
        checkpoints.put({"graph.pkl": b"x"}, step, 1)
    assert checkpoints.settle() == [1, 3]
    assert entries(paths) == ["attempts", "t0007.zip"]


@pytest.fixture
def synced(monkeypatch):
    """The paths that were brought to the disk, in their order."""
    paths, real = [], os.fsync

    def fsync(descriptor):
        paths.append(os.path.realpath(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


def test_checkpoints_that_are_settled_together_have_their_folder_synced_once(paths, synced):
    several = [Checkpoints(paths.trial(number)) for number in range(5)]
    for step in (1, 3):
        for one in several:
            one.put({"graph.pkl": b"x"}, step, 1)
    assert synced == []
    assert settle(several) == [[1, 3]] * 5
    assert sorted(synced[:5]) == [os.path.realpath(one.bundle) for one in several]
    assert synced[5] == os.path.realpath(paths.trials)
    assert synced.count(synced[5]) == 1
    assert entries(paths) == ["attempts", *BUNDLES]  # and what was before is not needed any more
    assert settle(several) == [[]] * 5


def test_one_that_cannot_be_synced_keeps_no_other_from_the_disk(paths, monkeypatch):
    several = [Checkpoints(paths.trial(number)) for number in range(3)]
    for step in (1, 3):
        for one in several:
            one.put({"graph.pkl": b"x"}, step, 1)
    real, broken = folders.fsync, several[1].bundle

    def fsync(path):
        if path == broken:
            raise OSError(5, "Input/output error")
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(folders, "fsync", fsync)
        with pytest.raises(StoreError, match="t0001"):
            settle(several)
    assert [name for name in entries(paths) if name.endswith(".old")] == ["t0001.zip.old"]
    assert settle(several) == [[], [1, 3], []]
    assert entries(paths) == ["attempts", *BUNDLES[:3]]


def test_what_stays_is_on_the_disk_before_what_goes_has_gone(paths, trial, synced):
    checkpoints = Checkpoints(trial)
    for step in (1, 3, 9):
        checkpoints.put({"graph.pkl": b"x"}, step, 1)
    assert checkpoints.trim([1, 3], [9]) == 2 * checkpoints.size(9)
    # The new file, under its hidden name, and then its name: once for both.
    assert len(synced) == 2
    assert synced[1] == os.path.realpath(paths.trials)
    assert content(trial) == {9: b"x"}
    assert entries(paths) == ["attempts", "t0007.zip"]


def test_a_large_one_goes_once_the_small_ones_that_stay_are_on_the_disk(paths, trial, synced, monkeypatch):
    checkpoints = Checkpoints(trial)
    aside = checkpoints.begin(1, 1)
    (aside / "graph.pkl").write_bytes(b"large")
    checkpoints.publish(aside, 1, 1)
    put(trial, 3)
    real, gone = os.rename, []

    def rename(old, new):
        gone.append((os.path.basename(old), [*synced]))
        real(old, new)

    monkeypatch.setattr(os, "rename", rename)
    checkpoints.trim([1], [3])
    assert gone == [("step-00000001", [os.path.realpath(path) for path in (trial.bundle, paths.trials)])]
    assert content(trial) == {3: b"state"}


def test_a_small_one_goes_once_the_large_ones_that_stay_are_on_the_disk(trial, synced, monkeypatch):
    checkpoints = Checkpoints(trial)
    put(trial, 1)
    aside = checkpoints.begin(3, 1)
    (aside / "graph.pkl").write_bytes(b"large")
    checkpoints.publish(aside, 3, 1)
    real, gone = packed.replace, []

    def replace(path, data):
        gone.append([*synced])
        return real(path, data)

    monkeypatch.setattr(packed, "replace", replace)
    checkpoints.trim([1], [3])
    [before] = gone
    large = os.path.realpath(checkpoints.folder / "step-00000003")
    assert {f"{large}/graph.pkl", f"{large}/manifest.json", large, os.path.dirname(large)} <= {*before}
    assert content(trial) == {3: b"large"}


def test_a_power_cut_that_takes_the_newest_leaves_those_before_it(paths, trial):
    put(trial, 1, b"one")
    put(trial, 3, b"three")
    for lost in (b"", trial.bundle.read_bytes()[:-30]):
        trial.bundle.write_bytes(lost)
        checkpoints = Checkpoints(trial)
        assert checkpoints.newest().step == 1
        assert [one.step for one in checkpoints.skipped] == ([3] if lost else [])
    put(trial, 9, b"nine")
    assert content(trial) == {1: b"one", 9: b"nine"}


def test_one_damaged_byte_costs_one_checkpoint(trial):
    for step in (1, 3, 9):
        put(trial, step)
    damage(trial.bundle, "step-00000003/graph.pkl")
    checkpoints = Checkpoints(trial)
    assert [one.step for one in checkpoints.all()] == [1, 9]
    assert [one.step for one in checkpoints.skipped] == [3]
    damage(trial.bundle, "step-00000009/manifest.json")
    assert checkpoints.newest().step == 1


def test_what_is_no_archive_is_named_and_written_anew(trial):
    put(trial, 1)
    trial.bundle.write_bytes(b"no archive at all")
    checkpoints = Checkpoints(trial)
    assert checkpoints.newest() is None
    assert [str(one.folder) for one in checkpoints.skipped] == [str(trial.bundle)]
    put(trial, 3)
    assert content(trial) == {3: b"state"}


def test_an_archive_that_would_unpack_to_more_than_it_is_is_not_read(trial):
    import zipfile

    put(trial, 1)
    with zipfile.ZipFile(trial.bundle, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("step-00000001/manifest.json", b"0" * (64 << 20))
    assert Checkpoints(trial).newest() is None


def test_a_large_one_is_a_folder_and_takes_the_place_of_a_small_one(trial):
    put(trial, 3)
    assert put(trial, 9, b"x" * bundle.SMALL) is None
    checkpoints = Checkpoints(trial)
    aside = checkpoints.begin(3, 1)
    (aside / "graph.pkl").write_bytes(b"large")
    checkpoints.publish(aside, 3, 1)
    assert members(trial.bundle) == []
    assert content(trial) == {3: b"large"}
    put(trial, 3, b"small again")
    assert content(trial) == {3: b"small again"}
    assert os.listdir(checkpoints.folder) == []


def test_a_stale_attempt_shows_no_small_one_and_attempts_of_older_versions_count(trial):
    put(trial, 1, attempt=2)
    with pytest.raises(StaleAttempt, match="attempt 2"):
        put(trial, 3, attempt=1)
    other = type(trial)(trial.folder.with_name("t0008"))
    (other.folder / "checkpoints").mkdir(parents=True)
    (other.folder / "checkpoints" / "attempt").write_bytes(b"%-19d\n" % 5)
    with pytest.raises(StaleAttempt, match="attempt 5"):
        put(other, 3, attempt=4)
    assert Checkpoints(other).steps() == []


# ---------------------------------------------------------------------------------------------------------------------
# Packed


def trained(paths):
    for number in range(3):
        trial = paths.trial(number)
        put(trial, 1, b"%d one" % number)
        put(trial, 3, b"%d three" % number)
        writer = LogWriter(trial.log)
        writer.feed(b"trial %d\n" % number)
        writer.close()
    put(paths.trial(1).passing, 2, b"between", alone=True, settled=True)


def seen(paths):
    """Everything about three trials, read through the functions that callers use."""
    return [
        (content(paths.trial(number)), packed.read(paths.trial(number).log), content(paths.trial(number).passing))
        for number in range(3)
    ]


def test_what_is_packed_is_read_as_before_and_leaves_two_entries_for_all_trials(paths):
    trained(paths)
    before = seen(paths)
    assert packed.pack(paths.trials) == 7
    assert entries(paths) == ["attempts"]
    assert seen(paths) == before
    assert packed.pack(paths.trials) == 0
    with closing(sqlite3.connect(paths.packed)) as archive:
        names = [name for (name,) in archive.execute("SELECT name FROM sqlar ORDER BY name")]
    assert names[:2] == ["t0000.log.txt", "t0000.zip"]
    assert list(packed.bundles(paths.trials))
    assert not [name for name in os.listdir(paths.folder) if name.startswith("packed.sqlar-")]


def test_a_kill_at_any_moment_of_packing_loses_nothing(paths):
    """The process ends at its first system call that Python tells of, then at its second, and so on."""
    trained(paths)
    before = seen(paths)
    for moment in range(200):
        child = os.fork()
        if child == 0:
            count = [0]

            def heard(event, arguments, moment=moment, count=count):
                count[0] += event in ("open", "os.remove", "os.rename", "sqlite3.connect", "fcntl.fcntl")
                if count[0] > moment:
                    os._exit(9)

            sys.addaudithook(heard)
            packed.pack(paths.trials)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            break
        assert seen(paths) == before, moment
    assert moment > 10
    assert entries(paths) == ["attempts"]
    assert seen(paths) == before


def test_an_ended_trial_that_goes_on_has_what_was_packed_and_is_packed_again(paths):
    trained(paths)
    packed.pack(paths.trials)
    trial = paths.trial(1)
    put(trial, 9, b"nine", attempt=2)
    writer = LogWriter(trial.log)
    writer.feed(b"goes on\n")
    writer.close()
    wanted = {1: b"1 one", 3: b"1 three", 9: b"nine"}
    assert (content(trial), packed.read(trial.log)) == (wanted, b"trial 1\ngoes on\n")
    assert packed.pack(paths.trials) == 2
    assert entries(paths) == ["attempts"]
    assert (content(trial), packed.read(trial.log)) == (wanted, b"trial 1\ngoes on\n")


def test_what_is_removed_of_a_packed_trial_does_not_come_back(paths):
    trained(paths)
    packed.pack(paths.trials)
    checkpoints = Checkpoints(paths.trial(2))
    assert checkpoints.remove(1) > 0
    assert (checkpoints.steps(), packed.within(paths.trials).steps["t0002.zip"].keys()) == ([3], {3})
    checkpoints.remove(3)
    assert checkpoints.is_empty
    assert entries(paths) == ["attempts"]
    Checkpoints(paths.trial(1).passing).drop()
    assert seen(paths)[1:] == [({1: b"1 one", 3: b"1 three"}, b"trial 1\n", {}), ({}, b"trial 2\n", {})]


def test_a_damaged_pack_is_named_and_what_is_trained_anew_is_seen(paths):
    trained(paths)
    packed.pack(paths.trials)
    paths.packed.write_bytes(paths.packed.read_bytes()[:3000])
    with pytest.raises((StoreError, OSError)):
        list(packed.bundles(paths.trials))
    checkpoints = Checkpoints(paths.trial(0))
    assert checkpoints.newest() is None
    assert "packed.sqlar" in checkpoints.skipped[0].why
    put(paths.trial(0), 1, b"anew", attempt=2)
    assert content(paths.trial(0)) == {1: b"anew"}


# ---------------------------------------------------------------------------------------------------------------------
# Series


def beside(path):
    return sorted(name for name in os.listdir(path.parent) if name.startswith("series.db-"))


def test_a_series_at_rest_is_one_file_and_readers_leave_it_so(paths):
    from workbench.store.files import database

    paths.folder.mkdir(parents=True)
    series = Series.open(paths.series)
    series.put_meta("state", "completed")
    reader = Series.read(paths.series)
    assert reader.meta() == {}
    series.close()
    reader.close()  # the last to close it, and it may write nothing
    assert database.rest(paths.series)
    assert beside(paths.series) == []
    for _ in range(2):
        with Series.read(paths.series) as reader:
            assert reader.meta()["state"] == "completed"
        assert beside(paths.series) == []


def test_a_series_that_is_read_is_put_at_rest_when_its_reader_has_gone(paths):
    from workbench.store.files import database

    paths.folder.mkdir(parents=True)
    series = Series.open(paths.series)
    series.put_meta("n", 1)
    series.flush()
    reader = Series.read(paths.series)
    assert reader.meta() == {"n": 1}
    series.close()
    assert not database.rest(paths.series)
    assert reader.meta() == {"n": 1}
    reader.close()
    assert database.rest(paths.series)
    assert beside(paths.series) == []


def test_reading_a_series_of_an_older_version_makes_nothing_and_sees_its_writer_come(paths):
    paths.folder.mkdir(parents=True)
    Series.open(paths.series).close()  # closed by its writer alone: a WAL's mark in its head, and no file beside it
    assert beside(paths.series) == []
    with Series.read(paths.series) as reader:
        assert reader.meta() == {}
        assert beside(paths.series) == []
        with Series.open(paths.series) as series:
            series.put_meta("n", 1)
            series.flush()
            assert reader.meta() == {"n": 1}

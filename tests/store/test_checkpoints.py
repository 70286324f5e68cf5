import json
import multiprocessing
import os
import shutil
import stat
import threading

import pytest

from workbench.errors import BadName, NotFound, StaleAttempt, StoreError
from workbench.store.files import fence
from workbench.store.keeping import manifest as module
from workbench.store.keeping.checkpoints import Checkpoints, digest


@pytest.fixture
def trial(store):
    return store.experiment("abc").trial(7)


@pytest.fixture
def checkpoints(trial):
    return Checkpoints(trial)


def publish(checkpoints, step, attempt=1, data=b"state"):
    aside = checkpoints.begin(step, attempt)
    (aside / "state.bin").write_bytes(data)
    (aside / "parts").mkdir()
    (aside / "parts" / "0.bin").write_bytes(data * 2)
    return checkpoints.publish(aside, step, attempt, details={"step_s": 1.5})


def test_a_checkpoint_is_shown_whole_by_one_rename(checkpoints, trial):
    aside = checkpoints.begin(27, 1)
    (aside / "state.bin").write_bytes(b"state")
    assert checkpoints.newest() is None
    assert checkpoints.steps() == []
    manifest = checkpoints.publish(aside, 27, 1)
    assert not aside.exists()
    newest = checkpoints.newest()
    assert newest.folder == trial.checkpoints / "step-00000027"
    assert (newest.step, newest.attempt, newest.manifest) == (27, 1, manifest)
    assert manifest.files["state.bin"].size == manifest.size == 5
    assert newest.file("state.bin").read_bytes() == b"state"
    with pytest.raises(NotFound, match=r"state\.bin"):
        newest.file("../../spec.json")


def test_the_newest_is_found_also_below_a_step(checkpoints):
    for step in (3, 9, 27):
        publish(checkpoints, step)
    assert checkpoints.newest().step == 27
    assert checkpoints.newest(at_most=26).step == 9
    assert checkpoints.newest(at_most=9).step == 9
    assert checkpoints.newest(at_most=2) is None
    assert [c.step for c in checkpoints.all()] == [3, 9, 27]
    assert checkpoints.at(9).manifest.details == {"step_s": 1.5}
    with pytest.raises(NotFound, match="3, 9, 27"):
        checkpoints.at(8)


def damage_truncated(folder):
    (folder / "state.bin").write_bytes(b"sta")


def damage_flipped(folder):
    (folder / "parts" / "0.bin").write_bytes(b"State" * 2)


def damage_missing(folder):
    (folder / "state.bin").unlink()


def damage_manifest_missing(folder):
    (folder / "manifest.json").unlink()


def damage_manifest_torn(folder):
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes()[:-9])


def damage_manifest_empty(folder):
    (folder / "manifest.json").write_bytes(b"")


def damage_other_step(folder):
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "step": 5}))


def damage_escape(folder):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"] = {"../../../../spec.json": {"size": 1, "digest": "x"}}
    path.write_text(json.dumps(manifest))


def damage_newer(folder):
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99}))


def damage_link(folder):
    (folder / "state.bin").unlink()
    (folder / "state.bin").symlink_to("/etc/passwd")


@pytest.mark.parametrize("damage", [f for name, f in list(globals().items()) if name.startswith("damage_")])
def test_a_damaged_one_is_passed_over_and_told(checkpoints, damage):
    publish(checkpoints, 3)
    publish(checkpoints, 9)
    damage(checkpoints.folder / "step-00000009")
    assert checkpoints.newest().step == 3
    (skipped,) = checkpoints.skipped
    assert skipped.step == 9
    assert skipped.why
    with pytest.raises(StoreError, match="damaged"):
        checkpoints.at(9)
    publish(checkpoints, 9, attempt=2)
    assert checkpoints.newest().attempt == 2
    assert checkpoints.skipped == []


def test_sizes_alone_are_looked_at_when_asked(checkpoints):
    publish(checkpoints, 9)
    damage_flipped(checkpoints.folder / "step-00000009")
    assert checkpoints.newest() is None
    assert checkpoints.newest(verify="size").step == 9
    damage_truncated(checkpoints.folder / "step-00000009")
    assert checkpoints.newest(verify="size") is None


def test_digests_that_are_given_are_not_made_again(checkpoints):
    aside = checkpoints.begin(1, 1)
    (aside / "state.bin").write_bytes(b"state")
    manifest = checkpoints.publish(aside, 1, 1, digests={"state.bin": digest(b"state")})
    assert manifest.files["state.bin"].digest.startswith("xxh3_128:")
    assert checkpoints.newest() is not None
    aside = checkpoints.begin(2, 1)
    (aside / "state.bin").write_bytes(b"state")
    checkpoints.publish(aside, 2, 1, digests={"state.bin": digest(b"other")})
    assert checkpoints.newest().step == 1


def test_without_xxhash_digests_are_blake2b_and_foreign_ones_count_by_size(checkpoints, monkeypatch):
    publish(checkpoints, 1)
    monkeypatch.setattr(module, "xxhash", None)
    monkeypatch.setattr(module, "_ALGORITHM", "blake2b")
    aside = checkpoints.begin(2, 1)
    (aside / "state.bin").write_bytes(b"state")
    manifest = checkpoints.publish(aside, 2, 1, digests={"state.bin": digest(b"state")})
    assert manifest.files["state.bin"].digest.startswith("blake2b:")
    monkeypatch.undo()
    assert checkpoints.newest().step == 2
    (checkpoints.folder / "step-00000002" / "state.bin").write_bytes(b"State")
    assert checkpoints.newest().step == 1
    monkeypatch.setattr(module, "xxhash", None)
    assert checkpoints.newest(at_most=1).step == 1


def test_a_stale_attempt_cannot_begin_nor_publish(checkpoints, trial):
    stale = Checkpoints(trial)
    aside = stale.begin(9, 1)
    (aside / "state.bin").write_bytes(b"stale")
    publish(checkpoints, 3, attempt=2)
    with pytest.raises(StaleAttempt, match="attempt 2"):
        stale.begin(9, 1)
    with pytest.raises(StaleAttempt, match="attempt 1 tried"):
        stale.publish(aside, 9, 1)
    assert checkpoints.steps() == [3]
    with pytest.raises(StaleAttempt):
        publish(stale, 3, attempt=1)
    assert checkpoints.newest().attempt == 2


def test_a_new_attempt_fences_the_old_before_it_writes_anything(checkpoints, trial):
    stale = Checkpoints(trial)
    aside = stale.begin(9, 1)
    checkpoints.fence(2)
    with pytest.raises(StaleAttempt):
        stale.publish(aside, 9, 1)
    with pytest.raises(StaleAttempt):
        stale.fence(1)


def test_who_shows_a_checkpoint_waits_for_another_that_is_showing_one(checkpoints, trial):
    aside = checkpoints.begin(9, 1)
    other = fence.held(trial.folder, 1)
    other.__enter__()
    showing = threading.Thread(target=checkpoints.publish, args=(aside, 9, 1))
    showing.start()
    showing.join(0.2)
    assert showing.is_alive()
    assert checkpoints.steps() == []
    other.__exit__(None, None, None)
    showing.join()
    assert checkpoints.steps() == [9]


def test_a_torn_fence_says_nothing_and_is_written_again(checkpoints, trial):
    publish(checkpoints, 3, attempt=2)
    with open(trial.folder.with_name("attempts"), "r+b") as file:
        file.write(b"\x00" * 20 * 8)
    publish(checkpoints, 9, attempt=3)
    with pytest.raises(StaleAttempt):
        checkpoints.begin(10, 2)


def test_a_step_done_again_replaces_its_checkpoint(checkpoints):
    publish(checkpoints, 9, attempt=1, data=b"first")
    publish(checkpoints, 9, attempt=1, data=b"second")
    publish(checkpoints, 9, attempt=4, data=b"third")
    newest = checkpoints.newest()
    assert (newest.attempt, newest.file("state.bin").read_bytes()) == (4, b"third")
    assert sorted(os.listdir(checkpoints.folder)) == ["step-00000009"]


def test_a_crash_between_the_two_renames_of_a_replacement_loses_nothing(checkpoints):
    publish(checkpoints, 9, data=b"old")
    plain = checkpoints.folder / "step-00000009"
    os.rename(plain, plain.with_name("step-00000009.old"))
    newest = checkpoints.newest()
    assert newest.file("state.bin").read_bytes() == b"old"
    assert checkpoints.steps() == [9]
    publish(checkpoints, 9, attempt=2, data=b"new")
    assert checkpoints.newest().file("state.bin").read_bytes() == b"new"
    assert sorted(os.listdir(checkpoints.folder)) == ["step-00000009"]
    shutil.copytree(plain, plain.with_name("step-00000009.old"))
    checkpoints.remove(9)
    assert checkpoints.newest() is None
    assert checkpoints.steps() == []


def test_what_dead_attempts_left_half_written_is_swept(checkpoints, trial):
    dead = Checkpoints(trial).begin(3, 1)
    (dead / "state.bin").write_bytes(b"half")
    alive = checkpoints.begin(3, 2)
    assert not dead.exists()
    assert alive.exists()
    checkpoints.discard(alive)
    assert os.listdir(checkpoints.folder) == []


def test_removing_takes_one_away_and_twice_is_no_error(checkpoints):
    publish(checkpoints, 3)
    publish(checkpoints, 9)
    checkpoints.remove(9)
    checkpoints.remove(9)
    assert checkpoints.newest().step == 3
    assert sorted(os.listdir(checkpoints.folder)) == ["step-00000003"]


def test_nothing_waits_for_the_disk_until_settle(checkpoints, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    publish(checkpoints, 3)
    publish(checkpoints, 9)
    assert synced == []
    assert checkpoints.settle() == [3, 9]
    folder = checkpoints.folder
    step = folder / "step-00000009"
    assert {step / "state.bin", step / "parts" / "0.bin", step / "manifest.json", step, step / "parts"} <= {
        type(folder)(name) for name in synced
    }
    assert synced[-4:] == [str(folder), *(str(parent) for parent in list(folder.parents)[:3])]
    synced.clear()
    assert checkpoints.settle() == []
    assert synced == []


def test_a_settle_that_failed_is_done_again(checkpoints, monkeypatch):
    publish(checkpoints, 3)

    def refuse(_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(StoreError):
            checkpoints.settle()
    assert checkpoints.settle() == [3]


def test_one_that_was_removed_meanwhile_does_not_disturb_settle(checkpoints):
    publish(checkpoints, 3)
    publish(checkpoints, 9)
    checkpoints.remove(3)
    assert checkpoints.settle() == [3, 9]


def test_links_have_no_place_in_a_checkpoint(checkpoints):
    aside = checkpoints.begin(3, 1)
    (aside / "last").symlink_to("/etc/passwd")
    with pytest.raises(StoreError, match="is a link"):
        checkpoints.publish(aside, 3, 1)
    assert checkpoints.newest() is None


def test_everything_made_here_is_for_the_owner_only(checkpoints, trial):
    before = os.umask(0)
    try:
        aside = checkpoints.begin(3, 1)
        checkpoints.publish(aside, 3, 1)
    finally:
        os.umask(before)
    for path in [trial.folder, *trial.folder.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("step", [-1, "3", "../3", True, 1.0, 10**12])
def test_a_step_is_a_number(checkpoints, step):
    with pytest.raises(BadName):
        checkpoints.begin(step, 1)


def test_steps_beyond_eight_digits_sort_too(checkpoints):
    for step in (99_999_999, 100_000_000):
        publish(checkpoints, step)
    assert checkpoints.newest().step == 100_000_000


def _race(folder, attempt, barrier, told):
    mine = Checkpoints(folder)
    barrier.wait()
    for step in range(1, 30):
        try:
            aside = mine.begin(step, attempt)
            (aside / "state.bin").write_bytes(b"%d" % attempt)
            mine.publish(aside, step, attempt)
            told.put((attempt, step))
        except StaleAttempt:
            break


def test_of_two_attempts_in_two_processes_only_the_newer_shows_anything_once_it_has_begun(trial):
    context = multiprocessing.get_context("spawn")
    barrier, told = context.Barrier(2), context.Queue()
    racers = [context.Process(target=_race, args=(trial.folder, attempt, barrier, told)) for attempt in (1, 2)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    shown = Checkpoints(trial)
    assert [c.step for c in shown.all(verify="digest")] == list(range(1, 30))
    assert {c.attempt for c in shown.all()} == {2}
    assert shown.skipped == []

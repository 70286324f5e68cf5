"""What did not change since the checkpoint before is the same file again, and each checkpoint is whole by itself."""

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

import pytest
from trial.loops import FOOT
from trial.test_resume import result
from trial.world import points, said

from workbench.errors import StoreError
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.keeping.usage import checkpoint_bytes
from workbench.trial.checkpoint import tensors
from workbench.trial.checkpoint.captured import Captured
from workbench.trial.checkpoint.tensors import TENSORS
from workbench.trial.course.vault import StoreVault
from workbench.trial.looking.found import Found

torch = pytest.importorskip("torch")

#: Numbers of a tensor that has a file of its own.
LARGE = tensors.APART // 4 + 1000

#: ``body`` changes in the first step only, ``moving`` always; ``part`` is a piece of ``body`` under another name, and
#: ``twin`` has its numbers in a memory of its own.
TRAINING = f"""
import torch
body, moving = torch.zeros({LARGE}), torch.zeros({LARGE})
twin, small, part = torch.zeros({LARGE}), torch.zeros(10), body[100:200]
for step in trial.steps():
    assert part.untyped_storage().data_ptr() == body.untyped_storage().data_ptr() != twin.untyped_storage().data_ptr()
    if step == 0:
        body.normal_(); twin.copy_(body)
    moving += torch.randn({LARGE}); small += 1
    trial.report(score=moving[:9].sum() + part.sum())
part += 1
def result(): return body, moving, twin, small, part
"""


def storages(**named):
    return {name: tensor.untyped_storage() for name, tensor in named.items()}


def keep(vault, step, saved, **where):
    captured = Captured(memoryview(b"graph"), saved, {}, {}, Found([], [], [], ""))
    return vault.keep(step, partial(captured.write, earlier=vault.earlier), **where)


def inodes(folder):
    return {path.name: path.stat().st_ino for path in folder.glob("tensors-*.bin")}


def holds(folder, saved):
    read = tensors.read_storages(folder / TENSORS)
    return read.keys() == saved.keys() and all(
        tensors.bytes_of(read[key]) == tensors.bytes_of(one) for key, one in saved.items()
    )


@pytest.fixture
def paths(experiment):
    return experiment("").paths()


@pytest.fixture
def still():
    return torch.randn(LARGE)


def test_only_what_changed_is_written_and_the_trial_goes_on_the_same(server, experiment):
    cell = experiment(TRAINING + FOOT, steps=4)
    calm = server.runner()
    told = calm.leg(cell.order())
    assert told[-1]["outcome"] == "completed", told[-1]["error"]
    calm.kill()
    expected = points(told), result(calm.output())

    cell = experiment(TRAINING + FOOT, steps=4)
    told = []
    for until in (1, 2, 3, 4):
        runner = server.runner()
        told += runner.leg(cell.order(until, start=until - 1))
        assert told[-1]["error"] is None, told[-1]["error"]
        runner.kill()
    assert (points(told), result(runner.output())) == expected
    first, second = (cell.paths().checkpoints / f"step-{step:08d}" for step in (1, 2))
    assert len(inodes(first)) == len(inodes(second)) == 2  # the twin is its brother's file
    same = inodes(first).items() & inodes(second).items()
    assert len(same) == 1
    written = sum(path.stat().st_size for path in second.iterdir() if path.stat().st_nlink == 1)
    assert LARGE * 4 < written < LARGE * 4 + 20_000
    # Its size is that of all its files: it is whole by itself.
    assert said(told, "saved")[-1]["bytes"] > 2 * LARGE * 4


def test_a_checkpoint_is_whole_when_the_one_before_it_has_gone(paths, still):
    vault, checkpoints = StoreVault(paths, 1), Checkpoints(paths)
    for step in (1, 2):
        keep(vault, step, saved := storages(still=still, moved=torch.randn(LARGE), small=torch.ones(3)))
    assert checkpoints.remove(1) < LARGE * 4 + 2_000  # what the second has as well was not freed
    assert holds(checkpoints.at(2).folder, saved)
    assert checkpoints.remove(2) > 2 * LARGE * 4


def test_a_copy_of_its_folder_is_a_checkpoint(paths, still, tmp_path):
    vault = StoreVault(paths, 1)
    for step in (1, 2):
        keep(vault, step, saved := storages(still=still))
    shutil.copytree(paths.checkpoints / "step-00000002", tmp_path / "away/checkpoints/step-00000002")
    shutil.rmtree(paths.checkpoints)
    assert holds(Checkpoints(tmp_path / "away").at(2).folder, saved)


def test_a_damaged_file_is_written_again_and_the_earlier_one_stays_damaged(paths, still):
    vault, checkpoints = StoreVault(paths, 1), Checkpoints(paths)
    keep(vault, 1, saved := storages(still=still))
    (part,) = (paths.checkpoints / "step-00000001").glob("tensors-*.bin")
    with open(part, "r+b") as file:
        file.seek(LARGE)
        byte = file.read(1)[0]
        file.seek(LARGE)
        file.write(bytes([byte ^ 1]))
    keep(vault, 2, saved)
    assert part.stat().st_nlink == 1
    assert holds(checkpoints.at(2).folder, saved)
    with pytest.raises(StoreError, match=r"bytes of tensors-.* have changed"):
        checkpoints.at(1)


def test_damage_to_a_file_that_two_share_is_seen_in_both(paths, still):
    vault, checkpoints = StoreVault(paths, 1), Checkpoints(paths)
    for step in (1, 2):
        keep(vault, step, storages(still=still))
    (part,) = (paths.checkpoints / "step-00000001").glob("tensors-*.bin")
    os.truncate(part, LARGE)
    assert checkpoints.newest() is None
    assert [one.step for one in checkpoints.skipped] == [2, 1]


@pytest.mark.parametrize("order", [(True, True), (True, False), (False, True)])
def test_checkpoints_between_levels_share_as_well(paths, still, order):
    vault = StoreVault(paths, 1)
    saved, found = storages(still=still), []
    for step, passing in enumerate(order, 1):
        keep(vault, step, saved, passing=passing)
        found.append(inodes(vault.newest(step)[1]))
    assert found[0] == found[1]
    assert holds(vault.newest(2)[1], saved)


def test_what_lies_on_another_file_system_is_written(paths, still):
    away = Path(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    try:
        paths.folder.mkdir(parents=True)
        if away.stat().st_dev == paths.folder.stat().st_dev:
            pytest.skip("one file system is all there is")
        paths.passing.symlink_to(away)
        vault = StoreVault(paths, 1)
        keep(vault, 1, saved := storages(still=still), passing=True)
        vault = StoreVault(paths, 1)
        keep(vault, 2, saved)
        kept = Checkpoints(paths).at(2).folder
        assert [path.stat().st_nlink for path in kept.glob("tensors-*.bin")] == [1]
        assert holds(kept, saved)
    finally:
        shutil.rmtree(away)


def test_a_checkpoint_with_all_in_one_file_is_read_as_before(paths, still, monkeypatch):
    vault, checkpoints = StoreVault(paths, 1), Checkpoints(paths)
    saved = storages(still=still, small=torch.ones(3))
    with monkeypatch.context() as patch:
        patch.setattr(tensors, "APART", 1 << 60)
        keep(vault, 1, saved)
    assert not inodes(checkpoints.at(1).folder)
    assert holds(checkpoints.at(1).folder, saved)
    keep(vault, 2, saved)
    assert holds(checkpoints.at(2).folder, saved)


def test_no_file_outside_of_a_checkpoint_is_read(paths, still):
    keep(StoreVault(paths, 1), 1, storages(still=still))
    folder = Checkpoints(paths).at(1).folder
    (name,) = inodes(folder)
    text = (folder / TENSORS).read_bytes()
    other = "../../" + name[6:]
    assert len(other) == len(name)
    (folder / TENSORS).write_bytes(text.replace(name.encode(), other.encode()))
    with pytest.raises(StoreError, match="no part of a checkpoint has that name"):
        tensors.read_storages(folder / TENSORS)


def test_bytes_that_checkpoints_share_are_counted_once(experiment, still):
    cell = experiment("")
    paths, vault = cell.paths(), StoreVault(cell.paths(), 1)
    own = cell.store.experiment(cell.spec.id)
    keep(vault, 1, storages(still=still))
    before = checkpoint_bytes(own)
    keep(vault, 2, storages(still=still))
    keep(vault, 3, storages(still=still), passing=True)
    assert LARGE * 4 < before < checkpoint_bytes(own) < before + 10_000
    assert len(list(paths.folder.rglob("tensors-*.bin"))) == 3

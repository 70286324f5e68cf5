"""Blobs: written once, and again only where the bytes on the disk are others."""

import os

import numpy as np
import pytest

from workbench.errors import StoreError
from workbench.snapshot.capture import capture
from workbench.snapshot.loading import load
from workbench.store import Store
from workbench.store.files import blobs

DATA = b"weights" * 1000


def damaged(path):
    """Other bytes of the same length and time, as a disk that loses bits leaves them."""
    before = path.stat()
    path.write_bytes(b"X" + path.read_bytes()[1:])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_blob_is_written_once(tmp_path):
    path = tmp_path / blobs.put(tmp_path, DATA)
    before = path.stat().st_ino
    assert blobs.put(tmp_path, DATA) == path.name
    assert path.stat().st_ino == before


@pytest.mark.parametrize("is_new", [False, True], ids=["in the process that wrote it", "in another process"])
def test_one_whose_bytes_have_changed_is_written_again(tmp_path, is_new):
    path = tmp_path / blobs.put(tmp_path, DATA)
    if not is_new:
        blobs.put(tmp_path, DATA)
    damaged(path)
    assert blobs.put(tmp_path, DATA) == path.name
    assert path.read_bytes() == DATA


def test_a_link_in_its_place_is_replaced(tmp_path):
    path = tmp_path / blobs.put(tmp_path, DATA)
    other = tmp_path / "other"
    other.write_bytes(DATA)
    path.unlink()
    path.symlink_to(other)
    blobs.put(tmp_path, DATA)
    assert not path.is_symlink()
    assert path.read_bytes() == DATA


def test_captured_values_that_have_changed_on_the_disk_are_captured_again_and_never_unpickled(tmp_path):
    store = Store(tmp_path / "store").create()
    names = {"weights": np.arange(200_000.0), "rate": 0.125}
    digest = capture(names, names, store).digest
    for path in list(store.blobs.iterdir()):
        damaged(path)
    with pytest.raises(StoreError, match="have changed on the disk"):
        load(store, digest, {})
    assert capture(names, names, store).digest == digest
    assert load(store, digest, {})["weights"].tolist() == names["weights"].tolist()

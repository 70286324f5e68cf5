import errno
import os
import stat

import pytest

from workbench.errors import StoreError, StoreFull, StoreReadOnly
from workbench.store.files.atomic import from_json, make_folder, read_json, to_json, write_atomic, write_json


def test_a_file_is_replaced_whole_and_for_its_owner_only(tmp_path):
    path = tmp_path / "file"
    write_atomic(path, b"old")
    write_atomic(path, b"new" * 100_000)
    assert path.read_bytes() == b"new" * 100_000
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_bytes_then_their_fsync_then_the_name_then_its_fsync(tmp_path, monkeypatch):
    calls = []
    for name in ("write", "fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, real=real: calls.append(name) or real(*a))
    write_atomic(tmp_path / "file", b"x")
    assert calls == ["write", "fsync", "replace", "fsync"]
    calls.clear()
    write_atomic(tmp_path / "file", b"x", fsync=False)
    assert calls == ["write", "replace"]


@pytest.mark.parametrize("failing", ["write", "fsync", "replace"])
@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EFBIG, StoreFull),
        (errno.EROFS, StoreReadOnly),
        (errno.EACCES, StoreReadOnly),
        (errno.EIO, StoreError),
    ],
)
def test_a_refused_write_leaves_the_old_file_alone(tmp_path, monkeypatch, failing, number, kind):
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, refuse)
        with pytest.raises(StoreError) as told:
            write_atomic(path, b"new")
    assert type(told.value) is kind
    assert told.value.errno == number
    assert str(path) in str(told.value)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_takes_only_a_part_goes_on(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:3]))
    write_atomic(tmp_path / "file", b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"0123456789"


@pytest.mark.parametrize("data", [{"é": [1, 2.5, None]}, "\ud800", {"lone": "a\udcffb"}, float("inf"), "\u2028"])
def test_json_comes_back_and_is_valid_utf_8_on_one_line(tmp_path, data):
    raw = to_json(data)
    assert b"\n" not in raw
    raw.decode()
    assert from_json(raw) == data
    write_json(tmp_path / "x.json", data)
    assert read_json(tmp_path / "x.json") == data


def test_folders_are_made_with_what_is_missing_above_them(tmp_path):
    make_folder(tmp_path / "a" / "b" / "c", fsync=True)
    assert [stat.S_IMODE((tmp_path / p).stat().st_mode) for p in ("a", "a/b", "a/b/c")] == [0o700] * 3
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="is a file"):
        make_folder(tmp_path / "file" / "x")

"""A series that is damaged while it is open: what the open file still holds stays, and the writer goes on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from workbench.errors import Broken
from workbench.store.files.database import check, what_is_wrong
from workbench.store.series import Series


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "series.db"


def rows(trial: int, count: int) -> list[tuple[int, str, int, int, float, float]]:
    return [(trial, "acc", step, 0, step / 10, 1.0 + step) for step in range(1, count + 1)]


def written(path: Path, count: int = 2000) -> Series:
    series = Series.open(path)
    series.add_points(rows(0, count))
    series.put_trial(0, state="running")
    series.put_meta("state", "running")
    series.flush()
    return series


@pytest.mark.parametrize("gone", ["", "-wal", "-shm", "all"])
def test_files_removed_under_the_writer_lose_nothing(path: Path, gone: str) -> None:
    series = written(path)
    for ending in ("", "-wal", "-shm") if gone == "all" else (gone,):
        os.unlink(f"{path}{ending}")
    series.add_points(rows(1, 5))
    before = series._change
    assert series.flush() > before
    assert series.broken == []
    with Series.read(path) as reader:
        assert len(reader.points()) == 2005
        assert reader.trial(0)["state"] == "running"
    series.close()
    assert check(path) is None


@pytest.mark.parametrize("gone", ["", "-wal", "-shm", "all"])
@pytest.mark.parametrize("goes_on", [True, False])
def test_files_removed_while_they_are_written_lose_nothing(path: Path, gone: str, goes_on: bool) -> None:
    series = written(path)

    def remove(statement: str) -> None:
        if statement == "COMMIT":
            for ending in ("", "-wal", "-shm") if gone == "all" else (gone,):
                os.unlink(f"{path}{ending}")
            series._writer.connection.set_trace_callback(None)

    series._writer.connection.set_trace_callback(remove)
    series.add_points(rows(1, 10))
    series.flush()
    if goes_on:
        series.add_points(rows(2, 10))
        series.flush()
    assert series.broken == []
    series.close()
    with Series.read(path) as reader:
        assert len(reader.points()) == (2020 if goes_on else 2010)
    assert check(path) is None


@pytest.mark.parametrize("gone", ["", "-wal", "all"])
def test_files_removed_after_the_last_flush_are_put_back_when_it_is_closed(path: Path, gone: str) -> None:
    series = written(path)
    for ending in ("", "-wal", "-shm") if gone == "all" else (gone,):
        os.unlink(f"{path}{ending}")
    series.close()
    assert check(path) is None
    with Series.read(path) as reader:
        assert len(reader.points()) == 2000
        assert reader.trial(0)["state"] == "running"


def test_closing_brings_no_folder_back_that_was_removed(path: Path) -> None:
    path = path.parent / "experiment" / path.name
    path.parent.mkdir()
    series = written(path)
    shutil.rmtree(path.parent)
    series.close()
    assert not path.parent.exists()


@pytest.mark.parametrize("damage", ["junk", "cut", "empty", "replaced", "folder", "pipe", "link"])
def test_a_file_that_is_written_over_is_moved_away_and_the_writer_goes_on(path: Path, damage: str) -> None:
    series = written(path)
    series._writer.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[union-attr]
    series.add_points(rows(0, 1))
    series.flush()
    size = path.stat().st_size
    if damage == "junk":
        with open(path, "r+b") as file:
            file.write(os.urandom(size))
    elif damage == "cut":
        os.truncate(path, size // 2)
    elif damage == "empty":
        os.truncate(path, 0)
    else:
        path.unlink()
        if damage == "replaced":
            path.write_bytes(b"junk" * 5000)
        elif damage == "folder":
            path.mkdir()
        elif damage == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/nowhere/at/all")
    cursor = series._change
    series.add_points(rows(1, 5))
    series.flush()
    with Series.read(path) as reader:
        assert [point for point in reader.points() if point[0] == 1] == rows(1, 5)
        assert len(reader.points_after(cursor)[1]) >= 5
        if not series.broken:
            assert len(reader.points()) == 2005
    assert os.path.lexists(f"{path}.broken-1")
    if damage in ("junk", "cut", "empty"):
        assert series.broken == [path.with_name("series.db.broken-1")]
    series.close()
    assert check(path) is None


def test_a_reader_finds_the_new_file(path: Path) -> None:
    series = written(path, 3)
    reader = Series.read(path)
    assert len(reader.points()) == 3
    path.unlink()
    series.add_points(rows(0, 4))
    series.flush()
    assert len(reader.points()) == 4
    reader.close()
    series.close()


def test_what_is_wrong_is_said_without_opening_it(path: Path) -> None:
    written(path).close()
    whole = path.read_bytes()
    assert what_is_wrong(path) is None
    for damaged, says in (
        (b"", "empty"), (whole[: len(whole) // 2], "cut off"), (b"junk" * 1000, "not a database"),
    ):  # fmt: skip
        path.write_bytes(damaged)
        assert says in str(what_is_wrong(path))
    path.unlink()
    assert "missing" in str(what_is_wrong(path))
    os.mkfifo(path)
    assert "pipe" in str(what_is_wrong(path))
    with pytest.raises(Broken, match="pipe"):
        Series.read(path)


def test_one_byte_of_the_structure_is_found_when_all_of_it_is_read(path: Path, tmp_path: Path) -> None:
    written(path).close()
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    with open(copy, "r+b") as file:
        file.seek(4096 * 3)  # the first byte of a page says what kind of page it is
        byte = file.read(1)
        file.seek(4096 * 3)
        file.write(bytes([byte[0] ^ 0x80]))
    assert what_is_wrong(copy) is None
    assert check(copy) is not None
    with Series.open(copy) as series:
        assert series.damage
        assert copy.with_name("copy.db.broken-1").exists()

"""Databases that another person made to harm the reader: they are refused, or reading them ends."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from workbench.errors import Broken, StoreError
from workbench.store.files import database, foreign, packed
from workbench.store.lists.glance import Glance
from workbench.store.series import Series

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
#: What a forger may put into a database, each of which would run when it is read or written.
FORGED = {
    "view": f"ALTER TABLE trials RENAME TO t_; CREATE VIEW trials AS {ENDLESS} SELECT t_.* FROM t_, c;",
    "view of points": f"ALTER TABLE points RENAME TO p_; CREATE VIEW points AS {ENDLESS} SELECT p_.* FROM p_, c;",
    "trigger": "CREATE TRIGGER tt AFTER UPDATE ON trials BEGIN UPDATE trials SET reason = 'triggered'; END;",
    "virtual table": "CREATE VIRTUAL TABLE v USING fts5(x);",
    "computed column": "DROP TABLE meta; CREATE TABLE meta (key, value AS (hex(zeroblob(999999))), change);",
}


def recorded(path: Path, count: int = 5) -> Path:
    with Series.open(path) as series:
        series.put_trial(0, state="running")
        series.add_points([(0, "acc", step, 0, 1.0, 0.5) for step in range(1, count + 1)])
    return path


@pytest.mark.timeout(60)
@pytest.mark.parametrize("how", FORGED)
def test_a_database_with_more_than_plain_tables_is_not_read(tmp_path: Path, how: str) -> None:
    path = recorded(tmp_path / "series.db")
    with closing(sqlite3.connect(path)) as forger:
        forger.executescript(FORGED[how])
    with pytest.raises(StoreError, match=r"not a plain table.*workbench delete"):
        Series.read(path)
    with pytest.raises(StoreError, match="not a plain table"):
        Glance(path)
    assert "not a plain table" in (database.check(path) or "")
    with Series.open(path) as series:  # the engine's: it is moved away, and made again from the journal
        assert series.damage
        assert series.trials() == []


@pytest.mark.timeout(10)
@pytest.mark.parametrize("ending", ["-wal", "-journal", "-shm"])
def test_a_pipe_beside_a_database_is_not_waited_for(tmp_path: Path, ending: str) -> None:
    path = recorded(tmp_path / "series.db")
    os.mkfifo(f"{path}{ending}")
    with pytest.raises(Broken, match="a named pipe"):
        Series.read(path)


@pytest.mark.timeout(60)
def test_an_archive_of_small_files_with_a_trigger_is_neither_read_nor_written(tmp_path: Path) -> None:
    trials = tmp_path / "trials"
    trials.mkdir()
    (trials / "t0000.log.txt").write_text("printed")
    packed.pack(trials)
    with closing(sqlite3.connect(tmp_path / "packed.sqlar")) as forger:
        forger.executescript("CREATE TRIGGER tt AFTER INSERT ON sqlar BEGIN DELETE FROM checkpoints; END;")
    (trials / "t0001.log.txt").write_text("printed")
    with pytest.raises(StoreError, match="not a plain table"):
        packed.pack(trials)
    with pytest.raises(StoreError, match="not a plain table"):
        packed.read(trials / "t0000.log.txt")


@pytest.mark.timeout(120)
def test_a_query_of_pages_that_refer_to_each_other_ends(tmp_path: Path) -> None:
    path = recorded(tmp_path / "series.db", 20_000)
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    with closing(sqlite3.connect(path)) as looking:
        root = looking.execute("SELECT rootpage FROM sqlite_master WHERE name = 'points'").fetchone()[0]
    start = (root - 1) * size
    assert data[start] == 2  # an inner page of an index
    cells = int.from_bytes(data[start + 3 : start + 5], "big")
    first = int.from_bytes(data[start + 12 : start + 14], "big")
    leaf = bytes(data[start + first : start + first + 4])
    # Twelve levels of pages, each of which names the next one as often as it has room for.
    copies = [bytearray(data[start : start + size]) for _ in range(12)]
    count = len(data) // size
    for level, page in enumerate([memoryview(data)[start : start + size], *copies]):
        below = (count + level + 1).to_bytes(4, "big") if level < len(copies) else leaf
        page[8:12] = below
        for cell in range(cells):
            at = int.from_bytes(page[12 + 2 * cell : 14 + 2 * cell], "big")
            page[at : at + 4] = below
    data[28:32] = (count + len(copies)).to_bytes(4, "big")
    path.write_bytes(bytes(data) + b"".join(copies))
    begun = time.monotonic()
    with pytest.raises(Broken, match="takes far longer than its size"), Glance(path) as glance:
        sum(1 for _ in glance.points("acc", "step"))
    assert time.monotonic() - begun < 60


def test_a_query_of_a_whole_database_may_take_as_long_as_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recorded(tmp_path / "series.db", 20_000)
    # Only the file's size pays for its queries now, and each step is counted.
    monkeypatch.setattr(foreign, "_STEPS", 0)
    monkeypatch.setattr(foreign, "_TICK", 100)
    with Glance(path) as glance:
        assert sum(1 for _ in glance.points("acc", "step")) == 20_000
    with Series.read(path) as series:
        assert len(series.points()) == 20_000
        assert len(series.trials()) == 1
    assert database.check(path) is None

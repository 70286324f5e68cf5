import math
import random
import sqlite3
import stat
import threading

import pytest

from workbench.errors import NewerSchema, NotFound, StoreReadOnly
from workbench.store.series import Series


@pytest.fixture
def path(tmp_path):
    return tmp_path / "series.db"


@pytest.fixture
def series(path):
    with Series.open(path) as opened:
        yield opened


def rows(trials, steps, name="val_acc"):
    return [(t, name, s, 0, t + s / 1000, 1.7e9 + s) for s in range(steps) for t in range(trials)]


def same(left, right):
    return repr(left) == repr(right)  # nan is nan here


def test_points_are_there_after_a_flush_and_not_before(series, path):
    series.add_points(rows(2, 3))
    with Series.read(path) as reader:
        assert reader.points() == []
        series.flush()
        assert reader.points() == sorted(rows(2, 3))
        assert reader.points(trials=[1]) == sorted(rows(2, 3))[3:]
        assert reader.curves() == {(t, "val_acc"): [(s, 0, t + s / 1000) for s in range(3)] for t in range(2)}


def test_trials_and_metrics_are_chosen(series):
    series.add_points(rows(3, 2, "acc") + rows(3, 2, "loss") + [(9, "other", 1, 4, 0.5, 0.0)])
    series.flush()
    assert series.names() == ["acc", "loss", "other"]
    assert {(p[0], p[1]) for p in series.points(trials=[0, 2, 9], names=["loss", "other", "none"])} == {
        (0, "loss"),
        (2, "loss"),
        (9, "other"),
    }
    assert set(series.curves(trials=range(10_000), names=["acc"])) == {(t, "acc") for t in range(3)}
    assert series.curves(trials=[]) == {}
    assert series.points(names=[]) == []


def test_the_same_value_again_is_ignored_and_another_replaces(series):
    series.add_points([(0, "acc", 1, 0, 0.5, 10.0), (0, "acc", 2, 0, 0.6, 11.0)])
    series.flush()
    cursor, _ = series.points_after(0)
    series.add_points([(0, "acc", 1, 0, 0.5, 99.0)])
    series.flush()
    assert series.points_after(cursor) == (cursor, [])
    series.add_points([(0, "acc", 2, 0, 0.7, 12.0)])
    series.flush()
    newer, new = series.points_after(cursor)
    assert newer > cursor
    assert new == [(0, "acc", 2, 0, 0.7, 12.0)]
    assert series.points() == [(0, "acc", 1, 0, 0.5, 10.0), (0, "acc", 2, 0, 0.7, 12.0)]


def test_a_reader_by_cursor_ends_with_what_a_reader_of_all_sees(series):
    rng = random.Random(0)
    seen, cursor = {}, 0
    for _ in range(50):
        series.add_points(
            [(rng.randrange(3), rng.choice("ab"), rng.randrange(5), 0, rng.randrange(3), 0.0) for _ in range(9)]
        )
        series.flush()
        while True:
            cursor, new = series.points_after(cursor, limit=2)
            if not new:
                break
            seen.update({point[:4]: point[4] for point in new})
    assert seen == {point[:4]: point[4] for point in series.points()}


def test_values_that_are_no_numbers_are_kept(series):
    values = [math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1]
    series.add_points([(0, "x", step, 0, value, 0.0) for step, value in enumerate(values)])
    series.flush()
    assert same([point[4] for point in series.points()], values)
    assert same([point[4] for point in series.points_after(0)[1]], values)
    assert same([value for *_, value in series.curves()[0, "x"]], values)
    series.add_points([(0, "x", 0, 0, math.nan, 1.0)])
    before, _ = series.points_after(0)
    series.flush()
    assert series.points_after(before)[1] == []


def test_rows_that_are_no_points_are_left_out_told_and_keep_nobody_out(series):
    bad = [
        (1, "acc", 1, 0, "much", 0.0),
        (1, None, 1, 0, 1.0, 0.0),
        (1, "acc", None, 0, 1.0, 0.0),
        (1, "acc", 2**70, 0, 1.0, 0.0),
        (1, "acc"),
        (1, ["acc"], 1, 0, 1.0, 0.0),
        (1, "\ud800", 1, 0, 1.0, 0.0),
    ]
    for row in bad:
        series.add_points([(0, "acc", 1, 0, 0.5, 0.0), row, (0, "acc", 2, 0, 0.6, 0.0)])
        series.flush()
        assert series.refused.pop()[0] == row
    assert series.points() == [(0, "acc", 1, 0, 0.5, 0.0), (0, "acc", 2, 0, 0.6, 0.0)]
    assert series.refused == []


def test_trials_keep_the_fields_that_are_not_named(series):
    series.put_trial(7, state="waiting", configuration={"lr": 0.1, "opt": "SGD"}, bracket=2)
    series.put_trial(7, state="running")
    series.flush()
    series.put_trial(7, value=0.9, step=3, note={"any": "thing"})
    series.flush()
    series.put_trial(7, other=[1])
    series.flush()
    trial = series.trial(7)
    assert trial["configuration"] == {"lr": 0.1, "opt": "SGD"}
    assert (trial["state"], trial["value"], trial["step"], trial["best"]) == ("running", 0.9, 3, None)
    assert (trial["note"], trial["other"]) == ({"any": "thing"}, [1])


def test_a_trial_that_reported_nan_is_told_from_one_that_reported_nothing(series):
    series.put_trial(0, value=math.nan, best=-math.inf)
    series.put_trial(1)
    series.flush()
    assert same(
        [(t["value"], t["best"]) for t in series.trials()],
        [(math.nan, -math.inf), (None, None)],
    )


def test_only_what_changed_is_read_again(series):
    for number in range(5):
        series.put_trial(number, state="waiting")
    series.flush()
    change, first = series.trials_after(0)
    assert [t["number"] for t in first] == [0, 1, 2, 3, 4]
    assert series.trials_after(change) == (change, [])
    series.put_trial(3, state="running")
    series.put_leg(3, 1, start=0, until=3, worker="w", start_ms=4.5)
    series.flush()
    newer, changed = series.trials_after(change)
    assert [(t["number"], t["state"]) for t in changed] == [(3, "running")]
    assert series.trials_after(newer)[1] == []
    change, legs = series.legs_after(0)
    assert [(leg["trial"], leg["attempt"], leg["until"], leg["start_ms"]) for leg in legs] == [(3, 1, 3, 4.5)]
    assert series.legs_after(change)[1] == []


def test_what_is_put_again_as_it_was_is_no_change(series):
    fields = {
        "state": "running",
        "value": math.nan,
        "best": 0.5,
        "configuration": {"lr": 0.1},
        "note": "more",
        "ended": None,
    }
    for _ in range(2):
        series.put_trial(0, **fields)
        series.put_trial(1)
        series.put_leg(0, 1, start=0, environment={"python": "3.11"})
        series.flush()
        change, rows = series.trials_after(0)
        assert [row["number"] for row in rows] == [0, 1]
        assert (change, series.legs_after(0)[0]) == (2, 3)
    series.put_trial(0, **fields, attempt=2)
    series.flush()
    assert [row["number"] for row in series.trials_after(change)[1]] == [0]


def test_a_reader_that_looks_while_another_flushes_misses_nothing(series, path):
    """What a reader has not seen always has a number above its cursor."""
    change, seen = 0, set()
    with Series.read(path) as reader:
        for number in range(200):
            series.put_trial(number, state="running")
            if number % 3 == 0:
                series.flush()
                change, new = reader.trials_after(change)
                seen |= {t["number"] for t in new}
        series.flush()
        seen |= {t["number"] for t in reader.trials_after(change)[1]}
    assert seen == set(range(200))


def test_the_counter_goes_on_after_reopening(path):
    with Series.open(path) as series:
        series.add_points(rows(2, 2))
        series.put_meta("state", "running")
        series.put_trial(0, state="running")
    with Series.open(path) as series:
        change, _ = series.trials_after(0)
        cursor, _ = series.points_after(0)
        series.put_trial(0, state="completed")
        series.add_points([(0, "new", 9, 0, 1.0, 0.0)])
        series.flush()
        assert series.trials_after(change)[1][0]["state"] == "completed"
        assert len(series.points_after(cursor)[1]) == 1
        assert series.names() == ["val_acc", "new"]
        assert series.meta() == {"state": "running"}


def test_legs_of_one_trial(series):
    for trial, attempt in [(1, 2), (0, 1), (1, 1)]:
        series.put_leg(trial, attempt, outcome="reached", environment={"python": "3.11"})
    series.flush()
    assert [(leg["trial"], leg["attempt"]) for leg in series.legs()] == [(0, 1), (1, 1), (1, 2)]
    assert [leg["environment"]["python"] for leg in series.legs(1)] == ["3.11", "3.11"]


def test_a_trial_that_is_not_there_names_those_that_are(series):
    with pytest.raises(NotFound, match="t0007: it has none yet"):
        series.trial(7)
    series.put_trial(0)
    series.put_trial(80)
    series.flush()
    with pytest.raises(NotFound, match="t0000 to t0080"):
        series.trial(81)


def test_a_flush_that_fails_loses_nothing_and_later_fields_win(path, monkeypatch):
    from workbench.store.files import tables

    series = Series.open(path)
    series.add_points([(0, "acc", 1, 0, 0.5, 0.0)])
    series.put_trial(0, state="waiting", bracket=1)
    series.put_meta("state", "waiting")
    real = tables.write_row

    def refuse(*arguments):
        series.put_trial(0, state="running")
        series.add_points([(0, "acc", 2, 0, 0.6, 0.0)])
        series.put_meta("state", "running")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tables, "write_row", refuse)
    with pytest.raises(OSError, match="space"):
        series.flush()
    assert series.points() == []
    monkeypatch.setattr(tables, "write_row", real)
    series.flush()
    assert [p[4] for p in series.points()] == [0.5, 0.6]
    assert (series.trial(0)["state"], series.trial(0)["bracket"]) == ("running", 1)
    assert series.meta() == {"state": "running"}
    series.close()


def test_the_database_appears_whole_and_for_its_owner_only(path):
    with Series.open(path) as series:
        assert set(series.missing) >= {"points", "trials", "legs", "meta"}
        series.put_meta("a", 1)
        series.flush()
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert [file.name for file in path.parent.iterdir()] == ["series.db"]


def test_a_missing_table_is_tolerated_by_readers_and_made_again_by_the_engine(path):
    with Series.open(path) as series:
        series.add_points(rows(1, 1))
        series.put_trial(0, state="running")
    connection = sqlite3.connect(path)
    connection.executescript("DROP TABLE trials; DROP INDEX points_new")
    connection.close()
    with Series.read(path) as reader:
        assert reader.trials() == []
        assert reader.trials() == []
        assert [str(d) for d in reader.damage] == [f"{path}, byte 0: no such table: trials"]
        assert reader.points_after(0)[1] == rows(1, 1)
    with Series.open(path) as series:
        assert set(series.missing) == {"trials", "trials_new", "points_new"}
        series.put_trial(0, state="running")
        series.flush()
        assert series.trial(0)["state"] == "running"
        assert series.points() == rows(1, 1)


@pytest.mark.parametrize("garbage", [b"not a database at all" * 500, b"\x00" * 8192])
def test_a_file_that_is_no_database_is_moved_aside_and_told(path, garbage):
    path.write_bytes(garbage)
    path.with_name("series.db-wal").write_bytes(b"old")
    with Series.open(path) as series:
        assert "trials" in series.missing
        assert "not a database" in str(series.damage[0])
        assert path.with_name("series.db.broken-1").read_bytes() == garbage
        assert path.with_name("series.db.broken-1-wal").read_bytes() == b"old"
        series.put_trial(0, state="running")
        series.flush()
        assert series.trial(0)["state"] == "running"


def test_a_later_workbenchs_database_is_read_and_not_written(path):
    with Series.open(path) as series:
        series.put_trial(0, state="running")
    connection = sqlite3.connect(path)
    connection.executescript("ALTER TABLE trials ADD COLUMN tomorrow TEXT; PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(NewerSchema, match="Upgrade"):
        Series.open(path)
    with Series.read(path) as reader:
        assert reader.trial(0)["state"] == "running"


def test_a_reader_writes_nothing_and_a_missing_database_is_told(path):
    with pytest.raises(NotFound, match="not started"):
        Series.read(path)
    Series.open(path).close()
    reader = Series.read(path)
    reader.put_trial(0, state="running")
    with pytest.raises(StoreReadOnly, match=r"Series\.open"):
        reader.flush()
    reader.close()
    with pytest.raises(StoreReadOnly, match="closed"):
        reader.trials()


def test_on_a_network_file_system_it_keeps_a_rollback_journal(path):
    with Series.open(path, network=True) as series:
        series.add_points(rows(3, 3))
        series.flush()
        assert not path.with_name("series.db-wal").exists()
        with Series.read(path) as reader:
            assert len(reader.points()) == 9
    with Series.open(path, network=False) as series:
        series.add_points(rows(3, 4))
        series.flush()
        assert path.with_name("series.db-wal").exists()
        assert len(series.points()) == 12
    with Series.open(path, network=True) as series:
        assert len(series.points()) == 12


def test_many_threads_add_while_one_flushes(series):
    done = threading.Event()

    def flush():
        while not done.is_set():
            series.flush()

    flusher = threading.Thread(target=flush)
    flusher.start()
    adders = [
        threading.Thread(target=lambda t=t: [series.add_points([(t, "x", s, 0, s, 0.0)]) for s in range(300)])
        for t in range(4)
    ]
    for thread in adders:
        thread.start()
    for thread in adders:
        thread.join()
    done.set()
    flusher.join()
    series.flush()
    assert {k: len(v) for k, v in series.curves().items()} == {(t, "x"): 300 for t in range(4)}


def test_polls_use_indexes(path):
    from workbench.store.files import tables

    with Series.open(path) as series:
        connection = series._writer.connection
        for query in (
            "SELECT id, name, trial, step, idx, value, time FROM points WHERE id > 5 ORDER BY id LIMIT -1",
            tables.query_rows("trials", "WHERE change > 5 ORDER BY change"),
            tables.query_rows("legs", "WHERE change > 5 ORDER BY change"),
            "SELECT step, idx, value FROM points WHERE name = 1 AND trial = 3 ORDER BY step, idx",
        ):
            (plan,) = connection.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
            assert plan[3].startswith("SEARCH"), plan

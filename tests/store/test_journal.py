import json
import math
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import NewerSchema, StoreError, StoreFull
from workbench.store import journal
from workbench.store.journal import Journal


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.jsonl"


def filled(path, count):
    with Journal.open(path) as writer:
        for k in range(count):
            writer.append({"kind": "Reached", "k": k})


def ks(path, after=0):
    return [line["k"] for line in journal.read(path, after)]


def test_a_line_is_there_when_commit_has_returned_and_not_before(path):
    writer = Journal.open(path)
    assert writer.append({"kind": "Reached", "k": 0}) == 1
    assert ks(path) == []
    assert writer.durable == 0
    assert writer.commit() == 1
    assert writer.durable == writer.n == 1
    (line,) = journal.read(path)
    assert line["n"] == 1
    assert line["schema"] == 1
    assert line["at"].endswith("+00:00")
    writer.close()


def test_what_the_lines_refer_to_is_stored_first_and_without_it_no_line_is_written(path):
    writer, found = Journal.open(path), []

    def full():
        raise StoreFull("no space")

    writer.append({"kind": "Reached", "k": 0})
    writer.first = full
    with pytest.raises(StoreFull):
        writer.commit()
    assert (ks(path), writer.durable) == ([], 0)

    def first():
        found.append(ks(path))
        writer.append({"kind": "Reached", "k": 1})  # comes while the other lines are written: it waits for its turn

    writer.first = first
    assert writer.commit() == 1
    assert (found, ks(path)) == ([[]], [0])
    writer.first = lambda: found.append(ks(path))
    writer.close()
    assert (found, ks(path)) == ([[], [0]], [0, 1])


def test_numbers_go_on_where_the_last_process_was(path):
    filled(path, 3)
    filled(path, 2)
    assert [line["n"] for line in journal.read(path)] == [1, 2, 3, 4, 5]
    assert journal.last(path)["n"] == 5


@pytest.mark.parametrize("cut", range(1, 40, 4))
def test_a_torn_last_line_is_passed_over_then_cut_off_and_told(path, cut):
    filled(path, 3)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    damage = []
    assert [line["k"] for line in journal.read(path, damage=damage)] == [0, 1]
    assert "torn" in str(damage[0])
    assert journal.last(path)["k"] == 1
    writer = Journal.open(path)
    assert len(writer.damage) == 1
    assert path.stat().st_size == whole.index(b"\n", whole.index(b"\n") + 1) + 1
    assert writer.append({"kind": "Reached", "k": 9}) == 3
    writer.close()
    damage.clear()
    assert [line["k"] for line in journal.read(path, damage=damage)] == [0, 1, 9]
    assert damage == []


@pytest.mark.parametrize("tail", [b"\x00" * 4096, b"\x00\x00\n", b'{"no": "number"}\n', b"[1]\n\n\n"])
def test_what_a_power_cut_leaves_at_the_end_is_cut_off(path, tail):
    filled(path, 2)
    with path.open("ab") as file:
        file.write(tail)
    writer = Journal.open(path)
    assert writer.damage
    assert writer.n == 2
    writer.close()
    assert ks(path) == [0, 1]


def test_damage_further_up_is_told_and_the_rest_is_read(path):
    filled(path, 4)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = b"x" * 20 + b"\n"
    path.write_bytes(b"".join(lines))
    damage = []
    assert [line["k"] for line in journal.read(path, damage=damage)] == [0, 2, 3]
    assert [d.where for d in damage] == [len(lines[0]), len(lines[0]) + 21]
    assert "line 3 follows line 1" in str(damage[1])


@pytest.mark.parametrize("after", [0, 1, 499, 500, 998, 999, 1000, 2000])
def test_reading_after_a_number_gives_what_is_behind_it(path, after):
    filled(path, 1000)
    assert ks(path, after) == list(range(after, 1000))


def test_reading_what_is_new_looks_at_the_end_only(path, monkeypatch):
    filled(path, 5000)
    looked = []
    whole = journal._line
    monkeypatch.setattr(journal, "_line", lambda raw: looked.append(raw) or whole(raw))
    assert ks(path, 4998) == [4998, 4999]
    assert len(looked) < 10


def test_lines_longer_than_a_block_and_awkward_text_come_back(path):
    texts = ["x" * 200_000, "\r\n\u2028\x85", "é" * 70_000, "\ud800 half a pair", ""]
    with Journal.open(path) as writer:
        for text in texts:
            writer.append({"kind": "note", "k": text, "value": math.nan})
    assert ks(path) == texts
    assert ks(path, after=3) == texts[3:]
    with Journal.open(path) as writer:
        assert writer.n == len(texts)
        assert writer.damage == ()


def test_threads_append_while_others_commit_and_nothing_is_lost(path):
    writer = Journal.open(path)

    def work(name):
        for k in range(200):
            writer.append({"kind": "x", "k": (name, k)})
            if k % 7 == 0:
                writer.commit()

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    lines = list(journal.read(path))
    assert [line["n"] for line in lines] == list(range(1, 801))
    for name in range(4):
        assert [line["k"][1] for line in lines if line["k"][0] == name] == list(range(200))


def test_lines_that_wait_share_one_fsync(path, monkeypatch):
    writer = Journal.open(path)
    calls = []
    for name in ("pwrite", "fsync"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, real=real: calls.append(name) or real(*a))
    for k in range(500):
        writer.append({"kind": "x", "k": k})
    writer.commit()
    writer.commit()
    assert calls == ["pwrite", "fsync"]
    writer.close()


@pytest.mark.parametrize("failing", ["pwrite", "fsync"])
@pytest.mark.parametrize("can_cut", [True, False])
def test_after_a_full_disk_commit_goes_on_where_it_was(path, monkeypatch, failing, can_cut):
    writer = Journal.open(path)
    writer.append({"kind": "x", "k": 0})
    writer.commit()
    size, real = path.stat().st_size, os.pwrite

    def full(*_):
        raise OSError(28, "No space left on device")

    def half(descriptor, data, at):
        return real(descriptor, data[:10], at) if at == size else full()

    writer.append({"kind": "x", "k": 1})
    with monkeypatch.context() as patch:
        patch.setattr(os, failing, half if failing == "pwrite" else full)
        if not can_cut:
            patch.setattr(os, "ftruncate", full)
        for _ in range(2):
            with pytest.raises(StoreFull, match="Free some space"):
                writer.commit()
        assert writer.durable == 1
        assert writer.append({"kind": "x", "k": 2}) == 3
    assert writer.commit() == 3
    assert ks(path) == [0, 1, 2]
    writer.close()


def test_a_later_workbenchs_journal_is_read_and_not_continued(path):
    filled(path, 1)
    with path.open("a") as file:
        file.write(json.dumps({"n": 2, "at": "", "schema": 99, "kind": "Tomorrow", "k": 7}) + "\n")
    before = path.read_bytes()
    with pytest.raises(NewerSchema, match="Upgrade"):
        Journal.open(path)
    assert ks(path) == [0, 7]
    assert path.read_bytes() == before


def test_lines_without_a_schema_are_old_and_open(path):
    path.write_text('{"n": 1, "at": "", "kind": "x", "k": 5}\n')
    with Journal.open(path) as writer:
        assert writer.append({"kind": "x", "k": 6}) == 2
    assert ks(path) == [5, 6]


def test_the_journals_own_keys_are_not_given_by_others(path):
    with Journal.open(path) as writer:
        for key in ("n", "at", "schema"):
            with pytest.raises(ValueError, match="the journal gives them"):
                writer.append({"kind": "x", key: 1})
        with pytest.raises(TypeError):
            writer.append({"kind": "x", "k": object()})
        assert writer.append({"kind": "x", "k": 0}) == 1


def test_a_closed_journal_says_so(path):
    writer = Journal.open(path)
    writer.close()
    writer.close()
    writer.append({"kind": "x"})
    with pytest.raises(StoreError, match="closed"):
        writer.commit()


def test_a_missing_journal_has_no_lines(path):
    assert list(journal.read(path)) == []
    assert journal.last(path) is None


@pytest.mark.parametrize(
    "value",
    [
        "NaN", "-Infinity", "1e400", "123456789012345678901234567890", "-0", "-0.0", "0.1", "5e-324", "1E5",
        r'"\ud800"', r'"\ud83d\ude00"', r'"\u0000"', '"é"', '""', "[[], {}]", '{"a": 1, "a": 2}', "true", "null",
    ],
)  # fmt: skip
def test_a_value_is_read_as_json_reads_it(path, value):
    path.write_text(f'{{"n": 1, "kind": "X", "value": {value}}}\n')
    [line] = journal.read(path)
    wanted = json.loads(value)
    assert repr(line["value"]) == repr(wanted)


@pytest.mark.parametrize("value", ["[1,]", "01", "+1", ".5", "'a'", '"\x01"', "nul", "1 2", "[" * 100_000, "{1: 2}"])
def test_a_line_that_json_refuses_is_damage(path, value):
    path.write_text(f'{{"n": 1, "kind": "X", "value": {value}}}\n{{"n": 2, "kind": "X"}}\n')
    damage = []
    assert [line["n"] for line in journal.read(path, damage=damage)] == [2]
    assert len(damage) == 1


LINE = st.one_of(
    st.integers(0, 9).map(lambda k: {"kind": "Reached", "k": k}),
    st.text(max_size=4).map(lambda text: {"kind": "X", "text": text}),
    st.just({"kind": 7}),
    st.sampled_from([math.nan, 10**30, [], {}]).map(lambda value: {"value": value}),
)
#: A place in the file, bytes that are removed there, and bytes that are put there instead.
CHANGE = st.tuples(
    st.integers(0, 400),
    st.sampled_from([0, 1, 2, 30]),
    st.sampled_from([b"", b"\n", b" ", b"\n\n", b"{}", b"}{", b'{"n":3}\n', b"\xff", b"\0", b"0"]),
)


@given(lines=st.lists(LINE, max_size=8), changes=st.lists(CHANGE, max_size=3))
def test_a_journal_that_is_read_at_once_is_read_as_line_by_line(tmp_path_factory, lines, changes):
    path = tmp_path_factory.mktemp("journal") / "events.jsonl"
    data = b"".join(json.dumps({"n": n, **line}).encode() + b"\n" for n, line in enumerate(lines, 1))
    for place, removed, put in changes:
        place %= len(data) + 1
        data = data[:place] + put + data[place + removed :]
    path.write_bytes(data)
    found = []
    for at_once in (journal._AT_ONCE, -1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(journal, "_AT_ONCE", at_once)
            damage = []
            found.append((repr(list(journal.read(path, damage=damage))), damage))
    assert found[0] == found[1]

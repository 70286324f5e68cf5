import json
import os
import time

import pytest

from workbench.errors import BadName
from workbench.store import requests


def test_requests_wait_in_order_and_are_taken_away(store):
    asked = [requests.put(store, {"kind": "stop", "k": k}) for k in range(20)]
    assert [(i, r["k"]) for i, r in requests.pending(store)] == list(zip(asked, range(20), strict=True))
    for number in asked[:10]:
        requests.remove(store, number)
        requests.remove(store, number)
    assert [i for i, _ in requests.pending(store)] == asked[10:]


def test_order_holds_even_when_the_clock_is_set_back(store, monkeypatch):
    first = requests.put(store, {"kind": "a"})
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    second = requests.put(store, {"kind": "b"})
    assert [i for i, _ in requests.pending(store)] == [first, second]


BROKEN = {
    "half-written": b'{"schema":1,"kind":"st',
    "empty": b"",
    "no object": b"[1, 2]",
    "no kind": b'{"schema":1}',
    "a kind that is no text": b'{"schema":1,"kind":7}',
    "of a later Workbench": b'{"schema":99,"kind":"stop"}',
    "a schema that is no number": b'{"schema":"x","kind":"stop"}',
    "no text": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_no_request_is_moved_aside_once_and_told(store, what):
    good = requests.put(store, {"kind": "stop"})
    path = store.requests / "20261120-140312-000001-00000000.json"
    path.write_bytes(BROKEN[what])
    refused = []
    assert [i for i, _ in requests.pending(store, refused)] == [good]
    (bad,) = refused
    assert bad.id == "20261120-140312-000001-00000000"
    assert bad.path == store.refused_requests / path.name
    assert bad.path.read_bytes() == BROKEN[what]
    assert bad.why
    assert not path.exists()
    refused.clear()
    requests.pending(store, refused)
    assert refused == []


def test_a_second_broken_one_of_the_same_name_is_kept_too(store):
    for data in (b"1", b"2"):
        (store.requests / "x.json").write_bytes(data)
        requests.pending(store)
    assert sorted(path.read_bytes() for path in store.refused_requests.iterdir()) == [b"1", b"2"]


def test_a_file_that_is_being_written_is_let_be_until_its_writer_must_be_dead(store):
    path = store.requests / ".20261120-140312-000001-00000000.json.1234abcd.writing"
    path.write_bytes(b'{"kind"')
    refused = []
    assert requests.pending(store, refused) == []
    assert refused == []
    long_ago = time.time() - 2 * requests.ABANDONED_S
    os.utime(path, (long_ago, long_ago))
    assert requests.pending(store, refused) == []
    assert [bad.id for bad in refused] == ["20261120-140312-000001-00000000"]
    assert not path.exists()


def test_a_request_never_says_its_own_schema_to_the_engine(store):
    number = requests.put(store, {"kind": "stop", "trial": 7})
    assert json.loads((store.requests / f"{number}.json").read_bytes())["schema"] == 1
    assert requests.pending(store) == [(number, {"kind": "stop", "trial": 7})]


@pytest.mark.parametrize("number", ["../../etc/passwd", "", "x", "20261120-140312-000001-00000000/../x"])
def test_no_id_removes_a_file_elsewhere(store, number):
    with pytest.raises(BadName):
        requests.remove(store, number)


def test_a_store_without_requests_has_none(tmp_path):
    from workbench.store import Store

    assert requests.pending(Store(tmp_path / "nothing")) == []

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

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


def later(seconds):
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_a_request_that_may_wait_is_left_until_it_is_due(store):
    far = requests.put(store, {"kind": "delete", "not_before": later(60)})
    due = requests.put(store, {"kind": "delete", "not_before": later(-1)})
    assert [i for i, _ in requests.pending(store)] == [due]
    requests.remove(store, due)
    assert 0 < requests.next_due(store) <= 60
    requests.remove(store, far)
    soon = requests.put(store, {"kind": "delete", "not_before": later(0.2)})
    time.sleep(requests.next_due(store))
    assert requests.next_due(store) == 0
    assert [i for i, _ in requests.pending(store)] == [soon]


@pytest.mark.parametrize("when", ["soon", 7, later(3 * 24 * 3600)], ids=["word", "number", "far"])
def test_a_time_that_is_none_or_too_far_off_is_refused(store, when):
    requests.put(store, {"kind": "delete", "not_before": when})
    refused = []
    assert requests.pending(store, refused) == []
    assert len(refused) == 1
    assert requests.next_due(store) is None


def test_a_request_is_taken_back_until_somebody_has_taken_it(store):
    first, second = (requests.put(store, {"kind": "delete", "not_before": later(60)}) for _ in range(2))
    assert requests.state(store, first) == "waiting"
    assert requests.withdraw(store, first) == "withdrawn"
    assert requests.withdraw(store, first) == "gone"
    assert not requests.take(store, first)
    assert requests.take(store, second)
    assert requests.withdraw(store, second) == requests.state(store, second) == "taken"
    # The engine that took it died: the next one finds it, due or not.
    assert [i for i, _ in requests.pending(store)] == [second]
    assert requests.take(store, second)
    requests.remove(store, second)
    assert requests.state(store, second) == requests.withdraw(store, second) == "gone"


@pytest.mark.parametrize("number", ["../../etc/passwd", "", "x"])
def test_no_id_takes_back_a_file_elsewhere(store, number):
    with pytest.raises(BadName):
        requests.withdraw(store, number)


RACE = """
import sys
from pathlib import Path
from workbench.store import Store, requests
store, ids, go = Store(sys.argv[1]), sys.argv[4:], Path(sys.argv[3])
while not go.exists():
    pass
for number in ids:
    print(requests.take(store, number) if sys.argv[2] == "take" else requests.withdraw(store, number))
"""


def test_of_taking_and_taking_back_at_the_same_moment_exactly_one_wins(store, tmp_path):
    ids = [requests.put(store, {"kind": "delete", "k": k}) for k in range(200)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    sides = []
    for verb, order in (("take", ids), ("withdraw", ids), ("withdraw", ids[::-1])):
        command = [sys.executable, "-c", RACE, str(store.root), verb, str(tmp_path / "go"), *order]
        sides.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    (tmp_path / "go").touch()
    told = [side.communicate(timeout=60)[0].split() for side in sides]
    assert [side.returncode for side in sides] == [0, 0, 0]
    for taken, back, other in zip(told[0], told[1], told[2][::-1], strict=True):
        assert [taken == "True", back == "withdrawn", other == "withdrawn"].count(True) == 1

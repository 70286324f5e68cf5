"""Cached results stay while they are of use, with the blobs that they need."""

import json
import os
import time

import pytest
from store.test_cleaning import A, B, age, old_blob

from workbench.store.files.kinds import kind_of
from workbench.store.journal import Journal
from workbench.store.keeping import cached, cleaning, usage
from workbench.store.keeping.cached import Result
from workbench.store.lists.said import Said

DAY = 24 * 3600


def kept(store, key="ab" * 32, users=(A,), days=0.0):
    """A kept result that was last used some days ago."""
    result = Result(
        key,
        "prepare",
        old_blob(store, key.encode()),
        ((old_blob(store, key.encode() * 9), 576),),
        (0,),
        {},
        (),
        1.0,
        users,
    )
    cached.write(store, result)
    then = time.time() - days * DAY
    os.utime(store.cached / f"{key}.json", (then, then))
    return result


def experiment(store, make_spec, key, state="completed"):
    store.write_spec(make_spec(key))
    with Journal.open(store.experiment(key).journal) as journal:
        journal.append({"kind": "Finish", "state": state, "reason": ""})


def gone(store):
    before = cleaning.sweep(store, Said(), dry_run=True)
    cleaned = cleaning.sweep(store, Said())
    assert (cleaned.things, cleaned.bytes) == (before.things, before.bytes)
    return cleaned.things["cached"], cleaned.things["blobs"]


def test_what_was_written_is_read(store):
    result = kept(store)
    assert cached.read(store, result.key) == result
    assert cached.read(store, "cd" * 32) is None
    assert kind_of(f"cached/{result.key}.json").name == "cached result"


@pytest.mark.parametrize(
    ("users", "days", "goes"),
    [((), 0.5, False), ((), 2, True), ((B,), 2, True), ((A,), 2, False), ((A,), 29, False), ((A,), 31, True)],
)
def test_it_goes_a_month_after_its_last_use_or_a_day_after_the_last_experiment(store, make_spec, users, days, goes):
    experiment(store, make_spec, A)
    result = kept(store, users=users, days=days)
    assert gone(store) == ((1, 2) if goes else (0, 0))
    assert (cached.read(store, result.key) is None) == goes
    assert store.has_blob(result.stream) != goes


def test_it_stays_as_long_as_an_experiment_that_used_it_can_go_on(store, make_spec):
    store.write_spec(make_spec(A))
    kept(store, days=1000)
    assert gone(store) == (0, 0)


def test_a_use_is_noted(store, make_spec):
    experiment(store, make_spec, A)
    experiment(store, make_spec, B)
    result = kept(store, days=31)
    cached.use(store, result, B)
    assert gone(store) == (0, 0)
    assert cached.read(store, result.key).users == (A, B)
    assert time.time() - os.stat(store.cached / f"{result.key}.json").st_mtime < 60


def test_its_blobs_count_as_needed_and_as_no_experiments_own(store, make_spec):
    store.write_spec(make_spec(A))
    result = kept(store)
    found = usage.usage(store)
    assert found.unnamed == 0
    assert found.blobs == 64 + 576
    assert found.experiments[A].own == 0
    (store.cached / f"{result.key}.json").unlink()
    assert usage.usage(store).unnamed == 64 + 576


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"schema": 1}), json.dumps({"schema": 99})])
def test_a_damaged_one_is_none_and_goes(store, text):
    result = kept(store)
    path = store.cached / f"{result.key}.json"
    path.write_text(text)
    age(path)
    assert cached.read(store, result.key) is None
    assert gone(store)[0] == 1

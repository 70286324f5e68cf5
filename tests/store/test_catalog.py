import json
import os
import time

import pytest
from tinydb import TinyDB

from workbench.errors import BadName, NewerSchema, NotFound, StoreFull, StoreReadOnly
from workbench.facts import CapacityChanged, Ended, Failed, Finish, PauseAsked, Reached, ResumeAsked, StopAsked, to_line
from workbench.search import Search
from workbench.store import Store
from workbench.store.journal import Journal
from workbench.store.lists import catalog as module
from workbench.store.lists.catalog import Catalog, Reference, read_catalog, resolve
from workbench.store.lists.rows import is_line
from workbench.store.series import Series

IDS = [f"20261120-14031{k}-abcdef" for k in range(6)]


def began(store, spec, *records):
    """An experiment as the engine leaves it: a spec, and a journal with what its search says to these facts."""
    store.write_spec(spec)
    search = Search.of(spec)
    with Journal.open(store.experiment(spec.id).journal) as journal:
        journal.append({"kind": "Began", "experiment": spec.id, "label": spec.label})
        for record in records:
            if isinstance(record, dict):
                journal.append(record)
                continue
            for line in (record, *([] if isinstance(record, Finish) else search.handle(record))):
                journal.append(to_line(line))
    return spec


LEG = {"kind": "LegStarted", "trial": 0, "attempt": 1, "start": 0, "until": 3}
SEARCH = [
    CapacityChanged(2),
    LEG,
    Reached(1, 1, float("nan")),
    Ended(0, 5, 0.625),
    Reached(2, 1, 0.75),
    Failed(3, "ValueError: 3"),
]


def test_fields_are_set_and_those_not_named_stay(store):
    catalog = Catalog(store)
    catalog.upsert_experiment(IDS[0], {"name": "digits", "version": 1, "state": "running", "tags": []})
    catalog.upsert_experiment(IDS[0], {"state": "completed"})
    (entry,) = catalog.experiments()
    assert entry == {
        "id": IDS[0],
        "name": "digits",
        "version": 1,
        "label": "digits@1",
        "state": "completed",
        "tags": [],
    }
    entry["state"] = "changed by who looks"
    assert catalog.get(IDS[0])["state"] == "completed"
    catalog.upsert_experiment(IDS[0], {"name": "numbers"})
    assert catalog.find("numbers")["label"] == "numbers@1"
    assert catalog.find("digits") is None
    assert catalog.get("nobody") is None


def test_the_newest_version_is_found(store):
    catalog = Catalog(store)
    for k, version in enumerate([1, 10, 2]):
        catalog.upsert_experiment(IDS[k], {"name": "digits", "version": version})
    assert catalog.find("digits")["version"] == 10
    assert catalog.find("digits", 2)["id"] == IDS[2]
    assert catalog.find("digits", 3) is None


def test_the_file_is_tinydbs_and_replaced_whole(store):
    catalog = Catalog(store)
    catalog.upsert_experiment(IDS[0], {"name": "digits", "version": 1})
    assert not store.catalog_path.exists()
    catalog.flush()
    inode = store.catalog_path.stat().st_ino
    with TinyDB(store.catalog_path, access_mode="r") as plain:
        assert [dict(d)["label"] for d in plain.table("experiments")] == ["digits@1"]
        assert plain.table("about").all() == [{"schema": 1}]
        catalog.upsert_experiment(IDS[0], {"state": "running"})
        catalog.flush()
    assert store.catalog_path.stat().st_ino != inode
    assert [path.name for path in store.root.iterdir() if "writing" in path.name] == []


def test_it_is_written_at_most_twice_a_second_and_only_when_it_changed(store, monkeypatch):
    clock = [100.0]
    slept = []
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(module.time, "sleep", slept.append)
    catalog = Catalog(store)
    catalog.upsert_experiment(IDS[0], {"name": "a", "version": 1, "created": ""})
    catalog.flush()
    catalog.flush()
    assert slept == [0.0]
    clock[0] += 0.125
    catalog.upsert_experiment(IDS[0], {"state": "running"})
    catalog.flush()
    assert slept == [0.0, 0.375]
    assert read_catalog(store)[0]["state"] == "running"
    catalog.upsert_experiment(IDS[0], {"state": "completed"})
    catalog.close()
    assert slept == [0.0, 0.375]
    assert read_catalog(store)[0]["state"] == "completed"


def test_a_full_disk_leaves_the_old_list_and_the_next_flush_goes_on(store, monkeypatch):
    catalog = Catalog(store)
    catalog.upsert_experiment(IDS[0], {"name": "a", "version": 1, "state": "running", "created": ""})
    catalog.close()

    def refuse(*_):
        raise OSError(28, "No space left on device")

    catalog.upsert_experiment(IDS[1], {"name": "b", "version": 1, "state": "running", "created": ""})
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse)
        with pytest.raises(StoreFull):
            catalog.close()
    assert [entry["id"] for entry in read_catalog(store)] == IDS[:1]
    catalog.close()
    assert [entry["id"] for entry in read_catalog(store)] == IDS[:2]


def test_it_is_made_again_from_specs_and_journals(store, make_spec):
    began(store, make_spec(IDS[0], "digits", notebook="digits.ipynb", content="c"), *SEARCH)
    began(store, make_spec(IDS[1], "digits", 2), *SEARCH, Finish("completed", "nothing is left to run"))
    began(store, make_spec(IDS[2], "waits"))
    began(store, make_spec(IDS[3], "pauses"), *SEARCH, PauseAsked("me"))
    began(
        store,
        make_spec(IDS[4], "stops"),
        CapacityChanged(2),
        PauseAsked("me"),
        ResumeAsked("me"),
        LEG,
        StopAsked(None, "enough"),
    )
    store.write_spec(make_spec(IDS[5], "never asked for"))
    catalog = Catalog.rebuild(store)
    entries = catalog.experiments()
    assert [(e["id"], e["state"]) for e in entries] == list(
        zip(IDS[:5], ["running", "completed", "waiting", "paused", "stopping"], strict=True)
    )
    first = entries[0]
    assert (first["label"], first["goal"], first["trials"], first["steps"]) == ("digits@1", "max val_acc", 6, 7)
    assert first["best"] == {"trial": 0, "value": 0.625}  # the best at the highest level, as the search has it
    assert first["counts"] == {"paused": 2, "completed": 1, "failed": 1, "running": 2}
    assert first["failures"] == {"count": 1, "error": "ValueError: 3", "same": 1}
    assert first["planned"]["trials"] == 49
    assert (first["notebook"], first["content"], first["ended"]) == ("digits.ipynb", "c", None)
    assert first["started"]
    assert entries[1]["ended"]
    assert entries[1]["reason"] == "nothing is left to run"
    assert read_catalog(store) == entries


def test_what_people_said_is_made_again_too(store, make_spec):
    spec = began(store, make_spec(IDS[0]))
    with Journal.open(store.journal_path) as journal:
        journal.append({"kind": "tag", "experiment": spec.id, "tags": ["old"]})
        journal.append({"kind": "rename", "experiment": spec.id, "name": "numbers"})
        journal.append({"kind": "tag", "experiment": spec.id, "tags": ["a", "b"]})
        journal.append({"kind": "note", "experiment": spec.id, "note": "good"})
        journal.append({"kind": "answer", "request": "x", "accepted": True, "experiment": spec.id})
    for entry in (Catalog.rebuild(store).experiments()[0], read_catalog(store)[0]):
        assert (entry["label"], entry["tags"], entry["note"]) == ("numbers@1", ["a", "b"], "good")
    store.catalog_path.unlink()
    assert read_catalog(store)[0]["label"] == "numbers@1"


def test_a_list_that_catches_up_with_a_journal_keeps_what_people_said(store, make_spec):
    spec = began(store, make_spec(IDS[0]))
    with Journal.open(store.journal_path) as journal:
        journal.append({"kind": "rename", "experiment": spec.id, "name": "numbers"})
        journal.append({"kind": "tag", "experiment": spec.id, "tags": ["a"]})
    Catalog.rebuild(store)
    later = time.time() + 5
    os.utime(store.catalog_path, (later, later))
    # The engine was killed before it wrote the list, and nothing was said since.
    with Journal.open(store.experiment(spec.id).journal) as journal:
        journal.append(to_line(Finish("completed", "done")))
    os.utime(store.experiment(spec.id).journal, (later + 1, later + 1))
    catalog = Catalog(store)
    assert catalog.rebuild_if_needed() == [spec.id]
    (entry,) = catalog.experiments()
    assert (entry["label"], entry["state"], entry["tags"]) == ("numbers@1", "completed", ["a"])


@pytest.mark.parametrize("damage", [None, b"", b'{"experiments": {"1": {"na', b"[]", b'{"experiments": 7}', b"\xff"])
def test_a_missing_or_damaged_list_is_tolerated_and_told(store, make_spec, damage):
    began(store, make_spec(IDS[0]), *SEARCH)
    if damage is not None:
        store.catalog_path.write_bytes(damage)
    assert [entry["id"] for entry in read_catalog(store)] == IDS[:1]
    catalog = Catalog(store)
    assert bool(catalog.damage) == (damage is not None)
    assert catalog.rebuild_if_needed() == IDS[:1]
    assert [entry["id"] for entry in catalog.experiments()] == IDS[:1]


def test_a_list_older_than_a_journal_catches_up_and_a_fresh_one_is_believed(store, make_spec):
    for key in IDS[:3]:
        began(store, make_spec(key))
    catalog = Catalog.rebuild(store)
    catalog.upsert_experiment(IDS[0], {"state": "running", "tags": ["kept"]})
    catalog.close()
    later = time.time() + 5
    os.utime(store.catalog_path, (later, later))
    assert Catalog(store).rebuild_if_needed() == []
    with Journal.open(store.experiment(IDS[0]).journal) as journal:
        journal.append(to_line(Finish("completed", "done")))
    os.utime(store.experiment(IDS[0]).journal, (later + 1, later + 1))
    catalog = Catalog(store)
    assert catalog.rebuild_if_needed() == IDS[:1]
    assert (catalog.get(IDS[0])["state"], catalog.get(IDS[0])["tags"]) == ("completed", ["kept"])


def test_a_damaged_spec_keeps_nobody_else_out(store, make_spec):
    began(store, make_spec(IDS[0]))
    began(store, make_spec(IDS[1]))
    store.experiment(IDS[0]).spec.write_bytes(b"{")
    assert [(entry["id"], entry["state"] == "unreadable") for entry in read_catalog(store)] == [
        (IDS[0], True),
        (IDS[1], False),
    ]
    assert [entry["id"] for entry in Catalog.rebuild(store).experiments()] == IDS[:2]


def test_a_later_workbenchs_list_is_read_and_not_written(store):
    line = {"id": IDS[0], "name": "a", "label": "a@1", "state": "dreaming", "created": "2099", "tomorrow": 1}
    tables = {"about": {"1": {"schema": 99}}, "experiments": {"1": line}}
    store.catalog_path.write_text(json.dumps(tables))
    with pytest.raises(NewerSchema):
        Catalog(store)
    assert read_catalog(store) == [line]


ODD = [
    {"id": "x"}, {"id": "../x"}, {"id": 7}, {}, [], 7, {"label": {"a": 1}}, {"state": ["running"]}, {"created": 5},
    {"note": {"a": 1}}, {"tags": {"a": 1}}, {"tags": [{"a": 1}]}, {"pins": "t0000"}, {"best": 3}, {"counts": [1]},
    {"name": {"a": 1}}, {"version": "one"}, {"notebook": {"a": 1}},
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_a_list_with_a_line_of_another_form_is_not_believed(store, make_spec, odd):
    """As its author wrote it, in a store that came from elsewhere."""
    began(store, make_spec(IDS[0]), *SEARCH)
    (sound,) = read_catalog(store)
    row = {**sound, "reason": "made up", **odd} if isinstance(odd, dict) and len(odd) == 1 and "id" not in odd else odd
    store.catalog_path.write_text(json.dumps({"experiments": {"1": row}}))
    assert read_catalog(store) == [sound]
    Catalog(store).rebuild_if_needed()


def test_a_label_of_another_type_in_the_journal_changes_nothing(store, make_spec):
    began(store, make_spec(IDS[0]))
    with Journal.open(store.journal_path) as journal:
        for kind, field in (("rename", "name"), ("tag", "tags"), ("note", "note")):
            journal.append({"kind": kind, "experiment": IDS[0], field: {"a": 1}})
    (row,) = read_catalog(store)
    assert (row["name"], row["label"], row.get("tags"), row.get("note")) == ("digits", "digits@1", None, None)


@pytest.mark.parametrize(
    "odd", [{"name": {"a": 1}}, {"created": 5}, {"version": "x"}, {"notebook": {"a": 1}}, {"id": 4}]
)
def test_an_experiment_whose_spec_has_a_field_of_another_type_is_unreadable(store, make_spec, odd):
    began(store, make_spec(IDS[0]))
    path = store.experiment(IDS[0]).spec
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **odd}))
    (row,) = read_catalog(store)
    assert (row["id"], row["state"], is_line(row)) == (IDS[0], "unreadable", True)
    assert "a field of the spec has another type" in row["reason"]


def test_a_list_that_is_larger_than_its_experiments_need_is_not_read(store, make_spec):
    began(store, make_spec(IDS[0]))
    catalog = Catalog.rebuild(store)
    catalog.upsert_experiment(IDS[0], {"note": "n" * (4 << 20)})
    catalog.close()
    assert len(read_catalog(store)[0]["note"]) == 4 << 20, "the longest note"
    data = json.loads(store.catalog_path.read_bytes())
    store.catalog_path.write_text(json.dumps({**data, "more": {"1": {"x": [[]] * (2 << 20)}}}))
    assert store.catalog_path.stat().st_size > 8 << 20
    assert read_catalog(store)[0].get("note") is None, "the journals were read"


def test_a_list_without_a_schema_is_old_and_opens(store):
    store.catalog_path.write_text(json.dumps({"experiments": {"7": {"id": IDS[0], "name": "a", "version": 1}}}))
    catalog = Catalog(store)
    catalog.upsert_experiment(IDS[0], {"state": "running"})
    catalog.upsert_experiment(IDS[1], {"name": "b", "version": 1})
    assert [(e["id"], e["name"]) for e in catalog.experiments()] == [(IDS[0], "a"), (IDS[1], "b")]


def test_a_store_opened_read_only_has_no_catalog_to_write(store):
    with pytest.raises(StoreReadOnly):
        Catalog(Store(store.root, readonly=True))
    with pytest.raises(StoreReadOnly):
        Catalog.rebuild(Store(store.root, readonly=True))
    assert read_catalog(Store(store.root, readonly=True)) == []


def test_a_name_and_its_parts_are_resolved(store, make_spec):
    began(store, make_spec(IDS[0], "digits", 1))
    began(store, make_spec(IDS[1], "digits", 2))
    store.write_spec(make_spec(IDS[2], "just asked"))
    Catalog.rebuild(store)
    with Series.open(store.experiment(IDS[1]).series) as series:
        series.put_trial(7, state="running")
    assert resolve(store, "digits") == Reference(IDS[1], "digits@2")
    assert resolve(store, "digits@1") == Reference(IDS[0], "digits@1")
    assert resolve(store, "digits@2/t0007") == Reference(IDS[1], "digits@2", 7)
    assert resolve(store, " digits/t7:27 ") == Reference(IDS[1], "digits@2", 7, 27)
    assert resolve(store, f"{IDS[0]}/t0003") == Reference(IDS[0], "digits@1", 3)
    assert resolve(store, IDS[2]) == Reference(IDS[2], "just asked@1")
    assert str(resolve(store, "digits@2/t7:27")) == "digits@2/t0007:27"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("digist", "Did you mean digits?"),
        ("digits@3", "no version 3: it has 1, 2"),
        ("zzz", "There is digits; workbench ls shows all"),
        ("digits@2/t0008", "no trial t0008: it has t0007 to t0007"),
        ("20261120-140310-abcdeg", f"Did you mean {IDS[0]}?"),
    ],
)
def test_what_is_not_there_is_told_with_the_nearest(store, make_spec, text, says):
    began(store, make_spec(IDS[0], "digits", 1))
    began(store, make_spec(IDS[1], "digits", 2))
    with Series.open(store.experiment(IDS[1]).series) as series:
        series.put_trial(7, state="running")
    with pytest.raises(NotFound) as told:
        resolve(store, text)
    assert says in str(told.value)


@pytest.mark.parametrize(
    "text", ["digits@x", "digits@-1", "digits/7", "digits/t7:x", "digits/t0007:", "digits@٣", "a/../b"]
)
def test_what_can_be_no_name_is_refused(store, make_spec, text):
    began(store, make_spec(IDS[0]))
    with pytest.raises(BadName):
        resolve(store, text)


@pytest.mark.parametrize("text", ["", "../../etc", "\x00", "x" * 300])
def test_odd_names_are_not_found_and_touch_nothing(store, text):
    with pytest.raises((NotFound, BadName)):
        resolve(store, text)


def test_an_empty_store_says_how_to_begin(store):
    assert read_catalog(store) == []
    with pytest.raises(NotFound, match="%%train"):
        resolve(store, "digits")

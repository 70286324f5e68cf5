"""Versions of a name, where processes write at the same time."""

import dataclasses
import multiprocessing

from workbench.records import Program
from workbench.store import Store
from workbench.store.lists.catalog import Catalog
from workbench.store.lists.numbering import next_version, versions_of, write_numbered


def write_together(root, spec, ready, told):
    store = Store(root)
    spec = dataclasses.replace(spec, version=next_version(store, spec.name))
    ready.wait(30)
    told.put(write_numbered(store, spec).label)


def test_experiments_that_are_written_together_get_versions_of_their_own(store, make_spec):
    forking = multiprocessing.get_context("fork")
    ready, told = forking.Barrier(4), forking.Queue()
    keys = [f"20261120-14031{k}-abcdef" for k in range(4)]
    processes = [forking.Process(target=write_together, args=(store.root, make_spec(key), ready, told)) for key in keys]
    for process in processes:
        process.start()
    labels = sorted(told.get(timeout=60) for _ in processes)
    for process in processes:
        process.join(60)
    assert labels == ["digits@1", "digits@2", "digits@3", "digits@4"]
    assert sorted(store.read_spec(key).label for key in keys) == labels


def test_its_own_version_stays_where_it_is_free_and_the_text_has_the_name_of_the_new_one(store, make_spec):
    named = Program("cell", "x = 1\n", "<digits@7>")
    first = write_numbered(store, make_spec("20261120-140310-abcdef", version=7))
    second = write_numbered(store, make_spec("20261120-140311-abcdef", version=7))
    third = make_spec("20261120-140312-abcdef", version=7)
    third = write_numbered(store, dataclasses.replace(third, program=named))
    assert [one.version for one in (first, second, third)] == [7, 8, 9]
    assert third.program.filename == "<digits@9>"
    assert second.program.filename == "digits.py"
    assert versions_of(store, "digits") == {7, 8, 9}
    assert next_version(store, "other") == 1


def test_a_version_under_which_another_experiment_is_listed_is_taken(store, make_spec):
    other = write_numbered(store, make_spec("20261120-140310-abcdef", name="other"))
    catalog = Catalog(store)
    catalog.upsert_experiment(other.id, {"name": "digits", "version": 1, "state": "running", "created": other.created})
    catalog.close()
    assert write_numbered(store, make_spec("20261120-140311-abcdef")).label == "digits@2"

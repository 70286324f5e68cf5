"""Experiments that were renamed, imported under another name, or deleted: everything tells the name that is listed."""

from __future__ import annotations

import importlib
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from running import engine, spec_of
from share.conftest import SOURCE

import workbench as wb
from workbench import asked
from workbench.asking import ask
from workbench.errors import BadOption, NotFound
from workbench.records import Spec
from workbench.share import export, publish, take_in, write_table
from workbench.status.board import Board, sentence
from workbench.status.figure import heading
from workbench.store import Store
from workbench.store.keeping.cleaning import missing
from workbench.store.lists.catalog import Catalog


def test_a_name_given_here_is_the_one_that_is_told_and_goes_along(
    trained: tuple[Store, Spec], other: Store, tmp_path: Path
) -> None:
    store, spec = trained
    export(store, "shared", tmp_path / "one.zip")
    take_in(other, tmp_path / "one.zip", name="theirs")
    ask(other, asked.Rename(spec.id, "mine"))
    there = wb.open("mine", store=other)
    assert (there.name, there.label, str(there.best).partition("/")[0]) == ("mine", "mine@1", "mine@1")
    board = Board(other, spec.id)
    board.look()
    assert sentence(board).startswith("mine@1 completed")
    assert heading(board)[0].startswith("mine@1 ")
    assert "mine@1" in there._repr_html_()
    write_table(other, "mine", tmp_path / "points.csv")
    assert set(pd.read_csv(tmp_path / "points.csv")["experiment"]) == {"mine@1"}
    lost = there[min(set(range(len(there.records))) - {there.best.number})]
    with pytest.raises(NotFound, match=rf"mine@1/{lost.label} has no checkpoint.*`workbench show mine@1/"):
        wb.open("mine", store=other, trust=True)[lost.number].load(2)
    assert published_as(other, tmp_path / "page") == "mine@1"
    export(other, "mine", tmp_path / "two.zip")
    third = Store(tmp_path / "third")
    for source in (tmp_path / "two.zip", tmp_path / "page"):
        with engine(third):
            assert take_in(third, source)["label"] == "mine@1"
        shutil.rmtree(third.root)


def published_as(store: Store, folder: Path) -> str:
    publish(store, "mine", str(folder))
    assert "<h1>mine@1</h1>" in (folder / "index.html").read_text()
    return wb.open(str(folder)).label


def test_a_trial_is_not_taken_for_its_whole_experiment(trained: tuple[Store, Spec], tmp_path: Path) -> None:
    store, _ = trained
    exporter = importlib.import_module("workbench.exporters.mirrors.following")
    for carry in (
        lambda: export(store, "shared@1/t0003", tmp_path / "t.zip"),
        lambda: publish(store, "shared@1/t0003", str(tmp_path / "page")),
        lambda: exporter.write(store, "shared@1/t0003", f"tensorboard:{tmp_path / 'events'}"),
        lambda: wb.open("shared@1/t0003", store=store),
    ):
        with pytest.raises(BadOption, match=r"'shared@1/t0003' names a trial; expected an experiment. Write shared@1"):
            carry()
    assert not list(tmp_path.iterdir())


def test_what_changed_is_told_from_the_version_that_is_listed_before_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    mine, first, second = (
        replace(spec_of(SOURCE, tmp_path, seed=seed, name="odd"), version=seed) for seed in (1, 1, 2)
    )
    catalog = Catalog(store)
    for spec, name in ((mine, "odd"), (replace(first, seed=7), "theirs"), (second, "theirs")):
        store.write_spec(spec)
        catalog.upsert_experiment(spec.id, {"name": name, "version": spec.version, "state": "running", "created": ""})
    catalog.close()
    assert wb.open("theirs", store=store).changed == ["changed since @1: seed 7 → 2"]
    assert wb.open("odd", store=store).changed == []


def test_what_was_deleted_answers_no_more_and_says_so(
    trained: tuple[Store, Spec], other: Store, tmp_path: Path
) -> None:
    export(trained[0], "shared", tmp_path / "one.zip")
    take_in(other, tmp_path / "one.zip")
    handle = wb.open("shared", store=other)
    best, table = handle.best, handle.trials
    ask(other, asked.Delete(handle.id))
    for answer in (lambda: handle.best, lambda: handle.trials, handle.curves, lambda: handle.state, handle.wait):
        with pytest.raises(NotFound, match=f"there is no experiment {handle.id}"):
            answer()
    assert repr(handle) == "<shared: deleted>"
    assert "deleted" in handle._repr_html_()
    assert str(best).startswith("shared@1/t")
    assert "shared@1 was deleted" in str(missing(other, handle.spec, best.number, None))
    take_in(other, tmp_path / "one.zip")
    pd.testing.assert_frame_equal(handle.trials, table)

"""The list of experiments is sent again only if it has changed, and no change is missed."""

from __future__ import annotations

import pytest

from workbench.store import requests
from workbench.store.files.database import state_of
from workbench.store.lists.catalog import Catalog
from workbench.store.series import Series
from workbench_ext.server import experiments
from workbench_ext.server.watching import listed


@pytest.fixture
def tag(jp_fetch):
    """The list's tag now; None if the list is as it was at ``before``."""

    async def tag(before: str = '""') -> str | None:
        headers = {"If-None-Match": before}
        response = await jp_fetch("workbench", "api", "experiments", headers=headers, raise_error=False)
        assert (response.code, bool(response.body)) in ((200, True), (304, False))
        return response.headers["Etag"] if response.code == 200 else None

    return tag


async def test_an_unchanged_list_is_neither_sent_nor_read_again(tag, digits, monkeypatch):
    before = await tag()
    monkeypatch.setattr(experiments, "experiments", None)  # reading the list again would fail
    assert await tag(before) is None
    # A proxy that compresses weakens the tag.
    assert await tag(f"W/{before}") is None


async def test_a_changed_line_and_a_new_one_are_sent(tag, digits, store):
    before = await tag()
    catalog = Catalog(store)
    catalog.upsert_experiment(digits, {"note": "good"})
    catalog.close()
    after = await tag(before)
    assert after not in (None, before)
    line = {"name": "new", "label": "new@1", "state": "completed", "created": "2026-01-03"}
    catalog.upsert_experiment("20260103-000000-cccccc", line)
    catalog.close()
    assert await tag(after) is not None


async def test_what_the_engine_writes_only_to_a_series_is_sent(tag, digits, store):
    catalog = Catalog(store)
    catalog.upsert_experiment(digits, {"state": "paused"})
    catalog.close()
    before = await tag()
    assert await tag(before) is None
    with Series.open(store.experiment(digits).series) as series:
        series.put_meta("reason", "in its series")
        series.flush()
        assert await tag(before) is not None


async def test_an_experiment_that_waits_to_be_deleted_is_sent_as_such(tag, ask, digits, store):
    before = await tag()
    requests.put(store, {"kind": "delete", "experiment": digits})
    assert await tag(before) is not None
    (line,) = [one for one in (await ask("experiments"))["experiments"] if one["id"] == digits]
    assert line["deleting"]


async def test_a_list_without_all_its_sparklines_says_so_and_has_no_tag_of_the_store(
    tag, ask, digits, store, monkeypatch
):
    monkeypatch.setattr(experiments, "_sparks", {})  # another test may have had them drawn
    # No time for drawing, and then enough: how long it takes depends on the machine.
    monkeypatch.setattr(experiments.Lines.__init__, "__defaults__", (-1.0,))
    assert await tag() != listed.tag_of(store)
    assert (await ask("experiments"))["more"] is True
    monkeypatch.setattr(experiments.Lines.__init__, "__defaults__", (5.0,))
    assert await tag() == listed.tag_of(store)
    assert "more" not in await ask("experiments")
    assert state_of(store.experiment(digits).series)[0] is not None


async def test_a_list_with_an_experiment_that_trains_is_read_each_time(digits, store):
    catalog = Catalog(store)
    catalog.upsert_experiment(digits, {"state": "running"})
    catalog.close()
    assert listed.tag_of(store) is None


def test_a_list_that_must_be_read_from_journals_has_no_tag(store):
    assert listed.tag_of(store) is None

"""What an engine does about experiments that the one before left under way, with a real store and no cluster."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.engine.asking.book import Book
from workbench.engine.tending import reopening
from workbench.engine.tending.disk import Disk
from workbench.engine.tending.reopening import Reopening
from workbench.errors import NewerSchema, NotFound, Untrusted
from workbench.records import UNREADABLE
from workbench.store import Store, journal
from workbench.store.lists.catalog import Catalog


class Place:
    """A store, and experiments that begin or raise."""

    def __init__(self, root: Path) -> None:
        self.store = Store(root / ".workbench").create()
        self.catalog, self.disk = Catalog(self.store), Disk()
        self.book = Book(self.store, lambda: None)
        self.errors: dict[str, Exception] = {}
        self.begun: list[str] = []
        self.gone: set[str] = set()
        self.reopening = Reopening(
            self.store, self.catalog, self.book, self.disk, self._begin, lambda experiment: experiment in self.gone
        )

    def _begin(self, experiment: str) -> None:
        if experiment in self.errors:
            raise self.errors[experiment]
        self.begun.append(experiment)

    @property
    def lines(self) -> list[tuple[str, str]]:
        return [(line["kind"], line["experiment"]) for line in journal.read(self.store.journal_path)]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(reopening, "HELD_UP_S", 0.0)  # the next look tries again at once: no test waits for a clock
    made = Place(tmp_path)
    yield made
    made.book.close()


def test_one_that_the_disk_holds_up_begins_when_the_disk_takes_it(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.errors["e"] = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with caplog.at_level(logging.WARNING, "workbench.engine"):
        place.reopening.go_on("e")
        place.reopening.look()
    assert place.reopening.held_up == {"e"}
    assert len(caplog.records) == 1, "it is logged once"
    del place.errors["e"]
    place.reopening.look()
    assert (place.begun, place.reopening.held_up, place.lines) == (["e"], set(), [])


def test_one_that_was_deleted_meanwhile_is_not_opened_again(place: Place) -> None:
    place.errors["e"] = OSError(errno.EROFS, "read-only")
    place.reopening.go_on("e")
    del place.errors["e"]
    place.gone.add("e")
    place.reopening.look()
    assert (place.begun, place.reopening.held_up) == ([], set())


@pytest.mark.parametrize("error", [NotFound("no spec"), ValueError("nonsense"), OSError("not a plain file")])
def test_one_whose_files_are_not_valid_is_listed_by_name_and_once(place: Place, error: Exception) -> None:
    place.errors["e"] = error
    place.reopening.go_on("e")
    place.reopening.go_on("e")
    entry = place.catalog.get("e")
    assert entry is not None
    assert (entry["state"], str(error) in entry["reason"]) == (UNREADABLE, True)
    assert place.lines == [("Unreadable", "e")]


@pytest.mark.parametrize("error", [NewerSchema("a later one"), Untrusted("from elsewhere")])
def test_one_that_may_not_go_on_is_refused_and_stays_as_it_is(place: Place, error: Exception) -> None:
    place.errors["e"] = error
    place.reopening.go_on("e")
    assert place.catalog.get("e") is None
    assert place.lines == [("Refused", "e")]

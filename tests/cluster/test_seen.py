"""Digests of files that training read: computed once, and again when the file changes. No leg waits for them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from workbench.cluster.workers.keeping import Keeper
from workbench.cluster.workers.seen import Digests, Sight
from workbench.store import Store


def told(work: Any) -> Any:
    return asyncio.run(work)


def test_a_file_is_read_once_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1\n2\n")
    digests = Digests()
    assert digests.known(str(path)) is None
    first = told(digests.read(str(path)))
    assert (first["size"], first["rows"]) == (4, 2)
    assert digests.known(str(path)) == first
    path.write_text("1\n3\n")
    os.utime(path, (1, 1))
    assert digests.known(str(path)) is None
    assert told(digests.read(str(path)))["digest"] != first["digest"]
    path.unlink()
    assert digests.known(str(path)) == told(digests.read(str(path))) == {}
    digests.close()


def test_what_is_known_is_told_at_once_and_the_rest_when_it_was_read(tmp_path: Path) -> None:
    one, two, gone = (str(tmp_path / name) for name in ("one", "two", "gone"))
    for path in (one, two):
        Path(path).write_text(path)
    digests = Digests()

    async def leg() -> tuple[dict[str, Any], list[dict[str, Any]]]:
        await digests.read(one)
        later: list[dict[str, Any]] = []
        sight = Sight(digests, later.append)
        first = sight.first({"paths": [one, two, gone], "beyond": 0})
        await sight.left(None)
        return first["files"], later

    at_once, later = told(leg())
    assert list(at_once) == [one, two]
    assert at_once[one]["digest"]
    assert at_once[two] == {}
    [message] = later
    assert message["files"][two]["digest"]
    digests.close()


def test_files_that_are_asked_for_and_opened_are_absent_once(tmp_path: Path) -> None:
    one, two = (str(tmp_path / name) for name in ("one", "two"))
    digests = Digests()
    found = Sight(digests, lambda _: None).first({"paths": [one], "absent": [two, one], "there": ["/x"], "beyond": 0})
    assert (found["absent"], found["there"], found["files"]) == ([two, one], ["/x"], {})
    digests.close()


def test_what_changed_since_the_leg_opened_it_is_said_and_its_bytes_are_not_kept(tmp_path: Path) -> None:
    one, two, late = (tmp_path / name for name in ("one", "two", "late"))
    marks = {}
    for path in (one, two, late):
        path.write_text("1")
        status = path.stat()
        marks[str(path)] = [status.st_size, status.st_mtime_ns, status.st_ino]
    two.write_text("2")
    digests = Digests()
    store = Store(tmp_path / "store").create()

    async def leg() -> list[dict[str, Any]]:
        await digests.read(str(one))
        later: list[dict[str, Any]] = []
        sight = Sight(digests, later.append, Keeper(store, 100))
        first = sight.first({"paths": [*marks], "marks": marks, "beyond": 0})
        await sight.left(None)
        return [first["files"], *(message["files"] for message in later)]

    first, *_, last = told(leg())
    # Until its digest is known, the mark tells whether a file is still the one that was opened.
    assert first[str(late)] == {"size": 1, "mark": marks[str(late)][1:]}
    assert [file.get("mixed", False) for file in last.values()] == [False, True, False]
    assert [file.get("not_kept") for file in last.values()] == [None, "changing", None]
    digests.close()


def test_a_large_file_is_sampled_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "large.bin"
    with open(path, "wb") as file:
        file.truncate((1 << 26) + 1)
    digests = Digests()
    assert told(digests.read(str(path)))["sampled"] is True
    digests.close()

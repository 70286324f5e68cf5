"""Damage to each file of a store, one at a time: doctor finds it, or it does no harm, and the rest is still shown."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from store.damaging import DAMAGES, files, small_store, typed

from workbench.cli.commands import doctor
from workbench.cli.commands.doctor import Finding
from workbench.store import Store
from workbench.store.files import kinds

#: Levels of doctor's findings: a problem (exit code 1), a warning (the engine repairs it, or the user only needs to
#: know), or nothing, since no other file refers to what was lost.
P, W, N = "problem", "warning", ""
_JSON = {"deleted": N, **dict.fromkeys(("emptied", "cut", "flipped", "junk", "deep", "huge"), P)}
_ANEW = {"deleted": N, **dict.fromkeys(("emptied", "cut", "flipped", "junk", "deep", "huge"), W)}
#: Free text or bytes: doctor cannot know what they should be.
_FREE = dict.fromkeys(("deleted", "emptied", "cut", "flipped", "junk", "deep", "huge"), N)
#: No file of any kind may be one of these: they would block a reader, or lead it elsewhere.
_NO_FILE = dict.fromkeys(("unreadable", "folder", "pipe", "link"), P)
_ALL = dict.fromkeys(DAMAGES, P)

#: What doctor says of each kind of file, by the damage.
TABLE: dict[str, dict[str, str]] = {
    "catalog": {**_ANEW, **_NO_FILE, "deleted": W},
    "store journal": {**_ALL, "deleted": N, "emptied": N, "cut": W},
    "engine": {**_ANEW, **_NO_FILE},
    "lock": {**_FREE, **_NO_FILE},
    "engine log": {**_FREE, **_NO_FILE},
    "notify": {**_JSON, **_NO_FILE},
    "request": {**_FREE, **_NO_FILE},
    "document": {**_JSON, **_NO_FILE},
    # 200 MB are digested in one look; of a larger blob only that it is a file.
    "blob": {**_ALL, "huge": N},
    "snapshot": _ALL,
    "notebook run": {**_JSON, **_NO_FILE},
    "notebook's file": {**_FREE, **_NO_FILE, "folder": N},
    "spec": _ALL,
    "journal": _ALL,
    # What stands behind a database's last page changes nothing.
    "series": {**_ALL, "huge": N},
    "data": {**_JSON, **_NO_FILE},
    "set-up": {**_JSON, **_NO_FILE},
    "set-up lock": {**_FREE, **_NO_FILE},
    "cached result": {**_JSON, **_NO_FILE},
    "cached lock": {**_FREE, **_NO_FILE},
    "mirror": {**_FREE, **_NO_FILE, "folder": N},
    "manifest": _ALL,
    "checkpoint": _ALL,
    "small checkpoints": {**_ALL, "deleted": N},
    "packed": {**_ALL, "deleted": N, "huge": N},
    "own mark": {**_FREE, **_NO_FILE},
    "fence": {**_FREE, **_NO_FILE},
    "storage": {**_FREE, **_NO_FILE, "folder": N},
    "log": {**_FREE, **_NO_FILE},
    "kept file": {**_FREE, **_NO_FILE, "folder": N},
}
#: Kinds that the small store does not hold: other tests damage them, or nothing reads them.
ELSEWHERE = {
    "unfinished", "broken", "mark", "refused request", "snapshot's notebook", "snapshot's code", "environment",
    "beside series", "passing", "held", "rank",
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return small_store(tmp_path_factory.mktemp("damage") / "whole")


def told(store: Store) -> list[Finding]:
    """What doctor says of the files, besides that all is well and that a request waits for an engine."""
    looks = (doctor._requests, doctor._catalog, doctor._engine, doctor._files)
    every = [finding for look in looks for finding in doctor._safely(look, store)]
    return [one for one in every if one.level != "ok" and "waiting, and no engine is running" not in one.says]


def test_the_table_names_every_kind_of_file(whole: Store) -> None:
    there = {relative: kinds.kind_of(relative) for relative in files(whole)}
    assert [relative for relative, kind in there.items() if kind is None] == []
    assert {kind.name for kind in there.values() if kind is not None} == TABLE.keys()
    assert TABLE.keys() | ELSEWHERE == {kind.name for kind in kinds.KINDS}
    assert told(whole) == []


@pytest.mark.parametrize("kind", TABLE)
def test_damage_is_found_and_the_rest_is_shown(whole: Store, tmp_path: Path, kind: str) -> None:
    relative = next(one for one in files(whole) if kinds.kind_of(one).name == kind)  # type: ignore[union-attr]
    for name, damage in DAMAGES.items():
        store = Store(tmp_path / name)
        shutil.copytree(whole.root, store.root)
        damage(store.root / relative)
        found = told(store)
        level = P if any(one.level == P for one in found) else W if found else N
        assert level == TABLE[kind][name], (name, found)
        if level == P:
            assert any(str(store.root) in one.says for one in found), found
            if name == "pipe":  # all of it takes a second: it looks at the machine as well
                code, said = typed(store, "doctor")
                assert code == 1, said
                assert "all intact" not in said
        code, said = typed(store, "ls")
        assert (code, "tiny@1" in said) == (0, True), (name, said)
        code, said = typed(store, "show", "tiny")
        # Without its spec an experiment cannot be shown; it is said why.
        assert code == 0 or (kind == "spec" and code in (3, 5)), (name, said)
        assert "Traceback" not in said
        shutil.rmtree(store.root)

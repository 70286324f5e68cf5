"""What training read is kept by content: once, whole, consistent, no secret, and only as far as there is room."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from workbench.cluster.workers import keeping
from workbench.cluster.workers.keeping import Keeper, is_secret
from workbench.cluster.workers.seen import Digests, Sight, told
from workbench.snapshot.surroundings.data import describe
from workbench.store import Store
from workbench.store.keeping.kept import NOT_KEPT


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").create()


def described(path: Path) -> dict[str, Any]:
    return told(describe(path))


def test_a_file_is_kept_once_by_its_content(store: Store, tmp_path: Path) -> None:
    one, other = tmp_path / "a.csv", tmp_path / "b.csv"
    for path in (one, other):
        path.write_bytes(b"1,2\n")
    keeper = Keeper(store, 1000)
    kept = {keeper.keep(str(path), described(path))["kept"] for path in (one, other)}
    assert kept == {hashlib.sha256(b"1,2\n").hexdigest()}
    one.write_bytes(b"3,4\n")  # written in place: the kept file is a copy, not a link
    assert store.get_blob(kept.pop(), verify=True) == b"1,2\n"


def test_what_is_not_kept_says_why(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x" * 100)
    found = described(path)
    assert Keeper(store, 0).keep(str(path), found) == {"not_kept": "off"}
    assert Keeper(store, 99).keep(str(path), found) == {"not_kept": "large"}
    assert Keeper(store, 100, quota=99).keep(str(path), found) == {"not_kept": "quota"}
    assert Keeper(store, 100).keep(f"{tmp_path}/", described(tmp_path)) == {"not_kept": "folder"}
    assert Keeper(store, 100).keep(str(path), {**found, "digest": "0" * 32}) == {"not_kept": "changing"}
    monkeypatch.setattr(keeping, "_ROOM", 1 << 60)
    assert Keeper(store, 100).keep(str(path), found) == {"not_kept": "full"}
    assert {"off", "large", "quota", "folder", "changing", "full"} <= NOT_KEPT.keys()
    assert os.listdir(store.blobs) == []


def test_a_file_that_changes_while_it_is_copied_is_not_kept(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"1")
    found = described(path)
    before, count = keeping._marks, 0

    def marks(name: str) -> Any:
        nonlocal count
        count += 1
        if count % 2 == 0:
            with open(path, "ab") as file:
                file.write(b"2")
        return before(name)

    monkeypatch.setattr(keeping, "_marks", marks)
    assert Keeper(store, 100).keep(str(path), found) == {"not_kept": "changing"}


def test_a_path_whose_content_changes_again_and_again_is_not_kept_for_ever(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "_CONTENTS", 4)
    path, keeper, said = tmp_path / "log.bin", Keeper(store, 100), []
    for number in range(6):
        path.write_bytes(b"x" * (number + 1))
        said.append(keeper.keep(str(path), described(path)).get("not_kept"))
    assert said == [None, None, None, None, "changes", "changes"]


@pytest.mark.parametrize(
    "name",
    [".env", ".env.local", "server.pem", "id_ed25519", ".netrc", "kaggle.json", "credentials.json", "api_token.txt",
     "my-secrets.yaml", ".git-credentials", "service-account-7.json", "wallet.key"],
)  # fmt: skip
def test_secrets_are_never_kept(store: Store, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("s3cret")
    assert Keeper(store, 100).keep(str(path), described(path)) == {"not_kept": "secret"}


@pytest.mark.parametrize(
    "name", ["tokens.parquet", "keys.csv", "train.csv", "environment.json", "secretary.csv", "a.h5"]
)
def test_data_is_no_secret_by_a_part_of_its_name(name: str) -> None:
    assert not is_secret(f"/data/{name}")


def test_a_database_is_kept_with_its_log_and_opens_again(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute("pragma journal_mode=wal")
    connection.execute("create table t (x)")
    connection.execute("insert into t values (7)")
    connection.commit()
    kept = Keeper(store, 1 << 20).keep(str(path), described(path))
    connection.execute("insert into t values (8)")
    connection.commit()
    connection.close()
    again = tmp_path / "again"
    again.mkdir()
    (again / "a.db").write_bytes(store.get_blob(kept["kept"]))
    (again / "a.db-wal").write_bytes(store.get_blob(kept["beside"]["-wal"]))
    copy = sqlite3.connect(again / "a.db")
    assert copy.execute("select x from t").fetchall() == [(7,)]
    copy.close()
    (tmp_path / "a.db-journal").write_bytes(b"a transaction is under way")
    assert Keeper(store, 1 << 20).keep(str(path), described(path)) == {"not_kept": "changing"}


def test_digests_are_told_before_the_bytes_are_kept_and_the_next_leg_hears_both_at_once(
    store: Store, tmp_path: Path
) -> None:
    path = str(tmp_path / "a.csv")
    Path(path).write_text("1\n")
    digests = Digests()
    keeper = digests.keeper(str(store.root), 1000)

    async def leg() -> tuple[dict[str, Any], list[dict[str, Any]]]:
        later: list[dict[str, Any]] = []
        sight = Sight(digests, later.append, keeper)
        first = sight.first({"paths": [path], "beyond": 0, "named": [path]})
        await sight.left(None)
        return first["files"][path], [one["files"][path] for one in later]

    at_once, later = asyncio.run(leg())
    assert at_once == {"named": True}
    assert [("digest" in one, "kept" in one) for one in later] == [(True, False), (True, True)]
    at_once, later = asyncio.run(leg())
    assert (at_once["kept"], later) == (hashlib.sha256(b"1\n").hexdigest(), [])
    digests.close()

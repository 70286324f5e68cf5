"""Whose a store is: known by a list outside of it, its mark, its folder and its owner; by nothing in it alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from workbench.cli import main
from workbench.errors import NotAdopted, StoreError
from workbench.store import Store, requests
from workbench.store.owner import ownership, personal
from workbench.store.owner.adoption import adopt, offer
from workbench.store.owner.ownership import ADOPT


@pytest.fixture(autouse=True)
def own_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of this test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "workbench" / "stores"


def used(root: Path) -> Store:
    """A store of this person's in which something lies."""
    store = Store(root).create()
    store.put_blob(b"weights")
    return store


def reason(store: Store) -> str:
    found = ownership.ownership(store)
    assert found.is_ours == (found.reason in ("listed", "named", "made", "missing"))
    return found.reason


def test_a_store_is_its_makers(tmp_path):
    store = Store(tmp_path / ".workbench")
    assert reason(store) == "missing"
    used(store.root)
    assert reason(store) == "listed"
    store.create()
    assert reason(store) == "listed"


def test_the_list_and_the_mark_are_readable_by_this_person_only(tmp_path, own_list):
    store = used(tmp_path / ".workbench")
    files = [store.root / ownership.MARK, *own_list.glob("*.json")]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]
    assert own_list.stat().st_mode & 0o777 == own_list.parent.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_came_from_elsewhere_is_not_this_persons(tmp_path):
    (tmp_path / ".workbench" / "experiments").mkdir(parents=True)
    (tmp_path / ".workbench" / "requests").mkdir()
    (tmp_path / ".workbench" / "requests" / "1.json").write_text("{}")
    store = Store(tmp_path / ".workbench")
    assert reason(store) == "unknown"
    with pytest.raises(NotAdopted, match=f"workbench adopt {store.root}"):
        store.create()
    assert not (store.root / ownership.MARK).exists()


def test_a_store_that_its_owner_deleted_can_be_made_again_at_its_place(tmp_path):
    store = used(tmp_path / ".workbench")
    shutil.rmtree(store.root)
    assert reason(store) == "missing"
    store.root.mkdir()
    assert reason(store) == "missing", "another process of the same person makes it just now"
    used(store.root)
    assert reason(store) == "listed"


def test_while_one_process_makes_a_deleted_store_again_another_sees_it_as_its_own(tmp_path):
    store = used(tmp_path / ".workbench")
    seen: list[str] = []
    look = threading.Event()

    def watch() -> None:
        while not look.is_set():
            seen.append(reason(store))

    watching = threading.Thread(target=watch)
    watching.start()
    for number in range(50):
        store.root.rename(tmp_path / f"deleted{number}")  # at once; a half-deleted folder is not a store
        used(store.root)
    look.set()
    watching.join()
    assert set(seen) <= {"listed", "missing"}, set(seen)


def test_a_copy_brings_its_mark_along_but_not_its_place(tmp_path):
    store = used(tmp_path / "a" / ".workbench")
    shutil.copytree(store.root, tmp_path / "b" / ".workbench")
    copy = Store(tmp_path / "b" / ".workbench")
    assert reason(copy) == "moved"
    assert str(store.root) in ownership.ownership(copy).why
    assert reason(store) == "listed"


def test_another_store_at_the_same_path_is_not_this_persons(tmp_path):
    store = used(tmp_path / ".workbench")
    shutil.rmtree(store.root)
    (store.root / "experiments" / "x").mkdir(parents=True, mode=0o700)
    assert reason(store) == "replaced"


def test_a_copy_put_at_the_same_path_has_another_inode(tmp_path):
    store = used(tmp_path / ".workbench")
    shutil.copytree(store.root, tmp_path / "changed by somebody")
    store.root.rename(tmp_path / "gone")
    (tmp_path / "changed by somebody").rename(store.root)
    assert reason(store) == "replaced"


def test_a_link_leads_to_whose_the_store_is(tmp_path):
    mine = used(tmp_path / "mine")
    theirs = tmp_path / "theirs"
    (theirs / "experiments" / "x").mkdir(parents=True)
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / ".workbench").symlink_to(theirs)
    assert reason(Store(tmp_path / "repo" / ".workbench")) == "unknown"
    (tmp_path / "link").symlink_to(mine.root)
    assert reason(Store(tmp_path / "link")) == "listed"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_store_into_which_others_may_write_is_not_this_persons_alone(tmp_path, mode):
    store = used(tmp_path / ".workbench")
    store.root.chmod(mode)
    assert reason(store) == "writable"
    with pytest.raises(NotAdopted, match="others may write"):
        store.create()


def opened(store: Store) -> Store:
    """With the modes of a team's folder, as after `cp -r`, a restore or an archive."""
    for path in (store.root, *store.root.rglob("*")):
        path.chmod(0o2775 if path.is_dir() else 0o664)
    return store


def test_a_copy_with_the_modes_of_a_teams_folder_is_closed_when_it_is_adopted(tmp_path):
    copy = opened(Store(shutil.copytree(used(tmp_path / "mine").root, tmp_path / "copy")))
    adopt(copy)
    assert copy.root.stat().st_mode & 0o077 == 0
    assert reason(copy) == "listed"


@pytest.mark.parametrize("part", ["experiments", "blobs", "snapshots", "requests"])
def test_a_store_with_a_folder_that_others_reach_and_write_is_not_this_persons_alone(tmp_path, part):
    """As one that a version before adopted."""
    store = used(tmp_path / ".workbench")
    (store.root / part).chmod(0o2775)
    assert reason(store) == "listed", "nobody else enters it"
    store.root.chmod(0o755)
    assert reason(store) == "writable"
    adopt(store)
    assert reason(store) == "listed"
    assert store.root.stat().st_mode & 0o077 == 0


def test_a_store_that_others_may_read_stays_this_persons(tmp_path):
    store = used(tmp_path / ".workbench")
    for path in (store.root, *store.root.iterdir()):
        path.chmod(0o755)
    assert reason(store) == "listed"


def test_adopting_closes_a_listed_store_that_was_opened_to_others(tmp_path):
    store = used(tmp_path / ".workbench")
    store.root.chmod(0o777)
    assert reason(store) == "writable"
    adopt(store)
    assert reason(store) == "listed"


def test_a_named_store_is_closed_as_well(tmp_path):
    store = opened(used(tmp_path / ".workbench"))
    store.root.chmod(0o2755)
    _elsewhere(store, {ADOPT: str(store.root)})
    assert store.root.stat().st_mode & 0o077 == 0


FOLDERS = ["requests", "blobs", "snapshots", "experiments", "documents", "cached", "notebooks", "environments"]


@pytest.mark.parametrize("part", [*FOLDERS, "engine.log"])
def test_a_store_in_which_a_folder_is_a_link_is_not_adopted(tmp_path, part, capsys):
    mine = tmp_path / "documents"
    mine.mkdir()
    (mine / "letter.txt").write_text("mine")
    copy = Store(shutil.copytree(used(tmp_path / "theirs").root, tmp_path / "copy"))
    copy.catalog_path.write_text("{}")
    shutil.rmtree(copy.root / part, ignore_errors=True)
    (copy.root / part).symlink_to("../documents")
    if part == "requests":
        assert offer(copy).requests == 0, "what lies there was not asked of the store"
    with pytest.raises(NotAdopted, match=f"{part} leads to {mine}"):
        adopt(copy)
    assert main(["adopt", str(copy.root), "--yes"]) == 5
    assert "Remove each link" in capsys.readouterr().err
    assert [path.name for path in mine.iterdir()] == ["letter.txt"]
    assert reason(copy) == "moved"
    (copy.root / part).unlink()
    copy.experiments.mkdir(exist_ok=True)
    adopt(copy)
    assert reason(copy) == "listed"


def test_an_empty_folder_that_others_might_write_is_closed_to_them_when_it_becomes_a_store(tmp_path):
    (tmp_path / "made by hand").mkdir()
    (tmp_path / "made by hand").chmod(0o775)
    store = used(tmp_path / "made by hand")
    assert reason(store) == "listed"
    assert store.root.stat().st_mode & 0o022 == 0


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"mark": 3}', "[" * 100_000, "{"])
def test_a_mark_that_makes_no_sense_is_none(tmp_path, content):
    store = used(tmp_path / ".workbench")
    (store.root / ownership.MARK).write_text(content)
    assert reason(store) == "replaced"


def test_a_pipe_in_place_of_the_mark_is_not_waited_for(tmp_path):
    store = used(tmp_path / ".workbench")
    (store.root / ownership.MARK).unlink()
    os.mkfifo(store.root / ownership.MARK)
    assert reason(store) == "replaced"


def test_a_list_that_others_may_write_counts_for_nothing(tmp_path, own_list):
    store = used(tmp_path / ".workbench")
    own_list.chmod(0o777)
    assert reason(store) == "no list"
    own_list.chmod(0o700)
    next(own_list.glob("*.json")).chmod(0o666)
    assert reason(store) == "unknown" or reason(store) == "moved"


def test_a_list_that_belongs_to_somebody_else_counts_for_nothing(tmp_path, own_list, monkeypatch):
    """As with `sudo -E`: the surroundings are another person's."""
    store = used(tmp_path / ".workbench")
    owner = own_list.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert reason(store) == "no list"


def test_an_owner_who_is_somebody_else_is_named_and_refused(tmp_path, monkeypatch):
    (tmp_path / ".workbench" / "experiments" / "x").mkdir(parents=True)
    store = Store(tmp_path / ".workbench")
    if os.geteuid() == 0:
        os.chown(store.root, 12345, 12345)
    else:
        store.root.chmod(0o500)
        monkeypatch.setattr(os, "geteuid", lambda: 0)
    owner = ownership.person(store.root.stat().st_uid)
    found = ownership.ownership(store)
    assert (found.reason, found.owner) == ("owner", owner)
    with pytest.raises(NotAdopted, match="chown"):
        store.create()
    with pytest.raises(NotAdopted, match=owner):
        ownership.enlist(store)


def test_where_no_list_can_be_kept_a_store_is_its_makers_until_the_process_ends(tmp_path, monkeypatch):
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a file"))
    monkeypatch.setattr(ownership, "_made", set())  # this process goes on with other tests' lists
    store = used(tmp_path / ".workbench")
    assert reason(store) == "made"
    assert ownership.environment(store) == {ADOPT: str(store.root)}
    with pytest.raises(NotAdopted, match="XDG_STATE_HOME"):
        ownership.check_ours(_elsewhere(store, {"XDG_STATE_HOME": str(tmp_path / "a file")}))


def test_a_person_without_a_home_is_told_what_to_do(tmp_path, monkeypatch):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    store = used(tmp_path / ".workbench")
    monkeypatch.setattr(personal, "folder", homeless)
    assert reason(store) == "no list"
    with pytest.raises(NotAdopted, match=f"{ADOPT}={store.root}"):
        ownership.check_ours(store)


def _elsewhere(store: Store, around: dict[str, str]) -> Store:
    code = (
        "import sys; from workbench.store import Store; from workbench.store.owner import ownership; "
        "ownership.check_ours(Store(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(store.root)],
        env={**os.environ, **around},
        check=False,
        capture_output=True,
        text=True,
    )
    if "NotAdopted" in done.stderr:
        raise NotAdopted(done.stderr)
    assert done.returncode == 0, done.stderr
    return store


def test_a_process_is_started_with_the_names_of_stores(tmp_path):
    (tmp_path / ".workbench" / "experiments" / "x").mkdir(parents=True)
    store = Store(tmp_path / ".workbench")
    with pytest.raises(NotAdopted):
        _elsewhere(store, {})
    with pytest.raises(NotAdopted):
        _elsewhere(store, {ADOPT: str(tmp_path)})  # the folder itself, not one above it
    _elsewhere(store, {ADOPT: f"/somewhere/else:{store.root}"})
    with pytest.raises(NotAdopted):
        _elsewhere(store, {})  # it was for that process only


def test_a_cell_cannot_name_a_store(tmp_path, monkeypatch):
    (tmp_path / ".workbench" / "experiments" / "x").mkdir(parents=True)
    monkeypatch.setenv(ADOPT, str(tmp_path / ".workbench"))
    assert reason(Store(tmp_path / ".workbench")) == "unknown"


def test_two_who_make_one_store_agree(tmp_path):
    for number in range(20):
        store, errors = Store(tmp_path / str(number)), []

        def make(store: Store = store, errors: list[Exception] = errors) -> None:
            try:
                Store(store.root).create()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=make) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert reason(store) == "listed"


def test_a_file_in_place_of_the_store_is_said(tmp_path):
    (tmp_path / ".workbench").write_text("")
    with pytest.raises(StoreError, match="is a file"):
        Store(tmp_path / ".workbench").create()


def test_what_lies_on_the_list(tmp_path, own_list):
    store = used(tmp_path / ".workbench")
    (entry,) = own_list.glob("*.json")
    told = json.loads(entry.read_bytes())
    assert told["path"] == str(store.root)
    assert told["mark"] == json.loads((store.root / ownership.MARK).read_bytes())["mark"]


def test_a_service_without_the_shells_variable_finds_what_lies_in_the_usual_place(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME")
    store = used(tmp_path / ".workbench")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert reason(store) == "listed"


def test_beside_somebody_elses_store_lies_this_persons(tmp_path, monkeypatch):
    monkeypatch.delenv("WORKBENCH_HOME", raising=False)
    (tmp_path / ".workbench" / "experiments" / "x").mkdir(parents=True)
    own = Store.to_train(cwd=tmp_path)
    assert own.root == tmp_path / f".workbench-{ownership.person(os.geteuid())}"
    assert Store.find(cwd=tmp_path).root == tmp_path / ".workbench"  # nothing lies beside it yet
    # A repository may bring one of that name along, too.
    (own.root / "experiments" / "x").mkdir(parents=True)
    second = Store.to_train(cwd=tmp_path)
    assert second.root == own.root.with_name(f"{own.root.name}-2")
    used(second.root)
    assert Store.find(cwd=tmp_path).root == Store.to_train(cwd=tmp_path).root == second.root
    # One that was named is the one that was meant.
    assert Store.to_train(tmp_path / ".workbench").root == tmp_path / ".workbench"
    # A container whose list is gone makes no third one.
    shutil.rmtree(tmp_path / "state")
    refused = Store.to_train(cwd=tmp_path)
    assert refused.root == tmp_path / ".workbench"
    with pytest.raises(NotAdopted):
        refused.create()


def test_what_is_asked_of_an_empty_folder_makes_it_a_store(tmp_path):
    (tmp_path / "by hand").mkdir()
    store = Store(tmp_path / "by hand")
    requests.put(store, {"kind": "ping"})
    assert reason(store) == "listed"


def test_a_process_that_makes_the_same_store_faster_and_fills_it_at_once_takes_it_from_nobody(tmp_path, monkeypatch):
    """As a page and its kernel do at the first train cell of a folder. The other process is a real one, which begins at
    the one moment that matters."""
    store, make = Store(tmp_path / "store"), ownership.make_folder
    other = f"from workbench.store import Store; Store({str(store.root)!r}).create().put_blob(b'a notebook')"

    def after_the_other(*folder, **options):
        subprocess.run([sys.executable, "-c", other], check=True)
        make(*folder, **options)

    monkeypatch.setattr(ownership, "make_folder", after_the_other)
    store.create().put_blob(b"a module")
    assert reason(store) == "listed"

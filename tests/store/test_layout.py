import hashlib
import os
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from workbench.errors import BadName, NewerSchema, NotFound, StoreError, StoreReadOnly
from workbench.store import Store, ids, new_id
from workbench.store.files.atomic import read_json, write_json

ESCAPES = ["../x", "..", ".", "", "a/b", "/etc/passwd", "A", "a_b", "a\n", "a\x00b", "-a", "a-", "é", "x" * 65, "a b"]


def test_a_store_is_found_by_option_then_environment_then_beside_the_notebook(tmp_path, monkeypatch):
    monkeypatch.delenv("WORKBENCH_HOME", raising=False)
    assert Store.find(cwd=tmp_path).root == tmp_path / ".workbench"
    monkeypatch.setenv("WORKBENCH_HOME", "elsewhere")
    assert Store.find(cwd=tmp_path).root == tmp_path / "elsewhere"
    assert Store.find(str(tmp_path / "named"), cwd=tmp_path).root == tmp_path / "named"


def test_a_missing_store_is_made_or_says_what_to_do(tmp_path):
    store = Store(tmp_path / "deep" / ".workbench")
    with pytest.raises(NotFound, match="--store or WORKBENCH_HOME"):
        store.check()
    assert store.create().check() is store
    assert store.create().exists


def test_files_are_for_their_owner_only_whatever_the_umask(tmp_path, make_spec):
    before = os.umask(0)
    try:
        store = Store(tmp_path / ".workbench").create()
        store.put_blob(b"x")
        store.write_spec(make_spec())
    finally:
        os.umask(before)
    for path in [store.root, *store.root.rglob("*")]:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def git(folder, *words):
    """What git says in ``folder``, whatever this user's settings are."""
    quiet = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return subprocess.run(["git", *words], cwd=folder, env=quiet, check=True, capture_output=True, text=True).stdout


def test_git_does_not_list_a_store_also_an_old_one(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "train.py").touch()
    store = Store(tmp_path / ".workbench").create()
    store.put_blob(b"x")
    assert git(tmp_path, "status", "--porcelain") == "?? train.py\n"
    (store.root / ".gitignore").unlink()  # as in stores of earlier versions
    assert ".workbench" in git(tmp_path, "status", "--porcelain")
    Store(store.root).create()
    assert git(tmp_path, "status", "--porcelain") == "?? train.py\n"


def test_a_gitignore_that_someone_wrote_stays_and_a_named_folder_gets_none(tmp_path):
    store = Store(tmp_path / ".workbench").create()
    (store.root / ".gitignore").write_text("")
    assert (store.create().root / ".gitignore").read_text() == ""
    assert not (Store(tmp_path / "results").create().root / ".gitignore").exists()


def test_a_store_that_only_git_knows_of_is_still_empty(tmp_path):
    store = Store(tmp_path / ".workbench")
    store.root.mkdir()
    (store.root / ".gitignore").write_text("*\n")
    assert store.create().exists


@pytest.mark.parametrize("text", ESCAPES)
def test_no_id_leaves_the_store(store, text):
    with pytest.raises(BadName):
        store.experiment(text)
    with pytest.raises(BadName):
        store.blob_path(text)
    with pytest.raises(BadName):
        store.snapshot(text)


@pytest.mark.parametrize("number", [-1, 10**9, True, 1.0, "1", "../1"])
def test_no_trial_number_leaves_the_store(store, number):
    with pytest.raises(BadName):
        store.experiment("abc").trial(number)


def test_places_are_those_of_the_design(store):
    paths = store.experiment("20261120-140312-abcdef")
    trial = paths.trial(7)
    inside = [path.relative_to(store.root).as_posix() for path in (paths.spec, paths.journal, paths.series, trial.log)]
    folder = "experiments/20261120-140312-abcdef"
    assert inside == [
        f"{folder}/spec.json",
        f"{folder}/events.jsonl",
        f"{folder}/series.db",
        f"{folder}/trials/t0007.log.txt",
    ]
    assert trial.checkpoints.name == "checkpoints"
    assert trial.files.name == "files"


def test_ids_differ_and_sort_by_time():
    found = [new_id() for _ in range(100)]
    assert len(set(found)) == 100
    assert [one[:19] for one in found] == sorted(one[:19] for one in found)
    for text in found:
        Store("/nowhere").experiment(text)


def test_ids_of_one_second_sort_by_time(monkeypatch):
    """The clock is the test's: the real one cannot be asked for steps of 72 µs, nor for the end of a second."""
    second = 2_000_000_000 * 10**9
    parts = (0, 73_000, 146_000, 146_001, 41_666_000, 500_000_000, 999_926_000, 999_999_999)
    moments = iter(second + part for part in parts)
    monkeypatch.setattr(ids, "_newest", 0)
    monkeypatch.setattr(ids, "time", SimpleNamespace(time_ns=lambda: next(moments)))
    found = [new_id() for _ in parts]
    assert found == sorted(found)
    assert len({one[:19] for one in found}) == len(parts)
    assert {len(one) for one in found} == {22}


def test_a_spec_comes_back_as_it_was_and_is_written_once(store, make_spec):
    spec = make_spec(notebook="digits.ipynb")
    store.write_spec(spec)
    assert store.read_spec(spec.id) == spec
    assert store.experiment_ids() == [spec.id]
    with pytest.raises(StoreError, match="written once"):
        store.write_spec(spec)


def test_a_spec_that_is_missing_or_damaged_is_told(store, make_spec):
    with pytest.raises(NotFound, match="workbench ls"):
        store.read_spec("nobody")
    spec = make_spec()
    store.write_spec(spec)
    for damaged in (b"", b"{", b"[]", b'{"schema":1}'):
        store.experiment(spec.id).spec.write_bytes(damaged)
        with pytest.raises(StoreError, match="damaged"):
            store.read_spec(spec.id)


def test_a_newer_spec_is_shown_and_never_run_and_an_older_one_opens(store, make_spec):
    spec = make_spec()
    path = store.write_spec(spec)
    data = read_json(path)
    newer = {**data, "schema": 99, "tomorrow": 1, "goal": {**data["goal"], "colour": "red"}}
    write_json(path, newer)
    with pytest.raises(NewerSchema, match="Upgrade"):
        store.read_spec(spec.id)
    assert store.read_spec(spec.id, viewing=True).goal == spec.goal
    older = {key: value for key, value in data.items() if key not in ("schema", "hang_s", "notebook")}
    write_json(path, older)
    assert store.read_spec(spec.id) == spec


def test_blobs_are_kept_once_and_verified_when_asked(store):
    data = b"weights" * 1000
    sha = store.put_blob(data)
    assert sha == hashlib.sha256(data).hexdigest()
    inode = store.blob_path(sha).stat().st_ino
    assert store.put_blob(memoryview(data)) == sha
    assert store.blob_path(sha).stat().st_ino == inode
    assert store.has_blob(sha)
    store.blob_path(sha).write_bytes(b"Weights" + data[7:])
    assert store.get_blob(sha)[:7] == b"Weights"
    with pytest.raises(StoreError, match="changed"):
        store.get_blob(sha, verify=True)


def test_a_blob_that_lost_its_bytes_is_written_again(store):
    sha = store.put_blob(b"data")
    store.blob_path(sha).write_bytes(b"")
    store.put_blob(b"data")
    assert store.get_blob(sha, verify=True) == b"data"
    with pytest.raises(NotFound):
        store.get_blob("0" * 64)


def test_a_store_opened_read_only_is_not_written(store, make_spec):
    looking = Store(store.root, readonly=True)
    for write in (looking.create, lambda: looking.put_blob(b"x"), lambda: looking.write_spec(make_spec())):
        with pytest.raises(StoreReadOnly):
            write()


def test_importing_the_store_needs_the_standard_library_only():
    import subprocess
    import sys

    code = (
        "import sys; sys.modules['tinydb'] = sys.modules['xxhash'] = None\n"
        "import workbench.store.keeping.checkpoints as c, workbench.store.series, workbench.store.journal\n"
        "print(c.digest(b'x').split(':')[0])"
    )
    source = Path(__file__).parents[2] / "src"
    environment = {**os.environ, "PYTHONPATH": str(source)}
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "blake2b"

"""A store that came from elsewhere is shown, and runs nothing: a journal that says that it trains, a request, a pickle.

Servers, kernels and command lines are real, and so is the other account where the tests run as root.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from running import ended, engine, engine_pid, outcome, spec_of, start, state, until
from servers import SERVER

import workbench as wb
from workbench import asked
from workbench.asking import ask, ensure_engine
from workbench.cli import main
from workbench.errors import NotAdopted, Untrusted
from workbench.records import Scheduler, Spec
from workbench.store import Store, new_id, requests
from workbench.store.journal import Journal
from workbench.store.lists.catalog import read_catalog
from workbench.store.lists.said import said
from workbench.store.owner import ownership, personal
from workbench.store.owner.adoption import adopt, offer
from workbench.store.owner.lease import read_engine
from workbench.store.owner.ownership import ADOPT

TOKEN = "attack"
#: Extensions of the server that are not Workbench's.
OTHERS = ("jupyterlab", "jupyter_lsp", "jupyter_server_terminals", "nbdime", "notebook_shim")
#: An account that owns nothing here.
OTHER = 54321


def source(trace: Path) -> str:
    """Training code that tells that it ran."""
    return f"""
import os, time
open({str(trace)!r}, "a").write("x")
for epoch in trial.steps():
    while not os.path.exists({str(trace) + ".gate"!r}):
        time.sleep(0.02)
    trial.report(score=epoch)
"""


class Evil:
    """Unpickling it runs code."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return os.system, (f"echo unpickled >> {self.trace}",)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Spec, Path]:
    """A folder whose store holds an experiment that trains and a request to start another; where they tell so."""
    folder = tmp_path_factory.mktemp("theirs")
    trace, theirs = folder / "ran.txt", Store(folder / "repository" / ".workbench").create()
    spec = spec_of(source(trace), folder, name="planted", scheduler=Scheduler("all", 1, 2, 2), trials=1, verify=False)
    with engine(theirs, workers=1):
        start(theirs, spec)
        until(trace.exists, 60, "its training")
    wanted = dataclasses.replace(spec, id=new_id(), name="asked")
    theirs.write_spec(wanted)
    requests.put(theirs, {"kind": "start", "experiment": wanted.id})
    return theirs.root.parent, spec, trace


@pytest.fixture
def trace(made: tuple[Path, Spec, Path]) -> Path:
    """Where anything of the foreign store that runs leaves its mark."""
    trace = made[2]
    for path in (trace, Path(f"{trace}.gate")):
        path.unlink(missing_ok=True)
    return trace


@pytest.fixture
def foreign(made: tuple[Path, Spec, Path], tmp_path: Path, trace: Path) -> tuple[Path, Spec]:
    """The folder as it comes with a repository, and its experiment."""
    return Path(shutil.copytree(made[0], tmp_path / "clone")), made[1]


@contextmanager
def jupyter(folder: Path, uid: int | None = None, **around: str) -> Iterator[Callable[..., tuple[int, Any]]]:
    """A real Jupyter server in ``folder``; the function asks it, and gives status and answer."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    environ = {**os.environ, "HOME": str(home), "JUPYTER_RUNTIME_DIR": str(home / "run"), **around}
    environ = {name: value for name, value in environ.items() if not name.startswith("JPY_")}
    if uid is not None:
        os.chown(home, uid, uid)
        environ["XDG_STATE_HOME"] = str(home / "state")
    port_file = home / "port"
    options = (
        f"--ServerApp.root_dir={folder}", f"--IdentityProvider.token={TOKEN}", "--ServerApp.open_browser=False",
        "--ServerApp.allow_root=True", "--ServerApp.jpserver_extensions=workbench_ext=True", "--ServerApp.port=0",
        *(f"--ServerApp.jpserver_extensions={name}=False" for name in OTHERS),
    )  # fmt: skip
    with open(home / "log", "wb") as log:
        process = subprocess.Popen(
            [*as_account(uid), sys.executable, "-P", "-c", SERVER, str(port_file), *options],
            cwd=folder, env=environ, stdout=log, stderr=log,
        )  # fmt: skip

    def told(path: str, body: Any = None) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port_file.read_text()}/workbench/api/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {TOKEN}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)

    def answers() -> bool:
        assert process.poll() is None, (home / "log").read_text()[-2000:]
        try:
            return told("health")[0] == 200
        except (OSError, ValueError):
            return False

    try:
        until(answers, 60, "the server")
        yield told
    finally:
        process.terminate()
        process.wait()


def as_account(uid: int | None) -> list[str]:
    """What a command line begins with to be carried out by another account.

    It may read where Python is installed, which may be root's own folder, and owns nothing.
    """
    if uid is None:
        return []
    reading = ("--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search", "--bounding-set=+dac_read_search")
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *reading]


def accounts() -> list[int | None]:
    """This one; as root also one that is not."""
    return [None, OTHER] if os.geteuid() == 0 else [None]


@pytest.mark.parametrize("uid", accounts())
def test_a_server_in_a_foreign_folder_runs_nothing_and_shows_everything(
    foreign: tuple[Path, Spec], trace: Path, uid: int | None
) -> None:
    place, spec = foreign
    if uid is not None:
        _give(place, uid)
    store = Store(place / ".workbench")
    with jupyter(place, uid) as told:
        assert told("health")[1].items() >= {"store": True, "readonly": True, "ours": False}.items()
        rows = told("experiments")[1]["experiments"]
        assert "planted@1" in [row["label"] for row in rows]
        assert told(f"experiments/{spec.id}/trials")[0] == 200
        whose = told("ownership")[1]
        assert (whose["is_ours"], whose["root"], whose["requests"]) == (False, str(store.root), 1)
        assert {"planted@1", "asked@1"} == {*whose["unfinished"]}
        for body in ({"kind": "resume", "experiment": spec.id}, {"kind": "gc"}):
            status, said = told("requests", body)
            assert status == 403, said
            assert f"workbench adopt {store.root}" in said["message"]
        # It looked for requests and engines ten times a second meanwhile; that takes two seconds to be overdue.
        time.sleep(3.0)
        assert read_engine(store) is None or not read_engine(store).alive
        assert len(list(store.requests.glob("*.json"))) == 1
        assert not trace.exists()


def _give(place: Path, uid: int) -> None:
    """The folder and all above it that pytest made are another account's, or may be entered by it."""
    for path in (place, *place.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)
    _give_way(place)


def _give_way(place: Path) -> None:
    """Any account may enter what is above it."""
    for parent in place.parents:
        if parent.stat().st_mode & 0o001 == 0:
            parent.chmod(parent.stat().st_mode | 0o011)


def test_adopting_in_the_panel_starts_nothing_that_was_not_asked_for(foreign: tuple[Path, Spec], trace: Path) -> None:
    place, spec = foreign
    store = Store(place / ".workbench")
    with jupyter(place) as told:
        assert told("ownership", {"root": "/somewhere/else"})[0] == 409
        assert told("ownership", {})[0] == 400
        status, done = told("ownership", {"root": str(store.root)})
        assert (status, done["is_ours"], {*done["unfinished"]}) == (200, True, {"planted@1", "asked@1"})
        assert told("health")[1].items() >= {"readonly": False, "ours": True}.items()
        assert {row["label"]: row["state"] for row in told("experiments")[1]["experiments"]}["planted@1"] == "paused"
        assert told("requests", {"kind": "tag", "experiment": "planted@1", "tags": ["a"]})[0] == 200  # an engine begins
        assert engine_pid(store) is not None
        assert state(store, spec) == "paused"
        assert not trace.exists()
        Path(f"{trace}.gate").touch()
        assert told("requests", {"kind": "resume", "experiment": "planted@1"})[0] == 200
        assert ended(store, spec) == "completed"
        assert trace.exists()
        ask(store, asked.End())


def test_what_its_journal_says_is_to_be_removed_is_not_removed_after_it_was_adopted(
    foreign: tuple[Path, Spec], tmp_path: Path
) -> None:
    place, spec = foreign
    store = Store(place / ".workbench")
    trials = tmp_path / "far" / "deleted" / "t0000"
    trials.mkdir(parents=True)
    with Journal.open(store.journal_path) as journal:
        about = {"kind": "delete", "label": "x@1", "bytes": 1}
        journal.append({**about, "experiment": "deleted", "storage": (tmp_path / "far").as_uri()})
        journal.append({"kind": "removed", "experiment": "deleted"})
        journal.append({**about, "experiment": spec.id})
    adopt(store)
    wishes = said(store)
    assert (wishes.emptying, wishes.going) == ({}, set())
    command = [sys.executable, "-P", "-m", "workbench.engine", "--store", str(store.root), "--workers", "1"]
    done = subprocess.run([*command, "--idle", "0.5"], check=False, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert trials.is_dir()
    assert state(store, spec) == "paused", "what it holds stays as well"
    assert spec.id in [row["id"] for row in read_catalog(store)]


def test_no_face_writes_into_it_or_loads_from_it(
    foreign: tuple[Path, Spec], trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place, _ = foreign
    monkeypatch.chdir(place)
    store = Store.find()
    before = _content(store.root)
    assert main(["ls"]) == 0
    assert main(["show", "planted"]) == 0
    assert "planted@1" in capsys.readouterr().out
    main(["doctor"])
    assert "it is not known to be yours, and nothing in it runs" in capsys.readouterr().out
    refused = "resume planted, engine start, engine run, gc, trust planted, notify --command true, replay planted/t0000"
    for words in [each.split() for each in f"{refused}, delete planted --yes".split(", ")]:
        code = main(words)
        said = capsys.readouterr().err
        assert (code, f"workbench adopt {store.root}" in said) == (5, True) or "planted@1 is" in said, (words, said)
    with pytest.raises(NotAdopted):
        ensure_engine(store)
    with pytest.raises(NotAdopted):
        wb.open("planted")["t0000"].load()
    with pytest.raises(NotAdopted):
        wb.replay("planted/t0000")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "workbench.engine", "--store", str(store.root)], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, "workbench adopt" in done.stderr) == (6, True)
    assert _content(store.root) == before
    assert not trace.exists()


def _content(root: Path) -> dict[str, bytes]:
    """All files but those that SQLite makes for a reader."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.name.endswith(("-shm", "-wal"))]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def test_ones_own_cell_trains_beside_it_and_nothing_else_does(
    foreign: tuple[Path, Spec], trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, _ = foreign
    monkeypatch.chdir(place)
    own = Store.to_train()
    assert own.root.name.startswith(".workbench-")
    cell = (
        "%%train mine --goal max score --scheduler all --steps 1-2 --trials 2 --wait\n"
        "x = uniform(0.0, 1.0)\nfor epoch in trial.steps():\n    trial.report(score=x + epoch)\n"
    )
    look = "import workbench as wb; print(wb.open('mine').state, wb.last().store.root)"
    cells = ["%load_ext workbench", cell, look]
    said = _notebook(place, cells)
    assert f"completed {own.root}" in said, said
    assert "not known to be yours" in said
    assert f"workbench adopt {place / '.workbench'}" in said
    assert not trace.exists()
    assert not (place / ".workbench" / "engine.json").exists()
    # From now on it is the folder's store for this person, on every face.
    assert Store.find().root == own.root
    adopt(Store(place / ".workbench"))
    assert Store.find().root == place / ".workbench"
    assert ownership.ownership(own).is_ours
    ask(own, asked.End())


def _notebook(folder: Path, cells: list[str]) -> str:
    """What the cells say in a kernel of their own."""
    import nbformat
    import notebook_kernel

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    notebook_kernel.execute(notebook, folder, timeout=100)
    return "".join(
        str(output.get("text", "")) + "".join(map(str, output.get("data", {}).values()))
        for cell in notebook.cells
        for output in cell.outputs
    )


def test_a_publication_without_its_mark_is_loaded_by_nobody(tmp_path: Path, trace: Path) -> None:
    store = Store(tmp_path / "own").create()
    spec = spec_of(
        "x = uniform(0.0, 1.0)\nkept = [x]\nfor epoch in trial.steps():\n    trial.report(score=epoch)\n",
        tmp_path, scheduler=Scheduler("all", 1, 1, 2), trials=1, verify=False,
    )  # fmt: skip
    Path(f"{trace}.gate").touch()
    with engine(store, workers=1):
        start(store, spec)
        assert ended(store, spec) == "completed", outcome(store, spec)
    from workbench.share import publish

    publish(store, "probe", str(tmp_path / "page"))
    page = tmp_path / "page"
    (page / "published.json").unlink()
    for path in page.rglob("*.pkl"):
        path.write_bytes(pickle.dumps(Evil(trace)))
    for path in page.rglob("foreign.json"):
        path.unlink()
    with pytest.raises(Untrusted):
        wb.open("probe", store=Store(page)).best.load()
    assert not trace.exists()


def test_a_process_without_a_person_names_its_store(foreign: tuple[Path, Spec], trace: Path) -> None:
    """As papermill in a container does: nothing is asked, nothing is listed, and what was under way goes on."""
    place, spec = foreign
    store = Store(place / ".workbench")
    Path(f"{trace}.gate").touch()
    listed = sorted((personal.folder() / "stores").iterdir())
    command = [sys.executable, "-P", "-m", "workbench.engine", "--store", str(store.root), "--workers", "1"]
    done = subprocess.run(
        [*command, "--idle", "0.5"], env={**os.environ, ADOPT: str(store.root)}, capture_output=True, text=True,
        check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert state(store, spec) == "completed"
    assert sorted((personal.folder() / "stores").iterdir()) == listed
    assert not ownership.ownership(store).is_ours


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away; modes stand in for it in test_ownership")
def test_a_store_of_another_account_is_not_adopted_even_by_root(foreign: tuple[Path, Spec], trace: Path) -> None:
    place, _ = foreign
    _give(place, OTHER)
    store = Store(place / ".workbench")
    before = sorted(path.name for path in store.root.iterdir())
    with pytest.raises(NotAdopted, match=f"uid {OTHER}.*chown"):
        adopt(store)
    assert main(["adopt", str(place), "--yes"]) == 5
    done = subprocess.run(
        [sys.executable, "-P", "-m", "workbench.engine", "--store", str(store.root)],
        env={**os.environ, ADOPT: str(store.root)}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, trace.exists()) == (6, False)
    assert sorted(path.name for path in store.root.iterdir()) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may work as others; modes stand in for it in test_ownership")
def test_nobody_else_writes_into_an_adopted_store_that_came_with_the_modes_of_a_teams_folder(
    foreign: tuple[Path, Spec],
) -> None:
    place, spec = foreign
    store = Store(place / ".workbench")
    for path in (place, *place.rglob("*")):
        os.chown(path, os.geteuid(), OTHER)
        path.chmod(0o2775 if path.is_dir() else 0o664)
    _give_way(place)
    target = store.experiment(spec.id).spec
    member = ["setpriv", f"--reuid={OTHER + 1}", f"--regid={OTHER}", "--clear-groups", "sh", "-c", 'printf " " >> "$1"']
    before = target.read_bytes()
    assert subprocess.run([*member, "sh", str(target)], check=False).returncode == 0
    assert target.read_bytes() == before + b" ", "a member of the group could change it"
    adopt(store)
    assert ownership.ownership(store).is_ours
    assert subprocess.run([*member, "sh", str(target)], check=False, capture_output=True).returncode != 0
    assert target.read_bytes() == before + b" "


def test_the_question_names_what_adopting_means(foreign: tuple[Path, Spec], capsys: pytest.CaptureFixture[str]) -> None:
    place, spec = foreign
    store = Store(place / ".workbench")
    (store.notify_path).write_text('{"command": "true"}')
    assert main(["adopt", str(place)]) == 2  # without a terminal, the command cannot ask
    said = capsys.readouterr().err
    for words in (str(store.root), ownership.person(os.geteuid()), "2 experiments", "planted@1", "1 request", "--yes"):
        assert words in said
    assert not ownership.ownership(store).is_ours
    assert main(["adopt", str(place), "--yes", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["adopted"]
    assert {*told["unfinished"]} == {"planted@1", "asked@1"}
    assert not store.notify_path.exists()
    assert offer(store).requests == 0
    assert state(store, spec) == "paused"
    assert main(["adopt", str(place)]) == 0  # once
    assert "is yours already" in capsys.readouterr().out

"""Several stores behind one server: which are found, how they are named, and what leads to none."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal

import pytest
from cli.stored import Written
from running import PLAIN, end, engine_pid, engine_process, lines, spec_of, start

from workbench.records import Goal, Scheduler
from workbench.share.publish import publish
from workbench.space import uniform
from workbench.store import Store, requests
from workbench.store.lists.catalog import Catalog, read_catalog
from workbench.store.owner.ownership import MARK, enlist
from workbench_ext.server import below
from workbench_ext.server import stores as stores_module
from workbench_ext.server.below import stores_below
from workbench_ext.server.stores import Stores
from workbench_ext.server.watching import tended as looks
from workbench_ext.server.watching.keeper import SCHEMA_ID

SERVER = {"ServerApp": {"jpserver_extensions": {"workbench_ext": True}}}


@pytest.fixture(autouse=True)
def no_store_of_a_person(monkeypatch):
    for name in ("WORKBENCH_HOME", "WORKBENCH_STORES"):
        monkeypatch.delenv(name, raising=False)


async def until(condition):
    """Wait until ``condition`` is true, while the server goes on."""
    async with asyncio.timeout(30):
        while not (value := condition()):  # noqa: ASYNC110 - other processes set no event of this loop
            await asyncio.sleep(0.01)
        return value


def made(folder) -> Store:
    """A store beside the notebooks of ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    store = Store.find(cwd=folder).create()
    enlist(store)
    return store


def writing(folder) -> Written:
    store = made(folder)
    return Written(store, Catalog(store))


# ---------------------------------------------------------------------------------------------------------------------
# Finding


def test_stores_are_found_below_a_folder_the_nearest_first(tmp_path):
    for folder in ("a/deep", ".", "b", "node_modules/x", ".hidden", "venv/x", "mine/x"):
        made(tmp_path / folder)
    (tmp_path / "mine" / "pyvenv.cfg").touch()
    Store(tmp_path / "c" / "of-any-name").create()
    (tmp_path / "empty" / ".workbench").mkdir(parents=True)
    found = [str(path.relative_to(tmp_path)) for path in stores_below(tmp_path)]
    assert found == [".workbench", "b/.workbench", "a/deep/.workbench", "c/of-any-name"]
    assert stores_below(tmp_path, depth=0) == [tmp_path / ".workbench"]


def test_a_look_follows_no_link_and_is_bounded(tmp_path, monkeypatch):
    made(tmp_path / "outside")
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(root)
    (root / ".workbench").symlink_to(tmp_path / "outside" / ".workbench")
    assert stores_below(root) == []
    deep = root / "/".join("abcdefgh")
    made(deep)
    assert stores_below(root) == []
    assert stores_below(root, depth=8) == [deep / ".workbench"]
    for name in range(20):
        made(root / f"s{name:02}")
    monkeypatch.setattr(below, "MOST_STORES", 5)
    assert len(stores_below(root)) == 5
    monkeypatch.setattr(below, "MOST_FOLDERS", 3)
    assert len(stores_below(root)) <= 3


def test_an_id_stays_and_tells_nothing_of_the_path(tmp_path):
    made(tmp_path / "sub")
    first, second = (Stores(tmp_path).listed() for _ in range(2))
    assert [known.id for known in first] == [known.id for known in second]
    assert [known.folder for known in first] == ["", "sub"]
    assert all(known.id.isalnum() and len(known.id) == 16 for known in first)


def test_a_store_whose_folder_becomes_a_link_is_shown_no_more(tmp_path):
    root, outside = tmp_path / "root", made(tmp_path / "outside")
    made(root / "sub")
    stores = Stores(root)
    known = stores.listed()[1]
    (root / "sub" / ".workbench").rename(root / "sub" / "old")
    (root / "sub" / ".workbench").symlink_to(outside.root)
    assert known.id not in {one.id for one in stores.listed()}
    with pytest.raises(Exception, match="shows no store"):
        stores.known(known.id)
    assert stores.beside("sub/a.ipynb") is None


def test_a_folder_that_the_surroundings_name_is_the_default(tmp_path, monkeypatch):
    """All notebooks use it: no store beside one of them is meant then."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "shared"))
    made(tmp_path / "root" / "sub")
    stores = Stores(tmp_path / "root")
    assert stores.default.folder == str(tmp_path / "shared")
    assert stores.beside("sub/a.ipynb") == stores.default


# ---------------------------------------------------------------------------------------------------------------------
# Addresses


@pytest.fixture
def three(written, jp_root_dir):
    """The root folder's store and two below it; the last one is a copy that holds the same experiment."""
    written.experiment("root")
    for folder in ("one", "two/deep"):
        writing(jp_root_dir / folder).experiment("digits")
    return jp_root_dir


async def test_each_store_is_listed_and_answers_for_itself(ask, three):
    stores = (await ask("stores"))["stores"]
    assert [(store["folder"], store["experiments"]) for store in stores] == [("", 1), ("one", 1), ("two/deep", 1)]
    for store, name in zip(stores, ("root", "digits", "digits"), strict=True):
        (row,) = (await ask("experiments", store=store["id"]))["experiments"]
        assert row["name"] == name
        assert (await ask("health", store=store["id"]))["root"] == store["root"]
    assert await ask("experiments") == await ask("experiments", store=stores[0]["id"]), "the default"
    assert (await ask("experiments", "digits", store=stores[1]["id"]))["experiment"]["name"] == "digits"


async def test_a_store_with_an_odd_list_is_listed_beside_the_others(ask, three):
    odd = Store(three / "one" / ".workbench")
    odd.catalog_path.write_text(json.dumps({"experiments": {"1": {"id": "x"}, "2": {"id": "y", "label": {"a": 1}}}}))
    stores = (await ask("stores"))["stores"]
    assert [store["folder"] for store in stores] == ["", "one", "two/deep"]
    (row,) = (await ask("experiments", store=stores[1]["id"]))["experiments"]
    assert row["label"] == "digits@1"


async def test_a_store_that_cannot_be_read_says_why_and_the_others_are_listed(ask, three, monkeypatch):
    def read(store):
        if store.root.parent.name == "one":
            raise RuntimeError("something new")
        return read_catalog(store)

    monkeypatch.setattr(stores_module, "read_catalog", read)
    stores = (await ask("stores"))["stores"]
    assert [store["folder"] for store in stores] == ["", "one", "two/deep"]
    assert (stores[1]["why"], stores[1]["readonly"]) == ("it cannot be read (something new)", True)
    assert stores[2]["experiments"] == 1


async def test_what_is_asked_of_one_store_changes_no_other(ask, send, refused, three):
    _, one, two = (await ask("stores"))["stores"]
    code, _ = await send("requests", kind="note", experiment="digits", note="x")
    assert code == 404, "the root folder's store has none of this name"
    (row,) = (await ask("experiments", store=two["id"]))["experiments"]
    assert row["note"] == ""
    assert (await refused("experiments", "root", store=one["id"]))[0] == 404


@pytest.mark.parametrize(
    "given", ["nobody", "0" * 16, "..", "/", "one", "one/.workbench", "../outside", "%2e%2e", "x" * 5000]
)
async def test_what_is_no_id_of_a_store_is_404_in_words(refused, three, given):
    code, message = await refused("experiments", store=given)
    assert (code, "shows no store" in message) == (404, True)
    assert len(message) < 200


@pytest.mark.parametrize(
    "path",
    ["../a.ipynb", "one/../../a.ipynb", "/../../etc/a.ipynb", "link/a.ipynb", "link/../a.ipynb/../../x", "none/a.ipynb",
     ".hidden/a.ipynb", "one/.workbench/a.ipynb", "", ".."],
)  # fmt: skip
async def test_a_path_that_leads_out_of_the_root_folder_is_refused(refused, three, path, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    made(outside)
    made(three / ".hidden")
    (three / "link").symlink_to(outside)
    code, message = await refused("stores", "of", path=path)
    assert (code, refused.field) == (400, "path"), message


async def test_a_store_that_is_a_link_out_of_the_root_folder_is_not_shown(ask, three, tmp_path_factory):
    outside = made(tmp_path_factory.mktemp("outside"))
    (three / "three").mkdir()
    (three / "three" / ".workbench").symlink_to(outside.root)
    assert (await ask("stores", "of", path="three/a.ipynb"))["store"] is None
    assert len((await ask("stores"))["stores"]) == 3


async def test_the_store_beside_a_notebook_goes_before_others_that_hold_the_experiment(ask, three):
    async def of(**what):
        found = (await ask("stores", "of", **what))["store"]
        return found and found["folder"]

    assert await of(path="one/a.ipynb") == "one"
    assert await of(path="RTC:two/deep/new.ipynb") == "two/deep"
    assert await of(path="two/a.ipynb") is None
    assert await of(experiment="digits") == "one"
    assert await of(experiment="digits", path="two/deep/a.ipynb") == "two/deep"
    assert await of(experiment="root@1", path="one/a.ipynb") == ""
    assert await of(experiment="nobody") is None


async def test_a_store_beside_a_notebook_is_shown_however_deep_it_lies(ask, three):
    deep = "/".join("abcdefgh")
    made(three / deep)
    assert deep not in {store["folder"] for store in (await ask("stores"))["stores"]}
    await ask("stores", "of", path=f"{deep}/a.ipynb")
    assert deep in {store["folder"] for store in (await ask("stores"))["stores"]}


@pytest.mark.parametrize("jp_server_config", [SERVER])
async def test_a_notebook_with_a_kernel_brings_its_store(ask, three, jp_serverapp):
    deep = "/".join("abcdefgh")
    made(three / deep)
    await jp_serverapp.session_manager.create_session(
        path=f"{deep}/a.ipynb", name="a.ipynb", type="notebook", kernel_name="python3"
    )
    keeper = jp_serverapp.web_app.settings["workbench"]
    await until(lambda: three / deep / ".workbench" in {tended.store.root for tended in keeper.tended.values()})


@pytest.fixture
def more(monkeypatch):
    """A store that the server's surroundings name."""
    monkeypatch.setenv("WORKBENCH_STORES", "../more/.workbench")


CONFIGURED = {"store_folders": ["../team/.workbench"]}


@pytest.mark.parametrize("jp_server_config", [SERVER | {"Workbench": CONFIGURED}])
async def test_configured_stores_may_lie_anywhere(more, ask, store, jp_root_dir):
    team_folder = jp_root_dir.parent / "team"
    writing(team_folder).experiment("shared")
    _, team, more = (await ask("stores"))["stores"]
    assert (team["folder"], team["experiments"]) == (str(team_folder), 1)
    assert (more["folder"], more["exists"]) == (str(jp_root_dir.parent / "more"), False)
    (row,) = (await ask("experiments", store=team["id"]))["experiments"]
    assert row["name"] == "shared"


# ---------------------------------------------------------------------------------------------------------------------
# Events and engines


async def test_an_event_names_the_store_and_only_shown_ones_are_told_of(ask, three, jp_serverapp):
    events = []

    async def listener(logger, schema_id, data):
        events.append(data)

    jp_serverapp.event_logger.add_listener(schema_id=SCHEMA_ID, listener=listener)
    _, one, two = (await ask("stores"))["stores"]
    await ask("health", store=one["id"])
    keeper = jp_serverapp.web_app.settings["workbench"]
    await until(lambda: one["id"] in keeper.tended and keeper.tended[one["id"]].changes.root)
    for folder in ("two/deep", "one"):
        Catalog(Store.find(cwd=three / folder)).close()
        writing(three / folder).experiment("new")
    await until(lambda: events)
    await asyncio.sleep(0.5)
    assert {event["store"] for event in events} == {one["id"]}
    assert two["id"] in keeper.tended, "it is looked at seldom, for its engine"


@pytest.mark.parametrize("jp_server_config", [SERVER])
async def test_an_engine_that_was_killed_in_a_subfolder_is_replaced(jp_serverapp, jp_root_dir, monkeypatch):
    """No page is open, and the store is one that the server found by itself."""
    monkeypatch.setenv("WORKBENCH_WORKERS", "1")
    store = made(jp_root_dir / "sub")
    source = PLAIN.replace("    total =", "    __import__('time').sleep(0.01)\n    total =")
    space, scheduler = {"x": uniform(0.0, 1.0)}, Scheduler("all", 1, 1_000_000)
    spec = spec_of(source, store.root.parent, space=space, scheduler=scheduler, goal=Goal("score"), trials=1)
    process = engine_process(store, workers=1, idle=600)
    try:
        start(store, spec)
        await until(lambda: lines(store, spec, "LegStarted"))
        jp_serverapp.web_app.settings["workbench_stores"].look(0)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        await until(lambda: engine_pid(store) not in (None, process.pid))
    finally:
        end(process)
        if pid := engine_pid(store):
            os.kill(pid, signal.SIGTERM)
            await until(lambda: not engine_pid(store))


@pytest.mark.parametrize("jp_server_config", [SERVER])
async def test_no_engine_begins_in_a_store_that_is_not_this_persons(ask, jp_serverapp, jp_root_dir, monkeypatch):
    """It was neither made nor adopted by them: its journal is shown, and what it says is not trained."""
    monkeypatch.setattr(looks, "SELDOM_S", 0.1)
    origin = writing(jp_root_dir.parent / "origin")
    origin.experiment(state="running")
    requests.put(origin.store, {"kind": "resume", "experiment": "digits"})
    foreign = Store(jp_root_dir / "foreign" / ".workbench")  # as an archive brings it
    shutil.copytree(origin.store.root, foreign.root, ignore=shutil.ignore_patterns(MARK))
    keeper = jp_serverapp.web_app.settings["workbench"]
    _, shown = (await ask("stores"))["stores"]
    assert (shown["ours"], shown["under_way"]) == (False, 1)
    await until(lambda: shown["id"] in keeper.tended and not keeper.tended[shown["id"]].is_first)
    await asyncio.sleep(looks.OVERDUE_S + 0.5)  # some looks later, and longer than a request may wait
    assert not foreign.engine_log.exists(), "no engine was even started"


# ---------------------------------------------------------------------------------------------------------------------
# Published experiments


async def test_a_published_experiment_below_the_root_folder_is_shown_and_takes_no_requests(ask, jp_fetch, jp_root_dir):
    origin = writing(jp_root_dir.parent / "origin")
    origin.experiment(state="completed")
    publish(origin.store, "digits", str(jp_root_dir / "public" / "digits"), consent=lambda _: True)
    (jp_root_dir / "public" / "notes").mkdir()
    (jp_root_dir / "public" / "notes" / "published.json").write_text("{}")  # another program's file
    _, shown = (await ask("stores"))["stores"]
    assert (shown["folder"], shown["experiments"], shown["readonly"]) == ("public/digits", 1, True)
    assert shown["published"] is True
    (row,) = (await ask("experiments", store=shown["id"]))["experiments"]
    assert (row["label"], row["state"]) == ("digits@1", "completed")
    assert (await ask("experiments", "digits", "trials", store=shown["id"]))["trials"]
    body = json.dumps({"kind": "note", "experiment": "digits", "note": "x"})
    where = {"method": "POST", "params": {"store": shown["id"]}, "body": body, "raise_error": False}
    answer = await jp_fetch("workbench", "api", "requests", **where)
    assert answer.code == 403
    assert "is a published copy" in json.loads(answer.body)["message"]

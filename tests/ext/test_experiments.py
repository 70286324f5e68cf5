"""The list, the pages of experiments and what they froze, over stores as they are found: old, damaged, newer."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path

import nbformat
import pytest
from cli.stored import Answering

from workbench.snapshot import take
from workbench.store import Store
from workbench.store.journal import Journal
from workbench.store.series import Series

OLD = Path(__file__).parent.parent / "fixtures" / "stores" / "v1"


async def listed(ask):
    return (await ask("experiments"))["experiments"]


async def test_a_line_says_all_that_a_list_shows(ask, written):
    written.experiment(tags=["slow", "<b>"], note="<script>alert(1)</script>", notebook="/n/a.ipynb")
    [row] = await listed(ask)
    assert (row["label"], row["name"], row["version"]) == ("digits@1", "digits", 1)
    assert (row["tags"], row["note"], row["notebook"]) == (["slow", "<b>"], "<script>alert(1)</script>", "/n/a.ipynb")
    assert (row["state"], row["progress"], row["deleting"], row["pinned"]) == ("completed", 1.0, None, False)
    assert row["ended"] == "2026-01-09T00:00:00.000+00:00"
    assert row["sparkline"] == [0.975], "all that was reported came in one moment"


async def test_pins_and_origins_are_told(ask, written):
    origin = {"experiment": "20260101-000000-aaaaaa", "trial": 7, "label": "other@1/t0007"}
    spec = written.experiment(pins=["", "t0001:3"], replays=origin)
    [row] = await listed(ask)
    assert (row["pinned"], row["lineage"]) == (True, {"parent": "other@1/t0007", "how": "replays"})
    for step in (1, 3):
        written.checkpoint(spec, 1, step)
    with Journal.open(written.store.journal_path) as journal:
        journal.append({"kind": "pin", "experiment": spec.id, "trial": 1, "step": 3})
    page = await ask("experiments", "digits", "trials", "1")
    assert [(one["step"], one["pinned"]) for one in page["checkpoints"]] == [(1, False), (3, True)]


async def test_a_running_one_is_as_fresh_as_its_series(ask, written):
    spec = written.experiment(state="running", best=None, trials=1)
    with Answering(written.store):
        written.set(spec, best={"trial": 1, "value": 0.75}, counts={"running": 1, "completed": 4}, seconds_left=9.0)
        [row] = await listed(ask)
    assert (row["state"], row["seconds_left"]) == ("running", 9.0)
    assert row["best"] == {"value": 0.75, "trial": "t0001", "number": 1}
    assert row["trials"] == {"ended": 4, "begun": 5, "planned": 49, "of": 49}
    assert row["progress"] == pytest.approx(4 / 49)
    assert row["counts"] == {"running": 1, "completed": 4}


async def test_a_trial_that_sets_up_says_since_when_and_is_counted(ask, written):
    spec = written.experiment(state="running", best=None, trials=1)
    since = "2026-11-23T14:05:00.000+00:00"
    with Series.open(written.store.experiment(spec.id).series) as series:
        series.put_trial(0, state="setting up", since=since)
    with Answering(written.store):
        written.set(spec, counts={"setting up": 1})
        [row] = await listed(ask)
        trials = (await ask("experiments", "digits", "trials"))["trials"]
    assert row["counts"] == {"setting up": 1}
    assert {one["label"]: (one["state"], one["since"]) for one in trials if "since" in one} == {
        "t0000": ("setting up", since)
    }


async def test_what_waits_for_room_its_storage_or_its_mirrors_says_so(ask, written):
    waits = "waits since 12:00:00 UTC: s3://bucket cannot be written"
    written.experiment(name="full", state="paused", reason="no room: the disk has 1 kB left", storage="is being sent")
    written.experiment(name="disk", state="running", disk="no space is left to write x")
    written.experiment(name="far", state="completed", reason="no room: was long ago", storage=waits)
    written.experiment(name="told", state="running", mirror="mlflow does not answer", storage="is being sent")
    written.experiment(name="telling", state="running", mirror="is being written")
    with Answering(written.store):
        told = {row["name"]: row["troubles"] for row in await listed(ask)}
    assert told == {
        "full": [{"kind": "room", "words": "the disk has 1 kB left"}],
        "disk": [{"kind": "room", "words": "no space is left to write x"}],
        "far": [{"kind": "storage", "words": waits}],
        "told": [{"kind": "mirror", "words": "mlflow does not answer"}],
        "telling": [],
    }
    calm = [row["troubles"] for row in await listed(ask) if row["name"] not in ("far", "told")]
    assert calm == [[], [], []], "no engine: no experiment waits"


async def test_without_an_engine_nothing_is_running(ask, written):
    written.experiment(state="running")
    [row] = await listed(ask)
    assert (row["state"], row["seconds_left"]) == ("waiting", None)
    assert "no engine" in row["reason"]
    states = {trial["label"]: trial["state"] for trial in (await ask("experiments", "digits", "trials"))["trials"]}
    assert states == {"t0000": "waiting", "t0001": "waiting", "t0002": "failed"}


async def test_when_the_engine_has_died_a_page_that_follows_the_trials_is_sent_them_again(ask, written):
    written.experiment(state="running")

    async def states(**query):
        answer = await ask("experiments", "digits", "trials", **query)
        return answer["cursor"], answer["engine"], {trial["label"]: trial["state"] for trial in answer["trials"]}

    with Answering(written.store):
        cursor, engine, found = await states()
        assert (engine, found) == (True, {"t0000": "running", "t0001": "running", "t0002": "failed"})
        assert await states(after=cursor, engine="true") == (cursor, True, {})
    waiting = {"t0000": "waiting", "t0001": "waiting", "t0002": "failed"}
    assert await states(after=cursor, engine="true") == (cursor, False, waiting)
    assert await states(after=cursor, engine="false") == (cursor, False, {})


@pytest.mark.parametrize("whole", ["trial", "experiment"])
async def test_a_checkpoint_says_what_is_pinned_as_a_whole_so_that_that_pin_can_be_removed(ask, written, whole):
    spec = written.experiment()
    written.checkpoint(spec, 1, 3, b"x")
    with Journal.open(written.store.journal_path) as journal:
        journal.append({"kind": "pin", "experiment": spec.id, **({"trial": 1} if whole == "trial" else {})})
    [one] = (await ask("experiments", "digits", "trials", "1"))["checkpoints"]
    assert (one["pinned"], one["pinned_with"]) == (True, whole)


async def test_health_tells_how_the_engine_is(ask, written):
    with Answering(written.store):
        engine = (await ask("health"))["engine"]
        assert (engine["alive"], engine["state"], engine["address"]) == (True, "running", "tcp://127.0.0.1:1")
        left = written.store.engine_json.read_bytes()
    assert (await ask("health"))["engine"]["state"] == "none"
    written.store.engine_json.write_bytes(left)
    health = await ask("health")
    assert (health["engine"]["alive"], health["engine"]["state"]) == (False, "dead")
    assert (health["store"], health["root"]) == (True, str(written.store.root))


async def test_the_goal_is_the_first_metric(ask, written):
    spec = written.experiment()
    with Series.open(written.store.experiment(spec.id).series) as series:
        series.add_points([(0, "<img src=x onerror=alert(1)>", 1, 0, 1.0, 1.0)])
    assert (await ask("experiments", "digits", "metrics"))["metrics"] == [
        {"name": "val_acc", "goal": True},
        {"name": "<img src=x onerror=alert(1)>", "goal": False},
    ]


async def test_the_metrics_of_a_trial_are_those_that_it_reported(ask, written):
    spec = written.experiment()
    with Series.open(written.store.experiment(spec.id).series) as series:
        series.add_points([(1, "loss", 1, 0, 1.0, 1.0), (2, "other", 1, 0, 1.0, 1.0)])
        series.add_samples(1, [("memory", 1e9, 1e9 + 5, 2e9)])
        series.add_samples(2, [("cpu", 1e9, 1e9 + 5, 0.5)])

    async def names(trials: str) -> tuple[list[str], list[str]]:
        told = await ask("experiments", "digits", "metrics", trials=trials)
        return [one["name"] for one in told["metrics"]], [one["name"] for one in told["system"]]

    assert await names("1") == (["val_acc", "loss"], ["memory"])
    assert await names("2") == (["other"], ["cpu"])
    assert await names("1,t0002") == (["val_acc", "loss", "other"], ["cpu", "memory"])
    assert await names("7") == ([], [])


async def test_what_was_measured_of_each_trial_is_told_once(ask, written):
    spec = written.experiment()
    written.checkpoint(spec, 0, 3)
    answer = await ask("experiments", "digits", "measures")
    by_trial = {one["trial"]: one for one in answer["trials"]}
    assert by_trial[0]["metrics"] == {"val_acc": {"last": 0.95, "low": 0.9, "high": 0.95, "at_best": 0.95}}
    assert (by_trial[0]["best"], by_trial[0]["best_step"], by_trial[0]["slot"]) == (0.95, 3, "cpu0")
    assert by_trial[0]["bytes"] > len(b"weights")
    assert by_trial[2]["metrics"] == {}
    assert (await ask("experiments", "digits", "measures", after=answer["cursor"]))["trials"] == []
    with Series.open(written.store.experiment(spec.id).series) as series:
        series.add_points([(1, "val_loss", 3, 0, float("nan"), 1.0)])
    later = await ask("experiments", "digits", "measures", after=answer["cursor"])
    assert [one["trial"] for one in later["trials"]] == [1]
    assert later["trials"][0]["metrics"]["val_loss"] == {"last": "nan", "low": None, "high": None, "at_best": "nan"}


async def test_points_are_filtered_and_the_cursor_goes_on(ask, written):
    written.experiment()
    found, cursor = [], 0
    while (answer := await ask("experiments", "digits", "points", after=cursor, limit=1, trials="t0001"))["points"]:
        cursor = answer["cursor"]
        found += answer["points"]
    assert [(point[0], point[2]) for point in found] == [(1, 1), (1, 2), (1, 3)]
    assert (await ask("experiments", "digits", "points", name="loss"))["points"] == []
    whole = await ask("experiments", "digits", "points")
    assert (await ask("experiments", "digits", "points", name="loss"))["cursor"] == whole["cursor"]


async def test_curves_are_of_the_goal_unless_another_is_named(ask, written):
    written.experiment()
    curves = await ask("experiments", "digits", "curves")
    assert [(curve["trial"], curve["x"]) for curve in curves["curves"]] == [(0, [1, 2, 3]), (1, [1, 2, 3])]
    assert (await ask("experiments", "digits", "curves", metric="nobody's"))["curves"] == []
    assert [c["trial"] for c in (await ask("experiments", "digits", "curves", trials="1"))["curves"]] == [1]


async def test_what_trials_used_has_curves_of_its_own_and_is_no_metric(ask, refused, written, store):
    spec = written.experiment()
    before = (await ask("experiments", "digits", "metrics"))["metrics"]
    assert (await ask("experiments", "digits", "metrics"))["system"] == []
    assert (await ask("experiments", "digits", "curves", system="memory"))["curves"] == []
    with Series.open(store.experiment(spec.id).series) as series:
        series.put_trial(1, started="2001-09-09T01:46:38+00:00")  # 2 s before a billion seconds since 1970
        series.add_samples(1, [("memory", 1e9, 1e9 + 5, 2e9), ("memory", 1e9 + 100, 1e9 + 105, 3e9)])
        series.add_samples(2, [("memory", 1e9, 1e9 + 5, 1e9), ("cpu", 1e9, 1e9 + 5, 0.5)])
    told = await ask("experiments", "digits", "metrics")
    assert told["metrics"] == before
    assert [(one["name"], one["unit"]) for one in told["system"]] == [("cpu", "cores"), ("memory", "GB")]
    answer = await ask("experiments", "digits", "curves", system="memory", trials="1")
    [curve] = answer["curves"]
    assert (answer["x"], curve["x"]) == ("time", [2.0, 7.0, 54.5, 102.0, 107.0])
    assert curve["y"] == [2.0, 2.0, "nan", 3.0, 3.0]
    [end] = (await ask("experiments", "digits", "curves", system="memory", trials="1", low=103))["curves"]
    assert end["x"] == [102.0, 107.0]
    both = (await ask("experiments", "digits", "curves", system="memory"))["curves"]
    assert [one["trial"] for one in both] == [1, 2]
    status, words = await refused("experiments", "digits", "curves", system="noise")
    assert status == 400
    assert "cpu, memory" in str(words)


async def test_a_bad_question_about_curves_names_its_field(refused, written):
    written.experiment()
    for query in ("width=0", "width=1000000", "low=x", "high=nan", "x=epoch", "trials=1,x", "trials=-1"):
        field, _, value = query.partition("=")
        assert (await refused("experiments", "digits", "curves", **{field: value}))[0] == 400, query
        assert refused.field == field


async def test_bounds_the_wrong_way_round_are_refused(refused, written):
    written.experiment()
    assert (await refused("experiments", "digits", "curves", low=5, high=1))[0] == 400
    assert refused.field == "high"


# ---------------------------------------------------------------------------------------------------------------------
# Stores as they are found


async def test_a_damaged_series_hides_no_other_experiment(ask, refused, written):
    damaged, _ = written.experiment(state="running"), written.experiment("other")
    path = written.store.experiment(damaged.id).series
    for left in path.parent.glob("series.db-*"):
        left.unlink()
    path.write_bytes(b"no database" * 1000)
    assert {row["label"] for row in await listed(ask)} == {"digits@1", "other@1"}
    for parts in (
        ("trials",),
        ("points",),
        ("curves",),
        ("metrics",),
        ("timeline",),
        ("trials", "1"),
        ("trials", "1", "log"),
    ):
        code, message = await refused("experiments", "digits", *parts)
        assert code == 503, parts
        assert "series.db" in message


async def test_a_series_without_its_tables_is_empty(ask, written):
    spec = written.experiment()
    connection = sqlite3.connect(written.store.experiment(spec.id).series)
    for table in ("points", "legs"):
        connection.execute(f"DROP TABLE {table}")
    connection.close()
    for part, key in (("points", "points"), ("curves", "curves"), ("timeline", "legs")):
        assert (await ask("experiments", "digits", part))[key] == []


async def test_a_series_of_a_later_workbench_is_shown(ask, written):
    spec = written.experiment()
    connection = sqlite3.connect(written.store.experiment(spec.id).series)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert len((await ask("experiments", "digits", "trials"))["trials"]) == 3


async def test_a_store_without_its_list_is_shown_from_the_journals(ask, written):
    written.experiment()
    written.store.catalog_path.unlink()
    assert [row["label"] for row in await listed(ask)] == ["digits@1"]


@pytest.fixture
def old(store) -> Store:
    """The store of an earlier version, in place of the test's."""
    shutil.rmtree(store.root)
    shutil.copytree(OLD, store.root)
    return store


async def test_a_store_of_an_earlier_version_answers_everywhere(ask, old):
    [row] = await listed(ask)
    assert (row["label"], row["state"]) == ("tiny@1", "completed")
    assert row["sparkline"]
    page = await ask("experiments", "tiny", "trials", "2")
    assert [one["step"] for one in page["checkpoints"]] == [1, 3]
    assert "turn 0" in (await ask("experiments", "tiny", "trials", "2", "log"))["text"]
    assert len((await ask("experiments", "tiny", "curves"))["curves"]) == 4
    for part in ("metrics", "timeline", "points", "trials"):
        assert await ask("experiments", "tiny", part)
    snapshot = await ask("experiments", "tiny", "snapshot")
    assert (snapshot["train_cell"], snapshot["captured"], snapshot["notebook"]) == (2, ["weights"], False)
    assert "%load_ext workbench" in snapshot["cells"][0]["source"]


# ---------------------------------------------------------------------------------------------------------------------
# What was frozen


@pytest.fixture
def frozen(written, tmp_path):
    """An experiment with a snapshot of a notebook of two cells, of which one was executed."""
    path = tmp_path / "a.ipynb"
    cells = [nbformat.v4.new_code_cell("x = 1", id="aaaa"), nbformat.v4.new_markdown_cell("<script>", id="bbbb")]
    cells[0].metadata["trusted"] = True
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    snapshot = take(
        written.store, notebook=path, cells=["", "x = 1", "password = 'hunter22222'"], cell_id="cccc", folder=tmp_path
    )
    spec = written.experiment()
    place = written.store.experiment(spec.id).spec
    place.write_text(json.dumps({**json.loads(place.read_text()), "snapshot": snapshot.digest}))
    return snapshot


async def test_what_surrounded_an_experiment_is_told(ask, frozen):
    snapshot = await ask("experiments", "digits", "snapshot")
    assert snapshot["digest"] == frozen.digest
    assert [(cell["n"], cell["source"], cell["cell_id"]) for cell in snapshot["cells"]] == [
        (1, "x = 1", None),
        (2, "password = '***'", "cccc"),
    ]
    assert snapshot["train_cell"] == 2
    assert snapshot["notebook"]
    assert snapshot["environment"]["python"]
    assert snapshot["environment"]["distributions"]["numpy"]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", ["notebook.ipynb", "cells.json"])
async def test_a_pipe_in_a_snapshot_holds_up_nobody(name, refused, frozen):
    (frozen.path / name).unlink()
    os.mkfifo(frozen.path / name)
    for address in (("snapshot",), ("notebook",)):
        status, message = await refused("experiments", "digits", *address, which="file")
        assert status == 503
        assert "a named pipe" in message


async def test_what_training_was_given_of_the_notebooks_process_is_told_without_secrets(ask, written, frozen):
    [experiment] = written.store.experiment_ids()
    place = written.store.experiment(experiment).spec
    data = json.loads(place.read_text())
    given = {"env": {"X": "1"}, "secrets": {"HF_TOKEN": "0123456789"}, "settings": {"numpy.seterr": {"over": "raise"}}}
    place.write_text(json.dumps({**data, "training": {**data["training"], **given, "threads": 2, "is_whole": True}}))
    environment = (await ask("experiments", "digits", "snapshot"))["environment"]
    assert environment["variables"] == {"X": "1", "HF_TOKEN": "a secret, #012345"}
    assert (environment["threads"], environment["settings"]) == (2, given["settings"])


async def test_what_it_was_asked_to_do_and_who_launched_it(ask, written):
    written.experiment()
    answer = await ask("experiments", "digits@1")
    about = answer["about"]
    assert about["goal"] == "max val_acc"
    assert about["search"].startswith("hyperband, steps 1-")
    assert all(" = " in line for line in about["space"])
    assert about["launched"] is None  # as in experiments of earlier versions
    place = written.store.experiment(answer["experiment"]["id"]).spec
    git = {"commit": "8" * 40, "branch": "trunk", "remote": None, "changed": 2}
    launched = {"account": "ada", "host": "box", "git": git}
    place.write_text(json.dumps({**json.loads(place.read_text()), "launched": launched}))
    assert (await ask("experiments", "digits@1"))["about"]["launched"] == launched


async def test_the_notebook_opens_as_it_was(ask, refused, frozen):
    executed = nbformat.from_dict(await ask("experiments", "digits", "notebook"))
    nbformat.validate(executed)
    assert [cell.source for cell in executed.cells] == ["x = 1", "password = '***'"]
    file = nbformat.from_dict(await ask("experiments", "digits", "notebook", which="file"))
    nbformat.validate(file)
    assert [cell.id for cell in file.cells] == ["aaaa", "bbbb"]
    assert "trusted" not in file.cells[0].metadata, "what was trusted then is not trusted now"
    assert (await refused("experiments", "digits", "notebook", which="document"))[0] == 404
    assert (await refused("experiments", "digits", "notebook", which="../spec.json"))[0] == 400


async def test_a_damaged_snapshot_is_the_stores_fault(refused, written, frozen):
    (frozen.path / "cells.json").write_text("[")
    assert (await refused("experiments", "digits", "snapshot"))[0] == 503
    shutil.rmtree(frozen.path)
    code, message = await refused("experiments", "digits", "snapshot")
    assert code == 404
    assert "cleaned up" in message


async def test_an_experiment_without_a_snapshot_says_so(refused, written):
    written.experiment()
    code, message = await refused("experiments", "digits", "snapshot")
    assert code == 404
    assert "without a snapshot" in message

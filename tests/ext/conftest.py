"""A Jupyter server with the extension, over a store in a temporary folder."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import own_state  # noqa: F401 - importing it is all
import pytest
from cli.stored import Written
from ext.described import check
from tornado.httpclient import HTTPClientError

from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.store import Store
from workbench.store.lists.catalog import Catalog
from workbench.store.owner.ownership import enlist
from workbench.store.series import Series


@pytest.fixture
def jp_server_config():
    # A test that wants engines started without asking says so.
    return {"ServerApp": {"jpserver_extensions": {"workbench_ext": True}}, "Workbench": {"tend": False}}


def own(store: Store) -> Store:
    """``store``, made, and on the list of this person's: only there may an engine begin by itself."""
    enlist(store.create())
    return store


@pytest.fixture
def store(jp_environ, jp_root_dir, monkeypatch) -> Store:
    """The store beside the server's root folder; nothing is in it. The list of this person's stores is the tests'."""
    monkeypatch.delenv("WORKBENCH_HOME", raising=False)  # a person's own store is not the tests'
    return own(Store.find(cwd=jp_root_dir))


def spec(experiment_id: str, name: str = "digits", version: int = 1) -> Spec:
    """A spec as a train cell would write it."""
    return Spec(
        id=experiment_id,
        name=name,
        version=version,
        created=datetime(2026, 1, 1, tzinfo=UTC).isoformat(),
        goal=Goal("val_acc", "max"),
        space={"schema": 1, "parameters": []},
        scheduler=Scheduler(last=27),
        searcher=Searcher(),
        program=Program("cell", "for epoch in trial.steps(): ...", "<cell>"),
        training=Training("python", "."),
    )


@pytest.fixture
def digits(store):
    """A finished experiment with two trials, and one that failed and whose name is a script."""
    for experiment_id, name in (("20260101-000000-aaaaaa", "digits"), ("20260102-000000-bbbbbb", "other")):
        store.write_spec(spec(experiment_id, name))
    series = Series.open(store.experiment("20260101-000000-aaaaaa").series)
    series.add_points(
        [(0, "val_acc", 1, 0, 0.5, 1.0), (1, "val_acc", 1, 0, float("nan"), 2.0), (0, "val_acc", 3, 0, 0.75, 3.0)]
    )
    series.put_trial(0, configuration={"lr": 0.1}, state="completed", step=3, value=0.75, best=0.75)
    series.put_trial(1, configuration={"lr": 9.0}, state="failed", step=1, error="ValueError: <script>")
    series.flush()
    series.close()
    catalog = Catalog(store)
    shared = {"version": 1, "created": "2026-01-01T00:00:00+00:00", "goal": "max val_acc", "trials": 2}
    catalog.upsert_experiment(
        "20260101-000000-aaaaaa",
        {**shared, "name": "digits", "label": "digits@1", "state": "completed", "best": {"trial": 0, "value": 0.75}},
    )
    catalog.upsert_experiment(
        "20260102-000000-bbbbbb",
        {**shared, "name": "other", "label": "other@1", "state": "failed", "reason": "<b>all</b> failed", "best": None},
    )
    catalog.flush()
    return "20260101-000000-aaaaaa"


@pytest.fixture
def ask(jp_fetch):
    """The JSON at an address under ``workbench/api``, which must be an answer, and as it is described."""

    async def ask(*parts, **query):
        response = await jp_fetch("workbench", "api", *parts, params={k: str(v) for k, v in query.items()})
        assert response.headers["Content-Type"].startswith("application/json")
        answer = json.loads(response.body)
        check("get", "/" + "/".join(parts), response.code, answer)
        return answer

    return ask


@pytest.fixture
def refused(jp_fetch):
    """Status and message at an address, which must be a refusal; the field it names is ``refused.field``."""

    async def refused(*parts, **query):
        with pytest.raises(HTTPClientError) as caught:
            await jp_fetch("workbench", "api", *parts, params={k: str(v) for k, v in query.items()})
        answer = json.loads(caught.value.response.body)
        refused.field = answer.get("field")
        return caught.value.code, answer["message"]

    return refused


@pytest.fixture
def written(store) -> Written:
    """The store, to write experiments into as an engine leaves them."""
    return Written(store.create(), Catalog(store))


@pytest.fixture
def send(jp_fetch):
    """Status and JSON of a request with a body (or DELETE), whatever the status."""

    async def send(*parts, method="POST", **body):
        response = await jp_fetch(
            "workbench",
            "api",
            *parts,
            method=method,
            body=json.dumps(body) if method == "POST" else None,
            raise_error=False,
            allow_nonstandard_methods=True,
        )
        answer = json.loads(response.body)
        check(method, "/" + "/".join(parts), response.code, answer)
        return response.code, answer

    return send

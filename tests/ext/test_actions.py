"""What people ask for in the panel: refused before anything is asked, or asked, and answered by the engine."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from cli.stored import Answering
from running import PLAIN, engine_pid, spec_of, until
from tornado.httpclient import HTTPClientError

from workbench.records import Goal, Scheduler
from workbench.store import journal, requests
from workbench.store.keeping import naming
from workbench.store.owner.lease import read_engine


@pytest.fixture
def answering(written):
    """An engine that says yes to everything."""
    with Answering(written.store) as answering:
        yield answering


async def test_what_is_asked_reaches_the_engine_and_its_answer_comes_back(send, written, answering):
    spec = written.experiment(state="running")
    code, answer = await send("requests", kind="stop", experiment="digits@1", trial="t0001", reason="too slow")
    assert (code, answer["accepted"]) == (200, True)
    assert re.fullmatch(r"\d{8}-\d{6}-\d{6}-[0-9a-f]{8}", answer["request"])
    [asked] = [request for request in answering.asked if request["kind"] == "stop"]
    assert (asked["experiment"], asked["trial"], asked["reason"]) == (spec.id, 1, "too slow")
    assert await send("requests", answer["request"], method="GET") == (
        200,
        {"request": answer["request"], "state": "accepted", "experiment": None},
    )


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ({"kind": "rename", "name": "new name"}, {"name": "new name"}),
        ({"kind": "tag", "tags": ["b", "a", " b ", ""]}, {"tags": ["a", "b"]}),
        ({"kind": "note", "note": "<script>alert(1)</script>"}, {"note": "<script>alert(1)</script>"}),
        ({"kind": "pin", "trial": 1, "step": 3}, {"trial": 1, "step": 3}),
        ({"kind": "keep", "rule": "best=2"}, {"rule": "best=2"}),
        ({"kind": "keep", "rule": {"latest": 2}}, {"rule": {"latest": 2}}),
        ({"kind": "extend", "trials": 20, "seconds": 3.5}, {"trials": 20, "seconds": 3.5}),
        ({"kind": "verify", "trial": "t0001", "step": 3}, {"trial": 1, "step": 3}),
        ({"kind": "replay"}, {}),
    ],
)
async def test_each_kind_is_asked_as_it_was_meant(body, kept, send, written, answering):
    spec = written.experiment()
    assert (await send("requests", experiment="digits", **body))[0] == 200
    asked = {key: value for key, value in answering.asked[-1].items() if key not in ("reason", "schema")}
    assert asked == {"kind": body["kind"], "experiment": spec.id, **kept}


#: Bodies that are refused, each with the field that is wrong.
BAD = [
    ({}, "kind"),
    ({"kind": "start"}, "kind"),
    ({"kind": ["stop"]}, "kind"),
    ({"kind": "end"}, "kind"),
    ({"kind": "pause"}, "experiment"),
    ({"kind": "pause", "experiment": 7}, "experiment"),
    ({"kind": "pause", "experiment": "digits/t0001"}, "experiment"),
    ({"kind": "pause", "experiment": "digits", "trial": -1}, "trial"),
    ({"kind": "note", "experiment": "digits", "note": "", "trial": 1}, "trial"),
    ({"kind": "stop", "experiment": "digits", "trial": "x"}, "trial"),
    ({"kind": "stop", "experiment": "digits", "trial": True}, "trial"),
    ({"kind": "stop", "experiment": "digits", "trial": -1}, "trial"),
    ({"kind": "stop", "experiment": "digits", "reason": 1}, "reason"),
    ({"kind": "rename", "experiment": "digits"}, "name"),
    ({"kind": "rename", "experiment": "digits", "name": "../x"}, "name"),
    ({"kind": "rename", "experiment": "digits", "name": "<b>"}, "name"),
    ({"kind": "tag", "experiment": "digits", "tags": "a"}, "tags"),
    ({"kind": "tag", "experiment": "digits", "tags": ["a" * 101]}, "tags"),
    ({"kind": "note", "experiment": "digits", "note": "x" * 10_001}, "note"),
    ({"kind": "pin", "experiment": "digits", "trial": 1, "step": -1}, "step"),
    ({"kind": "keep", "experiment": "digits", "rule": 3}, "rule"),
    ({"kind": "keep", "experiment": "digits", "rule": None}, "rule"),
    ({"kind": "keep", "experiment": "digits", "rule": {"nothing": 1}}, "rule"),
    ({"kind": "keep", "experiment": "digits", "rule": "latest=-1"}, "rule"),
    ({"kind": "extend", "experiment": "digits", "seconds": -1}, "seconds"),
    ({"kind": "verify", "experiment": "digits"}, "trial"),
    ({"kind": "gc", "dry_run": "yes"}, "dry_run"),
    ({"kind": "delete", "experiment": "other", "undo_s": "soon"}, "undo_s"),
    ({"kind": "delete", "experiment": "other", "undo_s": -1}, "undo_s"),
    ({"kind": "delete", "experiment": "other", "undo_s": 3601}, "undo_s"),
    ({"kind": "delete", "experiment": "other", "not_before": "2100-01-01T00:00:00Z"}, "not_before"),
    ({"kind": "delete", "experiment": "other", "not_before": "0001-01-01T00:00:00+14:00"}, "not_before"),
]


async def test_bad_input_is_refused_with_its_field_before_anything_is_asked(send, written):
    written.experiment(state="running")
    written.experiment("other")
    for body, field in BAD:
        code, answer = await send("requests", **body)
        assert (code, answer["field"]) == (400, field), (body, answer)
    assert requests.peek(written.store) == []


@pytest.mark.parametrize("body", ["", "{", "[]", "7", '{"kind": NaN}', "[" * 100_000, "\ud800"])
async def test_what_is_no_object_is_refused(body, jp_fetch, written):
    with pytest.raises(HTTPClientError) as caught:
        await jp_fetch(
            "workbench", "api", "requests", method="POST", body=body.encode(errors="surrogatepass"),
            allow_nonstandard_methods=True,
        )  # fmt: skip
    assert caught.value.code == 400


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "stop", "experiment": "nobody's"},
        {"kind": "stop", "experiment": "digits", "trial": 99},
        {"kind": "note", "experiment": "20260101-000000-aaaaaa", "note": ""},
    ],
)
async def test_what_is_not_there_is_404(body, send, written):
    written.experiment(state="running")
    assert (await send("requests", **body))[0] == 404
    assert requests.peek(written.store) == []


async def test_what_the_state_forbids_is_409(send, written):
    written.experiment()
    written.experiment("other", state="running")
    for body in (
        {"kind": "stop", "experiment": "digits"},
        {"kind": "resume", "experiment": "digits"},
        {"kind": "delete", "experiment": "other"},
    ):
        code, answer = await send("requests", **body)
        assert (code, answer["field"]) == (409, "experiment")


@pytest.mark.parametrize(
    ("kind", "status"),
    [("NotFound", 404), ("BadName", 400), ("ClusterError", 409), ("InUse", 409), ("StoreFull", 503), ("Odd", 409)],
)
async def test_a_refusal_says_whose_fault_it_is(kind, status, send, written):
    written.experiment(state="running")
    with Answering(written.store, refusal={"accepted": False, "error": "no, because", "type": kind}):
        code, answer = await send("requests", kind="pause", experiment="digits")
    assert (code, answer["message"]) == (status, "no, because")
    _, state = await send("requests", answer["request"], method="GET")
    assert (state["state"], state["message"]) == ("refused", "no, because")


async def test_without_a_store_nothing_can_be_asked(send):
    assert (await send("requests", kind="pause", experiment="digits"))[0] == 404


async def test_an_answer_that_takes_too_long_is_looked_for_later(send, written, jp_web_app):
    written.experiment(state="running")
    jp_web_app.settings["workbench_answer_s"] = 0.1
    with Answering(written.store) as answering:
        answering._end.set()  # it lives, and takes nothing
        answering._thread.join()
        code, answer = await send("requests", kind="pause", experiment="digits")
        assert (code, answer["state"]) == (202, "waiting")
        code, state = await send("requests", answer["request"], method="GET")
        assert (code, state["state"], state["kind"]) == (200, "waiting", "pause")


# ---------------------------------------------------------------------------------------------------------------------
# Deleting, and changing one's mind


async def test_a_delete_waits_says_what_would_be_lost_and_is_taken_back(ask, send, written, answering):
    spec = written.experiment()
    written.checkpoint(spec, 1, 3, b"x" * 5_000)
    code, told = await send("requests", kind="delete", experiment="digits")
    assert (code, told["state"]) == (202, "waiting")
    assert told["bytes"] > 5_000
    left = datetime.fromisoformat(told["until"]) - datetime.now(UTC)
    assert timedelta(seconds=8) < left <= timedelta(seconds=10)
    [row] = (await ask("experiments"))["experiments"]
    assert row["deleting"] == told["request"]
    again, refusal = await send("requests", kind="delete", experiment="digits")
    assert (again, refusal["request"]) == (409, told["request"])
    assert await send("requests", told["request"], method="DELETE") == (
        200,
        {"request": told["request"], "state": "withdrawn"},
    )
    [row] = (await ask("experiments"))["experiments"]
    assert row["deleting"] is None
    assert (await send("requests", told["request"], method="DELETE"))[0] == 404
    assert answering.asked == []


async def test_a_delete_looks_at_no_other_experiment(send, written, answering, monkeypatch):
    """What every other one needs was looked up for each: seconds in a store of 1,000, from the time for undoing it."""
    looked_at = {}
    monkeypatch.setattr(naming, "_files", looked_at)  # the real look-up notes here which files it has read
    written.experiment()
    written.experiment("other")
    assert (await send("requests", kind="delete", experiment="other"))[0] == 202
    assert not [path for path in looked_at if written.store.experiments in path.parents]


@pytest.mark.parametrize("undo_s", [5, 60.5, 3600])
async def test_a_delete_waits_by_the_servers_clock(send, written, answering, undo_s):
    written.experiment()
    before = datetime.now(UTC)
    code, told = await send("requests", kind="delete", experiment="digits", undo_s=undo_s)
    after, until = datetime.now(UTC), datetime.fromisoformat(told["until"]) - timedelta(seconds=undo_s)
    assert (code, before - timedelta(milliseconds=1) <= until <= after) == (202, True)


async def test_what_one_trial_keeps_is_deleted_alone(ask, send, written, answering):
    spec = written.experiment(state="running")
    written.checkpoint(spec, 1, 3, b"x" * 5_000)
    written.checkpoint(spec, 0, 3, b"x" * 50_000)
    code, told = await send("requests", kind="delete", experiment="digits", trial=1)
    assert code == 202
    assert 5_000 < told["bytes"] < 50_000
    assert (await ask("experiments"))["experiments"][0]["deleting"] is None, "the experiment stays"
    assert (await send("requests", told["request"], method="DELETE"))[0] == 200


async def test_what_the_engine_has_acted_on_stays(send, written, answering):
    written.experiment(state="running")
    _, answer = await send("requests", kind="pause", experiment="digits")
    assert (await send("requests", answer["request"], method="DELETE"))[0] == 409


@pytest.mark.parametrize("request_id", ["x", "..%2F..%2Fcatalog", "20260101-000000-000000-00000000"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_an_unknown_request_is_no_request(request_id, method, send, written):
    written.experiment()
    assert (await send("requests", request_id, method=method))[0] in (400, 404)
    assert written.store.catalog_path.exists()


# ---------------------------------------------------------------------------------------------------------------------
# For whom


async def test_nobody_asks_without_a_login(http_server_client, jp_base_url, written):
    written.experiment(state="running")
    body = json.dumps({"kind": "pause", "experiment": "digits"})
    for method, address in (("POST", "requests"), ("DELETE", "requests/20260101-000000-000000-00000000")):
        with pytest.raises(HTTPClientError) as caught:
            await http_server_client.fetch(
                f"{jp_base_url}workbench/api/{address}", method=method, body=body if method == "POST" else None
            )
        assert caught.value.code == 403
    assert requests.peek(written.store) == []


async def test_another_page_cannot_ask_in_a_persons_name(http_server_client, jp_base_url, jp_serverapp, written):
    """A browser sends the login's cookie along from any page; only ours knows the XSRF token."""
    written.experiment(state="running")
    token = jp_serverapp.identity_provider.token
    login = await http_server_client.fetch(f"{jp_base_url}api/status?token={token}")
    cookies = [one.partition(";")[0] for one in login.headers.get_list("Set-Cookie")]
    address = f"{jp_base_url}workbench/api/requests"
    body = json.dumps({"kind": "pause", "experiment": "digits"})
    with pytest.raises(HTTPClientError) as caught:
        await http_server_client.fetch(address, method="POST", body=body, headers={"Cookie": "; ".join(cookies)})
    assert caught.value.code == 403
    assert requests.peek(written.store) == []
    page = await http_server_client.fetch(f"{jp_base_url}login")
    xsrf = next(one for one in page.headers.get_list("Set-Cookie") if one.startswith("_xsrf=")).partition(";")[0]
    headers = {"Cookie": "; ".join([*cookies, xsrf]), "X-XSRFToken": xsrf.partition("=")[2]}
    with Answering(written.store):
        response = await http_server_client.fetch(address, method="POST", body=body, headers=headers)
    assert response.code == 200


# ---------------------------------------------------------------------------------------------------------------------
# A real engine


@pytest.fixture
def ending(store):
    """Whatever engine was started for the store is gone afterwards."""
    yield
    if engine_pid(store):
        requests.put(store, {"kind": "end"})
        until(lambda: read_engine(store) is None)


async def test_an_engine_is_started_on_the_first_need(send, store, tmp_path, ending, monkeypatch):
    monkeypatch.setenv("WORKBENCH_WORKERS", "1")
    spec = spec_of(PLAIN, tmp_path, scheduler=Scheduler("all", 1, 100_000), goal=Goal("score"), trials=1)
    store.write_spec(spec)
    requests.put(store, {"kind": "start", "experiment": spec.id})
    assert engine_pid(store) is None
    code, answer = await send("requests", kind="note", experiment=spec.id, note="it lives")
    assert (code, answer["note"]) == (200, "it lives")
    assert engine_pid(store)
    code, _ = await send("requests", kind="stop", experiment=spec.id)
    assert code == 200
    lines = [line["kind"] for line in journal.read(store.journal_path)]
    assert lines.count("answer") == 3

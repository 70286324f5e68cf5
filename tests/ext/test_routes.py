"""Each address: for whom, with what, and in which words it refuses."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
from pathlib import Path

import plotly
import pytest
from tornado.escape import url_escape
from tornado.httpclient import HTTPClientError

from workbench.store.series import Series

ADDRESSES = (
    "api/health",
    "api/experiments",
    "api/experiments/digits",
    "api/experiments/digits/trials",
    "api/experiments/digits/points",
    "api/experiments/digits/metrics",
    "api/experiments/digits/curves",
    "api/experiments/digits/timeline",
    "api/experiments/digits/snapshot",
    "api/experiments/digits/notebook",
    "api/experiments/digits/trials/0",
    "api/experiments/digits/trials/0/log",
    "api/experiments/digits/trials/0/files/image-000001.png",
    "static/plotly.min.js",
)


@pytest.mark.parametrize("address", ADDRESSES)
async def test_nobody_is_answered_without_a_login(address, digits, http_server_client, jp_base_url):
    with pytest.raises(HTTPClientError) as caught:
        await http_server_client.fetch(f"{jp_base_url}workbench/{address}", follow_redirects=False)
    assert caught.value.code in (302, 403)


async def test_an_absent_store_holds_no_experiments(ask):
    assert await ask("experiments") == {"experiments": []}
    health = await ask("health")
    assert (health["schema"], health["store"], health["readonly"]) == (1, False, False)
    assert (health["engine"]["alive"], health["engine"]["state"]) == (False, "none")


async def test_experiments_come_newest_first(ask, digits):
    other, first = (await ask("experiments"))["experiments"]
    assert (other["label"], first["label"]) == ("other@1", "digits@1")
    assert first["best"] == {"value": 0.75, "trial": "t0000", "number": 0}
    assert first["goal"] == {"metric": "val_acc", "mode": "max"}
    assert other["reason"] == "<b>all</b> failed", "text stays text: the panel shows it as such"


@pytest.mark.parametrize("name", ["20260101-000000-aaaaaa", "digits", "digits@1"])
async def test_an_experiment_is_found_by_its_id_and_by_its_name(name, ask, digits):
    answer = await ask("experiments", name)
    assert answer["experiment"]["id"] == digits
    assert answer["spec"]["scheduler"]["last"] == 27


async def test_an_experiment_that_no_engine_has_taken_yet_waits(ask, digits, store):
    spec = dataclasses.replace(store.read_spec(digits), id="20260103-000000-cccccc", name="new")
    store.write_spec(spec)
    answer = await ask("experiments", "new")
    assert answer["experiment"]["id"] == spec.id
    assert answer["experiment"]["state"] == "waiting"


async def test_trials_come_after_a_cursor(ask, digits):
    answer = await ask("experiments", "digits", "trials")
    assert [trial["label"] for trial in answer["trials"]] == ["t0000", "t0001"]
    assert answer["trials"][0]["configuration"] == {"lr": 0.1}
    assert (await ask("experiments", "digits", "trials", after=answer["cursor"]))["trials"] == []


async def test_a_trial_has_the_values_that_a_browser_cannot_read_as_python_writes_them(ask, digits, store):
    given = {"lr": 0.1, "seed": 2**60 + 3, "dropout": 1.0, "clip": math.inf, "sizes": [2.0, 64], "steps": 7, "on": True}
    with Series.open(store.experiment(digits).series) as series:
        series.put_trial(0, configuration=given)
    rows = {row["label"]: row for row in (await ask("experiments", "digits", "trials"))["trials"]}
    written = rows["t0000"]["written"]
    assert written == {
        "seed": "1152921504606846979",
        "dropout": "1.0",
        "clip": 'float("inf")',
        "sizes": "[2.0, 64]",
    }
    assert {name: eval(text) for name, text in written.items()} == {name: given[name] for name in written}
    page = await ask("experiments", "digits", "trials", "0")
    assert page["trial"]["written"] == written


async def test_points_come_after_a_cursor_and_in_portions(ask, digits):
    first = await ask("experiments", "digits", "points", limit=2)
    assert [point[:5] for point in first["points"]] == [[0, "val_acc", 1, 0, 0.5], [1, "val_acc", 1, 0, "nan"]]
    rest = await ask("experiments", "digits", "points", after=first["cursor"])
    assert [point[:5] for point in rest["points"]] == [[0, "val_acc", 3, 0, 0.75]]
    assert (await ask("experiments", "digits", "points", after=rest["cursor"]))["points"] == []


async def test_an_experiment_without_series_has_no_points_yet(ask, digits):
    assert (await ask("experiments", "other", "points"))["points"] == []
    assert (await ask("experiments", "other", "trials"))["trials"] == []


async def test_a_missing_experiment_is_404_in_words(refused, digits):
    code, message = await refused("experiments", "digitz")
    assert code == 404
    assert "digits" in message, "the nearest is named"


async def test_an_address_that_is_none_is_404(refused, digits):
    assert (await refused("experiment"))[0] == 404
    assert (await refused("experiments", "digits", "secrets"))[0] == 404


@pytest.mark.parametrize("name", ["..", "../..", "../../etc/passwd", "%2e%2e%2f", "a%s%d", "\x00", "x" * 300])
async def test_no_name_leads_out_of_the_store(name, refused, digits):
    code, _ = await refused("experiments", url_escape(name, plus=False))
    assert code in (400, 404)


@pytest.mark.parametrize(
    "query", [{"after": "-1"}, {"after": "x"}, {"after": "1e9"}, {"after": "9" * 40}, {"limit": 0}, {"limit": 10**9}]
)
async def test_a_bad_query_is_400_and_names_the_field(query, refused, digits):
    code, message = await refused("experiments", "digits", "points", **query)
    assert code == 400
    assert next(iter(query)) in message


async def test_a_newer_spec_is_shown_as_far_as_it_is_understood(ask, store, digits):
    path = store.experiment(digits).spec
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99, "unheard": 1}))
    assert (await ask("experiments", "digits"))["spec"]["name"] == "digits"


async def test_a_damaged_spec_is_no_fault_of_who_asks(refused, store, digits):
    store.experiment(digits).spec.write_text("{")
    code, message = await refused("experiments", digits)
    assert code == 503
    assert "damaged" in message


async def test_plotly_is_served_whole_and_kept_by_the_browser(jp_fetch):
    response = await jp_fetch("workbench", "static", "plotly.min.js")
    assert response.body == (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_bytes()
    assert "javascript" in response.headers["Content-Type"]
    assert "private" in response.headers["Cache-Control"]
    with pytest.raises(HTTPClientError) as caught:
        await jp_fetch("workbench", "static", "plotly.min.js", headers={"If-None-Match": response.headers["Etag"]})
    assert caught.value.code == 304


async def test_an_open_panel_is_no_activity(jp_fetch, jp_web_app, digits):
    before = jp_web_app.settings.get("api_last_activity")
    await jp_fetch("workbench", "api", "experiments")
    assert jp_web_app.settings.get("api_last_activity") == before


async def test_a_page_that_is_closed_while_it_waits_leaves_no_traceback(
    jp_base_url, jp_http_port, jp_auth_header, digits, ask, caplog
):
    given = "".join(f"{name}: {value}\r\n" for name, value in jp_auth_header.items())
    for _ in range(20):
        _, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
        writer.write(f"GET {jp_base_url}workbench/api/experiments HTTP/1.1\r\nHost: 127.0.0.1\r\n{given}\r\n".encode())
        await writer.drain()
        writer.transport.abort()
    for _ in range(5):
        await ask("experiments")
    assert not [one for one in caplog.records if one.exc_info]

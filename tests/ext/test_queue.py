"""The queue of the machine's slots, as the panel gets it, and draining one from there."""

from __future__ import annotations

import json

import pytest
from running import few_cores

from workbench.store.owner import slots


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A runtime folder of its own, and two cores (one, where there is but one): the names of their slots."""
    place = tmp_path / "machine"
    place.mkdir()
    with few_cores(place, monkeypatch, 2) as names:
        yield names


async def test_it_is_what_the_command_line_says(ask, machine, store):
    from cli.stored import typed

    lease = slots.take(machine[:1], "/nlp/.workbench")
    assert lease is not None
    claim = slots.Claiming("/audio/.workbench")
    try:
        lease.trains("bert@1")
        claim.tell(0, machine[:1], lacks=2, slots=2, unit=2, experiments=("whisper@1",))
        found = await ask("queue")
        typed_found = typed("queue", "--json").json
    finally:
        claim.release()
        lease.release()
    (held,), (waits,) = found["slots"], found["waiting"]
    assert (held["slot"], held["place"], held["experiment"]) == (machine[0], "/nlp", "bert@1")
    assert (waits["place"], waits["experiments"], waits["unit"]) == ("/audio", ["whisper@1"], 2)
    assert waits["why"] == "waits for 2 slots: 1 of 1 is held by /nlp (bert@1)"
    assert found["free"] == machine[1:]
    typed_found.pop("schema")
    for one in (held, typed_found["slots"][0]):
        assert one.pop("memory_bytes") > 0
        one.pop("utilisation")
    assert found == typed_found


async def test_a_slot_is_drained_and_used_again(ask, send, machine):
    name = machine[0]
    assert await send("slots", name, used=False) == (200, {"slot": name, "used": False, "free": True})
    assert slots.drained() == {name}
    found = await ask("queue")
    assert (found["drained"], found["free"]) == ([name], machine[1:])
    assert slots.take([name], "/nlp/.workbench") is None
    assert await send("slots", name, used=True) == (200, {"slot": name, "used": True, "free": True})
    assert slots.drained() == frozenset()


@pytest.mark.parametrize("body", [{}, {"used": 1}, {"used": None}, {"used": False, "more": 1}])
async def test_what_cannot_be_meant_changes_nothing(body, send, machine):
    status, answer = await send("slots", machine[0], **body)
    assert status == 400
    assert "used" in answer["message"]
    assert slots.drained() == frozenset()


@pytest.mark.parametrize("name", ["cpu9999", "gpu-GPU-1", "..", "%2e%2e%2fx", ".x"])
async def test_a_slot_that_is_not_here_is_refused_by_name(name, jp_fetch, machine):
    from tornado.httpclient import HTTPClientError

    with pytest.raises(HTTPClientError) as caught:
        await jp_fetch("workbench", "api", "slots", name, method="POST", body=json.dumps({"used": False}))
    assert caught.value.code == 404
    assert slots.drained() == frozenset()


async def test_a_folder_that_cannot_be_trusted_is_said(refused, machine):
    from workbench.store.owner.runtime import place

    place().mkdir()
    place().chmod(0o777)
    code, message = await refused("queue")
    assert code == 503
    assert "is open to other users" in message

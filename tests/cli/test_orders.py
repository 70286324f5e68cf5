"""stop, pause, resume: what is asked is a request, what is said is the answer, and nothing is asked in vain."""

from __future__ import annotations

import pytest
from cli.stored import Answering, Typed, Written

from workbench import asking
from workbench.store import requests


@pytest.fixture(autouse=True)
def _no_engine_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the tests answer requests, word by word; what a real engine does with them, tests/engine shows."""
    monkeypatch.setattr(asking, "ensure_engine", lambda store, cluster=None: None)


def test_stop_pause_and_resume_are_asked(written: Written, type_: Typed, answering: Answering) -> None:
    spec = written.experiment(state="running", reason="training")
    assert type_("stop", "digits/t0001", "--reason", "too \x1b slow").out.startswith("digits@1/t0001 was asked to stop")
    assert type_("pause", "digits").code == 0
    assert type_("stop", "digits").code == 0
    assert [{**asked} for asked in answering.asked] == [
        {"kind": "stop", "experiment": spec.id, "trial": 1, "reason": "too \\x1b slow"},
        {"kind": "pause", "experiment": spec.id, "reason": "requested on the command line"},
        {"kind": "stop", "experiment": spec.id, "reason": "requested on the command line"},
    ]
    data = type_("stop", "digits/t0000", "--json").json
    assert (data["trial"], data["asked"], data["state"]) == ("t0000", "stop", "stopping")


def test_a_paused_experiment_is_resumed(written: Written, type_: Typed, answering: Answering) -> None:
    written.experiment(state="paused", reason="asked to pause")
    assert "is paused already" in type_("pause", "digits").out
    assert type_("resume", "digits").out == "digits@1 continues.\n"
    assert [asked["kind"] for asked in answering.asked] == ["resume"]


@pytest.mark.parametrize("verb", ["stop", "pause", "resume"])
def test_nothing_is_asked_of_what_has_ended(written: Written, type_: Typed, verb: str) -> None:
    written.experiment()
    found = type_(verb, "digits")
    assert found.code == 0
    assert "is completed already" in found.out
    assert not requests.pending(written.store)


def test_a_trial_that_has_ended_is_let_be(written: Written, type_: Typed, answering: Answering) -> None:
    written.experiment(state="running", reason="training")
    assert "is failed already" in type_("stop", "digits/t0002").out
    assert "Write workbench stop digits@1/t0002." in type_("stop", "digits/t0002:3").err
    assert not answering.asked


def test_a_refusal_is_told_with_its_exit_code(written: Written, type_: Typed) -> None:
    written.experiment(state="running", reason="training")
    refusal = {"accepted": False, "error": "the cluster is gone", "type": "ClusterError"}
    with Answering(written.store, refusal):
        found = type_("stop", "digits")
    assert (found.code, found.err) == (4, "the cluster is gone\n")


def test_an_engine_that_never_answers_is_not_available(
    written: Written, type_: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.experiment(state="running", reason="training")
    # A person waits for twenty seconds; how long changes nothing in what is said then.
    monkeypatch.setattr(asking.ask, "__defaults__", (0.05, None))
    found = type_("stop", "digits")
    assert found.code == 4
    assert "has not answered" in found.err


@pytest.mark.parametrize("verb", ["stop", "pause"])
def test_what_is_unreadable_is_not_said_to_stop(written: Written, type_: Typed, verb: str) -> None:
    """The list says that it runs until an engine has tried to open it."""
    written.experiment(state="running", reason="training")
    with Answering(written.store, {"accepted": True, "state": "unreadable"}):
        found = type_(verb, "digits")
    assert (found.code, found.out) == (5, "")
    assert "digits@1 is unreadable" in found.err
    assert "workbench delete digits@1" in found.err

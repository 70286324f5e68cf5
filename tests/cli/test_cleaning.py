"""delete, keep, pin, gc: bytes are told first, refusals say what to do, and nothing happens without a yes."""

from __future__ import annotations

import os

import pytest
from cli.stored import Answering, Typed, Written

from workbench import asking
from workbench.records import Keep
from workbench.store import requests
from workbench.store.journal import Journal


@pytest.fixture(autouse=True)
def _no_engine_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the tests answer requests, word by word; what a real engine removes, tests/engine shows."""
    monkeypatch.setattr(asking, "ensure_engine", lambda store, cluster=None: None)


def said(written: Written, **line: object) -> None:
    with Journal.open(written.store.journal_path) as journal:
        journal.append(line)


def test_nothing_is_deleted_without_a_yes(written: Written, type_: Typed) -> None:
    written.experiment()
    found = type_("delete", "digits")
    assert (found.code, found.out) == (2, "")
    assert "nothing was deleted" in found.err
    assert "--yes" in found.err
    assert not requests.pending(written.store)


def test_deleting_tells_the_bytes(written: Written, type_: Typed) -> None:
    spec = written.experiment()
    with Answering(written.store, {"accepted": True, "bytes": 12_300_000}) as engine:
        assert type_("delete", "digits", "--yes").out == "digits@1 was deleted: 12.3 MB are free.\n"
        data = type_("delete", "digits/t0001", "-y", "--json").json
    assert data["deleted"] == {"id": spec.id, "label": "digits@1"}
    assert (data["trial"], data["bytes"]) == ("t0001", 12_300_000)
    assert [(asked["kind"], asked.get("trial")) for asked in engine.asked] == [("delete", None), ("delete", 1)]


def test_what_runs_is_not_deleted(written: Written, type_: Typed) -> None:
    written.experiment(state="running", reason="training")
    found = type_("delete", "digits", "--yes")
    assert found.code == 2
    assert "workbench stop digits@1" in found.err
    assert "names a step" in type_("delete", "digits/t0001:3", "--yes").err


@pytest.mark.parametrize("damaged", ["journal", "spec"])
def test_what_is_unreadable_can_be_deleted(written: Written, type_: Typed, damaged: str) -> None:
    spec = written.experiment(state="unreadable" if damaged == "journal" else "running", reason="training")
    if damaged == "spec":
        written.store.experiment(spec.id).spec.write_text("{ broken")
    with Answering(written.store, {"accepted": True, "bytes": 12_300_000}) as engine:
        assert type_("delete", "digits", "--yes").out == "digits@1 was deleted: 12.3 MB are free.\n"
    assert [asked["kind"] for asked in engine.asked] == ["delete"]


def test_a_refusal_of_the_engine_is_told(written: Written, type_: Typed) -> None:
    written.experiment()
    with Answering(written.store, {"accepted": False, "error": "digits@1/t0001:3 is pinned", "type": "InUse"}):
        found = type_("delete", "digits", "--yes")
    assert (found.code, found.err) == (2, "digits@1/t0001:3 is pinned\n")


def test_the_rule_is_shown_and_changed(written: Written, type_: Typed) -> None:
    spec = written.experiment()
    assert type_("keep", "digits").out == "digits@1 keeps experiment=1,best=1,latest=1,stopped=0.\n"
    said(written, kind="keep", experiment=spec.id, rule={"experiment": 2, "best": 1, "latest": 3, "stopped": 0})
    assert "keeps experiment=2,best=1,latest=3" in type_("keep", "digits").out
    assert "experiment=2,best=1,latest=3" in type_("show", "digits").out
    rule = {"experiment": 1, "best": 1, "latest": 5, "stopped": 0}
    with Answering(written.store, {"accepted": True, "rule": rule, "bytes": 2000}) as engine:
        assert "latest=5,stopped=0; 2 kB freed" in type_("keep", "digits", "latest=5").out
        assert type_("keep", "digits", "latest=5", "--json").json["rule"] == rule
    assert engine.asked[0] == {"kind": "keep", "experiment": spec.id, "rule": "latest=5"}


def test_pins_are_asked_for_and_shown(written: Written, type_: Typed) -> None:
    spec = written.experiment()
    with Answering(written.store, {"accepted": True, "pins": ["t0001:3"]}) as engine:
        assert "digits@1/t0001:3 is pinned" in type_("pin", "digits/t0001:3").out
        assert "no longer pinned" in type_("unpin", "digits/t0001:3").out
        assert type_("pin", "digits", "--json").json["pins"] == ["t0001:3"]
    assert [(asked["kind"], asked.get("trial"), asked.get("step")) for asked in engine.asked] == [
        ("pin", 1, 3), ("unpin", 1, 3), ("pin", None, None),
    ]  # fmt: skip
    said(written, kind="pin", experiment=spec.id, trial=1, step=3)
    assert "t0001:3" in type_("show", "digits").out
    assert type_("pin", "digits/t0099").code == 3


def test_a_dry_run_changes_nothing_and_asks_nobody(written: Written, type_: Typed) -> None:
    spec = written.experiment()
    said(written, kind="keep", experiment=spec.id, rule={"experiment": 1, "best": 0, "latest": 0, "stopped": 0})
    loose = written.store.put_blob(b"x" * 5000)
    os.utime(written.store.blob_path(loose), (0, 0))
    before = sorted(map(str, written.store.root.rglob("*")))
    told = type_("gc", "--dry-run", "--json").json
    assert told["bytes"]["blobs"] == 5000
    assert told["total"] == sum(told["bytes"].values())
    assert "would be freed" in type_("gc", "--dry-run").out
    assert sorted(map(str, written.store.root.rglob("*"))) == before
    assert not requests.pending(written.store)


def test_cleaning_up_says_what_went(written: Written, type_: Typed) -> None:
    answer = {
        "accepted": True, "dry_run": False, "total": 7000, "bytes": dict.fromkeys(("checkpoints", "blobs", "snapshots",
        "documents", "unfinished", "removed"), 0) | {"blobs": 7000}, "things": dict.fromkeys(("checkpoints", "blobs",
        "snapshots", "documents", "unfinished", "removed"), 0) | {"blobs": 2},
    }  # fmt: skip
    with Answering(written.store, answer) as engine:
        out = type_("gc").out
    assert engine.asked == [{"kind": "gc"}]
    assert out.splitlines()[0] == "7 kB freed."
    assert "unreferenced captured values" in out


def test_the_default_rule_is_the_one_that_help_tells() -> None:
    from workbench.cli.verbs import VERBS, parser_of

    assert str(Keep()) in " ".join(parser_of("keep", VERBS["keep"]).format_help().split())

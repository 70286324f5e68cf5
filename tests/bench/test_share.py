"""The benchmark of shared slots, much shortened: shares add up, and the stages of making room follow each other."""

from __future__ import annotations

import json

import pytest

from benchmarks import __main__


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_shares_and_stages_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    short = [
        "--minutes",
        "0.1",
        "--weights",
        "3",
        "--rounds",
        "1",
        "--mb",
        "1",
        "--ranks",
        "1",
        "--patience",
        "0.3",
        "--trials",
        "8",
    ]
    assert __main__.main(["share", "--json", *short]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["patience"] == 0.3
    shares = found["shares"]["3:1"]
    assert shares["expected"] == 0.75
    assert 0 < shares["held"] < 1, "both had slots"
    assert shares["held_by_minute"] == [shares["held"]]
    assert 0 < shares["steps"] < 1, "both trained"
    assert 0 < shares["used"] <= 1.05, "no more steps than slots"
    assert shares["asked"] >= 1, "a trial made room"
    assert len(found["room"]) == 4, "two sizes, of one engine and of two"
    for name, one in found["room"].items():
        assert one["asked"]["count"] == 1, name
        assert one["asked"]["min"] >= 0.3, "no sooner than the engine's patience"
        for stage, within in (("preempt", "left"), ("resume", "began")):
            assert 0 < one[within]["median"] <= one[stage]["median"], (name, stage)
        assert one["step"] >= 0.1
    large = {name: one["checkpoint_mb"] for name, one in found["room"].items() if name.startswith("1 MB")}
    assert all(1 <= size < 1.5 for size in large.values()), large
    parts = found["parts"]
    assert parts["waits"]["gain"] > 1, "trials that wait are trained side by side"
    assert all(parts["empty"][name] > 0 for name in ("whole", "quarter", "ratio"))

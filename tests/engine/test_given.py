"""Given configurations, trained by a real engine that is killed in the middle: trials keep what was given for them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from running import ended, engine, engine_pid, lines, meta, outcome, until

import workbench as wb
from workbench.cli import main
from workbench.errors import BadOption
from workbench.search import Search
from workbench.store import Store

X, UNITS = wb.uniform(0.0, 1.0), wb.choice(32, 64, 128)
FIRST = ({"x": 0.5, "units": 64}, {"x": 0.25})


def slow(trial, x=X, units=UNITS):
    total, turns = 0.0, 0
    for _epoch in trial.steps():
        time.sleep(0.2)  # the kill comes while it trains, on a busy machine too
        total, turns = 0.9 * total + x + units / 1000, turns + 1
        trial.report(score=total, turns=turns)


def quick(trial, x=X, units=UNITS):
    for _epoch in trial.steps():
        trial.report(score=x + units)


def made(store: Store, name: str = "given", function: Any = slow, **fields: Any) -> wb.Experiment:
    fields = {"scheduler": wb.Hyperband(max_steps=9), "seed": 7, **fields}
    return wb.Experiment(name, function, goal=wb.maximize("score"), store=store, **fields)


def configurations(exp: wb.Experiment) -> dict[int, dict[str, Any]]:
    return {trial.number: trial.configuration for trial in exp.records}


@pytest.mark.slow
def test_a_killed_engine_goes_on_with_the_same_configurations(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    calm = Store(tmp_path / "calm").create()
    with engine(calm):
        until(lambda: engine_pid(calm))
        plain = made(calm, "plain", quick).start().wait(60)
        one = made(calm, first=FIRST).start().wait(60)
        again = one.replay("t0015")
        assert again.verdict == "identical"
        assert again.experiment.records[0].configuration == one["t0015"].configuration
    expected = outcome(calm, one.spec)

    wild = Store(tmp_path / "wild").create()
    with engine(wild, workers=3) as process:
        until(lambda: engine_pid(wild))
        other = made(wild, first=FIRST).start()
        begun = until(lambda: len(lines(wild, other.spec, "LegStarted")) >= 6, what="some legs")
        assert begun
        process.kill()
        process.wait()
    assert meta(wild, other.spec)["state"] == "running"
    with engine(wild):
        assert ended(wild, other.spec) == "completed"
    assert outcome(wild, other.spec) == expected

    found, without = configurations(other), configurations(plain)
    assert found[14] == FIRST[0]
    assert found[15] == {"x": 0.25, "units": without[15]["units"]}
    assert {number: found[number] for number in range(14)} == {number: without[number] for number in range(14)}
    # They started first, and both trained to the end.
    assert [line["trial"] for line in lines(wild, other.spec, "LegStarted")][:2] == [14, 15]
    assert {other[number].step for number in (14, 15)} == {9}

    capsys.readouterr()
    assert main(["show", "given/t0015", "--store", str(wild.root)]) == 0
    out = capsys.readouterr().out
    assert "0.25 (given)" in out
    assert out.count("(given)") == 1
    assert main(["plan", "given", "--store", str(wild.root)]) == 0
    assert "2 configurations are given and start first (t0014, t0015), in bracket 0" in capsys.readouterr().out


def test_a_list_is_trained_exactly_and_cannot_become_longer(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    rows = [{"x": number / 10, "units": 32} for number in range(5)]
    with engine(store, workers=1):
        until(lambda: engine_pid(store))
        exp = made(store, function=quick, configurations=rows, scheduler=wb.Hyperband(max_steps=3)).start().wait(60)
        assert configurations(exp) == dict(enumerate(rows))
        assert (
            made(store, function=quick, configurations=rows, scheduler=wb.Hyperband(max_steps=3)).start().id == exp.id
        )
        with pytest.raises(BadOption, match="consists of 5 given configurations"):
            exp.extend(trials=2)
        exp.extend(max_steps=9).wait(60)
        assert max(trial.step for trial in exp.records) == 9
        assert configurations(exp) == dict(enumerate(rows))
        # What a search with some given first is extended by are the searcher's own.
        first = made(store, "first", quick, first=rows[:2], scheduler=wb.All(max_steps=1), trials=3).start().wait(60)
        first.extend(trials=2).wait(60)
        plain = Search.of(made(store, "first", quick, scheduler=wb.All(max_steps=1), trials=5).start().wait(60).spec)
        assert configurations(first) == {n: rows[n] if n < 2 else plain.configuration(n) for n in range(5)}

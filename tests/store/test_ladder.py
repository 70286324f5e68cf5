"""The ladder that a journal makes: held against what the scheduler said, and against itself in pieces."""

from __future__ import annotations

import copy
import json
import math
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.records import Extended, Finish, Reached, Run, Settle, Stop, StopAsked, to_line
from workbench.store import Store
from workbench.store.events import events, ladder, plan_of
from workbench.store.journal import Journal
from workbench.store.ladder import Ladder, since

FIXTURES = Path(__file__).parents[1] / "fixtures"
RECORDED = {path.stem: json.loads(path.read_text()) for path in sorted((FIXTURES / "ladder").glob("*.json"))}
STANDING = re.compile(
    r"bracket (\d+), rung (\d+) at step (\d+): .*is rank (\d+) of (\d+), (\d+) goe?s? on(.*cut is (.*))?"
)


@pytest.fixture(params=RECORDED)
def recorded(request):
    return RECORDED[request.param]


def folded(recorded, upto: int | None = None) -> dict:
    return Ladder(recorded["plan"]).fold(recorded["events"][:upto]).to_json()


def entries(data):
    """Every entry, with its bracket and its rung."""
    return [(b, at, r, e) for b in data["brackets"] for at, r in enumerate(b["rungs"]) for e in r["entries"]]


def test_a_recorded_journal_gives_the_recorded_ladder(recorded):
    assert folded(recorded) == recorded["ladder"]


@given(cuts=st.lists(st.integers(0, 500), max_size=8), name=st.sampled_from(sorted(RECORDED)))
def test_folding_in_pieces_gives_the_same_also_over_json_and_with_repeats(cuts, name):
    recorded = RECORDED[name]
    folding, before = Ladder(recorded["plan"]), 0
    for cut in sorted(cuts):
        folding.fold(recorded["events"][max(0, before - 3) : cut])
        folding, before = Ladder.from_json(json.loads(json.dumps(folding.to_json()))), max(before, cut)
    assert folding.fold(recorded["events"][max(0, before - 3) :]).to_json() == recorded["ladder"]


@pytest.mark.parametrize("name", ["hyperband-9", "hyperband-27", "asha-promote"])
def test_ranks_and_cuts_are_those_of_the_schedulers_own_reasons(name):
    recorded = RECORDED[name]
    said = 0
    for bracket, at, rung, entry in entries(recorded["ladder"]):
        match = STANDING.match(entry["reason"])
        if match is None or (entry["fate"] == "on" and name.startswith("asha")):
            continue  # who is promoted early is ranked among fewer
        number, of, step, rank, _, go, _, cut = match.groups()
        if entry["fate"] in ("on", "stopped"):
            assert (int(number), int(of), int(step)) == (bracket["bracket"], at, rung["step"])
            assert (int(rank), int(go)) == (entry["rank"], rung["going"])
            if rung["cut"] is not None:
                assert cut == f"{rung['cut'] + 0.0:.6g}"
            said += 1
    assert said > 10


@pytest.mark.parametrize("name", ["hyperband-9", "hyperband-27"])
def test_a_finished_hyperband_filled_the_places_that_were_planned(name):
    for bracket in RECORDED[name]["ladder"]["brackets"]:
        for rung, above in zip(bracket["rungs"], [*bracket["rungs"][1:], None], strict=True):
            assert len(rung["entries"]) == rung["places"]
            on = [entry["trial"] for entry in rung["entries"] if entry["fate"] == "on"]
            if above is not None:
                assert sorted(on) == sorted(entry["trial"] for entry in above["entries"])


def test_everybody_ends_somewhere_and_only_once(recorded):
    data = recorded["ladder"]
    ends = [entry["trial"] for _, _, _, entry in entries(data) if entry["fate"] != "on"]
    assert sorted(ends) == sorted(int(number) for number in data["trials"])
    assert {entry["fate"] for _, _, _, entry in entries(data)} <= {"on", "stopped", "failed", "completed"}


def test_ranks_are_by_value_and_the_best_is_on_top(recorded):
    sign = -1 if recorded["ladder"]["goal"]["mode"] == "max" else 1

    def key(entry):
        value = float(entry["value"])
        return (sign * value if math.isfinite(value) else math.inf), entry["trial"]

    for bracket in recorded["ladder"]["brackets"]:
        for rung in bracket["rungs"]:
            told = [entry for entry in rung["entries"] if entry["rank"] is not None]
            assert [entry["rank"] for entry in told] == list(range(1, len(told) + 1))
            assert told == sorted(told, key=key)
    best = recorded["ladder"]["best"]
    top = [e for _, _, r, e in entries(recorded["ladder"]) if r["step"] == best["step"] and e["rank"]]
    assert best["trial"] == min(top, key=key)["trial"]
    assert not recorded["ladder"]["trials"][str(best["trial"])]["diverged"]


def test_a_trial_that_diverged_is_the_best_no_more():
    recorded = RECORDED["asha-diverging"]
    ladder, was = Ladder(recorded["plan"]), set()
    for event in recorded["events"]:
        ladder.fold([event])
        if ladder.best is not None:
            was.add(ladder.best["trial"])
    trials = ladder.to_json()["trials"]
    assert {number for number in was if trials[str(number)]["diverged"]}, "the best ones of a while diverged"
    assert not trials[str(ladder.best["trial"])]["diverged"]


def test_nobody_is_called_training_without_a_leg(recorded):
    most, training = 0, set()
    ladder = Ladder(recorded["plan"])
    for event in recorded["events"]:
        ladder.fold([event])
        if event["kind"] == "LegLeft":
            training.discard(event["trial"])
        elif event["kind"] == "LegStarted":
            training.add(event["trial"])
        most = max(most, len(training))
        shown = {entry["trial"] for _, _, _, entry in entries(ladder.to_json()) if entry["fate"] == "training"}
        assert shown <= training
    assert most >= 2


PLAN = {
    "goal": {"metric": "acc", "mode": "max"},
    "rule": {"kind": "asha", "mode": "stop", "eta": 2},
    "brackets": [
        {
            "bracket": 2,
            "turn": 0,
            "first": 0,
            "rungs": [{"step": 1, "places": 4}, {"step": 2, "places": 2}, {"step": 4, "places": 1}],
        }
    ],
}


def lines(*records):
    return [{"n": n, "at": "2026-01-01T00:00:00+00:00", **to_line(record)} for n, record in enumerate(records, 1)]


def fates(data):
    return {(rung["step"], entry["trial"]): entry["fate"] for _, _, rung, entry in entries(data)}


def test_values_after_the_rule_stopped_a_trial_count_no_more():
    found = lines(Run(0, 0, 4, "go"), Reached(0, 1, 0.5), Stop(0, "too low"), Reached(0, 2, 0.9))
    assert fates(Ladder(PLAN).fold(found).to_json()) == {(1, 0): "stopped"}


def test_a_trial_that_was_done_before_the_order_arrived_is_complete():
    found = lines(
        Run(0, 0, 4, "go"), Reached(0, 1, 0.5), Stop(0, "too low"), Reached(0, 4, 0.9), Settle(0, "completed", "all")
    )
    assert fates(Ladder(PLAN).fold(found).to_json()) == {(1, 0): "on", (4, 0): "completed"}


def test_a_person_stops_a_trial_at_the_rung_it_was_training_towards():
    found = lines(
        *(Run(0, 0, 4, "go"), Run(1, 0, 4, "go"), Reached(0, 1, 0.5), Reached(1, 1, 0.4)),
        *(StopAsked(1, "asked to"), Stop(1, "asked to"), Settle(1, "stopped", "asked to")),
        *(Stop(0, "asked to"), Settle(0, "stopped", "asked to"), Settle(3, "stopped", "before its turn")),
    )
    assert fates(Ladder(PLAN).fold(found).to_json()) == {
        (1, 0): "on",
        (1, 1): "on",
        (2, 0): "stopped",
        (2, 1): "stopped",
        (1, 3): "stopped",
    }


def test_a_search_that_was_made_longer_goes_on_from_what_was_its_top():
    longer = copy.deepcopy(PLAN)
    longer["brackets"][0]["rungs"].append({"step": 8, "places": 1})
    found = lines(Run(0, 0, 4, "go"), Reached(0, 4, 0.9), Settle(0, "completed", "all 4"), Finish("completed", "done"))
    assert since(Ladder(longer).fold(found).to_json(), 0)["ended"]["state"] == "completed"
    found += [{**line, "n": line["n"] + 9} for line in lines(Extended("longer", last=8), Run(0, 4, 8, "goes on"))]
    data = Ladder(longer).fold(found).to_json()
    assert fates(data) == {(4, 0): "on", (8, 0): "waiting"}
    assert since(data, 0)["ended"] is None


def test_a_value_that_is_no_number_ranks_last_and_is_a_word():
    found = lines(*(Run(t, 0, 4, "go") for t in range(3)), Reached(0, 1, math.nan), Reached(1, 1, math.inf))
    found += [{**line, "n": line["n"] + 9} for line in lines(Reached(2, 1, -3.0))]
    rung = Ladder(PLAN).fold(found).to_json()["brackets"][0]["rungs"][0]
    assert [(e["trial"], e["value"], e["rank"]) for e in rung["entries"]] == [
        (2, -3.0, 1),
        (0, "nan", 2),
        (1, "inf", 3),
    ]


def test_since_a_line_it_says_what_was_missed():
    data = RECORDED["hyperband-9"]["ladder"]
    failure = next(event["n"] for event in data["happened"] if event["kind"] == "failure")
    whole, rest = since(data, 0), since(data, failure)
    assert (whole["retries"], whole["failures"]) == (2, 1)
    assert whole["best"] == {"first": None, "last": data["best"]["value"]}
    assert (rest["retries"], rest["failures"]) == (1, 0)
    before = [event["value"] for event in data["happened"] if event["kind"] == "best" and event["n"] <= failure]
    assert rest["best"] == {"first": before[-1], "last": data["best"]["value"]}
    assert rest["ended"]["state"] == "completed"
    assert since(data, data["n"]) == {"retries": 0, "failures": 0, "best": None, "ended": None}


@pytest.fixture
def old(tmp_path):
    """A store that an earlier version wrote: its plan is not written down."""
    shutil.copytree(FIXTURES / "stores" / "v1", tmp_path / "v1")
    store = Store(tmp_path / "v1")
    return store, store.experiment_ids()[0]


def test_an_older_journal_gives_a_ladder_without_planned_places(old):
    store, experiment = old
    n, data = ladder(store, experiment)
    assert n == data["n"] == 48
    assert [(b["bracket"], [r["step"] for r in b["rungs"]]) for b in data["brackets"]] == [(1, [1, 3]), (0, [3])]
    assert {rung["places"] for bracket in data["brackets"] for rung in bracket["rungs"]} == {None}
    assert sorted(int(number) for number in data["trials"]) == sorted({e["trial"] for _, _, _, e in entries(data)})


def test_events_are_given_by_cursor_and_the_kept_ladder_folds_on(old):
    store, experiment = old
    n, first = events(store, experiment, 0, 20)
    rest = events(store, experiment, n)[1]
    assert [event["n"] for event in (*first, *rest)] == list(range(1, 49))
    assert events(store, experiment, 48) == (48, [])
    _, before = ladder(store, experiment)
    with Journal.open(store.experiment(experiment).journal) as journal:
        journal.append(to_line(Finish("completed", "again")))
        journal.append({"kind": "Reached", "trial": 0, "step": 9, "value": math.nan})
    n, after = ladder(store, experiment)
    assert n == 50
    assert len(after["happened"]) == len(before["happened"]) + 1
    assert events(store, experiment, 49)[1][0]["value"] == "nan"
    whole = Ladder(plan_of(store, experiment)).fold(events(store, experiment)[1]).to_json()
    assert whole == after == copy.deepcopy(after)

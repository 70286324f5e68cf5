"""The ladder that a journal makes: held against what the scheduler said, and against itself in pieces."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_world import World
from search_world import search as fresh

from workbench.errors import Unreadable
from workbench.facts import (
    CapacityChanged,
    Ended,
    Extended,
    Failed,
    Finish,
    Lost,
    PauseAsked,
    Reached,
    StopAsked,
    fact_from_line,
    to_line,
)
from workbench.records import Goal, Scheduler, Searcher
from workbench.search import Search
from workbench.space import Space, uniform
from workbench.standing import Best
from workbench.store import Store, journal
from workbench.store.journal import Journal
from workbench.store.lists.ladder import Ladder, ladder

FIXTURES = Path(__file__).parents[1] / "fixtures"
RECORDED = {path.stem: json.loads(path.read_text()) for path in sorted((FIXTURES / "ladder").glob("*.json"))}
STANDING = re.compile(
    r"bracket (\d+), rung (\d+) at step (\d+): .*is rank (\d+) of (\d+), (\d+) goe?s? on(.*cut is (.*))?"
)


@pytest.fixture(params=RECORDED)
def recorded(request):
    return RECORDED[request.param]


def search(spec) -> Search:
    goal, space = Goal(**spec["goal"]), Space.from_json(spec["space"])
    return Search(
        goal, space, Scheduler(**spec["scheduler"]), Searcher(**spec["searcher"]), spec["seed"], spec["trials"]
    )


def entries(data):
    """Every entry, with its trial, its bracket's number and its rung."""
    return [
        (one["trial"], data["brackets"][one["bracket"]], entry) for one in data["trials"] for entry in one["entries"]
    ]


def ranked(data, place: int, step: int) -> list[tuple[int, dict]]:
    """The entries told at a rung, by rank, as the page orders them."""
    sign = -1 if data["goal"]["mode"] == "max" else 1
    told = [
        (one["trial"], entry)
        for one in data["trials"]
        for entry in one["entries"]
        if one["bracket"] == place and entry["step"] == step and entry["value"] is not None
    ]
    return sorted(told, key=lambda one: (sign * one[1]["value"] if one[1]["ranks"] else math.inf, one[0]))


def test_a_recorded_journal_gives_the_recorded_ladder(recorded):
    assert Ladder(search(recorded["spec"])).read(recorded["lines"]).to_json() == recorded["ladder"]


@given(cuts=st.lists(st.integers(0, 500), max_size=8), name=st.sampled_from(sorted(RECORDED)))
def test_what_is_new_behind_a_cursor_makes_the_whole(cuts, name):
    recorded = RECORDED[name]
    reading, trials, n = Ladder(search(recorded["spec"])), {}, 0
    for cut in [*sorted(cuts), len(recorded["lines"])]:
        reading.read(recorded["lines"][max(0, n - 3) : max(n, cut)])
        new = reading.to_json(n)
        trials |= {one["trial"]: one for one in new["trials"]}
        n = new["n"]
    whole = {one["trial"]: one for one in recorded["ladder"]["trials"]}
    assert ({**new, "trials": []}, trials) == ({**recorded["ladder"], "trials": []}, whole)
    assert reading.to_json(n)["trials"] == []


@pytest.mark.parametrize("name", ["hyperband-9", "hyperband-27", "asha-promote", "asha-stop"])
def test_ranks_and_cuts_are_those_of_the_schedulers_own_reasons(name):
    data, said = RECORDED[name]["ladder"], 0
    for place, bracket in enumerate(data["brackets"]):
        for at, rung in enumerate(bracket["rungs"]):
            told = ranked(data, place, rung["step"])
            for rank, (_, entry) in enumerate(told, 1):
                match = STANDING.match(entry["reason"])
                # ASHA compares with those that were told until then, so only some reasons are of the whole rung.
                is_whole = name.startswith("hyperband") or (match is not None and int(match[5]) == len(told))
                if match is None or not is_whole or entry["fate"] not in ("on", "stopped"):
                    continue
                number, of, step, said_rank, _, go, _, cut = match.groups()
                assert (int(number), int(of), int(step)) == (bracket["bracket"], at, rung["step"])
                assert (int(said_rank), int(go)) == (rank, rung["going"])
                if rung["cut"] is not None and cut is not None:
                    assert cut == f"{rung['cut'] + 0.0:.6g}"
                said += 1
    assert said > (0 if name == "asha-stop" else 10)


@pytest.mark.parametrize("name", ["hyperband-9", "hyperband-27"])
def test_a_finished_hyperband_filled_the_places_that_were_planned(name):
    data = RECORDED[name]["ladder"]
    for place, bracket in enumerate(data["brackets"]):
        at = {rung["step"]: [one for one in data["trials"] if one["bracket"] == place] for rung in bracket["rungs"]}
        members = {
            step: {one["trial"]: e["fate"] for one in trials for e in one["entries"] if e["step"] == step}
            for step, trials in at.items()
        }
        for rung, above in zip(bracket["rungs"], [*bracket["rungs"][1:], None], strict=True):
            assert len(members[rung["step"]]) == rung["places"]
            on = {trial for trial, fate in members[rung["step"]].items() if fate == "on"}
            assert on == (set() if above is None else set(members[above["step"]]))
            assert len(on) == rung["going"]


def test_everybody_ends_somewhere_and_only_once(recorded):
    data = recorded["ladder"]
    ends = [trial for trial, _, entry in entries(data) if entry["fate"] != "on"]
    assert sorted(ends) == sorted(one["trial"] for one in data["trials"])
    assert {entry["fate"] for _, _, entry in entries(data)} <= {"on", "stopped", "failed", "completed"}


def test_the_best_is_on_top_of_its_rung(recorded):
    data = recorded["ladder"]
    best = data["best"]
    tops = [
        (entry, trial)
        for place in range(len(data["brackets"]))
        for trial, entry in ranked(data, place, best["step"])
        if entry["fate"] != "failed"
    ]
    sign = -1 if data["goal"]["mode"] == "max" else 1
    first = min(tops, key=lambda one: (sign * one[0]["value"] if one[0]["ranks"] else math.inf, one[1]))
    assert (best["trial"], best["value"]) == (first[1], first[0]["value"])


def test_the_best_is_at_each_line_what_the_search_calls_so(recorded):
    reading, known = Ladder(search(recorded["spec"])), search(recorded["spec"])
    for line in recorded["lines"]:
        reading.read([line])
        fact = fact_from_line(line)
        if fact is not None:
            known.handle(fact)
        best = reading.to_json(line["n"])["best"]
        assert (None if best is None else Best.from_json(best)) == known.best


def test_nobody_is_called_training_without_a_leg(recorded):
    most, training = 0, set()
    reading = Ladder(search(recorded["spec"]))
    for line in recorded["lines"]:
        reading.read([line])
        if line["kind"] == "LegLeft":
            training.discard(line["trial"])
        elif line["kind"] == "LegStarted":
            training.add(line["trial"])
        most = max(most, len(training))
        assert {trial for trial, _, entry in entries(reading.to_json()) if entry["fate"] == "training"} <= training
    assert most, "no leg began"


# ---------------------------------------------------------------------------------------------------------------------
# One case each

SPACE = Space({"x": uniform(0.0, 1.0)})


def asha(mode: str = "stop", trials: int = 4, last: int = 4, **more) -> Ladder:
    return Ladder(Search(Goal("acc"), SPACE, Scheduler("asha", 1, last, 2, mode=mode), trials=trials, **more))


def lines(*records, after: int = 0):
    """Journal lines of facts, and of legs that have begun."""
    plain = [record if isinstance(record, dict) else to_line(record) for record in records]
    return [{"n": n, "at": "2026-01-01T00:00:00+00:00", **one} for n, one in enumerate(plain, after + 1)]


def leg(trial: int):
    return {"kind": "LegStarted", "trial": trial, "attempt": 1}


def fates(data):
    return {(entry["step"], trial): entry["fate"] for trial, _, entry in entries(data)}


def test_values_after_the_rule_stopped_a_trial_count_no_more():
    found = lines(
        *(CapacityChanged(2), leg(0), leg(1), Reached(0, 1, 0.5), Reached(1, 1, 0.4)),
        *(Reached(1, 2, 0.9), Reached(0, 2, 0.6)),
    )
    data = asha(trials=2).read(found).to_json()
    assert fates(data) == {(1, 0): "on", (2, 0): "on", (4, 0): "training", (1, 1): "stopped"}
    assert (data["best"]["trial"], data["best"]["value"]) == (0, 0.6)


def test_a_trial_that_was_done_before_the_order_arrived_is_complete():
    found = lines(CapacityChanged(2), leg(0), leg(1), Reached(0, 1, 0.5), Reached(1, 1, 0.4), Reached(1, 4, 0.9))
    assert fates(asha(trials=2).read(found).to_json())[4, 1] == "completed"


def test_a_person_stops_trials_at_the_rung_they_were_training_towards():
    found = lines(
        *(CapacityChanged(2), leg(0), leg(1), Reached(0, 1, 0.5)),
        *(StopAsked(1, "asked to"), StopAsked(3, "asked to"), StopAsked(0, "asked to")),
    )
    reading = asha().read(found)
    assert fates(reading.to_json()) == {(1, 0): "on", (2, 0): "training", (1, 1): "training", (1, 3): "stopped"}
    found = lines({"kind": "Left", "trial": 0}, {"kind": "Left", "trial": 1}, after=len(found))
    after = fates(reading.read(found).to_json())
    assert (after[2, 0], after[1, 1], after[1, 3]) == ("stopped", "stopped", "stopped")


def test_a_trial_that_failed_is_not_the_best():
    found = lines(CapacityChanged(2), leg(0), leg(1), Reached(0, 1, 0.9), Reached(1, 1, 0.4), leg(0))
    reading = asha(mode="promote", trials=2).read(found)
    data = reading.to_json()
    assert (data["best"]["trial"], fates(data)) == (0, {(1, 0): "on", (2, 0): "training", (1, 1): "waiting"})
    data = reading.read(lines(Failed(0, "raised"), after=len(found))).to_json()
    assert (data["best"]["trial"], fates(data)[2, 0]) == (1, "failed")
    assert reading.since(0)["failures"] == 1


def test_a_paused_and_a_lost_trial_wait_where_they_were_going():
    found = lines(CapacityChanged(2), leg(0), leg(1), Reached(0, 1, 0.9), PauseAsked("night"), Lost(0, "killed"))
    data = asha().read(found).to_json()
    assert fates(data)[2, 0] == "waiting"
    found = lines(CapacityChanged(1), leg(0), CapacityChanged(0), Reached(0, 1, 0.9), Lost(0, "killed"))
    reading = asha().read(found)
    assert fates(reading.to_json())[2, 0] == "lost"
    assert reading.since(0)["retries"] == 1


def test_code_that_came_to_its_own_end_stands_at_the_rung_it_was_on_its_way_to():
    found = lines(CapacityChanged(1), leg(0), Reached(0, 1, 0.9), Ended(0, 3, 0.95))
    data = asha(trials=2).read(found).to_json()
    assert fates(data) == {(1, 0): "on", (4, 0): "completed", (1, 1): "waiting"}
    found = lines(CapacityChanged(1), leg(0), Ended(0, 1, None))
    [value] = [entry["value"] for trial, _, entry in entries(asha(trials=2).read(found).to_json()) if trial == 0]
    assert value is None


def test_a_search_that_was_made_longer_goes_on_from_what_was_its_top():
    found = lines(CapacityChanged(1), leg(0), Reached(0, 1, 0.9), Reached(0, 2, 0.9), Reached(0, 4, 0.9))
    found += lines({"kind": "Finish", "state": "completed", "reason": "done"}, after=len(found))
    reading = Ladder(Search(Goal("acc"), SPACE, Scheduler("asha", 1, 4, 2, mode="stop"), trials=2)).read(found)
    assert reading.since(0)["ended"]["state"] == "completed"
    found = lines(Extended("longer", last=8), CapacityChanged(1), after=len(found))
    data = reading.read(found).to_json(found[0]["n"] - 1)
    assert [rung["step"] for rung in data["brackets"][0]["rungs"]] == [1, 2, 4, 8]
    assert fates(data)[4, 0] in ("on", "completed")
    assert reading.since(0)["ended"] is None


def test_a_value_that_is_no_number_ranks_last_and_is_a_word():
    found = lines(
        *(CapacityChanged(3), leg(0), leg(1), leg(2)),
        *(Reached(0, 1, math.nan), Reached(1, 1, math.inf), Reached(2, 1, -3.0)),
    )
    data = asha(mode="promote", trials=3).read(found).to_json()
    assert [(trial, entry["value"]) for trial, entry in ranked(data, 0, 1)] == [(2, -3.0), (0, "nan"), (1, "inf")]


def test_a_trial_that_a_person_stopped_at_an_open_rung_of_hyperband_ranks_last_as_the_rule_counts_it():
    reading = Ladder(Search(Goal("acc"), SPACE, Scheduler("hyperband", 1, 4, 2)))
    first = [trial["trial"] for trial in reading.to_json()["trials"]]
    assert first == []
    found = lines(CapacityChanged(4), *map(leg, range(4)), Reached(0, 1, 0.9), StopAsked(0, "asked"))
    found += lines(Reached(1, 1, 0.2), Reached(2, 1, 0.3), Reached(3, 1, 0.1), after=len(found))
    data = reading.read(found).to_json()
    assert [trial for trial, _ in ranked(data, 0, 1)] == [2, 1, 3, 0]
    rung = data["brackets"][0]["rungs"][0]
    assert (rung["going"], rung["cut"]) == (2, 0.2)
    assert "2 of 4" in next(e["reason"] for trial, e in ranked(data, 0, 1) if trial == 1)


def test_since_a_line_it_says_what_was_missed():
    recorded = RECORDED["hyperband-9"]
    reading = Ladder(search(recorded["spec"])).read(recorded["lines"])
    failure = next(line["n"] for line in recorded["lines"] if line["kind"] == "Failed")
    whole, rest = reading.since(0), reading.since(failure)
    assert (whole["retries"], whole["failures"]) == (sum(line["kind"] == "Lost" for line in recorded["lines"]), 1)
    assert whole["best"] == {"first": None, "last": recorded["ladder"]["best"]["value"]}
    assert (rest["failures"], rest["best"]["last"]) == (0, recorded["ladder"]["best"]["value"])
    assert rest["best"]["first"] is None or rest["best"]["first"] < rest["best"]["last"]
    assert rest["ended"]["state"] == "completed"
    assert reading.since(reading.n) == {"retries": 0, "failures": 0, "best": None, "ended": None}


# ---------------------------------------------------------------------------------------------------------------------
# In a store


@pytest.fixture
def old(tmp_path):
    """A store that an earlier version wrote."""
    shutil.copytree(FIXTURES / "stores" / "v1", tmp_path / "v1")
    store = Store(tmp_path / "v1")
    return store, store.experiment_ids()[0]


def test_an_older_journal_gives_its_ladder_with_the_places_that_were_planned(old):
    store, experiment = old
    data = ladder(store, experiment)["ladder"]
    assert data["n"] == 48
    assert [(b["bracket"], [r["step"] for r in b["rungs"]]) for b in data["brackets"]] == [(1, [1, 3]), (0, [3])]
    found = journal.read(store.experiment(experiment).journal)
    told = {line["trial"] for line in found if line["kind"] in ("Reached", "Ended")}
    assert {trial for trial, _, entry in entries(data) if entry["value"] is not None} == told


def test_a_kept_ladder_reads_on_and_a_shorter_journal_is_given_whole(old):
    store, experiment = old
    path = store.experiment(experiment).journal
    first = ladder(store, experiment)
    assert ladder(store, experiment, 48)["ladder"]["trials"] == []
    text = path.read_bytes()
    with Journal.open(path) as writing:
        writing.append(to_line(Finish("completed", "again")))
    assert ladder(store, experiment, 48)["ladder"]["n"] == 49
    path.write_bytes(text)
    assert ladder(store, experiment, 49)["ladder"] == first["ladder"]


def test_a_planted_journal_begins_no_million_trials_and_one_that_makes_no_sense_is_refused(old):
    store, experiment = old
    with Journal.open(store.experiment(experiment).journal) as writing:
        writing.append({"kind": "CapacityChanged", "slots": 9_000_000})
    ladder(store, experiment)
    with Journal.open(store.experiment(experiment).journal) as writing:
        writing.append({"kind": "CapacityChanged", "slots": "many"})
    with pytest.raises(Unreadable, match="slots"):
        ladder(store, experiment)


def test_a_spec_that_is_not_valid_is_refused_by_name(old):
    store, experiment = old
    path = store.experiment(experiment).spec
    path.write_text(json.dumps({**json.loads(path.read_text()), "space": {}}))
    with pytest.raises(Unreadable, match=f"experiment {experiment} is not valid"):
        ladder(store, experiment)


@given(cuts=st.lists(st.integers(0, 400), max_size=6), seed=st.integers(0, 50))
def test_means_of_configurations_are_told_in_pieces_too(cuts: list[int], seed: int) -> None:
    world = World(fresh("hyperband x4"), 3, seed, losses=0.1).run()
    lines = [{"n": n, "at": "2026-11-23T12:00:00.000+00:00", **to_line(fact)} for n, fact in enumerate(world.facts, 1)]
    whole = Ladder(fresh("hyperband x4")).read(lines).to_json()
    assert whole["members"] == 4
    told, after, kept = Ladder(fresh("hyperband x4")), 0, {}
    for cut in [*sorted(cuts), len(lines)]:
        part = told.read(lines[:cut]).to_json(after)
        kept.update({one["trial"]: one for one in part["trials"]})
        after = part["n"]
    assert [kept[one["trial"]] for one in whole["trials"]] == whole["trials"]
    for one in whole["trials"]:
        group = [other for other in whole["trials"] if other["trial"] // 4 == one["trial"] // 4]
        for at, entry in enumerate(one["entries"]):
            assert entry["mean"] == math.fsum(other["entries"][at]["value"] for other in group) / 4
    assert whole["best"]["of"]["trials"] == 4

"""Which hyperparameters matter, as the panel is told: at a level, by three methods, or why not."""

from __future__ import annotations

import pytest
from compare.test_importance import HALVING, SPACE, known, noise
from levelled import levelled

from workbench.compare import importance as room
from workbench.store.journal import Journal


async def test_the_methods_are_told_side_by_side(ask, store):
    levelled(store, SPACE, known, trials=60)
    answer = await ask("experiments", "digits", "importance")
    assert (answer["metric"], answer["level"], answer["trials"]) == ("val_acc", 9, 60)
    assert answer["signal"]
    assert answer["quality"] > 0.5
    assert answer["lacks"] == []
    assert answer["values"][0]["name"] == "lr"
    for method in ("importance", "fanova", "ped_anova"):
        assert sum(one[method] for one in answer["values"]) == pytest.approx(1, abs=1e-4)


async def test_a_level_and_a_metric_can_be_chosen(ask, store):
    levelled(store, SPACE, known, HALVING, trials=60)
    answer = await ask("experiments", "digits", "importance", level="1", metric="loss")
    assert (answer["metric"], answer["level"], answer["trials"]) == ("loss", 1, 60)
    assert (await ask("experiments", "digits", "importance"))["level"] == 3


async def test_without_signal_there_are_no_values(ask, store):
    levelled(store, SPACE, noise, trials=60)
    answer = await ask("experiments", "digits", "importance")
    assert not answer["signal"]
    assert answer["values"] == []


async def test_an_answer_is_kept_until_the_experiment_grows(ask, store, monkeypatch):
    made = levelled(store, SPACE, known, trials=20)
    answer = await ask("experiments", "digits", "importance")
    computed = []
    compute = room.importance
    monkeypatch.setattr(room, "importance", lambda *of: computed.append(of) or compute(*of))
    assert await ask("experiments", "digits", "importance") == answer
    assert computed == []
    with Journal.open(store.experiment(made.id).journal) as journal:
        journal.append({"kind": "LegStarted", "trial": 0, "attempt": 2, "start": 9, "until": 9})
    assert await ask("experiments", "digits", "importance") == answer
    assert len(computed) == 1


async def test_what_cannot_be_computed_is_409_in_words(refused, store):
    levelled(store, SPACE, known, trials=11)
    code, message = await refused("experiments", "digits", "importance")
    assert code == 409
    assert "12 or more" in message
    code, message = await refused("experiments", "digits", "importance", level="5")
    assert code == 409
    assert "expected one of 1, 3, 9" in message


async def test_a_level_that_is_no_number_is_400(refused, store):
    levelled(store, SPACE, known, trials=11)
    assert (await refused("experiments", "digits", "importance", level="last"))[0] == 400


async def test_without_the_library_it_says_what_to_install(refused, store, monkeypatch):
    levelled(store, SPACE, known, trials=20)
    monkeypatch.setattr(room, "find_spec", lambda name: None)
    code, message = await refused("experiments", "digits", "importance")
    assert code == 409
    assert "workbench[importance]" in message

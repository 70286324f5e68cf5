"""What is shown of experiments and trials is what the store says, and nothing in a name acts on a terminal."""

from __future__ import annotations

import dataclasses
import json

import pytest
from cli.stored import Answering, Typed, Written

from workbench.store import new_id
from workbench.store.series import Series


def test_the_list_is_newest_first_with_progress_and_best(written: Written, type_: Typed, answering: Answering) -> None:
    written.experiment()
    written.experiment(version=2, state="running", reason="training")
    found = type_("ls").out.splitlines()
    assert found[0].split() == ["experiment", "state", "trials", "best", "age"]
    assert found[1].startswith("digits@2    running    1/49, 1 failed  val_acc 0.975 (t0001)")
    assert found[2].startswith("digits@1    completed  3/3             val_acc 0.975 (t0001)")
    assert "ago" in found[1]


def test_ls_lists_an_experiment_that_no_engine_has_listed_yet(written: Written, type_: Typed) -> None:
    spec = written.experiment("digits")
    written.catalog.flush()
    new = dataclasses.replace(spec, id=new_id(), name="letters", created="2026-02-01T00:00:00.000+00:00")
    written.store.write_spec(new)
    said = type_("ls", "--json")
    assert [one["label"] for one in said.json["experiments"]] == ["letters@1", "digits@1"]
    assert said.json["experiments"][0]["state"] == "waiting"
    assert "letters@1" in type_("ls").out


def test_the_list_is_as_fresh_as_the_series(written: Written, type_: Typed) -> None:
    spec = written.experiment(state="running", best={"trial": 0, "value": 0.5}, trials=1)
    written.set(spec, best={"trial": 1, "value": 0.75}, counts={"running": 1, "completed": 4})
    row = type_("ls", "--json").json["experiments"][0]
    assert row["best"] == {"trial": "t0001", "value": 0.75}
    assert row["trials"] == {"ended": 4, "begun": 5, "planned": 49, "of": 49}


def test_the_list_calls_nothing_running_that_has_just_ended(
    written: Written, type_: Typed, answering: Answering
) -> None:
    spec = written.experiment(state="running", reason="training", counts={"running": 3})
    written.set(spec, state="completed", reason="every trial has ended", ended="2026-01-09T00:00:00.000+00:00")
    assert type_("ls", "--json").json["experiments"][0]["state"] == "completed"
    assert type_("history", spec.label, "--json").json["versions"][0]["state"] == "completed"


def test_nothing_is_called_running_without_an_engine(written: Written, type_: Typed) -> None:
    written.experiment(state="running", reason="training")
    row = type_("ls", "--json").json["experiments"][0]
    assert row["state"] == "waiting"
    assert "no engine runs" in row["reason"]
    assert type_("show", "digits", "--json").json["trials"][0]["state"] == "waiting"
    assert type_("ls", "--state", "running").out == "no experiment matches.\n"


def test_filters_by_text_state_and_tag(written: Written, type_: Typed) -> None:
    written.experiment("digits", tags=["paper", "small"])
    written.experiment("mnist", state="failed", note="for Digits too")
    written.experiment("cifar", notebook="vision.ipynb")

    def names(*words: str) -> set[str]:
        return {row["label"] for row in type_("ls", "--json", *words).json["experiments"]}

    assert names() == {"digits@1", "mnist@1", "cifar@1"}
    assert names("digits") == {"digits@1", "mnist@1"}
    assert names("VISION") == {"cifar@1"}
    assert names("--state", "failed", "--state", "stopped") == {"mnist@1"}
    assert names("--tag", "paper", "--tag", "small") == {"digits@1"}
    assert names("--tag", "paper", "--state", "failed") == set()
    assert len(names("--last", "2")) == 2
    assert "#paper #small" in type_("ls").out


def test_an_empty_store_says_so(type_: Typed) -> None:
    found = type_("ls")
    assert found.code == 0
    assert "has no experiment yet" in found.out


def test_the_list_is_made_from_journals_where_the_catalog_is_damaged(written: Written, type_: Typed) -> None:
    written.experiment()
    written.store.catalog_path.write_text("{half")
    assert type_("ls", "--json").json["experiments"][0]["label"] == "digits@1"


def test_an_experiment_is_shown_with_its_trials_best_first(written: Written, type_: Typed) -> None:
    spec = written.experiment(version=2)
    found = type_("show", "digits@2").out
    assert found.startswith("digits@2  completed  every trial has ended\n")
    assert "max val_acc" in found
    assert "hyperband, steps 1-27, η=3, random, seed 0" in found
    assert "3 of 49: 2 completed, 1 failed" in found
    table = found[found.index("\ntrial ") + 1 :].splitlines()
    assert [line.split()[0] for line in table[1:]] == ["t0001", "t0000", "t0002"]
    assert "lr=0.05 hidden=64" in table[1]
    assert "off=" not in found
    data = type_("show", spec.id, "--json").json
    assert data["schema"] == 1
    assert data["experiment"]["spec"]["scheduler"]["last"] == 27
    assert len(data["trials"]) == 3


def test_the_first_trial_shown_is_the_best_one(written: Written, type_: Typed) -> None:
    spec = written.experiment()
    with Series.open(written.store.experiment(spec.id).series) as series:
        series.put_trial(0, value=0.99, best=0.99)
        series.put_trial(1, level=3)
        series.put_trial(2, value=0.995, best=0.995)
    assert type_("best", "digits").out.startswith("digits@1/t0001")
    assert [row["label"] for row in type_("show", "digits", "--json").json["trials"]] == ["t0001", "t0000", "t0002"]


def test_a_trial_is_shown_whole(written: Written, type_: Typed) -> None:
    spec = written.experiment()
    folder = written.checkpoint(spec, 2, 3)
    found = type_("show", "digits/t0002").out
    assert found.startswith("digits@1/t0002  failed  bracket 3, rung 0: it is new\n")
    assert "3, 2 restarts after its own errors" in found
    assert "3 of 27" in found
    assert "hidden  64" in found
    assert "0–3" in found
    assert "cpu0" in found
    assert str(folder) in found
    assert "ValueError: \\x1b[31mno\\x07" in found
    data = type_("show", "digits/t0002", "--json").json
    assert data["trial"]["restarts"] == 2
    assert data["legs"][0]["outcome"] == "reached"
    assert data["checkpoints"][0]["path"] == str(folder)


def test_a_trial_at_a_step(written: Written, type_: Typed) -> None:
    written.experiment()
    assert type_("show", "digits@1/t0001:2", "--json").json["metrics"] == {"step": 2, "values": {"val_acc": 0.95}}
    found = type_("show", "digits@1/t0001:9")
    assert found.code == 3
    assert "it reached step 3" in found.err


def test_a_damaged_checkpoint_is_called_damaged(written: Written, type_: Typed) -> None:
    spec = written.experiment()
    folder = written.checkpoint(spec, 1, 3)
    (folder / "state.pt").write_bytes(b"short")
    assert "damaged: state.pt has 5 bytes instead of 7" in type_("show", "digits/t0001").out


@pytest.mark.parametrize("verb", ["show", "watch", "best", "plan", "stop", "pause", "resume", "logs"])
def test_what_is_not_there_is_not_found_and_the_nearest_named(written: Written, type_: Typed, verb: str) -> None:
    written.experiment()
    found = type_(verb, "digist/t0000" if verb == "logs" else "digist")
    assert found.code == 3
    assert "Did you mean digits?" in found.err
    assert found.err.count("\n") == 1


def test_a_trial_that_is_not_there(written: Written, type_: Typed) -> None:
    written.experiment()
    found = type_("show", "digits/t0099")
    assert found.code == 3
    assert "t0000 to t0002" in found.err


def test_a_trial_is_refused_where_an_experiment_is_wanted(written: Written, type_: Typed) -> None:
    written.experiment()
    for verb in ("watch", "best", "plan"):
        found = type_(verb, "digits/t0001")
        assert found.code == 2
        assert "Write digits@1." in found.err
    assert "expected a trial of it" in type_("logs", "digits").err


def test_a_trial_of_what_has_ended_is_neither_paused_nor_resumed(written: Written, type_: Typed) -> None:
    written.experiment()
    for verb in ("pause", "resume"):
        found = type_(verb, "digits/t0001")
        assert (
            found.out == f"digits@1/t0001 is of an experiment that is completed already; there is nothing to {verb}.\n"
        )
        found = type_(verb, "digits/t0001:3")
        assert found.code == 2
        assert f"only a whole trial can be {verb}d. Write workbench {verb} digits@1/t0001." in found.err


def test_very_many_long_tags_are_cut(written: Written, type_: Typed) -> None:
    written.experiment("digits", tags=[f"{number:04d}" + "x" * 1000 for number in range(1000)], note="y" * 100_000)
    found = type_("ls").out
    assert len(found) < 1_000
    assert "#0000xxx" in found
    assert "and 992 more tags" in found
    assert len(type_("show", "digits").out) < 10_000


def test_names_and_reasons_cannot_act_on_a_terminal(written: Written, type_: Typed) -> None:
    spec = written.experiment(reason="\x1b]0;evil\x07 done\nnext", tags=["\x1b[2J"])
    written.set(spec, reason="\x1b]0;evil\x07")
    for words in (["ls"], ["show", "digits"], ["watch", "digits"]):
        found = type_(*words)
        assert "\x1b" not in found.out
        assert "\x07" not in found.out


def test_the_best_trial_and_its_checkpoint(written: Written, type_: Typed) -> None:
    spec = written.experiment()
    assert "no checkpoint is kept" in type_("best", "digits").out
    older, at_best, newer = (written.checkpoint(spec, 1, step) for step in (1, 3, 9))
    found = type_("best", "digits")
    assert found.code == 0
    assert found.out.startswith("digits@1/t0001  val_acc 0.975 at step 3\n")
    assert f"checkpoint of step 3: {at_best}" in found.out
    (at_best / "state.pt").unlink()
    assert type_("best", "digits", "--json").json["checkpoint"] == {"step": 9, "path": str(newer)}
    assert older != newer


def test_the_best_value_is_that_of_the_level_by_which_trials_are_compared(written: Written, type_: Typed) -> None:
    spec = written.experiment()
    with Series.open(written.store.experiment(spec.id).series) as series:
        series.add_points((1, "val_acc", step, 0, 0.975, 1.0) for step in (1, 3))
        series.put_trial(1, level=3)
    at_level = [written.checkpoint(spec, 1, step) for step in (1, 3)][1]
    found = type_("best", "digits")
    assert found.out.startswith("digits@1/t0001  val_acc 0.975 at step 3\n")
    assert f"checkpoint of step 3: {at_level}" in found.out


def test_without_a_best_there_is_nothing_to_find(written: Written, type_: Typed) -> None:
    spec = written.experiment(best=None, state="failed")
    written.set(spec, best=None)
    found = type_("best", "digits")
    assert found.code == 3
    assert "has no best trial: trials are compared at levels, and none has reported val_acc at one" in found.err


def test_a_value_that_json_lacks_is_a_word(written: Written, type_: Typed) -> None:
    spec = written.experiment()
    with Series.open(written.store.experiment(spec.id).series) as series:
        series.put_trial(0, value=float("nan"), best=None)
    out = type_("show", "digits/t0000", "--json").out
    assert json.loads(out, parse_constant=pytest.fail)["trial"]["value"] == "nan"


# ---------------------------------------------------------------------------------------------------------------------
# plan


def test_the_plan_of_the_papers_algorithm(type_: Typed) -> None:
    found = type_("plan", "--steps", "1-81", "--eta", "3", "--scheduler", "hyperband")
    assert found.code == 0
    assert "143 trials" in found.out
    assert "1,581 steps" in found.out
    data = type_("plan", "--steps", "1-81", "--json").json["plan"]
    assert (data["trials"], data["steps"], data["steps_retrained"]) == (143, 1581, 1902)
    assert type_("plan", "--steps", "1-81", "--table", "table1", "--json").json["plan"]["trials"] == 128


def test_the_time_of_a_plan_from_given_times(type_: Typed) -> None:
    given = ("plan", "--steps", "1-81", "--setup-time", "2m", "--step-time", "3s")
    found = type_(*given)
    assert "you gave 2 min for a set-up and 3.0 s for a step: at most about" in found.out
    assert "--scheduler asha --mode stop --trials 143 sets each trial up once" in found.out
    cost = type_(*given, "--json").json["plan"]["cost"]
    assert (cost["times"]["setup_s"], cost["step_s"], cost["setups"] * 120.0) == (120.0, 3.0 * 1581, cost["setup_s"])
    assert "you gave" not in type_("plan", "--steps", "1-81").out


@pytest.mark.parametrize("one", [("--setup-time", "2m"), ("--step-time", "3s")])
def test_one_of_the_two_times_is_not_enough(type_: Typed, one: tuple[str, str]) -> None:
    found = type_("plan", "--steps", "1-81", *one)
    assert found.code == 2
    assert f"{one[0]} was given without --" in found.err


def test_a_large_plan_warns_and_is_no_error(type_: Typed) -> None:
    found = type_("plan", "--steps", "27", "--scheduler", "asha", "--trials", "1200")
    assert found.code == 0
    assert "more than 1,000" in found.out


def test_the_plan_of_an_experiment_is_its_own(written: Written, type_: Typed) -> None:
    written.experiment()
    assert type_("plan", "digits").out == type_("plan", "--steps", "1-27").out


def test_a_long_list_opens_no_series_of_what_has_ended(
    written: Written, type_: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.experiment()
    written.catalog.upsert_experiment("20260101-000000-aaaaaa", {"name": "old", "state": "stopped", "created": "x"})
    written.catalog.close()
    monkeypatch.setattr(Series, "read", lambda _: pytest.fail("opened"))
    assert len(type_("ls").out.splitlines()) == 3

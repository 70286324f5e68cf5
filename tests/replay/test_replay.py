"""A recorded trial is trained again by a real engine, in processes of its own, and the verdict is kept."""

from __future__ import annotations

import dataclasses
import json
import sys
import zipfile
from pathlib import Path

import pytest
from notebook_world import Notebook, put_results
from running import ended, lines, until

import workbench as wb
from workbench.cli import main
from workbench.compare import compare
from workbench.compare.repeats import repeats_of
from workbench.compare.verdict import replays_of, verdict
from workbench.errors import BadOption, NotFound
from workbench.experiment.again import nightly
from workbench.records import Spec
from workbench.replay import repeat, replay
from workbench.replay.place import place
from workbench.snapshot import read_snapshot
from workbench.store import Store, requests
from workbench.store.journal import read as read_journal
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.lists.catalog import read_catalog
from workbench.store.series import Series

CELLS = (
    "import torch\nX = torch.linspace(-1, 1, 24).reshape(8, 3)\nfactor = 1.0",
    "def target(x):\n    return factor * x.sum(1, keepdim=True)",
)
TRAIN = """
lr = loguniform(1e-3, 0.3)
import pathlib
shift = float(pathlib.Path("shift.txt").read_text())
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
for epoch in trial.steps():
    loss = ((model(X) - target(X) - shift) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    trial.report(val_acc=-loss.item(), length=trial.max_steps, number=trial.number)
"""


@pytest.fixture(scope="module")
def first(store, folder) -> Spec:
    """``digits@1``, trained: a bracket of three rungs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("shift.txt").write_text("0.25\n")
        spec = Notebook(store, folder).run(*CELLS).launch(TRAIN, steps=(1, 9))
    requests.put(store, {"kind": "start", "experiment": spec.id})
    assert ended(store, spec) == "completed"
    return spec


def test_a_replay_is_the_same_bit_for_bit_weights_and_all(store, first):
    best = wb.open("digits", store=store).best
    assert best.step == 9  # it came here in three legs
    made = wb.replay(best)
    assert made.verdict == "identical"
    assert made.notes == ()
    found = made.to_dict()
    assert (found["values"], found["weights"], found["why"]) == (27, True, [])
    assert compare(store, str(best), f"{made.experiment.id}/t0000")["same"]
    again = wb.replay(made.experiment)  # a replay of a replay has the first one's seeds
    assert again.verdict == "identical"


def test_the_verdict_is_kept_where_it_can_be_found(store, first):
    made = wb.replay("digits@1/t0001", store=store)
    spec = made.experiment.spec
    [line] = lines(store, spec, "Concluded")
    assert line["replay"]["verdict"] == "identical"
    assert replays_of(store, first.id, 1)[0]["verdict"] == "identical"
    entry = until(
        lambda: next((row for row in read_catalog(store) if row["id"] == spec.id and row.get("replay")), None)
    )
    assert entry["replays"]["trial"] == 1
    assert entry["replay"]["verdict"] == "identical"


def test_a_trial_that_was_stopped_early_is_trained_as_far_and_sees_its_whole_length(store, first):
    exp = wb.open("digits", store=store)
    short = next(trial for trial in exp.records if trial.step == 1)
    made = wb.replay(short)
    assert made.verdict == "identical"
    trained = made.experiment["t0000"]
    assert trained.step == 1
    assert list(trained.curve("length")) == [9]
    assert list(trained.curve("number")) == [short.number]


def test_data_that_changed_is_said_before_and_put_back(store, first, folder):
    shift = folder / "shift.txt"
    before = shift.read_text()
    shift.write_text("0.5000\n")
    try:
        made = wb.replay("digits@1/t0000", store=store, wait=False)
        (note,) = [note for note in made.notes if "shift.txt" in note]
        assert "changed since: 5 → 7 bytes, digest" in note
        assert note.endswith("training sees it as it was, and the file stays as it is")
        made.wait()
    finally:
        shift.write_text(before)
    assert made.verdict == "identical"


def test_another_library_is_said_before_and_in_the_verdict(store, first, folder):
    snapshot = store.snapshot(first.snapshot) / "environment.json"
    recorded = json.loads(snapshot.read_text())
    place_ = place(store, first, read_snapshot(store, first.snapshot))
    assert place_.how == "same"
    snapshot.write_text(json.dumps({**recorded, "distributions": {**recorded["distributions"], "augment": "1.0"}}))
    try:
        made = wb.replay("digits@1/t0000", store=store)
    finally:
        snapshot.write_text(json.dumps(recorded))
    assert made.notes == ("another environment: augment 1.0 → not there",)
    assert made.verdict == "identical"  # its arithmetic did not need it


def test_a_panel_asks_the_engine_for_a_replay(store, first):
    request = requests.put(store, {"kind": "replay", "experiment": first.id, "trial": 2})
    answer = until(
        lambda: next((row for row in read_journal(store.journal_path) if row.get("request") == request), None)
    )
    assert answer["accepted"], answer
    spec = store.read_spec(answer["experiment"])
    assert (spec.replays["experiment"], spec.replays["trial"]) == (first.id, 2)
    assert ended(store, spec) == "completed"


def test_repeats_have_other_seeds_and_tell_the_noise(store, first):
    made = wb.repeat("digits@1/t0000", 3, store=store)
    found = made.to_dict()
    assert [one["seed"] for one in found["values"]] == [1, 2, 3]
    assert len({one["value"] for one in found["values"]}) == 3
    low, high = made.interval
    assert low < made.mean < high
    assert made.experiment.spec.seeds == ((1, 0), (2, 0), (3, 0))
    noise = compare(store, "digits@1/t0000", "digits@1/t0001")["results"]["within_noise"]
    assert "3 repeats of digits@1/t0000 scatter by" in noise["why"]
    assert compare(store, "digits@1/t0001", "digits@1/t0002")["results"]["within_noise"] is None


def test_a_seed_is_trained_once_and_counts_once(store, first, capsys):
    """However often, by whichever command, and through whichever of its trainings a trial is repeated."""
    trial, ref = 2, "digits@1/t0002"
    two = wb.repeat(ref, 2, store=store)
    values = {one["seed"]: one["value"] for one in two.to_dict()["values"]}
    known = store.experiment_ids()
    same = wb.repeat(ref, 2, store=store)
    assert store.experiment_ids() == known  # nothing is written, nothing is trained
    assert same.experiment.id == two.experiment.id
    assert same.interval == two.interval
    assert same.notes[-1] == "2 of 2 seeds were trained before and are not trained again"
    more = wb.repeat(ref, 4, store=store)
    assert more.experiment.spec.seeds == ((3, trial), (4, trial))
    found = more.to_dict()
    assert (found["n"], [one["seed"] for one in found["values"]]) == (4, [1, 2, 3, 4])
    assert {one["seed"]: one["value"] for one in found["values"]} | values == {
        one["seed"]: one["value"] for one in found["values"]
    }
    assert "mean of 4 seeds" in more.words
    # What the engine kept says the same; a repeat's repeats, and fewer, are those of the trial.
    [line] = until(lambda: lines(store, more.experiment.spec, "Concluded"), what="the engine's conclusion")
    assert line["repeat"]["mean"] == more.mean
    known = store.experiment_ids()
    assert main(["--store", str(store.root), "repeat", f"{more.experiment.label}/t0000", "--seeds", "3"]) == 0
    said = capsys.readouterr().out
    assert "Note: 3 of 3 seeds were trained before and are not trained again." in said
    assert "mean of 3 seeds" in said
    assert store.experiment_ids() == known
    assert {(seed, number) for seed, number in repeats_of(store, first.id, trial)} == {(n, trial) for n in (1, 2, 3, 4)}


def test_a_seed_is_trained_again_where_its_data_are_others(store, first, folder):
    shift = folder / "shift.txt"
    before = shift.read_text()
    trained = wb.repeat("digits@1/t0001", 2, store=store)
    shift.write_text("0.75\n")
    try:
        again = wb.repeat("digits@1/t0001", 2, store=store)
    finally:
        shift.write_text(before)
    # It was trained again, with the bytes of then.
    assert again.experiment.id != trained.experiment.id
    assert again.mean == trained.mean
    assert len(repeats_of(store, first.id, 1)) == 2  # the newest result of each seed


def test_a_nightly_check_replays_the_best_of_each_experiment(store, first, capsys):
    assert main(["--store", str(store.root), "replay", "--all", "--since", "2026-01-01", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(one["label"], one["verdict"]) for one in told["replays"]] == [("digits@1", "identical")]
    assert nightly(store, "2999-01-01", print) == []
    shift = Path("shift.txt")
    before = shift.read_text()
    shift.write_text("0.75\n")
    try:
        assert main(["--store", str(store.root), "replay", "--all"]) == 0
    finally:
        shift.write_text(before)
    assert "digits@1: identical" in capsys.readouterr().out


def test_repeats_under_way_are_awaited_and_not_trained_twice(store, first):
    gate = Path("gate")
    train = TRAIN.replace("for epoch", "while number_of() and not gate.exists(): time.sleep(0.02)\nfor epoch")
    cells = (*CELLS, "import time, pathlib\ngate = pathlib.Path('gate')\ndef number_of(): return trial.seed")
    gate.touch()
    spec = Notebook(store, Path()).run(*cells).launch(train.replace("number_of()", "True"), name="gated", steps=(9, 9),
                                                      trials=1)  # fmt: skip
    requests.put(store, {"kind": "start", "experiment": spec.id})
    assert ended(store, spec) == "completed"
    gate.unlink()
    one = wb.repeat("gated@1/t0000", 2, store=store, wait=False)
    until(lambda: one.experiment.records, what="the repeats begin")
    other = wb.repeat("gated@1/t0000", 3, store=store, wait=False)
    assert other.experiment.spec.seeds == ((3, 0),)
    gate.touch()
    assert other.wait().to_dict()["n"] == 3
    assert one.wait().to_dict()["n"] == 2


def test_a_reported_time_is_named_and_does_not_decide(store, first, capsys):
    train = TRAIN.replace("val_acc=", "seconds=time.perf_counter(), val_acc=").replace(
        "import pathlib", "import pathlib, time"
    )
    spec = Notebook(store, Path()).run(*CELLS).launch(train, name="timed", steps=(3, 3), trials=1)
    requests.put(store, {"kind": "start", "experiment": spec.id})
    assert ended(store, spec) == "completed"
    assert main(["--store", str(store.root), "replay", "timed@1/t0000"]) == 0
    words = (
        "identical: val_acc in 3 steps, the same bit for bit, and the same weights at step 3; not the same: seconds "
    )
    said = capsys.readouterr().out
    assert words in said
    assert said.endswith(" from step 1.\n")
    made = wb.replay("timed@1/t0000", store=store)
    assert (made.verdict, made.parts_at) == ("identical", None)
    assert words in made._repr_html_()


def test_what_was_never_reported_or_is_gone_is_refused(store, first):
    for words, message in (("digits@9/t0000", "has no version 9"), ("digits/t0999", "has no trial t0999")):
        with pytest.raises(NotFound, match=message):
            replay(store, words)
    with pytest.raises(BadOption, match=r"expected a relative difference"):
        replay(store, "digits/t0000", tolerance=2.0)
    with pytest.raises(BadOption, match="expected how many other seeds"):
        repeat(store, "digits/t0000", 0)
    with pytest.raises(BadOption, match="expected same, rebuild, or the path"):
        replay(store, "digits/t0000", env="/nowhere/python")
    blob = store.blob_path(first.program.capture)
    aside = blob.rename(blob.with_suffix(".aside"))
    try:
        with pytest.raises(NotFound, match=r"is not in|are gone"):
            replay(store, "digits/t0000")
    finally:
        aside.rename(blob)


def test_a_verdict_within_tolerance_states_it(tmp_path):
    store = Store(tmp_path / "store").create()
    spec = Notebook(store, tmp_path).run("def score(x, lr): return 0", "X = 1").launch()
    put_results(store, spec, {0: ({"lr": 0.1}, [0.5, 0.25])})
    made = replay(store, f"{spec.id}/t0000").spec
    put_results(store, made, {0: ({"lr": 0.1}, [0.5, 0.25 * (1 + 1e-6)])})
    found = verdict(store, made)
    assert (found["verdict"], found["parts_at"]) == ("within tolerance", 2)
    assert "1e-06 of themselves (allowed 0.0001)" in found["words"]
    assert "nothing that is recorded differs" in found["words"]
    strict = dataclasses.replace(made, replays={**made.replays, "tolerance": 1e-9})
    assert verdict(store, strict)["verdict"] == "parts"


def replayed(tmp_path: Path, before: list[float], after: list[float]) -> tuple[Store, Spec]:
    """A trial and its replay that reported these values of the goal, and with each a time that was never the same."""
    store = Store(tmp_path / "store").create()
    spec = Notebook(store, tmp_path).run("def score(x, lr): return 0", "X = 1").launch()
    put_results(store, spec, {0: ({"lr": 0.1}, before)})
    made = replay(store, f"{spec.id}/t0000").spec
    put_results(store, made, {0: ({"lr": 0.1}, after)})
    for one, second in ((spec, 1.0), (made, 2.0)):
        with Series.open(store.experiment(one.id).series) as series:
            series.add_points((0, "seconds", step, 0, second, 1.0) for step in range(1, 1 + len(before)))
    return store, made


def test_a_reported_time_does_not_hide_that_the_goal_differs_or_is_within_tolerance(tmp_path):
    store, made = replayed(tmp_path, [0.5, 0.25], [0.5, 0.25 * (1 + 1e-6)])
    found = verdict(store, made)
    assert (found["verdict"], found["parts_at"]) == ("within tolerance", 2)
    assert "values of val_acc differ from step 2" in found["words"]
    assert "; not the same: seconds 1 → 2 from step 1; " in found["words"]
    strict = dataclasses.replace(made, replays={**made.replays, "tolerance": 1e-9})
    found = verdict(store, strict)
    assert (found["verdict"], found["parts_at"]) == ("parts", 2)
    assert found["words"].startswith("differs from step 2: val_acc 0.25 → 0.25")


@pytest.mark.parametrize("same", [None, True, False])
def test_other_metrics_count_where_the_weights_are_known_to_differ(tmp_path, same):
    store, made = replayed(tmp_path, [0.5, 0.25], [0.5, 0.25])
    for spec, weights in ((store.read_spec(str(made.replays["experiment"])), b"1"), (made, b"1" if same else b"2")):
        if same is not None:
            Checkpoints(store.experiment(spec.id).trial(0)).put({"tensors.safetensors": weights}, 2, 1)
    found = verdict(store, made)
    assert found["weights"] is same
    if same is False:
        assert (found["verdict"], found["parts_at"]) == ("parts", 1)
        assert "seconds 1 → 2; val_acc has the same bits, but the weights do not; " in found["words"]
    else:
        assert (found["verdict"], found["parts_at"]) == ("identical", None)
        assert found["others"] == [{"metric": "seconds", "step": 1}]


def test_a_replay_that_failed_is_no_verdict_on_the_values(tmp_path):
    store = Store(tmp_path / "store").create()
    spec = Notebook(store, tmp_path).run("def score(x, lr): return 0", "X = 1").launch()
    put_results(store, spec, {0: ({"lr": 0.1}, [0.5, 0.25])})
    made = replay(store, f"{spec.id}/t0000").spec
    put_results(store, made, {0: ({"lr": 0.1}, [0.5])})
    found = verdict(store, made)
    assert found["verdict"] == "failed"
    assert found["words"].startswith("failed: 1 of 2 values are missing")


# ---------------------------------------------------------------------------------------------------------------------
# Environments


def wheel(folder: Path, name: str, version: str) -> None:
    """A wheel of one module, made by hand."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


def test_the_recorded_versions_are_built_anew(tmp_path, monkeypatch):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for version in ("1.0", "2.0"):
        wheel(wheels, "augment", version)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    store = Store(tmp_path / "store").create()
    spec = Notebook(store, tmp_path).run("def score(x, lr): return 0", "X = 1").launch()
    snapshot = read_snapshot(store, spec.snapshot)
    snapshot["environment"]["distributions"] = {"augment": "1.0", "workbench": "0.0.1"}
    found = place(store, spec, snapshot, "rebuild")
    assert found.how == "rebuilt"
    assert found.training.python.startswith(str(store.environments))
    assert found.environment["distributions"]["augment"] == "1.0"
    assert found.training.versions["workbench"] == wb.__version__
    assert not any("augment" in word for word in found.differs)
    assert place(store, spec, snapshot, "rebuild").training.python == found.training.python
    snapshot["environment"]["distributions"]["augment"] = "3.0"
    with pytest.raises(NotFound, match="cannot be built; it failed to install the recorded versions"):
        place(store, spec, snapshot, "rebuild")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_replay_in_a_fresh_virtual_environment_is_the_same_bit_for_bit(store, folder):
    from labenv import lab_python

    train = """
lr = loguniform(1e-3, 0.3)
import numpy
weights = numpy.random.normal(size=3)
for epoch in trial.steps():
    weights -= lr * (weights - numpy.random.normal(size=3))
    trial.report(val_acc=float(weights.sum()))
"""
    spec = Notebook(store, folder).launch(train, name="plain", steps=(3, 3), trials=1)
    requests.put(store, {"kind": "start", "experiment": spec.id})
    assert ended(store, spec) == "completed"
    made = wb.replay("plain@1/t0000", store=store, env=str(lab_python()))
    assert "another environment" in made.notes[0]
    assert made.verdict == "identical"
    assert made.experiment.spec.training.python != sys.executable

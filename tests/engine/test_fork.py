"""A trial goes on from one of its checkpoints, with other hyperparameters or other code; real engine, real torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import shells
from running import PLAIN, ended, engine, spec_of, start, until

import workbench
from workbench.errors import BadOption, NotFound
from workbench.experiment import Experiment
from workbench.records import Goal, Keep, Scheduler, Spec
from workbench.replay.fork import checked_steps, fork, parent_of
from workbench.space import loguniform, uniform
from workbench.store import Store
from workbench.store.series import Series

#: The learning rate falls by itself, the loop carries a name along, and the random state shows in a metric.
CELL = """
lr = loguniform(0.01, 0.1)
import torch
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(opt, 2, gamma=0.5)
total = 0.0
for epoch in trial.steps():
    x = torch.randn(8, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    opt.zero_grad(); loss.backward()
    used = opt.param_groups[0]["lr"]
    opt.step(); schedule.step()
    total += loss.item()
    trial.report(loss=loss.item(), used=used, total=total)
"""


@dataclass
class Place:
    store: Store
    folder: Path
    parent: Spec


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An engine that lives for this file, and a trial of nine steps with checkpoints at 1, 3 and 9."""
    folder = tmp_path_factory.mktemp("forks")
    store = Store(folder / "store").create()
    scheduler = Scheduler(kind="all", first=1, last=9)
    # By default no rule keeps what lies below a completed trial's last step.
    spec = spec_of(CELL, folder, **settings(scheduler), name="parent", trials=1, keep=Keep(latest=9))
    with engine(store):
        start(store, spec)
        assert ended(store, spec) == "completed"
        yield Place(store, folder, spec)


def settings(scheduler: Scheduler) -> dict[str, Any]:
    return {
        "space": {"lr": loguniform(0.01, 0.1)},
        "scheduler": scheduler,
        "goal": Goal("loss", "min"),
        "preload": ("torch",),
        "verify": False,
    }


def curves(place: Place, experiment: str) -> dict[str, dict[int, float]]:
    with Series.read(place.store.experiment(experiment).series) as series:
        found = series.curves([0])
    return {name: {step: value for step, index, value in points if not index} for (_, name), points in found.items()}


def kept(place: Place) -> int:
    """A step below the last one that still has a checkpoint."""
    from workbench.store.keeping.checkpoints import Checkpoints

    return next(one.step for one in Checkpoints(place.store.experiment(place.parent.id).trial(0)).all() if one.step < 9)


def cell(place: Place, source: str, step: int, **fields: Any) -> Spec:
    """An experiment with other code that begins where the parent was at ``step``, as the magic writes it."""
    _, parent = parent_of(place.store, f"parent/t0000:{step}")
    spec = spec_of(source, place.folder, **{**settings(Scheduler(kind="all", first=9, last=9)), "space": {}}, **fields)
    spec = Spec.from_json({**spec.to_json(), "parent": parent, "trials": 1})
    start(place.store, spec)
    ended(place.store, spec)
    return spec


def test_without_a_change_it_is_its_parent_bit_for_bit(place: Place) -> None:
    step = kept(place)
    made = Experiment.of(place.store, place.parent.id)[0].fork(step, name="same").wait(60)
    before, after = curves(place, place.parent.id), curves(place, made.id)
    assert set(after["loss"]) == set(range(step + 1, 10))
    for name, points in after.items():
        assert points == {at: before[name][at] for at in points}
    assert made.best.configuration == Experiment.of(place.store, place.parent.id)[0].configuration
    assert made._repr_html_().count(f"from parent@1/t0000:{step}") == 1


def test_a_learning_rate_that_the_fork_changed_wins_over_the_restored_one(place: Place) -> None:
    step = kept(place)
    words = [sys.executable, "-m", "workbench", "--store", str(place.store.root)]
    asked = [*words, "fork", f"parent/t0000:{step}", "lr=0.002", "--name", "slower", "--steps", "12"]
    told = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert told.stdout.startswith(f"slower@1 continues from parent@1/t0000:{step}, to step 12."), told
    made = workbench.open("slower", store=place.store).wait(60)
    used, before = curves(place, made.id)["used"], curves(place, place.parent.id)
    # The fork's own value first; from there on the schedule goes on, at the steps at which it would have.
    assert used[step + 1] == 0.002
    falls = [at for at in range(step + 2, 10) if before["used"][at] != before["used"][at - 1]]
    assert [at for at in range(step + 2, 10) if used[at] != used[at - 1]] == falls
    # The first loss comes before the first step with the new rate, the second after it.
    losses = curves(place, made.id)["loss"]
    assert losses[step + 1] == before["loss"][step + 1]
    assert losses[step + 2] != before["loss"][step + 2]
    assert max(losses) == 12
    shown = subprocess.run([*words, "show", "slower"], capture_output=True, text=True, timeout=60, check=False)
    assert f"parent@1/t0000:{step}" in shown.stdout
    until(lambda: f"from parent@1/t0000:{step}" in subprocess.check_output([*words, "ls"], text=True), what="the list")


def test_other_code_may_add_to_what_its_parent_had(place: Place) -> None:
    step = kept(place)
    source = CELL.replace("lr = loguniform(0.01, 0.1)", "lr = 0.05; momentum = 0.5").replace(
        "momentum=0.9", "momentum=momentum"
    )
    source = source.replace("total = 0.0", "total = 0.0\nextra = torch.nn.Linear(1, 1)")
    source = source.replace("total=total", "total=total, momentum=opt.param_groups[0]['momentum']")
    spec = cell(place, source, step, name="more")
    assert Experiment.of(place.store, spec.id).state == "completed"
    after = curves(place, spec.id)
    assert set(after["momentum"].values()) == {0.5}
    assert after["used"][step + 1] == 0.05
    # What only the loop changed goes on from the checkpoint.
    before = curves(place, place.parent.id)
    assert after["total"][step + 1] == before["total"][step + 1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"Linear(4, 3)": "Linear(4, 5)", "Linear(3, 1)": "Linear(5, 1)"}, "model.0.weight with shape (5, 4)"),
        ({"model": "net"}, "the checkpoint holds model"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_name(place: Place, changes: dict[str, str], words: str) -> None:
    source = CELL.replace("loguniform(0.01, 0.1)", "0.05")
    for old, new in changes.items():
        source = source.replace(old, new)
    experiment = Experiment.of(place.store, cell(place, source, kept(place)).id)
    assert experiment.state == "failed"
    (trial,) = experiment.records
    assert trial.status == "failed"
    assert f"parent@1/t0000:{kept(place)} cannot be put into this fork" in trial.reason
    assert words in trial.reason


def test_a_checkpoint_that_changed_since_is_refused(place: Place) -> None:
    _, parent = parent_of(place.store, f"parent/t0000:{kept(place)}")
    spec = spec_of(CELL, place.folder, **settings(Scheduler(kind="all", first=9, last=9)), name="other", trials=1)
    start(place.store, Spec.from_json({**spec.to_json(), "parent": {**parent, "digest": "0" * 64}}))
    assert ended(place.store, spec) == "failed"
    assert "has changed since" in Experiment.of(place.store, spec.id).records[0].reason


def test_wrong_forks_are_refused_before_anything_is_written(place: Place) -> None:
    written = place.store.experiment_ids()
    with pytest.raises(BadOption, match=r"no hyperparameter 'lrr'\. Did you mean lr\?"):
        fork(place.store, "parent/t0000", {"lrr": 1})
    with pytest.raises(BadOption, match="has taken 9 steps already; expected a later last step"):
        fork(place.store, "parent/t0000", {"lr": 0.1})
    with pytest.raises(NotFound, match="no checkpoint at step 2"):
        fork(place.store, "parent/t0000:2", {"lr": 0.1})
    with pytest.raises(BadOption, match="expected one of its trials"):
        fork(place.store, "parent", {"lr": 0.1})
    assert place.store.experiment_ids() == written


def test_a_cell_forks_in_one_line(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    scheduler = Scheduler(kind="all", first=1, last=3)
    plain = spec_of(PLAIN, place.folder, space={"x": uniform(0.0, 1.0)}, scheduler=scheduler, name="plain", trials=1)
    start(place.store, plain)
    assert ended(place.store, plain) == "completed"
    line = f"%%train from-a-cell --from plain/t0000:3 --store {place.store.root} --steps 6 --trials 2 --wait\n"
    with shells.shell() as shell:
        result = shell.run_cell(line + PLAIN.replace("uniform(0.0, 1.0)", "choice(7.0, 8.0)"))
    assert result.success
    made = result.result
    assert (made.state, made.spec.goal) == ("completed", Goal("score"))
    assert made.spec.parent["label"] == "plain@1/t0000:3"
    with Series.read(place.store.experiment(made.id).series) as series:
        points, legs, meta = series.points(), series.legs(), series.meta()
    assert {step for _, _, step, _, _, _ in points} == {4, 5, 6}
    assert {leg["start"] for leg in legs} == {3}
    # It trained what its plan says: the parent's steps are not its own.
    assert sum(leg["step"] - leg["start"] for leg in legs) == meta["planned"]["steps"] == 6


def test_rungs_lie_behind_the_checkpoint() -> None:
    parent = {"step": 27, "label": "digits@2/t0007:27"}
    assert checked_steps(parent, None, 81) == (28, 81)
    assert checked_steps(parent, (1, 54), 81) == (28, 54)
    assert checked_steps(parent, (30, 54), 81) == (30, 54)
    with pytest.raises(BadOption, match="For example: --steps 54"):
        checked_steps(parent, (1, 27), 81)

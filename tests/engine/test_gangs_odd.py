"""What goes wrong in one rank of several: the cause is named, nothing waits forever, and nothing is left behind."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from running import alive, ended, engine, lines, spec_of, start, until

from workbench.records import Goal, Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.files import packed
from workbench.store.series import Series

#: A loop in which ranks go wrong: SETUP before it, BEGIN and END in each turn, AFTER it.
LOOP = """
lr = uniform(0.01, 0.1)
import os, signal, time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from workbench.trial.ranks import gang, meeting, together
gang.start.__kwdefaults__["timeout_s"] = {collective_s}
meeting.BREAK_S, meeting.ANSWER_S, together.PATIENCE_S = 3.0, 3.0, 5.0
rank = int(os.environ["RANK"])
with open(f"{{trial.number}} {{rank}}.pid", "w") as file:
    file.write(str(os.getpid()))
{SETUP}
x = torch.randn(48, 8, generator=torch.Generator().manual_seed(1))
y = (x.sum(1, keepdim=True) > 0).float()
loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
model = nn.Linear(8, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=lr)
for epoch in trial.steps():
    {BEGIN}
    for a, b in loader:
        loss = nn.functional.binary_cross_entropy_with_logits(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    trial.report(loss=loss.item())
    {END}
{AFTER}
"""
TROUBLE = 'raise ValueError("my own trouble")'


def gang(tmp_path: Path, name: str, *, slots: int = 2, collective_s: float = 600.0, **parts: str) -> Spec:
    lines_of = {"SETUP": "pass", "BEGIN": "pass", "END": "pass", "AFTER": "pass"} | parts
    source = LOOP.format(collective_s=collective_s, **lines_of)
    whole, space = Scheduler(kind="all", first=3, last=3), {"lr": uniform(0.01, 0.1)}
    return spec_of(
        source, tmp_path, name=name, space=space, goal=Goal("loss", "min"), slots=slots, preload=("torch",),
        scheduler=whole, trials=1,
    )  # fmt: skip


def all_ended(tmp_path: Path, specs: dict[str, Spec], workers: int = 2) -> dict[str, tuple[str, str]]:
    """How each experiment ends: its state, and why its trial was restarted first."""
    store = Store(tmp_path / "store").create()
    with engine(store, workers=workers):
        for spec in specs.values():
            start(store, spec)
        states = {name: ended(store, spec) for name, spec in specs.items()}
        pids = [int(file.read_text()) for file in tmp_path.glob("*.pid")]
        until(lambda: not alive(pids), what="the end of all ranks")
    for spec in specs.values():
        left = list(store.experiment(spec.id).trial(0).ranks.glob(".*"))
        assert len({name.name.split("-")[1] for name in left}) <= 1, "only what the last leg left, if it was killed"
    return {
        name: (states[name], next((line["reason"] for line in lines(store, spec, "Lost")), ""))
        for name, spec in specs.items()
    }


def test_the_rank_that_fails_alone_is_named_with_its_own_error(tmp_path: Path, runtime: None) -> None:
    specs = {
        "second": gang(tmp_path, "second", BEGIN=f"if rank == 1 and epoch == 1: {TROUBLE}"),
        "first": gang(tmp_path, "first", BEGIN=f"if rank == 0 and epoch == 1: {TROUBLE}"),
        "third": gang(tmp_path, "third", slots=3, BEGIN=f"if rank == 2 and epoch == 1: {TROUBLE}"),
        "every": gang(tmp_path, "every", SETUP=TROUBLE),
        "process": gang(tmp_path, "process", BEGIN="if rank == 1 and epoch == 1: os._exit(3)"),
    }
    found = all_ended(tmp_path, specs, workers=4)
    assert {state for state, _ in found.values()} == {"failed"}
    why = {name: reason for name, (_, reason) in found.items()}
    assert why["second"].startswith("ValueError: rank 1: my own trouble (line 20)"), why
    assert why["first"].startswith("ValueError: my own trouble (line 20)"), why
    assert why["third"].startswith("ValueError: rank 2: my own trouble (line 20)"), why
    assert why["every"].startswith("ValueError: my own trouble (line 13)"), why
    assert why["process"].startswith("rank 1: the training code ended its process (exit status 3)"), why


def test_a_rank_that_hangs_or_leaves_the_loop_alone_ends_the_trial(tmp_path: Path, runtime: None) -> None:
    specs = {
        "hangs": gang(tmp_path, "hangs", collective_s=3.0, BEGIN="if rank and epoch: time.sleep(1000)"),
        "silent": gang(tmp_path, "silent", END="if not rank and epoch: time.sleep(1000)"),
        "breaks": gang(tmp_path, "breaks", BEGIN="if rank and epoch == 2: break"),
    }
    found = all_ended(tmp_path, specs, workers=4)
    assert {state for state, _ in found.values()} == {"failed"}
    why = {name: reason for name, (_, reason) in found.items()}
    assert "another rank has not joined a collective for as long as one may take" in why["hangs"], why
    assert "rank 1: the first rank of this trial is gone, or has said nothing for 3 s" in why["silent"], why
    assert "rank 1: one rank has left the loop by break in turn 3, and another one has not" in why["breaks"], why


def test_a_rank_may_be_set_up_for_longer_than_a_collective_may_take(tmp_path: Path, runtime: None) -> None:
    slow = {
        "second": gang(tmp_path, "second", collective_s=2.0, SETUP="time.sleep(5 * rank)"),
        "first": gang(tmp_path, "first", collective_s=2.0, SETUP="time.sleep(5 - 5 * rank)"),
        "breaks": gang(tmp_path, "breaks", BEGIN="if epoch == 2: break"),
    }
    found = all_ended(tmp_path, slow, workers=4)
    assert found == dict.fromkeys(slow, ("completed", ""))


def test_what_all_ranks_log_is_written_once(tmp_path: Path, runtime: None) -> None:
    logs = 'trial.log(note=f"rank {rank}", seen=model.weight.detach().sigmoid())'
    spec = gang(tmp_path, "logs", END=logs)
    assert all_ended(tmp_path, {"logs": spec}) == {"logs": ("completed", "")}
    paths = Store(tmp_path / "store").experiment(spec.id).trial(0)
    names = [f"{name}-{step:06d}.{kind}" for name, kind in (("note", "txt"), ("seen", "png")) for step in (1, 2, 3)]
    assert sorted(path.name for path in paths.files.iterdir()) == names
    assert {path.read_text() for path in paths.files.glob("*.txt")} == {"rank 0"}
    assert not paths.rank_files(1).exists()


#: The first passing checkpoints of one rank fail as on a full disk.
FULL_DISK = """
from pathlib import Path
from workbench.errors import StoreError
from workbench.trial.course.vault import StoreVault
from workbench.trial.ranks import vaults
def failing(at, name, first):
    real, count = getattr(at, name), []
    def fails(*given, **named):
        count.append(0)
        if len(count) <= first:
            raise StoreError("no space left on the disk")
        return real(*given, **named)
    setattr(at, name, fails)
"""


@pytest.mark.parametrize("rank", [0, 1])
def test_a_checkpoint_that_one_rank_cannot_save_costs_only_itself(tmp_path: Path, runtime: None, rank: int) -> None:
    broken = 'failing(StoreVault, "keep", 2)' if rank == 0 else 'failing(vaults, "make_inside", 2)'
    # What the others have written for it is in the way of the next one on a full disk.
    seen = 'print("left", len(list(Path(os.environ["TRIAL_RANKS"]).glob(".writing-*state*"))), flush=True)'
    spec = gang(tmp_path, "full", SETUP=f"{FULL_DISK}\nif rank == {rank}: {broken}", BEGIN="time.sleep(0.3)", END=seen)
    store = Store(tmp_path / "store")
    spec = dataclasses.replace(spec, scheduler=Scheduler(kind="all", first=8, last=8), save_steps=2, verify=False)
    ranks = store.experiment(spec.id).trial(0).ranks
    source = spec.program.source.replace('os.environ["TRIAL_RANKS"]', repr(str(ranks)))
    spec = dataclasses.replace(spec, program=dataclasses.replace(spec.program, source=source))
    assert all_ended(tmp_path, {"full": spec})["full"] == ("completed", "")
    log = (packed.read(store.experiment(spec.id).trial(0).log) or b"").decode()
    assert "no checkpoint at step" in log, log
    assert "no space left on the disk" in log, log
    assert [line for line in log.splitlines() if line.startswith("left")][-1] == "left 0", log
    with Series.read(store.experiment(spec.id).series) as series:
        assert [leg["start"] for leg in series.legs()] == [0]

"""Trainers of frameworks on two slots: they find the other rank, train as one with it, and go on after a kill."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator

import pytest
from running import ended, engine_on_cores, lines, outcome, spec_of, start, until

from workbench.records import Goal, Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.store.files import packed

#: What each loop calls at the end of a step: it writes the rank, its world, its process, and the sum of the weights.
NOTE = """
lr = uniform(0.01, 0.1)
import os, time
import torch
def note(size, model):
    time.sleep(0.1)
    total = sum(float(one.detach().double().sum()) for one in model.parameters())
    with open(f"CALLED {os.environ['RANK']}.log", "a") as file:
        file.write(f"{size} {os.getpid()} {total!r}\\n")
torch.manual_seed(1)
"""
LIGHTNING = """
import lightning.pytorch as pl
from torch.utils.data import DataLoader, TensorDataset
import workbench.lightning
class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))
    def training_step(self, batch, index):
        x, y = batch
        loss = ((self.layers(x) - y) ** 2).mean()
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr)
    def on_train_epoch_end(self):
        note(self.trainer.world_size, self)
x = torch.randn(48, 4)
trainer = pl.Trainer(
    max_epochs=trial.max_steps, accelerator="cpu", HOW logger=False, enable_progress_bar=False,
    enable_model_summary=False, callbacks=[workbench.lightning.Callback()],
)
trainer.fit(Net(), DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 8, shuffle=True))
"""
TRANSFORMERS = """
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments
import workbench.transformers
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=32, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
    attention_dropout=0.1, max_position_embeddings=16,
))
class Noted(TrainerCallback):
    def on_epoch_end(self, arguments, state, control, model=None, **more):
        note(arguments.world_size, model)
rows = torch.randint(0, 32, (24, 6))
data = [{"input_ids": row, "labels": row} for row in rows]
arguments = TrainingArguments(
    output_dir="out", num_train_epochs=trial.max_steps, eval_strategy="epoch", learning_rate=lr,
    per_device_train_batch_size=4, report_to="none", use_cpu=True, save_strategy="no", disable_tqdm=True,
    logging_steps=3,
)
trainer = Trainer(
    model, arguments, train_dataset=data, eval_dataset=data[:8], callbacks=[Noted(), workbench.transformers.Callback()],
)
trainer.train()
"""
ACCELERATE = """
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
accelerator = Accelerator(cpu=True)
x = torch.randn(48, 4)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 8, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in trial.steps():
    total = 0.0
    for inputs, targets in loader:
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        total += accelerator.gather(loss.detach()).sum().item()
    note(accelerator.num_processes, model)
    trial.report(loss=total)
"""
DDP = LIGHTNING.replace("HOW", 'devices=2, strategy="ddp",')
LOOPS = {
    "lightning": (DDP, "lightning.pytorch", "loss"),
    "transformers": (TRANSFORMERS, "transformers", "eval_loss"),
    "accelerate": (ACCELERATE, "accelerate", "loss"),
}


#: What Transformers imports when its parts are used takes seconds, in each rank of each attempt.
FRAMEWORKS = (
    *(package for _, package, _ in LOOPS.values()), "transformers.trainer", "transformers.models.llama.modeling_llama",
)  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with a living engine of two slots. Its forkserver, which imports all the frameworks, serves all tests."""
    with engine_on_cores(tmp_path_factory.mktemp("slots"), cores=2, workers=2) as found:
        yield found


def on_two_slots(store: Store, name: str, loop: str, goal: str, steps: int) -> Spec:
    return spec_of(
        NOTE.replace("CALLED", name) + loop, store.root.parent, space={"lr": uniform(0.01, 0.1)},
        goal=Goal(goal, "min"), slots=2, preload=FRAMEWORKS, scheduler=Scheduler(kind="all", first=steps, last=steps),
        trials=1, verify=False, save_steps=1, name=name,
    )  # fmt: skip


def noted(store: Store, name: str, rank: int) -> list[list[str]]:
    file = store.root.parent / f"{name} {rank}.log"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize("name", LOOPS)
def test_ranks_train_as_one_and_go_on_exactly_after_one_is_killed(name: str, store: Store) -> None:
    loop, _, goal = LOOPS[name]
    spec = on_two_slots(store, name, loop, goal, steps=8)
    calm = dataclasses.replace(spec, id=f"{spec.id}c", name=f"{name}-calm")
    start(store, calm)
    assert ended(store, calm) == "completed"
    first, second = noted(store, name, 0), noted(store, name, 1)
    assert [(size, total) for size, _, total in first] == [(size, total) for size, _, total in second]
    assert {size for size, _, _ in first} == {"2"}
    start(store, spec)
    (pid,) = until(lambda: {line[1] for line in noted(store, name, 1)[8:]}, what="the second run")
    until(lambda: len(noted(store, name, 1)) >= 8 + 4, what="half of the second run")
    os.kill(int(pid), signal.SIGKILL)
    assert ended(store, spec) == "completed"
    assert "rank 1" in lines(store, spec, "Lost")[0]["reason"]
    assert "not in the checkpoints" not in (packed.read(store.experiment(spec.id).trial(0).log) or b"").decode()
    assert len(noted(store, name, 1)) < 8 + 8 + 4, "it goes on from a checkpoint"
    assert outcome(store, spec) == outcome(store, calm)


def test_a_trainer_that_does_not_join_the_ranks_gets_a_remark(store: Store) -> None:
    spec = on_two_slots(store, "alone", LIGHTNING.replace("HOW", ""), "loss", steps=2)
    start(store, spec)
    assert ended(store, spec) == "completed"
    assert {size for size, _, _ in noted(store, "alone", 0)} == {"1"}
    log = packed.read(store.experiment(spec.id).trial(0).log) or b""
    assert b"Trainer(devices=2, num_nodes=1, strategy='ddp')" in log

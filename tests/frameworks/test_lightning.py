"""Lightning's Trainer with one more callback: killed and promoted, it reports what an undisturbed run reports."""

from __future__ import annotations

import csv
import dataclasses
import textwrap
import warnings

import pytest
import torch
from frameworks.driver import Driver, error_of, loaded_alone, run_alone, undisturbed_and_killed

from workbench.lightning import CHECKPOINT
from workbench.records import Scheduler
from workbench.trial.export.loading import load

#: Dropout, shuffling, noise from each generator, a scheduler that watches a metric, and validation in some epochs.
CELL = """
import random
import numpy as np
import torch
import lightning.pytorch as pl
from torch.utils.data import DataLoader, TensorDataset
import workbench.lightning

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))

    def training_step(self, batch, index):
        x, y = batch
        noise = random.random() + np.random.rand()
        loss = ((self.layers(x + 0.01 * noise) - y) ** 2).mean()
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("score", -((self.layers(x) - y) ** 2).mean())

    def on_validation_start(self):
        if self.trainer.sanity_checking:
            with open("sanity", "a") as file:
                file.write("checked ")

    def on_train_epoch_start(self):
        self.log("drawn", torch.rand(()))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), 0.01)
        schedulers = torch.optim.lr_scheduler
        plateau = schedulers.ReduceLROnPlateau(optimizer, "max", factor=0.5, patience=0, threshold_mode="abs")
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plateau, "monitor": "score", "strict": False}}

    def on_train_epoch_end(self):
        self.log("rate", self.optimizers().param_groups[0]["lr"])

x = torch.randn(64, 4)
data = TensorDataset(x, x.sum(1, keepdim=True))
train = DataLoader(data, 8, shuffle=True, generator=GENERATOR)
trainer = pl.Trainer(
    OPTIONS, accelerator="cpu", logger=LOGGER, enable_checkpointing=False, enable_progress_bar=False,
    callbacks=[CALLBACKSworkbench.lightning.Callback()], enable_model_summary=False, log_every_n_steps=1,
)
net = Net()
trainer.fit(net, train, DataLoader(data, 16))
with open("ended", "a") as file:
    file.write(f"{trainer.current_epoch} ")
"""


def cell(
    options: str = "max_epochs=trial.max_steps", *, generator: str = "None", callbacks: str = "", logger: str = "False"
) -> str:
    text = CELL.replace("OPTIONS", options).replace("GENERATOR", generator).replace("LOGGER", logger)
    return text.replace("CALLBACKS", callbacks)


VARIANTS = {
    "plain": cell(),
    "its own generator": cell(generator="torch.Generator().manual_seed(3)"),
    "the trial's loader": cell().replace("DataLoader(data, 8", "trial.loader(data, 8").replace(", generator=None", ""),
    "validation every second epoch": cell("max_epochs=trial.max_steps, check_val_every_n_epoch=2"),
    "loaders again each second epoch": cell("max_epochs=trial.max_steps, reload_dataloaders_every_n_epochs=2"),
    "batches counted": cell("max_steps=8 * trial.max_steps"),
    "endless": cell("max_epochs=-1"),
    "gradients accumulated": cell("max_epochs=trial.max_steps, accumulate_grad_batches=3"),
    "the other package": cell().replace("lightning.pytorch as pl", "pytorch_lightning as pl"),
}


LEVELS = (1, 2, 5, 9)


@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_and_promoted_it_reports_what_an_undisturbed_run_reports(server, experiment, tmp_path, variant):
    calm, wild = undisturbed_and_killed(server, lambda: experiment(VARIANTS[variant], steps=9), LEVELS, len(variant))
    every = range(2, 9, 2) if "second epoch" in variant and "validation" in variant else range(1, 10)
    assert {step for name, step in calm.values if name == "score"} == set(every)
    assert {step for name, step in calm.values if name == "loss"} == set(range(1, 10))
    assert wild.values == calm.values
    assert wild.outcomes[-1] == "completed"
    assert set((tmp_path / "ended").read_text().split()) == {"9"}


@pytest.mark.parametrize("options", ["max_epochs=trial.max_steps", "max_epochs=-1", "max_steps=8 * trial.max_steps"])
def test_after_its_last_epoch_it_trains_none_unless_it_was_extended(server, experiment, tmp_path, options):
    made = experiment(cell(options), steps=4)
    driver = Driver(server, made).run(4).run(4)  # killed before it could say that it was over
    assert driver.began == [0, 4]
    made.spec = dataclasses.replace(made.spec, scheduler=Scheduler("all", 1, 6))
    driver.run(6)
    assert {step for _, step in driver.values} == {1, 2, 3, 4, 5, 6}
    assert (tmp_path / "ended").read_text() == "4 4 6 "


def test_one_that_stops_early_ends_at_the_same_epoch(server, experiment):
    early = 'pl.callbacks.EarlyStopping("score", mode="max", patience=3, min_delta=10.0), '
    calm, wild = undisturbed_and_killed(server, lambda: experiment(cell(callbacks=early), steps=9), (2, 3, 4, 9), 5)
    assert max(step for _, step in calm.values) == 4
    assert wild.values == calm.values


def test_promoted_at_once_it_continues_in_its_process(server, experiment, tmp_path):
    calm = Driver(server, experiment(cell(), steps=9)).run(9)
    quick = Driver(server, experiment(cell(), steps=9))
    quick.run(*LEVELS, in_place=True)
    assert quick.values == calm.values
    assert quick.runners == 1
    assert (tmp_path / "ended").read_text() == "9 9 "
    assert (tmp_path / "sanity").read_text() == "checked checked "


def test_the_sanity_check_runs_once_in_a_trial_and_each_level_is_saved(server, experiment, tmp_path):
    driver = Driver(server, experiment(cell(), steps=9)).run(*LEVELS)
    assert driver.began == [0, 1, 2, 5]
    assert driver.saved >= set(LEVELS)
    assert driver.outcomes == ["reached", "reached", "reached", "completed"]
    assert (tmp_path / "sanity").read_text() == "checked "
    assert driver.says == []


def test_its_own_loggers_get_every_value(server, experiment):
    logged = cell(logger="pl.loggers.CSVLogger(trial.folder)")
    made = experiment(logged, steps=9)
    driver = Driver(server, made).run(*LEVELS)
    rows = [
        row
        for path in sorted(made.paths().files.glob("lightning_logs/*/metrics.csv"))
        for row in csv.DictReader(path.read_text().splitlines())
    ]
    for name in ("loss", "score", "rate"):
        values = {int(row["epoch"]) + 1: float(row[name]) for row in rows if row[name]}
        assert values == {step: float.fromhex(value) for (of, step), value in driver.values.items() if of == name}


@pytest.mark.parametrize("inside", [False, True])
def test_a_trial_loads_as_it_was_saved(server, experiment, inside):
    text = "def main():\n" + textwrap.indent(cell(), "    ") + "\nmain()\n" if inside else cell()
    made = experiment(text, steps=4)
    Driver(server, made).run(2, 4)
    for step in (2, 4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Lightning's own
            loaded = load(made.store, made.spec, 0, {}, step)
        saved = torch.load(made.paths().checkpoints / f"step-{step:08d}" / "saved" / CHECKPOINT, weights_only=True)
        state = loaded.net.state_dict()
        assert state.keys() == saved["state_dict"].keys()
        assert all(torch.equal(state[name], saved["state_dict"][name]) for name in state)


def test_a_trial_loads_with_what_its_checkpoint_lacks(server, experiment, tmp_path):
    (tmp_path / "project.py").write_text(PROJECT)
    made = experiment(_around(), steps=3)
    Driver(server, made).run(1, 3)
    shown = "loaded.best, [one.item() for one in loaded.history], loaded.Watching.epochs"
    assert loaded_alone([made], shown, 3) == ["(3.0, [1.0, 2.0, 3.0], 3)"]


def test_a_length_that_is_not_the_trials_is_refused(server, experiment):
    says = error_of(server, experiment(cell("max_epochs=5"), steps=9))
    assert "Trainer(max_epochs=5) trains 5 steps, but a trial of this experiment has 9" in says
    assert "Write Trainer(max_epochs=trial.max_steps)" in says


def test_a_second_fit_in_one_trial_is_refused(server, experiment):
    text = cell() + "\ntrainer.fit(net, train, DataLoader(data, 16))\n"
    assert "a trial has one" in error_of(server, experiment(text, steps=2))


@pytest.mark.parametrize(("options", "steps"), [("max_epochs=trial.max_steps", 3), ("max_epochs=5", 5)])
def test_without_workbench_the_code_trains_all_its_epochs_and_prints_them(tmp_path, options, steps):
    printed = run_alone(cell(options), tmp_path)
    assert [line.split(":")[0] for line in printed if line.startswith("step ")] == [
        f"step {n + 1}" for n in range(steps)
    ]
    assert (tmp_path / "ended").read_text() == f"{steps} "


#: What Lightning's own checkpoint lacks, each in a number that is logged.
HELD = """
import copy

class Noise(torch.nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.register_buffer("passes", torch.zeros(1), persistent=False)
        self.shared, self.random = shared, torch.Generator().manual_seed(1)

    def forward(self, x):
        if self.training:
            self.passes += 1
            self.shared.append(1)
        return x * (1 + 0.01 * self.passes + 0.01 * torch.randn(1, generator=self.random))

class Holding(Net):
    def __init__(self):
        super().__init__()
        self.shared, self.mean, self.summed = [], 0.0, torchmetrics.MeanMetric()
        self.noise, self.fresh = Noise(self.shared), False

    def on_fit_start(self):
        self.layers[0].requires_grad_(False)

    def on_train_start(self):
        self.fresh = torch.rand(()) < 2

    def on_train_epoch_start(self):
        self.log("fresh", float(self.fresh))
        self.fresh = False
        if self.current_epoch == 2:
            self.layers[0].requires_grad_(True)

    def training_step(self, batch, index):
        loss = super().training_step((self.noise(batch[0]), batch[1]), index)
        self.mean = 0.9 * self.mean + 0.1 * loss.item()
        self.summed.update(loss)
        return loss

    def on_train_epoch_end(self):
        self.log_dict({"mean": self.mean, "count": float(len(self.shared)), "summed": self.summed.compute()})

class Average(pl.Callback):
    def __init__(self):
        self.weights, self.random = None, np.random.default_rng(2)

    def setup(self, trainer, module, stage):
        self.module = module

    def on_train_epoch_end(self, trainer, module):
        self.weights = self.weights or copy.deepcopy(self.module)
        with torch.no_grad():
            for one, other in zip(self.weights.parameters(), self.module.parameters()):
                one.lerp_(other, 0.2)
        module.log("average", sum(one.sum() for one in self.weights.parameters()))
        module.log("own", self.random.random())

class Growing(pl.LightningDataModule):
    def __init__(self):
        super().__init__()
        self.made = 0

    def train_dataloader(self):
        self.made += 1
        return DataLoader(torch.utils.data.Subset(data, range(min(64, 16 * self.made))), 8, shuffle=True)

    def val_dataloader(self):
        return DataLoader(data, 16)
"""


def _held() -> str:
    made = cell("max_epochs=trial.max_steps, reload_dataloaders_every_n_epochs=1", callbacks="Average(), ")
    made = made.replace("\ntrainer = ", HELD.replace("import copy", "import copy, torchmetrics") + "\ntrainer = ")
    return made.replace("Net()\n", "Holding()\n").replace(
        "(net, train, DataLoader(data, 16))", "(net, datamodule=Growing())"
    )


#: Noise that workers draw, which outlive an epoch; a pass that counts; parts that are unfrozen.
WORKERS = (
    cell()
    .replace(
        "\ntrainer = ",
        """
class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, place):
        return x[place] + 0.1 * torch.randn(4) + 0.1 * random.random(), x[place].sum()[None]
lasting = {"num_workers": 1, "persistent_workers": True}
train = DataLoader(Noisy(), 8, shuffle=True, **lasting)
trainer = """,
    )
    .replace("train, DataLoader(data, 16))", "train, DataLoader(Noisy(), 16, **lasting))")
)
COUNTED = cell().replace(
    "\ntrainer = ",
    """
class Stream(torch.utils.data.IterableDataset):
    passes = 0
    def __iter__(self):
        self.passes += 1
        return iter([(x[place * self.passes % 64], x[place].sum()[None]) for place in range(32)])
train = DataLoader(Stream(), 8)
trainer = """,
)
UNFROZEN = """
class Tuned(Net):
    def __init__(self):
        super().__init__()
        self.backbone = torch.nn.Linear(4, 4)
    def training_step(self, batch, index):
        return super().training_step((self.backbone(batch[0]), batch[1]), index)
    def configure_optimizers(self):
        return torch.optim.Adam([one for one in self.parameters() if one.requires_grad], 0.01)
    def on_train_epoch_end(self):
        self.log("groups", float(len(self.optimizers().param_groups)))
"""


#: Names of the cell, of a function that calls ``fit``, of a class and of a module of the project.
AROUND = """
history, best = [], 0.0

class Watching(Net):
    epochs = 0

    def on_train_epoch_end(self):
        global best
        Watching.epochs += 1
        best = max(best, float(Watching.epochs))
        project.calls["epochs"] += 1
        project.total += 0.5
        history.append(torch.full((), best))
        self.log_dict({"epochs": float(self.epochs), "best": best, "kept": sum(history), "moved": project.sum_of()})

def training():
    counted = {"epochs": 0}

    def count(trainer, module):
        counted["epochs"] += 1
        module.log("counted", float(counted["epochs"]))

    watching = pl.callbacks.LambdaCallback(on_train_epoch_end=count)
    trainer.callbacks.append(watching)
    trainer.fit(Watching(), train, DataLoader(data, 16))
"""
PROJECT = """
import collections
calls, total = collections.Counter(), 0.0
def sum_of():
    return calls["epochs"] + total
"""


def _around() -> str:
    here = "import os, random, sys\nsys.path.insert(0, os.getcwd())\nimport project\n"
    made = cell().replace("import random\n", here)
    return made.replace("\ntrainer = ", AROUND + "\ntrainer = ").replace(
        "net = Net()\ntrainer.fit(net, train, DataLoader(data, 16))", "training()"
    )


def _tuned(text: str, callbacks: str) -> str:
    return (
        cell(callbacks=callbacks).replace("\ntrainer = ", text + "\ntrainer = ").replace("net = Net()", "net = Tuned()")
    )


HOLDING = {
    "module, callbacks and datamodule": _held(),
    "workers that outlive an epoch": WORKERS,
    "a data set that counts its passes": COUNTED,
    "names around it": _around(),
    "layers that are unfrozen": _tuned(UNFROZEN, "pl.callbacks.BackboneFinetuning(unfreeze_backbone_at_epoch=2), "),
}


@pytest.mark.parametrize("name", HOLDING)
def test_what_its_checkpoint_lacks_is_there_after_a_resume(server, experiment, tmp_path, name):
    (tmp_path / "project.py").write_text(PROJECT)
    calm = Driver(server, experiment(HOLDING[name], steps=5)).run(5)
    resumed = Driver(server, experiment(HOLDING[name], steps=5)).run(1, 3, 4, 5)
    assert resumed.began == [0, 1, 3, 4]
    assert resumed.values == calm.values
    assert resumed.says == []


@pytest.mark.parametrize("stops", [False, True])
def test_where_no_epoch_follows_the_code_after_it_has_what_its_checkpoint_lacks(server, experiment, tmp_path, stops):
    text = _held() + 'with open("kept", "a") as file:\n    file.write(f"{net.mean} {average.weights is not None}\\n")\n'
    text = text.replace("callbacks=[Average()", "callbacks=[average").replace(
        "\ntrainer =", "\naverage = Average()\ntrainer ="
    )
    if stops:
        text = text.replace("self.log_dict", "self.trainer.should_stop = self.current_epoch == 2; self.log_dict")
    steps = 5 if stops else 3
    Driver(server, experiment(text, steps=steps)).run(steps).run(steps)
    first, again = (tmp_path / "kept").read_text().splitlines()
    assert (first, first.split()[1]) == (again, "True")


def test_what_cannot_be_saved_is_named(server, experiment):
    reading = """
class Reading(pl.Callback):
    def __init__(self):
        self.numbers = (number for number in range(99))
    def on_train_epoch_end(self, trainer, module):
        module.log("read", float(next(self.numbers)))
"""
    text = cell(callbacks="Reading(), ").replace("\ntrainer = ", reading + "\ntrainer = ")
    driver = Driver(server, experiment(text, steps=2)).run(1, 2)
    assert driver.says == [
        "resumed inexactly: numbers (an iterator or generator cannot be saved: after a resume it restarts)"
    ]

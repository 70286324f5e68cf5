"""Keras' ``fit`` on torch with one more callback: killed and promoted, it reports what an undisturbed run reports."""

from __future__ import annotations

import pytest
from frameworks.driver import Driver, error_of, run_alone, undisturbed_and_killed

CELL = """
import os
os.environ["KERAS_BACKEND"] = "torch"
import numpy as np
import keras
import torch
import workbench.keras

x = np.random.default_rng(1).normal(size=(64, 4)).astype("float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential([
    keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.3), keras.layers.GaussianNoise(0.1),
    keras.layers.Dense(1),
])
model.compile(keras.optimizers.Adam(0.01), loss="mse", metrics=["mae"])
history = model.fit(
    DATA, batch_size=8, OPTIONS, verbose=0, validation_data=(x[:16], y[:16]),
    callbacks=[workbench.keras.Callback(), CALLBACKS],
)
with open("ended", "a") as file:
    file.write(f"{len(history.history['loss'])} ")
"""
PLATEAU = 'keras.callbacks.ReduceLROnPlateau("val_loss", min_delta=0.5, patience=2)'
LOADER = "torch.utils.data.DataLoader(list(zip(x, y)), 8, shuffle=True, generator=torch.Generator().manual_seed(2))"


def cell(options: str = "epochs=trial.max_steps", *, data: str = "x, y", callbacks: str = PLATEAU) -> str:
    text = CELL.replace("OPTIONS", options).replace("DATA", data).replace("CALLBACKS", callbacks)
    return text.replace("batch_size=8, ", "") if data == LOADER else text


VARIANTS = {
    "arrays": cell(),
    "a loader": cell(data=LOADER),
    "validation every second epoch": cell("epochs=trial.max_steps, validation_freq=2", callbacks=""),
}
LEVELS = (1, 2, 5, 9)


#: What callbacks, layers and the cell hold, each in a number that is logged.
HELD = """
history, best, shared = [], 0.0, []

class Passing(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.passes, self.random, self.buffer = 0, np.random.default_rng(3), torch.zeros(1)

    def call(self, x, training=False):
        if training:
            self.passes += 1
            self.buffer += 0.5
        return x * (1 + 0.01 * self.passes)

class Counting(keras.callbacks.Callback):
    def __init__(self, heard):
        super().__init__()
        self.seen, self.heard = 0, heard

    def on_epoch_end(self, epoch, logs):
        global best
        self.seen += 1
        best += 0.5 * self.seen
        self.heard.append(torch.full((), best))
        passing = self.model.layers[0]
        if epoch == 0:  # from here on
            self.model.layers[2].rate, self.model.layers[1].trainable = 0.8, False
        shared.append(passing.random.random())
        held = {"passes": passing.passes, "buffer": passing.buffer.item(), "shared": sum(shared)}
        trial.log(seen=self.seen, best=best, kept=float(sum(history)), **held)
"""


def _held() -> str:
    text = cell(callbacks="Counting(history)").replace("\nmodel = ", HELD + "\nmodel = ")
    return text.replace("keras.Sequential([", "keras.Sequential([Passing(), ")


def test_what_is_held_around_it_is_there_after_a_resume(server, experiment):
    calm = Driver(server, fit(experiment, _held(), steps=5)).run(5)
    resumed = Driver(server, fit(experiment, _held(), steps=5)).run(1, 3, 4, 5)
    assert {name for name, _ in calm.values} > {"seen", "best", "kept", "passes", "buffer", "shared"}
    assert resumed.began == [0, 1, 3, 4]
    assert resumed.values == calm.values
    assert resumed.says == []


def test_the_log_of_another_callback_keeps_what_earlier_legs_wrote(server, experiment, tmp_path):
    text = cell(callbacks='keras.callbacks.CSVLogger("log.csv")')
    log, rows = tmp_path / "log.csv", []
    for levels in ((4,), (1, 3, 4)):
        Driver(server, fit(experiment, text, steps=4)).run(*levels)
        # Keras writes the names of the columns again in each leg.
        rows.append([row for row in log.read_text().splitlines() if not row.startswith("epoch")])
        log.unlink()
    assert len(rows[0]) == 4
    assert rows[0] == rows[1]


def fit(experiment, text: str, steps: int = 9):
    return experiment(text, steps=steps, goal="min val_loss")


@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_and_promoted_it_reports_what_an_undisturbed_run_reports(server, experiment, tmp_path, variant):
    calm, wild = undisturbed_and_killed(server, lambda: fit(experiment, VARIANTS[variant]), LEVELS, len(variant))
    assert {step for name, step in calm.values if name == "loss"} == set(range(1, 10))
    assert wild.values == calm.values
    assert wild.outcomes[-1] == "completed"
    assert set((tmp_path / "ended").read_text().split()) == {"9"}


def test_one_that_stops_early_ends_at_the_same_epoch(server, experiment, tmp_path):
    early = cell(callbacks='keras.callbacks.EarlyStopping("val_loss", min_delta=100.0, patience=3)')
    calm, wild = undisturbed_and_killed(server, lambda: fit(experiment, early), (2, 3, 4, 9), 5)
    assert max(step for _, step in calm.values) == 4
    assert wild.values == calm.values
    assert set((tmp_path / "ended").read_text().split()) == {"4"}


def test_promoted_at_once_it_continues_in_its_process(server, experiment):
    calm = Driver(server, fit(experiment, cell())).run(9)
    quick = Driver(server, fit(experiment, cell())).run(*LEVELS, in_place=True)
    assert quick.values == calm.values
    assert quick.runners == 1


def test_a_length_that_is_not_the_trials_is_refused(server, experiment):
    says = error_of(server, fit(experiment, cell("epochs=5")))
    assert "fit(epochs=5) trains 5 steps, but a trial of this experiment has 9" in says


def test_without_workbench_the_code_trains_all_its_epochs_and_prints_them(tmp_path):
    printed = run_alone(cell(), tmp_path)
    assert [line.split(":")[0] for line in printed if line.startswith("step ")] == ["step 1", "step 2", "step 3"]
    assert (tmp_path / "ended").read_text() == "3 "

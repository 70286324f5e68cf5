"""The examples of docs/frameworks.md run as they stand there, as cells and without Workbench."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from frameworks.driver import Driver, run_alone

from workbench.frameworks import need

TEXT = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text()
EXAMPLES = dict(re.findall(r"## ([\w -]+)\n\n```python\n(.*?)```", TEXT, re.DOTALL))
ARRAYS = """
import os
os.environ["KERAS_BACKEND"] = "torch"
import warnings
warnings.simplefilter("ignore")
import numpy as np
import torch
draw = np.random.default_rng(1)
x, x_val = draw.normal(size=(32, 4)).astype("float32"), draw.normal(size=(16, 4)).astype("float32")
y, y_val = x.sum(1), x_val.sum(1)
"""
#: What an example needs before it, and its goal.
BEFORE = {
    "Lightning": (
        """
import lightning.pytorch as pl
class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        return ((self.layer(batch[0])[:, 0] - batch[1]) ** 2).mean()
    def validation_step(self, batch, index):
        self.log("val_loss", self.training_step(batch, index))
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
model = Model()
def loader(x, y):
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y)), 8)
train, validation = loader(x, y), loader(x_val, y_val)
""",
        "min val_loss",
    ),
    "Transformers": (
        """
from transformers import LlamaConfig, LlamaForCausalLM
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=32, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2))
rows = torch.randint(0, 32, (16, 6))
train = validation = [{"input_ids": row, "labels": row} for row in rows]
""",
        "min eval_loss",
    ),
    "Keras": (
        """
import keras
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", loss="mse")
""",
        "min val_loss",
    ),
    "XGBoost": (
        "import xgboost\ntrain, validation = xgboost.DMatrix(x, y), xgboost.DMatrix(x_val, y_val)\n",
        "min test-rmse",
    ),
    "LightGBM": (
        "import lightgbm\ntrain, validation = lightgbm.Dataset(x, y), lightgbm.Dataset(x_val, y_val)\n",
        "min test-l2",
    ),
    "scikit-learn": ("", "max score"),
}


def test_each_framework_has_an_example():
    assert EXAMPLES.keys() == BEFORE.keys()


@pytest.mark.parametrize("name", BEFORE)
def test_an_example_trains_a_trial(server, experiment, name):
    before, goal = BEFORE[name]
    driver = Driver(server, experiment(ARRAYS + before + EXAMPLES[name], steps=3, goal=goal)).run(1, 3)
    assert driver.outcomes == ["reached", "completed"]
    assert {step for metric, step in driver.values if metric == goal.split()[1]} == {1, 2, 3}


@pytest.mark.parametrize("name", BEFORE)
def test_an_example_trains_without_workbench(tmp_path, name):
    printed = run_alone(ARRAYS + BEFORE[name][0] + EXAMPLES[name], tmp_path)
    steps = [line.split(":")[0] for line in printed if line.startswith("step ")]
    assert steps == ["step 1", "step 2", "step 3"]


def test_a_missing_library_is_named_with_the_extra_that_installs_it():
    with pytest.raises(
        ImportError, match=r"workbench\.lightning needs lightning_that_is_absent.*'workbench\[lightning\]'"
    ):
        need("lightning", "lightning_that_is_absent")
    need("lightning", "lightning_that_is_absent", "json")


def test_each_framework_is_an_attribute_of_the_package(tmp_path):
    text = "import workbench as wb\nprint(callable(wb.xgboost.Callback), callable(wb.lightgbm.Callback))\n"
    assert run_alone(text, tmp_path) == ["True True"]

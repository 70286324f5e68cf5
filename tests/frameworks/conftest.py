"""Real runners for the loops of frameworks, forked from one process that has imported all of the frameworks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from trial.conftest import experiment
from trial.world import Server

__all__ = ["experiment"]
#: What the loops import. Some packages import their parts only where these are used, which each runner would do again.
PRELOAD = (
    "torch",
    "numpy",
    "lightning.pytorch",
    "pytorch_lightning",
    "torchmetrics",
    "transformers.trainer",
    "transformers.models.llama.modeling_llama",
    "accelerate",
    "peft",
    "datasets",
    "trl.trainer.sft_trainer",
    "keras",
    "xgboost",
    "lightgbm",
    "sklearn.linear_model",
    "sklearn.neural_network",
)


@pytest.fixture(scope="session")
def _with_frameworks() -> Iterator[Server]:
    """One for all files that this process tests: each more imports for ten seconds."""
    running = Server(preload=PRELOAD, KERAS_BACKEND="torch")
    yield running
    running.close()


@pytest.fixture(scope="module")
def server(_with_frameworks: Server) -> Iterator[Server]:
    yield _with_frameworks
    _with_frameworks.let_go()

"""The programs of ``code/``, and how each is searched: its goal, its arguments, and what its resumes are."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from workbench.records import Goal, Program
from workbench.snapshot.reading.cell import Cell, read_cell
from workbench.snapshot.reading.hyperparameters import supplied
from workbench.snapshot.reading.script import read_script

CODE = Path(__file__).parent / "code"


@dataclass(frozen=True)
class Searched:
    """How a program is searched.

    words, configuration: a script's arguments, and the values that the tested trial gets. resumes: ``exact``;
    ``inexact`` if a lost name is told; ``again`` if it begins again, since it saves nothing that Workbench knows.
    lost: those names. appends: files that grow by lines of steps that are trained twice, or that hold times.
    """

    goal: str
    steps: int = 6
    file: str = "after.py"
    words: Sequence[str] = ()
    configuration: Mapping[str, Any] = field(default_factory=dict)
    metrics: Sequence[str] = ()
    resumes: Literal["exact", "inexact", "again"] = "exact"
    lost: frozenset[str] = frozenset()
    appends: tuple[str, ...] = ()


LR = "loguniform(1e-4, 1)"

PROGRAMS = {
    "nested_functions": Searched("max acc"),
    "trainer_class": Searched("max val_acc"),
    "batch_generator": Searched("max accuracy", file="after.ipy", configuration={"lr": 0.003}),
    "infinite_batches": Searched("min loss", resumes="inexact", lost=frozenset({"data"})),
    "infinite_batches/after_exact.py": Searched("min loss", file="after_exact.py"),
    "while_patience": Searched("min val_loss", steps=12),
    "two_optimizers": Searched("max acc", file="after.ipy"),
    "gan": Searched("min loss_g", file="after.ipy"),
    "reinforce": Searched("max reward", words=("--lr", LR, "--gamma", "0.95"), configuration={"lr": 0.02}),
    "dqn": Searched("max episode_return", steps=8),
    "tbptt": Searched("min loss"),
    "grad_accumulation": Searched("min val_loss"),
    "mixed_precision": Searched("max acc"),
    "ema": Searched("max ema_acc"),
    "early_stopping": Searched("min val_loss", steps=15),
    "kfold": Searched("max mean", steps=5),
    "kfold_epochs": Searched("max val_acc", steps=3),
    "evaluation_after": Searched("max val_acc", file="after.ipy"),
    "global_counters": Searched("max acc", appends=("train.log",)),
    "dataclass_config": Searched("min val_loss", words=(f"--optim.lr={LR}",), configuration={"optim_lr": 0.004}),
    "argparse_main": Searched(
        "max accuracy",
        words=("--lr", LR, "--save-model", "--no-accel", "flag()"),
        configuration={"lr": 0.8, "no_accel": True},
    ),
    "click_main": Searched(
        "max accuracy",
        words=("--seed", "3", "train", "--lr", LR, "--optimizer", "choice(adam, sgd)"),
        configuration={"lr": 0.03, "optimizer": "sgd"},
    ),
    "hydra_main": Searched(
        "max acc",
        words=(f"optimizer.lr={LR}", "model.widths=choice([16], [32, 16])"),
        configuration={"optimizer_lr": 0.01, "model_widths": [32, 16]},
        appends=("after.log",),
    ),
    "recipe": Searched(
        "min val_loss",
        words=(f"optimizer.lr={LR}", "batch_size=choice(4, 8)"),
        configuration={"optimizer_lr": 0.004, "batch_size": 4},
        appends=("out/metrics.txt",),
    ),
    "streaming": Searched("min loss"),
    "custom_sampler": Searched("max acc", file="after.ipy"),
    "weighted_workers": Searched("max balanced"),
    "lr_finder": Searched("min valid_loss"),
    "numpy_mlp": Searched(
        "max acc", file="before.py", metrics=(r"loss=(?P<loss>\S+) acc=(?P<acc>\S+)",), resumes="again"
    ),
    "tensorboard": Searched("max val/acc", file="before.py", resumes="again", appends=("runs",)),
}


def path(name: str) -> Path:
    return CODE / name.partition("/")[0] / PROGRAMS[name].file


def changed(name: str) -> int:
    """The lines that were changed, added or removed: of a changed block, the side that has more."""
    one, other = ((path(name).parent / file).read_text().splitlines() for file in ("before.py", path(name).name))
    blocks = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in blocks if tag != "equal")


def is_cell(name: str) -> bool:
    return path(name).suffix == ".ipy"


def read(name: str) -> Cell:
    """The program as our reader reads it. Raises BadCell and the like."""
    program = PROGRAMS[name]
    if not is_cell(name):
        cell = read_script(path(name), program.words, program.metrics)
    else:
        magic, _, text = path(name).read_text().partition("\n")
        assert magic.startswith("%%train --goal " + PROGRAMS[name].goal)
        cell = read_cell(text, supplied(), first_line=2)
    mode, metric = program.goal.split()
    cell.check_goal(Goal(metric, mode))  # type: ignore[arg-type]
    return cell


def program(cell: Cell) -> Program:
    """What a launch makes of it."""
    return Program(
        cell.kind,
        cell.source,
        cell.file or "<cell digits>",
        arguments=cell.arguments,
        metrics=cell.metrics,
        listens=cell.listens,
    )

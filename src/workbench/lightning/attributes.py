"""What a Trainer's checkpoint lacks: attributes of the module, its parts, its data and callbacks, and the names around
``fit``. Parameters, persistent buffers, optimizers and the Trainer are references.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from workbench.trial.course.around import Around
from workbench.trial.course.beside import (
    Beside,
    Saved,
    attributes,
    buffers,
    fixed,
    numbered,
    of_users,
    parts_of,
    set_by,
)
from workbench.trial.discovery import Names

_LIBRARIES = ("lightning.", "pytorch_lightning.", "workbench.")
#: The classes of the library of which every module and datamodule is one.
_BASES = ("LightningModule", "LightningDataModule")


def surveyed(trainer: Any, module: Any, around: Around, saved: Saved | None) -> Beside:
    """What one run of ``fit`` has, when that starts. saved: what is restored later, if something is."""
    known = dict(_known(trainer, module))
    return Beside(around, known, _roots(trainer, module), saved, [*module.parameters()])


def _known(trainer: Any, module: Any) -> Iterator[tuple[str, Any]]:
    yield "trainer", trainer
    yield from parts_of(module)
    yield from numbered("callback", trainer.callbacks)
    yield from numbered("logger", trainer.loggers)
    yield from numbered("optimizer", trainer.optimizers)
    yield from numbered("scheduler", [one.scheduler for one in trainer.lr_scheduler_configs])
    if trainer.datamodule is not None:
        yield "datamodule", trainer.datamodule


def _roots(trainer: Any, module: Any) -> Iterator[Names]:
    hidden = vars(torch.nn.Module()).keys()
    for name, part in module.named_modules():
        # Of the module itself, Lightning's own attributes are the Trainer's.
        yield attributes(f"model.{name}:" if name else "model:", part, _of_library(part) if not name else hidden)
        yield buffers(f"buffers.{name}:", part)
    if trainer.datamodule is not None:
        yield attributes("datamodule:", trainer.datamodule, _of_library(trainer.datamodule))
    loops = trainer.fit_loop, trainer.fit_loop.epoch_loop.val_loop
    yield fixed("data:", {str(number): loop._data_source.instance for number, loop in enumerate(loops)})
    yield from of_users(trainer.callbacks, _LIBRARIES, lambda one: set_by(type(one), _LIBRARIES))


def _of_library(obj: Any) -> frozenset[str]:
    """The attributes that every module, or datamodule, has from the start."""
    classes = (one for one in type(obj).__mro__ if one.__name__ in _BASES)
    base = next((one for one in classes if one.__module__.startswith(_LIBRARIES)), None)
    return frozenset({*vars(base()), "trainer"} if base is not None else ())

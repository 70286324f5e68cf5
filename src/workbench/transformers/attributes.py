"""What a Trainer's checkpoint lacks: attributes of the model, of a Trainer of an own class, of its data and callbacks,
and the names around ``train()``. Parameters, persistent buffers, optimizer and arguments are references.
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

_LIBRARIES = ("transformers.", "trl.", "peft.", "accelerate.", "workbench.")


def surveyed(trainer: Any, around: Around, saved: Saved | None) -> Beside:
    """What one run of ``train()`` has, when that starts. saved: what is restored later, if something is."""
    return Beside(around, dict(_known(trainer)), _roots(trainer), saved, [*trainer.model.parameters()])


def _known(trainer: Any) -> Iterator[tuple[str, Any]]:
    yield from {"trainer": trainer, "args": trainer.args, "state": trainer.state, "control": trainer.control}.items()
    yield from parts_of(trainer.model)
    yield from numbered("callback", trainer.callback_handler.callbacks)
    both = {"optimizer": trainer.optimizer, "scheduler": trainer.lr_scheduler}
    yield from ((name, one) for name, one in both.items() if one is not None)


def _roots(trainer: Any) -> Iterator[Names]:
    hidden = vars(torch.nn.Module()).keys()
    for name, part in trainer.model.named_modules():
        yield attributes(f"model.{name}:", part, hidden)
        yield buffers(f"buffers.{name}:", part)
    yield fixed("data:", {name: getattr(trainer, name) for name in ("train_dataset", "eval_dataset", "data_collator")})
    hooks = [trainer, *trainer.callback_handler.callbacks]
    yield from of_users(hooks, _LIBRARIES, lambda one: set_by(type(one), _LIBRARIES))

"""Lightning's Trainer as a trial: ``Trainer(max_epochs=trial.max_steps, callbacks=[workbench.lightning.Callback()])``.

Law: a step is an epoch with its validation. It is over when Lightning has finished it: schedulers have stepped, and
loggers have the epoch's values. There the step is saved and reported, and the leg ends or continues.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from workbench.frameworks import Loop, need, numbers
from workbench.trial.iterators import put_workers, workers_of
from workbench.trial.samplers import put_samplers, sampler_states, samplers_of

need("lightning", "lightning", "pytorch_lightning")

#: Lightning's checkpoint, and beside it what that lacks.
CHECKPOINT, BESIDE = "lightning.ckpt", "beside.ckpt"
_PACKAGES = ("lightning.pytorch", "pytorch_lightning")
#: ``max_epochs`` of a Trainer that trains until something stops it.
_ENDLESS = -1


def Callback() -> Any:
    """A callback that makes ``trainer.fit`` the training loop of the current trial, for a Trainer of either package.

    Steps are epochs. The callback reports the numbers that an epoch has put into ``trainer.callback_metrics``, saves
    where that costs little, resumes by itself, and leaves ``fit`` where the leg ends: the code after ``fit`` runs after
    the trial's last epoch only. The sanity check is not reported, and runs only at the start of a trial.

    ``fit`` raises BadInput if ``max_epochs`` is not ``trial.max_steps`` (with -1 the trial ends the training), or if it
    is the second one of a trial.
    """
    names = [name for name in _PACKAGES if name in sys.modules]
    if not names:
        import lightning.pytorch  # noqa: F401

        names = ["lightning.pytorch"]
    bases = tuple(sys.modules[name].Callback for name in names)
    return type("Callback", (_Hooks, *bases), {"__module__": __name__})()


class _Hooks:
    """What the callback does."""

    _loop: Loop
    #: What the Trainer said when the last step was reported. A value that is not logged again stays the same object.
    _reported: dict[str, Any]
    _beside: dict[str, Any] | None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self._loop = loop = Loop("lightning")
        self._reported = {}
        if trainer.max_epochs != _ENDLESS:
            loop.check_length(
                trainer.max_epochs, f"Trainer(max_epochs={trainer.max_epochs})", "Trainer(max_epochs=trial.max_steps)"
            )
        loop.refuse_changes("the options of optimizers and schedulers")
        self._beside = _loaded(loop.saved / BESIDE) if loop.saved is not None else None
        from workbench.lightning.attributes import surveyed  # it imports torch

        # Checkpoints of earlier versions have none.
        loop.survey(partial(surveyed, trainer, pl_module), (self._beside or {}).pop("attributes", None))
        if loop.saved is not None:
            self._restore(trainer, pl_module, loop.saved)
        fit_loop = trainer.fit_loop
        begin, over = fit_loop.on_advance_start, fit_loop.on_advance_end

        def epoch_begins() -> None:
            loop.trains()
            begin()

        def epoch_over() -> None:
            over()
            self._epoch_over(trainer)

        fit_loop.on_advance_start = epoch_begins
        # Lightning's last hook of an epoch comes before schedulers that monitor a metric step, and before loggers get
        # the epoch's values.
        fit_loop.on_advance_end = epoch_over

    def _restore(self, trainer: Any, module: Any, saved: Path) -> None:
        connector = trainer._checkpoint_connector
        connector._loaded_checkpoint = _loaded(saved / CHECKPOINT)
        connector.restore_model()
        connector.restore_datamodule()
        connector.restore_callbacks()
        unfreezing = tuple(sys.modules[name].callbacks.BaseFinetuning for name in _PACKAGES if name in sys.modules)
        for callback in trainer.callbacks:
            if isinstance(callback, unfreezing) and callback._restarting:
                callback.on_fit_start(trainer, module)  # it makes the groups of optimizers again
        # The Trainer restores loops, optimizers and schedulers from `_loaded_checkpoint` itself, after this hook.
        trainer.num_sanity_val_steps = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if self._loop.is_inside:
            # A notice of the machine's shutdown is the runner's to handle, which saves at the end of the epoch.
            trainer._signal_connector.teardown()
        beside, fit_loop = self._beside, trainer.fit_loop
        if beside is not None:
            trainer._logger_connector._callback_metrics.update(beside["metrics"])
            self._reported = dict(beside["metrics"])
            is_over = fit_loop.epoch_progress.current.completed >= self._loop.trial.max_steps
            trainer.should_stop = beside["should_stop"] or is_over
            fit_loop._last_train_dl_reload_epoch = beside["reloaded"]
            for loader, states in zip(_loaders(trainer), beside["loaders"], strict=False):
                put_samplers(samplers_of(loader), states)
            for loader, place in zip(_loaders(trainer), beside.get("workers", ()), strict=False):
                if place is not None:
                    if loader._iterator is None:
                        iter(loader)  # it draws a seed, as before: now, since the random state is restored after this
                    put_workers(loader, place)
            # The loader's iterator was made before the random state is restored: the epoch must make it again. With
            # `max_steps`, Lightning takes the epoch that is over for one that is not.
            fit_loop._resuming_from_checkpoint = False
            for loop in (fit_loop, fit_loop.epoch_loop, fit_loop.epoch_loop.val_loop):
                loop._restarting = False
        if trainer.should_stop:  # no epoch comes
            self._loop.trains()

    def _epoch_over(self, trainer: Any) -> None:
        now = dict(trainer.callback_metrics)
        values = numbers({name: value for name, value in now.items() if value is not self._reported.get(name)})
        self._reported = now

        def write(folder: Path) -> None:
            import torch

            trainer.save_checkpoint(folder / CHECKPOINT)
            beside = {
                "metrics": now,
                "should_stop": trainer.should_stop,
                "reloaded": trainer.fit_loop._last_train_dl_reload_epoch,
                "loaders": [
                    sampler_states(samplers_of(loader), getattr(loader, "dataset", None))
                    for loader in _loaders(trainer)
                ],
                "workers": [workers_of(loader) if _lasts(loader) else None for loader in _loaders(trainer)],
                "attributes": self._loop.held(),
            }
            torch.save(beside, folder / BESIDE)

        step = trainer.fit_loop.epoch_progress.current.completed
        continues = self._loop.step(step, values, write, is_last=_ends(trainer, step))
        if not continues and (self._loop.is_inside or trainer.max_epochs == _ENDLESS):
            trainer.should_stop = True

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._loop.trains()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        # The Trainer may be used again, outside of a trial.
        for name in ("on_advance_start", "on_advance_end"):
            vars(trainer.fit_loop).pop(name, None)


def _ends(trainer: Any, step: int) -> bool:
    """Whether the Trainer itself ends after this epoch. Its ``done`` says the same, and prints."""
    fit_loop = trainer.fit_loop
    stops_early = trainer.should_stop and fit_loop._can_stop_early
    return bool(step == trainer.max_epochs or trainer.global_step == trainer.max_steps or stops_early)


def _lasts(loader: Any) -> bool:
    """Whether it is a loader of torch whose workers outlive an epoch. A Trainer takes anything that can be iterated."""
    import torch

    return isinstance(loader, torch.utils.data.DataLoader) and loader.persistent_workers


def _loaded(file: Path) -> Any:
    import torch

    return torch.load(file, map_location="cpu", weights_only=False)


def _loaders(trainer: Any) -> Iterator[Any]:
    for loop in (trainer.fit_loop, trainer.fit_loop.epoch_loop.val_loop):
        if loop._combined_loader is not None:
            yield from loop._combined_loader.flattened

"""The Trainer of Transformers as a trial: ``Trainer(…, callbacks=[workbench.transformers.Callback()])``.

Law: a step is an evaluation if ``eval_strategy="steps"``, else an epoch. It is over when the Trainer has logged,
evaluated and saved what its arguments say. There the step is saved and reported, and the leg ends or continues.
"""

from __future__ import annotations

import math
import pickle
from functools import partial
from pathlib import Path
from typing import Any

from workbench.errors import BadInput
from workbench.frameworks import Loop, calling, need, numbers

need("transformers", "transformers")

from transformers import Trainer, TrainerCallback  # noqa: E402 - after the message about the extra

from workbench.transformers.attributes import surveyed  # noqa: E402 - after the message about the extra

#: What is saved beside the Trainer's own checkpoint, which lacks it.
BESIDE = "beside.pickle"
#: What the trainers of TRL sum up between logs.
_SUMMED = ("_metrics", "_stored_metrics", "_total_train_tokens")
#: Values of the Trainer that are not of the model: they measure time, or count what the step says.
_NOT_METRICS = ("_runtime", "_per_second", "epoch")
#: A share of an epoch that is only rounding.
_ROUNDING = 1e-6


class Callback(TrainerCallback):
    """Makes ``trainer.train()`` the training loop of the current trial. Give it to the Trainer in ``callbacks=[…]``.

    It reports what the Trainer logs and evaluates (without times), saves where that costs little, resumes by itself,
    and leaves ``train()`` where the leg ends: the code after it runs after the trial's last step only. What is saved is
    the Trainer's own checkpoint: of a PEFT model the adapters alone.

    ``train()`` raises BadInput if its epochs (or evaluations) are not ``trial.max_steps``, or if it is the second one
    of a trial.
    """

    _trainer: Any
    _loop: Loop

    def __init__(self) -> None:
        #: What was logged since the last step.
        self._values: dict[str, float] = {}
        #: True from the end of a step's training up to its report.
        self._is_over = False
        #: True if another callback has ended the training before its last step.
        self._stopped = False

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._trainer = trainer = calling(Trainer)[0]
        train, finish, run_epoch = trainer.train, trainer._maybe_log_save_evaluate, trainer._run_epoch
        end = trainer.callback_handler.on_train_end

        def train_as_trial(resume_from_checkpoint: Any = None, *more: Any, **options: Any) -> Any:
            self._loop = Loop("transformers")
            self._loop.refuse_changes("the options of optimizer and scheduler")
            before = trainer.args.restore_callback_states_from_checkpoint
            if self._loop.saved is not None:
                resume_from_checkpoint = str(_checkpoint(self._loop.saved))
                trainer.args.restore_callback_states_from_checkpoint = True
            try:
                return train(resume_from_checkpoint, *more, **options)
            finally:
                trainer.args.restore_callback_states_from_checkpoint = before

        def run_epoch_if_any(*values: Any, **named: Any) -> None:
            self._loop.trains()
            # Resumed inside an epoch, the Trainer takes one step more, even after its last one.
            if self._stopped or trainer.state.global_step >= trainer.state.max_steps:
                trainer.control.should_training_stop = True
            else:
                run_epoch(*values, **named)

        def train_ends(*values: Any, **named: Any) -> Any:
            self._loop.trains()  # where no epoch came
            return end(*values, **named)

        def finish_and_report(*values: Any, **named: Any) -> None:
            finish(*values, **named)
            if self._is_over:
                self._is_over = False
                self._step()

        # No event comes after a step was evaluated and saved.
        trainer.train, trainer._maybe_log_save_evaluate = train_as_trial, finish_and_report
        trainer._run_epoch, trainer.callback_handler.on_train_end = run_epoch_if_any, train_ends

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not hasattr(self, "_loop"):
            raise BadInput(
                "workbench.transformers.Callback() was added to a Trainer that exists already. Give it to the Trainer "
                "when you make it: Trainer(…, callbacks=[workbench.transformers.Callback()])."
            )
        loop, trainer = self._loop, self._trainer
        self._values, self._is_over, self._stopped = {}, False, False
        if loop.saved is not None:
            beside = self._beside()
            self._stopped = beside["stopped"]
            trainer._tr_loss += beside["loss"]
            trainer._globalstep_last_logged = beside["logged"]
            trainer._total_loss_scalar = beside["total"]
            vars(trainer).update(beside["summed"])
        if self._by_evaluations():
            steps, written = state.max_steps // state.eval_steps, f"TrainingArguments(eval_steps={args.eval_steps})"
            write = "max_steps=trial.max_steps * eval_steps"
        else:
            steps, written = state.num_train_epochs, f"TrainingArguments(num_train_epochs={args.num_train_epochs})"
            write = "TrainingArguments(num_train_epochs=trial.max_steps)"
        loop.check_length(steps, written, write)
        # Checkpoints of earlier versions have none.
        loop.survey(partial(surveyed, trainer), beside.get("attributes") if loop.saved is not None else None)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        self._values |= {name: value for name, value in numbers(logs or {}).items() if not name.endswith(_NOT_METRICS)}

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._is_over = False

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._is_over = not self._by_evaluations()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._is_over = self._is_over or self._by_evaluations()

    def _by_evaluations(self) -> bool:
        return bool(self._trainer.args.eval_strategy == "steps")

    def _step(self) -> None:
        trainer, state = self._trainer, self._trainer.state
        if self._by_evaluations():
            step = state.global_step // state.eval_steps
            ends = step >= state.max_steps // state.eval_steps
        else:
            step = math.ceil(state.epoch - _ROUNDING)
            ends = state.global_step >= state.max_steps
        values, self._values = self._values, {}
        self._loop.step(step, values, self._write, is_last=ends or trainer.control.should_training_stop)

    def _write(self, folder: Path) -> None:
        trainer = self._trainer
        args = trainer.args
        changed = {"output_dir": str(folder), "save_only_model": False, "push_to_hub": False}
        before = {name: getattr(args, name) for name in changed}
        vars(args).update(changed)
        try:
            trainer._save_checkpoint(trainer.model_wrapped, None)
        finally:
            vars(args).update(before)
        beside = {
            "stopped": trainer.control.should_training_stop and trainer.state.global_step < trainer.state.max_steps,
            "loss": trainer._tr_loss.item(),
            "logged": trainer._globalstep_last_logged,
            "total": trainer._total_loss_scalar,
            "attributes": self._loop.held(),
            "summed": {name: vars(trainer)[name] for name in _SUMMED if name in vars(trainer)},
        }
        (folder / BESIDE).write_bytes(pickle.dumps(beside))

    def _beside(self) -> dict[str, Any]:
        assert self._loop.saved is not None
        found: dict[str, Any] = pickle.loads((self._loop.saved / BESIDE).read_bytes())
        return found


def _checkpoint(saved: Path) -> Path:
    (found,) = saved.glob("checkpoint-*")
    return found

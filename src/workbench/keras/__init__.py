"""Keras' ``fit`` as a trial: ``model.fit(…, epochs=trial.max_steps, callbacks=[workbench.keras.Callback()])``.

Law: a step is an epoch with its validation. It is over when all other callbacks have seen its end. There the step is
saved and reported, and the leg ends or continues.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from workbench.frameworks import Loop, attributes_of, calling, need, numbers, put_attributes
from workbench.trial.course.around import Around
from workbench.trial.course.beside import Beside, Saved, attributes, fixed, is_from, numbered, of_users
from workbench.trial.discovery import Names
from workbench.trial.samplers import put_samplers, sampler_states, samplers_of

need("keras", "keras")

import keras  # noqa: E402 - after the message about the extra

#: What is saved: the values of all variables in their order, and what the loop and its callbacks hold.
STATE = "keras.pickle"
#: Attributes of callbacks that belong to one run of ``fit``.
_OF_FIT = ("_model", "model", "params")
#: Attributes of models that belong to one run of ``fit``, and in which Keras keeps books of every layer.
_OF_MODEL = ("history", "optimizer", "stop_training", "_compile_config", "_eval_epoch_iterator", "_layers")
_BOOKS = frozenset({*vars(keras.Model(name="books")), *vars(keras.layers.Layer(name="books")), *_OF_MODEL})
_LIBRARIES = ("keras.", "torch.", "workbench.")


class Callback(keras.callbacks.Callback):
    """Makes ``model.fit`` the training loop of the current trial. Its place among the callbacks does not matter.

    Steps are epochs. It reports the epoch's logs, saves all variables of model and optimizer (random seeds too), the
    attributes of layers and of the other callbacks and the names around ``fit`` where that costs little, resumes by
    itself, and leaves ``fit`` where the leg ends: the code after it runs after the trial's last epoch only.

    ``fit`` raises BadInput if ``epochs`` is not ``trial.max_steps``, or if it is the second one of a trial.
    """

    def on_train_begin(self, logs: Any = None) -> None:
        self._loop = loop = Loop("keras")
        epochs = self.params["epochs"]
        loop.check_length(epochs, f"fit(epochs={epochs})", "fit(epochs=trial.max_steps)")
        self._list, around = calling(keras.callbacks.CallbackList)
        self._data = around.get("x")
        state = pickle.loads((loop.saved / STATE).read_bytes()) if loop.saved is not None else None
        self._rate = rate = _rate(self.model.optimizer)
        # Checkpoints of earlier versions have none.
        loop.survey(self._surveyed, state.get("attributes") if state is not None else None)
        if state is not None:
            self._restore(state)
            if loop.fork is not None and rate is not None and state.get("rate") not in (None, rate):
                self.model.optimizer.learning_rate = rate  # the fork's changes win
            # As Keras' own BackupAndRestore does.
            self.model._initial_epoch = epochs if state["stopped"] else state["step"]
        begin, over, end = self._list.on_epoch_begin, self._list.on_epoch_end, self._list.on_train_end
        self._trains = False

        def start() -> None:
            """The other callbacks have set themselves back for this ``fit``; now they get what they had."""
            if self._trains:
                return
            self._trains = True
            self.model._initial_epoch = 0
            if state is not None:
                self._restore_around(state)
            loop.trains()

        def epoch_begins(epoch: int, logs: Any = None) -> None:
            start()
            begin(epoch, logs)

        def epoch_over(epoch: int, logs: Any = None) -> None:
            over(epoch, logs)
            stopped = bool(self.model.stop_training)

            def write(folder: Path) -> None:
                (folder / STATE).write_bytes(pickle.dumps(self._state(epoch + 1, stopped)))

            loop.step(epoch + 1, numbers(logs or {}), write, is_last=stopped or epoch + 1 == epochs)

        def train_ends(logs: Any = None) -> None:
            start()
            end(logs)

        # No event comes after the other callbacks have seen the end of an epoch. The list is made for one `fit`.
        self._list.on_epoch_begin, self._list.on_epoch_end = epoch_begins, epoch_over
        self._list.on_train_end = train_ends

    def _surveyed(self, around: Around, saved: Saved | None) -> Beside:
        model, layers = self.model, list(self.model._flatten_layers())
        known = {"model": model, "optimizer": model.optimizer}
        variables = list(self._variables())
        objects = {"layer": layers, "metric": model.metrics, "callback": self._list.callbacks, "variable": variables}
        for kind, some in {**objects, "value": [one.value for one in variables]}.items():
            known.update(numbered(kind, some))

        def roots() -> Iterator[Names]:
            for number, layer in enumerate(layers):
                yield attributes(f"layer.{number}:", layer, _BOOKS)
                yield _trainable(f"trainable.{number}:", layer)
            if isinstance(self._data, keras.utils.PyDataset) or hasattr(self._data, "dataset"):
                yield fixed("data:", {"data": self._data})
            yield from of_users(self._list.callbacks, _LIBRARIES, lambda _: _OF_FIT)

        return Beside(around, known, roots(), saved)

    def _variables(self) -> Iterator[Any]:
        yield from self.model.variables
        if self.model.optimizer is not None:
            yield from self.model.optimizer.variables
        seeds = keras.src.backend.common.global_state.get_global_attribute("global_seed_generator")
        if seeds is not None:
            yield seeds.state

    def _state(self, step: int, stopped: bool) -> dict[str, Any]:
        return {
            "step": step,
            "stopped": stopped,
            "rate": self._rate,
            "variables": [keras.ops.convert_to_numpy(one) for one in self._variables()],
            # Attributes of others are among those that are saved as in a plain loop.
            "callbacks": [attributes_of(one, _OF_FIT) if is_from(one, _LIBRARIES) else {} for one in self._others()],
            "attributes": self._loop.held(),
            "order": sampler_states(samplers_of(self._data), getattr(self._data, "dataset", None)),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        if self.model.optimizer is not None and not self.model.optimizer.built:
            self.model.optimizer.build(self.model.trainable_variables)
        for variable, value in zip(self._variables(), state["variables"], strict=False):
            variable.assign(value)

    def _restore_around(self, state: Mapping[str, Any]) -> None:
        for callback, held in zip(self._others(), state["callbacks"], strict=True):
            put_attributes(callback, held)
        put_samplers(samplers_of(self._data), state["order"])

    def _others(self) -> list[Any]:
        return [one for one in self._list.callbacks if one is not self]


def _trainable(label: str, layer: Any) -> Names:
    """Whether a layer is trained, which its variables know too."""

    def put(changed: Mapping[str, bool], _: Any) -> None:
        for value in changed.values():
            layer.trainable = value

    return Names(label, lambda: {"trainable": layer.trainable}, put)


def _rate(optimizer: Any) -> float | None:
    """The learning rate that the code has set; None for a schedule, which is not saved."""
    rate = getattr(optimizer, "_learning_rate", None)
    return float(keras.ops.convert_to_numpy(rate)) if isinstance(rate, keras.Variable) else None

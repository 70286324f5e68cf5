"""What a Trainer's checkpoint lacks: attributes of the module, its parts, its data and callbacks.

Law: as in a plain loop, what changed since ``fit`` started is saved, and restored into the objects that the code made.
What the checkpoint has itself (parameters, persistent buffers, optimizers), and the Trainer, are references.
"""

from __future__ import annotations

import io
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

import torch

from workbench.trial import graph, inexact
from workbench.trial.checkpoint import reading
from workbench.trial.checkpoint.tensors import Placed
from workbench.trial.classifier import SILENT, Classifier, How
from workbench.trial.discovery import Names, Survey
from workbench.trial.looking import digests

_LIBRARIES = ("lightning.", "pytorch_lightning.", "workbench.")
#: The classes of the library of which every module and datamodule is one.
_BASES = ("LightningModule", "LightningDataModule")


class Saved(TypedDict):
    """What has changed, as a checkpoint holds it. way: of looking. graph: the changed objects; storages: the memory of
    their tensors, by key. trains: for each parameter, whether it has gradients. lost: reasons by name."""

    way: int
    graph: bytes
    storages: dict[str, torch.Tensor]
    trains: list[bool]
    lost: dict[str, str]


class Attributes:
    """The attributes of one run of ``fit``. Make it when that starts, and before anything is restored.

    way: of looking, as the checkpoint that is restored has it.
    """

    def __init__(self, trainer: Any, module: Any, way: int = digests.NEWEST) -> None:
        digests.look(way)
        self._module = module
        self._main = sys.modules["__main__"].__dict__
        known = dict(_known(trainer, module))
        self._classifier = _KnownByName(self._main, known)
        self._roots = [_fixed("fit:", known), *_roots(trainer, module)]
        self._base = Survey(self._classifier, self._roots)
        self._places = inexact.places(self._base)

    def begin(self, saved: Saved | None) -> dict[str, str]:
        """The first epoch of a leg begins: restore what was saved, if something was. Returns what could not be saved,
        as reasons by name. Raises CannotResume.

        What hooks have changed since ``fit`` started is saved from now on, also where the loop sets it back: in a
        resumed leg the hooks change it again.
        """
        made = {self._base.path(number): obj for number, obj in self._base.objects.items()}
        now = Survey(self._classifier, self._roots, self._base)
        names = [(root.label, name) for root in self._roots for part in now.changed_names(root) for name in part]
        self._base.save_from_now_on(now.changed, now.replaced, names)
        lost = self._put(saved, made) if saved is not None else {}
        self._base.release()
        return lost

    def saved(self) -> Saved:
        """What has changed since, for :meth:`begin`."""
        survey = Survey(self._classifier, self._roots, self._base)
        stream = io.BytesIO()
        pickler = graph.write_graph(stream, survey, {}, {})
        self._base.forget(survey)
        return {
            "way": digests.way(),
            "graph": stream.getvalue(),
            "storages": {key: _bytes_of(storage) for key, storage in pickler.new_storages.items()},
            "trains": [one.requires_grad for one in self._module.parameters()],
            "lost": dict(inexact.lost(survey, self._places, lambda *_: True, set, [])),
        }

    def _put(self, saved: Saved, made: Mapping[str, Any]) -> dict[str, str]:
        stream = io.BytesIO(saved["graph"])
        storages = {key: held.untyped_storage() for key, held in saved["storages"].items()}
        for path, key in reading.read_header(stream)["storages"]:
            self._classifier.storages.put(reading.found(made, path, "UntypedStorage"), storages[key])
        stream.seek(0)
        graph.make_in(self._main)
        try:
            reading.apply_graph(stream, self._classifier, self._roots, made, Placed(storages))
        finally:
            graph.make_in(None)
        for parameter, trains in zip(self._module.parameters(), saved["trains"], strict=False):
            parameter.requires_grad_(trains)
        return dict(saved["lost"])


class _KnownByName(Classifier):
    """Looks into none of the objects that are known by name."""

    def __init__(self, main: Mapping[str, Any], known: Mapping[str, Any]) -> None:
        super().__init__(main)
        self._known = {id(one) for one in known.values()}

    def how(self, obj: Any) -> How:
        return SILENT if id(obj) in self._known else super().how(obj)


def _known(trainer: Any, module: Any) -> Iterator[tuple[str, Any]]:
    yield "trainer", trainer
    yield from ((f"model.{name}", part) for name, part in module.named_modules())
    yield from ((f"parameter.{name}", one) for name, one in module.named_parameters())
    for name, part in module.named_modules():
        lasting = part._buffers.keys() - part._non_persistent_buffers_set
        yield from ((f"buffer.{name}.{key}", part._buffers[key]) for key in sorted(lasting))
    lists = {"callback": trainer.callbacks, "logger": trainer.loggers, "optimizer": trainer.optimizers}
    for kind, objects in lists.items():
        yield from ((f"{kind}.{number}", one) for number, one in enumerate(objects))
    yield from ((f"scheduler.{number}", one.scheduler) for number, one in enumerate(trainer.lr_scheduler_configs))
    if trainer.datamodule is not None:
        yield "datamodule", trainer.datamodule


def _roots(trainer: Any, module: Any) -> Iterator[Names]:
    hidden = vars(torch.nn.Module()).keys()
    for name, part in module.named_modules():
        # Of the module itself, Lightning's own attributes are the Trainer's.
        yield _attributes(f"model.{name}:" if name else "model:", part, _of_library(part) if not name else hidden)
        yield _buffers(f"buffers.{name}:", part)
    if trainer.datamodule is not None:
        yield _attributes("datamodule:", trainer.datamodule, _of_library(trainer.datamodule))
    loops = trainer.fit_loop, trainer.fit_loop.epoch_loop.val_loop
    yield _fixed("data:", {str(number): loop._data_source.instance for number, loop in enumerate(loops)})
    for number, one in enumerate(trainer.callbacks):
        if not type(one).__module__.startswith(_LIBRARIES):  # those save what they need
            yield _attributes(f"{type(one).__name__}.{number}:", one, _of_library_callback(type(one)))


def _of_library(obj: Any) -> frozenset[str]:
    """The attributes that every module, or datamodule, has from the start."""
    base = next((one for one in type(obj).__mro__ if one.__name__ in _BASES and _is_library(one)), None)
    return frozenset({*vars(base()), "trainer"} if base is not None else ())


def _of_library_callback(cls: type) -> frozenset[str]:
    """What the methods of a callback of the library name, of which ``cls`` is one: those save what they need."""
    functions = (value for one in cls.__mro__ if _is_library(one) for value in vars(one).values())
    return frozenset(name for one in functions if isinstance(one, types.FunctionType) for name in one.__code__.co_names)


def _is_library(cls: type) -> bool:
    return cls.__module__.startswith(_LIBRARIES)


def _attributes(label: str, obj: Any, hidden: Any) -> Names:
    def put(changed: dict[str, Any], gone: list[str]) -> None:
        vars(obj).update(changed)
        for name in gone:
            vars(obj).pop(name, None)

    return Names(label, lambda: {name: value for name, value in vars(obj).items() if name not in hidden}, put)


def _buffers(label: str, part: Any) -> Names:
    """Buffers that no state_dict has."""

    def values() -> dict[str, Any]:
        return {name: part._buffers[name] for name in sorted(part._non_persistent_buffers_set)}

    return Names(label, values, lambda changed, _: part._buffers.update(changed))


def _fixed(label: str, known: Mapping[str, Any]) -> Names:
    return Names(label, lambda: known, lambda *_: None)


def _bytes_of(storage: Any) -> Any:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)

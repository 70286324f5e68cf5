"""What a framework's own checkpoint lacks: attributes of what the code gave it, and the names around its loop.

Law: as in a plain loop, what changed since training started is saved, and restored into the objects that the code made.
What the framework's checkpoint has itself (parameters, optimizers), and its trainer, are references.
"""

from __future__ import annotations

import dis
import functools
import io
import time
import types
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from workbench.trial import graph, inexact
from workbench.trial.checkpoint import reading
from workbench.trial.checkpoint.tensors import Placed
from workbench.trial.classifier import SILENT, Classifier, How
from workbench.trial.course.around import Around
from workbench.trial.course.saver import what_is_heavy
from workbench.trial.discovery import Names, Survey
from workbench.trial.looking import digests
from workbench.trial.state import SLOW_S

if TYPE_CHECKING:
    import torch


class Saved(TypedDict):
    """What has changed, as a checkpoint holds it. way: of looking. graph: the changed objects; storages: the memory of
    their tensors, by key. trains: for each parameter, whether it has gradients. lost: reasons by name. modules: the
    labels of the experiment's own; checkpoints without it hold attributes only, and no names around the loop."""

    modules: NotRequired[list[str]]
    way: int
    graph: bytes
    storages: dict[str, torch.Tensor]
    trains: list[bool]
    lost: dict[str, str]


class Beside:
    """Make it where training starts, and before anything is restored."""

    def __init__(
        self,
        around: Around,
        known: Mapping[str, Any],
        roots: Iterable[Names],
        saved: Saved | None,
        parameters: Sequence[Any] = (),
    ) -> None:
        """known: objects that are references, by the same name in each leg. roots: attributes that are saved. saved:
        what is restored later, if something is: it decides what is looked at, and how. parameters: those of which a
        hook may say that they have no gradients."""
        digests.look(digests.NEWEST if saved is None else saved["way"])
        self._around, self._parameters = around, parameters
        self._has_names = saved is None or "modules" in saved
        self._classifier = _KnownByName(around.main, around.own, known)
        self._roots = [fixed("fit:", known), *roots, *(around.roots if self._has_names else ())]
        begun = time.perf_counter()
        self._base = Survey(self._classifier, self._roots)
        seconds = time.perf_counter() - begun
        heaviest = self._base.heaviest() if seconds > SLOW_S else None
        #: What makes each checkpoint slow, in words; empty if nothing does.
        self.heavy = what_is_heavy(seconds, *heaviest) if heaviest is not None else ""
        self._before = inexact.before(self._base)
        around.surveyed(self._base)

    def begin(self, saved: Saved | None) -> dict[str, str]:
        """The first step of a leg begins: restore what was saved, if something was. Returns what could not be saved, as
        reasons by name. Raises CannotResume.

        What hooks have changed since training started is saved from now on, also where the loop sets it back: in a
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
        around = self._around
        survey = Survey(self._classifier, [*self._roots, *(around.late() if self._has_names else ())], self._base)
        stream = io.BytesIO()
        pickler = graph.write_graph(stream, survey, {}, {})
        self._base.forget(survey)
        saved: Saved = {
            "way": digests.way(),
            "graph": stream.getvalue(),
            "storages": {key: _bytes_of(storage) for key, storage in pickler.new_storages.items()},
            "trains": [one.requires_grad for one in self._parameters],
            "lost": dict(inexact.lost(survey, self._before, around.may_read, around.mentions, [])),
        }
        if self._has_names:
            saved["modules"] = [root.label for root in survey.roots if root.is_module]
        return saved

    def _put(self, saved: Saved, made: Mapping[str, Any]) -> dict[str, str]:
        stream = io.BytesIO(saved["graph"])
        storages = {key: held.untyped_storage() for key, held in saved["storages"].items()}
        modules = saved.get("modules", [])
        roots = [*self._roots, *self._around.imported(modules)]
        alone = tuple({*modules} - {root.label for root in roots})
        for path, key in reading.read_header(stream)["storages"]:
            if path in made or not path.startswith(alone):
                self._classifier.storages.put(reading.found(made, path, "UntypedStorage"), storages[key])
        stream.seek(0)
        graph.make_in(self._around.main)
        try:
            applied = reading.apply_graph(
                stream, self._classifier, roots, made, Placed(storages), frozenset(), tuple(modules)
            )
        finally:
            graph.make_in(None)
        for parameter, trains in zip(self._parameters, saved["trains"], strict=False):
            parameter.requires_grad_(trains)
        reading.wake(applied)
        return dict(saved["lost"])


class _KnownByName(Classifier):
    """Looks into none of the objects that are known by name."""

    def __init__(self, main: dict[str, Any], own: dict[str, types.ModuleType], known: Mapping[str, Any]) -> None:
        super().__init__(main, own)
        self._known = {id(one) for one in known.values()}

    def how(self, obj: Any) -> How:
        return SILENT if id(obj) in self._known else super().how(obj)


# -- what is known, and what is saved ----------------------------------------------------------------------------------


def parts_of(module: Any) -> Iterator[tuple[str, Any]]:
    """A module of torch, its parts, and what their ``state_dict`` has, by name."""
    yield from ((f"model.{name}", part) for name, part in module.named_modules())
    yield from ((f"parameter.{name}", one) for name, one in module.named_parameters())
    for name, part in module.named_modules():
        lasting = part._buffers.keys() - part._non_persistent_buffers_set
        yield from ((f"buffer.{name}.{key}", part._buffers[key]) for key in sorted(lasting))


def numbered(kind: str, objects: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Objects as known ones, by their place."""
    yield from ((f"{kind}.{number}", one) for number, one in enumerate(objects))


def attributes(label: str, obj: Any, hidden: Collection[str]) -> Names:
    """The attributes of an object, without ``hidden`` ones."""

    def put(changed: dict[str, Any], gone: list[str]) -> None:
        vars(obj).update(changed)
        for name in gone:
            vars(obj).pop(name, None)

    return Names(label, lambda: {name: value for name, value in vars(obj).items() if name not in hidden}, put)


def of_users(
    objects: Iterable[Any], libraries: tuple[str, ...], hidden: Callable[[Any], Collection[str]]
) -> Iterator[Names]:
    """The attributes of those that are of a user's class. hidden: those that are not saved."""
    for number, one in enumerate(objects):
        if not is_from(one, libraries):
            yield attributes(f"{type(one).__name__}.{number}:", one, hidden(one))


def is_from(obj: Any, libraries: tuple[str, ...]) -> bool:
    """Whether its class is one of these libraries', which save what it needs."""
    return type(obj).__module__.startswith(libraries)


def buffers(label: str, part: Any) -> Names:
    """Those buffers of a module of torch that no ``state_dict`` has."""

    def values() -> dict[str, Any]:
        return {name: part._buffers[name] for name in sorted(part._non_persistent_buffers_set)}

    return Names(label, values, lambda changed, _: part._buffers.update(changed))


def fixed(label: str, objects: Mapping[str, Any]) -> Names:
    """Objects that no one replaces."""
    return Names(label, lambda: objects, lambda *_: None)


def set_by(cls: type, libraries: tuple[str, ...]) -> frozenset[str]:
    """The attributes that a library sets in those classes of which ``cls`` is one: it saves what it needs."""
    theirs = [one for one in cls.__mro__ if one.__module__.startswith(libraries)]
    return frozenset().union(*map(_set_in, theirs))


@functools.cache
def _set_in(cls: Hashable) -> frozenset[str]:
    functions = [one for one in vars(cls).values() if isinstance(one, types.FunctionType)]
    return frozenset(
        step.argval for one in functions for step in dis.get_instructions(one) if step.opname == "STORE_ATTR"
    )


def _bytes_of(storage: Any) -> torch.Tensor:
    import torch  # only where there are tensors

    # A trial that was trained on a GPU can be loaded without one.
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage).cpu()

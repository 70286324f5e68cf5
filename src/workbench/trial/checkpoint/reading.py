"""How a graph is read, and restored into what the set-up code made. Law: paths are resolved among the objects that it
made this time; one that is missing or of another class is refused.
"""

from __future__ import annotations

import pickle
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workbench.errors import CannotResume, NewerSchema
from workbench.trial import kinds, torch_kinds
from workbench.trial.checkpoint import references
from workbench.trial.checkpoint.references import Address, Attributes, Below, Made, Stored, Variable
from workbench.trial.classifier import Classifier
from workbench.trial.discovery import Names
from workbench.trial.graph import Patch
from workbench.trial.kinds import Instance, Kind, LeftOut
from workbench.trial.looking import memory, shared_names

#: What was patched: the object, its kind and its content.
Applied = tuple[Any, Kind, Any]


class GraphUnpickler(pickle.Unpickler):
    """Reads a graph; its paths are resolved among the objects that the set-up code has made this time."""

    def __init__(
        self,
        file: Any,
        made: Mapping[str, Any],
        storages: Callable[..., Any],
        alone: tuple[str, ...] = (),
        roots: Mapping[str, Names] | None = None,
    ) -> None:
        super().__init__(file)
        self._made, self._storages = made, storages
        #: Path prefixes of objects of modules that are skipped.
        self._alone = alone
        self._heaps: dict[str, Any] = {}
        #: Roots by label: running functions have variables that closures share.
        self._roots = roots or {}
        self._below: dict[tuple[int, int, int], Any] = {}
        self._cells: dict[Variable, types.CellType] = {}

    def find_class(self, module: str, name: str, /) -> Any:
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError) as error:
            lacked = error.name if isinstance(error, ImportError) else module
            if not f"{lacked}.".startswith("workbench.") or not f"{module}.".startswith("workbench."):
                raise
            raise NewerSchema(
                f"this checkpoint holds {module}.{name}, which this Workbench does not have: a later one wrote it. "
                "Upgrade Workbench to open it."
            ) from error

    def persistent_load(self, pid: Any) -> Any:
        reference = references.read(pid)
        if isinstance(reference, Made):
            path, type_name = reference
            if path not in self._made and self._alone and path.startswith(self._alone):
                return LeftOut(f"{path} belongs to a module, and modules are left as they are here")
            return found(self._made, path, type_name)
        if isinstance(reference, Stored):
            return self._storages(*reference)
        if isinstance(reference, Address):
            return id(reference.obj)
        if isinstance(reference, Attributes):
            return Instance.own(reference.owner)
        if isinstance(reference, Below):
            return self._storage_below(reference)
        if isinstance(reference, Variable):
            return self._cell_of(reference)
        number, pickled = reference
        if number not in self._heaps:
            self._heaps[number] = pickle.loads(pickled)
        return self._heaps[number]

    def _storage_below(self, reference: Below) -> Any:
        key = id(reference.array), reference.offset, reference.size
        if key not in self._below:
            self._below[key] = memory.storage_on(*reference)
        return self._below[key]

    def _cell_of(self, variable: Variable) -> types.CellType:
        if variable not in self._cells:
            root = self._roots.get(variable.label)
            live = shared_names.cell_of(root, variable.name) if root is not None else None
            self._cells[variable] = live or types.CellType()
        return self._cells[variable]


def found(made: Mapping[str, Any], path: str, type_name: str) -> Any:
    """The object that the set-up code made at ``path`` this time. Raises CannotResume if it made a different one."""
    if path not in made:
        raise CannotResume(
            f"the checkpoint holds {path} (a {type_name}), but this time the set-up code made no such thing. Set-up "
            "must make the same objects each time; does it depend on a file, on the time or on a set's order?"
        )
    obj = made[path]
    if type(obj).__name__ != type_name and not _becomes(obj, type_name):
        raise CannotResume(
            f"the checkpoint holds {path} as a {type_name}, but this time the set-up code made a {type(obj).__name__}. "
            "Set-up must make the same objects each time."
        )
    return obj


def _becomes(obj: Any, type_name: str) -> bool:
    """True for torch's lazy modules, parameters and buffers, which change their class at first use."""
    # They name that class themselves: an UninitializedBuffer becomes a Tensor.
    later = getattr(type(obj), "cls_to_become", None)
    return isinstance(later, type) and later.__name__ == type_name


def read_header(file: Any) -> dict[str, Any]:
    """The header of a graph; the rest of the file is not read."""
    header: dict[str, Any] = GraphUnpickler(file, {}, lambda *_: None).load()
    return {**header, **pickle.loads(header["plain"])} if "plain" in header else header


def read_lost(file: Any) -> dict[str, str]:
    """What a leg that resumes from this checkpoint has lost, stored after the graph: reasons by name."""
    try:
        return dict(pickle.load(file))
    except EOFError:  # of an earlier version
        return {}


def apply_graph(
    file: Any,
    classifier: Classifier,
    roots: list[Names],
    made: Mapping[str, Any],
    storages: Callable[..., Any],
    later: frozenset[str] = frozenset(),
    modules: tuple[str, ...] = (),
) -> list[Applied]:
    """Restore a graph's patches and names into what the set-up code made; what was patched. Threads that wait for some
    of it go on with :func:`wake`.

    later: roots that do not exist yet. modules: roots that are skipped unless they are among ``roots``.
    """
    by_label = {root.label: root for root in roots}
    alone = tuple(label for label in modules if label not in by_label)
    unpickler = GraphUnpickler(file, made, storages, alone, by_label)
    unpickler.load()
    patches: list[Patch] = unpickler.load()
    names: list[tuple[str, dict[str, Any], list[str]]] = unpickler.load()
    while (cells := unpickler.load()) is not None:
        for cell, content in cells:
            kinds.Cell().put(cell, content)
    patches = [patch for patch in patches if type(patch[0]) is not LeftOut]
    applied: list[Applied] = []
    for obj, kind, content in patches:
        how = _kind(kind, obj, content, classifier)
        how.put(obj, content)
        applied.append((obj, how, content))
    for label, changed, gone in names:
        if label in later or label in alone:
            continue
        if label not in by_label:
            raise CannotResume(
                f"the checkpoint was taken inside {label.rstrip(':')}, but this time the loop runs elsewhere. Call "
                "trial.steps() from the same function each time."
            )
        by_label[label].restore(changed, gone)
    return applied


def wake(applied: Iterable[Applied]) -> None:
    """Let threads of the training code have what they wait for, once all that they may use is restored."""
    for obj, how, content in applied:
        how.wake(obj, content)


def _kind(name: str, obj: Any, content: Any, classifier: Classifier) -> Kind:
    if name == "state_dict":
        return kinds.BY_STATE_DICT
    if name == "Tensor":
        return torch_kinds.Tensor()
    if name == "Module":
        return torch_kinds.Module(content["class"])
    how = classifier.how(obj)
    if type(how).__name__ != name and not (name == "ByState" and isinstance(how, kinds.ByState)):
        return Instance(type(obj))
    assert isinstance(how, Kind)
    return how

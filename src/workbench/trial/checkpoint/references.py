"""How a checkpoint's graph names what it does not contain itself. Law: each reference, and each tensor's form, is one
text, since pickle calls Python for every single part of a graph.

Graphs of earlier versions have tuples instead; both are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Made(NamedTuple):
    """An object that the set-up code makes, by its path and the name of its class."""

    path: str
    type_name: str

    def text(self) -> str:
        """For :func:`read`."""
        return f"made\n{self.type_name}\n{self.path}"


class Stored(NamedTuple):
    """A storage in ``tensors.safetensors``, by its key, and its device."""

    key: str
    device: str

    def text(self) -> str:
        """For :func:`read`."""
        return f"storage\n{self.device}\n{self.key}"


class Heap(NamedTuple):
    """A long container of plain values, pickled separately: a number, which all references to it have, and bytes."""

    number: str
    pickled: bytes


class Address(NamedTuple):
    """The ``id`` of an object: another number in each process."""

    obj: Any


class Below(NamedTuple):
    """A storage in an array's memory: where there it begins, and its length, in bytes."""

    array: Any
    offset: int
    size: int


class Attributes(NamedTuple):
    """The dictionary in which the attributes of an object lie that the set-up code makes."""

    owner: Any


class Variable(NamedTuple):
    """The cell of a running function's variable: the label of the function's root, and the name."""

    label: str
    name: str


Reference = Made | Stored | Heap | Address | Attributes | Below | Variable
_KINDS: dict[str, Callable[..., Reference]] = {
    "made": Made, "storage": Stored, "heap": Heap, "id": Address, "attributes": Attributes, "below": Below,
    "variable": Variable,
}  # fmt: skip


def read(reference: Any) -> Reference:
    """What a reference in a graph refers to."""
    if isinstance(reference, str):
        kind, *parts = reference.split("\n", 2)
        parts.reverse()
    else:
        kind, *parts = reference
    return _KINDS[kind](*parts)


class Form(NamedTuple):
    """How a tensor lies in its storage: class, dtype (``float32``), offset, shape and strides in elements, gradient.

    flips: ``conj``, ``neg`` or both for one whose elements are read conjugated or negated.
    """

    class_name: str
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool
    flips: tuple[str, ...] = ()

    def text(self) -> str:
        """For :meth:`of`."""
        return json.dumps(self if self.flips else self[:-1])

    @classmethod
    def of(cls, text: str) -> Form:
        """The inverse of :meth:`text`."""
        class_name, dtype, offset, shape, strides, requires_grad, *flips = json.loads(text)
        return cls(class_name, dtype, offset, tuple(shape), tuple(strides), requires_grad, *map(tuple, flips))

"""Compares two checkpoints of one trial at one step completely. Law: they are read, and nothing in them is run.

A graph is a sequence of pickles. Here each class and function in it becomes a symbol, and each object made by a call
becomes a node with its arguments and state, so that two graphs can be compared name by name.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from workbench.store.keeping.checkpoints import Folder
from workbench.trial.checkpoint import references
from workbench.trial.checkpoint.references import Form

#: A checkpoint's files, named as in :mod:`workbench.trial.state`.
GRAPH, TENSORS = "graph.pkl", "tensors"
#: The largest graph that is read, in bytes: each number in it takes some microseconds.
MOST_BYTES = 16 << 20
#: Keys of a header that describe how it was made, and not the state.
_BESIDES = frozenset(
    {"schema", "plain", "read", "random", "ranks", "made", "storages", "history", "anew", "way", "handles"}
)
#: Where a checkpoint holds another rank's state.
_RANK = re.compile(r"ranks/\d+/")
#: cloudpickle's id of a class that was made while training: it differs in each process.
_IDENTITY = re.compile(r"[0-9a-f]{32}")
#: torch's name of a storage in a pickle.
_ADDRESS = re.compile(rb"\d{9,}")
#: Parts of the random state that do not belong to a library.
_GENERATORS = {"unseeded": "the count of generators made without a seed"}
_TOP = re.compile(r"(?:[^:]*:)?[^.\[(<{]+")


def differing(trial: Folder, calm: Folder, files: Mapping[str, tuple[Any, Any]]) -> list[str] | None:
    """Names whose state differs between two checkpoints' folders; None if a graph is too large to be read.

    files: for each file, its digests in both manifests.
    """
    found: list[str] = []
    for prefix in sorted({match[0] if (match := _RANK.match(name)) else "" for name in files}):
        whose = f"rank {prefix.split('/')[1]}: " if prefix else ""
        if any(name.startswith(prefix + TENSORS) and a != b for name, (a, b) in files.items()):
            found.append(f"{whose}tensors")
        a, b = files.get(prefix + GRAPH, (None, None))
        if a == b:
            continue
        both = [folder / (prefix + GRAPH) for folder in (trial, calm)]
        if not all(file.exists() for file in both):
            found.append(f"{whose}its state")
            continue
        if max(file.stat().st_size if isinstance(file, Path) else 0 for file in both) > MOST_BYTES:
            return None
        one, other = (io.BytesIO(file.read_bytes()) for file in both)
        found += [whose + name for name in _in_graphs(one, other)]
    return found


def header(file: Any) -> dict[str, Any]:
    """The header of the graph in ``file``: its plain data. Nothing in the file is run."""
    return _whole(_Symbolic(file).load())


def _whole(saved: Mapping[str, Any]) -> dict[str, Any]:
    """A header with its plain entries, which are a pickle of their own since the second schema."""
    return {**saved, **_Symbolic(io.BytesIO(saved["plain"])).load()} if "plain" in saved else dict(saved)


def _in_graphs(one: Any, other: Any) -> Iterator[str]:
    a, b = ([*_parts(file)] for file in (one, other))
    found: dict[str, None] = {}
    headers = _whole(a[0]), _whole(b[0])
    # A variable that the next turn assigns before reading it is not part of the state.
    anew = {*(headers[0].get("anew") or ()), *(headers[1].get("anew") or ())}
    for key in {**headers[0], **headers[1]}:
        if key not in _BESIDES and not _equal(headers[0].get(key), headers[1].get(key)):
            found[key] = None
    for kind, what in (("random", "the random state of"), ("ranks", "the order of batches, drawn by")):
        draws = [_Symbolic(io.BytesIO(header.get(kind) or pickle.dumps({}))).load() for header in headers]
        for key in {**draws[0], **draws[1]}:
            if not _equal(draws[0].get(key), draws[1].get(key)):
                found[_GENERATORS.get(key, f"{what} {key}")] = None
    sides = [header.get("made") or {} for header in headers]
    sums, alike = [side.get("sums", {}) for side in sides], _alike(*sides)
    made = [name for name in sums[0] if name in sums[1] and sums[0][name] != sums[1][name] and name not in alike]
    # An earlier version looked at large buffers in another way, so their sums differ.
    if headers[0].get("way") == headers[1].get("way"):
        found |= {f"{name} (made by the set-up)": None for name in made}
    pieces = [{**_patched(parts[1]), **_named(parts[2])} for parts in (a, b)]
    for key in {**pieces[0], **pieces[1]}:
        match = _TOP.match(key)
        name = match[0] if match else key
        in_both = key in pieces[0] and key in pieces[1]
        if (in_both and _equal(pieces[0][key], pieces[1][key])) or (not in_both and name in alike) or name in anew:
            continue
        if not _is_machinery(pieces[0].get(key), pieces[1].get(key)):
            found[name] = None
    if not _equal(a[3:], b[3:]):
        found["variables of closures"] = None
    yield from found


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    """Names whose plain values only one checkpoint holds, and which lead to the same in both.

    A leg that did not learn in time what its set-up makes again keeps more than others.
    """
    whole = one.get("whole", {}), other.get("whole", {})
    plain = {*one.get("plain", ())} ^ {*other.get("plain", ())}
    return {name for name in plain if name in whole[0] and whole[0][name] == whole[1].get(name)}


def _patched(patches: list[Any]) -> dict[str, Any]:
    return {str(ref.arguments[1]): (ref.arguments[2], kind, _of_set(ref, content)) for ref, kind, content in patches}


def _of_set(reference: _Node, content: Any) -> Any:
    """The content of an object of the set-up; of a set, with its elements as those of a new one."""
    if reference.arguments[2] != "set" or not isinstance(content, dict):
        return content
    elements = _Node("set")
    elements.extend(content["items"])
    return {**content, "items": elements}


def _named(names: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for label, changed, gone in names:
        found |= {f"{label}{name}": value for name, value in changed.items()}
        found |= {f"{label}{name}": "gone" for name in gone}
    return found


def _parts(file: Any) -> Iterator[Any]:
    # One reader for all: later pickles refer to objects of the earlier ones.
    reader = _Symbolic(file)
    while True:
        try:
            yield reader.load()
        except EOFError:
            return


class _Node:
    """A reference, or an object that a call would make: its name, arguments, and what was added to it afterwards."""

    def __init__(self, name: str, *arguments: Any) -> None:
        self.name, self.arguments = name, arguments
        self.state: list[Any] = []

    def __call__(self, *arguments: Any, **named: Any) -> _Node:
        return _Node("call", self, arguments, named)

    def put(self, value: Any) -> None:
        self.state.append(value)

    append = add = put

    def extend(self, values: Any) -> None:
        self.state.extend(values)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.state.append((key, value))


class _Symbolic(pickle._Unpickler):
    """Reads a pickle without importing or calling anything."""

    stack: list[Any]
    append: Callable[[Any], None]
    pop_mark: Callable[[], list[Any]]
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)

    def find_class(self, module: str, name: str) -> _Node:
        return _Node("global", module, name)

    def persistent_load(self, pid: Any) -> _Node:
        reference = references.read(pid)
        return _Node("reference", type(reference).__name__, *reference)

    def get_extension(self, code: int) -> None:
        self.append(_Node("extension", code))

    def _new(self) -> None:
        arguments = self.stack.pop()
        self.stack[-1] = _Node("new", self.stack[-1], arguments)

    def _new_ex(self) -> None:
        named, arguments = self.stack.pop(), self.stack.pop()
        self.stack[-1] = _Node("new", self.stack[-1], arguments, named)

    def _build(self) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], _Node):
            self.stack[-1].put(("state", state))

    def _empty_set(self) -> None:
        self.append(_Node("set"))

    def _frozen(self) -> None:
        items = self.pop_mark()
        self.append(_Node("frozenset", *items))

    dispatch |= {
        pickle.NEWOBJ[0]: _new,
        pickle.NEWOBJ_EX[0]: _new_ex,
        pickle.BUILD[0]: _build,
        pickle.EMPTY_SET[0]: _empty_set,
        pickle.FROZENSET[0]: _frozen,
    }


def _equal(a: Any, b: Any) -> bool:
    """Whether two values that were read are equal: same bits, same order."""
    seen: set[tuple[int, int]] = set()
    waiting = [(a, b)]
    while waiting:
        one, other = (_plain(part) for part in waiting.pop())
        if type(one) is not type(other):
            return False
        if isinstance(one, float):
            if struct.pack("<d", one) != struct.pack("<d", other) and not (math.isnan(one) and math.isnan(other)):
                return False
        elif isinstance(one, list | tuple | dict | _Node):
            if (id(one), id(other)) in seen:
                continue
            seen.add((id(one), id(other)))
            parts = [_inside(part) for part in (one, other)]
            if len(parts[0]) != len(parts[1]):
                return False
            waiting += zip(*parts, strict=True)
        elif one != other and not (isinstance(one, str) and _IDENTITY.fullmatch(one) and _IDENTITY.fullmatch(other)):
            return False
    return True


def _is_machinery(*pieces: Any) -> bool:
    """Whether these are the data that torch.compile keeps with a model: each process compiles for itself."""
    return all(isinstance(one, tuple) and one[0] == "OptimizedModule" for one in pieces)


def _plain(value: Any) -> Any:
    """``value`` without details of its origin: a view of a whole array, the address of a storage."""
    if not isinstance(value, _Node) or value.name != "call":
        return value
    function, arguments = value.arguments[0], value.arguments[1]
    name = function.arguments[-1] if isinstance(function, _Node) else ""
    if name == "_array_view" and arguments[-1] == 0 and isinstance(arguments[0], _Node):
        base, shape = arguments[0], arguments[2]
        made: tuple[Any, ...] = base.arguments[1] if base.name == "call" else ()
        if len(made) == 4 and math.prod(made[2]) == math.prod(shape):
            return _Node("call", base.arguments[0], (made[0], arguments[1], shape, made[3]), {})
    if name == "_tensor_of":
        storage, text = arguments
        form = Form.of(text)
        dtype = _Node("global", "torch", form.dtype)
        made = (form.class_name, storage, dtype, form.offset, form.shape, form.strides, form.requires_grad, *form.flips)
        tensor = _Node("call", _Node("global", function.arguments[0], "_tensor"), made, {})
        tensor.state = value.state
        return tensor
    if name == "_load_from_bytes":
        return _Node("call", function, tuple(_ADDRESS.sub(b"", part) for part in arguments), {})
    return value


def _inside(value: Any) -> list[Any]:
    if isinstance(value, _Node):
        return [value.name, *value.arguments, *_in_some_order(value)]
    if isinstance(value, dict):
        return [part for item in value.items() for part in item]
    return list(value)


def _in_some_order(value: _Node) -> list[Any]:
    """The state of a node. The order of a set of addresses differs in each process."""
    addressed = [_path_of(one) for one in value.state] if value.name == "set" else [""]
    return value.state if "" in addressed else [one for _, one in sorted(zip(addressed, value.state, strict=True))]


def _path_of(value: Any) -> str:
    """The path of the object whose address this is; empty for other values."""
    kind, *parts = value.arguments if isinstance(value, _Node) and value.name == "reference" else [""]
    made = parts[0].arguments if kind == "Address" and isinstance(parts[0], _Node) else ()
    return str(made[1]) if made and made[0] == "Made" else ""

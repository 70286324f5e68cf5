"""The names that a cell takes from the notebook, frozen as one graph. Law: written once at Shift-Enter, by content;
later changes by a trial are visible to that trial only.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import dis
import hashlib
import io
import json
import linecache
import os
import sys
import time
import types
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import BadCapture
from workbench.records import SCHEMA, Json
from workbench.snapshot.described import described
from workbench.snapshot.fingerprint import Fingerprint, version_of
from workbench.snapshot.imported import imported
from workbench.snapshot.loading import Blobs, blobs_of, contents, load, python_of_captures
from workbench.snapshot.modules import project_digests
from workbench.snapshot.pickling import Pickler
from workbench.snapshot.reach import functions_in, reached
from workbench.snapshot.reading.cell import ipythons
from workbench.snapshot.reading.hyperparameters import NAMES, is_distribution_function
from workbench.snapshot.reading.names import attribute_names, global_names
from workbench.snapshot.secrets.literals import masked_cell
from workbench.snapshot.trouble import explain

__all__ = ["Capture", "blobs_of", "capture", "contents", "load"]

#: From this many bytes on, large buffers are hashed and written in parallel.
_SIDE_BY_SIDE = 1 << 25
_FUNCTION: dict[str, Json] = {"kind": "code", "words": "function"}


@dataclass(frozen=True, slots=True)
class Capture:
    """What was captured.

    digest: the blob that a runner loads, or None if the cell needs nothing. names: every captured name, each with the
    digest of its content. modules: modules that it imports, each with its version or the digest of its project file.
    fingerprint: of all of these, equal between kernels for equal content. size: bytes in large buffers and in the
    stream. kinds: what each name stands for, in words. notes: what the user should know.
    """

    digest: str | None
    names: dict[str, str]
    modules: dict[str, str]
    fingerprint: str
    size: int = 0
    kinds: dict[str, dict[str, Json]] = field(default_factory=dict, compare=False)
    notes: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)


def capture(
    names: Mapping[str, int] | Collection[str],
    namespace: Mapping[str, Any],
    store: Blobs,
    *,
    assigned: Collection[str] = (),
    attributes: Collection[str] = (),
    imports: Collection[str] = (),
    values: Mapping[str, Any] | None = None,
    parts: Collection[str] = (),
    entry: str | None = None,
) -> Capture:
    """Freeze ``names`` of ``namespace`` with everything that they reach, and keep them in ``store``.

    names: in the form of :attr:`Cell.needs` (with their lines, for messages); names that are not in the namespace are
    left to Python. assigned: names that the cell assigns itself: functions see the cell's values. attributes: names
    after a dot in the cell, used to find submodules. imports: modules that the cell imports itself: they are part of
    the fingerprint. values: values that are treated as the namespace's. parts: names among them whose values are parts
    of others: they are kept and compared, and the fingerprint has them already. entry: the name of the training
    function, which is code whatever object it is. Raises BadCapture.
    """
    begun = time.perf_counter()
    lines: Mapping[str, int] = names if isinstance(names, Mapping) else dict.fromkeys(names, 0)
    space: Mapping[str, Any] = {**namespace, **values} if values else namespace
    left_out = {*assigned} - lines.keys()
    left_out |= {"trial", *ipythons(space), *(name for name in NAMES if is_distribution_function(space.get(name)))}
    wanted = [name for name in lines if name in space and name not in left_out]
    namespace = _home(namespace, [space[name] for name in wanted])
    if not wanted:
        modules = _versions(imports)
        return Capture(None, {}, modules, _digest([[], sorted(modules.items())]))
    writer = _Writer(wanted, space, namespace, left_out, lines, is_function=entry is not None)
    stream, pickler, users = writer.write()
    regions, buffers, known = put_buffers(store, pickler.buffers)
    fingerprint = Fingerprint(namespace, known)
    digests = {name: fingerprint.of(space[name]) for name in users}
    modules = _versions({*fingerprint.modules, *imports})
    manifest = {
        "schema": SCHEMA,
        "python": python_of_captures(),
        "stream": store.put_blob(stream),
        "regions": regions,
        "buffers": buffers,
        "names": digests,
        "modules": modules,
        "submodules": _submodules(users, space, namespace, attributes),
        "sources": _sources(pickler.files),
    }
    return Capture(
        digest=store.put_blob(json.dumps(manifest, sort_keys=True).encode()),
        names=digests,
        modules=modules,
        fingerprint=_digest([sorted((n, d) for n, d in digests.items() if n not in parts), sorted(modules.items())]),
        kinds={name: _FUNCTION if name == entry else described(name, space[name]) for name in users},
        size=len(stream) + sum(view.nbytes for view in pickler.buffers),
        notes=tuple(
            f"{size / 1e6:.1f} MB on {device} were captured through the CPU, and are put back on it in every trial"
            for device, size in pickler.notes.items()
        ),
        seconds=round(time.perf_counter() - begun, 6),
    )


def _home(namespace: Mapping[str, Any], values: list[Any]) -> Mapping[str, Any]:
    """The namespace itself, not a copy: the notebook's functions are recognised by the identity of their globals."""
    homes = [value.__globals__ for value in values if isinstance(value, types.FunctionType)]
    if namespace is vars(sys.modules["__main__"]) or any(home is namespace for home in homes):
        return namespace
    return next((home for home in homes if home.get("__name__") == "__main__"), namespace)


def _digest(value: Json) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


# ---------------------------------------------------------------------------------------------------------------------
# Writing


class _Writer:
    """Writes one name after the other with one pickler, in an order in which each name's dependencies are loaded
    first."""

    def __init__(
        self,
        wanted: list[str],
        space: Mapping[str, Any],
        namespace: Mapping[str, Any],
        left_out: Collection[str],
        lines: Mapping[str, int],
        *,
        is_function: bool = False,
    ) -> None:
        self.wanted = wanted
        self.space = space
        self.namespace = namespace
        self.left_out = left_out
        self.lines = lines
        self.is_function = is_function

    def write(self) -> tuple[bytes, Pickler, dict[str, str]]:
        """The stream, its pickler, and all names in the order of the stream, each with the function that uses it."""
        users = {
            **dict.fromkeys(self.wanted, ""),
            **reached({name: self.space[name] for name in self.wanted}, self.namespace, self.left_out),
        }
        while True:
            ordered = sorted(users, key=lambda name: _rank(self.space[name]))
            stream, pickler, late = self.attempt({name: users[name] for name in ordered})
            if not late:
                return stream, pickler, {name: users[name] for name in ordered}
            # An object brought functions along whose names come after it in the stream, but an object may call its own
            # methods while it is loaded. Now that these names are known, write them first.
            users |= late

    def attempt(self, users: dict[str, str]) -> tuple[bytes, Pickler, dict[str, str]]:
        file = io.BytesIO()
        pickler = self.pickler(file)
        for name, user in users.items():
            try:
                pickler.dump((name, self.space[name]))
            except Exception as error:
                raise self.refusal(name, user, users, error) from error
        late = {name: user for name, user in pickler.wanted.items() if name not in users}
        return file.getvalue(), pickler, late

    def pickler(self, file: io.BytesIO) -> Pickler:
        owners = set()
        if (numpy := imported("numpy")) is not None:
            array = numpy.ndarray
            named = (self.space[name] for name in self.wanted)
            owners = {id(value) for value in named if type(value) is array and not isinstance(value.base, array)}
        return Pickler(file, self.namespace, self.left_out, owners=owners)

    def refusal(self, name: str, user: str, users: Mapping[str, str], error: Exception) -> BadCapture:
        def pickles(value: Any) -> bool:
            try:
                self.pickler(io.BytesIO()).dump(value)
            except Exception:
                return False
            return True

        path, what = explain(name, self.space[name], error, pickles)
        what = what.replace("train cell", "training function") if self.is_function else what
        chain = [name]
        while user:
            top = user.partition(".")[0]
            chain.append(top)
            user = users.get(top, "") if top not in chain[:-1] else ""
        line = self.lines.get(chain[-1]) or None
        told = f"line {line}: " if line else ""
        if len(chain) > 1:
            used = ", which uses ".join(f"`{one}`" for one in reversed(chain))
            used = f"the cell uses {used}" if line else used.replace(", which uses ", " uses ", 1)
            told += f"{used}{self.place(chain[1], name)}. "
        told += f"`{name}` " if path == name else f"`{name}` cannot be sent to the processes that train: "
        return BadCapture(f"{told}{what}.", line=line)

    def place(self, user: str, name: str) -> str:
        """Where functions of ``user`` load ``name``, in words: their text may be from another cell, or unknown."""
        for function in functions_in(self.space[user], self.namespace, set()):
            waiting = [function.__code__]
            while waiting:
                code = waiting.pop()
                waiting += [one for one in code.co_consts if isinstance(one, types.CodeType)]
                for instruction in dis.get_instructions(code):
                    positions = instruction.positions
                    if instruction.argval == name and positions is not None and positions.lineno:
                        text = linecache.getline(code.co_filename, positions.lineno).strip()
                        return f" (line {positions.lineno}: `{text}`)" if text else ""
        return ""


def _rank(value: Any) -> int:
    """Modules first, then code, then data: objects may call functions of the notebook while they are loaded."""
    if isinstance(value, types.ModuleType):
        return 0
    if isinstance(value, bool | int | float | str | bytes | None):
        return 1
    return 2 if isinstance(value, types.FunctionType | type) else 3


def put_buffers(store: Blobs, buffers: list[memoryview]) -> tuple[list[str], list[int], dict[tuple[int, int], str]]:
    """Store the buffers; return their blobs, the blob number of each buffer, and the digests by address.

    Two buffers with the same memory (an array and a tensor made from it) become one region, and share memory again
    after loading.
    """
    places = [(_address(view), view.nbytes) for view in buffers]
    order = {place: number for number, place in enumerate(dict.fromkeys(places))}
    views = dict(zip(places, buffers, strict=True))
    if len(order) > 1 and sum(size for _, size in order) >= _SIDE_BY_SIDE:
        with concurrent.futures.ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as threads:
            digests = list(threads.map(lambda place: store.put_blob(views[place]), order))
    else:
        digests = [store.put_blob(views[place]) for place in order]
    return digests, [order[place] for place in places], dict(zip(order, digests, strict=True))


def _address(view: memoryview) -> int:
    """The address of ``view``'s memory; plain ctypes cannot get it for read-only memory."""
    held = ctypes.py_object(view)
    buffer = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(held, ctypes.byref(buffer), 0)
    try:
        return int(buffer.buf or 0)
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))


class _Buffer(ctypes.Structure):
    """``Py_buffer``, as in Python's stable ABI."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


def _versions(modules: Collection[str]) -> dict[str, str]:
    """Each module's root with its version; project modules with the digest of their files."""
    ours = project_digests(modules)
    found = {}
    for name in sorted(modules):
        root = name.partition(".")[0]
        if root in ("", "__main__", "workbench", "cloudpickle") or root in found:
            continue
        found[root] = ours.get(root) or version_of(root)
    return found


def _submodules(
    users: Collection[str], space: Mapping[str, Any], namespace: Mapping[str, Any], attributes: Collection[str]
) -> list[str]:
    """Loaded submodules that code reaches by dots (``import a``, then ``a.b.c``)."""
    roots = {space[name].__name__ for name in users if isinstance(space[name], types.ModuleType)}
    seen: set[int] = set()
    words = set(attributes)
    for name in users:
        for function in functions_in(space[name], namespace, seen):
            words |= attribute_names(function.__code__)
            values = [namespace.get(one) for one in global_names(function.__code__)]
            roots |= {value.__name__ for value in values if isinstance(value, types.ModuleType)}
    found = []
    tops = {root.partition(".")[0] for root in roots}
    for name, module in list(sys.modules.items()):
        root, _, rest = name.partition(".")
        if root not in tops or name.rpartition(".")[2] not in words:  # of thousands, most end here
            continue
        while rest and isinstance(module, types.ModuleType):
            if root in roots and words.issuperset(rest.split(".")):
                found.append(name)
                break
            head, _, rest = rest.partition(".")
            root = f"{root}.{head}"
    return sorted(found)


def _sources(files: Collection[str]) -> dict[str, str]:
    """The texts of the cells in which captured functions were written, for tracebacks and for ``inspect``; with secrets
    elsewhere in such a cell masked.
    """
    found = {}
    for filename in files:
        entry = linecache.cache.get(filename)
        if entry is not None and len(entry) == 4 and not os.path.exists(filename):
            found[filename] = masked_cell("".join(entry[2]))
    return found

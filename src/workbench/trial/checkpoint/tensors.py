"""The file that holds a checkpoint's tensors. Law: bytes and plain JSON; reading it runs no code.

The layout is that of *safetensors*: 8 bytes (little-endian) length of the header, the header as JSON, then the bytes of
each storage. Storages are entries of dtype U8; ``__metadata__`` holds, as JSON text, the trees of the state dicts, in
which a tensor is a view of a storage. So tensors that shared memory share it again, and nothing is written twice.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from workbench.errors import CannotResume, StoreError
from workbench.records import SCHEMA, check_schema
from workbench.snapshot.imported import loaded
from workbench.store.files.parts import NAMED, Parts
from workbench.store.keeping.checkpoints import Folder
from workbench.trial.kinds import SCALARS

#: The name of the file.
TENSORS = "tensors.safetensors"
_LENGTH = struct.Struct("<Q")
#: Keys that JSON can hold with their type, and values that it can hold as they are.
_KEYS = frozenset({str, int, float, bool})
_NUMBERS = _KEYS | {type(None)}
_ALIGNED = 64
_ZEROS = bytes(_ALIGNED)
#: Up to this many bytes, a storage is copied as bytes.
_SMALL = 1 << 16
#: Storages of at least this many bytes get a file of their own, which costs about as much as writing half a megabyte.
APART = 1 << 22


class NotPlain(Exception):
    """A state dict contains more than tensors, numbers and texts."""


def write(
    file: BinaryIO,
    storages: Mapping[str, Any],
    objects: Mapping[str, Any],
    unchanged: Mapping[str, Any],
    parts: Parts | None,
) -> None:
    """Write storages or copies (by key; large ones to ``parts``, if given) and the trees that :func:`tree` made."""
    header: dict[str, Any] = {}
    apart: dict[str, str] = {}
    pieces: list[bytes | memoryview] = []
    at = 0
    keep = []
    for key, storage in storages.items():
        length = size_of(storage)
        is_copied = isinstance(storage, bytes)
        if not is_copied and storage.device.type != "cpu":
            storage = storage.cpu()
            if length < APART:
                keep.append(storage)
        if parts is not None and length >= APART:
            if storage.is_shared():
                storage = storage.clone()  # another process may change it between digest and write
            apart[key] = parts.put(bytes_of(storage))
            continue
        header[key] = {"dtype": "U8", "shape": [length], "data_offsets": [at, at + length]}
        gap = -length % _ALIGNED
        if length:
            pieces.append(storage if is_copied else bytes_of(storage))
        if gap:
            pieces.append(_ZEROS[:gap])
        at += length + gap
    plain = {"schema": SCHEMA, "objects": objects, "unchanged": unchanged}
    if apart:
        plain["apart"] = apart
    header["__metadata__"] = {"workbench": json.dumps(plain)}
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + _LENGTH.size) % _ALIGNED)
    file.write(_LENGTH.pack(len(text)))
    file.write(text)
    file.writelines(pieces)


def size_of(storage: Any) -> int:
    """Bytes of a storage, or of a copy of one."""
    return len(storage) if isinstance(storage, bytes) else int(storage.nbytes())


def copied(storage: Any) -> Any:
    """A copy of a storage in memory: plain bytes of a small one, which takes a sixth of the time."""
    if storage.device.type != "cpu":
        return storage.cpu()  # not copied on the device first, where training may need the memory
    length = storage.nbytes()
    return ctypes.string_at(storage.data_ptr(), length) if length <= _SMALL else storage.clone()


def bytes_of(storage: Any) -> memoryview:
    """The bytes of a storage on the CPU, in place."""
    return memoryview((ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())).cast("B")


def read_storages(path: Folder) -> dict[str, Any]:
    """The storages in the file and beside it, by key, as private copies. Raises StoreError for invalid names."""
    torch = loaded("torch")
    header, data, start = _open(path)
    storages = {}
    for key, entry in header.items():
        if key != "__metadata__":
            begin, end = entry["data_offsets"]
            if begin == end:
                storages[key] = torch.UntypedStorage(0)
            else:
                view = torch.frombuffer(data, dtype=torch.uint8, count=end - begin, offset=start + begin)
                storages[key] = view.clone().untyped_storage()
    for key, name in json.loads(header["__metadata__"]["workbench"]).get("apart", {}).items():
        if NAMED.fullmatch(name) is None:
            raise StoreError(f"{path} names {name!r}, but no part of a checkpoint has that name. Use another one.")
        # Two storages with the same content share a file, and become two again.
        storages[key] = torch.frombuffer(_mapped(path.parent / name), dtype=torch.uint8).clone().untyped_storage()
    return storages


def holds_none(path: Folder) -> bool:
    """Whether the file contains no storage."""
    header, _, _ = _open(path)
    return not header.keys() - {"__metadata__"}


def read_objects(path: Folder) -> dict[str, Any]:
    """The state dicts in the file, by the name of their object."""
    import torch  # noqa: F401 - a reader asks for tensors

    header, _, _ = _open(path)
    trees = json.loads(header["__metadata__"]["workbench"])
    check_schema(trees, "this checkpoint")
    storages = read_storages(path)
    return {name: _grown(one, storages) for name, one in trees["objects"].items()}


def storages_in(folder: Folder) -> dict[str, Any]:
    """The storages of the checkpoint in ``folder``, by key. Raises CannotResume without torch."""
    path = folder / TENSORS
    if not path.exists():
        return {}
    if loaded("torch") is not None:
        return read_storages(path)
    if holds_none(path):
        return {}  # an earlier version wrote the file even if torch was only imported ahead for another search
    raise CannotResume("the checkpoint holds tensors, but this time the set-up code did not import torch.")


def read_tensors(folder: Folder) -> dict[str, Any]:
    """The state dicts in a checkpoint, by the name of the object: plain tensors and numbers; runs no code of the cell.

    It lacks large tensors that did not change since the set-up: the set-up code makes those.
    """
    path = folder / TENSORS
    return read_objects(path) if path.exists() else {}


class Placed:
    """Storages of a checkpoint, on their device; each is made once, so tensors that shared one share it again."""

    def __init__(self, saved: Mapping[str, Any]) -> None:
        self._saved = saved
        self._moved: dict[str, Any] = {}

    def __call__(self, key: str, device: str) -> Any:
        if key not in self._moved:
            storage = self._saved[key]
            torch = loaded("torch")
            # A model trained on a GPU can be loaded on a machine without one.
            if device != "cpu" and torch.cuda.is_available():
                storage = (
                    torch.empty(storage.nbytes(), dtype=torch.uint8, device=device).untyped_storage().copy_(storage)
                )
            self._moved[key] = storage
        return self._moved[key]


def _open(path: Folder) -> tuple[dict[str, Any], mmap.mmap | bytearray, int]:
    data = _mapped(path)
    (length,) = _LENGTH.unpack_from(data)
    start = _LENGTH.size + length
    return json.loads(data[_LENGTH.size : start]), data, start


def _mapped(path: Folder) -> mmap.mmap | bytearray:
    if not isinstance(path, Path):
        return bytearray(path.read_bytes())  # torch requires a writable buffer
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def tree(value: Any, key_of: Mapping[int, str], kept: dict[str, Any], path: tuple[Any, ...] = ()) -> Any:
    """A state dict as JSON in which tensors are views of storages. Raises NotPlain for anything but plain data.

    key_of: keys of the storages in the file, by ``_cdata``. A tensor on another storage (unchanged since the set-up)
    is listed in ``kept`` with its shape.
    """
    cls = type(value)
    if cls in SCALARS:
        if cls is bytes or cls is complex:
            raise NotPlain
        return value
    if isinstance(value, dict):
        items = []
        for key, item in value.items():
            if type(key) not in _KEYS:
                raise NotPlain
            items.append([key, item if type(item) in _NUMBERS else tree(item, key_of, kept, (*path, key))])
        return {"dict": items}
    if isinstance(value, list | tuple):
        parts = [tree(item, key_of, kept, (*path, number)) for number, item in enumerate(value)]
        return {"list" if isinstance(value, list) else "tuple": parts}
    torch = loaded("torch")
    if torch is None or not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        raise NotPlain
    key = key_of.get(value.untyped_storage()._cdata)
    if key is None:
        kept[".".join(map(str, path))] = list(value.shape)
        return {"unchanged": list(value.shape)}
    return {"tensor": [key, str(value.dtype)[6:], value.storage_offset(), value.shape, value.stride()]}


def _grown(value: Any, storages: Mapping[str, Any]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "dict":
        return {
            key: _grown(item, storages) for key, item in content if not (isinstance(item, dict) and "unchanged" in item)
        }
    if kind == "list":
        return [_grown(item, storages) for item in content]
    if kind == "tuple":
        return tuple(_grown(item, storages) for item in content)
    if kind == "unchanged":
        return None
    torch = loaded("torch")
    key, dtype, offset, shape, stride = content
    return torch.empty(0, dtype=getattr(torch, dtype)).set_(storages[key], offset, shape, stride)

"""A result as blobs, and back. Law: what is loaded is new each time, and its large buffers are mapped: memory is shared
until it is written, and what is written stays in this process.
"""

from __future__ import annotations

import io
import os
import types
from collections.abc import Mapping
from typing import Any

from workbench.errors import BadInput, StoreError
from workbench.snapshot.capture import put_buffers
from workbench.snapshot.imported import loaded
from workbench.snapshot.loading import Unpickler, mapped
from workbench.snapshot.pickling import Pickler
from workbench.snapshot.trouble import explain
from workbench.store import Store
from workbench.store.keeping.cached import Result
from workbench.trial.shared.key import Call, versions


class _Writer(Pickler):
    """Pickles a value. Functions and classes go by name: the training code has the same ones when it is loaded."""

    def __init__(self, file: io.BytesIO, namespace: Mapping[str, Any]) -> None:
        super().__init__(file, namespace)
        self.modules: set[str] = set()

    def reducer_override(self, obj: Any) -> Any:
        is_code = isinstance(obj, type | types.FunctionType)
        self.modules.add(str((obj if is_code else type(obj)).__module__))
        return NotImplemented if is_code else super().reducer_override(obj)


def keep(store: Store, call: Call, value: Any, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Put ``value`` into blobs; the fields of its :class:`Result`. Raises BadInput for what cannot be kept."""
    stream = io.BytesIO()
    writer = _Writer(stream, namespace)
    try:
        writer.dump(value)
    except Exception as error:
        path, what = explain("the result", value, error, lambda one: _pickles(one, namespace))
        told = what if what.startswith(path) else f"{path} {what}"
        raise BadInput(f"{call}: its result cannot be kept for other trials: {told}.") from error
    regions, buffers, _ = put_buffers(store, writer.buffers)
    sizes = {sha: store.blob_path(sha).stat().st_size for sha in regions}
    return {
        "stream": store.put_blob(stream.getbuffer()),
        "regions": tuple((sha, sizes[sha]) for sha in regions),
        "buffers": tuple(buffers),
        "modules": versions(writer.modules),
    }


def load(store: Store, result: Result, namespace: dict[str, Any]) -> Any:
    """The value of ``result``. Raises StoreError if its blobs are gone or damaged."""
    regions = []
    for sha, size in result.regions:
        path = store.blob_path(sha)
        try:
            if os.stat(path).st_size != size:
                raise StoreError(f"{path} has another size than when it was written. Restore it from a copy.")
            regions.append(mapped(path))
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error}).") from error
    stream = io.BytesIO(store.get_blob(result.stream, verify=True))
    return Unpickler(stream, namespace, [regions[number] for number in result.buffers]).load()


def freeze(value: Any) -> Any:
    """``value``, with no tensor in it that gradients are computed for."""
    torch = loaded("torch")
    if torch is None:
        return value
    if isinstance(value, torch.nn.Module):
        value.requires_grad_(False)
    elif isinstance(value, torch.Tensor):
        return value.requires_grad_(False) if value.is_leaf else value.detach()
    elif isinstance(value, dict):
        for name, one in value.items():
            value[name] = freeze(one)
    elif type(value) in (list, tuple):
        return type(value)(map(freeze, value))
    return value


def _pickles(value: Any, namespace: Mapping[str, Any]) -> bool:
    try:
        _Writer(io.BytesIO(), namespace).dump(value)
    except Exception:
        return False
    return True

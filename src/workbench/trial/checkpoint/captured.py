"""A trial's state as of one moment, to be written while training continues. Law: it is written completely."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.snapshot.imported import loaded
from workbench.store.files.bundle import SMALL
from workbench.store.files.parts import Parts
from workbench.store.keeping.checkpoints import Checkpoint
from workbench.trial import torch_kinds
from workbench.trial.checkpoint import tensors
from workbench.trial.checkpoint.header import GRAPH
from workbench.trial.checkpoint.tensors import TENSORS
from workbench.trial.looking.found import Found

#: Up to this many bytes, a tensor of a found object is saved even if it is unchanged since the set-up.
SAVED_ANYWAY = 1 << 16


@dataclass(slots=True)
class Captured:
    """A checkpoint's content as of one moment: it can be written while training continues."""

    graph: memoryview
    storages: dict[str, Any]
    objects: dict[str, Any]
    unchanged: dict[str, Any]
    found: Found

    @property
    def _has_tensors(self) -> bool:
        """Whether it contains tensors. torch may be imported even though the training code does not use it."""
        return bool(self.storages or self.objects or self.unchanged)

    def write(self, folder: Path, earlier: Callable[[], Sequence[Checkpoint]] = tuple) -> dict[str, str]:
        """Write the files into ``folder``, or link those of ``earlier`` ones. Returns known digests, by file."""
        (folder / GRAPH).write_bytes(self.graph)
        parts = Parts(folder, earlier)
        if self._has_tensors:
            with open(folder / TENSORS, "wb", buffering=1 << 16) as file:
                tensors.write(file, self.storages, self.objects, self.unchanged, parts)
        return parts.digests

    def small(self) -> dict[str, bytes] | None:
        """The files as bytes; None if they are too large to share one file with others."""
        if len(self.graph) + sum(map(tensors.size_of, self.storages.values())) > SMALL:
            return None
        files = {GRAPH: bytes(self.graph)}
        if self._has_tensors:
            stream = io.BytesIO()
            tensors.write(stream, self.storages, self.objects, self.unchanged, None)
            files[TENSORS] = stream.getvalue()
        return files


def gathered(
    new: Mapping[str, Any], objects: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """All storages to save, the trees of the state dicts over them, and what of those did not change.

    new: storages that the graph refers to, by their key. objects: objects with a state dict, by name.
    """
    storages = dict(new)
    key_of = {storage._cdata: key for key, storage in new.items()}
    trees: dict[str, Any] = {}
    unchanged: dict[str, Any] = {}
    for name, value in objects.items():
        kept: dict[str, Any] = {}
        try:
            state = value.state_dict()
            _add_small(state, storages, key_of)
            trees[name] = tensors.tree(state, key_of, kept)
        except Exception:
            kept = {}  # not plain, or not available now: the graph contains it anyway
        if kept:
            unchanged[name] = kept
    return storages, trees, unchanged


def _add_small(state: Any, storages: dict[str, Any], key_of: dict[int, str]) -> None:
    """Save small tensors of a state dict whether they changed or not, so that it is complete."""
    torch = loaded("torch")
    for value in state.values() if isinstance(state, dict) else ():
        if isinstance(value, torch.Tensor) and torch_kinds.is_strided(value):
            storage = value.untyped_storage()
            if storage._cdata not in key_of and storage.nbytes() <= SAVED_ANYWAY:
                key_of[storage._cdata] = key = str(len(storages))
                storages[key] = storage

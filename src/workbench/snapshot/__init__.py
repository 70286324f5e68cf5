"""Freezing a train cell at Shift-Enter: the cell, its names, modules, notebook, environment and data.

Law: it reads the kernel and the disk, and writes blobs and one folder under ``snapshots/``; it never starts anything,
and does not import torch itself. ``cell``, ``function``, ``loading`` and ``spawned`` are used inside runners too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.snapshot.folder import Snapshot, read_snapshot, take

__all__ = ["Snapshot", "read_snapshot", "take"]


def __getattr__(name: str) -> Any:
    # Runners import only `cell` and `capture`: the code that freezes is imported on first use.
    if name in __all__:
        from workbench.snapshot import folder

        return getattr(folder, name)
    raise AttributeError(name)

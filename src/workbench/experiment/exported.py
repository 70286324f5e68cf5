"""The format of an export. Law: only the target's name decides it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from workbench import exporter
from workbench.share import export, write_table
from workbench.store import Store


def exported(
    store: Store, experiment: str, target: str | os.PathLike[str], *, checkpoints: bool, data: bool, mask: bool
) -> dict[str, Any]:
    """Export the experiment to ``target``; what was written. Raises StoreError and the like."""
    if (name := exporter.of_target(target)) is not None:
        return exporter.found(name).write(store, exporter.Order(experiment, os.fspath(target)))
    path = Path(target)
    if path.suffix in (".csv", ".parquet"):
        return write_table(store, experiment, path)
    return export(store, experiment, path, checkpoints=checkpoints, data=data, mask=mask)

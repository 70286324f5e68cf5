"""What an experiment is exported as. Law: the target's name says it, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from workbench.share import export, write_table
from workbench.share.container import NAMES, write_container
from workbench.share.mirror import write
from workbench.store import Store
from workbench.store.lists.mirrors import KINDS


def exported(
    store: Store, experiment: str, target: str | os.PathLike[str], *, checkpoints: bool, data: bool, mask: bool
) -> dict[str, Any]:
    """Export the experiment to ``target``; what was written. Raises StoreError and its kin."""
    if isinstance(target, str) and target.partition(":")[0] in KINDS:
        return write(store, experiment, target)
    path = Path(target)
    if path.name in NAMES:
        return write_container(store, experiment, path)
    if path.suffix in (".csv", ".parquet"):
        return write_table(store, experiment, path)
    return export(store, experiment, path, checkpoints=checkpoints, data=data, mask=mask)

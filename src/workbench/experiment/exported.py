"""The format of an export. Law: only the target's name decides it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench import exporter
from workbench.errors import BadOption
from workbench.share import export, write_table
from workbench.store import Store

#: A table of all points, by the end of its name.
TABLES = (".csv", ".parquet")
ARCHIVE = ".zip"


def exported(
    store: Store, experiment: str, target: str | os.PathLike[str], *, checkpoints: bool, data: bool, mask: bool
) -> dict[str, Any]:
    """Export the experiment to ``target``; what was written. Raises StoreError and the like."""
    check(target, {"checkpoints=False": not checkpoints, "data=True": data, "mask=True": mask})
    if (name := exporter.of_target(target)) is not None:
        return exporter.found(name).write(store, exporter.Order(experiment, os.fspath(target)))
    path = Path(target)
    if path.suffix in TABLES:
        return write_table(store, experiment, path)
    return export(store, experiment, path, checkpoints=checkpoints, data=data, mask=mask)


def check(target: str | os.PathLike[str], options: Mapping[str, bool]) -> None:
    """Raise BadOption for a name that says no format, and for an option that its format does not have.

    options: those that only a ``.zip`` has, as the user writes them, and whether each was given.
    """
    is_archive = Path(target).suffix == ARCHIVE and exporter.of_target(target) is None
    given = [option for option, is_given in options.items() if is_given]
    if given and not is_archive:
        raise BadOption(f"{given[0]} is for a .zip; {os.fspath(target)} was given. Leave it out, or name a .zip.")
    if not is_archive and exporter.of_target(target) is None and Path(target).suffix not in TABLES:
        raise BadOption(
            f"{os.fspath(target)}: expected a name that ends with {ARCHIVE} (for another store), {' or '.join(TABLES)} "
            "(all points), or a place in another program such as mlflow:runs."
        )

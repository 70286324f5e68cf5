"""`slice`: the minimal notebook that makes a trial. Law: it writes one new file, and overwrites an existing one only
with --force."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from workbench.cli.codes import OK
from workbench.cli.found import store_of
from workbench.cli.words import clean, say, say_json
from workbench.compare.section import counted
from workbench.errors import BadOption, WorkbenchError
from workbench.records.names import trial_label
from workbench.snapshot import read_snapshot
from workbench.snapshot.reading.slicing import minimal
from workbench.store import Store
from workbench.store.lists.catalog import resolve


def sliced(given: Any) -> int:
    """Write the notebook that makes a trial."""
    store = store_of(given)
    reference = resolve(store, given.ref)
    spec = store.read_spec(reference.experiment, viewing=True)
    if spec.snapshot is None:
        raise BadOption(f"{spec.label} has no snapshot: it was not started from a notebook. Choose one that was.")
    snapshot = read_snapshot(store, spec.snapshot)
    found = minimal(spec, snapshot)
    label = spec.label if reference.trial is None else f"{spec.label}-{trial_label(reference.trial)}"
    path = Path(given.output or f"{label}.ipynb").expanduser()
    if path.suffix != ".ipynb":
        raise BadOption(f"--output {path}: expected a notebook, with a name that ends in .ipynb.")
    text = json.dumps(found.notebook(_kernel(store, snapshot)), indent=1, ensure_ascii=False) + "\n"
    try:
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if given.force else os.O_EXCL)
        with open(os.open(path, flags, 0o666), "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadOption(f"{path} already exists. Name another with --output, or add --force.") from None
    executed = [int(cell["number"]) for cell in found.cells]
    if given.json:
        told = {"path": str(path), "cells": executed, "left_out": found.left_out, "missing": found.missing}
        say_json({**told, "masked": found.masked})
        return OK
    say(f"{clean(path)}: {counted(len(executed), 'cell')} of {len(executed) + found.left_out} make {clean(label)}.")
    if found.missing:
        say(f"Note: no executed cell defines {clean(', '.join(found.missing))}; they came from elsewhere.")
    if found.masked:
        say(
            f"Note: a secret was masked in what was executed as {', '.join(map(str, found.masked))}; put it back there."
        )
    return OK


def _kernel(store: Store, snapshot: dict[str, Any]) -> dict[str, Any] | None:
    """The kernelspec of the notebook that started it."""
    kept = snapshot.get("notebook") or {}
    try:
        content = json.loads(store.get_blob(kept["sha256"]))
        spec = content["metadata"]["kernelspec"]
    except (KeyError, TypeError, ValueError, OSError, WorkbenchError):
        return None
    return dict(spec) if isinstance(spec, dict) and isinstance(spec.get("name"), str) else None

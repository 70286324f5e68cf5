"""The progress of a mirror. Law: it is stored beside the experiment, in ``mirror/<kind>.json``; only the process that
follows the experiment writes it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from workbench.records import SCHEMA, Json
from workbench.store.files.atomic import make_folder, read_json, write_json
from workbench.store.layout import Store


@dataclass(slots=True)
class Progress:
    """The progress of a mirror.

    cursor: the series' number up to which points are written. sending: the number up to which they were being sent; if
    it is higher, it is unknown how many of those arrived. runs: what the writer knows of each trial's run, by number.
    ended: trials whose end is written, with their state. word: its problem, in words; None if there is none.
    is_done: the experiment has ended, and everything is written.
    """

    cursor: int = 0
    sending: int = 0
    runs: dict[str, Json] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    word: str | None = None
    is_done: bool = False
    schema: int = SCHEMA


def place(store: Store, experiment: str, kind: str) -> Path:
    """The file of a mirror's progress."""
    return store.experiment(experiment).folder / "mirror" / f"{kind}.json"


def progress(store: Store, experiment: str, kind: str) -> Progress:
    """The progress of the mirror; from the start if the file cannot be read."""
    try:
        data = read_json(place(store, experiment, kind))
    except (OSError, ValueError):
        return Progress()
    known = Progress.__dataclass_fields__
    return Progress(**{key: value for key, value in data.items() if key in known})


def keep(store: Store, experiment: str, kind: str, known: Progress) -> None:
    """Save the progress; it is on the disk when this returns."""
    path = place(store, experiment, kind)
    make_folder(path.parent)
    write_json(path, asdict(known))

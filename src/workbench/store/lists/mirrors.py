"""Mirrors: other programs that show an experiment's trials while it trains; their names, and the progress of each.

Law: a name is checked before anything starts, and contains no secret. The progress is beside the experiment, in
``mirror/<kind>.json``, written only by the mirroring process.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from workbench.errors import BadOption
from workbench.records import SCHEMA, Json
from workbench.store.files.atomic import make_folder, read_json, write_json
from workbench.store.layout import Store

#: Kinds, with the module that each needs and how to install it.
KINDS = {
    "mlflow": ("mlflow", "pip install mlflow-skinny, or workbench[mlflow]"),
    "tensorboard": ("tensorboard", "pip install tensorboard"),
    "wandb": ("wandb", "pip install wandb"),
}
#: The text for an experiment's mirrors while something has not been written and there is no error.
MIRRORING = "is being written"
_PROJECT = re.compile(r"[A-Za-z0-9_.-]{1,128}(/[A-Za-z0-9_.-]{1,128})?")


@dataclass(frozen=True, slots=True)
class Mirror:
    """The target: ``where`` is an address for MLflow, a folder for TensorBoard, a project for W&B ('' is its name).

    offline, folder: W&B writes into that folder, and only there if it is offline.
    """

    kind: str
    where: str
    offline: bool = False
    folder: str = ""

    @classmethod
    def of(cls, data: Mapping[str, Json]) -> Mirror:
        """From the plain data in a spec."""
        known = cls.__dataclass_fields__
        return cls(**{key: value for key, value in data.items() if key in known})

    def to_json(self) -> dict[str, Json]:
        """Plain data for a spec."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.kind}:{self.where}" if self.where else self.kind


def read(
    words: Iterable[str], written: str = "--mirror", *, installed: Callable[[str], object] = find_spec
) -> list[Mirror]:
    """The mirrors for words such as ``mlflow``, ``mlflow:http://host:5000``, ``tensorboard:runs`` or
    ``wandb:project``; folders are relative to the current one. Raises BadOption before anything starts, also if a
    package is not installed.
    """
    found: dict[str, Mirror] = {}
    for word in words:
        kind, _, where = word.strip().partition(":")
        if kind not in KINDS:
            near = difflib.get_close_matches(kind, KINDS, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]}?" if near else f" For example: {written} mlflow."
            raise BadOption(f"{written} {word!r}: expected {', '.join(KINDS)}, with :WHERE behind it or without.{hint}")
        if kind in found:
            raise BadOption(f"{written} names {kind} twice; expected each once.")
        module, how = KINDS[kind]
        if installed(module) is None:
            raise BadOption(f"{written} {kind}: this Python has no {module}. {how[0].upper()}{how[1:]}.")
        found[kind] = _READERS[kind](where.strip(), f"{written} {word}")
    return list(found.values())


def recorded(words: Iterable[str], written: str = "--mirror") -> tuple[Json, ...]:
    """The same as plain data for a spec; a word may name several, separated by commas."""
    names = [part for word in words for part in word.split(",") if part.strip()]
    return tuple(one.to_json() for one in read(names, written))


def _mlflow(where: str, given: str) -> Mirror:
    where = where or os.environ.get("MLFLOW_TRACKING_URI", "") or "mlruns"
    if "://" not in where:
        if ":" in where.partition("/")[0]:
            raise BadOption(
                f"{given}: expected a folder or an address, such as mlflow:mlruns or mlflow:http://host:5000."
            )
        return Mirror("mlflow", _folder(where, given).as_uri())
    if urlsplit(where).password is not None:
        raise BadOption(
            f"{given.partition('://')[0]}://…: an address with a password in it would be recorded. Leave it out, and "
            "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or write ~/.mlflow/credentials."
        )
    return Mirror("mlflow", where)


def _tensorboard(where: str, given: str) -> Mirror:
    if "://" in where:
        raise BadOption(f"{given}: expected a folder, such as tensorboard:runs.")
    return Mirror("tensorboard", str(_folder(where or "runs", given)))


def _wandb(where: str, given: str) -> Mirror:
    if where and not _PROJECT.fullmatch(where):
        raise BadOption(f"{given}: expected a project of W&B, such as wandb:digits or wandb:team/digits.")
    folder = _folder(os.environ.get("WANDB_DIR") or ".", given)
    return Mirror("wandb", where, os.environ.get("WANDB_MODE") == "offline", str(folder))


def _folder(where: str, given: str) -> Path:
    if any(ord(letter) < 32 for letter in where):
        raise BadOption(f"{given!r}: expected a folder.")
    path = Path(os.path.abspath(Path(where).expanduser()))
    if path.exists() and not path.is_dir():
        raise BadOption(f"{given}: {path} is a file; expected a folder.")
    return path


_READERS: dict[str, Callable[[str, str], Mirror]] = {"mlflow": _mlflow, "tensorboard": _tensorboard, "wandb": _wandb}


# ---------------------------------------------------------------------------------------------------------------------
# What is known of one


@dataclass(slots=True)
class Progress:
    """How far a mirror has come.

    cursor: the series' number up to which points have arrived. sending: the number up to which they were being sent; if
    it is higher, it is not known how many of those arrived. runs: the writer's facts about each trial's run, by number.
    ended: trials whose end has arrived, and their end. word: its problem, in words; None if there is none. is_done: the
    experiment has ended, and everything has arrived.
    """

    cursor: int = 0
    sending: int = 0
    runs: dict[str, Json] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    word: str | None = None
    is_done: bool = False
    schema: int = SCHEMA


def place(store: Store, experiment: str, kind: str) -> Path:
    """The path of a mirror's progress."""
    return store.experiment(experiment).folder / "mirror" / f"{kind}.json"


def progress(store: Store, experiment: str, kind: str) -> Progress:
    """The mirror's progress; from the beginning if it cannot be read."""
    try:
        data = read_json(place(store, experiment, kind))
    except (OSError, ValueError):
        return Progress()
    known = Progress.__dataclass_fields__
    return Progress(**{key: value for key, value in data.items() if key in known})


def keep(store: Store, experiment: str, kind: str, known: Progress) -> None:
    """Store the progress; it is on disk when this returns."""
    path = place(store, experiment, kind)
    make_folder(path.parent)
    write_json(path, asdict(known))

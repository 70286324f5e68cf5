"""The words with which a user names mirrors: ``mlflow:http://host:5000``. Law: a word is checked before anything
starts, and contains no secret.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from workbench.errors import BadOption
from workbench.store.lists.mirrors import Mirror

#: Kinds, with the module that each needs and the package to install.
KINDS = {
    "mlflow": ("mlflow", "pip install mlflow-skinny, or workbench[mlflow]"),
    "tensorboard": ("tensorboard", "pip install tensorboard"),
    "wandb": ("wandb", "pip install wandb"),
}
_PROJECT = re.compile(r"[A-Za-z0-9_.-]{1,128}(/[A-Za-z0-9_.-]{1,128})?")


def read(
    words: Iterable[str], written: str = "--mirror", *, installed: Callable[[str], object] = find_spec
) -> list[Mirror]:
    """The mirrors named by words such as ``mlflow``, ``mlflow:http://host:5000``, ``tensorboard:runs`` or
    ``wandb:project``; folders are relative to the current one. Raises BadOption before anything starts, also for a
    package that this Python lacks.
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

"""Names of experiments, trials and columns. Law: they become titles, folders and addresses, and hold nothing active."""

from __future__ import annotations

import re
from collections.abc import Collection

from workbench.errors import BadName

_NAME = re.compile(r"[^\W_][\w .+-]{0,99}", re.UNICODE)
_TRIAL = re.compile(r"t(\d{1,9})")


def checked_name(name: str) -> str:
    """``name`` itself, if it is valid for an experiment: letters, digits, space and ``._+-``, at most 100 characters.

    Raises BadName: names become folder labels, titles and addresses, so they must contain nothing active.
    """
    if not _NAME.fullmatch(name) or ".." in name or name != name.strip():
        shown = f"{name!r}" if len(name) <= 40 else f"{name[:37] + '...'!r} ({len(name)} characters)"
        raise BadName(
            f"{shown} is not a name for an experiment: expected 1 to 100 letters, digits, spaces or . _ + -, starting "
            "with a letter or digit and without '..'. Choose a name such as digits or resnet-18."
        )
    return name


def name_of(label: str) -> str:
    """``digits`` for ``digits@1``."""
    return label.partition("@")[0]


def trial_label(trial: int) -> str:
    """``t0007`` for 7."""
    return f"t{trial:04d}"


def trial_number(label: str) -> int:
    """7 for ``t0007``. Raises BadName for anything else."""
    match = _TRIAL.fullmatch(label)
    if match is None:
        raise BadName(f"{label!r} is not a trial: expected t and a number. For example: t0007.")
    return int(match.group(1))


def column_of(kind: str, name: str, taken: Collection[str]) -> str:
    """The name of a table's column; with its kind (``configuration.step``) where another column has the name."""
    return f"{kind}.{name}" if name in taken else name

"""What a leg refuses to resume. Law: a trial continues exactly, or an error says what differs and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.errors import CannotResume
from workbench.records.names import trial_label
from workbench.trial.api.files import fingerprint, stamp


def refuse_another(names: Sequence[str], read: Mapping[str, tuple[int, int]], trial: int) -> None:
    """Raises CannotResume if the set-up made ``names`` differently than the first time: no checkpoint has the original.

    read: size and modification time of the files that the first set-up read.
    """
    if not names:
        return
    changed = [path for path, before in read.items() if stamp(path) != before]
    files = f" Since then {', '.join(changed[:4])} changed." if changed else ""
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    raise CannotResume(
        f"{trial_label(trial)} cannot continue exactly: this time the set-up made {', '.join(names[:6])}{more} "
        f"differently than when the trial began.{files} Make the same each time (from trial.seed, or a file that stays "
        "as it is), or make it in a cell before, so that the experiment takes it along; then train it again with "
        "--again."
    )


def same_data(path: Path, known: Mapping[str, Any]) -> dict[str, Any]:
    """The fingerprint of a file or folder that training reads. Raises CannotResume if it differs from ``known``."""
    found = fingerprint(path)
    before = known.get(str(path))
    if before is not None and before["digest"] != found["digest"]:
        raise CannotResume(
            f"{path} is not what it was when the trial began ({before['size']} bytes then, {found['size']} now). "
            "Put the file back, or start the experiment again with --again."
        )
    return found

"""Settings of the process, environment variables and the working directory that the loop changes. Law: what differs
from the set-up's is saved with the state, and put back; what belongs to one process, and secrets, are not.

Libraries keep numbers of processes and ports in variables, so only those count that the training code names itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from workbench.errors import BadSetting, CannotResume
from workbench.snapshot.settings import settings
from workbench.snapshot.surroundings import variables
from workbench.trial.process.surroundings import is_of_slot

SETTING = "its value cannot be saved: after a resume it is as the set-up left it"
HIDDEN = "it holds a secret, which no checkpoint contains: after a resume it is as the set-up left it"


class Phases:
    """The settings and variables when the set-up was done, and what differs from them later."""

    def __init__(self) -> None:
        self._settings, self._variables = settings.read(), _variables()
        #: The working directory when the set-up was done.
        self.folder = _folder()

    def changed(self, texts: Callable[[], frozenset[str]]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """Entries for a checkpoint's header, and what cannot be saved: names with reasons.

        texts: all texts that the training code contains.
        """
        found = settings.changed(self._settings)
        lost = [(name, SETTING) for name, value in found.items() if value is None]
        entries: dict[str, Any] = {"settings": found} if found else {}
        now, before = _variables(), self._variables
        if now != before:
            names = {os.fsdecode(name) for name in now.keys() | before.keys() if now.get(name) != before.get(name)}
            values = {name: os.environ.get(name, "") for name in names & texts() if not is_of_slot(name)}
            kept = variables.travelling(values)
            secret = {name for name, value in kept.items() if variables.holds_secret(name, value)}
            lost += [(f"the variable {name}", HIDDEN) for name in sorted(secret)]
            entries["variables"] = {name: os.environ.get(name) for name in sorted(kept.keys() - secret)}
        if (folder := _folder()) != self.folder:
            entries["folder"] = os.path.relpath(folder, self.folder) if folder.startswith(f"{self.folder}/") else folder
        return entries, lost


def put(saved: Mapping[str, Any], below: str) -> None:
    """Apply the entries of a checkpoint's header. Raises CannotResume.

    below: the working directory when the set-up was done, in which the saved one may be.
    """
    for name, value in saved.get("variables", {}).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    folder = saved.get("folder")
    try:
        if folder is not None:
            os.chdir(os.path.join(below, folder))
    except OSError as error:
        raise CannotResume(
            f"the loop had changed the working directory to {folder}, and that is not possible now ({error.strerror}). "
            "Make the folder in the set-up, before trial.steps()."
        ) from None
    try:
        settings.put_changed(saved.get("settings", {}))
    except BadSetting as error:
        raise CannotResume(str(error)) from None


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _variables() -> dict[bytes, bytes]:
    # As bytes: comparing them at each checkpoint decodes nothing.
    return dict(os.environ._data)  # type: ignore[attr-defined]

"""Settings of the process, environment variables and the working directory that the loop changes. Law: what differs
from the set-up's is saved with the state, and put back; what belongs to one process, and secrets, are not.

Libraries keep numbers of processes and ports in variables, so only those count that the training code names itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from workbench.errors import BadSetting, CannotResume
from workbench.snapshot.imported import loaded
from workbench.snapshot.settings import libraries, settings
from workbench.snapshot.surroundings import variables
from workbench.trial.process.surroundings import is_of_slot

_MODULES = ("torch", "numpy", "decimal")
SETTING = "its value cannot be saved: after a resume it is as the set-up left it"
HIDDEN = "it holds a secret, which no checkpoint contains: after a resume it is as the set-up left it"


class Phases:
    """The settings and variables when the set-up was done, and what differs from them later."""

    def __init__(self) -> None:
        self._settings, self._variables = settings.read(), _variables()
        #: The working directory when the set-up was done.
        self.folder = _folder()
        self._late = [name for name in _MODULES if loaded(name) is None]
        self._glances = _glances()
        self._glance = [glance() for glance in self._glances]

    def changed(self, texts: Callable[[], frozenset[str]]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """Entries for a checkpoint's header, and what cannot be saved: names with reasons.

        texts: all texts that the training code contains.
        """
        found = settings.changed(self._settings) if self._differ() else {}
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

    def _differ(self) -> bool:
        """Whether settings may have changed."""
        return [glance() for glance in self._glances] != self._glance or any(map(loaded, self._late))


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


def _glances() -> list[Callable[[], Any]]:
    """Calls whose values differ if a setting of a module that is imported now does: less work than reading them all."""
    torch, numpy, decimal = loaded("torch"), loaded("numpy"), loaded("decimal")
    found: list[Callable[[], Any]] = [sys.getrecursionlimit, partial(libraries.is_flushing, torch)]
    if torch is not None:
        found += [torch.get_default_dtype, torch.is_grad_enabled, torch.are_deterministic_algorithms_enabled]
        found += [partial(torch.is_autocast_enabled, device) for device in ("cpu", "cuda")]
        found.append(partial(libraries.precision, torch))
        found += [partial(getattr, torch.backends.cudnn, name) for name in libraries.CUDNN]
        found.append(partial(getattr, torch.backends.mkldnn, "enabled"))
        found.append(partial(getattr, getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None))
    if numpy is not None:
        found.append(numpy.geterr)
    if decimal is not None:
        found.append(lambda: (decimal.getcontext().prec, decimal.getcontext().rounding))
    return found


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _variables() -> dict[bytes, bytes]:
    # As bytes: comparing them at each checkpoint decodes nothing.
    return dict(os.environ._data)  # type: ignore[attr-defined]

"""What writes experiments for other programs is found by an entry point. Law: this module knows names, and imports no
exporter; what is installed is read only when an exporter is used.

An installed distribution declares exporters in its ``pyproject.toml``, under the names below::

    [project.entry-points."workbench.exporters"]
    model = "workbench.exporters.model"
    containerfile = "workbench.exporters.containerfile"

Each is a module, or any other object, with the functions of :class:`Exporter`.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from workbench import interpreter
from workbench.errors import BadOption

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from workbench.store import Store

GROUP = "workbench.exporters"
Name = Literal["model", "containerfile"]

#: What each exporter writes, in words.
_WRITES: dict[Name, str] = {
    "model": "trained models",
    "containerfile": "Containerfiles",
}
#: Which exporter writes a file, by the names by which tools find it.
_OF_FILE: dict[str, Name] = {"Containerfile": "containerfile", "Dockerfile": "containerfile"}


@dataclass(frozen=True, slots=True)
class Order:
    """What a person wants to have written: ``ref``, an experiment or a trial of it, to ``target``.

    target: as it was typed; where None, the exporter chooses it. form, inputs, object: of a model its format, what it
    takes (such as ``float32[8,64]``, one for each argument), and its name in the training code.
    """

    ref: str
    target: str | None
    form: str | None = None
    inputs: tuple[str, ...] = ()
    object: str | None = None


@runtime_checkable
class Exporter(Protocol):
    """Writes experiments for another program."""

    def write(self, store: Store, order: Order) -> dict[str, Any]:
        """Carry out the order; what was written, as plain data. Raises WorkbenchError."""

    def lines(self, told: dict[str, Any]) -> list[str]:
        """What ``write`` told, as lines for a person."""


def of_target(target: str) -> Name | None:
    """The exporter that writes ``target``; None for a file that Workbench writes itself."""
    return _OF_FILE.get(Path(target).name)


def found(name: Name) -> Exporter:
    """The exporter that is installed for this Python under ``name``.

    Raises BadOption, with what to install, where there is none, where two distributions have one, and where it cannot
    be imported.
    """
    points = _points(name)
    if not points:
        raise BadOption(
            f"no exporter for {_WRITES[name]} is installed for {sys.executable}. Run {sys.executable} -m pip install "
            "'workbench[exporters]' (in a checkout of Workbench: pip install -e . again)."
        )
    if len(points) > 1:
        raise BadOption(
            f"several distributions have an exporter for {_WRITES[name]}: {', '.join(points)}. Uninstall all but one."
        )
    [(distribution, point)] = points.items()
    try:
        made = point.load()
    except Exception as error:  # the code of whoever made the distribution
        why = f"{type(error).__name__}: {error}"
        raise BadOption(
            f"the exporter for {_WRITES[name]} in {distribution} cannot be imported ({why}). Install it again."
        ) from error
    if not isinstance(made, Exporter):
        raise BadOption(
            f"the exporter for {_WRITES[name]} in {distribution}, {point.value}, lacks functions that Workbench calls. "
            f"Install a version of {distribution} that fits this Workbench."
        )
    return made


def _points(name: Name) -> dict[str, EntryPoint]:
    """Entry points by distribution."""
    from importlib.metadata import distributions  # 40 ms, for those alone who export

    folders = _folders()
    having = [one for one in distributions(path=folders) if one.entry_points.select(group=GROUP, name=name)]
    points: dict[str, EntryPoint] = {}
    for distribution in {str(one.metadata["Name"]) for one in having if "Name" in one.metadata}:
        # Where there are two of a name, Python imports what lies first on the path.
        first = next(iter(distributions(name=distribution, path=folders)))
        for point in first.entry_points.select(group=GROUP, name=name):
            points[distribution] = point
    return dict(sorted(points.items()))


def _folders() -> list[str]:
    """Where distributions are looked for: the import path without the current folder, in which anything may lie."""
    here = os.path.realpath(os.curdir)
    return [
        entry
        for entry in sys.path
        if os.path.isabs(entry) and (interpreter.is_installed(entry) or os.path.realpath(entry) != here)
    ]

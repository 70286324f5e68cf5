"""What writes experiments for other programs is found by an entry point. Law: this module knows names, and imports no
exporter; what is installed is read only when an exporter is used.

An installed distribution declares exporters in its ``pyproject.toml``, under the names below::

    [project.entry-points."workbench.exporters"]
    model = "workbench.exporters.model"
    containerfile = "workbench.exporters.containerfile"
    mirrors = "workbench.exporters.mirrors"

Each is a module, or any other object, with the functions of :class:`Exporter`, and ``mirrors`` with those of
:class:`Mirroring`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, runtime_checkable

from workbench import interpreter
from workbench.errors import BadOption

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from workbench.records import Json, Spec
    from workbench.store import Store

GROUP = "workbench.exporters"
Name = Literal["model", "containerfile", "mirrors"]

#: What each exporter writes, in words.
_WRITES: dict[Name, str] = {
    "model": "trained models",
    "containerfile": "Containerfiles",
    "mirrors": "runs of mlflow, tensorboard and wandb",
}
#: Programs that mirrors are written into, as a person names them: ``mlflow:http://host:5000``.
PROGRAMS = ("mlflow", "tensorboard", "wandb")
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


class Keeper(Protocol):
    """Writes experiments of one store while they train. An engine asks it, and waits for nothing."""

    def take(self, spec: Spec) -> None:
        """Start to write to the programs that the spec names; those already started go on."""

    def look(self) -> None:
        """Called about once a second."""

    def word(self, experiment: str) -> str | None:
        """How the experiment's mirrors are, in words; None where all is written."""

    def forget(self, experiment: str) -> None:
        """The experiment is being deleted: nothing is written any more when this returns."""

    def is_busy(self, resting: Collection[str] = ()) -> bool:
        """Whether something is being written that will soon be there. resting: experiments of which nothing comes."""

    def close(self) -> None:
        """The engine leaves. It may block for seconds."""


@runtime_checkable
class Mirroring(Exporter, Protocol):
    """Writes while an experiment trains as well."""

    def targets(self, words: Sequence[str], written: str) -> tuple[Json, ...]:
        """The mirrors that ``words`` name, as plain data for a spec (``store.lists.mirrors.Mirror``).

        written: the option behind which they stand. Raises BadOption before anything starts.
        """

    def keeper(self, store: Store, tell: Callable[[str, str | None], None]) -> Keeper:
        """One for ``store``. tell: hears an experiment's id and its word whenever that changes."""


def of_target(target: str | os.PathLike[str]) -> Name | None:
    """The exporter that writes ``target``; None for a file that Workbench writes itself."""
    if isinstance(target, str) and target.partition(":")[0] in PROGRAMS:
        return "mirrors"
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
    except Exception as error:  # the distribution's own code, which may do anything
        why = f"{type(error).__name__}: {error}"
        raise BadOption(
            f"the exporter for {_WRITES[name]} in {distribution} cannot be imported ({why}). Install it again."
        ) from error
    if not isinstance(made, Mirroring if name == "mirrors" else Exporter):
        raise BadOption(
            f"the exporter for {_WRITES[name]} in {distribution}, {point.value}, lacks functions that Workbench calls. "
            f"Install a version of {distribution} that fits this Workbench."
        )
    return made


def mirroring() -> Mirroring:
    """The exporter for mirrors; see :func:`found`."""
    return cast(Mirroring, found("mirrors"))


def mirrored(words: Iterable[str], written: str = "--mirror") -> tuple[Json, ...]:
    """What :meth:`Mirroring.targets` gives; a word may name several with commas between. No words need no exporter."""
    named = [part for word in words for part in word.split(",") if part.strip()]
    return mirroring().targets(named, written) if named else ()


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

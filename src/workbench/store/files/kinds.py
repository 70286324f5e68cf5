"""Every kind of file in a store, as a table. Law: it is data; a file without a row was not written by Workbench."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_ID = r"[0-9a-z][0-9a-z-]*"
_EXPERIMENT = rf"experiments/{_ID}"
_TRIAL = rf"{_EXPERIMENT}/(?:trials|checks)/t\d+"
_KEPT = rf"{_TRIAL}/(?:checkpoints|passing/checkpoints|setup/checkpoints)"

#: How a kind of file is checked: by parsing it (``json``), against another file (``named``: a blob's name, a
#: checkpoint's manifest), by a special reader, or not at all.
Look = Literal["json", "journal", "series", "named", "none"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of file: its name, its path below the store, and how damage to it is detected.

    loss: what is lost with it, and what rebuilds it.
    """

    name: str
    pattern: re.Pattern[str]
    look: Look
    loss: str


def _kind(name: str, pattern: str, look: Look, loss: str) -> Kind:
    return Kind(name, re.compile(pattern), look, loss)


ANEW = "the engine rebuilds it"
KINDS: tuple[Kind, ...] = (
    _kind("unfinished", r"(?:.*/)?(?:\.[^/]+\.writing(?:-\w+)?|\.(?:writing|removed)-[^/]+)(?:/.*)?", "none",
          "it was never in use; cleaning up deletes it"),
    _kind("broken", r"(?:.*/)?[^/]+\.broken-\d+(?:-wal|-shm|-journal)?(?:/.*)?", "none",
          "it was moved away because it was damaged; remove it when you no longer need it"),
    _kind("catalog", r"catalog\.json", "json", ANEW),
    _kind("store journal", r"events\.jsonl", "journal", "pins, tags, notes, names and answers; experiments stay"),
    _kind("engine", r"engine\.json|cluster\.json", "json", ANEW),
    _kind("lock", r"engine\.lock", "none", ANEW),
    _kind("engine log", r"engine\.log(?:\.\d+)?", "none", "what the engine printed"),
    _kind("notify", r"notify\.json", "json", "who is told; `workbench notify` sets it again"),
    _kind("mark", rf"published\.json|{_EXPERIMENT}/foreign\.json|snapshots/[0-9a-f]+/foreign\.json", "json",
          "that it came from elsewhere"),
    _kind("own mark", r"mark\.json", "none", "that the store is yours; `workbench adopt` says so again"),
    _kind("held", rf"{_EXPERIMENT}/held\.json|notify\.json\.adopted", "none",
          "that it was unfinished when the store was adopted"),
    _kind("request", r"requests/[^/]+", "none", "what was requested; the engine moves away what it cannot read"),
    _kind("refused request", r"requests/refused/.*", "none", "nothing: it was refused"),
    _kind("document", r"documents/[^/]+\.json", "json", "which open notebook a cell came from"),
    _kind("blob", r"blobs/[0-9a-f]{64}", "named", "captured values, code or data"),
    _kind("snapshot", r"snapshots/[0-9a-f]+/(?:snapshot|cells|environment|data)\.json", "json",
          "a frozen notebook, its packages and data"),
    _kind("snapshot's notebook", r"snapshots/[0-9a-f]+/notebook\.ipynb", "json", "the frozen notebook's file"),
    _kind("snapshot's code", r"snapshots/[0-9a-f]+/code/.*", "none", "the project's modules as they were"),
    _kind("notebook run", rf"notebooks/{_ID}/run\.json", "json", "how an executed notebook ended"),
    _kind("notebook's file", rf"notebooks/{_ID}/.*", "none", "an executed notebook"),
    _kind("environment", r"environments/.*", "none", "packages that were installed again"),
    _kind("cached result", r"cached/[0-9a-f]{64}\.json", "json", "a cached result of a set-up; it is made again"),
    _kind("cached lock", r"cached/lock", "none", ANEW),
    _kind("spec", rf"{_EXPERIMENT}/spec\.json", "json", "what defines the experiment"),
    _kind("journal", rf"{_EXPERIMENT}/events\.jsonl", "journal", "the experiment's facts and decisions"),
    _kind("series", rf"{_EXPERIMENT}/series\.db", "series", "curves; levels come back from the journal"),
    _kind("beside series", rf"{_EXPERIMENT}/series\.db-(?:wal|shm|journal)", "none", "the newest points"),
    _kind("data", rf"{_EXPERIMENT}/data\.json", "json", "which blobs hold data that was read"),
    _kind("set-up", rf"{_EXPERIMENT}/setup\.json", "json", "what the set-up makes differently each time"),
    _kind("set-up lock", rf"{_EXPERIMENT}/setup\.lock", "none", ANEW),
    _kind("mirror", rf"{_EXPERIMENT}/mirror[^/]*(?:/.*)?", "none", "how far a mirror has got; it is written again"),
    _kind("manifest", rf"{_KEPT}/step-\d+(?:\.old)?/manifest\.json", "json", "a checkpoint"),
    _kind("checkpoint", rf"{_KEPT}/step-\d+(?:\.old)?/.*", "named", "a checkpoint"),
    _kind("small checkpoints", rf"{_TRIAL}(?:\.(?:passing|setup))?\.zip(?:\.old)?", "named",
          "small checkpoints of a trial"),
    _kind("packed", rf"{_EXPERIMENT}/packed\.sqlar(?:-journal)?", "named",
          "small checkpoints and logs of an experiment that has ended"),
    _kind("fence", rf"{_EXPERIMENT}/(?:trials|checks)/attempts|{_KEPT}/attempt", "none", ANEW),
    _kind("storage", rf"{_TRIAL}/remote(?:/.*)?", "none", "which copies lie in the storage"),
    _kind("log", rf"{_TRIAL}[/.]log\.txt(?:\.\d+)?", "none", "what the training code printed"),
    _kind("kept file", rf"{_TRIAL}/files/.*", "none", "a figure or file that the training code kept"),
    _kind("rank", rf"{_TRIAL}/ranks/.*", "none", "what the other ranks of a trial printed"),
    _kind("passing", rf"{_TRIAL}/passing/.*", "none", "a checkpoint between levels"),
)  # fmt: skip


def kind_of(relative: str) -> Kind | None:
    """The kind of the file with this path below the store (with ``/``); None if Workbench does not write such a
    file."""
    return next((kind for kind in KINDS if kind.pattern.fullmatch(relative)), None)

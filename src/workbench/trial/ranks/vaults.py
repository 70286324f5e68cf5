"""Checkpoints of a leg of several ranks. Law: one checkpoint holds all ranks, so it is complete or not there.

Each rank saves its own state, as a leg of one rank does: random numbers, counters, whatever its names reach. The other
ranks write theirs elsewhere, and the first one puts them under ``ranks/`` in its folder before that is published. Large
parts that are the same on all ranks (parameters, optimizers' moments) are one file with several names. What a framework
saves by itself is the first rank's alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from workbench.errors import StoreError
from workbench.store.files.atomic import telling
from workbench.store.files.inside import make_inside
from workbench.store.files.parts import NAMED
from workbench.store.keeping.checkpoints import Checkpoint, Folder
from workbench.trial.course.saver import Vault
from workbench.trial.course.vault import Small, Write
from workbench.trial.ranks.meeting import Ranks

#: The folder with the other ranks' states in a checkpoint, and in a trial's folder.
RANKS = "ranks"


def part_of(folder: Folder, index: int) -> Folder:
    """The folder of a rank's state in the checkpoint in ``folder``."""
    own = folder / RANKS / str(index)
    return own if index and own.exists() else folder


class FirstVault:
    """The first rank's: ``vault``, whose checkpoints hold the other ranks too."""

    def __init__(self, vault: Vault, ranks: Ranks) -> None:
        self._vault, self._ranks = vault, ranks
        self._count = 0
        self._newest: tuple[int, Folder] | None = None
        self._setup: Folder | None = None

    def tell_resumes(self) -> None:
        """Tell the other ranks from what this leg resumes."""
        found = None if self._newest is None else [self._newest[0], str(self._newest[1])]
        setup = None if self._setup is None else str(self._setup)
        self._ranks.say("resumes", {"checkpoint": found, "setup": setup, "is_passing": self.is_passing})

    @property
    def skipped(self) -> list[Any]:
        return self._vault.skipped

    @property
    def is_passing(self) -> bool:
        return self._vault.is_passing

    def newest(self, at_most: int) -> tuple[int, Folder] | None:
        self._newest = self._vault.newest(at_most)
        return self._newest

    def setup(self) -> Folder | None:
        self._setup = self._vault.setup()
        return self._setup

    def earlier(self) -> Sequence[Checkpoint]:
        return self._vault.earlier()

    def keep(self, step: int, write: Write, *, small: Small = None, passing: bool = False, inside: int = 0) -> int:
        self._count += 1
        others = self._ranks.told(f"state {self._count}")
        try:
            return self._vault.keep(step, partial(self._whole, write, others), passing=passing, inside=inside)
        except Exception:
            for _, told in others:  # on a full disk, what they have written is in the way of the next one
                shutil.rmtree(told.get("folder", ""), ignore_errors=True)
            raise

    def _whole(self, write: Write, others: Iterator[tuple[int, Any]], folder: Path) -> Mapping[str, str] | None:
        digests = dict(write(folder) or {})
        for index, told in others:
            if told.get("error"):
                raise StoreError(f"rank {index} could not save: {told['error']}")
            place = folder / RANKS / str(index)
            place.parent.mkdir(exist_ok=True)
            shutil.move(told["folder"], place)
            for name, digest in told["digests"].items():
                digests[f"{RANKS}/{index}/{name}"] = digest
                if NAMED.fullmatch(name) and digests.get(name) == digest:
                    (place / name).unlink()
                    os.link(folder / name, place / name)
        return digests

    def keep_setup(self, write: Write, small: Small = None) -> None:
        self._vault.keep_setup(write)

    def drop_passing(self) -> None:
        self._vault.drop_passing()

    def stage(self, step: int, write: Write) -> Path:
        return self._vault.stage(step, write)

    def show(self, step: int, aside: Path, write: Write) -> int:
        return self._vault.show(step, aside, write)

    def discard(self, aside: Path) -> None:
        self._vault.discard(aside)


class OtherVault:
    """Another rank's: it resumes from what the first one has found, and hands its states over."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._count = 0
        self.skipped: list[Any] = []
        self._found: Mapping[str, Any] = {}

    @property
    def is_passing(self) -> bool:
        return bool(self._resumes["is_passing"])

    @property
    def _resumes(self) -> Mapping[str, Any]:
        self._found = self._found or self._ranks.heard("resumes")
        return self._found

    def newest(self, at_most: int) -> tuple[int, Folder] | None:
        found = self._resumes["checkpoint"]
        return None if found is None else (int(found[0]), part_of(Path(found[1]), self._ranks.rank.index))

    def setup(self) -> Folder | None:
        found = self._resumes["setup"]
        return None if found is None else Path(found)

    def earlier(self) -> Sequence[Checkpoint]:
        return []

    def keep(self, step: int, write: Write, *, small: Small = None, passing: bool = False, inside: int = 0) -> int:
        self._count += 1
        what = f"state {self._count}"
        aside = self._place(what)
        try:
            make_inside(aside)
            with telling(aside):
                digests = write(aside)
        except StoreError as error:
            self.discard(aside)
            self._ranks.tell_first(what, {"error": str(error)})
            raise
        self._ranks.tell_first(what, {"folder": str(aside), "digests": dict(digests or {})})
        return 0

    def _place(self, what: str) -> Path:
        return self._ranks.unfinished(f"{self._ranks.rank.index}-{what.replace(' ', '-')}")

    def keep_setup(self, write: Write, small: Small = None) -> None:
        """Does nothing: the first rank keeps it."""

    def drop_passing(self) -> None:
        """Does nothing: the first rank does it."""

    def stage(self, step: int, write: Write) -> Path:
        # Frameworks save on all ranks together, so this one must take part.
        aside = self._place(f"own-{step}")
        make_inside(aside)
        with telling(aside):
            write(aside)
        return aside

    def show(self, step: int, aside: Path, write: Write) -> int:
        self.discard(aside)
        return 0

    def discard(self, aside: Path) -> None:
        shutil.rmtree(aside, ignore_errors=True)

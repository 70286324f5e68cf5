"""The packages installed where a search trains. Law: it looks at folders' times and names; a search pauses if a package
that its training imported, or one of that package's dependencies, has changed. The pause names the package, and ends
when the user resumes the search.

Until the first leg has reported its imports, those of the snapshot count instead. A project installed as editable may
change: each leg imports the copy of its code that was made at the start.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.engine.asking.needed import imports_of, needed
from workbench.errors import WorkbenchError
from workbench.facts import PauseAsked
from workbench.records import Spec, Training
from workbench.snapshot import read_snapshot
from workbench.snapshot.surroundings import environment
from workbench.store import Store
from workbench.words import enumerated, few

if TYPE_CHECKING:
    from workbench.engine.loop import ExperimentLoop

log = logging.getLogger("workbench.engine")

#: Seconds between two looks.
LOOK_S = 1.0
#: The journal's line that the user continues with the packages installed now.
ACCEPTED = "EnvironmentAccepted"
#: The most packages that are named.
_NAMED = 4

#: A distribution's version before and now; None if it is not installed.
Changes = dict[str, tuple[str | None, str | None]]


class Installed:
    """The packages of one experiment's training environment."""

    def __init__(self, store: Store, spec: Spec) -> None:
        self._store, self._spec = store, spec
        self._recorded: dict[str, str] | None = None
        #: What the user has accepted, by name.
        self._accepted: dict[str, str | None] = {}
        self._seen: Changes = {}
        #: The training environment as it is sent to legs, once it was requested.
        self._training: Training | None = None
        #: The changes already reported.
        self.told: Changes = {}
        #: Versions of changed packages that training does not use: new processes have these.
        self._passed: dict[str, str | None] = {}
        #: The snapshot's imports, once they were read.
        self._imports: set[str] | None = None

    def look(self, used: Collection[str] | None) -> str | None:
        """Why the search must pause, if that was not reported yet; else None. It reads the disk.

        A change counts if two looks see the same: installing takes a while. used: the packages that its training
        imported; None if no leg has reported them yet.
        """
        every = self._changes()
        found = self._relevant(every, used)
        self._pass({name: after for name, (_, after) in every.items() if name not in found})
        before, self._seen = self._seen, found
        if found != before:
            environment.forget_distributions()  # files in the distribution's folder may be written last
            return None
        if found == self.told:
            return None
        self.told = found
        return self._words(found) if found else None

    def accept(self, used: Collection[str] | None) -> dict[str, Any] | None:
        """The user resumes. Returns the line that says what this accepts, or None if nothing has changed.

        It reads the disk: what is installed now is accepted, whether it was reported before or changed since.
        """
        found = self._relevant(self._changes(), used)
        if not found:
            return None
        line = {"kind": ACCEPTED, "distributions": {name: after for name, (_, after) in found.items()}}
        self.recall(line)
        self.told = self._seen = {}
        return line

    def recall(self, line: Mapping[str, Any]) -> None:
        """Read an earlier engine's line about accepted versions."""
        self._accepted |= line["distributions"]
        self._training = None

    def _changes(self) -> Changes:
        """All distributions that differ from the start of the search or from what the user has accepted."""
        now = environment.distributions(self._folders) if self._folders else {}
        if self._recorded is None:
            self._recorded = self._of_snapshot() or now
        return changes({**self._recorded, **self._accepted}, now) if now else {}

    @property
    def _folders(self) -> list[str]:
        training = self._spec.training
        return [os.path.join(training.cwd, entry) for entry in training.path]

    def _relevant(self, found: Changes, used: Collection[str] | None) -> Changes:
        """The changed distributions that training uses."""
        if not found:
            return {}
        if used is None:
            if self._imports is None:
                self._imports = imports_of(self._store, self._spec)
            used = self._imports
        wanted = needed(self._folders, used, found)
        return {name: change for name, change in found.items() if name in wanted}

    def _pass(self, versions: dict[str, str | None]) -> None:
        if versions != self._passed:
            self._passed, self._training = versions, None

    def training(self) -> Training:
        """The training environment as it is sent to legs, with the accepted versions. Each leg gets the same one."""
        if self._training is None:
            self._training = self._composed()
        return self._training

    def _composed(self) -> Training:
        training = self._spec.training
        accepted = {
            name: version.partition(" @ ")[0]
            for name, version in {**self._passed, **self._accepted}.items()
            if name in training.versions and version is not None
        }
        return replace(training, versions=training.versions | accepted)

    def _of_snapshot(self) -> dict[str, str] | None:
        if self._spec.snapshot is None:
            return None
        try:
            recorded = read_snapshot(self._store, self._spec.snapshot)["environment"]
        except (WorkbenchError, OSError, ValueError) as error:
            log.warning("the packages of %s are compared with those of now: %s", self._spec.label, error)
            return None
        return dict(recorded.get("distributions") or {}) or None

    def _words(self, found: Changes) -> str:
        put = [name for name, (_, after) in found.items() if after is not None]
        gone = [name for name, (_, after) in found.items() if after is None]
        parts = [
            f"{_listed([_word(name, *found[name]) for name in names])} {'was' if len(names) == 1 else 'were'} {verb}"
            for names, verb in ((put, "installed"), (gone, "removed"))
            if names
        ]
        return (
            f"{' and '.join(parts)} in {Path(self._spec.training.python).parent.parent} since the search "
            "began. To go on with it, resume."
        )


def changes(before: Mapping[str, str | None], now: Mapping[str, str]) -> Changes:
    """The distributions that differ, before and now, without the user's own editable projects."""
    found = {}
    for name in sorted({**before, **now}):
        one, other = before.get(name), now.get(name)
        both_own = all(version is not None and version.endswith("(editable)") for version in (one, other))
        if one != other and not both_own:
            found[name] = (one, other)
    return found


def _word(name: str, before: str | None, after: str | None) -> str:
    one, other = ((version or "").partition(" @ ")[0] for version in (before, after))
    if one and other and one == other:
        return f"{name} {after or ''}"  # the same version from another source
    return f"{name} {one} → {other}" if one and other else f"{name} {one or other}"


def _listed(words: list[str]) -> str:
    return enumerated(few(words, _NAMED))


async def watch(loops: Mapping[str, ExperimentLoop], at_work: asyncio.Event) -> None:
    """Check the environments of running experiments, until cancelled. at_work: set while an experiment is open."""
    while True:
        await at_work.wait()
        for loop in list(loops.values()):
            if loop.finished.is_set() or (loop.life.pause not in (None, "packages")):
                continue
            try:
                why = await asyncio.to_thread(loop.installed.look, loop.hearing.packages)
            except OSError as error:
                log.warning("the packages of %s cannot be inspected: %s", loop.spec.label, error)
                continue
            if why is not None and not loop.finished.is_set():
                log.warning("%s pauses: %s", loop.spec.label, why)
                loop.tell(PauseAsked(why, "packages"))
        await asyncio.sleep(LOOK_S)

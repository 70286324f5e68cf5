"""Whether anything that an experiment's training was seen to depend on has changed. Law: it only reads; it treats what
it cannot check as unchanged, and says so.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.compare.difference import Difference
from workbench.compare.files import ReadFiles
from workbench.compare.sections.packages import packages
from workbench.errors import WorkbenchError
from workbench.records import ENDED, Json, Spec
from workbench.snapshot import read_snapshot
from workbench.snapshot.modules import code_of, file_in, folder_of, project_modules
from workbench.snapshot.settings import settings
from workbench.snapshot.surroundings.around import Around
from workbench.snapshot.surroundings.environment import distributions, variables
from workbench.snapshot.surroundings.used import ALWAYS, counts
from workbench.store import Store
from workbench.store.series import Series
from workbench.words import few

#: Maximum number of names listed for one kind; the others are only counted.
_SAID = 4


@dataclass(frozen=True, slots=True)
class Now:
    """What training would find if it were launched now.

    around: what it would get from this process. variables: those that snapshots record.
    """

    around: Around
    variables: Mapping[str, str]
    distributions: Mapping[str, str]
    folder: str = field(default_factory=os.getcwd)
    python: str = field(default_factory=lambda: sys.version.split()[0])
    host: str = field(default_factory=platform.node)

    @classmethod
    def here(cls, around: Around | None = None) -> Now:
        """What it would find if this process launched it. Raises BadSetting like ``Around.here``."""
        return cls(around or Around.here(), variables(), distributions())


@dataclass(frozen=True, slots=True)
class Standing:
    """How an experiment compares with the present: what differs, and what could not be checked, in words."""

    experiment: str = ""
    differences: tuple[Difference, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether everything that could be checked is unchanged."""
        return not self.differences

    @property
    def differs(self) -> str:
        """``data/train.csv (content), OMP_NUM_THREADS 1 → 4``; empty if nothing differs."""
        return _listed([str(one) for one in self.differences], 8)

    @property
    def not_checked(self) -> str:
        """``not checked: data/large.bin (samples of it are as they were)``; empty if everything was checked."""
        return f"not checked: {_listed([*self.unchecked])}" if self.unchecked else ""

    def __str__(self) -> str:
        first = f"changed since: {self.differs}" if self.differences else "the same content as before"
        return "; ".join(filter(None, [first, self.not_checked]))


def chosen(store: Store, experiments: Iterable[str], now: Now) -> tuple[Standing | None, Standing | None]:
    """Of experiments with the same content, newest first: the first one for which everything is unchanged, and the
    newest one."""
    newest: Standing | None = None
    for experiment in experiments:
        found = standing(store, experiment, now)
        newest = newest or found
        if found.holds:
            return found, newest
    return None, newest


def standing(store: Store, experiment: str, now: Now) -> Standing:
    """Compare what the trials of ``experiment`` were seen to depend on with ``now``. Raises nothing."""
    try:
        spec = store.read_spec(experiment, viewing=True)
        used, state = _used(store, experiment)
    except (WorkbenchError, OSError) as error:
        return Standing(experiment, (), (f"what its training read ({error})",))
    look = _Look(store, spec, used, now)
    look.files.look()
    look.modules(is_over=state in ENDED)
    look.surroundings()
    look.says(is_over=state in ENDED)
    return Standing(experiment, tuple(look.differences), tuple(look.unchecked))


def _used(store: Store, experiment: str) -> tuple[dict[str, Any], str]:
    """The dependencies reported by all its trials, and its state. For older releases only the files of each leg are
    known."""
    path = store.experiment(experiment).series
    if not path.exists():
        return {}, "waiting"
    with Series.read(path) as series:
        meta = series.meta()
        state = str(meta.get("state") or "")
        if isinstance(meta.get("used"), dict):
            return meta["used"], state
        files: dict[str, Any] = {}
        for leg in series.legs():
            seen = (leg.get("detail") or {}).get("seen") or {}
            files = {**(seen.get("files") or {}), **files}
        return ({"files": files} if files else {}), state


class _Look:
    """One comparison in progress."""

    def __init__(self, store: Store, spec: Spec, used: Mapping[str, Any], now: Now) -> None:
        self.store, self.spec, self.used, self.now = store, spec, used, now
        self.snapshot: dict[str, Json] = {}
        with contextlib.suppress(WorkbenchError, OSError, ValueError):
            if spec.snapshot is not None:
                self.snapshot = read_snapshot(store, spec.snapshot)
        self.files = ReadFiles(used, str(self.snapshot.get("folder") or spec.training.cwd), now.folder, now.host)
        self.differences, self.unchecked = self.files.differences, self.files.unchecked

    # -- project modules ----------------------------------------------------------------------------------------------

    def modules(self, *, is_over: bool) -> None:
        known = {str(one["name"]): str(one["path"]) for one in self.snapshot.get("modules") or ()}
        used: dict[str, list[str]] = self.used.get("modules") or {}
        if not is_over and not self.used.get("complete"):
            used = {name: [] for name in known}  # it has imported none yet, and will import the copies
        for name, told in used.items():
            before = told[1] if told else _code(self._copy(name))
            origin = told[0] if told else known.get(name) or _sibling(name, known)
            path = Path(self.files.place(origin)) if origin else None
            if path is None or not path.exists():
                found = project_modules([name]).get(name)
                path = found.path if found is not None else None
            if not before:
                self.unchecked.append(f"{name} (its earlier code was not kept)")
            elif path is None:
                self.differences.append(Difference("module", f"{name}.py", "gone"))
            elif code_of(path) != before:
                self.differences.append(Difference("module", self.files.short(str(origin or path))))

    def _copy(self, name: str) -> Path | None:
        if self.spec.snapshot is None:
            return None
        return file_in(self.store.code(self.spec.snapshot), name)

    # -- packages, variables, settings --------------------------------------------------------------------------------

    def surroundings(self) -> None:
        environment = self.snapshot.get("environment") or {}
        before = str(self.spec.training.versions.get("python") or self.now.python)
        if before != self.now.python:
            self.differences.append(Difference("package", "python", "", before, self.now.python))
        used = set(self.used.get("packages") or ())
        if used and environment:
            self.differences += packages(environment.get("distributions") or {}, self.now.distributions, used)
        self.differences += self._variables(environment.get("variables") or {})
        self.differences += self._settings()
        if not environment:
            self.unchecked.append("packages and threads (its snapshot is gone)")

    def _variables(self, recorded: Mapping[str, str]) -> Iterator[Difference]:
        """Variables that may matter to libraries, and those that its code has read, if their values are known."""
        training, now = self.spec.training, self.now.around
        before, after = dict(recorded), dict(self.now.variables)
        if training.is_whole:
            before |= {**training.env, **training.secrets}
            after |= {**now.variables.env, **now.variables.secrets}
        read = set(self.used.get("variables") or ())
        hidden = training.secrets.keys() | now.variables.secrets.keys()
        for name in sorted(before.keys() | after.keys() if before else ()):
            if before.get(name) == after.get(name) or not counts(name):
                continue
            if name == "PYTHONHASHSEED" and training.is_whole:
                continue  # PYTHONHASHSEED is recorded separately
            if name in hidden and name in read:
                yield Difference("variable", name, "another secret")
            elif name not in hidden and (name in read or ALWAYS.fullmatch(name)):
                yield Difference("variable", name, "", before.get(name), after.get(name))
        if not training.is_whole:
            if self.used.get("variables"):
                self.unchecked.append("the variables that it read (their values were not recorded)")
        elif training.hash_seed != now.hash_seed:
            yield Difference("variable", "PYTHONHASHSEED", "", training.hash_seed, now.hash_seed)

    def _settings(self) -> Iterator[Difference]:
        training, now = self.spec.training, self.now.around
        if not training.is_whole:
            return
        before, after = settings.compared(training.settings), settings.compared(now.settings)
        for name in sorted(before.keys() | after.keys()):
            one, other = before.get(name), after.get(name)
            if one != other:
                yield Difference("setting", name, "", settings.shown(name, one), settings.shown(name, other))
        if training.threads != now.threads:
            yield Difference("setting", "threads", "", training.threads, now.threads)

    # -- what could not be looked at ----------------------------------------------------------------------------------

    def says(self, *, is_over: bool) -> None:
        used = self.used
        if used.get("beyond"):
            self.unchecked.append(f"{used['beyond']:,} more files that it read")
        if used.get("unasked"):
            self.unchecked.append(f"whether {used['unasked']:,} more files are there")
        if used.get("unlisted"):
            self.unchecked.append(f"names in {used['unlisted']:,} more folders")
        elif used.get("complete") and "listed" not in used:
            self.unchecked.append("names in folders (an older release did not record which were asked for)")
        if used.get("copied"):
            self.unchecked.append("variables that it took from a copy of os.environ")
        if used.get("programs"):
            self.unchecked.append(f"what {_listed(used['programs'], 2)} read by itself")
        if used.get("not_seen"):
            self.unchecked.append(f"files that {_listed(used['not_seen'], 2)} may have read unseen")
        if used.get("hosts"):
            self.unchecked.append(f"what {_listed(used['hosts'], 2)} answered")
        if is_over and not used:
            self.unchecked.append("what its training read (that was not recorded)")
        elif is_over and not used.get("complete"):
            self.unchecked.append(
                "the packages, variables and settings that it used (an older release did not record them)"
            )


def _code(path: Path | None) -> str | None:
    return code_of(path) if path is not None else None


def _sibling(name: str, known: Mapping[str, str]) -> str:
    """The path of a module that was imported late, derived from another module of its package; empty if there is
    none."""
    top, *rest = name.split(".")
    for other, path in known.items():
        if other.partition(".")[0] == top:
            base = folder_of(other, Path(path)).joinpath(top, *rest)
            return str(base / "__init__.py" if base.is_dir() else base.with_name(f"{base.name}.py"))
    return ""


def _listed(names: list[str], most: int = _SAID) -> str:
    return ", ".join(few(names, most))

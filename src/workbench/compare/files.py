"""Whether files that training was seen to read have changed. Law: it only reads, and says what it cannot check.

For an unchanged file it checks only size, times and inode number. If one of these differs, it reads the content, so a
new date alone does not count as a change.
"""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workbench.compare.difference import Difference
from workbench.compare.sides import seen_of
from workbench.errors import WorkbenchError
from workbench.records import Spec
from workbench.records.texts import written
from workbench.snapshot.surroundings.data import as_named, content_of_folder, describe, is_marked
from workbench.snapshot.surroundings.listings import Asked, Listed
from workbench.store import Store
from workbench.store.series import Series


def changed_files(store: Store, spec: Spec, trial: int) -> list[Difference]:
    """The files that ``trial`` was seen to read and that have changed or are gone since, in the folder where it trained
    (if that is gone, in the working folder); none if that is not known."""
    try:
        with Series.read(store.experiment(spec.id).series) as series:
            used, files = series.meta().get("used") or {}, seen_of(series.legs(trial)) or {}
    except (WorkbenchError, OSError):
        return []
    folder = spec.training.cwd
    # Whether a file changed while the search trained does not matter: the entry is of what this trial read.
    told = {"files": {path: {**file, "mixed": False} for path, file in files.items()}}
    kept = {name: used.get(name) for name in ("made", "changed")}
    found = ReadFiles({**told, **kept}, folder, folder if os.path.isdir(folder) else os.getcwd())
    found.look()
    return found.differences


class ReadFiles:
    """One comparison of files. used: what an experiment reported of them. folder: that of the experiment. now: the
    folder in which its training would be launched now."""

    def __init__(self, used: Mapping[str, Any], folder: str, now: str, host: str | None = None) -> None:
        self.used, self.folder, self.now, self.host = used, folder, now, host or platform.node()
        self.differences: list[Difference] = []
        self.unchecked: list[str] = []

    def look(self) -> None:
        """Compare each file, and the names that were asked for in folders."""
        made = set(self.used.get("made") or ())
        changed, came = set(self.used.get("changed") or ()), set(self.used.get("came") or ())
        # Modules of which there is no copy are compared by their code, without comments.
        modules = {told[0] for told in (self.used.get("modules") or {}).values() if told}
        for path, file in (self.used.get("files") or {}).items():
            if path in made or (path in modules and not file.get("mixed")):
                continue
            if path in changed:
                self.unchecked.append(f"{self.short(path)} (training writes it)")
            elif file.get("mixed"):
                self._differs(path, "changed while it trained")
            else:
                self._file(path, file, made)
        for path in self.used.get("absent") or ():
            if path in made or path in changed or not os.path.exists(self.place(path)):
                continue
            if path in came:
                self.unchecked.append(f"{self.short(path)} (it came while it trained)")
            else:
                self._differs(path, "was not there")
        for one in self.used.get("listed") or ():
            self._names(Listed.from_json(one))
        self._gone(made | changed)

    def _gone(self, made: set[str]) -> None:
        """Paths that training asked for and neither opened nor made: nothing but their existence counts. The folder of
        an output counts no more than the output."""
        there = self.used.get("there") or {}
        said = {one.name for one in self.differences}
        for path, host in there.items():
            inside, short = os.path.join(path, ""), self.short(path)
            if os.path.exists(self.place(path)) or any(one == path or one.startswith(inside) for one in made):
                continue
            if host != self.host:
                self.unchecked.append(f"{short} (on {host})")
            elif not any(f"{name}/".startswith(f"{short}/") for name in said):
                self._differs(path, "gone")

    def _names(self, one: Listed) -> None:
        """Names that training asked for in a folder."""
        files, (folder, pattern) = self.used.get("files") or {}, one.asked
        if any(os.path.join(folder, "").startswith(path) for path in files if path.endswith("/")):
            return  # the whole content counts
        now, path = Asked(self.place(folder), pattern).names(), os.path.join(folder, pattern)
        if now is None or not one.is_known:
            self.unchecked.append(f"the names in {self.short(path)} (too many to compare)")
        elif change := one.change(now, self._counted(one.asked, files)):
            self._differs(path, str(change))
        elif one.changing:
            self.unchecked.append(f"the names in {self.short(path)} (others change them while it trains)")

    def _counted(self, one: Asked, files: Iterable[str]) -> Callable[[str], bool]:
        """Which names count. In the notebook's own folder, where outputs of all kinds come and go: those that end as
        the files do that training read there."""
        read = {os.path.splitext(path)[1] for path in files if os.path.dirname(path) == one.folder}
        if one == (written(self.folder), "*") and read:
            return lambda name: os.path.splitext(name)[1] in read
        return lambda name: True

    def _file(self, path: str, file: Mapping[str, Any], made: set[str]) -> None:
        place = self.place(path)
        elsewhere = str(file.get("host") or self.host)
        try:
            status = os.stat(place)
            if not file.get("digest") and not file.get("mark"):
                self.unchecked.append(f"{self.short(path)} (not read in time)")
            elif path.endswith("/") != stat.S_ISDIR(status.st_mode):
                self._differs(path, "content")
            elif path.endswith("/"):
                self._inside(path, place, file, made)
            elif not is_marked(status, file.get("mark")) or file.get("size") != status.st_size:
                self._content(path, place, file, status.st_size)
        except (FileNotFoundError, NotADirectoryError):
            if elsewhere != self.host:
                self.unchecked.append(f"{self.short(path)} (on {elsewhere})")
            elif place != as_named(path) and os.path.exists(as_named(path)):
                self.unchecked.append(f"{self.short(path)} (it is in the folder of before only)")
            else:
                self._differs(path, "gone")
        except OSError as error:
            self.unchecked.append(f"{self.short(path)} ({(error.strerror or 'cannot be read').lower()})")

    def _content(self, path: str, place: str, file: Mapping[str, Any], size: int) -> None:
        if file.get("size") != size or (found := describe(place)).digest != file.get("digest"):
            self._differs(path, "content")
        elif found.sampled:
            self.unchecked.append(f"{self.short(path)} (samples of it are as they were)")

    def _inside(self, path: str, place: str, file: Mapping[str, Any], made: set[str]) -> None:
        """A folder: names, sizes and times of its files first."""
        if describe(place).digest == file["digest"]:
            return
        content = file.get("content")
        if not content:
            self.unchecked.append(f"{self.short(path)} (an older release kept the times of its files only)")
            return
        now = content_of_folder(place, {self.place(one) for one in made})
        if now["digest"] != content["digest"]:
            self._differs(path, "content")
        elif now.get("sampled"):
            self.unchecked.append(f"{self.short(path)} (samples of it are as they were)")

    def place(self, path: str) -> str:
        """Where ``path`` would be read now: if the notebook's folder moved, at the same place relative to it."""
        path = as_named(path)
        if self.now == self.folder:
            return path
        moved = os.path.normpath(os.path.join(self.now, os.path.relpath(path, self.folder)))
        is_inside = path.startswith(f"{self.folder}{os.sep}")
        return moved if is_inside or (os.path.exists(moved) and not os.path.exists(path)) else path

    def short(self, path: str) -> str:
        """``path`` relative to the folder of the experiment, if it is in there."""
        return path.removeprefix(f"{written(self.folder)}{os.sep}")

    def _differs(self, path: str, how: str) -> None:
        self.differences.append(Difference("file", self.short(path), how))

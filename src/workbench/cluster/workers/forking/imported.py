"""Whether a forkserver's imports still match the files on disk. Law: a package that was reinstalled, or edited in
place, is imported again before the next leg; while an installation writes, the leg waits."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from workbench.messages import Stamp
from workbench.trial.process.forkserver import stamp

#: Seconds between two looks at all files, which are thousands: a later leg sees an edited one.
LOOK_S = 1.0
#: Seconds without a change in a folder of packages after which an installation there counts as finished.
SETTLE_S = 2.0


class Imported:
    """The imports of one forkserver. folders: those of its packages."""

    def __init__(self, folders: Iterable[str]) -> None:
        # An installation adds and removes folders of metadata next to the packages.
        self._folders: Mapping[str, Stamp | None] = _stamps(folders)
        self._files: Mapping[str, Stamp | None] = {}
        self._looked = 0.0
        self._has_changed = False

    def note(self, folders: Mapping[str, Stamp | None], files: Mapping[str, Stamp | None]) -> None:
        """The forkserver began when ``folders`` were so, and has imported modules from ``files``."""
        self._folders, self._files = folders, files

    def has_changed(self, now: float) -> bool:
        """Whether any of the files has changed since. now: seconds of a monotonic clock."""
        if not self._has_changed:
            self._has_changed = _stamps(self._folders) != self._folders
        self.look(now)
        return self._has_changed

    def look(self, now: float) -> None:
        """Look at the files, unless that was done a moment ago: it takes some ten milliseconds."""
        if not self._has_changed and now - self._looked > LOOK_S:
            self._looked = now
            self._has_changed = _stamps(self._files) != self._files

    def settles_in(self) -> float:
        """Seconds after which a running installation may be finished; 0 if there is none."""
        newest = max((stamp[0] for stamp in _stamps(self._folders).values() if stamp is not None), default=0)
        age = time.time() - newest / 1e9
        return max(0.0, SETTLE_S - age) if age >= 0 else 0.0  # another machine's clock may be ahead


def _stamps(paths: Iterable[str]) -> dict[str, Stamp | None]:
    return {path: stamp(path) for path in paths}

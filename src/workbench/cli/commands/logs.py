"""`logs`: a trial's printed output. Law: it is shown unchanged; older, rotated parts come first."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any, BinaryIO

from workbench.cli.codes import OK
from workbench.cli.found import Experiment, store_of
from workbench.errors import NotFound
from workbench.records import ENDED
from workbench.records.names import trial_label
from workbench.store.files import packed
from workbench.store.files.atomic import NoFile, open_file

#: Seconds between looks at a log that is followed.
LOOK_S = 0.2
_BLOCK = 1 << 16


def logs(options: Any) -> int:
    """Print a trial's log, and with ``--follow`` new output until the trial ends."""
    with Experiment.found(store_of(options), options.ref, trial=True) as experiment:
        trial = experiment.reference.trial
        assert trial is not None
        path = experiment.store.experiment(experiment.id).trial(trial).log
        if not packed.is_there(path) and not (options.follow and _is_going(experiment, trial)):
            state = experiment.trial(trial)["state"]
            yet = "" if state in ENDED else " yet"
            raise NotFound(
                f"{experiment.label}/{trial_label(trial)} ({state}) has printed nothing{yet}: {path} is not there. "
                f"`workbench show {experiment.label}/{trial_label(trial)}` shows its state."
            )
        with contextlib.closing(_Follower(path)) as follower:
            _print(_start(path, options.tail, follower))
            while options.follow:
                going = _is_going(experiment, trial)  # checked before reading, so that the last output is read
                _print(follower.more())
                if not going:
                    break
                time.sleep(LOOK_S)
                experiment.look_around()
            _print(follower.rest())
    return OK


def _is_going(experiment: Experiment, trial: int) -> bool:
    return experiment.alive and not experiment.is_ended and experiment.trial(trial)["state"] not in ENDED


def _start(path: Path, tail: int | None, follower: _Follower) -> bytes:
    """The present content of the log and its older parts; only the last ``tail`` lines, if given."""
    older = []
    for number in range(1, 100):
        part = path.with_name(f"{path.name}.{number}")
        if not part.exists():
            break
        older.append(part)
    newest = follower.more()
    if tail is None:
        return b"".join([*(_whole(part) for part in reversed(older)), newest])
    lines: deque[bytes] = deque(newest.splitlines(keepends=True)[-tail:] if tail else [], maxlen=max(tail, 1))
    for part in older:
        if len(lines) >= tail:
            break
        lines.extendleft(reversed(_whole(part).splitlines(keepends=True)[-(tail - len(lines)) :]))
    return b"".join(lines)


def _whole(part: Path) -> bytes:
    # In another person's store it may be a pipe, which would block.
    with contextlib.suppress(NoFile), open_file(part) as file:
        return file.read()
    return b""


class _Follower:
    """Reads new whole lines of a log: the last, unfinished line may still be redrawn. It follows rotation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None
        self._inode = self._at = 0

    def more(self) -> bytes:
        """The new whole lines since the last call."""
        found = b""
        while True:
            if self._file is None:
                try:
                    self._file = packed.opened(self._path)
                except FileNotFoundError:
                    return found
                self._inode, self._at = _inode(self._file), 0
            is_same = self._is_same()  # checked before reading, so that nothing written before the rotation is missed
            self._file.seek(self._at)
            data: bytes = self._file.read()
            whole = data[: data.rfind(b"\n") + 1] if is_same else data
            self._at += len(whole)
            found += whole
            if is_same:
                return found
            self.close()

    def rest(self) -> bytes:
        """The last line, if it is unfinished."""
        if self._file is None:
            return b""
        self._file.seek(self._at)
        data: bytes = self._file.read()
        self._at += len(data)
        return data

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _is_same(self) -> bool:
        try:
            return self._inode in (0, self._path.stat().st_ino)
        except FileNotFoundError:
            return True


def _inode(file: BinaryIO) -> int:
    """The log's inode; None if the log was packed."""
    try:
        return os.fstat(file.fileno()).st_ino
    except OSError:
        return 0


def _print(data: bytes) -> None:
    if not data:
        return
    sys.stdout.write(data.decode("utf-8", "replace"))
    sys.stdout.flush()

"""The record of a cluster that an engine has started for its store, by which the next engine finds it.

Law: only its owner may read the record, which contains the keys of the cluster's connections. It is in the user's state
folder and never in the store. A record without a live process is ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from workbench.store.files.atomic import make_folder, read_json, write_json
from workbench.store.owner import personal, private
from workbench.store.owner.lease import boot_id

#: The kernel's flag of a process that is ending (PF_EXITING).
_EXITING = 0x4


@dataclass(frozen=True, slots=True)
class OwnCluster:
    """A running cluster process, according to its own record."""

    #: The store's folder, and the process with its start time (clock ticks after boot) and the boot.
    store: str
    pid: int
    ticks: int
    boot_id: str
    protocol: int
    version: str
    #: How many workers were asked for; None: as many as the machine can use.
    wanted: int | None
    #: Slots of each worker, and whether each worker has its own GPU's variables.
    slots: int
    has_devices: bool
    address: str
    #: The fields of distributed's ``Security``: keys and certificates.
    security: Mapping[str, str | bool]
    #: Seconds that it stays alive without an engine.
    grace_s: float
    #: When it lost its engine, in UTC; empty while it has one.
    lost: str = ""
    #: The address of Dask's own pages; None if they are off.
    dashboard: str | None = None

    @property
    def left_s(self) -> float | None:
        """Seconds that it stays alive unless an engine connects; None while it has one."""
        if not self.lost:
            return None
        gone = (datetime.now(UTC) - datetime.fromisoformat(self.lost)).total_seconds()
        return min(max(0.0, self.grace_s - gone), self.grace_s)

    @property
    def is_alive(self) -> bool:
        """Whether this process is alive."""
        return self.boot_id == boot_id() and ticks_of(self.pid) == self.ticks


def ticks_of(pid: int) -> int | None:
    """The start time of a process, in clock ticks after boot, since its number may have been reused.

    None if it has ended or is ending: a killed process closes its connections before it releases its locks.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    is_going = fields[0] in (b"Z", b"X") or int(fields[6]) & _EXITING
    return None if is_going else int(fields[19])


def write(record: OwnCluster) -> None:
    """Write the record. Raises StoreFull and the like."""
    path = _path(personal.folder(), record.store)
    make_folder(path.parent)
    write_json(path, asdict(record), fsync=False)


def read(store: Path) -> OwnCluster | None:
    """The live cluster of the store at ``store``; None if there is none."""
    for folder in private.places():
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            found = OwnCluster(**read_json(_path(folder, str(store))))
            if found.store == str(store) and found.is_alive:
                return found
    return None


def trains_on(store: Path) -> str:
    """How long the trials of a store without an engine continue to train, in words; empty if they do not."""
    record = read(store)
    if record is None or not record.grace_s:
        return ""
    left = record.grace_s if record.left_s is None else record.left_s  # it notices within milliseconds
    return f"its engine is gone; its trials train for {left:.0f} s more, and the next engine continues them"


def is_written(record: OwnCluster) -> bool:
    """Whether the next engine of its store would find this cluster."""
    found = read(Path(record.store))
    return found is not None and (found.pid, found.ticks) == (record.pid, record.ticks)


def remove(record: OwnCluster) -> None:
    """Remove the record, unless another cluster's has replaced it."""
    if is_written(record):
        for folder in private.places():
            with contextlib.suppress(OSError):
                os.unlink(_path(folder, record.store))


def _path(folder: Path, store: str) -> Path:
    name = hashlib.sha256(store.encode(errors="surrogateescape")).hexdigest()[:16]
    return folder / "clusters" / f"{name}.json"

"""Everything that goes wrong in a machine room, one function each. Law: real signals, real disks, real files."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from running import until
from soak.world import COMPILER, World

from workbench.store import Store
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.keeping.manifest import NAME as MANIFEST
from workbench.store.series import Series

#: Seconds for which a lid is closed, a disk is full, a clock is wrong.
CLOSED_S, FULL_S, WRONG_S = 2.5, 1.5, 2.0


def kill(world: World, dice: random.Random, role: str) -> str:
    """``kill -9`` of one process of a kind."""
    victims = until(lambda: world.role(role), 60, f"a {role} to kill")
    victim = dice.choice(sorted(victims, key=lambda process: process.pid))
    with contextlib.suppress(psutil.NoSuchProcess):
        victim.send_signal(signal.SIGKILL)
    return f"kill -9 {role} {victim.pid}"


def freeze(world: World, dice: random.Random) -> str:
    """All processes stop at once and continue later, as when a laptop's lid is closed and opened."""
    frozen = [process for process in world.marked() if _signalled(process, signal.SIGSTOP)]
    time.sleep(CLOSED_S)  # the fault itself: no process may run during this time
    for process in frozen:
        _signalled(process, signal.SIGCONT)
    return f"SIGSTOP of {len(frozen)} processes for {CLOSED_S:g} s"


def fill_disk(world: World, dice: random.Random) -> str:
    """Not a byte is left on the store's disk for a while."""
    ballast, size = world.folder / "ballast", 0
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                size += file.write(b"\0" * (1 << 16))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        time.sleep(FULL_S)  # the fault itself
    ballast.unlink()
    return f"disk full for {FULL_S:g} s ({size >> 20} MB of ballast)"


def spoil_checkpoint(world: World, dice: random.Random) -> str:
    """The newest checkpoint of a trial that may go on is bit-flipped or cut short."""
    store = Store(world.store)
    (experiment,) = store.experiment_ids()
    with Series.read(store.experiment(experiment).series) as series:
        numbers = [row["number"] for row in series.trials() if row["state"] in ("waiting", "running", "paused")]
    dice.shuffle(numbers)
    for number in numbers:
        kept = Checkpoints(store.experiment(experiment).trial(number))
        newest = kept.newest(verify="size")
        if newest is None:
            continue
        with contextlib.suppress(FileNotFoundError, ValueError):
            files = [kept.bundle]  # small ones are in one file
            if isinstance(newest.folder, Path):
                files = sorted(path for path in newest.folder.iterdir() if path.is_file() and path.stat().st_size)
            victim = dice.choice(files)
            how = _spoil(victim, dice)
            return f"{how} of {victim.relative_to(store.experiment(experiment).trials)}"
    return "no checkpoint to spoil"


def spoil_catalog(world: World, dice: random.Random) -> str:
    """The engine dies, half of the catalog is gone, and the journal ends in the middle of a line."""
    told = kill(world, dice, "engine")
    store = Store(world.store)
    with open(store.catalog_path, "rb+") as file:
        file.truncate(dice.randrange(1, max(2, store.catalog_path.stat().st_size)))
    (experiment,) = store.experiment_ids()
    with open(store.experiment(experiment).journal, "ab") as file:
        file.write(b'{"schema": 1, "n": 99')
    return f"{told}; its catalog cut short, a torn line at its journal's end"


def jump(world: World, dice: random.Random) -> str:
    """The wall clock goes wrong by hours, and is set right again."""
    off = dice.choice((-7200, 3600, 86400 * 40))
    world.set_clock(off)
    time.sleep(WRONG_S)  # the fault itself
    world.set_clock(0)
    return f"clock off by {off} s for {WRONG_S:g} s"


Fault = Callable[[World, random.Random], str]


def _killing(role: str) -> Fault:
    return lambda world, dice: kill(world, dice, role)


def kinds(*, remote: bool, small_disk: bool) -> dict[str, tuple[Fault, int]]:
    """Every kind that this machine can have, and how often it comes among the others."""
    found: dict[str, tuple[Fault, int]] = {
        "runner": (_killing("runner"), 4),
        "worker": (_killing("worker"), 3),
        "forkserver": (_killing("forkserver"), 2),
        "engine": (_killing("engine"), 3),
        "kernel": (_killing("kernel"), 2),
        "freeze": (freeze, 2),
        "checkpoint": (spoil_checkpoint, 3),
        "catalog": (spoil_catalog, 1),
    }
    found |= {"dask-scheduler": (_killing("dask-scheduler"), 2)} if remote else {"cluster": (_killing("cluster"), 2)}
    if small_disk:
        found["disk"] = (fill_disk, 2)
    if COMPILER is not None:
        found["clock"] = (jump, 2)
    return found


def _signalled(process: psutil.Process, number: int) -> bool:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    return True


def _spoil(path: Path, dice: random.Random) -> str:
    size = path.stat().st_size
    # Checkpoints of a run are hard to tell from their neighbours: a copy is spoilt, and takes the file's place.
    data = bytearray(path.read_bytes())
    if dice.random() < 0.5 and path.name != MANIFEST:
        at = dice.randrange(size)
        data[at] ^= 1 << dice.randrange(8)
        how = f"bit flipped in byte {at}"
    else:
        del data[dice.randrange(size) :]
        how = f"cut to {len(data)} of {size} bytes"
    aside = path.with_name(f".{path.name}.spoilt")
    aside.write_bytes(data)
    os.replace(aside, path)
    return how

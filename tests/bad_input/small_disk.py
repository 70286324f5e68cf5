"""One cell over a store that is full or cannot be written. Run by test_surroundings.py in a namespace of its own.

`python small_disk.py WHAT FOLDER`: FOLDER is where a small file system may be mounted. Prints JSON.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import shells
from IPython.utils.capture import capture_output

from workbench.store import Store

CELL = """%%train digits --store {store} --goal max val_acc --steps 1-9
lr = uniform(0, 1)
for epoch in trial.steps():
    trial.report(val_acc=lr + big[0])
"""


def mount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)


def too_big(folder: Path) -> None:
    """There is room, and not for what the cell takes along."""
    mount(folder, "size=1m")


def full(folder: Path) -> None:
    """Not a byte is left in a store that is there."""
    mount(folder, "size=1m")
    Store(folder / "store").create()
    try:
        with open(folder / "ballast", "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 512)
    except OSError:
        pass


def no_store(folder: Path) -> None:
    """The place where the store would be created is read-only."""
    mount(folder, "size=1m,ro")


def read_only(folder: Path) -> None:
    """A store that is there may only be read."""
    mount(folder, "size=1m")
    Store(folder / "store").create()
    mount(folder, "remount,ro")


def limited(folder: Path) -> None:
    """No mount: the kernel refuses files beyond 64 KiB, as a quota does."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))


def main(what: str, folder: Path) -> None:
    store = folder / "store"
    with shells.shell() as shell:
        shell.run_cell("import numpy; big = numpy.arange(500_000)")
        {made.__name__: made for made in (too_big, full, no_store, read_only, limited)}[what](folder)
        with capture_output() as shown:
            error = shell.run_cell(CELL.format(store=store)).error_in_exec
    left = [path.name for name in ("experiments", "requests") for path in (store / name).glob("*")]
    left += [path.name for path in store.glob("engine.*")]
    told = {"kind": type(error).__name__, "message": str(error), "shown": shown.stdout + shown.stderr, "left": left}
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

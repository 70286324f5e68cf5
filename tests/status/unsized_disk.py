"""A store on a file system that tells no sizes. Run by test_status.py in a namespace of its own, with one mounted."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from engine.small_disk import mount

from workbench.cli.commands.doctor import _space
from workbench.cluster.workers.keeping import Keeper
from workbench.engine.tending.room import Rooms
from workbench.snapshot.surroundings.data import describe
from workbench.status import _full
from workbench.store import Store
from workbench.store.files.database import _is_full
from workbench.store.keeping import usage
from workbench.store.lists.said import Said


async def _clean() -> None:
    """Nothing can be freed."""


def main(folder: Path) -> None:
    mount(folder, "size=0")
    store = Store(folder / "store").create()
    assert os.statvfs(store.root).f_blocks == 0
    assert not _full(store), _full(store)
    lacking = Rooms(store, Said(), {}, _clean)._measured(False).lacks(1 << 20)
    assert lacking is None, lacking
    assert not _is_full(store.journal_path)
    assert usage.free(store) is None
    data = folder / "data.csv"
    data.write_bytes(b"1,2,3\n" * 1000)
    found = describe(data)
    kept = Keeper(store, 1 << 20).keep(str(data), {"size": found.size, "digest": found.digest})
    assert "kept" in kept, kept
    (space, *_) = _space(store)
    assert space.level == "ok", space


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    print("ok")

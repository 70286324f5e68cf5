"""A store on a file system that tells no sizes. Run by test_status.py in a namespace of its own, with one mounted."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from engine.small_disk import mount

from workbench.engine.tending.room import Rooms
from workbench.status import _full
from workbench.store import Store
from workbench.store.files.database import _is_full
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    print("ok")

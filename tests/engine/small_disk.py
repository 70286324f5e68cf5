"""A search on a disk that fills up. Run by test_room.py in a namespace of its own, where a small one may be mounted."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from engine.test_room import HEAVY, SPACE
from running import ended, engine, lines, meta, spec_of, start, state, until

from workbench.records import Keep
from workbench.store import Store
from workbench.store.lists.said import NO_ROOM


def mount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)


def main(folder: Path) -> None:
    mount(folder, "size=20m")
    store = Store(folder / "store").create()
    spec = spec_of(HEAVY, folder, space=SPACE, verify=False, keep=Keep.of("all"))
    with engine(store):
        start(store, spec)
        until(lambda: state(store, spec) == "paused", what="the pause")
        until(lambda: not meta(store, spec)["slots"]["used"], what="free slots")
        reason = meta(store, spec)["reason"]
        assert reason.startswith(f"{NO_ROOM}the disk has"), reason
        assert "1.05 MB are reserved" in reason, reason
        assert shutil.disk_usage(folder).free > 0
        mount(folder, "remount,size=200m")
        assert ended(store, spec) == "completed"
    assert {line["outcome"] for line in lines(store, spec, "LegLeft")} <= {"reached", "completed", "stopped"}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    print("ok")

"""Large pieces of a checkpoint, as files named by their content. Law: what is linked is sound; what is not is written.

A piece that an earlier checkpoint of the trial holds is linked into the new folder (`link(2)`) and not written again. A
link is a file: each folder is whole by itself, whichever of them goes, is copied or packed. A piece whose name cannot
be had by a link (another file system, one without links) is written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from workbench.store.keeping.checkpoints import Checkpoint
from workbench.store.keeping.manifest import File, digest, digest_file

#: How such a file is called: after the digest of its bytes, which are all that it holds.
NAMED = re.compile(r"tensors-[0-9a-f]{32}\.bin")


class Parts:
    """The pieces of one checkpoint that is being made in ``folder``.

    earlier: gives the checkpoints in which they may lie already; asked once, and only where there is a piece.
    """

    def __init__(self, folder: Path, earlier: Callable[[], Sequence[Checkpoint]] = tuple) -> None:
        self._folder = folder
        self._look = earlier
        self._earlier: Sequence[Checkpoint] | None = None
        #: Digests of the files that were put, by name, as manifests hold them.
        self.digests: dict[str, str] = {}

    def put(self, data: memoryview) -> str:
        """Have a file hold ``data``; its name. The same bytes twice are one file. Nothing is fsynced here."""
        wanted = File(len(data), digest(data))
        name = f"tensors-{wanted.digest.partition(':')[2]}.bin"
        if name not in self.digests:
            if not self._link(name, wanted):
                # Never into a file that is there: it could be linked, and then another checkpoint's as well.
                with open(self._folder / name, "xb") as file:
                    file.write(data)
            self.digests[name] = wanted.digest
        return name

    def _link(self, name: str, wanted: File) -> bool:
        if self._earlier is None:
            self._earlier = self._look()
        target = self._folder / name
        for checkpoint in self._earlier:
            source = checkpoint.folder / name
            if checkpoint.manifest.files.get(name) != wanted or not isinstance(source, Path):
                continue
            try:
                os.link(source, target)
            except OSError:  # another file system, one without links, too many of them, or it has just gone
                continue
            # Its manifest tells what it was. Reading it costs less than writing it, and keeps damage where it is.
            if target.stat().st_size == wanted.size and digest_file(target, wanted.digest) == wanted.digest:
                return True
            target.unlink()
        return False

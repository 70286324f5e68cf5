"""Large parts of a checkpoint, as files named by their content. Law: a part is linked if the old file is intact,
otherwise written.

A part that an earlier checkpoint of the trial has is hard-linked into the new folder (`link(2)`) and not written again.
A link is a file: each folder is complete, even if another one is removed, copied or packed. A part that cannot be
linked (another file system, or one without links) is written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from workbench.store.keeping.checkpoints import Checkpoint
from workbench.store.keeping.manifest import File, digest, digest_file

#: The name of such a file: the digest of its bytes.
NAMED = re.compile(r"tensors-[0-9a-f]{32}\.bin")


class Parts:
    """The parts of one checkpoint that is being made in ``folder``.

    earlier: returns the checkpoints that may already have them; called once, and only if there is a part.
    """

    def __init__(self, folder: Path, earlier: Callable[[], Sequence[Checkpoint]] = tuple) -> None:
        self._folder = folder
        self._look = earlier
        self._earlier: Sequence[Checkpoint] | None = None
        #: Digests of the stored files by name, in the form of manifests.
        self.digests: dict[str, str] = {}

    def put(self, data: memoryview) -> str:
        """Store ``data`` in a file and return its name. The same bytes twice are one file. This does not fsync."""
        wanted = File(len(data), digest(data))
        name = f"tensors-{wanted.digest.partition(':')[2]}.bin"
        if name not in self.digests:
            if not self._link(name, wanted):
                # Never write into an existing file: it may be linked, and so belong to another checkpoint too.
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
            except OSError:  # another file system, one without links, too many links, or it was just removed
                continue
            # Compare it with its manifest. Reading costs less than writing, and avoids spreading damage.
            if target.stat().st_size == wanted.size and digest_file(target, wanted.digest) == wanted.digest:
                return True
            target.unlink()
        return False

"""Where publications from a URL lie while they are open. Law: a folder goes with the process that fetched into it; of
one that was killed, with the next that fetches.
"""

from __future__ import annotations

from pathlib import Path

from workbench.store.owner.runtime import temporary


def cache() -> Path:
    """A new folder that lasts as long as this process."""
    folder = temporary("opened") / "store"
    folder.mkdir()
    return folder

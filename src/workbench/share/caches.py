"""Cache folders of publications opened from a URL. Law: a folder is deleted with the process that fetched into it, or
after a kill by the next process that fetches.
"""

from __future__ import annotations

from pathlib import Path

from workbench.store.owner.runtime import temporary


def cache() -> Path:
    """A new folder that exists as long as this process."""
    folder = temporary("opened") / "store"
    folder.mkdir()
    return folder

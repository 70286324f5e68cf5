"""What differs between two trials or two experiments, and the first step at which they differ. Law: it reads the store
and its snapshots, loads nothing that was captured, and writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.compare.comparison import compare

__all__ = ["compare"]


def __getattr__(name: str) -> Any:
    # Imported late: most importers use only a part of this room (say, how bytes are written) and compare nothing.
    if name == "compare":
        from workbench.compare.comparison import compare

        return compare
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

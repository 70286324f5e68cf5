"""Training recorded trials again: a replay, repeats with other seeds, and hybrids that restore one difference after the
other.

Law: each is an ordinary experiment, made of parts of recorded specs and snapshots; the engine trains it like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.replay.again import Prepared, repeat, replay

__all__ = ["Prepared", "repeat", "replay"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from workbench.replay import again

        return getattr(again, name)
    raise AttributeError(name)

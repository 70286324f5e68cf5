"""Trials as runs of MLflow, TensorBoard and W&B: once, or while they train. The entry point names this file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.exporter import Order
    from workbench.exporters.mirrors.keeping import Mirrors
    from workbench.records import Json
    from workbench.store import Store


# Imports are inside functions: a mirror's process imports this package too, and the engine needs only the keeper.
def write(store: Store, order: Order) -> dict[str, Any]:
    """Write the experiment once; see :func:`workbench.exporters.mirrors.following.write`."""
    from workbench.exporters.mirrors.following import write

    return write(store, order.ref, order.target or "")


def lines(told: dict[str, Any]) -> list[str]:
    """What was written, as lines for the user."""
    checked = f", {told['read_back']} read back" if "read_back" in told else ""
    return [f"{told['trials']} trials, {told['points']} points{checked}", f"Written: {told['to']}"]


def targets(words: Sequence[str], written: str) -> tuple[Json, ...]:
    """The mirrors that ``words`` name, for a spec; see :func:`workbench.exporters.mirrors.words.read`."""
    from workbench.exporters.mirrors.words import read

    return tuple(one.to_json() for one in read(words, written))


def keeper(store: Store, tell: Callable[[str, str | None], None]) -> Mirrors:
    """The keeper, which starts a process for each mirror, and restarts it when it dies."""
    from workbench.exporters.mirrors.keeping import Mirrors

    return Mirrors(store, tell)

"""What parts of the engine need of it. Law: an interface for each part, no wider than the part; a test can be one."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from workbench.engine.asking.book import Book
    from workbench.engine.loop import ExperimentLoop
    from workbench.engine.slots import Slots
    from workbench.engine.telling.courier import Courier
    from workbench.engine.telling.mirrors import Mirrors
    from workbench.engine.tending.lost import Mender
    from workbench.engine.tending.room import Rooms
    from workbench.engine.tending.upkeep import Upkeep
    from workbench.records import Spec
    from workbench.store import Store
    from workbench.store.lists.catalog import Catalog


class Experiments(Protocol):
    """The experiments of a store: all of them as the catalog lists them, and the open ones."""

    @property
    def store(self) -> Store: ...

    @property
    def catalog(self) -> Catalog: ...

    @property
    def loops(self) -> Mapping[str, ExperimentLoop]:
        """Open experiments by id."""

    def begin(self, experiment: str) -> None:
        """Continue an experiment from its journal, or start it. Raises WorkbenchError."""


class Mended(Experiments, Protocol):
    """What rebuilding lost series needs."""

    @property
    def upkeep(self) -> Upkeep: ...


class Tended(Experiments, Protocol):
    """What removing files needs."""

    @property
    def book(self) -> Book: ...

    @property
    def courier(self) -> Courier: ...

    @property
    def mirrors(self) -> Mirrors: ...

    @property
    def rooms(self) -> Rooms: ...

    def send_all(self, spec: Spec) -> None:
        """Copy the checkpoints of all trials of ``spec`` to its storage."""

    def later(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run ``coroutine`` soon."""


class Asked(Experiments, Protocol):
    """What answering requests needs."""

    @property
    def slots(self) -> Slots: ...

    @property
    def book(self) -> Book: ...

    @property
    def mender(self) -> Mender: ...

    @property
    def rooms(self) -> Rooms: ...

    @property
    def trouble(self) -> str | None:
        """Why nothing can train here; None if it can."""

    @property
    def upkeep(self) -> Upkeep: ...

    def end(self) -> None:
        """End the engine."""

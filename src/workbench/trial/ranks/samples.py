"""Which part of the current batch this rank has. Law: over all ranks, the parts of one batch add up to 1."""

from __future__ import annotations

from workbench.errors import BadInput


class Samples:
    """The samples that the loaders of this rank have given. size: the number of ranks."""

    def __init__(self, size: int) -> None:
        self._even = (1, size)
        #: The last part that each sharded data set gave since the last backward pass: samples here, and on all ranks.
        self._parts: dict[str, tuple[int, int]] = {}
        self._last = self._even
        #: Samples since the last report: those that count, and those that repeat one because a part was empty.
        self._unreported = self._repeated = 0
        self._reported = (0, 0)

    def given(self, source: str, here: int, everywhere: int) -> None:
        """A loader gave a part of a batch. source: its name. here: samples on this rank. everywhere: on all ranks."""
        self._parts[source] = self._last = (here, everywhere)
        self._unreported += here
        self._repeated += not here

    def given_whole(self, source: str) -> None:
        """A loader gave the same batch to all ranks, which was asked for before they started: they count equally."""
        self._parts[source] = self._last = self._even

    def given_own(self) -> None:
        """A loader that the training code has split gave a batch: the ranks count equally."""
        self._parts.clear()
        self._last = self._even

    def share(self) -> float:
        """This rank's weight in the mean over the batch that is trained now, from 0 to 1."""
        here, everywhere = self._last
        return here / everywhere

    def take_share(self) -> float:
        """The same, once for each backward pass.

        Raises BadInput if loaders were split in different proportions since the last call, because then no single
        weight is right.
        """
        first, *others = self._parts.items() or [("", self._last)]
        for name, (here, everywhere) in others:
            if here * first[1][1] != first[1][0] * everywhere:
                raise BadInput(
                    f"one backward pass uses a batch of {first[0]} ({first[1][0]} of {first[1][1]} samples on this "
                    f"rank) and one of {name} ({here} of {everywhere}), so the ranks have no common weight. Use "
                    "drop_last=True and batch sizes that the number of slots divides."
                )
        self._parts.clear()
        return self.share()

    def take_unreported(self) -> tuple[int, int, int]:
        """Samples that sharded loaders gave to this rank since the last call. Then, since the last call before which
        they gave some: those that counted, and those that repeated one because the rank's part was empty."""
        taken = self._unreported
        if taken or self._repeated:
            self._reported = taken, self._repeated
        self._unreported = self._repeated = 0
        return taken, *self._reported

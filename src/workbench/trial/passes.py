"""How a pass over a loader starts at its n-th batch. Law: the same batches as always; those before are not read.

The order of a pass is drawn when it starts. So a checkpoint inside it holds the random state (and the sampler's) of
that moment: with it restored, the same order is drawn again, its first batches are skipped as bare indices, and no
data is loaded.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from workbench.snapshot.imported import loaded
from workbench.trial import iterators
from workbench.trial.classifier import has_state_dict
from workbench.trial.generators import seeds
from workbench.trial.samplers import Replaced, changed, put_back, put_samplers, sampler_states, samplers_of, streams_of


class Pass(Protocol):
    """One kind of loader, and how its pass starts."""

    #: Why it can start only at its first batch; empty if it can start anywhere.
    refused: str
    #: What differs if it starts later; empty if nothing does.
    remark: str

    def state(self) -> Any:
        """The state that its order depends on, taken before it starts; plain data."""

    def put(self, state: Any) -> None:
        """Restore that state before it starts again."""

    def begin(self, skip: int) -> Iterator[Any]:
        """The batches from number ``skip`` on."""

    def changed(self, state: Any) -> str:
        """What has changed since ``state`` was taken and is too large to be in it; empty if nothing has."""


def pass_over(loader: Any) -> Pass:
    """How a pass over ``loader`` starts."""
    if has_state_dict(loader) and not type(loader).__module__.startswith("torchdata."):
        return OwnState(loader)
    torch = loaded("torch")
    if torch is not None:
        data = torch.utils.data
        if isinstance(loader, data.DataLoader) and _is_librarys(type(loader).__iter__):
            return Again(loader) if isinstance(loader.dataset, data.IterableDataset) else Loader(loader)
        if isinstance(loader, torch.Tensor):
            return Rows(loader)
    numpy = loaded("numpy")
    if isinstance(loader, list | tuple | range) or (numpy is not None and isinstance(loader, numpy.ndarray)):
        return Rows(loader)
    if not hasattr(type(loader), "__iter__") and hasattr(type(loader), "__getitem__"):
        return Items(loader)
    if isinstance(loader, Iterator):
        return Once(loader)
    return Again(loader)


def _is_librarys(function: Any) -> bool:
    """True for a method of torch's own DataLoader or of torchdata's StatefulDataLoader."""
    return str(function.__module__).startswith(("torch.utils.data.", "torchdata.stateful_dataloader."))


class _Plain:
    refused = ""
    remark = ""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        #: Attributes that a pass that is started again found with the values of its start.
        self._replaced: list[Replaced] = []

    def state(self) -> Any:
        return seeds.state()

    def put(self, state: Any) -> None:
        seeds.put(state)

    def changed(self, state: Any) -> str:
        return ""


class Rows(_Plain):
    """A sequence in memory."""

    def begin(self, skip: int) -> Iterator[Any]:
        return itertools.islice(iter(self.loader), skip, None)


class Items(_Plain):
    """A dataset that returns one item at a time."""

    def begin(self, skip: int) -> Iterator[Any]:
        for number in itertools.count(skip):
            try:
                item = self.loader[number]
            except IndexError:
                return
            yield item


class Again(_Plain):
    """An iterable that yields its batches in a fixed order: earlier batches are read again, and dropped."""

    remark = "its first batches are read again and dropped, because it cannot start at a later one"

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        torch = loaded("torch")
        if torch is not None and isinstance(loader, torch.utils.data.DataLoader):
            # Its workers have copies of the data set, which a pass does not change.
            self._parts = [*samplers_of(loader), *([] if loader.num_workers else streams_of(loader.dataset))]
        else:
            self._parts = streams_of(loader)

    def state(self) -> Any:
        return seeds.state(), sampler_states(self._parts)

    def put(self, state: Any) -> None:
        random_state, parts = (state, []) if isinstance(state, dict) else state  # earlier versions: the first alone
        self._replaced = put_samplers(self._parts, parts)
        seeds.put(random_state)

    def changed(self, state: Any) -> str:
        return changed(self._parts, state[1])

    def begin(self, skip: int) -> Iterator[Any]:
        with _continuing(self.loader, skip):
            batches: Iterator[Any] = iter(self.loader)
        for _ in range(skip):
            next(batches, None)
        put_back(self._replaced)
        return batches


class Once(_Plain):
    """An iterator: how much it has already yielded is unknown."""

    refused = "an iterator cannot be restarted: give trial.batches() the loader itself"

    def begin(self, skip: int) -> Iterator[Any]:
        return iter(self.loader)


class OwnState(_Plain):
    """A loader that saves and loads its position (``state_dict``), as torchdata's StatefulDataLoader."""

    def begin(self, skip: int) -> Iterator[Any]:
        return iter(self.loader)


class Loader(_Plain):
    """A torch DataLoader over a dataset with an index."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        in_order = getattr(loader, "in_order", True)
        self._keeps_workers = loader.num_workers > 0 and (loader.persistent_workers or not in_order)
        if loader.num_workers > 0 and not in_order:
            self.refused = "with in_order=False its batches come in the order in which its workers finish them"
        #: Workers of an earlier pass persist, and their seed was drawn then.
        self._has_workers = False

    def state(self) -> Any:
        self._has_workers = self._keeps_workers and getattr(self.loader, "_iterator", None) is not None
        return seeds.state(), sampler_states(samplers_of(self.loader), self.loader.dataset), self._has_workers

    def put(self, state: Any) -> None:
        random_state, samplers, *more = state  # checkpoints of earlier versions contain two
        self._has_workers = any(more)
        self._replaced = put_samplers(samplers_of(self.loader), samplers)
        seeds.put(random_state)

    def changed(self, state: Any) -> str:
        return changed(samplers_of(self.loader), state[1])

    def begin(self, skip: int) -> Iterator[Any]:
        seeded = self.loader.num_workers > 0 and not self._keeps_workers
        if not skip and not seeded:
            return iter(self.loader)
        if skip and self._has_workers:
            again = self._again(skip)
            put_back(self._replaced)
            return again
        loader = copy.copy(self.loader)
        attributes = vars(loader)
        attributes["_iterator"] = None
        skipping = None
        if skip:
            which = "sampler" if loader.batch_sampler is None else "batch_sampler"
            attributes[which] = skipping = Skipping(attributes[which], skip)
        if seeded:
            seeding = Seeding(loader.collate_fn, loader.worker_init_fn, loader.num_workers, skip)
            loader.collate_fn, loader.worker_init_fn = seeding, seeding.begin
        with _continuing(self.loader, skip, skip):
            batches: Iterator[Any] = iter(loader)
        if skipping is not None:
            skipping.prime()
        put_back(self._replaced)
        return batches

    def _again(self, skip: int) -> Iterator[Any]:
        """Start a pass of workers that were there before it: its sampler is started once, as it was then."""
        lasting = self.loader._iterator
        sampler = lasting._index_sampler
        lasting._index_sampler = Skipping(sampler, skip)
        with _continuing(self.loader, skip, skip):
            batches: Iterator[Any] = iter(self.loader)
        lasting._index_sampler = sampler
        return batches


def _continuing(loader: Any, skip: int, left_out: int = 0) -> contextlib.AbstractContextManager[None]:
    """While a pass is started again to skip batches: persistent workers draw the random numbers of that pass.

    left_out: the number of batches that they are not asked for.
    """
    place = iterators.workers_of(loader) if skip and getattr(loader, "persistent_workers", False) else None
    return contextlib.nullcontext() if place is None else iterators.continuing(place, left_out)


class Skipping:
    """A sampler without its first indices. They are drawn when the sampler would draw them, and then dropped."""

    def __init__(self, sampler: Iterable[Any], skip: int) -> None:
        self._sampler, self._skip = sampler, skip
        self._last: _Skipped | None = None

    def __iter__(self) -> Iterator[Any]:
        self._last = _Skipped(iter(self._sampler), self._skip)
        return self._last

    def __len__(self) -> int:
        return len(self._sampler)  # type: ignore[arg-type]

    def prime(self) -> None:
        """Draw the skipped indices now: afterwards the random state is set to that of the checkpoint."""
        if self._last is not None:
            self._last.prime()


class _Skipped:
    def __init__(self, indices: Iterator[Any], skip: int) -> None:
        self._indices, self._skip = indices, skip

    def __iter__(self) -> Iterator[Any]:
        return self

    def prime(self) -> None:
        while self._skip:
            self._skip -= 1
            next(self._indices, None)

    def __next__(self) -> Any:
        self.prime()
        return next(self._indices)


class Seeding:
    """In a loader's worker: make all randomness of a batch depend only on the pass and the batch's number."""

    def __init__(self, collate: Any, init: Any, workers: int, first: int) -> None:
        self._collate, self._init, self._workers = collate, init, workers
        #: The number of the worker's next batch in the pass.
        self._batch = first
        self._pass = 0

    def begin(self, worker: int) -> None:
        """Called in the worker when it starts."""
        from torch.utils.data import get_worker_info

        if self._init is not None:
            self._init(worker)
        info = get_worker_info()
        assert info is not None
        self._pass = info.seed - worker
        self._batch += worker
        self._seed()

    def __call__(self, samples: Any) -> Any:
        batch = self._collate(samples)
        self._batch += self._workers
        self._seed()
        return batch

    def _seed(self) -> None:
        digest = hashlib.sha256(f"{self._pass}/{self._batch}".encode()).digest()
        seeds.seed_worker(int.from_bytes(digest[:7], "big"))

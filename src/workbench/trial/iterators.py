"""An iterator over a DataLoader that the loop keeps: ``it = iter(loader)``. Law: the order of its pass is drawn again.

A sampler is a generator, which cannot be saved. So a pass notes what its order depends on when it begins (random
states, those of the samplers included) and how many batches of indices it gave. After a resume the same order is
drawn again the first time that a batch is wanted, and what was given is dropped as bare indices: nothing is loaded.
Random states are afterwards as they were before.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import inspect
import itertools
import random
from collections.abc import Iterator
from typing import Any

from workbench.trial import seeds
from workbench.trial.kinds import IsLeft, Kind, See, Token, loaded
from workbench.trial.looking.digests import digest
from workbench.trial.samplers import put_samplers, sampler_states, samplers_of

_SINGLE, _MULTI = "_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter"


def watch() -> None:
    """From now on iterators over DataLoaders can be saved. Where torch is not imported yet, nothing is done."""
    different.clear()
    torch_loader = loaded("torch.utils.data.dataloader")
    if torch_loader is None or hasattr(torch_loader, "workbench_watches"):
        return
    torch_loader.workbench_watches = True
    _watch_single(getattr(torch_loader, _SINGLE))
    _seed_lasting_workers(getattr(torch_loader, _MULTI))


def _watch_single(cls: Any) -> None:
    begin = cls.__init__

    @functools.wraps(begin)
    def watched(self: Any, loader: Any) -> None:
        before = None if _is_lazy(loader) else _order(loader)
        begin(self, loader)
        if type(self) is cls and _reads_by_index(self):
            self._sampler_iter = Indices(loader, before, self._sampler_iter)

    cls.__init__ = watched


def is_exact(obj: Any) -> bool:
    """True for an iterator over a DataLoader, without workers, whose place can be saved."""
    return type(obj).__name__ == _SINGLE and type(vars(obj).get("_sampler_iter")) is Indices


class Indices:
    """The batches of indices of one pass, drawn from the loader's sampler; it can be drawn again."""

    __slots__ = ("_before", "_first", "_indices", "_last", "_loader", "given")

    def __init__(self, loader: Any, before: Any, indices: Iterator[Any] | None) -> None:
        self._loader, self._before, self._indices = loader, before, indices
        #: What the order depends on: as it was before the first was drawn; None as long as none is.
        self._first: Any = None
        self._last: Any = None
        #: Batches of indices given so far.
        self.given = 0

    def __iter__(self) -> Indices:
        return self

    def __next__(self) -> Any:
        if self._first is None:
            self._first = _order(self._loader)
        if self._indices is None:
            self._indices = self._again()
        # Counted before: the last draw of a pass, which gives nothing, moves generators as well.
        self.given += 1
        self._last = None
        self._last = next(self._indices)
        return self._last

    def saved(self) -> tuple[Any, ...]:
        """All that it takes to draw the same order again, but for the loader."""
        return self._before, self._first, self.given, self._last

    def put(self, saved: tuple[Any, ...]) -> None:
        """Be where ``saved`` was. The order is drawn again when it is needed: by then all else is put back."""
        self._before, self._first, self.given, self._last = saved
        self._indices = None

    def __reduce__(self) -> Any:
        return _indices, (self._loader, self.saved())

    def _again(self) -> Iterator[Any]:
        loader = self._loader
        now = _order(loader)
        try:
            if self._before is not None:
                _put_order(loader, self._before)
            indices: Iterator[Any] = iter(loader._index_sampler)
            _put_order(loader, self._first)
            dropped = collections.deque(itertools.islice(indices, self.given), maxlen=1)
        finally:
            _put_order(loader, now)
        if self._last is not None and [repr(one) for one in dropped] != [repr(self._last)]:
            different.append(f"an iterator over a {type(loader).__name__}")
        return indices


DIFFERENT = "its sampler does not give the same order again"
#: Iterators of this leg that did not come out as they were.
different: list[str] = []


def _indices(loader: Any, saved: tuple[Any, ...]) -> Indices:
    made = Indices(loader, None, None)
    made.put(saved)
    return made


class IndicesKind(Kind):
    """How :class:`Indices` are looked into: by how the pass began, and how far it is."""

    def look(self, obj: Any, see: See) -> Token:
        return (obj.given, digest(repr(obj.saved()).encode()), see(obj._loader, "._loader"))

    def content(self, obj: Any, left: IsLeft) -> Any:
        return obj.saved()

    def put(self, obj: Any, content: Any) -> None:
        obj.put(content)


INDICES = IndicesKind()


def reduced(obj: Any) -> Any:
    """How pickle makes such an iterator again: torch's class refuses to be pickled."""
    return object.__new__, (type(obj),), dict(vars(obj))


def _reads_by_index(iterator: Any) -> bool:
    data = loaded("torch.utils.data")
    return not isinstance(iterator._dataset, data.IterableDataset) and not _is_pipe(iterator._dataset)


def _is_pipe(dataset: Any) -> bool:
    return any(cls.__name__ in ("IterDataPipe", "MapDataPipe") for cls in type(dataset).__mro__)


def _is_lazy(loader: Any) -> bool:
    """True where nothing is drawn before the first batch is wanted: the sampler's ``__iter__`` is a generator."""
    return inspect.isgeneratorfunction(type(loader._index_sampler).__iter__)


def _order(loader: Any) -> Any:
    samplers = samplers_of(loader)
    torch = loaded("torch")
    if all(type(one).__module__.startswith("torch.") for one in samplers):
        # Torch's own draw from torch's generators alone, and this is asked at every pass.
        numbers: Any = torch.get_rng_state().numpy().tobytes()
    else:
        numbers = seeds.state()
    return numbers, sampler_states(samplers, loader.dataset)


def _put_order(loader: Any, order: Any) -> None:
    numbers, states = order
    put_samplers(samplers_of(loader), states)
    if isinstance(numbers, bytes):
        torch = loaded("torch")
        torch.set_rng_state(torch.frombuffer(bytearray(numbers), dtype=torch.uint8))
    else:
        seeds.put(numbers)


# ---------------------------------------------------------------------------------------------------------------------
# Workers that outlive a pass


class Seeded(list[Any]):
    """The indices of one batch. Whoever reads them draws from here on what this batch of this pass draws."""

    seed = 0

    def __iter__(self) -> Iterator[Any]:
        torch, numpy = loaded("torch"), loaded("numpy")
        # The training's own process reads them too, to send them to a worker.
        if torch is not None and torch.utils.data.get_worker_info() is not None:
            random.seed(self.seed)
            torch.manual_seed(self.seed)
            if numpy is not None:
                numpy.random.seed(self.seed % (1 << 32))
        return super().__iter__()


def _seed_lasting_workers(cls: Any) -> None:
    """Have what is random in a batch depend on its pass and number alone, where workers live from pass to pass.

    Their own random state lies in their processes: no checkpoint reaches it.
    """
    reset, following = cls._reset, cls._next_index

    @functools.wraps(reset)
    def counted(self: Any, loader: Any, first_iter: bool = False) -> None:
        self.workbench_pass = getattr(self, "workbench_pass", 0) + 1
        reset(self, loader, first_iter)

    @functools.wraps(following)
    def seeded(self: Any) -> Any:
        indices = following(self)
        if not self._persistent_workers or type(indices) is not list:
            return indices
        found = Seeded(indices)
        which = f"{self._base_seed}/{self.workbench_pass}/{self._send_idx}"
        found.seed = int.from_bytes(hashlib.sha256(which.encode()).digest()[:7], "big")
        return found

    cls._reset, cls._next_index = counted, seeded


def workers_of(loader: Any) -> tuple[int, int] | None:
    """Where the lasting workers of ``loader`` are: their seed, and passes begun; None where it has none."""
    lasting = getattr(loader, "_iterator", None)
    return None if lasting is None else (lasting._base_seed, getattr(lasting, "workbench_pass", 0))


def put_workers(loader: Any, saved: tuple[int, int]) -> None:
    """Put the workers of ``loader``, which were begun anew, where those of :func:`workers_of` were."""
    loader._iterator._base_seed, loader._iterator.workbench_pass = saved

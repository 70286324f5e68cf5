"""An iterator over a DataLoader that the loop keeps: ``it = iter(loader)``. Law: the order of its pass is drawn again.

A sampler is a generator, which cannot be saved. So when a pass starts, the random states that its order depends on
(also those of the samplers) are recorded, and then how many batches of indices it has yielded. After a resume the same
order is drawn again when the first batch is requested, and batches already yielded are dropped as bare indices: their
data is not loaded. Random states are afterwards as they were before.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import hashlib
import inspect
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from workbench.snapshot.imported import loaded
from workbench.trial import torch_kinds
from workbench.trial.generators import seeds
from workbench.trial.kinds import IsLeft, Kind, See, Token
from workbench.trial.looking.digests import digest
from workbench.trial.samplers import put_samplers, sampler_states, samplers_of

_SINGLE, _SEVERAL = "_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter"


#: Called with each DataLoader when a pass over it makes an iterator.
Look = Callable[[Any], None]
_look: Look | None = None


class Waits(Protocol):
    """Is told whenever a batch is requested of an iterator over a DataLoader."""

    def enter(self) -> bool:
        """The request begins. False if it is not to be measured."""

    def leave(self, iterator: Any, begun: float, is_edge: bool) -> None:
        """The request has ended that began at ``begun`` (``time.perf_counter``). iterator: None if starting it failed.
        is_edge: a pass begins or ends with it."""


_waits: Waits | None = None


def watch(look: Look | None = None, waits: Waits | None = None) -> None:
    """A leg starts, or has ended: from now on, iterators over DataLoaders can be saved, ``look`` sees the loaders, and
    ``waits`` the requests for batches.

    If torch is not imported yet, call :func:`torch_imported` when it is.
    """
    global _look, _waits
    _look, _waits = look, waits
    different.clear()
    torch_imported()


def torch_imported() -> None:
    """Torch may have been imported since the last call."""
    torch_loader = loaded("torch.utils.data.dataloader")
    if torch_loader is None or hasattr(torch_loader, "workbench_watches"):
        return
    torch_loader.workbench_watches = True
    _watch_single(getattr(torch_loader, _SINGLE))
    # torchdata's iterators extend this class too.
    _watch_all(torch_loader._BaseDataLoaderIter)
    _time_all(torch_loader._BaseDataLoaderIter, getattr(torch_loader, _SEVERAL))


def _time_all(cls: Any, several: Any) -> None:
    ask, start = cls.__next__, several.__init__

    @functools.wraps(ask)
    def asked(self: Any) -> Any:
        waits = _waits
        if waits is None or not waits.enter():
            return ask(self)
        begun, before = time.perf_counter(), self._num_yielded
        try:
            return ask(self)
        finally:
            waits.leave(self, begun, before == 0 or self._num_yielded == before)

    @functools.wraps(start)
    def started(self: Any, loader: Any) -> None:
        waits = _waits
        if waits is None or not waits.enter():
            start(self, loader)
            return
        begun, made = time.perf_counter(), None
        try:
            start(self, loader)
            made = self
        finally:
            waits.leave(made, begun, True)

    cls.__next__, several.__init__ = asked, started


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
    """True for an iterator over a DataLoader, without workers, whose position can be saved."""
    return type(obj).__name__ == _SINGLE and type(vars(obj).get("_sampler_iter")) is Indices


class Indices:
    """The batches of indices of one pass, drawn from the loader's sampler; it can be drawn again."""

    __slots__ = ("_before", "_first", "_indices", "_last", "_loader", "given")

    def __init__(self, loader: Any, before: Any, indices: Iterator[Any] | None) -> None:
        self._loader, self._before, self._indices = loader, before, indices
        #: The state that the order depends on, from before the first draw; None until then.
        self._first: Any = None
        self._last: Any = None
        #: Batches of indices yielded so far.
        self.given = 0

    def __iter__(self) -> Indices:
        return self

    def __next__(self) -> Any:
        if self._first is None:
            self._first = _order(self._loader)
        if self._indices is None:
            self._indices = self._again()
        # Counted before the draw: the last draw of a pass, which yields nothing, also advances generators.
        self.given += 1
        self._last = None
        self._last = next(self._indices)
        return self._last

    def saved(self) -> tuple[Any, ...]:
        """Everything needed to draw the same order again, except the loader."""
        return self._before, self._first, self.given, self._last

    def put(self, saved: tuple[Any, ...]) -> None:
        """Restore the position in ``saved``. The order is drawn again when needed: all else is restored by then."""
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
#: Iterators of this leg that were not restored exactly.
different: list[str] = []


def _indices(loader: Any, saved: tuple[Any, ...]) -> Indices:
    made = Indices(loader, None, None)
    made.put(saved)
    return made


class IndicesKind(Kind):
    """How :class:`Indices` are inspected: by how the pass started, and its position."""

    def look(self, obj: Any, see: See) -> Token:
        return (obj.given, digest(repr(obj.saved()).encode()), see(obj._loader, "._loader"))

    def content(self, obj: Any, left: IsLeft) -> Any:
        return obj.saved()

    def put(self, obj: Any, content: Any) -> None:
        obj.put(content)


INDICES = IndicesKind()


def reduced(obj: Any) -> Any:
    """How pickle recreates such an iterator: torch's class refuses to be pickled."""
    return object.__new__, (type(obj),), dict(vars(obj))


def _reads_by_index(iterator: Any) -> bool:
    data = loaded("torch.utils.data")
    return not isinstance(iterator._dataset, data.IterableDataset) and not _is_pipe(iterator._dataset)


def _is_pipe(dataset: Any) -> bool:
    return any(cls.__name__ in ("IterDataPipe", "MapDataPipe") for cls in type(dataset).__mro__)


def _is_lazy(loader: Any) -> bool:
    """True if nothing is drawn before the first batch is requested: the sampler's ``__iter__`` is a generator."""
    return inspect.isgeneratorfunction(type(loader._index_sampler).__iter__)


def _order(loader: Any) -> Any:
    samplers = samplers_of(loader)
    torch = loaded("torch")
    if all(type(one).__module__.startswith("torch.") for one in samplers):
        # Only torch's own draws from torch's generators; this runs at every pass.
        numbers: Any = torch.get_rng_state().numpy().tobytes()
    else:
        numbers = seeds.state()
    return numbers, sampler_states(samplers, loader.dataset)


def _put_order(loader: Any, order: Any) -> None:
    numbers, states = order
    put_samplers(samplers_of(loader), states)
    if isinstance(numbers, bytes):
        loaded("torch").set_rng_state(torch_kinds.random_state(numbers))
    else:
        seeds.put(numbers)


# ---------------------------------------------------------------------------------------------------------------------
# Persistent workers


class Seeded(list[Any]):
    """The indices of one batch. Reading them in a worker seeds its generators for this batch of this pass."""

    seed = 0

    def __iter__(self) -> Iterator[Any]:
        torch = loaded("torch")
        # The main process reads them too, to send them to a worker.
        if torch is not None and torch.utils.data.get_worker_info() is not None:
            seeds.seed_worker(self.seed)
        return super().__iter__()


def _watch_all(cls: Any) -> None:
    """Look at each loader. With persistent workers, make all randomness of a batch depend only on its pass and number:
    their own random state is in their processes, where no checkpoint reaches it.
    """
    begin, reset, following = cls.__init__, cls._reset, cls._next_index

    @functools.wraps(begin)
    def begun(self: Any, loader: Any) -> None:
        if _look is not None:
            _look(loader)
        begin(self, loader)

    @functools.wraps(reset)
    def counted(self: Any, loader: Any, first_iter: bool = False) -> None:
        self.workbench_pass = getattr(self, "workbench_pass", 0) + 1
        self.workbench_skipped = 0
        if _continued is not None:
            self._base_seed, self.workbench_pass, self.workbench_skipped = _continued
        reset(self, loader, first_iter)

    @functools.wraps(following)
    def seeded(self: Any) -> Any:
        indices = following(self)
        if not self._persistent_workers or type(indices) is not list:
            return indices
        found = Seeded(indices)
        which = f"{self._base_seed}/{self.workbench_pass}/{self._send_idx + self.workbench_skipped}"
        found.seed = int.from_bytes(hashlib.sha256(which.encode()).digest()[:7], "big")
        return found

    cls.__init__, cls._reset, cls._next_index = begun, counted, seeded


#: The seed, the pass and the number of skipped batches of persistent workers that are started now.
_continued: tuple[int, int, int] | None = None


@contextlib.contextmanager
def continuing(place: tuple[int, int], skipped: int) -> Iterator[None]:
    """Persistent workers whose pass starts in this context continue the pass of ``place`` (see :func:`workers_of`)."""
    global _continued
    _continued = (*place, skipped)
    try:
        yield
    finally:
        _continued = None


def workers_of(loader: Any) -> tuple[int, int] | None:
    """The position of the persistent workers of ``loader``: their seed, and passes started; None if it has none."""
    lasting = getattr(loader, "_iterator", None)
    return None if lasting is None else (lasting._base_seed, getattr(lasting, "workbench_pass", 0))


def put_workers(loader: Any, saved: tuple[int, int]) -> None:
    """Restore the position that :func:`workers_of` returned for the restarted workers of ``loader``."""
    loader._iterator._base_seed, loader._iterator.workbench_pass = saved

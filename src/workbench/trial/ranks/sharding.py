"""Each rank's part of every batch. Law: the batches and their order are those of one process; a rank reads its part.

A plain ``DataLoader`` asks its sampler for the indices of a batch. Each rank asks for the same batch (see
:mod:`workbench.trial.ranks.orders`) and keeps one of N contiguous parts, whose sizes differ by at most one. So the
mean over all parts, weighted by their samples (:class:`~workbench.trial.ranks.samples.Samples`), is the mean over the
batch. If a batch has fewer samples than there are ranks, the ranks without one read its first sample with weight 0:
they must go through the same forward and backward passes.

A pass that starts while gradients are disabled, or while all models are in evaluation mode, is an evaluation. It is not
split: code divides a sum by ``len(dataset)``, and would then report a part of it.

The loader and its sampler are not replaced, since they are state that checkpoints hold. The iterators' class is
extended, as :mod:`workbench.trial.iterators` does. So a loader that is made during training is split too. An iterator
that was made before is split from its next batch on; batches that its workers have been asked for by then stay whole.

``itertools.cycle`` keeps the batches of its first pass and never asks again, so what it gives later has no known part.
That is right if all parts were equal, and refused if not.
"""

from __future__ import annotations

import collections
import enum
import functools
import gc
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.errors import BadInput
from workbench.snapshot.imported import loaded
from workbench.trial.ranks.orders import Stream, only_torchs
from workbench.trial.ranks.samples import Samples

#: The class of torch whose iterators are extended, and the methods that are relied on.
_CLASS, _METHODS = "_BaseDataLoaderIter", ("__init__", "_reset", "_next_index", "__next__")
#: Added to the seed of the workers on each further rank, so that their augmentations differ. Torch's generator on the
#: CPU uses the low 32 bits of a seed; the workers of one rank have consecutive seeds.
_APART = 0x9E3779B1

_current: Sharding | None = None


class Way(enum.Enum):
    """How the ranks read in one pass over a loader."""

    #: Each its part of each batch.
    SPLIT = enum.auto()
    #: All of it: an evaluation. It may lie between a batch's load and its backward pass.
    WHOLE = enum.auto()
    #: As the training code has split it.
    OWN = enum.auto()


class Sharding:
    """How the loaders of this process are split."""

    def __init__(
        self, rank: int, size: int, samples: Samples, is_training: Callable[[], bool], named: Mapping[str, Any]
    ) -> None:
        """is_training: whether a pass that starts now is one of training. named: loaders and data sets by their names,
        for messages."""
        self.rank, self.size, self.samples = rank, size, samples
        self.stream = Stream()
        self._is_training = is_training
        self._names = {id(one): name for name, one in named.items()}
        #: The named objects: the ids above stay theirs.
        self._kept = list(named.values())
        #: Loaders whose passes are known not to be repeated by a cycle, by their names.
        self._without_cycle: set[str] = set()

    def begin(self) -> None:
        """From now on, split. Raises BadInput if this version of torch cannot be extended."""
        global _current
        _extend()
        _current = self

    def end(self) -> None:
        """From now on, do not split."""
        global _current
        _current = None

    def way(self, loader: Any) -> Way:
        """How the ranks read in the pass over ``loader`` that starts now. Raises BadInput if it cannot be split."""
        if not self._is_training():
            return Way.WHOLE
        data = loaded("torch.utils.data")
        if isinstance(loader.sampler, data.distributed.DistributedSampler):
            return Way.OWN
        if why := self._refused(loader, data):
            raise BadInput(
                f"{self.name(loader)} cannot be split over {self.size} ranks: {why} Or train each trial on one slot "
                "(--slots 1)."
            )
        return Way.SPLIT

    def _refused(self, loader: Any, data: Any) -> str:
        cls = type(loader.dataset).__name__
        if isinstance(loader.dataset, data.IterableDataset):
            return (
                f"its data set, of class {cls}, is iterable, so its samples have no index. Use a data set with "
                "__getitem__ and __len__."
            )
        if loader.batch_sampler is None and not isinstance(loader.sampler, data.BatchSampler):
            return (
                f"with batch_size=None its data set, of class {cls}, makes whole batches. Let the loader make them "
                "(batch_size=...), or give it a BatchSampler as its sampler."
            )
        if not getattr(loader, "in_order", True):
            return "with in_order=False each rank would get its parts in another order. Use in_order=True."
        return ""

    def loader_of(self, iterator: Any) -> Any:
        """The loader of an iterator that was made before the ranks started, or what is known of it."""
        data = loaded("torch.utils.data")
        for one in self._kept:
            if isinstance(one, data.DataLoader) and one._index_sampler is iterator._index_sampler:
                return one
        return _LoaderOf(iterator)

    def refuse_cycle(self, iterator: Any, name: str) -> None:
        """Raises BadInput if ``itertools.cycle`` repeats the pass that has ended, whose parts were not equal."""
        if name in self._without_cycle:
            return
        self._without_cycle.add(name)  # to look is as slow as to collect garbage
        if any(type(one) is itertools.cycle for one in gc.get_referrers(iterator)):
            raise BadInput(
                f"itertools.cycle repeats the batches of {name}, some of which {self.size} ranks cannot divide, so the "
                "ranks have no common weight. Use drop_last=True and a batch size that the number of slots divides, "
                "or a generator that reads the loader again: while True: yield from loader."
            )

    def name(self, loader: Any) -> str:
        """The loader as a user would name it."""
        for one in (loader, loader.dataset):
            if id(one) in self._names:
                name = self._names[id(one)]
                return f"the {type(loader).__name__} {name}" if one is loader else f"a loader over {name}"
        kind = "DataLoader" if isinstance(loader, _LoaderOf) else type(loader).__name__
        return f"a {kind} over a {type(loader.dataset).__name__}"

    def part(self, indices: Any) -> tuple[Any, int, int]:
        """This rank's part of a batch of indices, never empty; how many of its samples count; the batch's samples."""
        if not isinstance(indices, Sequence):
            indices = list(indices)
        start, end = bounds(len(indices), self.rank, self.size)
        part = indices[start:end] if end > start else indices[:1]
        if type(indices) is not list and isinstance(indices, list):
            # A list with a seed for the worker that reads it (`workbench.trial.iterators.Seeded`).
            part = type(indices)(part)
            part.__dict__.update(vars(indices), seed=vars(indices)["seed"] ^ self.rank)
        return part, end - start, len(indices)


def bounds(count: int, rank: int, size: int) -> tuple[int, int]:
    """The first sample of a rank's part, and the one after its last. The first parts get what is left over."""
    each, more = divmod(count, size)
    start = rank * each + min(rank, more)
    return start, start + each + (rank < more)


class _LoaderOf:
    """What an iterator has of its loader, by the loader's names."""

    def __init__(self, iterator: Any) -> None:
        sampler = iterator._index_sampler
        self.dataset = iterator._dataset
        self.batch_sampler = sampler if iterator._auto_collation else None
        self.sampler = getattr(sampler, "sampler", sampler)
        self.in_order = getattr(iterator, "_in_order", True)


class _Pass:
    """One pass over a loader: parts that were asked for and not yet given. whole: how many batches were asked for
    before the ranks started."""

    __slots__ = ("is_even", "name", "only_torchs", "parts", "way")

    def __init__(self, sharding: Sharding, loader: Any, whole: int = 0) -> None:
        self.way = sharding.way(loader)
        self.name = sharding.name(loader)
        self.only_torchs = only_torchs(loader)
        self.parts: collections.deque[tuple[int, int] | None] = collections.deque([None] * whole)
        #: Whether all parts so far were equal on all ranks.
        self.is_even = True


def _extend() -> None:
    module = loaded("torch.utils.data.dataloader")
    if module is None:
        return  # a process without torch has no loaders
    cls: Any = getattr(module, _CLASS, None)
    lacking = [name for name in _METHODS if not hasattr(cls, name)]
    if lacking:
        raise BadInput(
            f"loaders of torch {loaded('torch').__version__} cannot be split over ranks, because {_CLASS} has no "
            f"{', '.join(lacking)}. Use a version of torch that Workbench is tested with, or --slots 1."
        )
    if hasattr(cls, "workbench_splits"):
        return
    cls.workbench_splits = True
    begin, reset, following, give = (getattr(cls, name) for name in _METHODS)

    @functools.wraps(begin)
    def begun(self: Any, loader: Any) -> None:
        sharding = _current
        if sharding is None:
            begin(self, loader)
            return
        self.workbench_part = found = _Pass(sharding, loader)
        with sharding.stream.drawing(everything=not found.only_torchs):
            begin(self, loader)
        if found.way is Way.SPLIT:
            self._base_seed += _APART * sharding.rank

    @functools.wraps(reset)
    def again(self: Any, loader: Any, first_iter: bool = False) -> None:
        sharding = _current
        if sharding is None:
            reset(self, loader, first_iter)
            return
        self.workbench_part = found = _Pass(sharding, loader)
        with sharding.stream.drawing(everything=not found.only_torchs):
            reset(self, loader, first_iter)

    @functools.wraps(following)
    def asked(self: Any) -> Any:
        sharding, found = _current, getattr(self, "workbench_part", None)
        if sharding is None or found is None:
            return following(self)
        with sharding.stream.drawing(everything=not found.only_torchs):
            indices = following(self)
        if found.way is not Way.SPLIT:
            return indices
        part, counted, whole = sharding.part(indices)
        found.parts.append((counted, whole))
        found.is_even &= counted * sharding.size == whole
        return part

    @functools.wraps(give)
    def given(self: Any) -> Any:
        sharding, found = _current, getattr(self, "workbench_part", None)
        if sharding is None:
            return give(self)
        if found is None:
            under_way = getattr(self, "_send_idx", 0) - getattr(self, "_rcvd_idx", 0)
            self.workbench_part = found = _Pass(sharding, sharding.loader_of(self), under_way)
        try:
            batch = give(self)
        except StopIteration:
            if found.way is Way.SPLIT and not found.is_even:
                sharding.refuse_cycle(self, found.name)
            raise
        if found.way is Way.SPLIT:
            if (part := found.parts.popleft()) is None:
                sharding.samples.given_whole(found.name)
            else:
                sharding.samples.given(found.name, *part)
        elif found.way is Way.OWN:
            sharding.samples.given_own()
        return batch

    cls.__init__, cls._reset, cls._next_index, cls.__next__ = begun, again, asked, given

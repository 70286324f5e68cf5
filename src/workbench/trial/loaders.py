"""``trial.loader``: a DataLoader that resumes exactly. Law: the order is a function of (seed, epoch, position)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any


class Order:
    """A sampler: all positions once in each epoch, shuffled by the seed and the epoch's number and nothing else."""

    def __init__(self, size: int, seed: int, shuffle: bool) -> None:
        self.size, self.seed, self.shuffle = size, seed, shuffle
        #: Epochs started so far.
        self.epoch = 0

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        import torch

        epoch, self.epoch = self.epoch, self.epoch + 1
        if not self.shuffle:
            return iter(range(self.size))
        generator = torch.Generator().manual_seed(_seed(self.seed, epoch))
        return iter(torch.randperm(self.size, generator=generator).tolist())


def loader(dataset: Any, seed: int, **options: Any) -> Any:
    """A torch DataLoader over ``dataset`` in :class:`Order`. Options are DataLoader's; a given sampler is kept."""
    import torch
    from torch.utils.data import DataLoader, IterableDataset

    # Its own generator: the workers' seeds are drawn from it, not from the state that dropout draws from.
    options.setdefault("generator", torch.Generator().manual_seed(_seed(seed, -1)))
    if isinstance(dataset, IterableDataset) or options.get("sampler") is not None or "batch_sampler" in options:
        return DataLoader(dataset, **options)
    shuffle = bool(options.pop("shuffle", False))
    return DataLoader(dataset, sampler=Order(len(dataset), seed, shuffle), **options)


def _seed(seed: int, epoch: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{epoch}".encode()).digest()[:7], "big")

"""Values of models that are not trained, such as running statistics. Law: equal on all ranks after a backward pass.

The statistics of BatchNorm are those of the whole batch (:mod:`workbench.trial.ranks.norms`). Those of InstanceNorm are
means over samples: they are averaged by the weight of each rank's part. Other buffers that changed are those of the
first rank, as in torch's DistributedDataParallel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.errors import BadInput
from workbench.snapshot.imported import loaded
from workbench.trial.ranks import together
from workbench.trial.ranks.together import Place

_RUNNING = ("running_mean", "running_var")


class Buffers:
    """The buffers of all models."""

    def __init__(self, models: Mapping[str, Any]) -> None:
        torch = loaded("torch")
        instance_norm = loaded("torch.nn.modules.instancenorm")._InstanceNorm
        modules = {id(module): module for model in models.values() for module in model.modules()}
        norms = {
            key: one
            for key, one in modules.items()
            if isinstance(one, torch.nn.modules.batchnorm._NormBase) and one.running_mean is not None
        }
        # Further buffers of norms count batches, and are equal anyway.
        self._instance_norms = [one for one in norms.values() if isinstance(one, instance_norm)]
        others = (one for key, module in modules.items() if key not in norms for one in module.buffers(recurse=False))
        self._others = list({id(one): one for one in others}.values())
        self._versions = self._now()

    def average(self, share: float) -> None:
        """Make them equal again, where they may have changed since the last call. share: this rank's weight."""
        torch = loaded("torch")
        with torch.no_grad():
            # Not by their versions: torch's kernels do not count these changes.
            running = [getattr(one, name) for one in self._instance_norms if one.training for name in _RUNNING]
            for together in _by_type(running):
                _exchange(together, share)
            now = self._now()
            changed = zip(self._others, now, self._versions, strict=True)
            for together in _by_type([one for one, version, before in changed if version != before]):
                _exchange(together, None)
        self._versions = self._now()

    def _now(self) -> list[int]:
        return [one._version for one in self._others]


def _by_type(tensors: Iterable[Any]) -> Iterable[list[Any]]:
    found: dict[Any, list[Any]] = {}
    for one in tensors:
        found.setdefault((one.dtype, one.device), []).append(one)
    return found.values()


def _exchange(tensors: list[Any], share: float | None) -> None:
    """Average by the weights of all ranks, or take the values of the first if ``share`` is None; in one collective."""
    torch = loaded("torch")
    whole = torch.cat([one.reshape(-1) for one in tensors])
    if share is None:
        together.broadcast(whole, Place.BACKWARD)
    else:
        whole *= share
        together.all_reduce(whole, Place.BACKWARD)
    for one, part in zip(tensors, whole.split([one.numel() for one in tensors]), strict=True):
        one.copy_(part.view(one.shape))


def put_from_first(parameters: Sequence[tuple[str, Any]], buffers: Sequence[tuple[str, Any]]) -> None:
    """Give all ranks the values of the first. Raises BadInput if their models have other names, shapes or types."""
    torch = loaded("torch")
    names = [f"{name} {tuple(one.shape)} of {one.dtype}" for name, one in (*parameters, *buffers)]
    mine = hashlib.sha256(repr(names).encode()).hexdigest()
    if len(set(together.gather(mine, Place.COMPARISON))) > 1:
        raise BadInput(_different(together.gather(names, Place.COMPARISON)))
    with torch.no_grad():
        for _, one in (*parameters, *buffers):
            whole = one.detach().contiguous()
            whole = torch.view_as_real(whole) if whole.is_complex() else whole
            together.broadcast(whole, Place.COMPARISON)
            one.copy_(torch.view_as_complex(whole) if one.is_complex() else whole)


def _different(everyones: Sequence[Sequence[str]]) -> str:
    first = everyones[0]
    for rank, others in enumerate(everyones):
        for place in range(max(len(first), len(others))):
            pair = [names[place] if place < len(names) else "nothing" for names in (first, others)]
            if pair[0] != pair[1]:
                return (
                    f"the ranks made different models: rank 0 has {pair[0]} where rank {rank} has {pair[1]}. The code "
                    "before the loop must do the same on every rank; it must not depend on RANK or on the time."
                )
    return "the ranks made different models"

"""Gradients of one model in a few flat tensors, each averaged by one collective. Law: all ranks start the collectives
of a backward pass in the same order, each once.

A bucket's tensor holds the gradients of its parameters and then one flag for each: whether this rank's backward pass
reached it. Their sums tell whether any rank's did. A parameter that no rank reached keeps its gradient (``None``, too).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import BadInput
from workbench.snapshot.imported import loaded
from workbench.trial.ranks import together
from workbench.trial.ranks.together import Place

#: Bytes of gradients in the first bucket and in the others, as in torch's DistributedDataParallel.
FIRST_BYTES, BYTES = 1 << 20, 25 << 20


class Bucket:
    """Some parameters of one type on one device. members: their numbers in the model."""

    def __init__(self, members: Sequence[int], parameters: Sequence[Any]) -> None:
        torch = loaded("torch")
        self.members = tuple(members)
        self._parameters = [parameters[number] for number in members]
        first = self._parameters[0]
        ends, end = [], 0
        for one in self._parameters:
            end += one.numel() * (2 if one.is_complex() else 1)
            ends.append(end)
        self._flat = torch.zeros(end + len(ends), dtype=first.dtype.to_real(), device=first.device)
        self._gradients, self._flags = self._flat[:end], self._flat[end:]
        self._views = [
            torch.view_as_complex(self._flat[start:stop].view(*one.shape, 2))
            if one.is_complex()
            else self._flat[start:stop].view(one.shape)
            for one, start, stop in zip(self._parameters, [0, *ends], ends, strict=False)
        ]
        self._work: Any = None
        #: Members that this rank's backward pass has reached.
        self.reached: set[int] = set()

    @property
    def is_started(self) -> bool:
        """Whether its collective runs."""
        return self._work is not None

    def start(self, share: float, group: Any) -> None:
        """Start to average. share: the weight of this rank's gradients."""
        torch = loaded("torch")
        gradients = [one.grad for one in self._parameters]
        if any(one is None for one in gradients):
            self._gradients.zero_()
        there = [pair for pair in zip(self._views, gradients, strict=True) if pair[1] is not None]
        if there:
            torch._foreach_copy_(*map(list, zip(*there, strict=True)))
            self._gradients.mul_(share)
        if len(self.reached) == len(self.members):
            self._flags.fill_(1)
        else:
            flags = [float(number in self.reached) for number in self.members]
            self._flags.copy_(torch.tensor(flags, dtype=self._flat.dtype))
        self._work = torch.distributed.all_reduce(self._flat, group=group, async_op=True)

    def finish(self) -> None:
        """Wait, and set the gradients to the means."""
        torch = loaded("torch")
        together.wait(self._work, Place.BACKWARD, self._flat)
        self._work = None
        # The flags are read only if needed: on a GPU that waits for all that was queued.
        flags = self._flags.tolist() if len(self.reached) < len(self.members) else []
        targets, means = [], []
        for place, (one, view) in enumerate(zip(self._parameters, self._views, strict=True)):
            if flags and not flags[place]:
                continue
            if one.grad is None:
                one.grad = torch.empty_like(one).copy_(view)
            else:
                targets.append(one.grad)
                means.append(view)
        if targets:
            torch._foreach_copy_(targets, means)
        self.reached.clear()


def packed(order: Sequence[int], parameters: Sequence[Any]) -> list[Bucket]:
    """Buckets of the parameters with the numbers in ``order``, filled in that order. Those of one bucket have one type
    and device."""
    buckets: list[list[int]] = []
    filling: dict[Any, tuple[list[int], int]] = {}
    for number in order:
        one = parameters[number]
        key = (one.dtype, one.device)
        limit = BYTES if key in filling else FIRST_BYTES
        members, size = filling.get(key, ([], limit))
        if size >= limit:
            members, size = [], 0
            buckets.append(members)
        members.append(number)
        filling[key] = (members, size + one.numel() * one.element_size())
    return [Bucket(members, parameters) for members in buckets]


def refuse_sparse(name: str, parameter: Any) -> None:
    """Raise BadInput for a gradient that has no place in a flat tensor."""
    if parameter.grad.layout is not loaded("torch").strided:
        raise BadInput(
            f"the gradient of {name} is sparse, and sparse gradients are not averaged over ranks. Make the embedding "
            "with sparse=False, or use --slots 1."
        )

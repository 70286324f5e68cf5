"""Whether the ranks still train the same model. Law: a difference is an error on every rank, with its place and values.

Gradients that were averaged, and parameters that were changed by them, are the same bits on all ranks. They differ if
a gradient went past the hooks (``torch.autograd.grad``, a parameter that was made later), or if a rank took another
step (a learning rate that depends on its own samples). Sums of the bits are compared: they are the same in any order of
adding, so kernels and numbers of threads do not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.errors import TrialFailed
from workbench.snapshot.imported import loaded
from workbench.trial.ranks import together
from workbench.trial.ranks.together import Place

#: The integer type whose view of a tensor's bits is added, by bytes of an element.
_BITS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


def compare(named: Sequence[tuple[str, Any]], when: str) -> None:
    """Raises TrialFailed, on all ranks, if parameters or their gradients differ. All ranks must call this.

    when: the moment as shown to the user, such as "after step 100".
    """
    torch = loaded("torch")
    tensors = {}
    for name, one in named:
        tensors[name] = one.detach()
        if one.grad is not None and one.grad.layout is torch.strided:
            tensors[f"the gradient of {name}"] = one.grad.detach()
    # Its own first number: ranks with other tensors than the first are found before anything of another size is sent.
    names = hashlib.sha256(repr([(name, tuple(one.shape)) for name, one in tensors.items()]).encode()).digest()[:7]
    counts = together.all_gather(torch.tensor([int.from_bytes(names, "big")]), Place.COMPARISON)
    if any(int(count) != int(counts[0]) for count in counts):
        _refuse_names(list(tensors), when)
    if not tensors:
        return
    sums = together.all_gather(_sums(torch, list(tensors.values())), Place.COMPARISON)
    for place, (name, one) in enumerate(tensors.items()):
        for rank, others in enumerate(sums):
            if int(others[place]) != int(sums[0][place]):
                _refuse_value(name, one, rank, when)


def _sums(torch: Any, tensors: list[Any]) -> Any:
    """The sums of the tensors' bits, on the CPU. They are read from a GPU at once."""
    found: list[Any] = []
    devices: dict[Any, list[int]] = {}
    for place, one in enumerate(tensors):
        one = torch.view_as_real(one) if one.is_complex() else one
        found.append(_sum(torch, one.contiguous().reshape(-1)))
        devices.setdefault(one.device, []).append(place)
    sums = torch.empty(len(found), dtype=torch.int64)
    for places in devices.values():
        sums[places] = torch.stack([found[place] for place in places]).cpu()
    return sums


def _sum(torch: Any, flat: Any) -> Any:
    """The sum of a flat tensor's bits, eight bytes at a time: adding small numbers up in large ones is forty times
    slower."""
    size = flat.element_size()
    bits = flat.view(getattr(torch, _BITS[size]))
    several = 8 // size
    whole = 0 if flat.storage_offset() % several else len(flat) - len(flat) % several
    return bits[:whole].view(torch.int64).sum() + bits[whole:].sum(dtype=torch.int64)


def _refuse_names(names: list[str], when: str) -> None:
    everyones = together.gather(names, Place.COMPARISON)
    for rank, others in enumerate(everyones):
        if others != everyones[0]:
            only = sorted(set(others) ^ set(everyones[0]))
            raise TrialFailed(
                f"{when}, rank {rank} does not have the same parameters and gradients as rank 0: {_listed(only)}. The "
                "ranks must do the same: no branch may depend on the rank or on its own samples."
            )
    raise TrialFailed(f"{when}, the ranks have parameters of different shapes")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _refuse_value(name: str, one: Any, rank: int, when: str) -> None:
    """All ranks come here for the same tensor: the first rank's values are sent to the one that differs."""
    torch = loaded("torch")
    first = (torch.view_as_real(one) if one.is_complex() else one).contiguous().clone()
    own = first.clone()
    together.broadcast(first, Place.COMPARISON)
    found: Mapping[str, Any] = {}
    if torch.distributed.get_rank() == rank:
        bits = getattr(torch, _BITS[first.element_size()])
        place = int((first.view(bits) != own.view(bits)).reshape(-1).nonzero()[0])
        distance = (first.double() - own.double()).abs().reshape(-1)
        if float(distance.nan_to_num(0).max()) > 0:
            place = int(distance.nan_to_num(0).argmax())
        index = [int(number) for number in torch.unravel_index(torch.tensor(place), first.shape)]
        found = {"index": index, "pair": (first.reshape(-1)[place].item(), own.reshape(-1)[place].item())}
    everyones = together.gather(found, Place.COMPARISON)
    index, pair = everyones[rank]["index"], everyones[rank]["pair"]
    raise TrialFailed(
        f"{when}, the ranks differ: {name}{index or ''} is {pair[0]!r} on rank 0 and {pair[1]!r} on rank {rank}. Every "
        "rank must take the same steps: with gradients from backward() and not from torch.autograd.grad, with models "
        "made before the loop, and with no learning rate or branch that depends on the rank's own samples. Use "
        "trial.report's value, or --slots 1."
    )

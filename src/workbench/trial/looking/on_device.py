"""The digest of bytes that lie on a GPU, computed there. Law: every byte counts, and only the sums are copied.

Eight bytes at a time are mixed with a number that follows from their place, and added (modulo 2^64). The mixing is that
of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014), with its constants:
it is a bijection, so one change always shows, and several cancel by chance only, once in 2^64.
"""

from __future__ import annotations

from typing import Any

from workbench.snapshot.imported import loaded
from workbench.trial.looking.digests import digest

#: Numbers of eight bytes that are mixed at a time: 8 MB, and some times as much for what is computed.
_PIECE = 1 << 20
_FIRST, _SECOND = 0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64)
_STEP = 0x9E3779B97F4A7C15 - (1 << 64)


def digest_there(view: Any) -> bytes:
    """The digest of a one-dimensional tensor of bytes, whichever device it is on."""
    torch = loaded("torch")
    whole = view.numel() // 8
    with torch.no_grad():
        numbers = view[: whole * 8].view(torch.int64)
        places = _mixed(torch.arange(min(_PIECE, whole), dtype=torch.int64, device=view.device).mul_(_STEP))
        sums = [_mixed(piece ^ places[: len(piece)]).sum() for piece in (numbers.split(_PIECE) if whole else ())]
        told = torch.stack(sums).cpu().numpy().tobytes() if sums else b""
        rest = view[whole * 8 :].cpu().numpy().tobytes()
    # The place of a piece counts by its place among the sums.
    return digest(view.numel().to_bytes(8, "little") + told + rest)


def _mixed(numbers: Any) -> Any:
    """Each number mixed, in place. Shifts of negative numbers fill in ones, which are taken away."""
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        numbers.bitwise_xor_((numbers >> shift).bitwise_and_((1 << (64 - shift)) - 1)).mul_(factor)
    return numbers.bitwise_xor_((numbers >> 31).bitwise_and_((1 << 33) - 1))

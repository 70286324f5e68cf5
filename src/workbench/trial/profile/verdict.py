"""What limits a training loop, and what to do about it. Law: pure; shares in, sentences out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from workbench.trial.profile.advice import WAITS
from workbench.trial.profile.spans import Shares

Limit = Literal["data", "memory", "arithmetic", "python"]

_SAID: dict[Limit, str] = {
    "data": "waits for data",
    "memory": "is limited by memory",
    "arithmetic": "is limited by arithmetic",
    "python": "is limited by Python",
}
#: More copying than this share is worth a line of its own.
COPIES = 0.1


@dataclass(frozen=True, slots=True)
class Verdict:
    """limit: what takes most of the time. words: one sentence. advice: what to change, the most important first."""

    limit: Limit
    words: str
    advice: tuple[str, ...] = ()


def verdict(shares: Shares, *, on_gpu: bool, loader: str = "", threads: int = 1) -> Verdict:
    """What ``shares`` mean. loader: which setting of which loader to change, if the training code waits for one.
    threads: those with which the trial computes.

    >>> verdict(Shares(data=0.7, arithmetic=0.2, other=0.1), on_gpu=False).words
    'It waits for data: 70% of the time.'
    """
    parts: dict[Limit, float] = {
        "data": shares.data,
        "memory": shares.memory + shares.copying,
        "arithmetic": shares.arithmetic,
        "python": shares.other,
    }
    limit = max(parts, key=lambda one: parts[one])
    words = f"It {_SAID[limit]}: {parts[limit]:.0%} of the time."
    advice = []
    if shares.data > WAITS and loader:
        advice.append(loader)
    if limit == "memory" and shares.memory >= shares.copying:
        advice.append(
            "torch.compile(model) joins operations that read and write the same tensors; "
            "torch.autocast with bfloat16 halves their size"
        )
    if shares.copying > COPIES:
        advice.append(
            "copies take {:.0%}: {}".format(
                shares.copying,
                "DataLoader(…, pin_memory=True) with .to(device, non_blocking=True) copies while the GPU computes; "
                ".item() and .cpu() in each step wait for it"
                if on_gpu
                else "leave out .to(), .clone() and .contiguous() that a step does not need, and convert data once, in "
                "the set-up",
            )
        )
    if limit == "arithmetic":
        advice.append(
            "torch.autocast with bfloat16, or torch.set_float32_matmul_precision('high'), computes faster on a GPU"
            if on_gpu
            else f"it computes with {threads} thread{'s' * (threads != 1)}: --threads N gives it more, and a GPU "
            "computes faster"
        )
    if limit == "python":
        advice.append(
            "larger batches make fewer calls, and torch.compile(model) joins small operations; the lines below say "
            "where Python's time goes"
        )
    return Verdict(limit, words, tuple(advice))


def without_torch(computes: float) -> str:
    """A sentence for code that does not use torch, which computes for this share of the time.

    >>> without_torch(0.1)
    'It waits for 90% of the time. It does not use torch, so only its lines were measured.'
    """
    what = f"computes for {computes:.0%}" if computes > 1 / 2 else f"waits for {1 - computes:.0%}"
    return f"It {what} of the time. It does not use torch, so only its lines were measured."

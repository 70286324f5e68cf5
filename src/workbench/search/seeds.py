"""Seeds. Law: functions of the experiment's seed, the trial's number and the purpose; the order of arrival does not
matter."""

from __future__ import annotations

import hashlib

__all__ = ["trial_seed", "units"]


def trial_seed(experiment_seed: int, trial: int, purpose: str) -> int:
    """A seed, 0 ≤ seed < 2³², that differs for every trial and purpose (``python``, ``numpy``, ``torch``, …).

    32 bits is the limit of ``numpy.random.seed``.
    """
    return int.from_bytes(_digest(experiment_seed, trial, purpose, 0)[:4], "big")


def units(experiment_seed: int, trial: int, purpose: str, count: int) -> list[float]:
    """``count`` independent uniform numbers, 0 ≤ u < 1, of 53 bits each.

    From SHA-256 in counter mode: no library's generator can change them between versions.
    """
    numbers: list[float] = []
    for block in range((count + 3) // 4):
        digest = _digest(experiment_seed, trial, purpose, block)
        numbers += [(int.from_bytes(digest[at : at + 8], "big") >> 11) / (1 << 53) for at in range(0, 32, 8)]
    return numbers[:count]


def _digest(experiment_seed: int, trial: int, purpose: str, block: int) -> bytes:
    return hashlib.sha256(f"{experiment_seed}/{trial}/{purpose}/{block}".encode()).digest()

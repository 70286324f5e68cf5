"""Strict mode in a runner. Law: what it promises holds from the import of torch on, whoever imports it and when.

It promises: algorithms that give the same bits each time (and an error where torch has none), no benchmarks that choose
algorithms by their speed, cuBLAS with a workspace of its own, the recorded number of threads, and a runner that no
other leg has used. The last three are the forkserver's and the worker's.
"""

from __future__ import annotations

import sys
from typing import Any

from workbench.trial.kinds import loaded


def hold() -> list[str]:
    """Set torch to what strict mode promises, where it is imported; what was otherwise, as torch names it."""
    torch: Any = loaded("torch")
    if torch is None:
        return []
    cudnn = torch.backends.cudnn
    changed = []
    if not torch.are_deterministic_algorithms_enabled() or torch.is_deterministic_algorithms_warn_only_enabled():
        changed.append("torch.use_deterministic_algorithms(True)")
        torch.use_deterministic_algorithms(True)
    if cudnn.benchmark:
        changed.append("torch.backends.cudnn.benchmark = False")
        cudnn.benchmark = False
    if not cudnn.deterministic:
        changed.append("torch.backends.cudnn.deterministic = True")
        cudnn.deterministic = True
    return changed


def hold_again() -> None:
    """The same before the first turn: a set-up may have changed it, and then a line in the trial's log says so."""
    changed = hold()
    if changed:
        text = f"[workbench] --deterministic strict: put back what the training code changed: {', '.join(changed)}\n"
        sys.stdout.write(text)

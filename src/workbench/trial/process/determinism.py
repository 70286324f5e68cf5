"""Strict mode in a runner. Law: its guarantees hold from the import of torch on, whichever code imports it, and when.

It guarantees: algorithms that give the same bits each time (and an error if torch has none), no benchmarks that choose
algorithms by speed, cuBLAS with its own workspace, the recorded number of threads, and a runner that no other leg has
used. The forkserver and the worker ensure the last three.
"""

from __future__ import annotations

import sys
from typing import Any

from workbench.snapshot.imported import loaded


def hold() -> list[str]:
    """Apply strict mode's settings to torch, if it is imported; the settings that differed, by torch's names."""
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
    """The same before the first turn: if the set-up changed a setting, a line in the trial's log says so."""
    changed = hold()
    if changed:
        text = f"[workbench] --deterministic strict: put back what the training code changed: {', '.join(changed)}\n"
        sys.stdout.write(text)

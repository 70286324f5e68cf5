"""Which processes use a GPU's memory. Law: it queries only what the training code has initialised."""

from __future__ import annotations

from typing import Any

from workbench.snapshot.imported import loaded

#: A generous estimate of what CUDA itself uses per process (its context, libraries and workspaces), in bytes.
CONTEXT = 1_000_000_000


def device_memory() -> dict[str, int] | None:
    """Bytes of the current GPU: ``total``, ``ours`` (held by this process) and ``others``; None if there is none."""
    torch: Any = loaded("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    try:
        free, total = torch.cuda.mem_get_info()
        ours = torch.cuda.memory_reserved()
    except Exception:  # the device cannot answer now
        return None
    return {"total": int(total), "ours": int(ours), "others": max(0, int(total - free - ours) - CONTEXT)}

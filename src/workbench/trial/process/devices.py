"""Which processes use a GPU's memory, and how much of it a trial with a part of a GPU may use. Law: it queries and sets
only what the training code has initialised.
"""

from __future__ import annotations

from typing import Any

from workbench.snapshot.imported import loaded

#: A generous estimate of what CUDA itself uses per process (its context, libraries and workspaces), in bytes.
CONTEXT = 1_000_000_000


def device_memory() -> dict[str, int] | None:
    """Bytes of the current GPU: ``total``, ``ours`` (held by this process) and ``others``; None if there is none.

    ``allowed``: of a leg with a part of a slot, what it may use, if it lacks memory for this reason.
    """
    torch = _initialised()
    if torch is None:
        return None
    try:
        free, total = torch.cuda.mem_get_info()
        ours = torch.cuda.memory_reserved()
    except Exception:  # the device cannot answer now
        return None
    found = {"total": int(total), "ours": int(ours), "others": max(0, int(total - free - ours) - CONTEXT)}
    allowed = int(total) // share.parts
    if share.parts > 1 and allowed - ours <= free:  # its own limit is nearer than the end of the memory
        found["allowed"] = allowed
    return found


def peak_memory() -> int | None:
    """The most bytes of a GPU's memory that this leg has reserved, on the GPU with the most; None if it used none."""
    torch = _initialised()
    if torch is None:
        return None
    try:
        return max(int(torch.cuda.max_memory_reserved(device)) for device in range(torch.cuda.device_count()))
    except Exception:  # the device cannot answer any more
        return None


def used() -> tuple[int, int, int] | None:
    """Of the GPU on which this process has reserved most: the most bytes that it had reserved, what CUDA itself takes
    there (an upper bound: other processes may hold some of it), and all its memory; None if it has used none."""
    torch = _initialised()
    if torch is None:
        return None
    try:
        devices = range(torch.cuda.device_count())
        device = max(devices, key=torch.cuda.max_memory_reserved)
        free, total = torch.cuda.mem_get_info(device)
        context = int(total - free - torch.cuda.memory_reserved(device))
        return int(torch.cuda.max_memory_reserved(device)), min(max(0, context), CONTEXT), int(total)
    except Exception:  # the device cannot answer now
        return None


class Share:
    """The part of each GPU's memory that torch may give to this process. More is an error of torch, that it is out of
    memory, with the limit in its words. CUDA is not initialised by this."""

    def __init__(self) -> None:
        #: Into how many parts the slot of the leg is divided.
        self.parts = 1
        #: Whether torch sets the limit when it initialises CUDA.
        self._is_asked = False

    def begin(self, parts: int) -> None:
        """A leg starts that has one of ``parts`` parts of its slot."""
        before, self.parts = self.parts, parts
        torch = _initialised()
        if torch is None:
            self.torch_imported()
            return
        if parts != before:
            self._limit()
        for device in range(torch.cuda.device_count()):
            torch.cuda.reset_peak_memory_stats(device)

    def torch_imported(self) -> None:
        """Torch may have been imported since the last call."""
        torch: Any = loaded("torch")
        if torch is not None and self.parts > 1 and not self._is_asked:
            self._is_asked = True
            # Private, but this is how torch itself seeds GPUs before they are used.
            torch.cuda._lazy_call(self._limit)

    def _limit(self) -> None:
        torch: Any = loaded("torch")
        for device in range(torch.cuda.device_count()):
            torch.cuda.set_per_process_memory_fraction(1 / self.parts, device)


#: That of this process.
share = Share()


def _initialised() -> Any:
    """Torch, if it has initialised CUDA in this process; else None."""
    torch: Any = loaded("torch")
    return torch if torch is not None and torch.cuda.is_initialized() else None

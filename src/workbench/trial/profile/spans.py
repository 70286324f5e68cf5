"""From what a profiler recorded to where the time went. Law: pure; every moment of the window counts once.

On a CPU, the thread that trains is always in one place: inside a request for a batch, in an operation, or in Python. An
operation's time is its own, without those that it calls. On a GPU, what counts is what the GPU does; while it does
nothing, the training code either waits for a batch or does not keep it busy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Kind = Literal["data", "copying", "memory", "arithmetic", "other"]

#: An operation of fewer seconds costs its call, not its work: an elementwise one of a few thousand numbers.
SMALL_S = 20e-6
#: How torch names the request for a batch.
_DATA = "enumerate(DataLoader)"
_COPIES = frozenset({"copy", "to", "contiguous", "clone", "cpu", "cuda", "pin", "item", "local", "scalar", "c10d"})
#: Operations that use each number that they read many times. All others are limited by reading and writing.
_DENSE = frozenset(
    {"mm", "addmm", "bmm", "baddbmm", "addbmm", "matmul", "mv", "addmv", "dot", "vdot", "ger", "addr", "linear"}
    | {"bilinear", "einsum", "lstm", "gru", "rnn", "attention", "svd", "qr", "eig", "eigh", "lu", "cholesky", "solve"}
    | {"inverse", "fft", "cdist", "linalg", "gemm"}
)
_DENSE_KERNEL = re.compile(
    r"gemm|gemv|nvjet|cutlass|xmma|conv(?!ert)|wgrad|dgrad|fprop|winograd|flash|fmha|attention|lstm|rnn", re.IGNORECASE
)


class Span(NamedTuple):
    """An event of the profiler: from ``begin`` to ``end`` (seconds), on the GPU or in the thread that trains."""

    name: str
    begin: float
    end: float
    on_gpu: bool = False


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of a window's time, whose sum is 1.

    data: the training code waits for a batch. copying: tensors are copied, also between CPU and GPU. memory:
    operations that read and write much and compute little. arithmetic: operations that compute. other: Python, small
    operations, and everything else.
    """

    data: float = 0.0
    copying: float = 0.0
    memory: float = 0.0
    arithmetic: float = 0.0
    other: float = 1.0


def divided(spans: Sequence[Span], begin: float, end: float) -> Shares:
    """Where the time from ``begin`` to ``end`` went. Raises ValueError for an empty window."""
    if end <= begin:
        raise ValueError(f"the window from {begin} to {end} is empty")
    inside = [one._replace(begin=max(one.begin, begin), end=min(one.end, end)) for one in spans]
    inside = [one for one in inside if one.end > one.begin]
    on_gpu = [one for one in inside if one.on_gpu]
    taken = _on_gpu(on_gpu, inside) if on_gpu else _on_cpu(inside)
    whole = end - begin
    shares = {kind: seconds / whole for kind, seconds in taken.items() if kind != "other"}
    return Shares(**shares, other=max(0.0, 1.0 - sum(shares.values())))


def kind_of(name: str) -> Kind:
    """What an operation of the CPU does, by its name. "other" for what is not an operation: its own time is Python's.

    >>> kind_of("aten::addmm"), kind_of("aten::copy_"), kind_of("aten::gelu"), kind_of("Optimizer.step#SGD.step")
    ('arithmetic', 'copying', 'memory', 'other')
    """
    if name.startswith(_DATA):
        return "data"
    room, is_operation, operation = name.partition("::")
    if name.startswith(("Torch-Compiled Region", "CompiledFunction")):
        return "arithmetic"
    if not is_operation or room in ("autograd", "profiler", "torch"):
        return "other"
    words = {word for word in re.split(r"[_\W]+", f"{room if room == 'c10d' else ''}_{operation}") if word}
    if words & _COPIES:
        return "copying"
    if ("linalg" in words and "norm" in words) or not (words & _DENSE or any(w.startswith("conv") for w in words)):
        return "memory"
    return "arithmetic"


def kind_on_gpu(name: str) -> Kind:
    """What a GPU does, by the name of its kernel.

    >>> kind_on_gpu("Memcpy HtoD (Pageable -> Device)"), kind_on_gpu("sm90_xmma_gemm_bf16"), kind_on_gpu("vectorized")
    ('copying', 'arithmetic', 'memory')
    """
    if name.startswith(("Memcpy", "Memset", "nccl")):
        return "copying"
    return "arithmetic" if _DENSE_KERNEL.search(name) else "memory"


def _on_cpu(spans: Iterable[Span]) -> dict[Kind, float]:
    """Seconds of each kind in one thread, whose spans lie inside one another or beside."""
    taken: dict[Kind, float] = {}
    #: The open spans: each with its kind, and the seconds of those inside.
    path: list[tuple[Span, Kind, list[float]]] = []

    def close() -> None:
        span, kind, inner = path.pop()
        own = max(0.0, span.end - span.begin - inner[0])
        if kind in ("memory", "arithmetic", "copying") and own < SMALL_S:
            kind = "other"
        taken[kind] = taken.get(kind, 0.0) + own
        if path:
            path[-1][2][0] += span.end - span.begin

    for span in sorted(spans, key=lambda one: (one.begin, -one.end)):
        while path and path[-1][0].end <= span.begin:
            close()
        # Whatever happens in a request for a batch is waiting, and a copy's parts are copying.
        around: Kind | None = path[-1][1] if path and path[-1][1] in ("data", "copying") else None
        path.append((span, around or kind_of(span.name), [0.0]))
    while path:
        close()
    return taken


def _on_gpu(kernels: Iterable[Span], spans: Iterable[Span]) -> dict[Kind, float]:
    """Seconds of each kind: what the GPU does counts first, then that nothing is there for it."""
    found: dict[Kind, list[tuple[float, float]]] = {"arithmetic": [], "memory": [], "copying": [], "data": []}
    for one in kernels:
        found[kind_on_gpu(one.name)].append((one.begin, one.end))
    found["data"] = [(one.begin, one.end) for one in spans if not one.on_gpu and one.name.startswith(_DATA)]
    taken: dict[Kind, float] = {}
    covered: list[tuple[float, float]] = []
    before = 0.0
    for kind, ranges in found.items():
        covered = _union([*covered, *ranges])
        now = sum(end - begin for begin, end in covered)
        taken[kind], before = now - before, now
    return taken


def _union(ranges: list[tuple[float, float]]) -> list[tuple[float, float]]:
    made: list[tuple[float, float]] = []
    for begin, end in sorted(ranges):
        if made and begin <= made[-1][1]:
            made[-1] = (made[-1][0], max(end, made[-1][1]))
        else:
            made.append((begin, end))
    return made

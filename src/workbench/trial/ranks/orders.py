"""The random numbers that the order of batches depends on. Law: the same on every rank, and for any number of ranks.

A loader that shuffles draws from the global generators. On several ranks these may drift apart: dropout draws for
fewer samples on one rank than on another. So loaders draw from a copy of the generators' states, made when the ranks
start, which only loaders advance.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

from workbench.snapshot.imported import loaded
from workbench.trial.samplers import samplers_of


class Stream:
    """The generators' states for drawing orders. Each rank has a copy, and advances it in the same way."""

    def __init__(self) -> None:
        self._states: dict[str, Any] = _states(everything=True)

    def state(self) -> dict[str, Any]:
        """For a checkpoint: plain data that :meth:`put` takes."""
        return dict(self._states)

    def put(self, state: dict[str, Any]) -> None:
        """Continue where the stream was when ``state`` was taken."""
        self._states = dict(state)

    @contextlib.contextmanager
    def drawing(self, *, everything: bool) -> Iterator[None]:
        """Inside, the global generators are those of the stream.

        everything: also Python's and NumPy's. Torch's own samplers draw from torch's generator alone.
        """
        own = _states(everything)
        _put({name: self._states[name] for name in own if name in self._states})
        try:
            yield
        finally:
            self._states.update(_states(everything))
            _put(own)


def only_torchs(loader: Any) -> bool:
    """True if the order of ``loader`` is drawn by torch's own samplers."""
    return all(type(one).__module__.startswith(("torch.", "torchdata.")) for one in samplers_of(loader))


def _states(everything: bool) -> dict[str, Any]:
    torch, numpy = loaded("torch"), loaded("numpy")
    states: dict[str, Any] = {"torch": torch.get_rng_state()}
    if everything:
        states["python"] = random.getstate()
        if numpy is not None:
            states["numpy"] = numpy.random.get_state(legacy=True)
    return states


def _put(states: dict[str, Any]) -> None:
    if "python" in states:
        random.setstate(states["python"])
    if "numpy" in states:
        loaded("numpy").random.set_state(states["numpy"])
    loaded("torch").set_rng_state(states["torch"])

"""What the order of a DataLoader depends on: its samplers' generators and attributes. Law: plain data."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

from workbench.snapshot.imported import loaded

#: A foreign sampler's attribute of at most this many bytes is saved with its order.
_SMALL = 1 << 20


def samplers_of(loader: Any) -> list[Any]:
    """A DataLoader and its samplers, down to the innermost."""
    found = [loader]
    for obj in found:
        below = (getattr(obj, name, None) for name in ("batch_sampler", "sampler"))
        found += [one for one in below if one is not None and not any(one is known for known in found)]
    return found


def sampler_states(samplers: list[Any], dataset: Any) -> list[dict[str, Any]]:
    """What the samplers' order depends on besides the global random states; plain data."""
    return [_sampler_state(sampler, dataset) for sampler in samplers]


def put_samplers(samplers: list[Any], states: list[dict[str, Any]]) -> None:
    """Restore what :func:`sampler_states` returned."""
    for sampler, saved in zip(samplers, states, strict=False):
        _put_sampler(sampler, saved)


def _sampler_state(sampler: Any, dataset: Any) -> dict[str, Any]:
    """Its generators, and the attributes of a class that is not torch's: an epoch, a permutation."""
    torch = loaded("torch")
    own = not type(sampler).__module__.startswith("torch.")
    state: dict[str, Any] = {}
    for name, value in getattr(sampler, "__dict__", {}).items():
        if isinstance(value, torch.Generator):
            state[name] = ("torch", value.get_state().numpy().tobytes())
        elif own and value is not dataset and not _is_large(value):
            with contextlib.suppress(Exception):  # what cannot be copied does not count as state of an order
                state[name] = ("pickle", pickle.dumps(value))
    return state


def _put_sampler(sampler: Any, state: dict[str, Any]) -> None:
    torch = loaded("torch")
    for name, (kind, value) in state.items():
        if kind == "torch":
            vars(sampler)[name].set_state(torch.frombuffer(bytearray(value), dtype=torch.uint8))
        else:
            vars(sampler)[name] = pickle.loads(value)


def _is_large(value: Any) -> bool:
    torch = loaded("torch")
    if isinstance(value, torch.utils.data.Dataset | torch.utils.data.Sampler | torch.nn.Module):
        return True
    size = getattr(value, "nbytes", None)
    if size is None:
        try:
            size = 8 * len(value)
        except TypeError:
            size = 0
    return int(size) > _SMALL

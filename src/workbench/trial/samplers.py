"""What the order of a loader depends on: generators and attributes of its samplers and streams. Law: plain data."""

from __future__ import annotations

import collections
import contextlib
import pickle
import random
from collections.abc import Iterator
from typing import Any

from workbench.snapshot.imported import loaded
from workbench.trial import torch_kinds
from workbench.trial.looking.digests import digest, digest_of_buffer

#: An attribute of at most this many bytes is saved with the order; of a larger one a digest.
_SMALL = 1 << 20
#: A container with more items has no digest.
_MOST_ITEMS = 1 << 22
#: Modules whose classes have no attributes that a pass changes, besides generators.
_LIBRARIES = ("torch.", "torchdata.")


def samplers_of(loader: Any) -> list[Any]:
    """A DataLoader and its samplers, down to the innermost."""
    found = [loader]
    for obj in found:
        below = (getattr(obj, name, None) for name in ("batch_sampler", "sampler"))
        found += [one for one in below if one is not None and not any(one is known for known in found)]
    return found


def streams_of(stream: Any) -> list[Any]:
    """An iterable and the data sets that it reads from, down to the innermost."""
    torch = loaded("torch")
    found = [stream]
    if torch is not None:
        for obj in found:
            below = (one for one in getattr(obj, "__dict__", {}).values() if isinstance(one, torch.utils.data.Dataset))
            found += [one for one in below if not any(one is known for known in found)]
    return found


def sampler_states(samplers: list[Any], dataset: Any = None) -> list[dict[str, Any]]:
    """What the samplers' order depends on besides the global random states; plain data. ``dataset`` is left out."""
    return [_sampler_state(sampler, dataset) for sampler in samplers]


#: An attribute that has another value for a while: the attributes, the name and the value before.
Replaced = tuple[dict[str, Any], str, Any]


def put_samplers(samplers: list[Any], states: list[dict[str, Any]]) -> list[Replaced]:
    """Restore what :func:`sampler_states` returned. Returns what was replaced, for :func:`put_back`."""
    return [
        replaced for sampler, saved in zip(samplers, states, strict=False) for replaced in _put_sampler(sampler, saved)
    ]


def put_back(replaced: list[Replaced]) -> None:
    """Let attributes refer to the same objects as before :func:`put_samplers`, which others may hold too."""
    for attributes, name, value in replaced:
        attributes[name] = value


def changed(samplers: list[Any], states: list[dict[str, Any]]) -> str:
    """An attribute that is too large to be saved and has changed since ``states`` were taken: ``Own.order``; or
    nothing."""
    for sampler, saved in zip(samplers, states, strict=False):
        for name, (kind, value) in saved.items():
            if kind == "digest" and _digest(vars(sampler).get(name)) != value:
                return f"{type(sampler).__name__}.{name}"
    return ""


def _sampler_state(sampler: Any, dataset: Any) -> dict[str, Any]:
    """Its generators, and the attributes of a class of one's own: an epoch, a permutation."""
    torch = loaded("torch")
    own = not type(sampler).__module__.startswith(_LIBRARIES)
    state: dict[str, Any] = {}
    for name, value in getattr(sampler, "__dict__", {}).items():
        if torch is not None and isinstance(value, torch.Generator):
            state[name] = ("torch", value.get_state().numpy().tobytes())
        elif own and value is not dataset and not _is_part(value):
            with contextlib.suppress(Exception):  # what cannot be copied does not count as state of an order
                saved = None if _is_large(value) else pickle.dumps(value)
                small = saved is not None and len(saved) <= _SMALL
                state[name] = ("pickle", saved) if small else ("digest", _digest(value))
    return state


def _put_sampler(sampler: Any, state: dict[str, Any]) -> Iterator[Replaced]:
    for name, (kind, value) in state.items():
        if kind == "torch":
            vars(sampler)[name].set_state(torch_kinds.random_state(value))
        elif kind == "pickle":
            new = pickle.loads(value)
            # In place: a pass that has begun may hold the object itself.
            old = vars(sampler).get(name)
            if not _has_put(old, new):
                vars(sampler)[name] = new
                yield vars(sampler), name, old


def _has_put(old: Any, new: Any) -> bool:
    """Give ``old`` the content of ``new`` if it is a generator or a container; whether it is."""
    numpy = loaded("numpy")
    if type(old) is not type(new):
        return False
    if isinstance(old, random.Random):
        old.setstate(new.getstate())
    elif isinstance(old, list):
        old[:] = new
    elif isinstance(old, dict | set):
        old.clear()
        old.update(new)
    elif isinstance(old, collections.deque):
        old.clear()
        old.extend(new)
    elif numpy is not None and isinstance(old, numpy.random.Generator):
        old.bit_generator.state = new.bit_generator.state
    elif numpy is not None and isinstance(old, numpy.random.RandomState):
        old.set_state(new.get_state())
    elif numpy is not None and isinstance(old, numpy.ndarray) and old.shape == new.shape and old.dtype == new.dtype:
        old[...] = new
    else:
        return False
    return True


def _is_part(value: Any) -> bool:
    """True for what has a state of its own, or none that an order depends on."""
    torch = loaded("torch")
    return torch is not None and isinstance(
        value, torch.utils.data.Dataset | torch.utils.data.Sampler | torch.nn.Module
    )


def _is_large(value: Any) -> bool:
    size = getattr(value, "nbytes", None)
    if size is None:
        try:
            size = 8 * len(value)
        except TypeError:
            size = 0
    return int(size) > _SMALL


def _digest(value: Any) -> bytes:
    """A digest of a large value; empty if that takes too long or cannot be."""
    torch, numpy = loaded("torch"), loaded("numpy")
    try:
        if torch is not None and isinstance(value, torch.Tensor):
            value = value.detach().cpu().numpy()
        if numpy is not None and isinstance(value, numpy.ndarray):
            return digest_of_buffer(memoryview(numpy.ascontiguousarray(value)).cast("B"))
        return digest(pickle.dumps(value)) if len(value) <= _MOST_ITEMS else b""
    except Exception:
        return b""

"""Content as a few bytes. Law: equal contents give equal bytes; of what training can change, every byte counts."""

from __future__ import annotations

import marshal
from typing import Any

import xxhash

#: Ways of looking, as checkpoints of their time have them. In the first, large buffers were sampled, and some changes
#: were missed. Only in the third are hooks of tensors, files in memory, attributes of TorchScript, and what holds locks
#: looked into. Only in the fourth are names such as ``__best__`` state, to which Python gives no
#: meaning, and databases in memory. Only in the fifth are thread-local attributes and context variables. Only in the
#: sixth are mapped arrays restored in their files, attributes of random generators of own classes state, and objects of
#: Keras and what Accelerate puts around ``forward`` looked into. Only in the seventh are loops of asyncio left as the
#: set-up makes them. Only in the eighth are environments that pickle as their arguments looked into, and objects of
#: pybind11 replaced; and what methods written in C are bound to, callbacks and proxies of weak references, and what own
#: classes add to bars, handlers and threads are state. Only in the ninth are caches around own classes and objects
#: looked at, and views of dictionaries.
SAMPLES, WHOLE, INTO, NAMES, LOCALS, MAPS, EVENTS, BOUND, WRAPPED = 1, 2, 3, 4, 5, 6, 7, 8, 9
NEWEST = WRAPPED
#: The limit in memory, and on a GPU.
SAMPLED_FROM, SAMPLED_ON_DEVICE_FROM = 512 << 20, 32 << 20
_SAMPLES = 2048
_SAMPLE = 2048
_way = NEWEST


def look(way: int) -> None:
    """Look in this way from now on: digests are compared with those of a checkpoint, which was made in it."""
    global _way
    _way = way


def way() -> int:
    """The way of looking now."""
    return _way


def looks_into() -> bool:
    """Whether hooks of tensors and the like are looked into now."""
    return _way >= INTO


def counts_all_names() -> bool:
    """Whether names with two underscores at both ends are state now, but for Python's own; also databases in memory."""
    return _way >= NAMES


def counts_locals() -> bool:
    """Whether thread-local attributes and the values of context variables are state now."""
    return _way >= LOCALS


def counts_maps() -> bool:
    """Whether mapped arrays, own random generators and objects of Keras and Accelerate are looked into."""
    return _way >= MAPS


def leaves_events() -> bool:
    """Whether loops of asyncio are left as the set-up makes them."""
    return _way >= EVENTS


def counts_bound() -> bool:
    """Whether what is bound to methods of C, weak references and the like, and added to library classes, is state."""
    return _way >= BOUND


def counts_wrapped() -> bool:
    """Whether views of dictionaries are looked at, and what caches keep of own classes and of their objects."""
    return _way >= WRAPPED


def is_sampled(length: int, *, on_device: bool = False) -> bool:
    """Whether a buffer of so many bytes is sampled now."""
    return _way == SAMPLES and length > (SAMPLED_ON_DEVICE_FROM if on_device else SAMPLED_FROM)


def digest(data: Any) -> bytes:
    """16 bytes that differ between contents."""
    return xxhash.xxh3_128_digest(data)


def digest_of_buffer(view: memoryview, *, changes: bool = True) -> bytes:
    """Digest of a buffer. Of a large one that training cannot change: of its two ends and of samples in between."""
    length = view.nbytes
    if not is_sampled(length) and (changes or length <= SAMPLED_FROM):
        return digest(view)
    state = xxhash.xxh3_128(length.to_bytes(8, "little"))
    stride = (length - _SAMPLE) // _SAMPLES
    for number in range(_SAMPLES + 1):
        state.update(view[number * stride : number * stride + _SAMPLE])
    return state.digest()


def signature(tokens: Any) -> bytes:
    """Tokens as bytes that compare exactly: types count, -0.0 is not 0.0, and one nan equals itself."""
    # Version 2 has no back references, so equal tokens give equal bytes however many objects share them.
    packed = marshal.dumps(tokens, 2)
    return packed if len(packed) <= 64 else digest(packed)

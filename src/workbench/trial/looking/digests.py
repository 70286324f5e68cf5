"""Content as a few bytes. Law: equal contents give equal bytes, and large buffers are only sampled."""

from __future__ import annotations

import marshal
from typing import Any

import xxhash

#: Buffers up to this many bytes are read completely; larger ones are sampled, using torch's count of in-place changes.
LOOKED_AT_WHOLE = 512 * 1024 * 1024
_SAMPLES = 2048
_SAMPLE = 2048


def digest(data: Any) -> bytes:
    """16 bytes that differ between contents."""
    return xxhash.xxh3_128_digest(data)


def digest_of_buffer(view: memoryview) -> bytes:
    """Digest of a buffer; of a large one, of its two ends and of samples in between."""
    length = view.nbytes
    if length <= LOOKED_AT_WHOLE:
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

"""Arrays as sounds (WAV, 16 bits)."""

from __future__ import annotations

import io
import wave
from typing import Any

from workbench.errors import BadInput
from workbench.trial.media.arrays import as_array, described
from workbench.trial.media.values import Audio

_MOST_CHANNELS = 8
#: Samples per second of the best recorders.
_MOST_RATE = 768_000


def wav(audio: Audio, name: str) -> bytes:
    """``audio`` as a WAV file. Raises BadInput."""
    import numpy as np

    rate = audio.rate
    if isinstance(rate, bool) or not isinstance(rate, int) or not 0 < rate <= _MOST_RATE:
        raise BadInput(
            f"trial.log({name}=Audio(…, rate={rate!r})): expected samples per second, a whole number such as 16000."
        )
    array = as_array(audio.array, name)
    samples = _samples_first(array, name, audio.array)
    if array.dtype.kind == "f":
        # What is not a number is silent.
        values = np.clip(np.nan_to_num(samples.astype(np.float32), posinf=1.0, neginf=-1.0), -1.0, 1.0)
        samples = np.rint(values * 32767.0)
    elif array.dtype != np.int16:
        raise BadInput(
            f"trial.log({name}=Audio(…)) was given {described(audio.array)}, but samples are floats between -1 and 1, "
            "or int16."
        )
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(samples.shape[1])
        written.setsampwidth(2)
        written.setframerate(rate)
        written.writeframes(np.ascontiguousarray(samples, dtype="<i2").tobytes())
    return file.getvalue()


def _samples_first(array: Any, name: str, given: Any) -> Any:
    """N×C samples."""
    if array.ndim == 1 and array.size:
        return array[:, None]
    if array.ndim == 2 and array.size:
        if array.shape[1] <= _MOST_CHANNELS and array.shape[1] <= array.shape[0]:
            return array
        if array.shape[0] <= _MOST_CHANNELS:
            return array.T
    raise BadInput(
        f"trial.log({name}=Audio(…)) was given {described(given)}, but a sound is N samples, or N×C or C×N of at most "
        f"{_MOST_CHANNELS} channels."
    )

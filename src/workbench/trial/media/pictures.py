"""Arrays as pictures (PNG). Law: values are never stretched unasked; what is cut off is said."""

from __future__ import annotations

import io
from typing import Any

from workbench.errors import BadInput
from workbench.trial.media.arrays import as_array, described, is_array, is_tensor
from workbench.trial.media.values import Image

#: How many channels a picture may have.
_CHANNELS = (1, 3, 4)
#: Modes of Pillow that a PNG can hold.
_MODES = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"})
#: zlib's level. The usual 6 takes three times as long, for files a tenth smaller.
_LEVEL = 1
#: What rounding may add to a value, as a part of the range.
_ROUNDING = 1e-3


def is_pillow(value: Any) -> bool:
    """Whether ``value`` is an image of Pillow."""
    return type(value).__module__.startswith("PIL.") and hasattr(value, "save")


def png(image: Image, name: str) -> tuple[bytes, str]:
    """``image`` as a PNG, and what the user should know about it: empty if nothing. Raises BadInput."""
    value, remark = image.array, ""
    if not is_pillow(value):
        if not is_array(value):
            raise BadInput(
                f"trial.log({name}=Image(…)) was given {described(value)}. Give an array, a tensor or an image of "
                "Pillow."
            )
        from PIL import Image as pillow

        pixels, remark = _pixels(image, name)
        value = pillow.fromarray(pixels)
    elif value.mode not in _MODES:
        value = value.convert("RGB")
    file = io.BytesIO()
    value.save(file, "PNG", compress_level=_LEVEL)
    return file.getvalue(), remark


def _pixels(image: Image, name: str) -> tuple[Any, str]:
    """The pixels as bytes: H×W, H×W×3 or H×W×4."""
    import numpy as np

    given = image.array
    last = _channels_last(tuple(int(length) for length in given.shape), is_tensor(given))
    if last is None:
        many = f" Log several as a list: trial.log({name}=list({name}[:8]))." if len(given.shape) == 4 else ""
        raise BadInput(
            f"trial.log({name}=…) was given {described(given)}, but a picture is H×W, H×W×C or C×H×W, where C is 1, 3 "
            f"or 4.{many}"
        )
    array = as_array(given, name)
    if array.ndim == 3:
        array = array if last else np.moveaxis(array, 0, -1)
        array = array[..., 0] if array.shape[-1] == 1 else array
    if array.dtype == np.uint8 and image.low is None and image.high is None:
        return np.ascontiguousarray(array), ""
    top = 255.0 if array.dtype.kind in "ui" else 1.0
    low = 0.0 if image.low is None else float(image.low)
    high = top if image.high is None else float(image.high)
    if not high > low:
        raise BadInput(f"trial.log({name}=Image(…, low={low:g}, high={high:g})): expected low below high.")
    # What is not a number is black: a picture of a model that has diverged is still a picture.
    values = np.nan_to_num(array.astype(np.float32), nan=low, posinf=high, neginf=low)
    remark = ""
    if image.low is None and image.high is None:
        least, most = float(values.min()), float(values.max())
        beyond = _ROUNDING * (high - low)
        if least < low - beyond or most > high + beyond:
            remark = (
                f"trial.log({name}=…): values from {least:.3g} to {most:.3g} are cut to {low:g} to {high:g}. To show "
                f"all of them, log workbench.Image({name}, low={least:.3g}, high={most:.3g})."
            )
    scaled = (np.clip(values, low, high) - low) * (255.0 / (high - low))
    return np.ascontiguousarray(np.rint(scaled).astype(np.uint8)), remark


def _channels_last(shape: tuple[int, ...], is_tensor: bool) -> bool | None:
    """Whether the channels come last; None if the shape is not that of a picture."""
    if 0 in shape or len(shape) not in (2, 3):
        return None
    if len(shape) == 2:
        return True
    first, last = shape[0] in _CHANNELS, shape[2] in _CHANNELS
    if first and last:
        return not is_tensor
    return last if first or last else None

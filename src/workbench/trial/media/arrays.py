"""Arrays of NumPy, torch and others as NumPy's. Law: it changes no array that it is given, and draws nothing."""

from __future__ import annotations

from typing import Any

from workbench.errors import BadInput


def is_array(value: Any) -> bool:
    """Whether ``value`` is an array or a tensor, of whatever library."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type)


def is_tensor(value: Any) -> bool:
    """Whether ``value`` is a tensor of torch: its pictures are C×H×W where a shape allows both."""
    return type(value).__module__.partition(".")[0] == "torch" or hasattr(value, "numel")


def size(value: Any) -> int:
    """How many elements an array has."""
    count = 1
    for length in value.shape:
        count *= int(length)
    return count


def as_array(value: Any, name: str) -> Any:
    """``value`` as an array of numbers of NumPy, without a copy where that is possible. Raises BadInput.

    Reading a tensor on a GPU waits for the GPU, as ``.cpu()`` does.
    """
    import numpy as np

    given = value
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()
        if str(value.dtype) in ("torch.bfloat16", "torch.float8_e4m3fn", "torch.float8_e5m2"):
            value = value.float()  # NumPy has no such type
        value = value.numpy()
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise BadInput(f"trial.log({name}=…) was given {described(given)}, which is not an array of numbers.") from None
    if array.dtype.kind == "f" and array.dtype.itemsize < 4:
        array = array.astype(np.float32)
    if array.dtype.kind not in "buif":
        raise BadInput(
            f"trial.log({name}=…) was given {described(given)}, which does not hold numbers. Give an array of floats, "
            "integers or booleans."
        )
    return array


def described(value: Any) -> str:
    """``a Tensor of shape (3, 8) and type float32``, for messages."""
    kind = type(value).__name__
    article = "an" if kind[0] in "aeiouAEIOU" or kind == "ndarray" else "a"
    if not is_array(value):
        try:
            return f"{article} {kind} of {len(value)}"
        except TypeError:
            return f"{article} {kind}"
    shape = ", ".join(str(int(length)) for length in value.shape) + ("," if len(value.shape) == 1 else "")
    return f"{article} {kind} of shape ({shape}) and type {str(value.dtype).removeprefix('torch.')}"

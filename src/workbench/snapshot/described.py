"""What a captured name stands for, in plain words. Law: it reads types, sizes and small values only, and records no
secret.
"""

from __future__ import annotations

import types
from typing import Any

from workbench.records import Json
from workbench.snapshot.secrets.masking import MASK, is_secret, masked

#: The maximum length of a kept value.
_LETTERS = 80
#: Containers with at most this many entries count as values that the user wrote, larger ones as data.
_FEW = 32


def described(name: str, value: Any) -> dict[str, Json]:
    """``kind`` (code, module, value or data) and, if known, ``words``, ``rows``, ``bytes`` and ``value``."""
    if isinstance(value, types.ModuleType):
        return {"kind": "module", "words": value.__name__}
    if isinstance(value, types.FunctionType | types.MethodType | types.BuiltinFunctionType):
        return {"kind": "code", "words": "function"}
    if isinstance(value, type):
        return {"kind": "code", "words": "class"}
    if value is None or isinstance(value, bool | int | float | str):
        return {"kind": "value", "words": type(value).__name__, "value": _shown(name, value)}
    if isinstance(value, list | tuple | set | frozenset | dict) and len(value) <= _FEW and _is_plain(value):
        return {"kind": "value", "words": type(value).__name__, "value": _shown(name, repr(value))}
    return {"kind": "data", **_sizes(value)}


def _is_plain(value: Any) -> bool:
    parts = [*value.keys(), *value.values()] if isinstance(value, dict) else [*value]
    return all(part is None or isinstance(part, bool | int | float | str) for part in parts)


def _shown(name: str, value: Any) -> Json:
    if not isinstance(value, str):
        return value
    if is_secret(name):
        return MASK
    text = masked(value)
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"


def _sizes(value: Any) -> dict[str, Json]:
    """Sizes of arrays, tensors and tables from their own attributes; for others, class and length."""
    kind = type(value)
    words = kind.__name__
    found: dict[str, Json] = {}
    try:
        shape = getattr(value, "shape", None)
        if shape is not None:
            sizes = tuple(int(one) for one in shape)
            words = f"{words} {getattr(value, 'dtype', '')}".strip() + f" {' × '.join(map(str, sizes)) or 'scalar'}"
            if sizes:
                found["rows"] = sizes[0]
        elif hasattr(kind, "__len__"):
            found["rows"] = len(value)
        size = getattr(value, "nbytes", None)
        if isinstance(size, int):
            found["bytes"] = size
    except Exception:  # a class that raises when it is inspected: its name must do
        return {"words": words}
    return {"words": words, **found}

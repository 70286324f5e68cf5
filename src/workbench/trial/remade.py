"""Functions that graphs call to make objects again. Law: each keeps its name and place, since checkpoints refer to it.

Older ones are in :mod:`workbench.trial.graph`.
"""

from __future__ import annotations

import importlib
import sys
import types


def is_of_module(function: types.FunctionType) -> bool:
    """Whether a module's function made this one. It is made again there, with the variables that it closes over."""
    # By its globals: a decorator gives its function the name and the module of another one.
    module = sys.modules.get(function.__globals__.get("__name__", ""))
    return "<locals>" in function.__qualname__ and module is not None and vars(module) is function.__globals__


def function_of(
    module: str, code: types.CodeType, name: str, cells: tuple[types.CellType, ...] | None
) -> types.FunctionType:
    """A function with the globals of ``module``."""
    return types.FunctionType(code, vars(importlib.import_module(module)), name, None, cells)

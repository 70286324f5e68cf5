"""``default=``: what a distribution is in a script that runs without Workbench. Law: only an assignment at the top of a
plain script gets the default; notebooks, functions' parameters and trials get the distribution.
"""

from __future__ import annotations

import builtins
import sys
import types
from typing import Any, TypeVar, cast

from workbench.errors import BadSpace
from workbench.space.forms import Distribution
from workbench.space.labels import label

__all__ = ["NO_DEFAULT", "or_default"]

#: No default was given: None may be one.
NO_DEFAULT: Any = object()
_Found = TypeVar("_Found", bound=Distribution)


def or_default(found: _Found, default: Any) -> _Found:
    """``found``; or ``default``, if the call that made ``found`` is assigned at the top of a plain script.

    Called by the functions that make distributions. Raises BadSpace if the default is not one of its values.
    """
    if default is NO_DEFAULT:
        return found
    if not found.contains(label(default)):
        raise BadSpace(f"{found}: default={default!r} is not one of its values. Give one that is.")
    return cast("_Found", default) if _is_plain(sys._getframe(2)) else found


def _is_plain(frame: types.FrameType) -> bool:
    names = frame.f_globals
    if names.get("__name__") != "__main__" or frame.f_locals is not names or "__file__" not in names:
        return False
    if hasattr(builtins, "get_ipython") or "get_ipython" in names:
        return False
    import dis

    after = (one for one in dis.get_instructions(frame.f_code) if one.offset > frame.f_lasti)
    return next(after).opname == "STORE_NAME"

"""Whether a data set keeps something of its own from pass to pass. Law: read from its code; in doubt, yes.

Workers that outlive a pass have copies of the data set, which no checkpoint reaches: after a resume they begin with the
set-up's. So a position or a count that they keep is lost.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator
from typing import Any

from workbench.snapshot.imported import loaded
from workbench.trial.samplers import streams_of

#: Methods that training calls in its own process, or that only describe the data set.
_NOT_IN_WORKERS = frozenset({"__init__", "__new__", "__del__", "set_epoch", "state_dict", "load_state_dict"})
_CHANGE = frozenset({"STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL"})
_LOAD = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
#: Methods of containers that change them.
_CHANGING = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove"}
    | {"reverse", "setdefault", "sort", "update"}
)


def keeps_something(dataset: Any) -> bool:
    """Whether reading ``dataset`` may change it, so that its next pass in the same process yields something else.

    Of a data set with an index, only counts: what it opens or remembers when an item is first read changes no item.
    """
    data = loaded("torch.utils.data")
    is_stream = data is not None and isinstance(dataset, data.IterableDataset)
    return any(
        any(isinstance(value, Iterator) for value in getattr(one, "__dict__", {}).values())
        or any(_class_keeps(cls, is_stream) for cls in type(one).__mro__)
        for one in streams_of(dataset)
    )


@functools.lru_cache(1024)
def _class_keeps(cls: type, is_stream: bool) -> bool:
    if cls.__module__.startswith(("torch.utils.data.", "typing", "builtins")):
        return False
    functions = (getattr(value, "__func__", value) for name, value in vars(cls).items() if name not in _NOT_IN_WORKERS)
    return any(_changes(one.__code__, is_stream) for one in functions if isinstance(one, types.FunctionType))


def _changes(code: types.CodeType, is_stream: bool) -> bool:
    before: list[dis.Instruction] = []
    for one in dis.get_instructions(code):
        names = [early.opname for early in before]
        counts = any(early.opname == "BINARY_OP" and early.argrepr.endswith("=") for early in before[-3:])
        if one.opname in ("STORE_ATTR", "STORE_GLOBAL") and counts:
            return True
        if is_stream and (
            one.opname in _CHANGE
            or (one.opname in _LOAD and one.argval in _CHANGING and names[-1:] == ["LOAD_ATTR"])
            or (one.opname == "STORE_SUBSCR" and (names[-2:-1] == ["LOAD_ATTR"] or (counts and "LOAD_ATTR" in names)))
        ):
            return True
        # EXTENDED_ARG and CACHE mean nothing by themselves.
        before = [*before, one][-12:] if one.opname not in ("EXTENDED_ARG", "CACHE") else before
    return any(_changes(part, is_stream) for part in code.co_consts if isinstance(part, types.CodeType))

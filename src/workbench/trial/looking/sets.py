"""The order of sets. Law: where a restored set may have another order, now or after later changes, it is named, unless
the training code cannot see the order. A set is restored by adding its elements one by one, in the order that it had.

A set's order depends on what was removed from it and on how large it once was, which no pickle contains. So its table
is compared with that of a set made as a resume makes it: equal tables behave equally from then on.
"""

from __future__ import annotations

import ctypes
import dis
import functools
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from workbench.trial.discovery import Survey
from workbench.trial.kinds import Instance, module_of

TYPES = (set, frozenset)
LOST = "it cannot be saved: after a resume this set may iterate in another order; use a list or a dict, or sort it"

#: Methods and functions whose results do not depend on a set's order.
_METHODS = frozenset(
    {
        *("add", "clear", "difference_update", "discard", "intersection_update", "isdisjoint", "issubset"),
        *("issuperset", "remove", "symmetric_difference_update", "update"),
    }
)
_OF_KERAS = frozenset({"._nodes", ".stored_ids"})
_FUNCTIONS = frozenset({"bool", "len", "max", "min", "sorted"})


class _Set(ctypes.Structure):
    """A set in memory: ``PySetObject`` of CPython's ``setobject.h``."""

    _fields_ = (
        ("head", ctypes.c_char * object.__basicsize__),
        ("fill", ctypes.c_ssize_t),
        ("used", ctypes.c_ssize_t),
        ("mask", ctypes.c_ssize_t),
        ("table", ctypes.c_void_p),
        ("hash", ctypes.c_ssize_t),
        ("finger", ctypes.c_ssize_t),
    )


#: A slot is a key and its hash.
_SLOT = ctypes.sizeof(ctypes.c_void_p) + ctypes.sizeof(ctypes.c_ssize_t)


def _table(elements: Any) -> tuple[int, bytes]:
    """Where ``pop`` looks next, and all slots of the table."""
    found = _Set.from_address(id(elements))
    return found.finger & found.mask, ctypes.string_at(found.table, (found.mask + 1) * _SLOT)


def _is_known() -> bool:
    """Whether this Python's sets lie in memory as expected here."""
    sample = {1, 2, 3}
    if sys.implementation.name != "cpython" or set.__basicsize__ < ctypes.sizeof(_Set):
        return False
    found = _Set.from_address(id(sample))
    return (found.fill, found.used, found.mask) == (3, 3, 7)


_IS_KNOWN = _is_known()


def is_exact(elements: Any) -> bool:
    """Whether a set made again by adding the elements one by one has the same order, now and after later changes."""
    return _IS_KNOWN and _table(elements) == _table(type(elements)(list(elements)))


def reordered(
    survey: Survey, pickled: Iterable[Any], functions: Callable[[], list[Any]], loop: Sequence[types.CodeType]
) -> Iterator[int]:
    """Numbers of the sets in a checkpoint whose order a resume may change, and the training code may see.

    pickled: the new sets in the checkpoint's graph. functions: those of the training code. loop: the code around its
    loop; empty if it is not known.
    """
    found = [number for number in survey.changed if type(survey.objects[number]) in TYPES]
    found += [number for one in pickled if (number := survey.numbers.get(id(one))) is not None]
    found = [number for number in dict.fromkeys(found) if not is_exact(survey.objects[number])]
    if not found:
        return
    if not loop:
        yield from found
        return
    codes = [*loop, *(one.__code__ for one in functions())]
    for code in codes:
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    seen = frozenset().union(*map(_ordered, codes))
    yield from (number for number in found if _is_seen(survey, number, seen))


def _is_seen(survey: Survey, number: int, names: frozenset[str]) -> bool:
    """Whether code may see the order of a set. names: those that code uses in a way that shows the order of a set."""
    entry = survey.entries[number]
    key = str(entry.key)
    if entry.parent < 0:
        return survey.roots[-1 - entry.parent].is_module or key in names
    if key.startswith(("<key ", "{")) or _is_of_keras(survey, number):  # of a mapping or a set
        return False
    holder, how = survey.objects[entry.parent], survey.entries[entry.parent].how
    # Methods of a class of the cell are among the functions; those of a module of the experiment's own are not.
    is_cells = module_of(type(holder)) == "__main__" and not survey.classifier.modules
    return key in names if is_cells and isinstance(how, Instance) and not how.bare else True


def _is_of_keras(survey: Survey, number: int) -> bool:
    """Whether Keras itself holds a set, in an attribute which it only asks for what is in it."""
    entry = survey.entries[number]
    while entry.parent >= 0 and getattr(survey.entries[entry.parent].how, "bare", False):
        entry = survey.entries[entry.parent]
    bases = type(survey.objects.get(entry.parent)).__mro__
    return str(entry.key) in _OF_KERAS and any(module_of(base).startswith("keras.") for base in bases)


@functools.lru_cache(256)
def _ordered(code: types.CodeType) -> frozenset[str]:
    """Names, and attributes with a dot before them, that ``code`` reads for more than what does not depend on order."""
    found: set[str] = set()
    steps = [one for one in dis.get_instructions(code) if one.opname not in ("EXTENDED_ARG", "PUSH_NULL", "NOP")]
    for place, step in enumerate(steps[:-1]):
        if not step.opname.startswith("LOAD_") or step.opname in ("LOAD_CONST", "LOAD_CLOSURE", "LOAD_METHOD"):
            continue
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if len(names) == 1 and _hides_order(steps[max(0, place - 2) : place], step, steps[place + 1]):
            continue
        before = "." if step.opname == "LOAD_ATTR" else ""
        found.update(f"{before}{name}" for name in names if isinstance(name, str))
    return frozenset(found)


def _hides_order(before: list[dis.Instruction], load: dis.Instruction, following: dis.Instruction) -> bool:
    """Whether what was loaded is only asked for something that does not depend on its order."""
    name = following.opname
    if name in ("CONTAINS_OP", "TO_BOOL", "UNARY_NOT") or name.startswith(("POP_JUMP", "JUMP_IF")):
        return True
    if name in ("LOAD_METHOD", "LOAD_ATTR"):
        return following.argval in _METHODS
    if name in ("PRECALL", "CALL") and following.arg == 1 and before:
        called = before[0] if load.opname == "LOAD_ATTR" else before[-1]
        return called.opname in ("LOAD_GLOBAL", "LOAD_NAME") and called.argval in _FUNCTIONS
    return False

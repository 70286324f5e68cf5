"""Which names every turn of a loop assigns before it reads them. Law: in doubt a name is read.

The batch and the output of the last turn are still bound when a turn ends, and can be large; but the next turn assigns
them before it reads them. This is read from the frame's bytecode, at the instruction where it waits for the next turn.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Collection, Iterable

from workbench.snapshot.reading.names import global_names

#: The last ones are of later Pythons. A comprehension that is part of the code keeps an outer name of its variable's by
#: LOAD_FAST_AND_CLEAR, and puts it back by STORE_FAST.
_READS = frozenset(
    {
        *("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_GLOBALS"),
        *("LOAD_FAST_AND_CLEAR", "LOAD_FAST_BORROW"),
    }
)
_DELETES = frozenset({"DELETE_NAME", "DELETE_GLOBAL", "DELETE_FAST"})
_WRITES = frozenset({"STORE_NAME", "STORE_GLOBAL", "STORE_FAST"})
_ENDS = frozenset({"RETURN_VALUE", "RETURN_CONST", "RERAISE", "RAISE_VARARGS"})
_JUMPS_ALWAYS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"})
#: Through these, code may read names that its text does not contain.
_DYNAMIC = frozenset({"globals", "locals", "vars", "eval", "exec", "dir", "__import__"})


def instruction_of(frame: types.FrameType) -> int:
    """The offset of the instruction at which ``frame`` is.

    While the generator runs that a loop goes through, Python 3.12 has the loop stand behind it, at its cache.
    """
    code, offset = frame.f_code.co_code, frame.f_lasti
    while offset > 0 and dis.opname[code[offset]] == "CACHE":
        offset -= 2
    return offset


def assigned_first(frame: types.FrameType, names: Iterable[str], elsewhere: Collection[str] = ()) -> set[str]:
    """Those of ``names`` that ``frame`` assigns in every turn of its current loop, before anything reads them.

    A name that only some turns assign (the best so far) is not included, even if nothing here reads it.
    elsewhere: names read by functions that ``frame`` may call but does not define.
    """
    wanted = set(names)
    code = frame.f_code
    if not wanted or _DYNAMIC & set(code.co_names):
        return set()
    inner = _names_inside(code).union(elsewhere)
    if _DYNAMIC & inner:
        return set()
    wanted -= inner | set(code.co_cellvars) | set(code.co_freevars)
    graph = _Graph(code)
    return {name for name in wanted if graph.assigns_first(name, instruction_of(frame))}


def carried_over(frame: types.FrameType, names: Iterable[str], elsewhere: Collection[str] = ()) -> set[str]:
    """Those of ``names`` whose value from this turn ``frame`` may read in the next turn of its current loop."""
    code = frame.f_code
    inner = set(elsewhere).union(code.co_cellvars, code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner.update(global_names(constant))
    return {name for name in names if name in inner or _reads_in_a_turn(code, name, instruction_of(frame))}


@functools.lru_cache(64)
def _reads_in_a_turn(code: types.CodeType, name: str, start: int) -> bool:
    """Cached: it is asked at every checkpoint, and the answer is always the same."""
    return _Graph(code).reads_in_a_turn(name, start)


def _names_inside(code: types.CodeType) -> set[str]:
    """All names that functions and classes made by ``code`` mention."""
    found: set[str] = set()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= set(constant.co_names) | set(constant.co_freevars) | _names_inside(constant)
    return found


@functools.lru_cache(64)
def read_without_assigning(code: types.CodeType, name: str, start: int) -> bool:
    """Whether code that runs after the instruction at ``start`` may read the name, and not every turn assigns it."""
    graph = _Graph(code)
    return not graph._assigns_in_every_turn(name, start) and graph._reads_first(name, start)


class _Graph:
    """The instructions of a code object, and which may follow each."""

    def __init__(self, code: types.CodeType) -> None:
        self._at = {instruction.offset: instruction for instruction in dis.get_instructions(code)}
        self._next: dict[int, list[int]] = {}
        #: Where an error inside ``try`` or ``with`` continues.
        self._handlers: dict[int, list[int]] = {}
        jumps = set(dis.hasjrel) | set(dis.hasjabs)
        offsets = list(self._at)
        for offset, following in zip(offsets, [*offsets[1:], -1], strict=True):
            instruction = self._at[offset]
            falls_through = instruction.opname not in _ENDS and instruction.opname not in _JUMPS_ALWAYS
            self._next[offset] = [following] if falls_through else []
            if instruction.opcode in jumps:
                self._next[offset].append(instruction.argval)
        for entry in dis.Bytecode(code).exception_entries:  # type: ignore[attr-defined]
            for offset in offsets:
                if entry.start <= offset < entry.end:
                    self._handlers.setdefault(offset, []).append(entry.target)

    def assigns_first(self, name: str, start: int) -> bool:
        """True if every turn from ``start`` assigns ``name``, and no path from there reads it before."""
        return not self._reads_first(name, start) and self._assigns_in_every_turn(name, start)

    def reads_in_a_turn(self, name: str, start: int) -> bool:
        """True if a turn from ``start`` may read ``name`` before it assigns it.

        Code after the loop does not count; an inner ``for`` is assumed to run at least once, and no error to be caught.
        """
        before: dict[int, list[int]] = {}
        for offset, following in self._next.items():
            for one in following:
                before.setdefault(one, []).append(offset)
        turn = _reach(before, start)
        seen: set[tuple[int, bool]] = set()
        waiting = [(start, True)]
        while waiting:
            offset, came_back = waiting.pop()
            if (offset, came_back) in seen or offset not in turn:
                continue
            seen.add((offset, came_back))
            instruction = self._at[offset]
            if instruction.argval == name:
                if instruction.opname in _READS:
                    return True
                if instruction.opname in _WRITES or instruction.opname in _DELETES:
                    continue
            elif isinstance(instruction.argval, tuple) and name in instruction.argval:
                # A fused instruction of a later Python: it stores before it loads.
                stored = {"STORE_FAST_LOAD_FAST": 1, "STORE_FAST_STORE_FAST": 2}.get(instruction.opname, 0)
                if name not in instruction.argval[:stored]:
                    return True
                continue
            waiting += self._following(instruction, came_back)
        return False

    def _reads_first(self, name: str, start: int) -> bool:
        seen: set[int] = set()
        waiting = [start]
        while waiting:
            offset = waiting.pop()
            if offset in seen or offset not in self._at:
                continue
            seen.add(offset)
            instruction = self._at[offset]
            waiting += self._handlers.get(offset, ())
            if instruction.argval == name:
                if instruction.opname in _READS or instruction.opname in _DELETES:
                    return True
                if instruction.opname in _WRITES:
                    continue
            elif isinstance(instruction.argval, tuple) and name in instruction.argval:
                return True  # a fused instruction of a later Python
            waiting += self._next[offset]
        return False

    def _assigns_in_every_turn(self, name: str, start: int) -> bool:
        """Every path back to ``start`` has an assignment; an inner ``for`` is assumed to run at least once."""
        seen: set[tuple[int, bool]] = set()
        waiting = [(offset, False) for offset in self._next[start]]
        while waiting:
            offset, came_back = waiting.pop()
            if offset == start:
                return False
            if (offset, came_back) in seen or offset not in self._at:
                continue
            seen.add((offset, came_back))
            instruction = self._at[offset]
            if instruction.argval == name and instruction.opname in _WRITES:
                continue
            waiting += self._following(instruction, came_back)
        # If nothing leads back, there is no loop here: a name may never be assigned again.
        return start in _reach(self._next, start)

    def _following(self, instruction: dis.Instruction, came_back: bool) -> list[tuple[int, bool]]:
        """The next instructions, and whether each jumps back; a ``for`` first reached is assumed to run."""
        following = self._next[instruction.offset]
        if instruction.opname == "FOR_ITER" and not came_back:
            following = following[:1]
        goes_back = instruction.opname in _JUMPS_ALWAYS and instruction.argval <= instruction.offset
        return [(target, goes_back) for target in following]


def _reach(edges: dict[int, list[int]], start: int) -> set[int]:
    seen: set[int] = set()
    waiting = list(edges.get(start, ()))
    while waiting:
        offset = waiting.pop()
        if offset not in seen:
            seen.add(offset)
            waiting += edges.get(offset, ())
    return seen

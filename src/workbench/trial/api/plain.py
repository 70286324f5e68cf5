"""Whether a loop is ``for … in trial.steps():``. Law: read from the code's instructions; in doubt the answer is no.

The text of a file may have been edited since it was compiled, and to read it takes longer than the question is worth.
"""

from __future__ import annotations

import dis
import functools
import itertools
import types
from collections.abc import Iterator

from workbench.trial.course.liveness import instruction_of

#: Instructions that get the value of a name.
_LOADS = ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FAST")
#: Those that get a method to call: up to Python 3.11, and from 3.12 on.
_METHODS = ("LOAD_METHOD", "LOAD_ATTR")


def is_loop_over_steps(frame: types.FrameType) -> bool:
    """Whether the code of ``frame`` is at the loop of ``for … in trial.steps():``, whatever the trial is called. False
    if that cannot be told. By the code, since a text may have been edited after it was compiled."""
    from workbench.trial.api.trial import STEPS, Trial

    code, at = frame.f_code, instruction_of(frame)
    if dis.opname[code.co_code[at]] != "FOR_ITER":
        return False
    match [*itertools.islice(_before(code.co_code, at), 4)]:
        case [("GET_ITER", _, iterates), ("CALL", 0, _), (method, attribute, _), (load, name, start)]:
            is_steps = method in _METHODS and _name(code, method, attribute) == "steps"
        case _:
            return False
    # What a branch of a condition has made would come in between.
    if not is_steps or load not in _LOADS or any(start < one <= iterates for one in _targets(code.co_code)):
        return False
    called = _name(code, load, name)
    value = frame.f_locals.get(called, frame.f_globals.get(called))
    return type(value) is Trial and Trial.steps is STEPS and "steps" not in vars(value)


def _before(code: bytes, at: int) -> Iterator[tuple[str, int, int]]:
    """The instructions before ``at``, the last one first: name, argument and offset. It ends at a long argument."""
    is_long_jump = at >= 2 and dis.opname[code[at - 2]] == "EXTENDED_ARG"
    while is_long_jump and dis.opname[code[at - 2]] == "EXTENDED_ARG":
        at -= 2
    while (at := at - 2) >= 0:
        name = dis.opname[code[at]]
        if name == "EXTENDED_ARG":
            return
        if name not in ("CACHE", "PRECALL"):
            yield name, code[at + 1], at


def _name(code: types.CodeType, instruction: str, argument: int) -> str:
    """The name of what one of :data:`_LOADS` or of :data:`_METHODS` gets; empty for an attribute that is not called."""
    if instruction == "LOAD_FAST":
        return code.co_varnames[argument]
    if instruction == "LOAD_ATTR" and not argument & 1:
        return ""  # no method
    if instruction in ("LOAD_GLOBAL", "LOAD_ATTR"):
        argument >>= 1
    return code.co_names[argument]


@functools.lru_cache(maxsize=16)
def _targets(code: bytes) -> tuple[int, ...]:
    """Where the jumps of a code go. It is the same for all trials: only their constants differ."""
    return tuple(dis.findlabels(code))  # type: ignore[arg-type]

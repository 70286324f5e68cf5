"""Whether Python can come back to the place where a loop takes its next item. Law: read from the code's text; where it
cannot be read, the answer is no.

Code that runs again up to a place makes everything again that Python keeps there without a name: values of an
expression that is half done, what a comprehension has collected, the managers of ``with``. A checkpoint cannot restore
these.
"""

from __future__ import annotations

import ast
import dis
import functools
import gc
import inspect
import io
import linecache
import types
from collections.abc import Iterator, Sequence
from typing import Any

from workbench.errors import BadInput
from workbench.trial.api.plain import is_loop_over_steps
from workbench.trial.classifier import SHOWN_ONLY
from workbench.trial.course.liveness import instruction_of

#: Managers that end as they would in the first run, by the last part of their names: they have no state of their own,
#: or only show something.
_STATELESS = frozenset(
    {
        *("no_grad", "enable_grad", "inference_mode", "set_grad_enabled", "autocast", "nullcontext", "suppress"),
        *("catch_warnings", "simplefilter", "detect_anomaly", "set_detect_anomaly", "record_function", "profile"),
        *("sdpa_kernel", "flags", "deterministic", "set_multithreading_enabled", "accumulate", "no_sync", "join"),
        *("tqdm", "trange", "Progress", "alive_bar", "Live", "Timer", "redirect_stdout", "redirect_stderr"),
    }
)
#: Iterators of Python's own that keep a count or a place.
_COUNTS_ANEW = frozenset(
    {
        *("enumerate", "zip", "map", "filter", "islice", "chain", "cycle", "takewhile", "dropwhile", "zip_longest"),
        *("accumulate", "pairwise", "batched", "starmap", "compress", "groupby", "filterfalse"),
    }
)
#: Functions that make one value of all that an iterator gives, by the last part of their names.
_COLLECTS = frozenset(
    {
        *("sum", "fsum", "prod", "max", "min", "reduce", "join", "fromiter", "mean", "median", "stdev"),
        *("list", "tuple", "set", "frozenset", "dict", "sorted", "deque", "Counter"),
    }
)
_LOOPS = (ast.For, ast.AsyncFor)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_COMPREHENSION_NAMES = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
#: Instructions by which ``next`` may be called.
_CALLS = ("CALL", "PRECALL", "CALL_KW")
#: Instructions of a comprehension, which is part of its function from Python 3.12 on.
_COLLECTING = frozenset(dis.opmap[name] for name in ("LIST_APPEND", "SET_ADD", "MAP_ADD"))

Span = tuple[int | None, int | None, int | None, int | None]


def iterator_around(items: Iterator[object]) -> str:
    """The type of an iterator (enumerate, zip, …) that wraps ``items``; progress bars do not count."""
    for one in gc.get_referrers(items):
        if isinstance(one, tuple):
            holders = [holder for holder in gc.get_referrers(one) if isinstance(holder, Iterator)]
            if holders:
                return type(holders[0]).__name__
        elif isinstance(one, types.GeneratorType):
            module = str(one.gi_frame.f_globals.get("__name__", "")) if one.gi_frame is not None else ""
            if not module.startswith(SHOWN_ONLY):
                return "a generator"
        elif isinstance(one, Iterator) and not type(one).__module__.startswith(SHOWN_ONLY):
            return type(one).__name__
    return ""


def refuse_wrapped(steps: Iterator[object], frame: types.FrameType) -> None:
    """Raises BadInput if something of Python's own goes through the steps, and not a loop. frame: where the first is
    taken."""
    # In a plain loop nothing can be between the two, and to search all objects for it is far more work.
    around = "" if is_loop_over_steps(frame) else iterator_around(steps)
    if around not in _COUNTS_ANEW:
        around = _collected_by(frame) if frame.f_code.co_flags & inspect.CO_GENERATOR else taken_by(frame)
    if around:
        raise BadInput(
            f"{around} goes through trial.steps(). It would start again from its own beginning when the trial "
            "continues after a pause, and what it has made by then would be lost. trial.steps() yields the number of "
            "the turn, from 0: write `for epoch in trial.steps():`, and use epoch as an index."
        )


def _collected_by(generator: types.FrameType) -> str:
    """What collects the values of a generator that goes through the steps; empty for what takes one after another."""
    taker: types.FrameType | None = generator
    while taker is not None and taker.f_code.co_flags & inspect.CO_GENERATOR:
        taker = taker.f_back
    taken = "" if taker is None else taken_by(taker)
    is_collecting = taken.rpartition(".")[2].removesuffix("()") in _COLLECTS or taken == "a comprehension"
    return taken if is_collecting else ""


def taken_by(frame: types.FrameType) -> str:
    """What takes the next item of an iterator in the code of ``frame``; empty for a loop, for ``next``, and where that
    is not known."""
    if frame.f_code.co_name in _COMPREHENSION_NAMES:
        return "a comprehension"
    if _instruction(frame) == "FOR_ITER" and not _COLLECTING.intersection(frame.f_code.co_code[::2]):
        return ""
    text = _Text.of(frame.f_code, frame.f_globals)
    nodes = [] if text is None else text.at(span_of(frame))
    if _instruction(frame) != "FOR_ITER":
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        return f"{ast.unparse(calls[0].func)}()" if calls and not _is_next(calls[0]) else ""
    # Up to 3.11 the instruction stands for the whole loop, later for what it goes through.
    looped = [one for node in nodes for one in (node, text.parents.get(node))] if text is not None else []
    return "a comprehension" if looped and not any(isinstance(one, _LOOPS) for one in looped) else ""


def span_of(frame: types.FrameType) -> Span:
    """Where the text of the current instruction begins and ends: lines, then columns in bytes."""
    for number, span in enumerate(frame.f_code.co_positions()):
        if number == frame.f_lasti // 2:
            return span
    return None, None, None, None


def kept_around(frame: types.FrameType) -> str:
    """What Python keeps where the code of ``frame`` takes the next item of an iterator, in words; empty if a loop does,
    or ``next``."""
    taker = taken_by(frame)
    if taker:
        return f"{taker} keeps what it has made so far"
    return "" if _instruction(frame) in ("FOR_ITER", *_CALLS) else _unknown(frame)


def kept_below(frame: types.FrameType, *, has_steps: bool) -> str:
    """What Python keeps in ``frame`` at the place where it is: half an expression, or managers of ``with``.

    has_steps: the loop over the steps runs in it; what is outside of that loop is not looked at.
    """
    text = _Text.of(frame.f_code, frame.f_globals)
    if text is None:
        return f"the text of {frame.f_code.co_qualname} cannot be read"
    nodes = text.at(span_of(frame))
    if not nodes:
        return _unknown(frame)
    node = nodes[0]
    return text.kept_by_expression(node) or text.kept_by_managers(node, has_steps=has_steps)


def kept_by_closure(frame: types.FrameType) -> str:
    """A function that shares a variable with ``frame``, in which it was made: restored, the two would have one each."""
    shared = {*frame.f_code.co_cellvars}
    if not shared:
        return ""
    inside = f"{frame.f_code.co_qualname}.<locals>."
    for name, value in frame.f_locals.items():
        if isinstance(value, types.FunctionType) and value.__qualname__.startswith(inside):
            common = shared.intersection(value.__code__.co_freevars)
            if common:
                return f"{name} and {frame.f_code.co_qualname} share the variable {min(common)}"
    return ""


def kept_by_file(frame: types.FrameType) -> str:
    """A file to which a function writes: opened again, it has lost what was written."""
    for name, value in frame.f_locals.items():
        is_file = isinstance(value, io.IOBase) and not isinstance(value, io.BytesIO | io.StringIO)
        if is_file and not value.closed and value.writable():
            return f"{name} is a file that {frame.f_code.co_qualname} writes"
    return ""


def _is_next(call: ast.Call) -> bool:
    return _last_name(call) in ("next", "__next__")


def _unknown(frame: types.FrameType) -> str:
    return f"what line {frame.f_lineno} of {frame.f_code.co_qualname} keeps is not known"


def _instruction(frame: types.FrameType) -> str:
    return dis.opname[frame.f_code.co_code[instruction_of(frame)]]


class _Text:
    """The text of a file or cell, read as Python's syntax."""

    def __init__(self, tree: ast.Module) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        self._spans: dict[Span, list[ast.AST]] = {}
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            if isinstance(node, (ast.expr, *_LOOPS)):
                span = node.lineno, node.end_lineno, node.col_offset, node.end_col_offset
                self._spans.setdefault(span, []).append(node)

    @classmethod
    def of(cls, code: types.CodeType, around: dict[str, Any]) -> _Text | None:
        """The text that ``code`` was compiled from, if it is available."""
        return _read("".join(linecache.getlines(code.co_filename, around)))

    def at(self, span: Span) -> list[ast.AST]:
        """The expressions and loops that begin and end there."""
        return self._spans.get(span, [])

    def above(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Each node above, up to the function, with the one below it."""
        while (parent := self.parents.get(node)) is not None:
            yield parent, node
            if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                return
            node = parent

    def kept_by_expression(self, node: ast.AST) -> str:
        """What was computed in its statement before ``node`` and is used after it."""
        for parent, child in self.above(node):
            if isinstance(parent, ast.stmt):
                return ""
            if isinstance(parent, ast.comprehension):
                first = getattr(self.parents[parent], "generators", [parent])[0]
                if first is parent and child is parent.iter:
                    continue
                return "a comprehension keeps what it has made so far"
            if isinstance(parent, _COMPREHENSIONS) and not isinstance(child, ast.comprehension):
                return "a comprehension keeps what it has made so far"
            for before in _evaluated_before(parent, child):
                if not _is_plain(before):
                    return f"`{ast.unparse(before)}` is computed before, in the same expression"
        return ""

    def kept_by_managers(self, node: ast.AST, *, has_steps: bool) -> str:
        """The first manager of a ``with`` around ``node`` that may end otherwise than it would have."""
        chain = [*self.above(node)]
        if has_steps:  # the outermost loop, or one inside of it, is the one over the steps
            loops = [place for place, (one, _) in enumerate(chain) if isinstance(one, ast.For | ast.While)]
            chain = chain[: loops[-1]] if loops else chain
        for parent, child in chain:
            if not isinstance(parent, ast.With | ast.AsyncWith):
                continue
            managers = [item.context_expr for item in parent.items]
            if isinstance(child, ast.withitem):  # the ones before are entered
                managers = managers[: parent.items.index(child)]
            for one in managers:
                if _last_name(one) not in _STATELESS:
                    return f"`with {ast.unparse(one)}` is open"
        return ""


@functools.lru_cache(maxsize=32)
def _read(text: str) -> _Text | None:
    try:
        return _Text(ast.parse(text)) if text else None
    except (SyntaxError, ValueError, RecursionError):
        return None


def _evaluated_before(parent: ast.AST, child: ast.AST) -> Sequence[ast.AST]:
    """The parts of an expression whose values wait while ``child`` is computed."""
    if isinstance(parent, ast.BoolOp | ast.IfExp | ast.NamedExpr | ast.keyword | ast.withitem):
        return ()
    if isinstance(parent, ast.Dict):
        parts: list[ast.AST] = [
            part for pair in zip(parent.keys, parent.values, strict=True) for part in pair if part is not None
        ]
    else:
        parts = [part for part in ast.iter_child_nodes(parent) if isinstance(part, ast.expr | ast.keyword)]
    return parts[: parts.index(child)] if child in parts else ()


def _is_plain(node: ast.AST) -> bool:
    """Whether it only names what is there."""
    if isinstance(node, ast.keyword | ast.Starred):
        return _is_plain(node.value)
    if isinstance(node, ast.Attribute):
        return _is_plain(node.value)
    if isinstance(node, ast.Tuple):
        return all(map(_is_plain, node.elts))
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant)
    return isinstance(node, ast.Name | ast.Constant | ast.Lambda)


def _last_name(node: ast.AST) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")

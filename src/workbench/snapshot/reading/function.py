"""The function form: ``def train(trial, lr=wb.loguniform(1e-4, 1))``. Law: parsed like a cell, and never called.

A training function is a function, a method of an object, a partial, a lambda or an object that can be called; what it
takes along is captured with it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sys
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.errors import BadCell, BadOption, BadSpace
from workbench.snapshot.reading.callables import called_of, entry_of, home_of, own_function, parts, shown, uses_trial
from workbench.snapshot.reading.calls import FORM, call_of, is_plain, is_recorded, parameters_of, space_of
from workbench.snapshot.reading.cell import Cell, content_of
from workbench.snapshot.reading.hyperparameters import Hyperparameter, supplied
from workbench.snapshot.reading.loop import use_of_trial
from workbench.snapshot.reading.names import global_names
from workbench.space import Distribution, Space


@dataclass(frozen=True, slots=True)
class Taken:
    """What is captured of a function: its names besides the notebook's, which of them are only shown, since they are
    part of another one, and the notebook's namespace."""

    namespace: Mapping[str, Any]
    values: Mapping[str, Any]
    parts: frozenset[str] = frozenset()


def read_function(function: Callable[..., Any], space: Mapping[str, Any] | None = None) -> Cell:
    """A training function in the form of :func:`~workbench.snapshot.reading.cell.read_cell`.

    The parameter named ``trial``, or the first one, gets the trial; each other one needs a value: a distribution makes
    a hyperparameter, a plain number, string or truth value a constant of the space. ``space`` gives them beside the
    function, and overrides its defaults; if its names are no parameters, one parameter without default gets it all as a
    dict. Raises BadCell, BadSpace or BadOption.
    """
    given = _given(space)
    told = shown(function)
    own = _checked(function, told)
    source, tree, line = _source(own)
    parameters = parameters_of(function, told)
    is_global = uses_trial(function)
    call = call_of(function, told, given, (is_global, _used_as_trial(tree)))
    try:
        searched, beside = space_of(parameters, call, given)
        read = Space(searched)
    except BadSpace as error:
        raise BadSpace(f"{told}: {error}") from None
    use = None
    content = ""
    if tree is not None:
        named = tree if call.trial is None else _with_trial(tree, call.trial)
        needs = [name for name in global_names(own.__code__) if name != "trial"]
        namespace = {**supplied(), **own.__globals__}
        # The text of a decorator that passes everything on does not show the trial.
        passes_on = call.trial is not None and call.trial not in own.__code__.co_varnames
        elsewhere = is_global or passes_on
        use = use_of_trial(named, source, needs, namespace, line, "function", is_elsewhere=elsewhere)
        content = content_of(tree)
    entry = entry_of(function)
    first = own.__code__.co_firstlineno
    plainly = call.trial == next(iter(parameters)) and not given if parameters else False
    return Cell(
        kind="function",
        source=source,
        space=read,
        hyperparameters=tuple(
            Hyperparameter(name, first, f"{name}={one!r}", one)
            for name, one in searched.items()
            if isinstance(one, Distribution)
        ),
        needs={entry: 0},
        assigned=frozenset(),
        bound=frozenset(),
        attributes=frozenset(),
        imports=(),
        steps=use.steps if use else None,
        reports=use.reports if use else None,
        report=use.report if use else None,
        content=content,
        entry=entry,
        module=_module(function),
        call=None if plainly else call.to_json(),
        beside=beside,
    )


def taken(cell: Cell, function: Callable[..., Any]) -> tuple[Cell, Taken]:
    """The cell with the names that are captured now, at the start, and their values."""
    own = {part.name: part.value for part in parts(function)}
    beside = {f"{name}=": value for name, value in cell.beside.items()}
    values = {**own, **beside, str(cell.entry): _without_space(function)}
    home = home_of(own_function(function))
    return replace(cell, needs=dict.fromkeys([str(cell.entry), *own, *beside], 0)), Taken(home, values, frozenset(own))


def _without_space(function: Any) -> Any:
    """A partial without the fixed arguments that are in the space: a runner gives them, and the space
    says how they changed."""
    if type(function) is not functools.partial:
        return function
    keywords = {name: None if _is_in_space(value) else value for name, value in function.keywords.items()}
    made = functools.partial(function.func, *function.args, **keywords)
    vars(made).update(vars(function))
    return made


def _is_in_space(value: Any) -> bool:
    return is_plain(value) or (isinstance(value, Distribution) and is_recorded(value))


def _given(space: object) -> dict[str, Any]:
    if isinstance(space, Space):
        return space.parameters
    if space is not None and not isinstance(space, Mapping):
        raise BadOption(
            f"space={space!r}: expected a dict of names and distributions, such as {{'lr': wb.loguniform(1e-4, 1)}}."
        )
    return dict(space or {})


def _checked(function: object, told: str) -> types.FunctionType:
    """The function that a call ends in. Raises BadCell where calling it would train nothing."""
    own = own_function(function)
    if not isinstance(own, types.FunctionType):
        kind = "a class" if isinstance(own, type) else f"a {type(own).__name__}"
        name = getattr(own, "__name__", type(own).__name__)
        raise BadCell(f"{name} is {kind}, which has no text of its own to train. {FORM}.")
    called: Any = function
    while isinstance(called, functools.partial):
        called = called.func
    called = called if isinstance(called, types.FunctionType | types.MethodType) else called_of(called)
    if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
        raise BadCell(f"{told} is async, and training code has no event loop. {FORM}; call asyncio.run in it.")
    if inspect.isgeneratorfunction(called):
        raise BadCell(f"{told} yields, so calling it would train nothing. {FORM}; report with trial.report(...).")
    return own


# ---------------------------------------------------------------------------------------------------------------------
# The text


def _source(function: types.FunctionType) -> tuple[str, ast.Module | None, int]:
    """The function's text, its tree, and the number of its first line; no tree if the text is not known."""
    try:
        lines, first = inspect.getsourcelines(function)
        source = textwrap.dedent("".join(lines))
        if function.__name__ == "<lambda>":
            return _lambda(function, source, first)
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError):
        return _by_name(function)
    if any(getattr(one, "name", None) == function.__code__.co_name for one in tree.body):
        return source, tree, first
    return _by_name(function)


def _by_name(function: types.FunctionType) -> tuple[str, ast.Module | None, int]:
    """The same if lines were added to the file since it was imported: the definition of this name, if there is one."""
    text = "".join(linecache.getlines(function.__code__.co_filename, function.__globals__))
    try:
        body: list[ast.stmt] = ast.parse(text).body
        found: Any = None
        for name in function.__qualname__.replace(".<locals>", "").split("."):
            found = next(one for one in body if getattr(one, "name", None) == name)
            body = found.body
        first = min([found.lineno, *(one.lineno for one in found.decorator_list)])
        source = textwrap.dedent("\n".join(text.splitlines()[first - 1 : found.end_lineno]) + "\n")
        return source, ast.parse(source), first
    except (SyntaxError, StopIteration, AttributeError, ValueError):
        return f"# the text of {function.__name__}() is not known", None, 1


def _lambda(function: types.FunctionType, source: str, first: int) -> tuple[str, ast.Module | None, int]:
    """A lambda without the statement in which it is written, if it is the only one there."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source, None, first  # it is a part of a longer statement
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda) and tuple(one.arg for one in (*node.args.posonlyargs, *node.args.args)) == names
    ]
    if len(found) != 1:
        return source, None, first
    text = f"{ast.get_source_segment(source, found[0])}\n"
    return text, ast.parse(text), first + found[0].lineno - 1


def _used_as_trial(tree: ast.Module | None) -> frozenset[str]:
    """The names whose ``steps`` or ``report`` the text uses."""
    return frozenset(
        node.value.id
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, ast.Attribute) and node.attr in ("steps", "report") and isinstance(node.value, ast.Name)
    )


class _Renamed(ast.NodeTransformer):
    def __init__(self, name: str) -> None:
        self.name = name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name("trial", node.ctx), node) if node.id == self.name else node


def _with_trial(tree: ast.Module, name: str) -> ast.Module:
    """The tree with the trial's parameter renamed to ``trial``."""
    return tree if name == "trial" else ast.fix_missing_locations(_Renamed(name).visit(ast.parse(ast.unparse(tree))))


def _module(function: Any) -> str | None:
    """The module from which a runner imports the function, or None if it is captured."""
    if not isinstance(function, types.FunctionType):
        return None
    module = sys.modules.get(function.__module__ or "")
    importable = module is not None and function.__module__ != "__main__"
    return function.__module__ if importable and getattr(module, function.__qualname__, None) is function else None

"""The function form: ``def train(trial, lr=wb.loguniform(1e-4, 1))``. Law: parsed like a cell, and never called."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Mapping
from typing import Any

from workbench.errors import BadCell, BadSpace
from workbench.snapshot.reading.cell import Cell, content_of
from workbench.snapshot.reading.hyperparameters import Hyperparameter, supplied
from workbench.snapshot.reading.loop import use_of_trial
from workbench.snapshot.reading.names import global_names
from workbench.space import Distribution, Space

_FORM = "Expected a function such as `def train(trial, lr=wb.loguniform(1e-4, 1)): ...`"


def read_function(function: Callable[..., Any]) -> Cell:
    """A training function in the form of :func:`~workbench.snapshot.reading.cell.read_cell`.

    Its first parameter gets the trial; each other one needs a default: a distribution makes a hyperparameter, a plain
    number, string or truth value a constant of the space. Raises BadCell or BadSpace.
    """
    checked = _checked(function)
    found, constants = _parameters(checked)
    try:
        space = Space({**constants, **{one.name: one.distribution for one in found}})
    except BadSpace as error:
        raise BadSpace(f"{checked.__name__}(): {error}") from None
    source, tree, line = _source(checked)
    use = None
    content = ""
    if tree is not None:
        namespace = {**supplied(), **checked.__globals__}
        named = _with_trial(tree, next(iter(inspect.signature(checked).parameters)))
        needs = [name for name in global_names(checked.__code__) if name != "trial"]
        use = use_of_trial(named, source, needs, namespace, line, "function")
        content = content_of(tree)
    return Cell(
        kind="function",
        source=source,
        space=space,
        hyperparameters=tuple(found),
        needs={checked.__name__: 0},
        assigned=frozenset(),
        bound=frozenset(),
        attributes=frozenset(),
        imports=(),
        steps=use.steps if use else None,
        reports=use.reports if use else None,
        report=use.report if use else None,
        content=content,
        entry=checked.__name__,
        module=_module(checked),
    )


def arguments(function: Callable[..., Any], configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments with which a runner calls ``function`` for a configuration: labels become objects again."""
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in configuration:
            value, default = configuration[name], parameter.default
            active = isinstance(default, Distribution) and not (value is None and default.when is not None)
            given[name] = default.pick(value) if active else value
    return given


def _checked(function: object) -> types.FunctionType:
    name = getattr(function, "__name__", type(function).__name__)
    if isinstance(function, types.MethodType):
        raise BadCell(
            f"{name} is a method: it takes its object along, and every trial would get a copy of it. {_FORM}; make the "
            "object inside it."
        )
    if not isinstance(function, types.FunctionType):
        kind = "a class" if isinstance(function, type) else f"a {type(function).__name__}"
        raise BadCell(f"{name} is {kind}, which has no text of its own to train. {_FORM}.")
    if function.__name__ == "<lambda>":
        raise BadCell(f"A lambda was given; it can hold no loop over trial.steps(). {_FORM}.")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise BadCell(f"{name}() is async, and training code has no event loop. {_FORM}; call asyncio.run in it.")
    if inspect.isgeneratorfunction(function):
        raise BadCell(f"{name}() yields, so calling it would train nothing. {_FORM}; report with trial.report(...).")
    return function


def _parameters(function: types.FunctionType) -> tuple[list[Hyperparameter], dict[str, Any]]:
    name = function.__name__
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    first = parameters[0] if parameters else None
    if first is None or isinstance(first.default, Distribution) or first.kind == first.KEYWORD_ONLY:
        raise BadCell(f"{name}() has no parameter for the trial. {_FORM}: its first parameter gets the trial.")
    line = function.__code__.co_firstlineno
    found: list[Hyperparameter] = []
    constants: dict[str, Any] = {}
    for parameter in parameters[1:]:
        default = parameter.default
        if isinstance(default, Distribution):
            if parameter.kind == parameter.POSITIONAL_ONLY:
                raise BadCell(f"{name}(): {parameter.name} can be given by position only. Remove the `/`.")
            found.append(Hyperparameter(parameter.name, line, f"{parameter.name}={default!r}", default))
        elif default is parameter.empty:
            raise BadCell(
                f"{name}(): nothing says what {parameter.name} should be. Give it a distribution "
                f"(`{parameter.name}=wb.uniform(0, 1)`) or a constant (`{parameter.name}=0.1`)."
            )
        elif default is None or isinstance(default, bool | int | float | str):
            constants[parameter.name] = default
    return found, constants


def _source(function: types.FunctionType) -> tuple[str, ast.Module | None, int]:
    try:
        lines, first = inspect.getsourcelines(function)
        source = textwrap.dedent("".join(lines))
        return source, ast.parse(source), first
    except (OSError, TypeError, SyntaxError):
        return f"# the text of {function.__name__}() is not known", None, 1


class _Renamed(ast.NodeTransformer):
    def __init__(self, name: str) -> None:
        self.name = name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name("trial", node.ctx), node) if node.id == self.name else node


def _with_trial(tree: ast.Module, name: str) -> ast.Module:
    """The tree with the first parameter renamed to ``trial``."""
    return tree if name == "trial" else ast.fix_missing_locations(_Renamed(name).visit(ast.parse(ast.unparse(tree))))


def _module(function: types.FunctionType) -> str | None:
    """The module from which a runner imports the function, or None if it is captured by value."""
    module = sys.modules.get(function.__module__ or "")
    importable = module is not None and function.__module__ != "__main__"
    return function.__module__ if importable and getattr(module, function.__qualname__, None) is function else None

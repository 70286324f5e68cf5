"""The search space of a cell: its top-level assignments of a distribution. Law: of the cell, only right sides that call
one of our distributions are executed.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workbench import space as spaces
from workbench.errors import BadCell, BadSpace
from workbench.snapshot.reading.names import attribute_names, global_names
from workbench.snapshot.reading.text import Text
from workbench.space import Distribution, Parameter, Space

#: The distributions that a train cell may call without importing them.
NAMES = ("uniform", "loguniform", "randint", "quniform", "choice")
#: An example of each, for messages.
_EXAMPLES = {
    "uniform": "uniform(0.0, 1.0)",
    "loguniform": "loguniform(1e-4, 1.0)",
    "randint": "randint(1, 8)",
    "quniform": "quniform(0.0, 1.0, 0.1)",
    "choice": "choice(32, 64, 128)",
}
_UNKNOWN: Any = object()
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True, slots=True)
class Hyperparameter:
    """One assignment of the search space, with its line and its text."""

    name: str
    line: int
    text: str
    distribution: Distribution


def supplied() -> dict[str, Any]:
    """The names that a train cell need not import: the distributions, and ``wb`` for Workbench itself."""
    return {**{name: getattr(spaces, name) for name in NAMES}, "wb": importlib.import_module("workbench")}


def is_distribution_function(value: object) -> bool:
    """Whether ``value`` is our ``uniform``, ``choice``, … (also one from before a reload)."""
    if not isinstance(value, types.FunctionType) or value.__name__ not in NAMES:
        return False
    return value.__module__.startswith(spaces.__name__)


def assignment(node: ast.stmt) -> tuple[str, ast.Call] | None:
    """The name and the call of ``NAME = call`` or ``NAME: T = call``, the form of a hyperparameter."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target: ast.expr = node.targets[0]
    elif isinstance(node, ast.AnnAssign):
        target = node.target
    else:
        return None
    if isinstance(target, ast.Name) and isinstance(node.value, ast.Call):
        return target.id, node.value
    return None


def hyperparameters(
    tree: ast.Module, source: str, namespace: Mapping[str, Any], first_line: int
) -> tuple[list[Hyperparameter], Space]:
    """The cell's hyperparameters in order, and the space that they make. Raises BadCell or BadSpace with the line."""
    return _Reader(Text(tree, source, first_line), namespace, supplied()).read()


def of_script(tree: ast.Module, source: str) -> tuple[list[Hyperparameter], Space]:
    """The same of a script, which imports what it uses: a name such as ``uniform`` may be another library's."""
    return _Reader(Text(tree, source, 1, "script"), {}, None).read()


@dataclass(frozen=True, slots=True)
class _Computed:
    """A name that the cell defines while it runs: its value is not known at Shift-Enter."""

    name: str
    line: int


class _Imported:
    """A name that the cell imports; resolved only when needed."""

    def __init__(self, module: str, attribute: str | None, also: str = "") -> None:
        self.module, self.attribute, self.also = module, attribute, also

    def value(self, *, load: bool) -> Any:
        if not load and self.module not in sys.modules:
            return _UNKNOWN
        if self.also and load:
            importlib.import_module(self.also)
        module = importlib.import_module(self.module)
        if self.attribute is None:
            return module
        try:
            return getattr(module, self.attribute)
        except AttributeError:
            return importlib.import_module(f"{self.module}.{self.attribute}")


class _Reader:
    def __init__(self, text: Text, namespace: Mapping[str, Any], given: Mapping[str, Any] | None) -> None:
        """given: the names that need no import, which no other object may have; None: there are none."""
        self.text = text
        self.namespace = namespace
        self.supplied = given or {}
        self.may_shadow = given is None
        #: The names that the cell's lines have bound so far.
        self.own: dict[str, Any] = {}
        self.found: dict[str, Hyperparameter] = {}
        #: Names that a top-level `NAME = call` has assigned so far.
        self.called: dict[str, int] = {}

    def read(self) -> tuple[list[Hyperparameter], Space]:
        space = Space({})
        for statement in self.text.tree.body:
            given = assignment(statement)
            if given is None or not self.is_ours(given[1], call=True):
                self.check_elsewhere(statement)
                self.bind(statement)
            else:
                space = self.add(statement, *given)
            if given is not None:
                self.called.setdefault(given[0], self.text.line(statement))
        return list(self.found.values()), space

    # -- looking up names ---------------------------------------------------------------------------------------------

    def value(self, name: str) -> Any:
        for names in (self.own, self.namespace, self.supplied, vars(builtins)):
            if name in names:
                found = names[name]
                return found.value(load=False) if isinstance(found, _Imported) else found
        return _UNKNOWN

    def resolve(self, node: ast.expr) -> Any:
        """The object of a name or ``module.name``; anything else is unknown, because evaluating it would run code."""
        if isinstance(node, ast.Name):
            return self.value(node.id)
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            if isinstance(base, types.ModuleType):
                if base.__name__ == "workbench" and node.attr in NAMES:
                    return getattr(spaces, node.attr)  # the package imports its names on first use
                return vars(base).get(node.attr, _UNKNOWN)
        return _UNKNOWN

    def is_ours(self, node: ast.expr, *, call: bool) -> bool:
        """Whether ``node`` (with ``call``: what it calls) is one of our distributions, or a helper that returns one."""
        function = self.resolve(node.func) if call and isinstance(node, ast.Call) else self.resolve(node)
        if isinstance(function, functools.partial):
            function = function.func
        if is_distribution_function(function):
            return True
        if not call or not self.returns_ours(function):
            return False
        try:
            return isinstance(self.evaluated(node), Distribution)
        except BadCell:
            return False

    def returns_ours(self, function: Any) -> bool:
        """Whether it is a short function of the notebook that mentions a distribution and no name of the cell."""
        if not isinstance(function, types.FunctionType) or function.__globals__ is not self.namespace:
            return False
        names = global_names(function.__code__)
        reached = [function.__globals__.get(name) for name in names]
        through_module = any(getattr(one, "__name__", "") == "workbench" for one in reached)
        named = any(map(is_distribution_function, reached))
        through_module = through_module and bool(attribute_names(function.__code__) & {*NAMES})
        return "trial" not in names and (named or through_module)

    # -- one hyperparameter -------------------------------------------------------------------------------------------

    def add(self, statement: ast.stmt, name: str, call: ast.Call) -> Space:
        line = self.text.line(statement)
        text = self.text.segment(statement)
        if name in self.called:
            raise BadCell(
                f"line {line}: `{name}` is assigned already on line {self.called[name]}, and here as a hyperparameter. "
                "Expected one assignment for each hyperparameter, before any other assignment to that name. "
                "Remove one of them.",
                line=line,
            )
        given = self.evaluated(call)
        assert isinstance(given, Distribution)
        self.found[name] = Hyperparameter(name, line, text, given)
        self.own[name] = Parameter(name, given)
        try:
            return Space({one.name: one.distribution for one in self.found.values()})
        except BadSpace as error:
            raise BadSpace(f"line {line}: {error}", line=line) from None

    def evaluated(self, call: ast.expr) -> Any:
        """The right side, evaluated in the kernel."""
        line = self.text.line(call)
        text = self.text.segment(call)
        inner = {node.arg for node in ast.walk(call) if isinstance(node, ast.arg)}
        inner |= {n.id for n in ast.walk(call) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        loaded = [n for n in ast.walk(call) if isinstance(n, ast.Name) and n.id not in inner]
        found = {node.id: self.known(node, text) for node in loaded}
        names = {name: value for name, value in found.items() if value is not _UNKNOWN}
        code = compile(ast.Expression(call), f"<line {line}>", "eval")
        try:
            return eval(code, {"__builtins__": builtins, **names})  # noqa: S307  the user's own code, in their own kernel
        except BadSpace as error:
            told = "" if str(error).startswith(f"{text}: ") else f"`{text}`: "
            raise BadSpace(f"line {line}: {told}{error}", line=line) from None
        except Exception as error:
            function = self.resolve(call.func) if isinstance(call, ast.Call) else None
            called, _, why = str(error).partition("() ")
            if is_distribution_function(function) and called in _EXAMPLES:
                raise BadSpace(
                    f"line {line}: `{text}`: {why}. For example: `{_EXAMPLES[called]}`.", line=line
                ) from None
            raise BadCell(
                f"line {line}: `{text}` was evaluated in the kernel and raised {type(error).__name__}: {error}. "
                "Expected a distribution whose arguments the notebook knows. Fix them or run the cell that makes them.",
                line=line,
            ) from error

    def known(self, node: ast.Name, text: str) -> Any:
        found = self.own.get(node.id, _UNKNOWN)
        if isinstance(found, _Imported):
            return found.value(load=True)
        if isinstance(found, _Computed):
            line = self.text.line(node)
            raise BadCell(
                f"line {line}: `{text}` uses `{node.id}`, which this cell itself computes on line {found.line}; the "
                "search space must be known before any trial runs. Write the value itself, or move that line into a "
                "cell above.",
                line=line,
            )
        return found if found is not _UNKNOWN else self.value(node.id)

    # -- the other statements -----------------------------------------------------------------------------------------

    def bind(self, statement: ast.stmt) -> None:
        """Record what ``statement`` does to names that later right sides may use."""
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                name = alias.asname or alias.name.partition(".")[0]
                self.own[name] = _Imported(alias.name if alias.asname else name, None, also=alias.name)
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            for alias in statement.names:
                self.own[alias.asname or alias.name] = _Imported(statement.module, alias.name)
        elif isinstance(statement, ast.ClassDef | ast.FunctionDef):
            self.own[statement.name] = _stub(statement.name, self.text.line(statement))
        else:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                    self.own[node.id] = _Computed(node.id, self.text.line(node))
                elif isinstance(node, ast.alias):
                    bound = node.asname or node.name.partition(".")[0]
                    self.own[bound] = _Computed(bound, self.text.line(node))
                elif isinstance(node, ast.ClassDef | ast.FunctionDef):
                    self.own[node.name] = _stub(node.name, self.text.line(node))
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
                if isinstance(target, ast.Name):
                    self.own[target.id] = self.simple(statement.value, self.own[target.id])

    def simple(self, value: ast.expr, otherwise: Any) -> Any:
        """The value of a literal or of another name for one of our distributions, known without running anything."""
        try:
            return ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            resolved = self.resolve(value)
            return resolved if is_distribution_function(resolved) else otherwise

    def check_elsewhere(self, statement: ast.stmt) -> None:
        """Refuse a distribution anywhere but as the right side of an assignment at top level."""
        given = assignment(statement)
        for call, place, hidden in _calls_in(statement):
            function = call.func
            if isinstance(function, ast.Name) and function.id in hidden:
                continue
            line = self.text.line(call)
            top = given is not None and given[1] is call
            if not self.may_shadow:
                self.check_shadow(call, line, top=top, place=place)
            if is_distribution_function(_unwrapped(self.resolve(function))):
                raise BadCell(
                    f"line {line}: `{self.text.segment(call)}` stands {place or 'inside an expression'}. Expected a "
                    "hyperparameter as an assignment of its own at the top level of the cell, one name each. Write "
                    f"`{_suggested(statement, call)} = {self.text.segment(call)}` there, and use the name here.",
                    line=line,
                )

    def check_shadow(self, call: ast.Call, line: int, *, top: bool, place: str) -> None:
        function = call.func
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "wb":
            shadowed, name = function.attr in NAMES, "wb"
            ours = getattr(self.value("wb"), "__name__", "") == "workbench"
        elif isinstance(function, ast.Name) and function.id in NAMES:
            name = function.id
            ours = is_distribution_function(_unwrapped(self.value(name)))
            # In a function, or after an import in this cell, the meaning of the name is explicit.
            shadowed = top or (name not in self.own and place != "inside a function")
        else:
            return
        if ours or not shadowed:
            return
        text = self.text.segment(call)
        found = self.value(name)
        if found is _UNKNOWN or isinstance(found, _Computed):
            what = "something that this cell makes"
        else:
            home = found if hasattr(found, "__name__") else type(found)
            what = f"{getattr(found, '__module__', None) or home.__module__}.{home.__name__}"
        where = "this cell" if name in self.own else "the notebook"
        mend = f"wb.{text}, after `import workbench as wb`"
        if name == "wb":
            mend = f"workbench.{text.partition('.')[2]}, after `import workbench`"
        raise BadCell(
            f"line {line}: in `{text}` the name `{name}` is {what}, which {where} gave it, and not Workbench's. For a "
            f"hyperparameter write {mend}; otherwise call it by its module, or give it another name.",
            line=line,
        )


def _unwrapped(function: Any) -> Any:
    return function.func if isinstance(function, functools.partial) else function


def _stub(name: str, line: int) -> type:
    """Represents a class or function of the cell, which exists only in a runner: it has only a name."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise TypeError(f"{name} is defined in this cell (line {line}) and cannot be called before a trial runs")

    return type(name, (), {"__new__": refuse, "__module__": "__main__"})


def _calls_in(statement: ast.stmt) -> Iterator[tuple[ast.Call, str, frozenset[str]]]:
    """Every call in ``statement``, its place in words, and the names that are local there."""

    def walk(node: ast.AST, place: str, hidden: frozenset[str]) -> Iterator[tuple[ast.Call, str, frozenset[str]]]:
        if isinstance(node, _Function | _Comprehension):
            local = {arg.arg for arg in ast.walk(node) if isinstance(arg, ast.arg)}
            local |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
            local |= {(a.asname or a.name) for a in ast.walk(node) if isinstance(a, ast.alias)}
            hidden = hidden | local
            place = "inside a comprehension" if isinstance(node, _Comprehension) else "inside a function"
        elif place != "inside a function":
            place = _PLACES.get(type(node), place)
            if isinstance(node, ast.Assign | ast.AnnAssign) and not place:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Attribute | ast.Subscript):
                    place = f"in an assignment to `{ast.unparse(target)}`, which is not a plain name"
                elif isinstance(node, ast.Assign) and len(node.targets) > 1:
                    place = "in an assignment to several names"
        if isinstance(node, ast.Call):
            yield node, place, hidden
        for child in ast.iter_child_nodes(node):
            yield from walk(child, place, hidden)

    yield from walk(statement, "", frozenset())


_PLACES: dict[type, str] = {
    ast.For: "inside a loop",
    ast.While: "inside a loop",
    ast.If: "inside an if",
    ast.Try: "inside a try",
    ast.With: "inside a with",
    ast.ClassDef: "inside a class",
    ast.Tuple: "in a tuple",
    ast.List: "in a list",
    ast.Dict: "in a dict",
    ast.Set: "in a set",
    ast.NamedExpr: "inside an expression",
}


def _suggested(statement: ast.stmt, call: ast.Call) -> str:
    """A name for the suggested assignment."""
    for node in ast.walk(statement):
        if isinstance(node, ast.keyword) and node.value is call and node.arg:
            return node.arg
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if value is call and isinstance(key, ast.Constant) and str(key.value).isidentifier():
                    return str(key.value)
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                for name, value in zip(target.elts, node.value.elts, strict=False):
                    if value is call and isinstance(name, ast.Name):
                        return name.id
            elif node.value is call:
                if isinstance(target, ast.Attribute):
                    return target.attr
                if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                    return str(target.slice.value) if str(target.slice.value).isidentifier() else "value"
                if isinstance(target, ast.Name):
                    return target.id
    return "value"

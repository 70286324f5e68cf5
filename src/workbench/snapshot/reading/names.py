"""Which names a cell takes from outside, and which it defines. Law: text in, names out; nothing is executed.

Loops and ``with`` blocks count as executed; a name bound in branches of ``if``, ``match`` and ``try`` counts only if
all branches bind it. So a loop variable left over in the kernel is not captured, but a name that is bound only under a
condition is.
"""

from __future__ import annotations

import ast
import dis
import symtable
import types
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

#: Calls through which a cell may read or define names that its text does not show.
_DYNAMIC = frozenset({"exec", "eval", "globals", "locals", "vars", "setattr", "__import__"})


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a piece of code.

    assigned: bound at top level on every path. bound: bound at top level on some path, or by a function that declares
    the name global. needs: loaded from outside, each with its first line. undefined: those that are loaded while the
    cell runs, outside any ``try``. attributes: every name that follows a dot. imports: modules that it imports
    anywhere. at_once: needed while it runs. later: global names that functions in it look up when they are called,
    including its own. dynamic: it may read or make further names (``exec``, ``globals()``, ``from m import *``).
    """

    assigned: frozenset[str]
    bound: frozenset[str]
    needs: dict[str, int]
    undefined: dict[str, int]
    attributes: frozenset[str]
    imports: tuple[str, ...]
    at_once: frozenset[str]
    later: frozenset[str]
    dynamic: bool


def names_of(source: str, tree: ast.Module, filename: str = "<cell>") -> Names:
    """The names of ``tree``, which was parsed from ``source``."""
    flow = _Flow()
    flow.block(tree.body)
    first_line: dict[str, int] = {}
    attributes: set[str] = set()
    imports: dict[str, None] = {}
    changed: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            first_line[node.id] = min(node.lineno, first_line.get(node.id, node.lineno))
            flow.dynamic |= node.id in _DYNAMIC
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            changed.add(node.target.id)
        elif isinstance(node, ast.Attribute):
            attributes.add(node.attr)
        elif isinstance(node, ast.Import):
            imports.update(dict.fromkeys(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module and node.module != "__future__":
            imports[node.module] = None
            # `from package import module`: only a lookup shows whether it is a module.
            imports.update(dict.fromkeys(f"{node.module}.{alias.name}" for alias in node.names if alias.name != "*"))
    loaded, made = _inner_globals(symtable.symtable(source, filename, "exec"))
    needs = dict(flow.needs)
    for name in loaded | (made & changed):
        if name not in flow.bound:
            needs.setdefault(name, first_line.get(name, 1))
    return Names(
        assigned=frozenset(flow.bound),
        bound=frozenset(flow.ever | made),
        needs=dict(sorted(needs.items(), key=lambda item: (item[1], item[0]))),
        undefined={name: line for name, line in flow.certain.items() if name not in flow.ever | made},
        attributes=frozenset(attributes),
        imports=tuple(imports),
        at_once=frozenset(flow.needs),
        later=frozenset(loaded | (made & changed)),
        dynamic=flow.dynamic,
    )


def _inner_globals(table: symtable.SymbolTable) -> tuple[set[str], set[str]]:
    """Global names that functions, classes and comprehensions inside ``table`` load, and those that they bind."""
    loaded: set[str] = set()
    made: set[str] = set()
    for child in table.get_children():
        for symbol in child.get_symbols():
            if symbol.is_global() or (child.get_type() == "class" and symbol.is_local()):
                if symbol.is_referenced() and symbol.is_global():
                    loaded.add(symbol.get_name())
                if symbol.is_declared_global() and symbol.is_assigned():
                    made.add(symbol.get_name())
        inner_loaded, inner_made = _inner_globals(child)
        loaded |= inner_loaded
        made |= inner_made
    return loaded, made


@dataclass
class _Flow:
    """Visits statements in the order in which they run."""

    bound: set[str] = field(default_factory=set)
    ever: set[str] = field(default_factory=set)
    needs: dict[str, int] = field(default_factory=dict)
    certain: dict[str, int] = field(default_factory=dict)
    dynamic: bool = False
    #: Names local to the enclosing class bodies and comprehensions.
    scopes: list[set[str]] = field(default_factory=list)
    tries: int = 0

    # -- statements ---------------------------------------------------------------------------------------------------

    def block(self, statements: Iterable[ast.stmt]) -> bool:
        """Visit ``statements``; return False if the code after them is not reached from here."""
        reached = [self.statement(one) for one in statements]  # visit all: unreachable code binds names too
        return all(reached)

    def statement(self, node: ast.stmt) -> bool:
        special = getattr(self, f"_{type(node).__name__}", None)
        if special is not None:
            return special(node) is not False
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child)
        return not isinstance(node, ast.Raise | ast.Return | ast.Break | ast.Continue)

    def _Assign(self, node: ast.Assign) -> None:
        self.expression(node.value)
        for target in node.targets:
            self.target(target)

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        self.tries += 1  # an annotation may be a text for type checkers only
        self.expression(node.annotation)
        self.tries -= 1
        if node.value is not None:
            self.expression(node.value)
            self.target(node.target)

    def _AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.load(node.target.id, node.target.lineno)
        self.expression(node.value)
        self.target(node.target)

    def _For(self, node: ast.For | ast.AsyncFor) -> None:
        self.expression(node.iter)
        self.target(node.target)
        self.block(node.body)
        self.block(node.orelse)

    _AsyncFor = _For

    def _While(self, node: ast.While) -> None:
        self.expression(node.test)
        self.block(node.body)
        self.block(node.orelse)

    def _With(self, node: ast.With | ast.AsyncWith) -> bool:
        for item in node.items:
            self.expression(item.context_expr)
            if item.optional_vars is not None:
                self.target(item.optional_vars)
        return self.block(node.body)

    _AsyncWith = _With

    def _If(self, node: ast.If) -> bool:
        self.expression(node.test)
        return self.branches([node.body, node.orelse])

    def _Try(self, node: ast.Try) -> bool:
        self.tries += 1
        before = set(self.bound)
        reached = self.block(node.body)
        self.tries -= 1
        reached = reached and self.block(node.orelse)
        ends = [set(self.bound)] if reached else []
        for handler in node.handlers:
            self.bound = set(before)
            if handler.type is not None:
                self.expression(handler.type)
            if handler.name is not None:
                self.bind(handler.name)
            if self.block(handler.body):
                ends.append(set(self.bound) - {handler.name or ""})
        self.bound = set.intersection(*ends) if ends else before
        return self.block(node.finalbody) and bool(ends)

    _TryStar = _Try

    def _Match(self, node: ast.Match) -> bool:
        self.expression(node.subject)
        before, ends = set(self.bound), []
        irrefutable = False
        for case in node.cases:
            self.bound = set(before)
            for inner in ast.walk(case.pattern):
                name = getattr(inner, "name", None) or getattr(inner, "rest", None)
                if isinstance(name, str):
                    self.bind(name)
                elif isinstance(inner, ast.expr):
                    self.expression(inner)
            if case.guard is not None:
                self.expression(case.guard)
            irrefutable |= case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
            if self.block(case.body):
                ends.append(set(self.bound))
        if not irrefutable:
            ends.append(before)
        self.bound = set.intersection(*ends) if ends else before
        return bool(ends)

    def branches(self, bodies: Sequence[Sequence[ast.stmt]]) -> bool:
        before, ends = set(self.bound), []
        for body in bodies:
            self.bound = set(before)
            if self.block(body):
                ends.append(set(self.bound))
        self.bound = set.intersection(*ends) if ends else before
        return bool(ends)

    def _FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.signature(node.args)
        for decorator in node.decorator_list:
            self.expression(decorator)
        self.tries += 1
        if node.returns is not None:
            self.expression(node.returns)
        self.tries -= 1
        self.bind(node.name)

    _AsyncFunctionDef = _FunctionDef

    def _ClassDef(self, node: ast.ClassDef) -> None:
        for expression in [*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)]:
            self.expression(expression)
        self.scopes.append(set())
        self.block(node.body)
        self.scopes.pop()
        self.bind(node.name)

    def _Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.bind(alias.asname or alias.name.partition(".")[0])

    def _ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self.dynamic = True
            else:
                self.bind(alias.asname or alias.name)

    def _Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.load(target.id, target.lineno)
                self.bound.discard(target.id)
            else:
                self.target(target)

    def _TypeAlias(self, node: ast.stmt) -> None:  # Python 3.12
        self.target(node.name)  # type: ignore[attr-defined]

    def _Global(self, _: ast.Global) -> None:
        """A ``global`` statement has no effect at top level."""

    # -- expressions --------------------------------------------------------------------------------------------------

    def expression(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            self.load(node.id, node.lineno)
        elif isinstance(node, ast.NamedExpr):
            self.expression(node.value)
            self.bind(node.target.id, here=False)
        elif isinstance(node, ast.Lambda):
            self.signature(node.args)  # its body runs later: symtable knows its names
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            self.comprehension(node)
        else:
            for child in ast.iter_child_nodes(node):
                self.expression(child)

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self.scopes.append(set())
        for generator in node.generators:
            self.expression(generator.iter)
            self.target(generator.target)
            for condition in generator.ifs:
                self.expression(condition)
        for part in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            self.expression(part)
        self.scopes.pop()

    def signature(self, arguments: ast.arguments) -> None:
        for default in [*arguments.defaults, *(default for default in arguments.kw_defaults if default is not None)]:
            self.expression(default)
        self.tries += 1
        for argument in ast.walk(arguments):
            if isinstance(argument, ast.arg) and argument.annotation is not None:
                self.expression(argument.annotation)
        self.tries -= 1

    def target(self, node: ast.expr) -> None:
        if isinstance(node, ast.Name):
            self.bind(node.id)
        elif isinstance(node, ast.Tuple | ast.List):
            for element in node.elts:
                self.target(element)
        elif isinstance(node, ast.Starred):
            self.target(node.value)
        else:
            for child in ast.iter_child_nodes(node):
                self.expression(child)

    def bind(self, name: str, *, here: bool = True) -> None:
        if here and self.scopes:
            self.scopes[-1].add(name)
        else:
            self.bound.add(name)
            self.ever.add(name)

    def load(self, name: str, line: int) -> None:
        if name in self.bound or any(name in scope for scope in self.scopes):
            return
        self.needs.setdefault(name, line)
        if not self.tries:
            self.certain.setdefault(name, line)


# ---------------------------------------------------------------------------------------------------------------------
# Code that is compiled already

_GLOBAL_LOADS = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_global_names: weakref.WeakKeyDictionary[types.CodeType, tuple[str, ...]] = weakref.WeakKeyDictionary()


def global_names(code: types.CodeType) -> tuple[str, ...]:
    """The global names that ``code`` and the code inside it use, in order (class bodies inside functions included)."""
    known = _global_names.get(code)
    if known is None:
        used = {one.argval: None for one in dis.get_instructions(code) if one.opname in _GLOBAL_LOADS}
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                used.update(dict.fromkeys(global_names(constant)))
        known = _global_names[code] = tuple(used)
    return known


def imported_names(code: types.CodeType) -> set[str]:
    """Every module that ``code`` and the code inside it may import."""
    names, module = set(), ""
    for one in dis.get_instructions(code):
        if one.opname == "IMPORT_NAME":
            module = str(one.argval)
            names.add(module)
        elif one.opname == "IMPORT_FROM":
            names.add(f"{module}.{one.argval}")  # only a lookup shows whether it is a module
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= imported_names(constant)
    return names


def attribute_names(code: types.CodeType) -> set[str]:
    """Every global or attribute name that ``code`` and the code inside it mention."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= attribute_names(constant)
    return names

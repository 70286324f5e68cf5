"""What an executed cell does to names, according to its text. Law: text in, facts out; nothing is executed, and if the
text leaves something open, the worst case is assumed.
"""

from __future__ import annotations

import ast
import functools
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

from workbench.snapshot.reading.names import names_of

#: Cell magics whose body runs in the notebook, and line magics whose argument does.
RUNS = frozenset({"time", "capture", "prun", "timeit"})
#: Line magics that configure the process: repeating a later cell needs them too.
_ARRANGES = frozenset({"cd", "pushd", "popd", "env", "set_env"})
#: Cell magics whose body is in another language.
_SHELLS = frozenset({"bash", "sh", "script", "system", "!", "sx"})
#: Attributes of modules that configure a process.
_PROCESS = frozenset({("os", "chdir"), ("os", "environ"), ("sys", "path"), ("os", "putenv")})
#: Calls that write files.
_WRITES = re.compile(
    r"save\w*|dump|write\w*|to_(csv|parquet|json|pickle|feather|hdf|excel|file)|copy(2|file|tree)|mkdir|makedirs|touch"
    r"|urlretrieve|extract(all)?|move|symlink(_to)?|download\w*|tofile"
)
#: Texts that may name a file.
_FILE = re.compile(r"[^\s\n]*[\w)]\.[A-Za-z]\w{0,7}|[^\s\n]*/[^\s\n]*")


@dataclass(frozen=True, slots=True)
class Call:
    """A call: its first name, the attributes after it, the names among its arguments (each with its position or
    keyword), and whether its value is unused.
    """

    root: str
    attributes: tuple[str, ...]
    arguments: tuple[tuple[int | str, str], ...]
    is_statement: bool


@dataclass(frozen=True, slots=True)
class Body:
    """Code of one scope: names whose objects it modifies, its calls, and names that refer to (parts of) other names'
    objects."""

    stores: frozenset[str] = frozenset()
    calls: tuple[Call, ...] = ()
    holds: tuple[tuple[str, str], ...] = ()
    #: Names assigned from a call, each with the call's first name and last attribute.
    made: tuple[tuple[str, str, str], ...] = ()
    #: Parameters, for a function.
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """One cell. binds: names that it certainly defines; may_bind: names that it may define. uses: names that it loads;
    later: names that its functions load when they are called. modules: names of imported modules and of objects
    imported from them, with their origin. quoted: texts in it that may name files. arranges: it configures the process.
    dynamic: it may have effects that its text does not show. trains: it is a train cell.
    """

    binds: frozenset[str] = frozenset()
    may_bind: frozenset[str] = frozenset()
    uses: frozenset[str] = frozenset()
    later: frozenset[str] = frozenset()
    body: Body = field(default_factory=Body)
    functions: dict[str, Body] = field(default_factory=dict)
    classes: frozenset[str] = frozenset()
    modules: dict[str, str] = field(default_factory=dict)
    quoted: frozenset[str] = frozenset()
    writes: bool = False
    arranges: bool = False
    dynamic: bool = False
    trains: bool = False


@functools.lru_cache(maxsize=20_000)
def facts_of(source: str) -> Facts:
    """The facts of a cell's text, including magics; no facts if it cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            text, magics = _python(source)
            tree = ast.parse(text)
            names = names_of(text, tree)
    except (SyntaxError, ValueError, RecursionError):
        return Facts()
    nodes = list(ast.walk(tree))
    functions = {
        node.name: _body(node.body, tuple(one.arg for one in _arguments(node.args)))
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    body = _body(tree.body)
    quoted = {
        text
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 400
        for text in [node.value, *node.value.split()]
        if _FILE.fullmatch(text)
    }
    modules = dict(_modules(nodes))
    imported = {f"{name.partition('.')[0]}.py" for name in names.imports}
    return Facts(
        binds=names.assigned,
        may_bind=names.bound,
        uses=names.at_once | ({"~trained"} if "wb.last(" in text or "wb.open(" in text else set()),
        later=names.later,
        body=body,
        functions=functions,
        classes=frozenset(node.name for node in nodes if isinstance(node, ast.ClassDef)),
        modules=modules,
        quoted=frozenset(quoted | magics.quoted | imported),
        writes=magics.writes or _writes(nodes, body),
        arranges=magics.arranges or _arranges(body),
        dynamic=magics.dynamic or names.dynamic,
        trains=magics.trains,
    )


# ---------------------------------------------------------------------------------------------------------------------
# Magics


@dataclass
class _Magics:
    quoted: set[str] = field(default_factory=set)
    writes: bool = False
    arranges: bool = False
    dynamic: bool = False
    trains: bool = False


def as_python(source: str) -> str:
    """The cell as Python, each magic replaced by the code that it runs. Raises SyntaxError."""
    return _python(source)[0]


def _python(source: str) -> tuple[str, _Magics]:
    """The cell as Python, each magic replaced by the code that it runs; and the magics' other effects."""
    magics = _Magics()
    if "%" not in source and "!" not in source and "?" not in source:
        return source, magics
    from IPython.core.inputtransformer2 import TransformerManager

    text = TransformerManager().transform_cell(source)
    if "get_ipython()" not in text:
        return source, magics
    tree = ast.parse(text)
    _InPlace(magics).visit(tree)
    return ast.unparse(ast.fix_missing_locations(tree)), magics


class _InPlace(ast.NodeTransformer):
    """Replaces a magic by the code that it runs."""

    def __init__(self, magics: _Magics) -> None:
        self.magics = magics

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.stmt]:
        words = _magic(node.value)
        if words is None:
            self.generic_visit(node)
            return node
        how, name, *rest = words
        found = self.magics
        line, body = (rest[0] if rest else ""), (rest[1] if len(rest) > 1 else None)
        if how in ("system", "getoutput") or name in _SHELLS:
            text = f"{name} {body or ''}"
            found.quoted |= {word.strip("'\"") for word in text.split() if _FILE.fullmatch(word.strip("'\""))}
            found.writes = True
        elif name == "train" and body is not None:
            found.trains = True
        elif name == "writefile" and body is not None:
            found.quoted |= {word for word in line.split() if not word.startswith("-")}
            found.writes = True
        elif name in RUNS:
            return ast.parse(_python(body if body is not None else line)[0]).body or ast.Pass()
        elif name in _ARRANGES or (name == "load_ext" and "workbench" in line):
            found.arranges = True
        elif name == "run":
            found.dynamic = True
        return ast.Pass()


def _magic(node: ast.expr) -> list[str] | None:
    """``[how, name, line, body]`` of the IPython call into which a magic was translated."""
    call = node.value if isinstance(node, ast.Await) else node
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return None
    ours = ast.unparse(call.func.value) == "get_ipython()"
    words = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    if not ours or call.func.attr not in ("run_line_magic", "run_cell_magic", "system", "getoutput") or not words:
        return None
    return [call.func.attr, *words]


# ---------------------------------------------------------------------------------------------------------------------
# Code


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _modules(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module or ''}.{alias.name}"


def _arranges(body: Body) -> bool:
    """``os.environ["X"] = …``, ``sys.path.append(…)`` and the like."""
    calls = {(call.root, *call.attributes[:1]) for call in body.calls if call.is_statement}
    return bool(_PROCESS & calls or {"os", "sys"} & body.stores)


def _writes(nodes: list[ast.AST], body: Body) -> bool:
    if any(_WRITES.fullmatch((call.attributes or (call.root,))[-1]) for call in body.calls):
        return True
    for node in nodes:
        if isinstance(node, ast.Call) and rooted(node.func)[1][-1:] in ((), ("open",)):
            words = [
                one.value for one in (*node.args, *(k.value for k in node.keywords)) if isinstance(one, ast.Constant)
            ]
            if any(isinstance(word, str) and re.fullmatch("[rwaxbt+]*[wax+][rwaxbt+]*", word) for word in words):
                return True
    return False


def _body(statements: list[ast.stmt], parameters: tuple[str, ...] = ()) -> Body:
    stores: set[str] = set()
    calls: list[Call] = []
    holds: set[tuple[str, str]] = set()
    made: set[tuple[str, str, str]] = set()
    for node in walk(statements):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            stores |= {root for root, _ in [rooted(node)] if root}
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            stores.add(node.target.id)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            given = [name for one in targets for name in _given(one)]
            holds |= {(name, held) for held in _held(node.value) for name in given}
            if isinstance(node.value, ast.Call):
                root, attributes = rooted(node.value.func)
                made |= {(name, root, (attributes or (root,))[-1]) for name in given}
        elif isinstance(node, ast.For | ast.AsyncFor):
            holds |= {(name, held) for held in _held(node.iter) for name in _given(node.target)}
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            calls += _in_place(node)
        elif isinstance(node, ast.Call):
            call = _call(node)
            if call is not None:
                calls.append(call)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await):
            inner = node.value.value if isinstance(node.value, ast.Await) else node.value
            if isinstance(inner, ast.Call):
                inner.is_statement = True  # type: ignore[attr-defined]  # marked for when the walk reaches it
    return Body(frozenset(stores), tuple(calls), tuple(sorted(holds)), tuple(sorted(made)), parameters)


def _in_place(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Iterator[Call]:
    """Calls inside a comprehension of methods that change in place (``p.zero_()``), attributed to what it iterates
    over.

    Its variables are not names of the cell, and may equal another cell's name.
    """
    over = {name: sorted(_held(one.iter)) for one in node.generators for name in _given(one.target)}
    for inner in ast.walk(node):
        call = _call(inner) if isinstance(inner, ast.Call) else None
        if call is None or not (call.attributes or (call.root,))[-1].endswith("_"):
            continue
        given = tuple((place, held) for place, name in call.arguments for held in over.get(name, [name]))
        if call.root in over or given != call.arguments:
            for root in over.get(call.root, [call.root]):
                yield Call(root, call.attributes, given, call.is_statement)


def walk(statements: list[ast.stmt]) -> Iterator[ast.AST]:
    """All nodes except those inside functions, which run later; statements before their parts."""
    waiting: list[ast.AST] = list(reversed(statements))
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [*node.decorator_list, *node.args.defaults]
        elif not isinstance(node, ast.Lambda):
            waiting += reversed(list(ast.iter_child_nodes(node)))


def rooted(node: ast.AST) -> tuple[str, tuple[str, ...]]:
    """The first name of ``a.b[0].c(…).d``, and the attributes after it."""
    attributes: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript | ast.Starred | ast.Await):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return (node.id if isinstance(node, ast.Name) else ""), tuple(reversed(attributes))


def _call(node: ast.Call) -> Call | None:
    root, attributes = rooted(node.func)
    if not root:
        return None
    given: list[tuple[int | str, str]] = []
    values: list[tuple[int | str, ast.expr]] = [
        *enumerate(node.args),
        *((k.arg or "**", k.value) for k in node.keywords),
    ]
    for place, value in values:
        for part in value.elts if isinstance(value, ast.List | ast.Tuple) else [value]:
            name, _ = rooted(part)
            if name and not isinstance(part, ast.Call):
                given.append((place, name))
    return Call(root, attributes, tuple(given), getattr(node, "is_statement", False))


#: Methods and functions whose value shares memory with their arguments.
_VIEWS = frozenset(
    {"parameters", "named_parameters", "view", "reshape", "values", "items", "state_dict", "children"}
    | {"modules", "iter", "zip", "enumerate", "reversed", "from_numpy", "as_tensor", "asarray"}
    | {"frombuffer", "chain", "islice", "get", "setdefault", "pop", "detach", "data", "T", "squeeze"}
    | {"unsqueeze", "transpose", "ravel", "partial", "tqdm"}
)


def _held(node: ast.AST | None) -> set[str]:
    """Names whose objects the value of an expression may refer to, without those that are only used in computations."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Attribute | ast.Subscript | ast.Starred | ast.Await):
        return _held(node.value)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return set().union(*map(_held, node.elts))
    if isinstance(node, ast.Dict):
        return set().union(*map(_held, node.values))
    if isinstance(node, ast.IfExp):
        return _held(node.body) | _held(node.orelse)
    if isinstance(node, ast.Call):
        root, attributes = rooted(node.func)
        last = (attributes or (root,))[-1]
        if last[:1].isupper() or last in _VIEWS:  # an object may refer to its arguments
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            own = {root} if attributes and last in _VIEWS and root else set()
            return own.union(*map(_held, given))
    return set()


def _given(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}

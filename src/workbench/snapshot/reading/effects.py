"""The certain effects of a cell on existing objects. Law: text in, names out; uncertain effects are left out, while
``history`` assumes them.
"""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.snapshot.reading.facts import as_python, rooted, walk

#: Methods that change their object, and those of them that change it again with each call.
_AGAIN = frozenset(
    {"append", "extend", "insert", "appendleft", "extendleft", "pop", "popleft", "popitem", "reverse", "rotate"}
    | {
        "add_",
        "sub_",
        "mul_",
        "div_",
        "pow_",
        "neg_",
        "addcmul_",
        "addcdiv_",
        "transpose_",
        "t_",
        "step",
        "partial_fit",
    }
)
_CHANGES = _AGAIN | frozenset(
    {"remove", "clear", "update", "add", "discard", "sort", "fill", "setdefault", "load_state_dict", "fit", "itemset"}
)
#: Functions that change their first argument again with each call.
_SHUFFLES = frozenset({"shuffle", "heappush", "heappop", "insort", "insort_left", "insort_right", "next"})
#: Functions that set or delete an attribute.
_SETS = frozenset({"setattr", "delattr"})
#: Methods that draw random numbers from their object, if it is a generator.
_DRAWS = frozenset(
    {"random", "normal", "uniform", "integers", "randint", "randrange", "choice", "choices", "shuffle", "permutation"}
    | {"permuted", "standard_normal", "gauss", "rand", "randn", "binomial", "poisson", "beta", "gamma", "exponential"}
    | {"bytes", "random_sample", "betavariate"}
)
#: Functions that make generators.
GENERATORS = frozenset({"default_rng", "Random", "RandomState", "Generator"})
#: Idempotent methods and functions.
_ONCE = frozenset(
    {"to", "astype", "type", "float", "double", "half", "long", "int", "bool", "cuda", "cpu", "numpy", "tolist", "copy"}
    | {"clone", "contiguous", "detach", "eval", "train", "compile", "reshape", "view", "squeeze", "flatten", "ravel"}
    | {"dropna", "drop_duplicates", "fillna", "sort_values", "sort_index", "rename", "clip", "clamp", "abs", "strip"}
    | {"lower", "upper", "unique", "requires_grad_", "resolve", "absolute", "expanduser", "asarray", "array", "tensor"}
    | {"as_tensor", "from_numpy", "str", "list", "set", "dict", "tuple", "frozenset", "sorted", "max", "min", "Path"}
    | {"DataFrame", "Series", "ascontiguousarray", "deepcopy", "get", "query", "head"}
)


@dataclass(frozen=True, slots=True)
class Effects:
    """changed: names whose objects the cell changes. again: names that get another value each time, because the cell
    computes them from their old value. draws: names on which it calls methods that draw random numbers. parts: the
    changed attributes, and those on which something is registered: ``config.table`` of ``config.table["lr"] = 1``.
    """

    changed: frozenset[str] = frozenset()
    again: frozenset[str] = frozenset()
    draws: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()


@functools.lru_cache(maxsize=20_000)
def effects_of(source: str) -> Effects:
    """The effects of a cell's text; none if it cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(as_python(source))
    except (SyntaxError, ValueError, RecursionError):
        return Effects()
    changed: set[str] = set()
    again: set[str] = set()
    draws: set[str] = set()
    parts: set[str] = set()
    for node in walk(tree.body):
        if isinstance(node, ast.AugAssign):
            changed.add(rooted(node.target)[0])
            parts.add(_part(node.target))
            if not isinstance(node.op, ast.BitOr | ast.BitAnd):  # of sets and dictionaries
                again.add(rooted(node.target)[0])
        elif isinstance(node, ast.Assign):
            for target, value in (pair for one in node.targets for pair in _pairs(one, node.value)):
                root = rooted(target)[0]
                if not isinstance(target, ast.Name):
                    changed.add(root)
                    parts.add(_part(target))
                if _is_made_of(value, ast.unparse(target)) and not _is_once(value, ast.unparse(target)):
                    again.add(root)
        elif isinstance(node, ast.Delete):
            changed |= {rooted(one)[0] for one in node.targets if not isinstance(one, ast.Name)}
            parts |= {_part(one) for one in node.targets}
        elif isinstance(node, ast.Call):
            root, attributes = rooted(node.func)
            last = (attributes or (root,))[-1]
            if last in _SHUFFLES and node.args:
                given = rooted(node.args[0])[0]
                changed.add(given)
                again.add(given)
            if root in _SETS and not attributes and len(node.args) > 1:
                changed.add(rooted(node.args[0])[0])
                parts.add(_named(*node.args[:2]))
            if attributes and last in _DRAWS:
                draws.add(root)
            if attributes and last.startswith("register"):
                parts.add(_part(node.func))
            if attributes and (last in _CHANGES or _is_in_place(node, last)):
                changed.add(root)
                parts.add(_part(node.func.value) if isinstance(node.func, ast.Attribute) else "")
                again |= {root} if last in _AGAIN else set()
    return Effects(*(frozenset(names - {""}) for names in (changed, again, draws, parts)))


def _part(target: ast.expr) -> str:
    """``a.b`` of ``a.b``, ``a.b[0]`` and ``a.b[0].c``; empty for a name alone."""
    root, attributes = rooted(target)
    return ".".join((root, *attributes)) if root and attributes else ""


def _named(target: ast.expr, name: ast.expr) -> str:
    """``a.b`` of ``setattr(a, "b", 1)``, and ``a.*`` if the name is computed."""
    root, attributes = rooted(target)
    last = name.value if isinstance(name, ast.Constant) else "*"
    return ".".join((root, *attributes, str(last))) if root else ""


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Pairs of target and value, as far as both sides are written out."""
    if not isinstance(target, ast.Tuple | ast.List):
        yield target, value
    elif isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
        for one, other in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, other)
    else:
        for one in target.elts:
            yield from _pairs(one, value)


def _is_made_of(value: ast.expr, text: str) -> bool:
    kinds = (ast.Name, ast.Attribute, ast.Subscript)
    return any(isinstance(node, kinds) and ast.unparse(node) == text for node in ast.walk(value))


def _is_once(value: ast.expr, text: str) -> bool:
    """Whether applying ``value`` again changes nothing: a conversion, a selection, the first items of a list."""
    if ast.unparse(value) == text or isinstance(value, ast.BoolOp | ast.IfExp):
        return True
    if isinstance(value, ast.Call):
        last = rooted(value.func)[1][-1:] or (rooted(value.func)[0],)
        of = (
            [value.func.value]
            if isinstance(value.func, ast.Attribute) and _is_made_of(value.func, text)
            else value.args
        )
        return last[0] in _ONCE and all(_is_once(one, text) for one in of if _is_made_of(one, text))
    if isinstance(value, ast.Subscript):
        parts = value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]
        return _is_once(value.value, text) and all(_is_first(one) for one in parts)
    return False


def _is_first(part: ast.expr) -> bool:
    """``:100``, a list of names, or a condition."""
    if isinstance(part, ast.Slice):
        return part.lower is None and part.step is None and not isinstance(part.upper, ast.UnaryOp)
    return isinstance(part, ast.List | ast.Compare | ast.BoolOp | ast.BinOp | ast.UnaryOp)


def _is_in_place(node: ast.Call, last: str) -> bool:
    """Whether it has a name like torch's ``fill_``, or ``inplace=True``."""
    told = any(one.arg == "inplace" and getattr(one.value, "value", None) is True for one in node.keywords)
    return told or (last.endswith("_") and not last.endswith("__"))

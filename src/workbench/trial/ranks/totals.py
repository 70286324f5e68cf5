"""Reported values that are sums over a training pass. Law: a value is called a total only if the text leaves no doubt.

Each rank trains on its part, so what the code adds up is a part too::

    running += loss.item() * len(x)
    ...
    trial.report(train_loss=running / len(loader.dataset))

The mean over ranks would be too small by their number. Divided by what the loop itself has counted, it is right; so is
a mean of the batches' means (``running / len(loader)``). No number tells these apart, so the text is read: what is made
of a batch, and how, is followed from the loop to the report. A total is added up over the ranks. If the text leaves a
doubt, the mean is taken, and a remark says so.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


class Kind(enum.Enum):
    """What a value has to do with a rank's part of the batches."""

    #: Nothing: the same on all ranks.
    PLAIN = enum.auto()
    #: A loader, or an iterator over one.
    LOADER = enum.auto()
    #: A loss function that adds up.
    ADDS = enum.auto()
    #: One value for each sample.
    SAMPLES = enum.auto()
    #: The number of samples.
    COUNT = enum.auto()
    #: A sum over samples, of which this rank has a part.
    TOTAL = enum.auto()
    #: A mean, or something else whose mean over ranks is as right as can be.
    MEAN = enum.auto()
    #: A total, if the pass that it was made in trains.
    PERHAPS = enum.auto()
    #: A total, or not: the text does not tell.
    UNSURE = enum.auto()


_SUMS = frozenset((Kind.TOTAL, Kind.COUNT))
_PARTIAL = _SUMS | {Kind.PERHAPS}
_Value = Any  #: A Kind, a tuple of values, or a dict of them by their keys.

#: Calls that give what they are given, by their last names.
_SAME = frozenset(
    {"float", "int", "round", "item", "detach", "cpu", "numpy", "to", "type", "double", "half", "long", "bool", "clone"}
    | {"squeeze", "view", "reshape", "flatten", "contiguous", "tensor", "as_tensor", "array", "items", "values"}
)
#: Calls that give one value for each sample, if one of their arguments does.
_EACH = frozenset(("eq", "ne", "view_as", "expand_as", "abs", "square", "pow", "argmax"))
_LISTS = frozenset(("cat", "concat", "concatenate", "hstack"))
_LOADERS = frozenset(("DataLoader", "StatefulDataLoader"))
#: Calls that give the batches of their first argument.
_PASSES = frozenset(("enumerate", "tqdm", "iter", "cycle", "batches", "zip"))
#: How deep calls are followed, and how many.
_DEPTH, _CALLS = 5, 1000
_QUIET = frozenset(("no_grad", "inference_mode"))


@dataclass(frozen=True, slots=True)
class Totals:
    """names: metrics that are sums. unsure: those that may be, with the lines of their reports."""

    names: frozenset[str]
    unsure: Mapping[str, int]


def totals(source: str, loaders: Collection[str]) -> Totals:
    """Which metrics the training code reports as sums over a rank's part. loaders: names of DataLoaders in it."""
    tree = ast.parse(source)
    functions = {one.name: one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}
    reader = _Reader(functions, frozenset(loaders))
    reader.body(tree.body)
    outermost = reader.names
    for one in functions.values():
        if one.name not in reader.called and any(map(_is_report, ast.walk(one))):
            reader.names = dict(outermost)
            reader.body(one.body)
    sure, unsure = set(), {}
    for name, (kinds, line) in reader.reported.items():
        if kinds <= _SUMS:
            sure.add(name)
        elif kinds & {Kind.UNSURE, *_PARTIAL}:
            unsure[name] = line
    return Totals(frozenset(sure), unsure)


def remarks(found: Totals) -> list[str]:
    """What the user should know, in sentences."""
    return [
        f"Line {line} reports {name}, which may be a sum over a rank's part of the data. The mean over the ranks is "
        "recorded, and would be too small by the number of slots. Divide by the samples that the loop has counted "
        "(count += len(x))."
        for name, line in found.unsure.items()
    ]


@dataclass
class _Reader:
    """Follows values through the text, in the order in which it runs. Each loop is read once."""

    functions: Mapping[str, ast.FunctionDef]
    loaders: frozenset[str]
    reported: dict[str, tuple[set[Kind], int]] = field(default_factory=dict)
    called: list[str] = field(default_factory=list)
    names: dict[str, _Value] = field(init=False)
    #: Whether the code that is read now trains: MEAN if it does, PLAIN if not, UNSURE.
    trains: Kind = Kind.PLAIN
    is_quiet: bool = False
    _returned: list[_Value] = field(default_factory=list)
    _depth: int = 0
    #: Whether a call of a function trains, by its name.
    _training_of: dict[str, Kind] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = dict.fromkeys(self.loaders, Kind.LOADER)

    # -- statements ----------------------------------------------------------------------------------------------------

    def body(self, statements: Iterable[ast.stmt]) -> None:
        for one in statements:
            self._statement(one)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[target], value=ast.BinOp(left=left, op=ast.Add(), right=right)) if _key(
                target
            ) and _key(target) in (_key(left), _key(right)):
                self._add(target, right if _key(left) == _key(target) else left)
            case ast.Assign(targets=targets, value=value):
                found = self.value(value)
                for target in targets:
                    self._bind(target, found)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self.value(value))
            case ast.AugAssign(target=target, op=ast.Add(), value=value):
                self._add(target, value)
            case ast.AugAssign(target=target, op=op, value=value):
                self._bind(target, _combined(op, _whole(self.value(target)), _whole(self.value(value))))
            case ast.For() | ast.While():
                self._loop(node)
            case ast.If(test=test, body=body, orelse=orelse):
                self.value(test)
                self._branches(body, orelse)
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
                self.body([*body, *orelse])
                self._branches([], [one for handler in handlers for one in handler.body])
                self.body(final)
            case ast.With(items=items, body=body):
                before = self.is_quiet
                self.is_quiet = before or any(_last(one.context_expr) in _QUIET for one in items)
                self.body(body)
                self.is_quiet = before
            case ast.Return(value=ast.expr() as value):
                self._returned.append(self.value(value))
            case ast.Expr(value=ast.Call() as call):
                self._changing(call)
            case ast.Expr(value=value):
                self.value(value)

    def _loop(self, node: ast.For | ast.While) -> None:
        before, names = self.trains, dict(self.names)
        trains = Kind.PLAIN if self.is_quiet else self._training(node.body)
        self.trains = trains
        if isinstance(node, ast.For):
            given: _Value = self.value(node.iter)
            # A wrapper of which nothing is known, as for a progress bar, gives what it is given.
            within = node.iter.args if isinstance(node.iter, ast.Call) else []
            if Kind.LOADER in (given, *map(self.value, within)):
                given = Kind.PLAIN if trains is Kind.PLAIN else Kind.SAMPLES
            self._bind(node.target, _of_items(given))
            if isinstance(node.target, ast.Tuple) and "enumerate" in map(_last, ast.walk(node.iter)):
                self._bind(node.target.elts[0], Kind.PLAIN)
        self.body([*node.body, *node.orelse])
        self.trains = before
        if trains is Kind.UNSURE:
            made = [key for key, one in self.names.items() if isinstance(one, Kind) and one in _SUMS]
            self.names |= {key: Kind.PERHAPS for key in made if names.get(key) is not self.names[key]}

    def _training(self, body: Iterable[ast.stmt]) -> Kind:
        """Whether each turn of a loop trains: a backward pass in a branch may be in each turn, or in none."""
        found: set[Kind] = set()
        for one in body:
            match one:
                case ast.If():
                    below = self._training([*one.body, *one.orelse])
                    found.add(Kind.UNSURE if below is Kind.MEAN else below)
                case ast.With() if any(_last(item.context_expr) in _QUIET for item in one.items):
                    pass
                case ast.For() | ast.While() | ast.With() | ast.Try():
                    found.add(self._training(one.body))
                case ast.FunctionDef() | ast.ClassDef():
                    pass
                case _:
                    calls = {_last(below) for below in ast.walk(one) if isinstance(below, ast.Call)}
                    if "backward" in calls:
                        found.add(Kind.MEAN)
                    for name in calls & self.functions.keys():
                        if name not in self._training_of:
                            self._training_of[name] = Kind.PLAIN  # if it calls itself
                            self._training_of[name] = self._training(self.functions[name].body)
                        found.add(self._training_of[name])
        return Kind.MEAN if Kind.MEAN in found else Kind.UNSURE if Kind.UNSURE in found else Kind.PLAIN

    def _branches(self, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        before = dict(self.names)
        self.body(body)
        first, self.names = self.names, before
        self.body(orelse)
        for key in {*first, *self.names}:
            pair = first.get(key, Kind.PLAIN), self.names.get(key, Kind.PLAIN)
            self.names[key] = _either(*pair)

    def _add(self, target: ast.expr, value: ast.expr) -> None:
        old, more = _whole(self.value(target)), _whole(self.value(value))
        # What was there before the loop counts as zero.
        self._bind(target, more if old is Kind.PLAIN else _combined(ast.Add(), old, more))
        if old is Kind.PLAIN and more is Kind.SAMPLES:
            self._bind(target, Kind.UNSURE)

    def _bind(self, target: ast.expr, found: _Value) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            parts = found if isinstance(found, tuple) and len(found) == len(target.elts) else None
            for place, one in enumerate(target.elts):
                self._bind(one, _of_items(found) if parts is None else parts[place])
        elif isinstance(target, ast.Starred):
            self._bind(target.value, _whole(found))
        elif (key := _key(target)) and not (key in self.loaders and self._depth == 0):
            self.names[key] = found

    def _changing(self, call: ast.Call) -> None:
        """A call whose result is not used may change what it belongs to."""
        found = self.value(call)
        if not isinstance(call.func, ast.Attribute) or not (key := _key(call.func.value)):
            return
        given = [_whole(self.value(one)) for one in call.args]
        if call.func.attr == "append" and len(given) == 1:
            now = _whole(self.names.get(key, Kind.PLAIN))
            self.names[key] = _listed(given[0]) if now is Kind.PLAIN else _either(now, _listed(given[0]))
        elif call.func.attr == "extend" and any(one is not Kind.PLAIN for one in given):
            self.names[key] = Kind.SAMPLES
        elif found is not Kind.PLAIN and any(one is not Kind.PLAIN for one in given):
            self.names[key] = Kind.MEAN

    # -- values --------------------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> _Value:
        """What the text knows of a value."""
        if (key := _key(node)) and key in self.names:
            return self.names[key]
        match node:
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return tuple(self.value(one) for one in elts)
            case ast.Dict(keys=keys, values=values):
                named = zip(keys, values, strict=True)
                return {one.value: self.value(value) for one, value in named if isinstance(one, ast.Constant)}
            case ast.BinOp(left=left, op=op, right=right):
                return _combined(op, _whole(self.value(left)), _whole(self.value(right)))
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                return self.value(operand)
            case ast.Compare(left=left, comparators=comparators):
                kinds = [_whole(self.value(one)) for one in (left, *comparators)]
                return Kind.SAMPLES if Kind.SAMPLES in kinds else _mixed(kinds)
            case ast.IfExp(body=body, orelse=orelse):
                return _either(self.value(body), self.value(orelse))
            case ast.Attribute(value=value):
                below = _whole(self.value(value))
                return Kind.PLAIN if below in (Kind.LOADER, Kind.ADDS) else below
            case ast.Subscript(slice=index) if (tensor := _sized(node)) is not None:
                return self._size(tensor, index)
            case ast.Subscript(value=value, slice=index):
                below = self.value(value)
                if isinstance(below, dict) and isinstance(index, ast.Constant) and index.value in below:
                    return below[index.value]
                return _of_items(below)
            case ast.Call():
                return self._call(node)
            case ast.GeneratorExp(elt=elt, generators=generators) | ast.ListComp(elt=elt, generators=generators):
                for one in generators:
                    given = self.value(one.iter)
                    self._bind(one.target, Kind.PLAIN if given is Kind.LOADER else _of_items(given))
                return _listed(_whole(self.value(elt)))
            case ast.DictComp(value=value, generators=generators):
                for one in generators:
                    self._bind(one.target, _of_items(self.value(one.iter)))
                return self.value(value)
            case ast.NamedExpr(target=target, value=value):
                self._bind(target, found := self.value(value))
                return found
            case ast.Await(value=value) | ast.Starred(value=value):
                return self.value(value)
        return _mixed([_whole(self.value(one)) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)])

    def _size(self, tensor: ast.expr, index: ast.expr) -> Kind:
        is_first = isinstance(index, ast.Constant) and index.value == 0
        return Kind.COUNT if is_first and self._is_local(tensor) else Kind.PLAIN

    def _is_local(self, node: ast.expr) -> bool:
        return _whole(self.value(node)) in (Kind.SAMPLES, Kind.MEAN)

    def _call(self, node: ast.Call) -> _Value:
        name, arguments = _last(node), [*node.args, *(one.value for one in node.keywords)]
        if _is_report(node):
            self._report(node)
            return Kind.PLAIN
        if name in _LOADERS:
            return Kind.LOADER
        given = [self.value(one) for one in arguments]
        if name in _PASSES and Kind.LOADER in given:
            return Kind.LOADER
        if name == "next" and given[:1] == [Kind.LOADER]:
            return Kind.PLAIN if self.trains is Kind.PLAIN else Kind.SAMPLES
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name == "size" and owner is not None and len(node.args) == 1:
            return self._size(owner, node.args[0])
        if (function := self.functions.get(name)) is not None and self._can_follow():
            return self._inlined(function, node)
        kinds = [_whole(one) for one in given]
        below = Kind.PLAIN if owner is None else _whole(self.value(owner))
        if below is Kind.LOADER:
            return Kind.PLAIN
        every = [*kinds, below] if below is not Kind.PLAIN else kinds
        if name == "len":
            return {Kind.SAMPLES: Kind.COUNT, Kind.UNSURE: Kind.UNSURE}.get(every[0], Kind.PLAIN)
        if name in ("max", "min") and owner is None and kinds[1:] == [Kind.PLAIN] and kinds[0] in _PARTIAL:
            return kinds[0]  # the usual guard of a denominator
        reduction = next((one.value for one in node.keywords if one.arg == "reduction"), None)
        way = reduction.value if isinstance(reduction, ast.Constant) else None
        called = self.names.get(_key(node.func) or "")
        if all(one is Kind.PLAIN for one in every):
            return Kind.ADDS if way == "sum" else Kind.PLAIN
        if way == "sum" or called is Kind.ADDS:
            return Kind.TOTAL
        if way == "none":
            return Kind.SAMPLES
        if name == "sum" and owner is not None and every[:1] == [Kind.MEAN]:
            return Kind.UNSURE  # one value for each sample, or a mean
        return _of_call(name, every, has_dimension=len(arguments) > (owner is None or below is Kind.PLAIN))

    def _can_follow(self) -> bool:
        """Whether one more call is followed. A text of many calls in calls would take for ever."""
        return self._depth < _DEPTH and len(self.called) < _CALLS

    def _inlined(self, function: ast.FunctionDef, node: ast.Call) -> _Value:
        self.called.append(function.name)
        if any(isinstance(one, ast.Yield | ast.YieldFrom) for one in ast.walk(function)):
            return Kind.LOADER if Kind.LOADER in map(self.value, node.args) else Kind.PLAIN
        parameters = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        if parameters[:1] == ["self"] and isinstance(node.func, ast.Attribute):
            parameters = parameters[1:]
        own = {name: self.value(one) for name, one in zip(parameters, node.args, strict=False)}
        own |= {one.arg: self.value(one.value) for one in node.keywords if one.arg}
        saved = self.names, self._returned, self.trains
        hidden = dict.fromkeys(parameters, Kind.PLAIN)
        self.names, self._returned, self.trains = {**self.names, **hidden, **own}, [], saved[2]
        self._depth += 1
        self.body(function.body)
        self._depth -= 1
        found: _Value = self._returned[0] if self._returned else Kind.PLAIN
        for one in self._returned[1:]:
            found = _either(found, one)
        self.names, self._returned, self.trains = saved
        return found

    def _report(self, node: ast.Call) -> None:
        for name, found in self._values(node):
            kinds, _ = self.reported.setdefault(name, (set(), node.lineno))
            kinds.add(_whole(found))

    def _values(self, node: ast.Call) -> Iterator[tuple[str, _Value]]:
        for one in [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg is None)]:
            found = self.value(one)
            if isinstance(found, dict):
                yield from ((key, value) for key, value in found.items() if isinstance(key, str))
        for keyword in node.keywords:
            if keyword.arg not in (None, "step"):
                yield str(keyword.arg), self.value(keyword.value)


def _of_call(name: str, kinds: list[Kind], *, has_dimension: bool) -> Kind:
    """What a call gives of which nothing is known but its name."""
    first = next(one for one in (*kinds, Kind.MEAN) if one is not Kind.PLAIN)
    others = {one for one in kinds if one is not Kind.PLAIN}
    if name in ("sum", "count_nonzero", "nansum"):
        if first is Kind.SAMPLES:
            return Kind.SAMPLES if has_dimension else Kind.TOTAL
        return first
    if name in _SAME and others == {first}:
        return first
    if name in _EACH and Kind.SAMPLES in others:
        return Kind.SAMPLES
    if name in _LISTS and others == {Kind.SAMPLES}:
        return Kind.SAMPLES
    return _mixed(kinds)


def _combined(op: ast.operator, left: Kind, right: Kind) -> Kind:
    pair = {left, right}
    if Kind.UNSURE in pair:
        return Kind.UNSURE
    if pair == {Kind.PLAIN}:
        return Kind.PLAIN
    match op:
        case ast.Mult():
            if Kind.PLAIN in pair:
                return right if left is Kind.PLAIN else left
            if pair in ({Kind.MEAN, Kind.COUNT}, {Kind.MEAN, Kind.TOTAL}):
                return Kind.TOTAL  # such as a mean over tokens, times the tokens
        case ast.Div():
            if right is Kind.PLAIN:
                return left
            if right in _PARTIAL and left in _PARTIAL:
                return Kind.MEAN  # by what the rank has counted itself
        case ast.Add() | ast.Sub():
            if left is right:
                return left
            if pair == {Kind.TOTAL, Kind.COUNT}:
                return Kind.TOTAL
    if Kind.SAMPLES in pair:
        return Kind.SAMPLES
    return Kind.UNSURE if pair & _PARTIAL else Kind.MEAN


def _either(one: _Value, other: _Value) -> _Value:
    """The value after two branches."""
    if one == other:
        return one
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return tuple(map(_either, one, other))
    pair = {_whole(one), _whole(other)}
    if pair == {Kind.TOTAL, Kind.COUNT}:
        return Kind.TOTAL
    return Kind.UNSURE if pair & {Kind.UNSURE, *_PARTIAL} else _mixed(pair)


def _mixed(kinds: Iterable[Kind]) -> Kind:
    """A value that depends on others in an unknown way."""
    kinds = set(kinds) - {Kind.PLAIN, Kind.LOADER, Kind.ADDS}
    if Kind.UNSURE in kinds or kinds & _PARTIAL:
        return Kind.UNSURE
    return Kind.MEAN if kinds else Kind.PLAIN


def _whole(found: _Value) -> Kind:
    """One kind for a value of several parts."""
    if isinstance(found, Kind):
        return found
    parts = {_whole(one) for one in (found.values() if isinstance(found, dict) else found)}
    return parts.pop() if len(parts) == 1 else _mixed(parts)


def _of_items(found: _Value) -> Kind:
    """An item of a value."""
    kind = _whole(found)
    return Kind.TOTAL if kind is Kind.COUNT else kind


def _listed(one: _Value) -> Kind:
    """A list of such values."""
    return Kind.TOTAL if one is Kind.COUNT else _whole(one)


def _key(node: ast.AST) -> str:
    """The text of a name, an attribute or an item, by which its value is known; empty for other texts."""
    if isinstance(node, ast.Name):
        return node.id
    match node:
        case ast.Attribute(value=value) | ast.Subscript(value=value, slice=ast.Constant()) if _key(value):
            return ast.unparse(node)
    return ""


def _last(node: ast.AST) -> str:
    """The last name of what is called."""
    function = node.func if isinstance(node, ast.Call) else node
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _is_report(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _last(node) == "report"


def _sized(node: ast.Subscript) -> ast.expr | None:
    """The tensor in ``x.shape[...]`` or ``x.size()[...]``."""
    match node.value:
        case ast.Attribute(attr="shape", value=tensor) | ast.Call(func=ast.Attribute(attr="size", value=tensor)):
            return tensor
    return None

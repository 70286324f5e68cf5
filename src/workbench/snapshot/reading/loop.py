"""How a cell uses ``trial``: its one loop and its reports. Law: text in; errors out, each with the corrected text.

Refused here: no loop over ``trial.steps()``, two of them, one inside another loop or wrapped so that its count would
restart after a resume; Optuna's ``trial.suggest_…``; a name ``trial`` that the user defines.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.errors import BadCell
from workbench.snapshot.reach import functions_in, reached
from workbench.snapshot.reading.names import global_names
from workbench.snapshot.reading.text import Text

Loop = ast.For | ast.AsyncFor | ast.While
#: Wrappers of ``trial.steps()`` that count from their own start, or consume all turns at once.
_COUNTS_ANEW = frozenset(
    {
        *("enumerate", "zip", "zip_longest", "map", "filter", "islice", "chain", "cycle", "takewhile", "tee"),
        *("list", "tuple", "set", "frozenset", "dict", "sorted", "reversed", "iter", "next", "range", "len", "sum"),
    }
)
_LOOP_NAMES = frozenset({"ep", "e", "it", "i", "t", "n", "turn", "round"})
_TRAINS = frozenset({"backward", "step", "zero_grad", "partial_fit", "fit", "train_on_batch", "train_step"})
_SUGGESTIONS = tuple(
    f"suggest_{kind}" for kind in ("float", "int", "categorical", "uniform", "loguniform", "discrete_uniform")
)
#: Modules of ``workbench`` whose callbacks make a framework's loop the trial's.
FRAMEWORKS = ("keras", "lightgbm", "lightning", "transformers", "xgboost")
_LOADERS = ("loader", "batches", "dataset", "_dl", "dl_")


@dataclass(frozen=True, slots=True)
class Use:
    """How a cell uses ``trial``.

    steps: line of ``trial.steps()``. reports: metrics it reports, or None if the text does not show them all.
    report: line of the first ``trial.report``.
    """

    steps: int | None
    reports: frozenset[str] | None
    report: int | None


def use_of_trial(
    tree: ast.Module,
    source: str,
    needs: Iterable[str],
    namespace: Mapping[str, Any],
    line: int,
    kind: str = "cell",
    *,
    is_elsewhere: bool = False,
) -> Use:
    """How the cell (or function: ``kind``) uses ``trial``; ``line`` is the number of its first line.

    is_elsewhere: code that it reaches uses ``workbench.trial``. Raises BadCell.
    """
    cell = Text(tree, source, line, kind)
    _check_name(cell)
    _check_suggestions(cell)
    steps = _calls(cell, "steps")
    reports = _calls(cell, "report")
    helpers = _functions_using_trial(needs, namespace)
    escapes = (
        bool(helpers)
        or is_elsewhere
        or any(
            isinstance(node, ast.Name)
            and node.id == "trial"
            and isinstance(node.ctx, ast.Load)
            and not isinstance(cell.parent(node), ast.Attribute)
            for node in cell.nodes
        )
    )
    named = {keyword.arg for call in reports for keyword in call.keywords}
    framework = _uses_framework(cell, needs, namespace)
    elsewhere = framework or bool(_methods(cell, "save", "restore")) or "step" in named
    if steps:
        _check_steps(cell, steps)
    elif not escapes and not elsewhere:
        raise BadCell(_no_steps(cell, needs, namespace), line=_line_of_loop(cell))
    hidden = (
        escapes
        or framework
        or None in named
        or any(call.args for call in reports)
        or len(_methods(cell, "report")) > len(reports)  # passed on without being called
    )
    return Use(
        steps=cell.line(steps[0]) if steps else None,
        reports=None if hidden else frozenset(name for name in named if name is not None and name != "step"),
        report=cell.line(reports[0]) if reports else None,
    )


def _uses_framework(cell: Text, needs: Iterable[str], namespace: Mapping[str, Any]) -> bool:
    """Whether the cell names one of :data:`FRAMEWORKS`, or uses a name that an earlier cell imported from there."""
    modules = {f"workbench.{name}" for name in FRAMEWORKS}
    for node in cell.nodes:
        if isinstance(node, ast.Import):
            named = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            named = {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in ("workbench", "wb"):
            named = {f"workbench.{node.attr}"}
        else:
            continue
        if named & modules:
            return True
    values = [namespace[name] for name in needs if name in namespace]
    return any(
        (value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)) in modules
        for value in values
    )


def _methods(cell: Text, *names: str) -> list[ast.Attribute]:
    return [
        node
        for node in cell.nodes
        if isinstance(node, ast.Attribute)
        and node.attr in names
        and isinstance(node.value, ast.Name)
        and node.value.id == "trial"
    ]


def _calls(cell: Text, name: str) -> list[ast.Call]:
    parents = ((node, cell.parent(node)) for node in _methods(cell, name))
    calls = [parent for node, parent in parents if isinstance(parent, ast.Call) and parent.func is node]
    return sorted(calls, key=lambda call: (call.lineno, call.col_offset))


def _check_name(cell: Text) -> None:
    for node in cell.nodes:
        bound = (isinstance(node, ast.Name) and node.id == "trial" and not isinstance(node.ctx, ast.Load)) or (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == "trial"
        )
        if isinstance(node, ast.alias):
            bound = (node.asname or node.name) == "trial"
            # `from workbench import trial` gives the same object.
            bound = bound and getattr(cell.parent(node), "module", None) != "workbench"
        if bound:
            line = cell.first_line - 1 + getattr(node, "lineno", 1)
            raise BadCell(
                f"line {line}: this cell reassigns the name `trial`, but in a train cell `trial` belongs to "
                "Workbench: it provides steps(), report() and others. Choose another name there.",
                line=line,
            )


# ---------------------------------------------------------------------------------------------------------------------
# trial.steps()


def _check_steps(cell: Text, steps: list[ast.Call]) -> None:
    for call in steps:
        _check_wrapping(cell, call)
        for above in cell.above(call):
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                break
            if isinstance(above, Loop) and not _inside(getattr(above, "iter", None), call, cell):
                line = cell.line(call)
                raise BadCell(
                    f"line {line}: `{cell.head(call)}` stands inside the loop of line {cell.line(above)}, so "
                    "trial.steps() would be called several times. Expected one loop over trial.steps() in a trial. "
                    "Make what the outer loop goes through a hyperparameter (such as "
                    f"`{_loop_name(above)} = choice(...)`), or move that loop inside.",
                    line=line,
                )
    for first, second in itertools.pairwise(steps):
        if not _exclusive(cell, first, second):
            line = cell.line(second)
            raise BadCell(
                f"line {line}: `{cell.head(second)}` calls trial.steps() a second time (the first is on line "
                f"{cell.line(first)}). Expected one loop over trial.steps(): it counts the trial's turns, and there is "
                "one count. Put both bodies into one loop, or turn one of them into an ordinary loop inside it.",
                line=line,
            )


def _inside(outer: ast.AST | None, node: ast.AST, cell: Text) -> bool:
    return outer is not None and (outer is node or any(above is outer for above in cell.above(node)))


def _exclusive(cell: Text, first: ast.AST, second: ast.AST) -> bool:
    """Whether the two are in different branches of one ``if`` (or in different functions)."""
    chain = list(cell.above(first))
    for above in cell.above(second):
        if isinstance(above, ast.If | ast.Match) and above in chain:
            return _branch(above, [first, *chain]) != _branch(above, [second, *cell.above(second)])
    functions = [
        next((a for a in cell.above(n) if isinstance(a, ast.FunctionDef | ast.AsyncFunctionDef)), None)
        for n in (first, second)
    ]
    return functions[0] is not functions[1] and None not in functions


def _branch(node: ast.If | ast.Match, chain: list[ast.AST]) -> int:
    if isinstance(node, ast.If):
        return 0 if any(one in node.body for one in chain) else 1
    return next((index for index, case in enumerate(node.cases) if case in chain), -1)


def _check_wrapping(cell: Text, call: ast.Call) -> None:
    parent = cell.parent(call)
    if isinstance(parent, ast.comprehension):
        wrapper = "a comprehension"
    elif isinstance(parent, ast.Starred):
        wrapper = "*"
    elif isinstance(parent, ast.Call) and parent.func is not call:
        function = parent.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name not in _COUNTS_ANEW:
            return  # a progress bar
        wrapper = f"{name}()"
    else:
        return
    line = cell.line(call)
    loop = next((above for above in cell.above(call) if isinstance(above, ast.For)), None)
    name = "epoch"
    following = ""
    if loop is not None and isinstance(loop.target, ast.Tuple):
        names = [element.id for element in loop.target.elts if isinstance(element, ast.Name)]
        if wrapper == "enumerate()":
            name = names[-1] if names else name
            if len(names) == 2:
                following = f" Its value is the count already: use {names[1]} where {names[0]} was used."
        elif wrapper == "zip()" and isinstance(parent, ast.Call) and call in parent.args:
            place = parent.args.index(call)
            name = names[place] if place < len(names) else name
            others = [
                f"{cell.segment(target)} = {cell.segment(value)}[{name}]"
                for target, value in zip(loop.target.elts, parent.args, strict=False)
                if value is not call
            ]
            following = f" Begin its body with `{'; '.join(others)}`." if others else ""
    elif loop is not None and isinstance(loop.target, ast.Name):
        name = loop.target.id
    raise BadCell(
        f"line {line}: `{cell.head(call)}` puts trial.steps() into {wrapper}, which would start again from its own "
        "beginning when the trial continues after a pause, or take all turns at once. trial.steps() yields the number "
        f"of the turn, from 0. Write `for {name} in trial.steps():`.{following}",
        line=line,
    )


# ---------------------------------------------------------------------------------------------------------------------
# A cell without trial.steps(): its own loop, rewritten


def _no_steps(cell: Text, needs: Iterable[str], namespace: Mapping[str, Any]) -> str:
    why = "Without it no trial knows where to start, where to end, when to save and when to stop."
    loop = _training_loop(cell)
    if loop is not None:
        given, written, hint = _rewritten(cell, loop)
        return (
            f"line {cell.line(loop)}: this {cell.kind} never calls trial.steps(). {why}\n"
            f"    given:  {given}\n    write:  {written}\n{hint}"
        ).rstrip()
    for function in _captured_functions(needs, namespace):
        try:
            text = textwrap.dedent(inspect.getsource(function))
            helper = Text(ast.parse(text), text, 1, cell.kind)
        except (OSError, TypeError, SyntaxError):
            continue
        loop = _training_loop(helper)
        if loop is not None and _score(loop) > 1:
            given, written, hint = _rewritten(helper, loop)
            return (
                f"This {cell.kind} never calls trial.steps(), and {function.__name__}(), which it uses, has a loop. "
                f"{why}\n"
                f"    given, in {function.__name__}():  {given}\n    write there:  {written}\n{hint}"
            ).rstrip()
    return (
        f"This {cell.kind} has no loop over trial.steps(). {why} Write one turn of the training as one turn of\n"
        "    for epoch in trial.steps():\n        ...\n        trial.report(val_acc=...)\n"
        "or, where a framework has the loop, give it our callback (wb.lightning.Callback(); also wb.transformers, "
        "wb.keras, wb.xgboost, wb.lightgbm), or call trial.report(step=..., ...)."
    )


def _line_of_loop(cell: Text) -> int | None:
    loop = _training_loop(cell)
    return None if loop is None else cell.line(loop)


def _training_loop(cell: Text) -> Loop | None:
    loops = [node for node in cell.nodes if isinstance(node, Loop)]
    depth = {loop: sum(isinstance(above, Loop) for above in cell.above(loop)) for loop in loops}
    return min(loops, key=lambda loop: (-_score(loop), depth[loop], loop.lineno), default=None)


def _score(loop: Loop) -> int:
    target = _loop_name(loop)
    named = 4 if target in _LOOP_NAMES or any(word in target for word in ("epoch", "step", "iter")) else 0
    counted = 2 if isinstance(loop, ast.While) or _range(loop.iter) is not None else 0
    trains = any(isinstance(node, ast.Attribute) and node.attr in _TRAINS for node in ast.walk(loop))
    return named + counted + (5 if trains else 0)


def _range(node: ast.expr) -> ast.Call | None:
    """The ``range(...)`` inside ``tqdm(range(...))``, ``enumerate(range(...))``, ``trange(...)``."""
    if not isinstance(node, ast.Call):
        return None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in ("range", "trange", "arange", "count"):
        return node
    return _range(node.args[0]) if node.args else None


def _loop_name(loop: ast.AST) -> str:
    if isinstance(loop, ast.For | ast.AsyncFor):
        target = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) and loop.target.elts else loop.target
        return target.id if isinstance(target, ast.Name) else "step"
    if isinstance(loop, ast.While) and isinstance(loop.test, ast.Compare) and isinstance(loop.test.left, ast.Name):
        return loop.test.left.id
    return "step"


def _rewritten(cell: Text, loop: Loop) -> tuple[str, str, str]:
    given = cell.head(loop)
    if isinstance(loop, ast.While):
        name = _loop_name(loop)
        counts = isinstance(loop.test, ast.Compare) and isinstance(loop.test.left, ast.Name)
        hint = f"and leave out the line that counts {name}." if counts else ""
        return given, f"for {name} in trial.steps():", hint
    counted = _range(loop.iter)
    text = cell.segment(loop.iter).lower()
    if counted is None and (isinstance(loop.target, ast.Tuple) or any(word in text for word in _LOADERS)):
        inner = f"for epoch in trial.steps():\n                {given}"
        return given, inner, "so that one turn is one pass over the data."
    name = _loop_name(loop)
    hint = ""
    if counted is not None and all(isinstance(argument, ast.Constant) for argument in counted.args) and counted.args:
        values: list[Any] = [argument.value for argument in counted.args if isinstance(argument, ast.Constant)]
        if all(isinstance(value, int) for value in values):
            turns = len(range(*values)) if len(values) <= 3 else 0
            start = values[0] if len(values) > 1 else 0
            option = f"--steps 1-{turns}" if cell.kind != "function" else f"max_steps={turns}, to the scheduler"
            hint = f"and give the number of turns as {option}." if turns > 1 else ""
            if start:
                hint += f" trial.steps() counts from 0: use {name} + {start} where {name} began at {start}."
    return given, f"for {name} in trial.steps():", hint


# ---------------------------------------------------------------------------------------------------------------------
# Optuna's way of asking


def _check_suggestions(cell: Text) -> None:
    for node in _methods(cell, *_SUGGESTIONS):
        call = cell.parent(node)
        if not isinstance(call, ast.Call) or call.func is not node:
            continue
        line = cell.line(call)
        raise BadCell(
            f"line {line}: `{cell.segment(call)}` is Optuna's way to ask for a value; here a hyperparameter is an "
            f"assignment at the top of the cell. Write `{_assignment(cell, call, node.attr)}`, and use the name.",
            line=line,
        )


def _assignment(cell: Text, call: ast.Call, method: str) -> str:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    arguments: list[ast.expr] = [*call.args, *([given["name"]] if "name" in given else [])]
    first, rest = (arguments[0], arguments[1:]) if arguments else (None, [])
    name = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
    name = "".join(letter if letter.isalnum() else "_" for letter in name.rpartition(".")[2]) or "value"
    if not name.isidentifier():
        name = f"_{name}"
    if method == "suggest_categorical":
        options = given.get("choices", rest[0] if rest else None)
        if isinstance(options, ast.List | ast.Tuple):
            return f"{name} = choice({', '.join(cell.segment(option) for option in options.elts)})"
        return f"{name} = choice(*{cell.segment(options)})" if options is not None else f"{name} = choice(...)"
    bounds = [cell.segment(value) for value in (*rest[:2], *(given[key] for key in ("low", "high") if key in given))]
    low, high = (*bounds, "...", "...")[:2]
    log = method == "suggest_loguniform" or getattr(given.get("log"), "value", False) is True
    step = given.get("step", given.get("q", rest[2] if len(rest) > 2 else None))
    if log:
        integer = f"  # and int({name}) where it is used" if method == "suggest_int" else ""
        return f"{name} = loguniform({low}, {high}){integer}"
    if step is not None and not (isinstance(step, ast.Constant) and step.value in (None, 1)):
        return f"{name} = quniform({low}, {high}, {cell.segment(step)})"
    return f"{name} = {'randint' if method == 'suggest_int' else 'uniform'}({low}, {high})"


# ---------------------------------------------------------------------------------------------------------------------
# Functions of the notebook that the cell uses


def _captured_functions(needs: Iterable[str], namespace: Mapping[str, Any]) -> Iterator[types.FunctionType]:
    """Functions and methods from the notebook that the names reach."""
    seen: set[int] = set()
    for name in reached({name: namespace[name] for name in needs if name in namespace}, namespace):
        yield from functions_in(namespace[name], namespace, seen)


def _functions_using_trial(needs: Iterable[str], namespace: Mapping[str, Any]) -> list[str]:
    found = _captured_functions(needs, namespace)
    return [function.__name__ for function in found if "trial" in global_names(function.__code__)]

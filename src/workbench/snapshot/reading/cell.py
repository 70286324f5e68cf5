"""The train cell: its search space, the names it needs, and the code that a runner compiles.

Law: the cell is parsed, never run. Every error in its text is raised here, with the line, what was given, what was
expected and what to write.
"""

from __future__ import annotations

import ast
import builtins
import copy
import difflib
import functools
import hashlib
import re
import types
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from workbench.errors import BadCell, BadMetric, BadSpace
from workbench.records import Argument, Goal, Json
from workbench.snapshot.reading.hyperparameters import NAMES, Hyperparameter, assignment, hyperparameters, supplied
from workbench.snapshot.reading.loop import use_of_trial
from workbench.snapshot.reading.names import names_of
from workbench.space import Choice, Distribution, Space

__all__ = ["Cell", "picker", "read_cell", "supplied", "transform"]

#: What a runner calls for a choice among objects: ``__wb_pick__("opt", choice(SGD, Adam))``.
PICK = "__wb_pick__"
#: Names that IPython, not the user, defines in a notebook.
_IPYTHON = frozenset({"In", "Out", "get_ipython", "_ih", "_oh", "_dh"})
_ASKS = {
    "input": "reads from the keyboard, but a trial has no keyboard input",
    "breakpoint": "starts a debugger, but a trial has no keyboard input; --try runs the cell here under one",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A valid train cell (or training function, or script).

    source: its text, as a runner gets it. space and hyperparameters: its search space. needs: names it loads from
    the notebook, each with its first line (0: it is the training function itself). assigned: names that it always binds
    at top level; they are never captured. bound: names that it may bind. attributes: every name after a dot. imports:
    modules it imports itself. steps: line of ``trial.steps()``, or None if the loop is in a framework or a helper.
    reports: metrics it reports, or None if its text does not show all of them. content: digest of the text without
    comments and blank lines. entry: the function's name, for kind ``function``; module: the project module it lives in;
    call: how it is called, in the form of the spec; beside: objects given beside it, by the names of parameters.
    file, arguments, metrics, listens: a script's path, and the rest as a spec's program has them.
    """

    kind: Literal["cell", "script", "function"]
    source: str
    space: Space
    hyperparameters: tuple[Hyperparameter, ...]
    needs: dict[str, int]
    assigned: frozenset[str]
    bound: frozenset[str]
    attributes: frozenset[str]
    imports: tuple[str, ...]
    steps: int | None
    reports: frozenset[str] | None
    report: int | None
    content: str
    entry: str | None = None
    module: str | None = None
    file: str | None = None
    arguments: tuple[Argument, ...] = ()
    metrics: tuple[str, ...] = ()
    listens: bool = False
    call: Json = None
    beside: dict[str, Any] = field(default_factory=dict)

    @property
    def resumes(self) -> bool:
        """False if it cannot save what it is at: a script that says its metrics to something else."""
        return not self.metrics and not self.listens

    def check_goal(self, goal: Goal | str) -> None:
        """Raise BadMetric if the text shows that the goal's metric is never reported."""
        metric = goal.metric if isinstance(goal, Goal) else goal
        if self.reports is None or metric in self.reports:
            return
        if not self.reports:
            raise BadMetric(
                f"The goal is {goal}, but this {self.kind} never reports a metric. Put "
                f"`trial.report({metric}=...)` at the end of the loop's body.",
                line=self.steps,
            )
        near = difflib.get_close_matches(metric, sorted(self.reports), n=1, cutoff=0)
        where = "" if self.report is None else f"line {self.report}: "
        raise BadMetric(
            f"{where}this {self.kind} reports {', '.join(sorted(self.reports))}, but the goal is {goal}. "
            f"Report {metric}, or write {_written(goal, near[0], self.kind)}.",
            line=self.report,
        )


def _written(goal: Goal | str, metric: str, kind: str) -> str:
    mode = goal.mode if isinstance(goal, Goal) else "max"
    return f"--goal {mode} {metric}" if kind != "function" else f"goal=wb.{mode}imize({metric!r})"


def read_cell(source: str, namespace: Mapping[str, Any], *, first_line: int = 1) -> Cell:
    """The train cell with text ``source``, given the notebook's present names.

    first_line: number of the text's first line within the cell, for messages. Raises BadCell or BadSpace.
    """
    tree = _parsed(source, first_line)
    _check_top_level(tree, first_line)
    found, space = hyperparameters(tree, source, namespace, first_line)
    names = names_of(source, _as_needed(source, found))
    use = use_of_trial(tree, source, names.needs, namespace, first_line)
    _check_questions(tree, names.bound, namespace, first_line)
    needs = {
        name: line + first_line - 1
        for name, line in names.needs.items()
        if name != "trial" and _travels(name, namespace)
    }
    if not names.dynamic:
        _check_undefined(names.undefined, names.bound, namespace, first_line)
    return Cell(
        kind="cell",
        source=source,
        space=space,
        hyperparameters=tuple(found),
        needs=needs,
        assigned=names.assigned,
        bound=names.bound,
        attributes=names.attributes,
        imports=names.imports,
        steps=use.steps,
        reports=use.reports,
        report=use.report,
        content=content_of(tree),
    )


def content_of(tree: ast.AST) -> str:
    """Digest of a tree: the same for two texts that differ only in comments, blank lines and layout."""
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _travels(name: str, namespace: Mapping[str, Any]) -> bool:
    """Whether a loaded name is one of the notebook's own, and so is captured."""
    return name in namespace and name not in ipythons(namespace)


def ipythons(namespace: Mapping[str, Any]) -> frozenset[str]:
    """Python names that IPython replaces in every notebook: a runner has Python's own."""
    found = set()
    for name in ("open", "exit", "quit", "display", "get_ipython"):
        value = namespace.get(name)
        homes = (
            getattr(value, "__module__", ""),
            getattr(value, "__globals__", {}).get("__name__"),
            type(value).__module__,
        )
        if any(str(home).partition(".")[0] in ("IPython", "ipykernel") for home in homes):
            found.add(name)
    return frozenset(found)


# ---------------------------------------------------------------------------------------------------------------------
# The text

_MAGIC = re.compile(r"^\s*(?:[\w.,\s\[\]]+=\s*)?(%{1,2}\w+|!{1,2}\S|\?{1,2}\w|[\w.]+\?{1,2}\s*$)")


def _parsed(source: str, first_line: int) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `is` with a literal and the like: the runner repeats the warning
        try:
            tree = ast.parse(source)
            _check_awaits(tree, first_line)
            compile(tree, "<cell>", "exec", dont_inherit=True)
        except BadCell:
            raise
        except SyntaxError as error:
            raise _syntax(error, source, first_line) from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise BadCell(f"This cell cannot be read: {error}. Look for odd characters or extreme nesting.") from None
    return tree


def _syntax(error: SyntaxError, source: str, first_line: int) -> BadCell:
    number = error.lineno or 1
    line = number + first_line - 1
    lines = re.split(r"\r\n|\r|\n", source)
    text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    if _MAGIC.match(text):
        if text.startswith("%%"):
            do = "Only the cell's first line may hold a cell magic, and that is %%train"
        elif "!" in text:
            do = "Run the command in a cell above, or use subprocess.run(...)"
        elif "?" in text:
            do = "Ask for help in another cell"
        else:
            do = "Put it into a cell above"
        return BadCell(
            f"line {line}: `{text}` is a magic of IPython. Training code runs in processes of plain Python, so a train "
            f"cell holds Python only. {do}.",
            line=line,
        )
    return BadCell(f"line {line}: {error.msg}: `{text}`. Expected Python; fix the line.", line=line)


def _check_awaits(tree: ast.Module, first_line: int) -> None:
    """Refuse syntax that only works inside a function, above all ``await``, which a notebook accepts at top level."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        line = getattr(node, "lineno", 1) + first_line - 1
        awaits = isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith)
        if awaits or (isinstance(node, ast.comprehension) and node.is_async):
            raise BadCell(
                f"line {line}: a train cell cannot await at its top level: it runs as plain Python, not in the "
                "notebook's event loop. Put it into an async function and call asyncio.run(...) on it.",
                line=line,
            )
        if isinstance(node, ast.Yield | ast.YieldFrom):
            raise BadCell(
                f"line {line}: `yield` stands at the top level of the cell, outside of any function. Put it into a "
                "function, or write trial.report(...) where values should go out.",
                line=line,
            )
        waiting += ast.iter_child_nodes(node)


def _check_top_level(tree: ast.Module, first_line: int) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in _IPYTHON and isinstance(node.ctx, ast.Load):
            line = node.lineno + first_line - 1
            raise BadCell(
                f"line {line}: `{node.id}` is IPython's and exists in the notebook only, not in the processes in which "
                "trials run. Give the value a name in a cell above, and use that name.",
                line=line,
            )


def _check_questions(tree: ast.Module, bound: frozenset[str], namespace: Mapping[str, Any], first_line: int) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.id if isinstance(function, ast.Name) else ""
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            dotted = f"{function.value.id}.{function.attr}"
            if dotted in ("pdb.set_trace", "getpass.getpass"):
                name = "breakpoint" if dotted.startswith("pdb") else "input"
        if name in _ASKS and name not in bound and name not in namespace:
            line = node.lineno + first_line - 1
            raise BadCell(
                f"line {line}: `{ast.unparse(node)}` {_ASKS[name]}. Give the value in a cell above, or make it a "
                "hyperparameter.",
                line=line,
            )


def _check_undefined(
    undefined: Mapping[str, int], bound: frozenset[str], namespace: Mapping[str, Any], first_line: int
) -> None:
    for name, line in undefined.items():
        if name in namespace or hasattr(builtins, name) or name in _GIVEN:
            continue
        if name == "__file__":
            raise BadCell(
                f"line {line + first_line - 1}: `__file__` is defined in files, and a cell has none. Trials train in "
                "the notebook's folder: write `os.getcwd()` for it, or give a path in a cell above.",
                line=line + first_line - 1,
            )
        near = difflib.get_close_matches(name, [*namespace, *bound], n=1)
        raise BadCell(
            f"line {line + first_line - 1}: `{name}` is defined neither in this cell nor in the notebook"
            f"{f' (is {near[0]} meant?)' if near else ''}. Run the cell that defines it first, or import it here.",
            line=line + first_line - 1,
        )


#: Names that every module has, and those that a runner defines.
_GIVEN = frozenset(
    {
        *("__name__", "__doc__", "__spec__", "__builtins__", "__debug__", "__annotations__"),
        *("trial", "wb", PICK, *NAMES),
    }
)


# ---------------------------------------------------------------------------------------------------------------------
# The code that runs


def transform(source: str, filename: str, values: Mapping[str, Any]) -> types.CodeType:
    """The cell's code with each hyperparameter in ``values`` replaced by its value; line numbers do not change.

    A label that represents an object becomes ``__wb_pick__("opt", <the call as written>)``; :func:`picker` makes that
    function.
    """
    tree = _read_once(source, filename) or ast.parse(source, filename)
    return compile(with_values(tree, values), filename, "exec", dont_inherit=True)


@functools.lru_cache(maxsize=4)
def _read_once(source: str, filename: str) -> ast.Module | None:
    """The text, which a runner compiles for each leg, with other values; it must not be changed. None if Python warns
    about it: each leg says so."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tree = ast.parse(source, filename)
    return None if told else tree


def picker(configuration: Mapping[str, Any]) -> Callable[[str, Any], Any]:
    """The function ``__wb_pick__`` of a runner: it returns this trial's option from the evaluated distribution."""

    def pick(name: str, given: Any) -> Any:
        value = configuration[name]
        return given.pick(value) if isinstance(given, Distribution) else value

    return pick


def with_values(tree: ast.Module, values: Mapping[str, Any]) -> ast.Module:
    """A tree like ``tree``, which stays as it is, with other right sides of the hyperparameters."""
    left, body = set(values), []
    for statement in tree.body:
        given = assignment(statement) if left else None
        if given is not None and given[0] in left:
            name, call = given
            left.discard(name)
            statement = copy.copy(statement)
            statement.value = _replacement(name, call, values[name])  # type: ignore[attr-defined]
        body.append(statement)
    if left:
        raise BadSpace(
            f"The cell has no assignment for {', '.join(sorted(left))}, of which the configuration gives a value. "
            "Restore the text that was searched over, or train it again."
        )
    return ast.Module(body, tree.type_ignores)


def _replacement(name: str, call: ast.Call, value: Any) -> ast.expr:
    plain = value is None or isinstance(value, bool | int | float)
    if plain or (isinstance(value, str) and all(isinstance(argument, ast.Constant) for argument in call.args)):
        return ast.copy_location(ast.Constant(value), call)
    # Its condition compares names of other hyperparameters, which are plain values in a runner.
    without = ast.Call(call.func, call.args, [keyword for keyword in call.keywords if keyword.arg != "when"])
    pick = ast.Call(ast.Name(PICK, ast.Load()), [ast.Constant(name), ast.copy_location(without, call)], [])
    return ast.fix_missing_locations(ast.copy_location(pick, call))


def _as_needed(source: str, found: list[Hyperparameter]) -> ast.Module:
    """The largest tree that a runner executes: names used only in the bounds of a distribution are not needed there."""
    return with_values(ast.parse(source), {one.name: _widest(one.distribution) for one in found})


def _widest(distribution: Distribution) -> Any:
    """A value of ``distribution`` for which a runner must evaluate its call, if any."""
    forms = distribution.forms if isinstance(distribution, Choice) else ()
    return next((form for form in forms if not (form is None or isinstance(form, bool | int | float))), 0)

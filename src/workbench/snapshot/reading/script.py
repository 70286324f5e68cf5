"""A script: a file that trains as it is, with its search space in its own arguments. Law: parsed, never run.

Its metrics are reported by ``from workbench import trial`` (or a callback of Workbench's), printed in lines that
patterns match, or given to TensorBoard, Weights & Biases or MLflow.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import json
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from workbench.errors import BadCell, BadOption, BadSpace
from workbench.snapshot.modules import imports_of, project_modules
from workbench.snapshot.reading.arguments import read_arguments
from workbench.snapshot.reading.cell import Cell, content_of
from workbench.snapshot.reading.hyperparameters import Hyperparameter, of_script
from workbench.snapshot.reading.loop import use_of_trial
from workbench.snapshot.reading.names import names_of
from workbench.space import Space

#: Packages whose users say their metrics to them.
LOGGERS = ("tensorboard", "tensorboardX", "wandb", "mlflow")
#: Stands before a module's name, as for Python.
MODULE = "-m "
_TENSORBOARD = "torch.utils.tensorboard"


def read_script(path: str | Path, words: Sequence[str] = (), metrics: Sequence[str] = ()) -> Cell:
    """The script at ``path`` in the form of :func:`~workbench.snapshot.reading.cell.read_cell`.

    path: a file, or ``-m package.module`` for a module that runs as ``python -m`` runs it, from the working folder.
    words: its arguments, with distributions. metrics: regular expressions of lines that it prints; a named group is the
    metric of that name, a plain one the goal. Raises BadCell, BadOption or BadSpace.
    """
    module = None
    if str(path).startswith(MODULE):
        module, path = _located(str(path).removeprefix(MODULE))
    file, source, tree = _parsed(Path(path))
    arguments, given = read_arguments(words)
    found, space = _whole_space(file, tree, source, given)
    names = names_of(source, tree)
    imports = names.imports
    if module is not None:
        imports = tuple(dict.fromkeys((*imports, *imports_of(file, module))))
    imported = _imported(file, module, imports)
    uses_trial = any(_gives_trial(node) for node in ast.walk(tree))
    try:
        use = use_of_trial(tree, source, (), {}, 1, "script") if uses_trial and not metrics else None
    except BadCell as error:  # its line is the script's, not that of the cell that names it
        raise BadCell(f"{file.name}, {error}" if error.line else str(error)) from None
    if not metrics and not imported & {"workbench", *LOGGERS}:
        raise BadCell(_says_nothing(file))
    template = [dataclasses.asdict(one) for one in arguments]
    named = _named(metrics)
    return Cell(
        kind="script",
        source=source,
        space=space,
        hyperparameters=tuple(found),
        needs={},
        assigned=names.assigned,
        bound=names.bound,
        attributes=names.attributes,
        imports=imports,
        steps=None,
        reports=use.reports if use else named,
        report=None,
        content=hashlib.sha256(
            json.dumps([content_of(tree), template, [*metrics], *([module] if module else [])]).encode()
        ).hexdigest(),
        module=module,
        file=str(file),
        arguments=arguments,
        metrics=tuple(metrics),
        listens=not metrics and "workbench" not in imported,
    )


@contextmanager
def imports_as(file: str | Path | None, module: str | None = None) -> Iterator[None]:
    """While this context is active, imports are found as by the script at ``file``: in its folder first; as by a
    ``module``, in the working folder. None: as before."""
    if file is None:
        yield
        return
    folder = str(Path.cwd() if module else Path(file).absolute().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _located(name: str) -> tuple[str, Path]:
    """The module that ``python -m name`` runs, and its file; nothing is imported. Raises BadOption."""
    path: list[str] | None = None
    spec, found = None, ""
    with imports_as("", name):
        importlib.invalidate_caches()
        for part in (*name.split("."), "__main__"):
            if spec is not None and path is None:
                break  # not a package
            found = f"{found}.{part}".lstrip(".")
            finders = (finder.find_spec(found, path) for finder in sys.meta_path)
            spec = next((one for one in finders if one is not None), None)
            if spec is None:
                break
            path = None if spec.submodule_search_locations is None else [*spec.submodule_search_locations]
    if spec is None and found == f"{name}.__main__":
        raise BadOption(
            f"{MODULE}{name}: {name} is a package without __main__.py. Expected a module; write {name}.train."
        )
    if spec is None or path is not None or not (spec.origin or "").endswith(".py") or not found.startswith(name):
        raise BadOption(
            f"{MODULE}{name}: Python finds no such module from {Path.cwd()}. Expected a module of Python code, such as "
            "package.train, and no file's name; go to the folder that holds the package."
        )
    return found, Path(str(spec.origin))


def _parsed(path: Path) -> tuple[Path, str, ast.Module]:
    if path.suffix == ".ipynb":
        raise BadOption(
            f"{path} is a notebook; expected a Python file. `workbench replay {path}` executes a notebook; in one, "
            "%%train searches over a cell."
        )
    try:
        with tokenize.open(path) as stream:
            source = stream.read()
        tree = ast.parse(source, str(path))
        compile(tree, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        where = f", line {error.lineno}" if error.lineno else ""
        raise BadCell(f"{path}{where}: {error.msg}. Expected Python; fix the line.") from None
    except (OSError, UnicodeDecodeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadOption(f"{path} cannot be read ({why}). Expected a Python file, such as train.py.") from None
    return path.absolute(), source, tree


def _whole_space(file: Path, tree: ast.Module, source: str, given: Space) -> tuple[list[Hyperparameter], Space]:
    """The script's own hyperparameters, and the space of these and of those in its arguments."""
    try:
        found, own = of_script(tree, source)
    except (BadCell, BadSpace) as error:  # its line is the script's, not that of the cell that names it
        raise type(error)(f"{file.name}, {error}") from None
    both = sorted(set(own.names) & set(given.names))
    if both:
        raise BadOption(
            f"{both[0]} is a hyperparameter in {file.name} and in its arguments. Expected one distribution for each; "
            "leave one out."
        )
    return found, Space({**own.parameters, **given.parameters})


def _gives_trial(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.ImportFrom)
        and node.module == "workbench"
        and any(alias.name == "trial" and alias.asname in (None, "trial") for alias in node.names)
    )


def _imported(file: Path, module: str | None, imports: Iterable[str]) -> set[str]:
    """The packages that the script and its project's modules import; TensorBoard for torch's part of it."""
    with imports_as(file, module):
        modules = project_modules(imports)
        reached, waiting = set[str](), [*imports]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += modules[name].imports if name in modules else ()
    tops = {name.partition(".")[0] for name in reached}
    return tops | ({"tensorboard"} if any(name.startswith(_TENSORBOARD) for name in reached) else set())


def _named(metrics: Sequence[str]) -> frozenset[str] | None:
    """The metrics that the patterns name; None if one is the goal's, whatever that is. Raises BadOption."""
    found: set[str] = set()
    is_open = not metrics
    for text in metrics:
        try:
            pattern = re.compile(text)
        except re.error as error:
            raise BadOption(f"--metric {text!r}: {error}. Expected a regular expression.") from None
        if pattern.groups not in (1, len(pattern.groupindex)) or not pattern.groups:
            raise BadOption(
                f"--metric {text!r}: expected one group for the goal's value, as in 'val_acc=([\\d.]+)', or named "
                "groups only, as in 'loss (?P<loss>\\S+) acc (?P<val_acc>\\S+)'."
            )
        found |= pattern.groupindex.keys()
        is_open = is_open or not pattern.groupindex
    return None if is_open else frozenset(found)


def _says_nothing(file: Path) -> str:
    return (
        f"{file.name} says no metric: neither it nor a module of its project imports workbench, "
        f"{', '.join(LOGGERS[:-1])} or {LOGGERS[-1]}. Add `from workbench import trial`, loop over trial.steps() and "
        "call trial.report(val_acc=...); or, if it prints its metric, write --metric 'val_acc=([\\d.]+)'."
    )

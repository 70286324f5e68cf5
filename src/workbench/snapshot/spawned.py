"""The ``__main__`` of processes that training code starts by ``spawn`` or ``forkserver`` (loaders' workers above all).

Law: such a process rebuilds the names that a pickle may refer to: captured names, and the imports, functions, classes
and hyperparameter values of the train cell. It never runs the training itself.

A runner calls :func:`announce`. Python's multiprocessing then finds this module as the specification of the runner's
``__main__``, runs it in the child under the name ``__mp_main__``, and uses the result as the child's ``__main__``.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import os
import sys
import types
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from multiprocessing import spawn
from pathlib import Path
from typing import Any

#: The variable that tells a child where its runner's announcement is.
VARIABLE = "WORKBENCH_SPAWNED"
#: This module, also where it runs as ``__mp_main__``.
_NAME = "workbench.snapshot.spawned"
_DEFINITIONS = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def announce(
    main: types.ModuleType,
    file: Path,
    *,
    store: str | os.PathLike[str],
    capture: str | None = None,
    overlays: Sequence[tuple[str, Sequence[str]]] = (),
    source: str = "",
    filename: str = "<cell>",
    values: Mapping[str, Any] | None = None,
    is_script: bool = False,
    module: str | None = None,
    seen: str | None = None,
) -> None:
    """Let children of this process rebuild ``main``, by what is written to ``file`` (which only they read).

    main: the module that holds the training code's namespace. capture, overlays, source, filename, values: those of the
    leg; no source for the function form. is_script: a script that guards its training by ``__name__`` runs in children
    as it would without Workbench. module: its name, if it runs as a module. seen: where children report
    which files they read.
    """
    told = {
        "store": os.fspath(store),
        "capture": capture,
        "overlays": [[digest, list(names)] for digest, names in overlays],
        "source": source,
        "filename": filename,
        "values": dict(values or {}),
        "is_script": is_script,
        "module": module,
        "seen": seen,
    }
    file.write_text(json.dumps(told))
    os.environ[VARIABLE] = str(file)
    main.__spec__ = ModuleSpec(_NAME, None, origin=filename)
    # multiprocessing keeps the ``__main__`` of its import time, for objects that children send back.
    sys.modules["__mp_main__"] = main


class Main(ModuleSpec):
    """The specification of a module that runs as ``__main__``."""


def run_as(namespace: dict[str, Any], filename: str, module: str | None) -> None:
    """Give a script's namespace what Python gives it: its file; as a module, its package, which is imported."""
    namespace["__file__"] = filename
    if module is None:
        return
    package = module.rpartition(".")[0]
    if package:
        importlib.import_module(package)
    namespace["__package__"] = package
    namespace["__loader__"] = SourceFileLoader(module, filename)
    namespace["__spec__"] = Main(module, namespace["__loader__"], origin=filename)
    namespace["__spec__"].has_location = True
    if spawn.get_preparation_data is not _preparation:
        spawn.get_preparation_data = _preparation


_prepared = spawn.get_preparation_data


def _preparation(name: str) -> dict[str, Any]:
    """What multiprocessing tells a child: it would run the module by its name, without the trial's values."""
    told = _prepared(name)
    if isinstance(getattr(sys.modules["__main__"], "__spec__", None), Main):
        told["init_main_from_name"] = _NAME
    return told


def rebuild(namespace: dict[str, Any], file: Path) -> None:
    """Fill ``namespace`` with what the runner announced in ``file``."""
    from workbench.snapshot.reading.cell import PICK, picker, supplied, with_values

    told = json.loads(file.read_text())
    if told.get("seen") is not None:
        from workbench.snapshot.surroundings.seen import Seen

        with contextlib.suppress(OSError):  # without it, fewer files are seen
            Seen(told["seen"])
    # Classes made here belong to the module in which pickles look for them.
    namespace["__name__"] = "__main__"
    for name, value in supplied().items():
        namespace.setdefault(name, value)
    namespace[PICK] = picker(told["values"])
    if told["capture"] is not None:
        from workbench.snapshot.loading import load, overlay
        from workbench.store import Store

        store = Store(told["store"], readonly=True)
        load(store, told["capture"], namespace)
        for digest, names in told["overlays"]:
            overlay(store, digest, names, namespace)
    if told["source"]:
        tree = with_values(ast.parse(told["source"], told["filename"]), told["values"])
        if told["is_script"]:
            run_as(namespace, told["filename"], told["module"])
            if any(map(_is_guard, tree.body)):
                namespace["__name__"] = "__mp_main__"
                exec(compile(tree, told["filename"], "exec", dont_inherit=True), namespace)  # noqa: S102 - it is theirs
                return
        _define(tree, told["source"], told["filename"], told["values"], namespace)


def _define(tree: ast.Module, source: str, filename: str, values: Mapping[str, Any], namespace: dict[str, Any]) -> None:
    """Run the cell's definitions, each on its own: one that fails leaves its name undefined, and code that needs it
    will raise."""
    flags = _future(source)
    for statement in wanted(tree, values):
        try:
            code = compile(ast.Module([statement], []), filename, "exec", flags=flags, dont_inherit=True)
            exec(code, namespace)  # noqa: S102 - the person's own cell
        except Exception as error:
            print(  # noqa: T201 - into the trial's log
                f"A process that the training code started could not repeat line {statement.lineno} of the cell: "
                f"{type(error).__name__}: {error}",
                file=sys.stderr,
            )


def wanted(tree: ast.Module, values: Mapping[str, Any]) -> list[ast.stmt]:
    """The statements that a child repeats: definitions, hyperparameters, and assignments that these functions need.

    Statements in or after the first loop over the trial's steps are not repeated, nor any that use ``trial``.
    """
    kept: list[ast.stmt] = []
    for statement in tree.body:
        loops = isinstance(statement, ast.For | ast.While) and _mentions(statement, {"trial"})
        if loops:
            kept += [one for one in tree.body[tree.body.index(statement) :] if isinstance(one, _DEFINITIONS)]
            break
        kept.append(statement)
    needed: set[str] = set()
    chosen: set[int] = set()
    changed = True
    while changed:
        changed = False
        for position, statement in enumerate(kept):
            if position in chosen or not _is_wanted(statement, needed, values):
                continue
            chosen.add(position)
            needed |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            changed = True
    return [kept[position] for position in sorted(chosen)]


def _is_wanted(statement: ast.stmt, needed: set[str], values: Mapping[str, Any]) -> bool:
    if isinstance(statement, _DEFINITIONS):
        return not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")
    if _is_guard(statement):
        return False
    if isinstance(statement, ast.If | ast.Try):
        # `try: import fast` and the like
        inside = [one for one in ast.walk(statement) if isinstance(one, _DEFINITIONS)]
        return bool(inside) and not _mentions(statement, {"trial"})
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    names = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return bool(names & values.keys()) or (bool(names & needed) and not _mentions(statement, {"trial"}))


def _is_guard(statement: ast.stmt) -> bool:
    """Whether it is ``if __name__ == "__main__":``."""
    return isinstance(statement, ast.If) and _mentions(statement.test, {"__name__"})


def _mentions(statement: ast.AST, names: set[str]) -> bool:
    return any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(statement))


def _future(source: str) -> int:
    """The compiler's flags that ``from __future__`` in the cell asks for."""
    import __future__

    flags = 0
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            for alias in statement.names:
                flags |= getattr(__future__, alias.name).compiler_flag
    return flags


if __name__ == "__mp_main__":
    rebuild(globals(), Path(os.environ[VARIABLE]))

"""A spec's training code: its namespace, what it is called with, and running it. Law: nothing here knows of legs."""

from __future__ import annotations

import importlib
import types
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.records import Program, Spec
from workbench.snapshot import loading, spawned
from workbench.snapshot.reading import cell
from workbench.snapshot.reading.calls import Call, Callee
from workbench.store import Store
from workbench.trial.api.trial import Trial
from workbench.trial.process import tracebacks
from workbench.trial.process.script import in_text


def fill(store: Store, spec: Spec, main: types.ModuleType) -> tuple[dict[str, Any], Callee | None]:
    """The training code's namespace, with the names that it uses from the notebook; and the function, if it is one."""
    program = spec.program
    namespace = main.__dict__
    if program.capture is not None and (program.kind == "script" or not program.module or program.call):
        loading.load(store, program.capture, namespace)
        for digest, names in program.overlays:
            loading.overlay(store, digest, names, namespace)
    return callee(program, namespace) if program.kind == "function" else (namespace, None)


def callee(program: Program, namespace: dict[str, Any]) -> tuple[dict[str, Any], Callee]:
    """The function to call, and its namespace. ``namespace`` loses the names that no code can use."""
    entry = str(program.entry)
    if program.module:
        function = getattr(importlib.import_module(program.module), entry)
    else:
        function = namespace[entry]
    beside = {name: namespace.pop(name) for name in [*namespace] if not name.isidentifier()}
    exchanged = {name for _, names in program.overlays for name in names} & beside.keys()
    if exchanged:
        from workbench.snapshot.reading.callables import parts

        for part in parts(function):
            if part.name in exchanged:
                part.put(beside[part.name])
    given = {name.removesuffix("="): value for name, value in beside.items() if name.endswith("=")}
    return function.__globals__ if program.module else namespace, Callee(
        function, Call.of(program.call, function), given
    )


def prepare(
    spec: Spec, trial: Trial, namespace: dict[str, Any], function: Callee | None
) -> tuple[types.CodeType | Any, tuple[Sequence[Any], Mapping[str, Any]] | None]:
    """The code to run and, for a function, the arguments to call it with; fills the namespace with what they need."""
    program = spec.program
    tracebacks.show_source(program.filename, program.source)
    if function is not None:
        if not program.module:
            namespace["trial"] = trial
        return function.function, function.arguments(trial.configuration, trial)
    if program.kind == "script":
        spawned.run_as(namespace, program.filename, program.module)
    else:
        import workbench

        for name, value in {**cell.supplied(), "wb": workbench}.items():
            namespace.setdefault(name, value)
        namespace["trial"] = trial
    namespace[cell.PICK] = cell.picker(trial.configuration)
    return cell.transform(program.source, program.filename, in_text(program, trial.configuration)), None


def hidden_names(namespace: dict[str, Any]) -> frozenset[str]:
    """Names that are Workbench's or are set for every leg, and so are not state."""
    ours = {**cell.supplied(), "trial": None, cell.PICK: None, "wb": None}
    return frozenset(name for name in ours if name in namespace)


def run_code(code: Any, namespace: dict[str, Any], arguments: tuple[Sequence[Any], Mapping[str, Any]] | None) -> None:
    """Run the training code. Its frames are directly above this one, which tells its functions from ours."""
    if arguments is None:
        exec(code, namespace)  # noqa: S102 - this is the purpose of the program
    else:
        code(*arguments[0], **arguments[1])

"""What makes a program's ``__main__``: its arguments, and for a script its file. Law: the same in runners, in processes
that they start, and where a trained trial is loaded."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from workbench.records import Program
from workbench.snapshot.reading.arguments import argument_words
from workbench.snapshot.reading.script import imports_as


def command_line(program: Program, configuration: Mapping[str, Any]) -> list[str]:
    """``sys.argv`` of training code: an argument parser in a cell sees no words."""
    if program.kind != "script":
        return [program.filename.strip("<>")]
    return [program.filename, *argument_words(program.arguments, configuration)]


def in_text(program: Program, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the hyperparameters that stand in the program's text."""
    outside = {one.name for one in program.arguments}
    return {name: value for name, value in configuration.items() if name not in outside}


@contextlib.contextmanager
def as_main(program: Program, configuration: Mapping[str, Any]) -> Iterator[None]:
    """In a process that is not the program's own, lend it its command line, and a script its place for imports."""
    words = sys.argv
    sys.argv = command_line(program, configuration)
    try:
        with imports_as(program.filename if program.kind == "script" else None, program.module), ending(program):
            yield
    finally:
        sys.argv = words


@contextlib.contextmanager
def ending(program: Program) -> Iterator[None]:
    """Let a script end as scripts do, by ``sys.exit(0)`` or by a command of click's. A cell that does so fails."""
    try:
        yield
    except SystemExit as end:
        if program.kind != "script" or end.code:
            raise

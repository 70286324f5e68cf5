"""A notebook's namespace without a kernel, and the namespace of a runner."""

from __future__ import annotations

import contextlib
import itertools
import linecache
import sys
import textwrap
import types
from collections.abc import Iterator
from typing import Any

from workbench.snapshot.capture import Capture, capture, load
from workbench.snapshot.reading.cell import picker, read_cell, supplied, transform
from workbench.store import Store

_numbers = itertools.count(1)


class Notebook:
    """Cells run one after another, as a kernel runs them; ``__main__`` is the notebook's own module."""

    def __init__(self, **names: Any) -> None:
        self.module = types.ModuleType("__main__")
        self.names = self.module.__dict__
        self.names.update(names)

    def run(self, source: str) -> Notebook:
        text = textwrap.dedent(source).strip("\n") + "\n"
        filename = f"<cell {next(_numbers)} of a test>"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        with main(self.module):
            exec(compile(text, filename, "exec"), self.names)
        return self

    def capture(self, store: Store, *names: str, **options: Any) -> Capture:
        with main(self.module):
            return capture(dict.fromkeys(names, 1), self.names, store, **options)

    def train(self, store: Store, source: str, values: dict[str, Any] | None = None) -> dict[str, Any]:
        """The names of a runner that has run the train cell ``source`` with ``values``."""
        text = textwrap.dedent(source).strip("\n") + "\n"
        with main(self.module):
            cell = read_cell(text + "\nfor _ in trial.steps():\n    pass\n", self.names)
            captured = capture(cell.needs, self.names, store, assigned=cell.assigned, attributes=cell.attributes)
        runner = types.ModuleType("__main__")
        with main(runner):
            if captured.digest is not None:
                load(store, captured.digest, runner.__dict__)
            for name, value in supplied().items():
                runner.__dict__.setdefault(name, value)
            runner.__dict__["__wb_pick__"] = picker(values or {})
            exec(transform(text, "cell", values or {}), runner.__dict__)
        return runner.__dict__


def loaded(store: Store, captured: Capture) -> dict[str, Any]:
    """The names of a runner that has loaded ``captured``."""
    runner = types.ModuleType("__main__")
    assert captured.digest is not None
    with main(runner):
        load(store, captured.digest, runner.__dict__)
    return runner.__dict__


@contextlib.contextmanager
def main(module: types.ModuleType) -> Iterator[None]:
    """``module`` is ``__main__`` inside."""
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        yield
    finally:
        sys.modules["__main__"] = before

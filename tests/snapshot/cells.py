"""Train cells as texts, and the notebook around them."""

import textwrap

import pytest

from workbench.errors import BadInput
from workbench.snapshot.reading.cell import picker, read_cell, transform
from workbench.snapshot.reading.hyperparameters import supplied

LOOP = "\nfor epoch in trial.steps():\n    trial.report(val_acc=1.0)\n"


def text(source: str) -> str:
    return textwrap.dedent(source).strip("\n") + "\n"


def notebook(**names: object) -> dict[str, object]:
    return {"__name__": "__main__", "__builtins__": __builtins__, **names}


def read(source: str, **names: object):
    return read_cell(text(source), notebook(**names))


def refused(source: str, **names: object) -> BadInput:
    with pytest.raises(BadInput) as caught:
        read(source, **names)
    return caught.value


def defined(source: str, **names: object) -> dict[str, object]:
    """A notebook's names after a cell with this source has run."""
    space = notebook(**names)
    exec(compile(text(source), "<earlier cell>", "exec"), space)
    return space


def run(source: str, values: dict[str, object], **names: object) -> dict[str, object]:
    """The names of a runner after the cell's set-up has run with ``values``."""
    space = {**supplied(), **notebook(**names), "__wb_pick__": picker(values)}
    exec(transform(text(source), "cell", values), space)
    return space

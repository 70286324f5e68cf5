"""Two versions of one small notebook, and what their comparison tells."""

from __future__ import annotations

import json
from pathlib import Path

from notebook_world import TRAIN, Notebook, put_results

from workbench.compare import compare
from workbench.store import Store

CELLS = (
    "import numpy as np\nX = np.arange(30.0).reshape(10, 3)",
    "batch = 32",
    "def score(X, lr):\n    return X.sum() + lr * batch",
    "print('only looked at')",
)
RESULTS = {0: ({"lr": 0.1}, [0.1, 0.2, 0.3]), 1: ({"lr": 0.2}, [0.1, 0.25, 0.4])}


def other(store: Store, *cells: str, train: str = TRAIN, results=RESULTS, **settings) -> dict:
    """The comparison of ``digits@1`` with a version made of ``cells``."""
    spec = Notebook(store, Path()).run(*cells).launch(train, **settings)
    put_results(store, spec, results)
    return compare(store, "digits@1", spec.label)


def kinds(found: dict) -> list[str]:
    assert [section["likely"] for section in found["sections"]] == list(range(1, len(found["sections"]) + 1))
    json.dumps(found)
    return [section["kind"] for section in found["sections"]]


def items(found: dict, kind: str) -> dict[str, dict]:
    section = next(section for section in found["sections"] if section["kind"] == kind)
    return {item["name"]: item for item in section["items"]}


def changed(cells: tuple[str, ...], **texts: str) -> list[str]:
    """``cells``, with some of them (``cell2=…``) replaced."""
    return [texts.get(f"cell{number}", cell) for number, cell in enumerate(cells)]

"""A store of its own for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.space import Space, uniform
from workbench.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / ".workbench").create()


@pytest.fixture
def make_spec():
    def make(key: str = "20261120-140312-abcdef", name: str = "digits", version: int = 1, **more) -> Spec:
        return Spec(
            id=key,
            name=name,
            version=version,
            created="2026-11-20T14:03:12.000+00:00",
            goal=Goal("val_acc"),
            space=Space({"lr": uniform(0.0, 1.0)}).to_json(),
            scheduler=Scheduler(last=27),
            searcher=Searcher(),
            program=Program("cell", "x = 1\n", "digits.py"),
            training=Training("/usr/bin/python3", "/tmp", path=("a", "b")),
            **more,
        )

    return make

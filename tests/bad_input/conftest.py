"""A person at a notebook or at a terminal, in a folder without a store."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import shells

from workbench.cli import main


class Said(NamedTuple):
    """What came of a cell or a command: what was raised (None: nothing; a command's exit code), and all it showed."""

    error: BaseException | int | None
    shown: str


class Person:
    """Runs cells and commands, and looks at what they show."""

    def __init__(self, shell, capsys, folder: Path) -> None:
        self._shell, self._capsys, self.folder = shell, capsys, folder

    @property
    def names(self) -> dict:
        return self._shell.user_ns

    def cell(self, text: str) -> Said:
        self._capsys.readouterr()
        result = self._shell.run_cell(text, store_history=True)
        shown = self._capsys.readouterr()
        return Said(result.error_before_exec or result.error_in_exec, shown.out + shown.err)

    def command(self, *words: str) -> Said:
        self._capsys.readouterr()
        code = main(list(words))
        shown = self._capsys.readouterr()
        return Said(code, shown.out + shown.err)

    def started_nothing(self) -> bool:
        """Whether there is no experiment and no request, and no engine was started."""
        store = self.folder / ".workbench"
        left = [path.name for name in ("experiments", "requests") for path in (store / name).glob("*")]
        return not left and not list(store.glob("engine.*"))


@pytest.fixture(scope="module")
def _shell():
    with shells.shell() as found:
        yield found


@pytest.fixture
def person(_shell, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("WORKBENCH_HOME", "WORKBENCH_CLUSTER", "JPY_SESSION_NAME"):
        monkeypatch.delenv(name, raising=False)
    before = set(_shell.user_ns)
    yield Person(_shell, capsys, tmp_path)
    for name in set(_shell.user_ns) - before:
        del _shell.user_ns[name]

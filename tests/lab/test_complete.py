"""Tab in a cell offers what may stand at the cursor, each with its meaning; ``%%train --help`` shows the help."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import shells
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from workbench.cli.verbs import VERBS
from workbench.store import Store
from workbench.store.lists.catalog import Catalog

TRAIN = "%%train digits --goal max val_acc\n"


@pytest.fixture(scope="module")
def shell() -> Iterator[InteractiveShell]:
    with shells.shell() as found:
        found.Completer.use_jedi = False
        yield found


def offered(shell: InteractiveShell, text: str) -> dict[str, str]:
    """What Tab offers at the end of ``text``: whole words, each with what is shown beside it."""
    with provisionalcompleter():
        found = list(shell.Completer.completions(text, len(text)))
    return {one.text: one.type for one in found}


def test_verbs_come_after_the_command_line_with_what_they_do(shell: InteractiveShell) -> None:
    found = offered(shell, "%workbench ")
    assert list(found) == list(VERBS)
    assert found["pause"] == "checkpoint and pause running trials, or one of them"
    assert list(offered(shell, "x = 1\n%workbench pau")) == ["pause"]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("%workbench show --al", ["--all"]),
        ("%workbench engine sta", ["status", "start"]),
        ("%workbench engine start --work", ["--workers"]),
        ("%workbench run --goa", ["--goal"]),
        ("%%train digits --goa", ["--goal"]),
        (f"{TRAIN}#| pri", ["priority: "]),
        (f"{TRAIN}for epoch in trial.ste", [".steps"]),
        (f"{TRAIN}for epoch in trial.steps():\n    trial.lab", [".label"]),
    ],
)
def test_a_word_is_completed_from_its_table(shell: InteractiveShell, typed: str, expected: list[str]) -> None:
    assert list(offered(shell, typed)) == expected


def test_an_option_is_offered_with_its_meaning(shell: InteractiveShell) -> None:
    assert offered(shell, "%%train digits --eta")["--eta"] == "one in N continues at each rung (3)"
    assert offered(shell, f"{TRAIN}trial.rest")[".restore"].startswith("The file or folder last given to trial.save")


def test_a_cell_that_trains_nothing_knows_no_trial(shell: InteractiveShell) -> None:
    assert offered(shell, "for epoch in trial.ste") == {}


def test_names_of_experiments_are_those_of_the_store(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "store"))
    assert offered(shell, "%workbench show dig") == {}
    store = Store(tmp_path / "store").create()
    catalog = Catalog(store)
    for version in (1, 2):
        fields = {"label": f"digits@{version}", "state": "running", "created": f"2026-01-0{version}", "goal": "max a"}
        catalog.upsert_experiment(f"x{version}", fields)
    catalog.close()
    assert offered(shell, "%workbench show dig") == {"digits@2": "max a", "digits@1": "max a"}
    assert list(offered(shell, "%workbench diff digits@1 digits@")) == ["digits@2", "digits@1"]
    store.catalog_path.write_bytes(b"{")
    assert "digits@1" not in offered(shell, "%workbench show digits@")


def test_help_is_shown_and_nothing_is_trained(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("%%train --help", "%%train digits -h"):
        capsys.readouterr()
        result = shell.run_cell(f"{line}\nlr = uniform(0, 1)\n")
        assert result.success
        assert "--scheduler hyperband|asha|median|all" in capsys.readouterr().out

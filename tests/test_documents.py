"""What the README and the quickstart show is what Workbench understands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest

from workbench.cli.verbs import VERBS, parser_of
from workbench.experiment import grammar
from workbench.search import plan
from workbench.snapshot.reading.cell import read_cell

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICKSTART = nbformat.read(ROOT / "notebooks" / "quickstart.ipynb", as_version=4)

SHOWN = re.findall(r"```python\n(%%train .*?)```", README, flags=re.DOTALL)
TRAINED = [cell.source for cell in QUICKSTART.cells if cell.source.startswith("%%train")]
COMMANDS = re.findall(r"^\$ workbench (.*?)(?:\s+#.*)?$", README, flags=re.MULTILINE)

#: Stands for whatever an earlier cell defined.
ANYTHING = SimpleNamespace()


@pytest.mark.parametrize("cell", SHOWN + TRAINED, ids=lambda cell: cell.splitlines()[0])
def test_the_first_line_of_a_train_cell_is_understood(cell):
    line = cell.splitlines()[0].removeprefix("%%train")
    assert grammar.parse(line).name == "digits"


@pytest.mark.parametrize("cell", [SHOWN[0], *TRAINED], ids=["readme", "quickstart"])
def test_the_train_cell_is_a_search_over_three_hyperparameters(cell):
    namespace = dict.fromkeys(("accuracy", "loader", "nn", "torch", "val"), ANYTHING)
    body = cell.partition("\n")[2]
    assert sorted(read_cell(body, namespace).space.names) == ["dropout", "hidden", "lr"]


def test_the_quickstart_says_what_its_search_will_do():
    (cell,) = TRAINED
    options = grammar.parse(cell.splitlines()[0].removeprefix("%%train"))
    predicted = plan(options.scheduler_for(options.scheduler))
    text = next(cell.source for cell in QUICKSTART.cells if cell.id == "about-train")
    trials, steps, last = predicted.trials, predicted.steps, options.steps[1]
    assert (
        f"{trials} configurations in {['no', 'one', 'two', 'three', 'four'][len(predicted.brackets)]} brackets" in text
    )
    assert f"{steps} epochs in all" in text.replace("\n", " ")
    assert f"{trials * last:,}" in text


def test_the_quickstart_is_kept_without_outputs():
    assert not [cell.id for cell in QUICKSTART.cells if cell.get("outputs") or cell.get("execution_count")]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_is_understood(command):
    name, *words = shlex.split(command)
    if VERBS[name].reads_words:
        assert grammar.parse_script(words).script == "train.py"
    else:
        parser_of(name, VERBS[name]).parse_args(words)


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#:]+)\)", README))
def test_a_link_of_the_readme_leads_somewhere(link):
    assert (ROOT / link).exists()


def test_the_functions_of_the_docs_are_understood(tmp_path, monkeypatch):
    """The examples in docs/functions.md, in order; drafts train nothing."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "functions.md").read_text(encoding="utf-8")
    page = tmp_path / "page.py"
    page.write_text("\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)))
    names: dict[str, Any] = {"__name__": "__main__", "make": ANYTHING, "one_epoch": ANYTHING}
    exec(compile(page.read_text(), str(page), "exec"), names)
    assert names["exp"].plan().trials > 100
    assert names["exp"]._cell.call["whole"] == "config"

"""Every example of the guide runs: as cells of one real kernel and as commands of one shell, page after page."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from guide.pages import DOCS, Example, examples
from IPython.core.inputtransformer2 import TransformerManager
from notebook_kernel import started

from workbench.cli.verbs import VERBS, parser_of
from workbench.experiment import grammar

#: Pages whose examples have tests of their own, and the command line, which has none to run.
APART = {
    "frameworks.md": "tests/frameworks/test_documented.py",
    "functions.md": "tests/test_documents.py",
}
PAGES = [
    path
    for path in sorted(DOCS.rglob("*.md"))
    if not {"decisions", "_site"} & set(path.parts) and path.name not in APART and examples(path)
]
#: Seconds for one cell or one command.
LIMIT_S = 120


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Iterator[Path]:
    """A folder with a store, whose engine is ended with the tests."""
    folder = tmp_path_factory.mktemp("guide")
    yield folder
    stop = [sys.executable, "-m", "workbench", "engine", "stop", "--store", folder / ".workbench"]
    subprocess.run(stop, check=False, capture_output=True, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def surroundings(place) -> dict[str, str]:
    """The variables of the kernel and of the shell."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "WORKBENCH_HOME": str(place / ".workbench"), "PATH": path, "WORKBENCH_AHEAD": "0"}


@pytest.fixture(scope="module")
def run_cell(place, surroundings) -> Iterator[Callable[[str], str]]:
    """Execute a cell, and return what it printed. Every page has the same kernel, emptied before it begins."""
    manager, client = started(
        kernel_name="python3", cwd=str(place), env=surroundings, extra_arguments=["--IPKernelApp.log_level=ERROR"]
    )

    def run(text: str) -> str:
        shown: list[str] = []

        def hear(message: dict) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                shown.append(content["text"])
            elif message["msg_type"] in ("execute_result", "display_data"):
                shown.append(content["data"].get("text/plain", ""))

        answer = client.execute_interactive(text, timeout=LIMIT_S, output_hook=hear, allow_stdin=False)["content"]
        assert answer["status"] == "ok", f"{text}\n{''.join(shown)}\n" + "\n".join(answer.get("traceback", ()))
        return "".join(shown)

    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def typed(line: str, folder: Path, surroundings: dict[str, str]) -> str:
    """What a command of a shell prints, which must succeed."""
    done = subprocess.run(
        ["bash", "-ec", line], cwd=folder, env=surroundings, capture_output=True, text=True, timeout=LIMIT_S,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"$ {line}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_the_examples_of_a_page_run_in_order(page, place, surroundings, run_cell):
    folder = place / page.relative_to(DOCS).with_suffix("")
    folder.mkdir(parents=True)
    found = examples(page)
    if any(one.does == "cell" for one in found):
        run_cell("%reset -f")
        run_cell(f"%cd {folder}")
        run_cell("%load_ext workbench\nimport workbench as wb")
    for one in found:
        where = f"{page.name}, line {one.line}"
        try:
            if one.does == "cell":
                run_cell(one.text)
            elif one.does == "shell":
                printed = [line.split() for line in typed(one.text, folder, surroundings).splitlines()]
                for line in one.prints.splitlines():
                    assert line.split() in printed, f"$ {one.text}\nit does not print: {line}"
            elif one.does == "file":
                (folder / one.about).parent.mkdir(parents=True, exist_ok=True)
                (folder / one.about).write_text(one.text)
        except (AssertionError, subprocess.TimeoutExpired, TimeoutError) as error:
            raise AssertionError(f"{where}: {error}") from None


UNRUN = [(page, one) for page in PAGES for one in examples(page) if one.does == "nothing"]


@pytest.mark.parametrize(("page", "one"), UNRUN, ids=lambda value: getattr(value, "name", None) or f"line {value.line}")
def test_an_example_that_cannot_run_here_is_understood(page: Path, one: Example):
    assert len(one.about) > 8, "why it cannot run"
    if "$ " not in one.text:
        first, _, body = one.text.partition("\n")
        if first.startswith("%%train"):
            assert grammar.parse(first.removeprefix("%%train")).goal
        ast.parse(TransformerManager().transform_cell(body if first.startswith("%%") else one.text))
    for line in re.findall(r"^\$ workbench ((?:.*\\\n)*.*)$", one.text, flags=re.MULTILINE):
        name, *words = shlex.split(line, comments=True)
        if VERBS[name].reads_words:
            assert grammar.parse_script(words).goal
        else:
            parser_of(name, VERBS[name]).parse_args(words)

"""What may be typed: mistakes are one calm line with the nearest name, and exit codes mean something."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli.stored import Typed, Written, typed

from workbench.cli import codes, verbs
from workbench.errors import (
    BadMetric,
    EngineRunning,
    NoAnswer,
    NotFound,
    StoreFull,
    TrialFailed,
    WorkbenchError,
)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("lss", "Did you mean ls?"),
        ("doctr", "Did you mean doctor?"),
        ("zzzzz", "The verbs are ls, show"),
        ("ls --jsno", "Did you mean --json?"),
        ("ls x y", "is an unexpected argument"),
        ("ls --json=1", "--json takes no value: '1' was given"),
        ("--jsno ls", "Options of ls follow it"),
        ("--stroe x ls", "Did you mean --store?"),
        ("--store", "needs a folder"),
        ("ls --store", "expected one argument"),
        ("ls --state runing", "Did you mean running?"),
        ("ls --last 0", "a whole number of 1 or more"),
        ("show", "REF"),
        ("engine strat", "Did you mean start?"),
        ("logs digits/t0000 --tail x", "a whole number of 0 or more"),
        ("plan", "--steps"),
        ("plan --steps 0-9", "1 ≤ first ≤ last"),
        ("plan --steps 9-3", "1 ≤ first ≤ last"),
        ("plan --steps 9 --eta 1", "a whole number of 2 or more"),
        ("plan --steps 9 --scheduler hyperbnad", "Did you mean hyperband?"),
        ("plan digits --steps 9", "expected only one of them"),
        ("export digits digits.json", "expected a name that ends with .zip"),
        ("export digits digits", "expected a name that ends with .zip"),
        ("export digits digits.csv --mask", "--mask is for a .zip; digits.csv was given"),
        ("export digits --to mlflow:runs --no-checkpoints", "--no-checkpoints is for a .zip; mlflow:runs was given"),
        ("export digits --model onnx --data", "--data is for a .zip; --model was given"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(line: str, said: str) -> None:
    found = typed(*line.split())
    assert found.code == codes.BAD, found
    assert said in found.err
    assert found.err.count("\n") == 1
    assert not found.out


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("export digits/t0007 --model onnx model.onnx", "target", "model.onnx"),
        ("export --no-checkpoints digits --json digits.zip", "target", "digits.zip"),
        ("fork digits/t0007:27 --steps 54 lr=0.1 width=3", "changes", ["lr=0.1", "width=3"]),
        ("keep digits --json all", "rule", "all"),
    ],
)
def test_arguments_may_stand_behind_options(line: str, name: str, value: object) -> None:
    verb, *words = line.split()
    assert getattr(verbs._parsed(verb, verbs.VERBS[verb], words), name) == value


def test_control_characters_that_were_typed_do_not_reach_the_terminal() -> None:
    found = typed("\x1b[31mls")
    assert "\x1b" not in found.err
    assert "\\x1b" in found.err


def test_help_names_every_verb_and_every_exit_code() -> None:
    found = typed("--help")
    assert found.code == 0
    for verb in verbs.VERBS:
        assert f"  {verb} " in found.out
    for code, meaning in codes.EXIT_CODES.items():
        assert f"  {code} " in found.out
        assert meaning in found.out
    assert typed().out == found.out


@pytest.mark.parametrize("verb", verbs.VERBS)
def test_every_verb_has_help(verb: str) -> None:
    found = typed(verb, "--help")
    assert found.code == 0
    assert verbs.VERBS[verb].help.capitalize() in " ".join(found.out.split())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BadMetric("x"), 2),
        (NotFound("x"), 3),
        (EngineRunning("x"), 4),
        (NoAnswer("x"), 4),
        (StoreFull("x"), 5),
        (PermissionError(13, "x"), 5),
        (TrialFailed("x"), 1),
        (WorkbenchError("x"), 1),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 0),
    ],
)
def test_each_error_has_its_exit_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, type_: Typed
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr("workbench.cli.commands.lists.ls", fail)
    monkeypatch.setattr(verbs, "_silence", lambda: None)
    found = type_("ls")
    assert found.code == code
    assert "Traceback" not in found.err


def test_a_store_that_is_not_there_is_not_found_and_not_made(tmp_path) -> None:
    found = typed("ls")
    assert found.code == codes.MISSING
    assert "there is no store at" in found.err
    assert not (tmp_path / ".workbench").exists()


def test_the_store_may_stand_before_or_behind_the_verb_or_in_the_environment(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.experiment()
    root = str(written.store.root)
    before, behind = typed("--store", root, "ls"), typed("ls", "--store", root)
    monkeypatch.setenv("WORKBENCH_HOME", root)
    assert before.out == behind.out == typed("ls").out != ""


def test_comparing_notebooks_compiles_no_grammar_of_addresses() -> None:
    code = (
        "import sys; sys.argv[1:] = ['--version']; import workbench.cli\n"
        "try: workbench.cli.command()\n"
        "except SystemExit: pass\n"
        "import nbformat; print(sys.modules['rfc3987_syntax'], 'lark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "None False"


def test_importing_the_command_line_is_quick_and_touches_nothing_large() -> None:
    code = (
        "import sys, workbench.cli.verbs, workbench.cli.commands.look;"
        "print([n for n in ('dask','distributed','torch','pandas','numpy','rich','IPython') if n in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_real_process_lists_and_stands_a_closed_pipe(written: Written) -> None:
    for version in range(1, 4):
        written.experiment(version=version)
    words = [sys.executable, "-m", "workbench", "--store", str(written.store.root), "ls"]
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in found.stdout.splitlines()] == ["experiment", "digits@3", "digits@2", "digits@1"]
    assert "\x1b" not in found.stdout
    closed = subprocess.run(["sh", "-c", '"$@" | true', "sh", *words], capture_output=True, text=True, check=True)
    assert not closed.stderr


def test_a_terminal_that_knows_only_ascii_gets_something(written: Written) -> None:
    written.experiment(best=None)
    words = [sys.executable, "-m", "workbench", "--store", str(written.store.root), "ls"]
    found = subprocess.run(words, capture_output=True, env={"PYTHONIOENCODING": "ascii", "PATH": ""}, check=True)
    assert b"digits@1" in found.stdout


@pytest.mark.parametrize(
    "line",
    ["export digits mine.csv", "export digits --to mine.parquet", "why digits/t0000 digits/t0001 --output mine.ipynb"],
)
def test_a_file_that_is_there_is_overwritten_only_on_request(
    written: Written, type_: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    written.experiment()
    monkeypatch.chdir(tmp_path)  # the lines have relative paths, as people write them
    *words, name = line.split()
    Path(name).write_text("mine")
    found = type_(*words, name)
    assert found.code == 2
    assert f"{name} already exists" in found.err
    assert "--force" in found.err
    assert Path(name).read_text() == "mine"
    if words[0] == "export":
        assert type_(*words, name, "--force").code == 0
        assert Path(name).read_bytes() != b"mine"


@pytest.mark.parametrize("words", [["--help"], ["plan", "--help"], ["ls"]])
def test_a_terminal_that_lacks_a_letter_gets_the_rest(written: Written, words: list[str]) -> None:
    written.experiment(best=None)
    environment = {"PYTHONIOENCODING": "latin-1", "PATH": ""}
    command = [sys.executable, "-m", "workbench", "--store", str(written.store.root), *words]
    found = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (found.returncode, found.stderr) == (0, b"")
    assert found.stdout


@pytest.mark.parametrize("words", ["ls", "ls --json", "show digits", "--help", "export digits points.csv"])
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", ">&- 2>&- <&-"])
def test_a_service_may_start_it_with_closed_streams(written: Written, tmp_path: Path, words: str, closed: str) -> None:
    written.experiment()
    line = f'"$0" -m workbench --store "$1" {words} {closed}'
    command = ["sh", "-c", line, sys.executable, str(written.store.root)]
    found = subprocess.run(command, capture_output=True, cwd=tmp_path, check=False)
    assert (found.returncode, found.stderr) == (0, b"")
    if "export" in words:
        assert (tmp_path / "points.csv").read_text().startswith("experiment,trial,metric")


def test_the_docs_name_every_verb_and_say_what_each_exit_code_means() -> None:
    text = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    for verb in verbs.VERBS:
        assert f"`workbench {verb}" in text
    for code, meaning in codes.EXIT_CODES.items():
        assert f"| {code} | {meaning} |" in text

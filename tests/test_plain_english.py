"""Texts are in plain English: each is searched for words that a reader would have to decode.

What users read. Python: every string of two words or more, except docstrings, so that a text is checked wherever it is
put together (an error, a line of `say`, an option's help, a reason). TypeScript: the texts of `trans`. Markdown: whole
files. Notebooks: their Markdown cells. YAML: the lines of the API's description.

What contributors read: docstrings and comments of Python, including those of the tests, and comments of TypeScript.
"""

from __future__ import annotations

import ast
import functools
import io
import json
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FRONTEND = ROOT / "workbench_ext" / "frontend" / "src"

#: Words that are not written, and what is written instead.
HINTS = {
    r"nobody|no-one": "name the actor: no trial, no engine, nothing; or use the passive",
    r"who(ever|mever|soever)": "name the actor: the user, the caller, the next engine",
    r"somebody|some person": "name the actor: you, another user, another program",
    r"anew": "again; or restart, rebuild, retrain",
    r"aside|thereof|therein": "say it without this word",
    r"what was found": "the results",
    r"(to|cannot|can) be had": "available",
    r"(be|was|not) begun": "started",
    r"wanted": "expected",
    r"write for example": "For example: …",
    r"makes? no sense": "is not valid",
    r"(what|that) nothing (names|refers to)|that no rule keeps": "unreferenced; not kept by any rule",
    r"all the same": "anyway",
    r"lets? it go": "remove the pin; release",
    r"take (it|them|the \w+) from a copy": "restore it from a copy",
    r"parts? (at|from) step": "differs from step",
    r"says how it stands": "shows its state",
    r"comes? to (its|their) (own )?end|came to (its|their) (own )?end": "ends; ended by itself",
    r"is no (?!longer\b|\w+ (left|more)\b)\w+": "is not a …",
    r"is too much": "is an unexpected argument",
    r"at hand": "available",
}
RIDDLE = re.compile(rf"(?<!`)(?<![-\w])(?:{'|'.join(f'(?:{words})' for words in HINTS)})(?![-\w])", re.IGNORECASE)

#: Words that stay in a file, with the reason.
EXCEPT = {
    (
        "src/workbench/search/machine.py",
        "came to its own end",
    ): "journals hold this reason, and search tests compare it",
}
#: "there is no GPU", "it is no longer used": ordinary English.
ORDINARY = re.compile(r"\b(there|here) is no\b", re.IGNORECASE)


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@functools.cache
def parsed(path: Path) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Strings and docstrings of a module, with their lines. Parsing all modules takes ten seconds: it is done once."""
    nodes = [*ast.walk(ast.parse(path.read_text()))]
    documented = [
        node for node in nodes if isinstance(node, DOCUMENTED) and node.body and isinstance(node.body[0], ast.Expr)
    ]
    docs = {id(node.body[0].value) for node in documented}
    strings = []
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(v.value) if isinstance(v, ast.Constant) else "…" for v in node.values)
            strings.append((node.lineno, text))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            strings += [(node.lineno, node.value)] if " " in node.value.strip() else []
    told = [(node.body[0].lineno, " ".join(str(ast.get_docstring(node) or "").split())) for node in documented]
    return strings, [(line, text) for line, text in told if text]


def of_python(path: Path) -> Iterator[tuple[int, str]]:
    """Each string of a module, except docstrings, that has two words or more, with its line; of f-strings the text."""
    yield from parsed(path)[0]


STRING = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`"""
TRANSLATED = re.compile(rf"trans\.(?:__|_n)\(\s*((?:{STRING})(?:\s*[+,]\s*(?:{STRING}))*)")


def of_typescript(path: Path) -> Iterator[tuple[int, str]]:
    """Each text that is translated, with its line."""
    source = path.read_text()
    for found in TRANSLATED.finditer(source):
        yield source.count("\n", 0, found.start(1)) + 1, found[1]


def of_markdown(path: Path) -> Iterator[tuple[int, str]]:
    """Each line outside of fenced code, with its number."""
    fenced = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fenced ^= line.startswith("```")
        if not fenced:
            yield number, line


def of_yaml(path: Path) -> Iterator[tuple[int, str]]:
    """Each line, with its number."""
    yield from enumerate(path.read_text().splitlines(), 1)


def of_notebook(path: Path) -> Iterator[tuple[int, str]]:
    """Each line of a Markdown cell, with the cell's number."""
    for number, cell in enumerate(json.loads(path.read_text())["cells"], 1):
        if cell["cell_type"] == "markdown":
            yield from ((number, line) for line in "".join(cell["source"]).splitlines())


def of_contributors(path: Path) -> Iterator[tuple[int, str]]:
    """Each docstring of a module, and each comment, with its line; comments on lines in a row are one text."""
    yield from parsed(path)[1]
    below, text, end = 0, "", 0
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            words, line = token.string.lstrip("#: "), token.start[0]
            if text and line != end + 1:
                yield below, text
                text = ""
            below, text, end = (below, f"{text} {words}", line) if text else (line, words, line)
    if text:
        yield below, text


COMMENT = re.compile(r"^\s*(?://|/\*\*?|\*(?!/))\s?(.*?)(?:\*/)?$|\S\s+// (.*)$")


def of_typescript_comments(path: Path) -> Iterator[tuple[int, str]]:
    """Each line of a comment, with its number."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if found := COMMENT.search(line):
            yield number, found[1] or found[2] or ""


READERS = {".py": of_python, ".md": of_markdown, ".yaml": of_yaml, ".ipynb": of_notebook}


def riddles(path: Path, read: Callable[[Path], Iterator[tuple[int, str]]] | None = None) -> list[str]:
    """What is to be rewritten in a file, one line each: file, line, the words and what to write instead."""
    read = read or READERS.get(path.suffix, of_typescript)
    place = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    found = {}
    for line, text in read(path):
        for match in RIDDLE.finditer(ORDINARY.sub("", text)):
            words = match[0]
            if any(place == file and words.lower().startswith(some) for file, some in EXCEPT):
                continue
            hint = next(hint for pattern, hint in HINTS.items() if re.fullmatch(pattern, words, re.IGNORECASE))
            found[line, words] = f"{place}:{line}: {words!r}: write {hint!r} ({text.strip()[:80]})"
    return [found[key] for key in sorted(found)]


FILES = sorted(
    [
        *(ROOT / "src" / "workbench").rglob("*.py"),
        *(ROOT / "workbench_ext" / "server").rglob("*.py"),
        *(path for path in FRONTEND.rglob("*.ts*") if ".test." not in path.name),
        ROOT / "workbench_ext" / "server" / "openapi.yaml",
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "notebooks").glob("*.ipynb"),
    ]
)

MODULES = sorted(
    path
    for folder in ("src/workbench", "workbench_ext/server", "notebooks", "benchmarks", "tests")
    for path in (ROOT / folder).rglob("*.py")
)


def test_what_people_read_is_plain_english() -> None:
    wrong = [line for path in FILES for line in riddles(path)]
    assert not wrong, "\n".join(["Write as Python's documentation does (HINTS in this file):", *wrong])


def test_docstrings_and_comments_are_plain_english() -> None:
    wrong = [line for path in MODULES for line in riddles(path, of_contributors)]
    wrong += [
        line for path in FILES if path.suffix in (".ts", ".tsx") for line in riddles(path, of_typescript_comments)
    ]
    assert not wrong, "\n".join(["Write as Python's documentation does (HINTS in this file):", *wrong])


def test_texts_are_found_in_all_kinds_of_files() -> None:
    counts = {suffix: sum(len(list(of(p))) for p in FILES if p.suffix in suffix) for suffix, of in (
        ((".py",), of_python), ((".ts", ".tsx"), of_typescript), ((".md",), of_markdown), ((".yaml",), of_yaml)
    )}  # fmt: skip
    assert all(count > 300 for count in counts.values()), counts
    assert sum(len(list(of_notebook(path))) for path in FILES if path.suffix == ".ipynb") > 50
    assert sum(len(parsed(path)[1]) for path in MODULES) > 3000


PLANTED = {
    "error.py": 'def f(x):\n    """Nobody reads this."""\n    raise ValueError(f"{x}: wanted a number")\n',
    "split.py": 'print(\n    "results are "\n    "made anew"\n)\n',
    "help.py": 'option.add_argument("--x", help="whoever wants it")\n',
    "label.tsx": "const a = b;\nthis._trans.__('Nobody has reported %1 yet.', metric);\n",
    "page.md": "# Head\n\nWhat was found stays.\n",
    "not.md": "It is no option.\n",
    "api.yaml": "description: What nobody asked for\n",
    "book.ipynb": '{"cells": [{"cell_type": "markdown", "source": ["# Head\\n", "Made anew."]}]}',
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_riddle_is_found_with_file_line_and_hint(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(PLANTED[name])
    [found] = riddles(path)
    assert re.match(rf"{re.escape(name)}:\d+: '[\w ]+': write '", found), found


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """As if nobody had asked."""\n',
        '"""The law.\n\nWhoever asks, waits."""\n',
        "x = 1  # made anew\n",
        "#: Those that were made,\n#: or what was\n#: found.\nx = 1\n",
    ],
)
def test_a_riddle_in_a_docstring_or_comment_is_found(tmp_path: Path, source: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert riddles(path) == []
    [found] = riddles(path, of_contributors)
    assert re.match(r"module\.py:[12]: ", found), found


def test_a_riddle_in_a_comment_of_typescript_is_found(tmp_path: Path) -> None:
    path = tmp_path / "view.ts"
    path.write_text("/** Drawn\n * anew. */\nconst a = 1; // nobody asks\n// Kept aside.\n")
    assert [line.split(":")[1] for line in riddles(path, of_typescript_comments)] == ["2", "3", "4"]


@pytest.mark.parametrize("text", ["there is no GPU here", "it is no longer used", "a network is needed", "`--mend`"])
def test_ordinary_words_pass(tmp_path: Path, text: str) -> None:
    path = tmp_path / "page.md"
    path.write_text(text)
    assert riddles(path) == []

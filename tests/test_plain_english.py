"""What people read is in plain English: each text that a user may see is searched for words that make it a riddle.

Python: every string of two words or more, docstrings excepted, so that a text counts wherever it is put together
(an error, a line of `say`, an option's help, a reason). TypeScript: the texts of `trans`. Markdown: whole files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
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


def of_python(path: Path) -> Iterator[tuple[int, str]]:
    """Each string of a module that is no docstring and has two words or more, with its line; of f-strings the text."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse(path.read_text())
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(str(v.value) if isinstance(v, ast.Constant) else "…" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield from [(node.lineno, node.value)] if " " in node.value.strip() else []


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


def riddles(path: Path) -> list[str]:
    """What is to be rewritten in a file, one line each: file, line, the words and what to write instead."""
    read = {".py": of_python, ".md": of_markdown}.get(path.suffix, of_typescript)
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
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.md"),
    ]
)


def test_what_people_read_is_plain_english() -> None:
    wrong = [line for path in FILES for line in riddles(path)]
    assert not wrong, "\n".join(["Write as Python's documentation does (HINTS in this file):", *wrong])


def test_texts_are_found_in_all_three_kinds_of_files() -> None:
    counts = {suffix: sum(len(list(of(p))) for p in FILES if p.suffix in suffix) for suffix, of in (
        ((".py",), of_python), ((".ts", ".tsx"), of_typescript), ((".md",), of_markdown)
    )}  # fmt: skip
    assert all(count > 300 for count in counts.values()), counts


PLANTED = {
    "error.py": 'def f(x):\n    """Nobody reads this."""\n    raise ValueError(f"{x}: wanted a number")\n',
    "split.py": 'print(\n    "results are "\n    "made anew"\n)\n',
    "help.py": 'option.add_argument("--x", help="whoever wants it")\n',
    "label.tsx": "const a = b;\nthis._trans.__('Nobody has reported %1 yet.', metric);\n",
    "page.md": "# Head\n\nWhat was found stays.\n",
    "not.md": "It is no option.\n",
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_riddle_is_found_with_file_line_and_hint(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(PLANTED[name])
    [found] = riddles(path)
    assert re.match(rf"{re.escape(name)}:\d+: '[\w ]+': write '", found), found


@pytest.mark.parametrize("text", ["there is no GPU here", "it is no longer used", "a network is needed", "`--mend`"])
def test_ordinary_words_pass(tmp_path: Path, text: str) -> None:
    path = tmp_path / "page.md"
    path.write_text(text)
    assert riddles(path) == []

"""The examples of a page of the guide, in the order in which they stand there.

A ``python`` block is a cell; one whose first line is a comment that names a file, such as ``# train.py``, is that file.
Lines of a ``console`` block that begin with ``$ `` are typed into a shell; indented lines below the block are what the
last of them prints. Before a block, ``<!-- not run: REASON -->`` says why it cannot run here, and ``<!-- before:
… -->`` is code that is run before it and not shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(
    r"(?:^<!-- (?P<word>not run|before):(?P<said>.*?)-->\n+)?"
    r"^```(?P<kind>python|console)\n(?P<text>.*?)^```$"
    r"(?:\n\n(?P<prints>(?:    [^\n]+\n?)+))?",
    flags=re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"# ([\w/-]+\.py)\n")


@dataclass(frozen=True, slots=True)
class Example:
    """One block: what to do with it, and the line on which it stands."""

    does: Literal["cell", "file", "shell", "nothing"]
    text: str
    line: int
    #: The file's name, or why the block is not run.
    about: str = ""
    #: What a command prints, by the page.
    prints: str = ""


def examples(page: Path) -> list[Example]:
    """The examples of ``page``."""
    found = []
    text = page.read_text(encoding="utf-8")
    for block in _BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("text"))
        said = (block["said"] or "").strip()
        if block["word"] == "before":
            found.append(Example("cell", said, line))
        if block["word"] == "not run":
            found.append(Example("nothing", block["text"], line, said))
        elif block["kind"] == "console":
            typed = re.findall(r"^\$ ((?:.*\\\n)*.*)$", block["text"], flags=re.MULTILINE)
            found += [Example("shell", one, line) for one in typed]
            if typed:
                found[-1] = replace(found[-1], prints=block["prints"] or "")
        elif name := _FILE.match(block["text"]):
            found.append(Example("file", block["text"], line, name[1]))
        else:
            found.append(Example("cell", block["text"], line))
    return found

"""The magic's line with its variables. Law: ``$name`` and ``{expression}`` are replaced; a dict that is typed stays."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Mapping
from typing import Any

from IPython.utils.text import DollarFormatter

from workbench.errors import BadInput, BadOption
from workbench.given import read
from workbench.space import label

__all__ = ["expanded"]

_VARIABLE = re.compile(r"\$\$?[\w.]+")


def expanded(line: str, names: Mapping[str, Any]) -> str:
    """The line with ``$name`` and ``{expression}`` replaced, as papermill's parameters reach it. Raises BadOption."""
    if "$" not in line and "{" not in line:
        return line
    try:
        return str(_Formatter().vformat(_kept(line), args=[], kwargs=dict(names)))
    except Exception as error:
        raise BadOption(
            f"%%train {line}: its variables cannot be expanded ({type(error).__name__}: {error}). Expected $name of a "
            "name that the notebook has; run the cell that sets it, or write $$ for a dollar sign."
        ) from None


class _Formatter(DollarFormatter):  # type: ignore[misc]  # IPython's class has no types
    """Writes configurations so that the line, split like a shell's, has them as one word, with or without quotes."""

    def format_field(self, value: Any, spec: str) -> str:
        if not spec and not isinstance(value, str | os.PathLike):
            try:
                rows = read(value, "first").values
            except BadInput:
                rows = ()
            if rows:
                text = json.dumps(rows, separators=(",", ":"), default=label)
                text = re.sub(r"[ ']", lambda found: f"\\u{ord(found[0]):04x}", text)
                return text.replace("\\", "\\\\").replace('"', '\\"')
        return str(super().format_field(value, spec))


def _kept(line: str) -> str:
    """``line`` with the braces of dicts doubled, which the formatter takes for text."""
    parts: list[str] = []
    at = 0
    while at < len(line):
        end = _end(line, at) if line[at] == "{" else at
        part = line[at : end + 1]
        is_dict = len(part) > 1 and _is_dict(_VARIABLE.sub("0", part))
        parts.append(part.replace("{", "{{").replace("}", "}}") if is_dict else line[at])
        at = end + 1 if is_dict else at + 1
    return "".join(parts)


def _end(line: str, start: int) -> int:
    """Where the brace at ``start`` is closed; ``start`` itself if it is not."""
    depth = 0
    for at in range(start, len(line)):
        depth += (line[at] == "{") - (line[at] == "}")
        if depth == 0:
            return at
    return start


def _is_dict(text: str) -> bool:
    for reader in (json.loads, ast.literal_eval):
        try:
            return isinstance(reader(text), dict)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return False

"""A cell's text and its syntax tree: lines, segments, parents. Law: it only reads."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator


class Text:
    """A tree with its source.

    first_line: number of the source's first line within the cell; kind: ``cell`` or ``function``. Both are for
    messages.
    """

    def __init__(self, tree: ast.Module, source: str, first_line: int = 1, kind: str = "cell") -> None:
        self.kind = kind
        self.tree = tree
        self.source = source
        # Lines as Python's tokenizer counts them; `splitlines` also breaks at form feeds and the like.
        self.lines = re.split(r"\r\n|\r|\n", source)
        self.first_line = first_line

    @functools.cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @functools.cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes, in any order."""
        return list(ast.walk(self.tree))

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node of which ``node`` is a part."""
        return self._parents.get(node)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Its parent, that one's parent, and so on."""
        above = self._parents.get(node)
        while above is not None:
            yield above
            above = self._parents.get(above)

    def line(self, node: ast.AST) -> int:
        """The number of the line on which ``node`` begins, for messages."""
        return int(getattr(node, "lineno", 1)) + self.first_line - 1

    def head(self, node: ast.AST) -> str:
        """That line, without its indentation."""
        number = int(getattr(node, "lineno", 1))
        return self.lines[number - 1].strip() if number <= len(self.lines) else ""

    def segment(self, node: ast.expr | ast.stmt) -> str:
        """The text of ``node`` as it was typed (``ast.get_source_segment`` splits the whole source at each call)."""
        first, last = node.lineno, node.end_lineno or node.lineno
        if last > len(self.lines):
            return ast.unparse(node)
        lines = [line.encode() for line in self.lines[first - 1 : last]]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return b"\n".join(lines).decode(errors="replace")

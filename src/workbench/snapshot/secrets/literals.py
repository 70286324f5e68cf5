"""Secrets in code. Law: only literals and comments change; the code still runs until it needs a masked value.

The time is linear in the code.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from workbench.snapshot.secrets.masking import BY_NAME, MASK, Found, hearing, is_secret, masked, may_hold, replaced
from workbench.snapshot.secrets.secret_names import holds_secret, places, small

#: IPython's lines with their continuation lines, and names assigned from such a line.
_MAGIC = re.compile(r"(?m)^([^\S\n]*)(?:[%!?]|[\w.,*\[\]'\" \t]+=\s*[%!](?=\S))(?:.*\\\n)*.*$")
#: What follows a name that a cell assigns a text; cells without it are not parsed.
_GIVES = re.compile(
    r"""(?ix) (?: ["']?\]{0,4}\s{0,64}(?::[^=\n]{0,100})?:?=(?!=) | ["']\]?\s{0,64}[:,]
                | \s{0,64},[^=\n]{0,100}=(?!=) )
    [\s(\[]{0,64}(?:[\w.\"']{1,100}\s{0,8},\s{0,8}){0,5}[rbuf]{0,2}[\"']"""
)
_NAME = re.compile(r"\w*")
_FALLBACKS = frozenset({"get", "getenv", "pop", "set", "setdefault", "setenv", "putenv"})

Text = ast.Constant | ast.JoinedStr


class _Literal(NamedTuple):
    """A literal, its replacement, and the kind of the secret in it."""

    node: Text
    shown: str
    kind: str


def masked_code(source: str) -> str:
    """Training code in which text assigned to a secret's name (``api_key = "…"``) is ``"***"``, and secrets in text and
    comments (``"password=…"``) are masked.
    """
    if not may_hold(source):
        return source
    tree = _parsed(source)
    if tree is None:
        return masked(source)
    lines = _Lines(source)
    by_name = [_Literal(node, _literal(node), BY_NAME) for node in _given(tree, is_short_told=True)]
    found = [*_holding(tree, lines), *by_name]
    return lines.replaced([*_comments(source, lines), *map(lines.span, found)])


def masked_cell(source: str) -> str:
    """A cell's text without its secrets: values assigned to a secret's name in Python, in any syntax, and everything
    that :func:`masked` finds. IPython's lines are treated as text.
    """
    if not may_hold(source):
        return source
    if _gives_text(source):
        tree = _parsed(source) or _parsed(_MAGIC.sub(_passing, source))
        if tree is not None:
            lines = _Lines(source)
            found = [_Literal(node, _literal(node), BY_NAME) for node in _given(tree)]
            source = lines.replaced([lines.span(one) for one in found])
    return masked(source)


def _gives_text(source: str) -> bool:
    """Whether a secret's name may be assigned a text."""
    end = 0
    for place in places(small(source)):
        if place >= end:
            name = _NAME.match(source, place)
            end = name.end() if name else place
            if _GIVES.match(source, end):
                return True
    return False


def _passing(match: re.Match[str]) -> str:
    return match[1] + "pass" + "\n" * match[0].count("\n")


def _parsed(source: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about invalid escapes are shown elsewhere
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _given(tree: ast.AST, *, is_short_told: bool = False) -> Iterator[Text]:
    """Texts in code that are assigned to a secret's name. is_short_told: also those that are too short for a secret."""
    inside = _inside(tree)
    for node in ast.walk(tree):
        for name, value in _pairs(node) if id(node) not in inside else ():
            if value is not None and name and is_secret(name):
                yield from (
                    one for one in _texts(value) if holds_secret(name, _written(one), is_short_told=is_short_told)
                )


def _pairs(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Names and the values assigned to them."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple | ast.List) and isinstance(node.value, ast.Tuple | ast.List):
                yield from zip(map(_name, target.elts), node.value.elts, strict=False)
            else:
                yield _name(target), node.value
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
        yield _name(node.target), node.value
    elif isinstance(node, ast.keyword):
        yield node.arg or "", node.value
    elif isinstance(node, ast.Dict):
        yield from zip(map(_name, node.keys), node.values, strict=True)
    elif isinstance(node, ast.arguments):
        positional = [*node.posonlyargs, *node.args]
        yield from zip((one.arg for one in positional[::-1]), node.defaults[::-1], strict=False)
        yield from zip((one.arg for one in node.kwonlyargs), node.kw_defaults, strict=True)
    elif isinstance(node, ast.Call) and len(node.args) == 2 and _name(node.func) in _FALLBACKS:
        key = node.args[0]
        if isinstance(key, ast.Constant):
            yield _name(key), node.args[1]


def _name(node: ast.expr | None) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return _name(node.slice)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _texts(node: ast.expr) -> list[Text]:
    found: list[Text] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add):
            waiting += [one.right, one.left]
        elif isinstance(one, ast.JoinedStr | ast.Constant) and _is_plain(one):
            found.append(one)
        else:
            return []  # `"sk-" + "…"` is a text; a name plus something is not
    return found


def _is_plain(node: Text) -> bool:
    if isinstance(node, ast.JoinedStr):
        return all(isinstance(part, ast.Constant) for part in node.values)
    return isinstance(node.value, str | bytes)


def _written(node: Text) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    return node.value.decode("latin-1") if isinstance(node.value, bytes) else str(node.value)


def _literal(node: Text) -> str:
    is_bytes = isinstance(node, ast.Constant) and isinstance(node.value, bytes)
    return repr(MASK.encode() if is_bytes else MASK)


class _Lines:
    """Code by lines as Python counts them, and by columns in bytes, as Python counts those."""

    def __init__(self, source: str) -> None:
        self._data = source.encode(errors="surrogatepass")
        self._begins = [0, *(match.end() for match in re.finditer(rb"\r\n|\r|\n", self._data))]

    def span(self, one: _Literal) -> tuple[int, int, str, str]:
        """The beginning and end of a literal in bytes, its replacement, and its kind."""
        node = one.node
        first, last = node.lineno, node.end_lineno or node.lineno
        end = self._begins[last - 1] + (node.end_col_offset or 0)
        return self._begins[first - 1] + node.col_offset, end, one.shown, one.kind

    def place(self, line: int, column: int) -> int:
        """The byte offset of a column of a line. Column: in letters."""
        begin = self._begins[line - 1]
        end = self._begins[line] if line < len(self._begins) else len(self._data)
        text = self._data[begin:end].decode(errors="surrogatepass")[:column]
        return begin + len(text.encode(errors="surrogatepass"))

    def text(self, node: Text) -> str:
        """A literal as written in the source."""
        start, end, *_ = self.span(_Literal(node, "", ""))
        return self._data[start:end].decode(errors="surrogatepass")

    def replaced(self, spans: list[tuple[int, int, str, str]]) -> str:
        """The code with these replacements; of two at one place, the last one counts."""
        if not spans:
            return self._data.decode(errors="surrogatepass")
        # One letter for each byte, so that both have the same offsets.
        places = {start: Found(start, end, _as_bytes(shown), kind) for start, end, shown, kind in spans}
        text = replaced(self._data.decode("latin-1"), [places[start] for start in sorted(places)])
        return text.encode("latin-1").decode(errors="surrogatepass")


def _as_bytes(text: str) -> str:
    return text.encode(errors="surrogatepass").decode("latin-1")


def _holding(tree: ast.AST, lines: _Lines) -> Iterator[_Literal]:
    """Texts that contain something like a secret; f-strings as written."""
    inside = _inside(tree)
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            written = lines.text(node)
            shown, kind = _unheard(written)
            if shown != written and _parsed(shown) is not None:
                yield _Literal(node, shown, kind)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            shown, kind = _unheard(node.value)
            if shown != node.value:
                yield _Literal(node, repr(shown), kind)
        elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            shown, kind = _unheard(node.value.decode("latin-1"))
            if shown != node.value.decode("latin-1"):
                yield _Literal(node, repr(shown.encode("latin-1")), kind)


def _unheard(text: str) -> tuple[str, str]:
    """``text`` without its secrets, and the kind of the first: the caller reports the place in the code, not in the
    text."""
    with hearing() as heard:
        shown = masked(text)
    return shown, heard[0].kind if heard else BY_NAME


def _comments(source: str, lines: _Lines) -> Iterator[tuple[int, int, str, str]]:
    """Comments that contain a secret. Consecutive comment lines are one text, since a key may have many lines."""
    if "#" not in source:
        return
    block: list[tokenize.TokenInfo] = []
    for token in _tokens(source):
        if token.type == tokenize.COMMENT:
            if block and (token.start[0] != block[-1].start[0] + 1 or token.line[: token.start[1]].strip()):
                yield from _comment(block, lines)
                block = []
            block.append(token)
    if block:
        yield from _comment(block, lines)


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(io.StringIO(source).readline)
    except (tokenize.TokenError, SyntaxError, RecursionError):
        return


def _comment(block: list[tokenize.TokenInfo], lines: _Lines) -> Iterator[tuple[int, int, str, str]]:
    text = "\n".join(token.string for token in block)
    shown, kind = _unheard(text)
    if shown == text:
        return
    start, end = lines.place(*block[0].start), lines.place(*block[-1].end)
    # A secret of many lines includes the comment marks between them.
    told = "\n".join(line if line.startswith("#") else f"# {line}" for line in shown.split("\n"))
    indented = told.replace("\n", "\n" + " " * block[-1].start[1]) if len(block) > 1 else told
    yield start, end, indented, kind


def _inside(tree: ast.AST) -> set[int]:
    """The parts of f-strings: before Python 3.12 they have no positions."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in found:
            found.update(id(part) for part in ast.walk(node) if part is not node)
    return found

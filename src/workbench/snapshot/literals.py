"""Secrets in code. Law: only literals change; the code still runs, up to where it needs what was there."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from workbench.snapshot.masking import LEAST, MASK, is_secret, masked, may_hold

#: Lines that are IPython's, with those that continue them, and names that are given what such a line says.
_MAGIC = re.compile(r"(?m)^([^\S\n]*)(?:[%!?]|[\w.,*\[\]'\" \t]+=\s*[%!](?=\S))(?:.*\\\n)*.*$")
#: Where a cell gives a text to a secret's name; other cells are not parsed.
_GIVES = re.compile(
    r"""(?ix) (?:key|token(?!i[sz])|secret|passw|passphrase|credential|auth|cookie|pw|private|signature) \w*
    (?: ["']?\]*\s*(?::[^=\n]{0,100})?:?=(?!=) | ["']\]?\s*[:,] | \s*,[^=\n]{0,100}=(?!=) )
    [\s(\[]*(?:[\w.\"']+\s*,\s*){0,5}[rbuf]{0,2}[\"']"""
)
_FALLBACKS = frozenset({"get", "getenv", "pop", "set", "setdefault", "setenv", "putenv"})

Text = ast.Constant | ast.JoinedStr


def masked_code(source: str) -> str:
    """Training code in which text that is given to a secret's name (``api_key = "…"``) is ``"***"``, and text that
    holds a secret (``"password=…"``) has lost it.
    """
    if not may_hold(source):
        return source
    tree = _parsed(source)
    if tree is None:
        return masked(source)
    return _replaced(source, [*_holding(tree, source), *((node, _literal(node)) for node in _given(tree, 1))])


def masked_cell(source: str) -> str:
    """A cell's text without its secrets: what is given to a secret's name in Python, however it is written, and all
    that :func:`masked` finds. Lines of IPython's are text.
    """
    if not may_hold(source):
        return source
    if _GIVES.search(source):
        tree = _parsed(source) or _parsed(_MAGIC.sub(_passing, source))
        if tree is not None:
            source = _replaced(source, [(node, _literal(node)) for node in _given(tree, LEAST)])
    return masked(source)


def _passing(match: re.Match[str]) -> str:
    return match[1] + "pass" + "\n" * match[0].count("\n")


def _parsed(source: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd escapes whoever wrote them is told elsewhere
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _given(tree: ast.AST, least: int) -> Iterator[Text]:
    """Texts of at least ``least`` letters in code that are given to a secret's name."""
    inside = _inside(tree)
    for node in ast.walk(tree):
        for name, value in _pairs(node) if id(node) not in inside else ():
            if value is not None and name and is_secret(name):
                yield from (one for one in _texts(value) if _length(one) >= least)


def _pairs(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Names, and what is given to them."""
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
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [_texts(node.left), _texts(node.right)]
        return sides[0] + sides[1] if all(sides) else []  # `"sk-" + "…"`; a name plus something is none
    if isinstance(node, ast.JoinedStr):
        return [node] if all(isinstance(part, ast.Constant) for part in node.values) else []
    return [node] if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) else []


def _length(node: Text) -> int:
    if isinstance(node, ast.JoinedStr):
        return sum(len(str(part.value)) for part in node.values if isinstance(part, ast.Constant))
    return len(node.value) if isinstance(node.value, str | bytes) else 0


def _replaced(source: str, found: list[tuple[Text, str]]) -> str:
    """Code in which other literals stand where some stood; where two are told for one, the last."""
    if not found:
        return source
    # Lines as Python counts them, in bytes, as it counts columns.
    lines = [line.encode(errors="surrogatepass") for line in re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", source)]
    places = {(node.lineno, node.col_offset): (node, text) for node, text in found}
    for _, (node, text) in sorted(places.items(), key=lambda item: item[0], reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        lines[first : last + 1] = [head + text.encode(errors="surrogatepass") + tail]
    return b"".join(lines).decode(errors="surrogatepass")


def _literal(node: Text) -> str:
    is_bytes = isinstance(node, ast.Constant) and isinstance(node.value, bytes)
    return repr(MASK.encode() if is_bytes else MASK)


def _holding(tree: ast.AST, source: str) -> Iterator[tuple[Text, str]]:
    """Texts in which something looks like a secret; f-strings as they are written."""
    inside = _inside(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in inside:
            written = ast.get_source_segment(source, node) or ""
            shown = masked(written)
            if shown != written and _parsed(shown) is not None:
                yield node, shown
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            text = masked(node.value)
            if text != node.value:
                yield node, repr(text)


def _inside(tree: ast.AST) -> set[int]:
    """What stands in f-strings: before Python 3.12 it has no place of its own."""
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    return {id(part) for string in strings for part in ast.walk(string) if part is not string}

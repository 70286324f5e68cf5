"""Secrets out of what others will read. Law: code stays code; everything else loses whatever looks like a secret."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any

from workbench.records import Json
from workbench.snapshot.notebook import MASK, is_secret, masked


def masked_code(source: str) -> str:
    """Training code in which text that is given to a secret's name (``api_key = "…"``) is ``"***"``, and text that
    holds a secret (``"password=…"``) has lost it.

    Only literals change: the code still runs, up to where it needs what was there.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return masked(source)
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    found = {(node.lineno, node.col_offset): (node, text) for node, text in (*_holding(tree), *_named(tree))}
    for _, (node, text) in sorted(found.items(), key=lambda item: item[0], reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        tail = lines[last][node.end_col_offset :]
        lines[first : last + 1] = [lines[first][: node.col_offset] + repr(text).encode() + tail]
    return b"".join(lines).decode()


def _holding(tree: ast.AST) -> Iterator[tuple[ast.Constant, str]]:
    """Text in which something looks like a secret. Parts of f-strings have no place of their own before Python 3.12."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            text = masked(node.value)
            if text != node.value:
                yield node, text


def _named(tree: ast.AST) -> Iterator[tuple[ast.Constant, str]]:
    """Text that is given to a secret's name."""
    for node in ast.walk(tree):
        pairs: list[tuple[str, ast.expr | None]] = []
        if isinstance(node, ast.Assign):
            pairs = [(_name(target), node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            pairs = [(_name(node.target), node.value)]
        elif isinstance(node, ast.keyword):
            pairs = [(node.arg or "", node.value)]
        elif isinstance(node, ast.Dict):
            pairs = [(_name(key), value) for key, value in zip(node.keys, node.values, strict=True)]
        for name, value in pairs:
            if isinstance(value, ast.Constant) and is_secret(name) and _is_text(value):
                yield value, MASK


def _is_text(node: ast.Constant) -> bool:
    return isinstance(node.value, str | bytes) and bool(node.value)


def _name(node: ast.expr | None) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return _name(node.slice)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def masked_data(data: Json) -> Json:
    """Plain data in which every text lost its secrets."""
    if isinstance(data, str):
        return masked(data)
    if isinstance(data, list):
        return [masked_data(one) for one in data]
    if isinstance(data, dict):
        return {
            key: MASK if is_secret(key) and isinstance(value, str) else masked_data(value)
            for key, value in data.items()
        }
    return data


def without_own(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec without what is its author's: places that are written to, and people and commands that are told. Each may
    hold a secret, and whoever takes the experiment in chose none of them.
    """
    own: dict[str, Any] = {"storage": None, "mirror": [], "notify": None}
    return {**spec, **{key: nothing for key, nothing in own.items() if key in spec}}


def masked_spec(data: dict[str, Any]) -> dict[str, Any]:
    """A spec for others: its code stays code."""
    found: dict[str, Any] = {key: masked_data(value) for key, value in data.items() if key != "program"}
    program = dict(data["program"])
    return {**without_own(found), "program": {**program, "source": masked_code(program["source"])}}


def masked_lines(data: bytes) -> bytes:
    """JSON lines, each masked as data; a line that is no JSON as text."""
    return b"".join(_masked_line(line) for line in data.splitlines(keepends=True))


def _masked_line(line: bytes) -> bytes:
    try:
        return json.dumps(masked_data(json.loads(line)), separators=(",", ":")).encode() + b"\n"
    except ValueError:
        return masked(line.decode(errors="replace")).encode()

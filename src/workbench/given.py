"""Configurations as users give them: typed, in a table, as Python objects. Law: all of them are checked against the
space before anything starts; an error says which one is wrong.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from workbench.errors import BadOption, BadSpace, NotFound
from workbench.records import Searcher
from workbench.space import Space, Text, given_to

__all__ = ["MOST", "Given", "Rows", "named", "read", "searching"]

#: More configurations than this are probably a mistake.
MOST = 10_000


@dataclass(frozen=True, slots=True)
class Rows:
    """Configurations that were read and not yet checked. place: where number one, two, … stand, for messages."""

    values: tuple[Mapping[str, Any], ...]
    place: str = "configuration"


#: What the function form takes: a configuration, several, a DataFrame, or the path of a table.
Given: TypeAlias = Any


def read(given: Given, option: str, written: str = "--") -> Rows:
    """The configurations of a dict, a list of dicts, a pandas DataFrame, JSON text, or a .json, .jsonl or .csv file.

    option: ``first`` or ``configurations``; written: how it was written, for messages (``--first`` or ``first=``).
    Raises BadOption, or NotFound without a file.
    """
    flag = named(option, written)
    if isinstance(given, Rows):
        return given
    if isinstance(given, os.PathLike) or (isinstance(given, str) and not given.lstrip().startswith(("{", "["))):
        return _table(os.fspath(given), flag, option)
    if isinstance(given, str):
        given = _literal(given, flag, option)
    if hasattr(given, "to_dict") and hasattr(given, "columns"):  # pandas need not be installed
        held = given.astype(object)
        return _rows(held.where(given.notna(), None).to_dict("records"), flag, option, "row")
    return _rows(given, flag, option)


def searching(
    searcher: Searcher, space: Space, first: Given | None, configurations: Given | None, written: str = "--"
) -> Searcher:
    """``searcher`` with the configurations that were given, as ``space`` proposes them.

    Raises BadOption if both are given, there is none, or one does not belong to the space.
    """
    if first is not None and configurations is not None:
        raise BadOption(
            f"{named('first', written)} and {named('configurations', written)} were given; expected one of them. "
            "The first tries some before the searcher's own, the second trains nothing else. Leave one out."
        )
    option, given = ("first", first) if configurations is None else ("configurations", configurations)
    if given is None:
        return searcher
    flag, rows = named(option, written), read(given, option, written)
    if option == "configurations" and not rows.values:
        raise BadOption(f"{flag} is empty: there is nothing to train. Expected one configuration or more.")
    found = []
    for number, values in enumerate(rows.values, 1):
        where = f", {rows.place} {number}" if len(rows.values) > 1 or rows.place != "configuration" else ""
        try:
            found.append(given_to(space, values))
        except BadSpace as error:
            raise BadOption(f"{flag}{where}: {error}") from None
    return dataclasses.replace(searcher, given=tuple(found), only=option == "configurations")


def named(option: str, written: str) -> str:
    """How an option is written in the form that was used."""
    return f"--{option}" if written == "--" else f"{option}="


def _table(path: str, flag: str, option: str) -> Rows:
    from workbench.replay.parameters import read_table  # a kernel that gives no table need not load it

    if not path.isprintable():
        raise BadOption(f"{flag} {path!r}: expected a path without control characters. Rename the file.")
    file = Path(path).expanduser()
    if file.suffix not in (".json", ".jsonl", ".csv"):
        raise BadOption(
            f"{flag} {path}: expected a configuration, a list of them, or a .json, .jsonl or .csv file. On the magic's "
            f"line put a configuration in single quotes: --{option} '{{\"lr\": 0.1}}'."
        )
    if file.suffix != ".json":
        return _rows(read_table(file, Text), flag, option, f"{file.name}, row")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"{flag}: there is no table {path}. Expected a .json, .jsonl or .csv file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"{flag} {path}: it cannot be read ({error}). Expected JSON as UTF-8.") from None
    try:
        values = json.loads(text)
    except ValueError as error:
        raise BadOption(f"{flag} {path}: it is not valid JSON ({error}). Expected a list of objects.") from None
    return _rows(values, flag, option, f"{file.name}, configuration")


def _literal(text: str, flag: str, option: str) -> Any:
    """JSON, or as Python prints it: a notebook's variable is put into the line by its text."""
    for reader in (json.loads, ast.literal_eval):
        try:
            return reader(text.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    shown = shown if shown.isprintable() else repr(shown)
    raise BadOption(
        f"{flag} {shown}: it is not valid JSON. Expected a configuration or a list of them, in single quotes: "
        f"--{option} '{{\"lr\": 0.1}}'."
    )


def _rows(values: Any, flag: str, option: str, place: str = "configuration") -> Rows:
    if isinstance(values, Mapping):
        values = [values]
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise BadOption(
            f"{flag} {type(values).__name__}: expected a dict such as {{'lr': 0.1}}, a list of dicts, a DataFrame, or "
            "the path of a table. Of a trial give its configuration."
        )
    for number, one in enumerate(values, 1):
        if not isinstance(one, Mapping):
            raise BadOption(
                f"{flag}, {place} {number}: {type(one).__name__} was given, expected values by name, such as "
                "{'lr': 0.1}. Of a trial give its configuration."
            )
    if len(values) > MOST:
        raise BadOption(f"{flag}: {len(values):,} configurations were given; expected {MOST:,} at most. Divide them.")
    return Rows(tuple(values), place)

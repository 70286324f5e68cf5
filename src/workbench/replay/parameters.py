"""Parses the parameters of a notebook that the user typed: single values, a grid, a table. Law: text in, rows of values
out."""

from __future__ import annotations

import csv
import itertools
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from workbench.errors import BadOption, NotFound
from workbench.records import Json

#: More executions than this are probably a mistake.
MOST = 10_000

Row = dict[str, Json]


def value(text: str) -> Json:
    """A value, read as on papermill's command line: True, False, None, a number, or else the text itself."""
    if text in ("True", "False", "None"):
        return {"True": True, "False": False, "None": None}[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def rows(
    single: Sequence[Sequence[str]] = (), grid: Sequence[str] = (), table: str | os.PathLike[str] | None = None
) -> list[Row]:
    """One row of parameters for each execution.

    single: pairs of a name and a value, for all executions. grid: ``NAME=VALUE,VALUE,…``; several give each
    combination, the last changing fastest. table: a file (see :func:`read_table`). Raises BadOption, NotFound.
    """
    fixed: Row = {}
    for name, text in single:
        if name in fixed:
            raise BadOption(f"-p {name} was given twice; expected one value. Several are --grid {name}=A,B.")
        fixed[name] = value(text)
    if grid and table is not None:
        raise BadOption(
            "--grid and --table were given, expected only one of them: write the grid's rows into the table."
        )
    found = read_table(table) if table is not None else _combined(grid)
    for row in found:
        twice = sorted(fixed.keys() & row.keys())
        if twice:
            other = "--grid" if grid else "--table"
            raise BadOption(f"{twice[0]} was given with -p and with {other}; expected one of them.")
    return [{**fixed, **row} for row in found]


def _combined(grid: Sequence[str]) -> list[Row]:
    axes: dict[str, list[Json]] = {}
    for text in grid:
        name, equals, values = text.partition("=")
        if not equals or not name or not all(values.split(",")):
            raise BadOption(f"--grid {text}: expected NAME=VALUE,VALUE,…, such as --grid lr=0.01,0.1,1.")
        if name in axes:
            raise BadOption(f"--grid {name} was given twice; expected all its values in one: --grid {name}=A,B,C.")
        axes[name] = [value(one) for one in values.split(",")]
    size = 1
    for values_ in axes.values():
        size *= len(values_)
    if size > MOST:
        raise BadOption(f"--grid makes {size:,} notebooks; expected {MOST:,} at most. Give fewer values.")
    return [dict(zip(axes, combination, strict=True)) for combination in itertools.product(*axes.values())]


def read_table(path: str | os.PathLike[str], read: Callable[[str], Json] = value) -> list[Row]:
    """Rows of parameters from a file.

    ``.csv``: the first line names the parameters; an empty field gives no value, and ``read`` makes one of any other.
    ``.jsonl``: an object on each line. Raises BadOption with the number of the line that cannot be read, NotFound
    without a file.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = file.read_bytes()[: error.start].count(b"\n") + 1
        raise BadOption(f"{path}, line {line}: it is not valid UTF-8. Save the table as UTF-8.") from None
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(
            f"there is no table {path}. Expected a .csv (its first line names parameters) or a .jsonl."
        ) from None
    except OSError as error:
        raise BadOption(f"{path} cannot be read ({error.strerror}); expected a .csv or a .jsonl.") from None
    if file.suffix == ".jsonl":
        found = _objects(path, text)
    elif file.suffix == ".csv":
        found = _records(path, text, read)
    else:
        raise BadOption(f"{path}: expected a table that ends in .csv or .jsonl.")
    if not found:
        raise BadOption(f"{path} has no row of parameters; expected one or more. Add a line for each of them.")
    if len(found) > MOST:
        raise BadOption(f"{path} has {len(found):,} rows; expected {MOST:,} at most. Divide the table.")
    return found


def _records(path: str | os.PathLike[str], text: str, read: Callable[[str], Json]) -> list[Row]:
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    names: list[str] | None = None
    found: list[Row] = []
    try:
        for fields in reader:
            if not any(field.strip() for field in fields):
                continue
            if names is None:
                names = [field.strip() for field in fields]
                bad = next((name for name in names if not name.isidentifier() or names.count(name) > 1), None)
                if bad is not None:
                    raise BadOption(
                        f"{path}, line {reader.line_num}: {bad!r} cannot name a parameter here. Expected each "
                        "parameter's name once, separated by commas."
                    )
                continue
            if len(fields) != len(names):
                raise BadOption(
                    f"{path}, line {reader.line_num}: {len(fields)} fields were given, expected {len(names)} "
                    f"({', '.join(names)}). Leave a field empty to give no value."
                )
            given = zip(names, fields, strict=True)
            found.append({name: read(field.strip()) for name, field in given if field.strip()})
    except csv.Error as error:
        raise BadOption(f"{path}, line {reader.line_num}: {error}. Expected fields separated by commas.") from None
    return found


def _objects(path: str | os.PathLike[str], text: str) -> list[Row]:
    found: list[Row] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise BadOption(f"{path}, line {number}: it is not valid JSON ({error}).") from None
        if not isinstance(row, dict):
            raise BadOption(f'{path}, line {number}: expected an object of parameters, such as {{"lr": 0.01}}.')
        found.append(row)
    return found

"""Tables as JSON: columns, rows, and how many rows there were."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.errors import BadInput
from workbench.trial.media.arrays import as_array, described, is_array
from workbench.trial.media.values import Table

MOST_ROWS, MOST_COLUMNS, MOST_CELLS = 10_000, 1_000, 500_000
#: Characters of one cell that are kept.
MOST_TEXT = 1_000


def is_frame(value: Any) -> bool:
    """Whether ``value`` is a DataFrame of pandas or Polars."""
    return type(value).__module__.partition(".")[0] in ("pandas", "polars") and hasattr(value, "columns")


def tabled(table: Table, name: str) -> dict[str, Any]:
    """``columns``, ``rows`` of plain values, and the ``total`` number of rows that were given. Raises BadInput."""
    rows, columns = table.rows, None if table.columns is None else [str(one) for one in table.columns]
    total = _count(rows, name)
    if is_frame(rows):
        found, given = _of_frame(rows)
    elif is_array(rows):
        array = as_array(rows, name)
        if array.ndim != 2:
            raise _refused(name, rows)
        found, given = [str(at) for at in range(array.shape[1])], array[:MOST_ROWS].tolist()
    else:
        found, given = _of_rows(rows, name, columns)
    if columns is None:
        columns = found
    elif len(columns) != len(found):
        raise BadInput(
            f"trial.log({name}=Table(…)): columns= names {len(columns)}, and the rows have {len(found)}. Name each."
        )
    if not 1 <= len(columns) <= MOST_COLUMNS and total:
        raise BadInput(
            f"trial.log({name}=Table(…)) has {len(columns)} columns, expected 1 to {MOST_COLUMNS:,}. Select some."
        )
    kept = min(MOST_ROWS, MOST_CELLS // max(1, len(columns)))
    cells = [[_plain(value) for value in row] for row in itertools.islice(given, kept)]
    return {"columns": columns, "rows": cells, "total": total}


def _count(rows: Any, name: str) -> int:
    if not (is_frame(rows) or is_array(rows) or isinstance(rows, Sequence)) or isinstance(rows, str | bytes):
        raise _refused(name, rows)
    return len(rows)


def _of_frame(frame: Any) -> tuple[list[str], Iterable[Sequence[Any]]]:
    frame = frame.head(MOST_ROWS)
    if hasattr(frame, "iter_rows"):  # Polars
        return [str(one) for one in frame.columns], frame.iter_rows()
    index = frame.index
    if index.name is not None or index.nlevels > 1 or type(index).__name__ != "RangeIndex":
        # The names of rows, such as the classes of a confusion matrix.
        frame = frame.reset_index(allow_duplicates=True)
    return [str(one) for one in frame.columns], frame.itertuples(index=False, name=None)


def _of_rows(rows: Sequence[Any], name: str, columns: list[str] | None) -> tuple[list[str], Iterable[Sequence[Any]]]:
    kept = rows[:MOST_ROWS]
    if all(isinstance(row, Mapping) for row in kept) and kept:
        # A row may lack some: columns are in the order in which they first appear.
        found = {str(key): key for row in kept for key in row}
        chosen = list(found) if columns is None else columns
        return chosen, ([row.get(found.get(one, one)) for one in chosen] for row in kept)
    lengths = set()
    for row in kept:
        if isinstance(row, str | bytes | Mapping) or not (isinstance(row, Sequence) or is_array(row)):
            raise _refused(name, rows)
        lengths.add(len(row))
    if len(lengths) > 1:
        raise BadInput(
            f"trial.log({name}=Table(…)): the rows have from {min(lengths)} to {max(lengths)} cells. Give each row "
            "as many, or give dictionaries."
        )
    if not lengths:
        return columns or [], kept
    return [str(at) for at in range(lengths.pop())], kept


def _refused(name: str, rows: Any) -> BadInput:
    return BadInput(
        f"trial.log({name}=Table(…)) was given {described(rows)}. Give a list of dictionaries, a list of rows, a "
        "two-dimensional array or a DataFrame."
    )


def _plain(value: Any) -> Any:
    """A cell as JSON holds it: numbers, texts, booleans and null; nan and infinities are texts."""
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        value = value.item()  # a number of NumPy, or a tensor of one
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"

"""How a series is laid out: its tables, and how a trial or a leg becomes a row. Law: what is written comes back:
nan too, and fields without a column of their own.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from workbench.records.texts import written

#: Columns of the table of trials beside their number, each with SQLite's type, or ``json``.
TRIAL_FIELDS: Mapping[str, str] = {
    "configuration": "json",
    "bracket": "INTEGER",
    "state": "TEXT",
    "reason": "TEXT",
    "level": "INTEGER",
    "step": "INTEGER",
    "value": "REAL",
    "best": "REAL",
    "attempt": "INTEGER",
    "restarts": "INTEGER",
    "started": "TEXT",
    "ended": "TEXT",
    "error": "json",
}
#: Columns of the table of legs beside trial and attempt.
LEG_FIELDS: Mapping[str, str] = {
    "start": "INTEGER",
    "until": "INTEGER",
    "worker": "TEXT",
    "slot": "TEXT",
    "pid": "INTEGER",
    "started": "TEXT",
    "ended": "TEXT",
    "step": "INTEGER",
    "outcome": "TEXT",
    "reason": "TEXT",
    "start_ms": "REAL",
    "stop_ms": "REAL",
    "error": "json",
    "environment": "json",
}
FIELDS = {"trials": TRIAL_FIELDS, "legs": LEG_FIELDS}
KEYS = {"trials": ("number",), "legs": ("trial", "attempt")}
#: The column that keeps fields without a column of their own, as JSON.
_MORE = "more"
_ORDER = {table: (*KEYS[table], *FIELDS[table]) for table in FIELDS}
_SELECT = {table: ", ".join(f'"{name}"' for name in (*_ORDER[table], _MORE, "change")) for table in FIELDS}


def _columns(fields: Mapping[str, str]) -> str:
    return ", ".join(f'"{name}" {"TEXT" if kind == "json" else kind}' for name, kind in fields.items())


# Both keys of a point hold the whole row (clustered, and covering), so that curves and what is new are each read in one
# sweep. WITHOUT ROWID and upsert are older than any SQLite that Python 3.11 is built with; STRICT is not.
TABLES: Mapping[str, str] = {
    "meta": "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT, change INTEGER NOT NULL) WITHOUT ROWID",
    "names": "CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    "points": (
        "CREATE TABLE points (id INTEGER NOT NULL, name INTEGER NOT NULL, trial INTEGER NOT NULL, "
        "step INTEGER NOT NULL, idx INTEGER NOT NULL, value REAL, time REAL, "
        "PRIMARY KEY (name, trial, step, idx)) WITHOUT ROWID"
    ),
    "points_new": "CREATE INDEX points_new ON points (id, value, time)",
    "trials": (
        f"CREATE TABLE trials (number INTEGER PRIMARY KEY, {_columns(TRIAL_FIELDS)}, {_MORE} TEXT, "
        "change INTEGER NOT NULL)"
    ),
    "trials_new": "CREATE INDEX trials_new ON trials (change)",
    "legs": (
        f"CREATE TABLE legs (trial INTEGER NOT NULL, attempt INTEGER NOT NULL, {_columns(LEG_FIELDS)}, {_MORE} TEXT, "
        "change INTEGER NOT NULL, PRIMARY KEY (trial, attempt)) WITHOUT ROWID"
    ),
    "legs_new": "CREATE INDEX legs_new ON legs (change)",
}


def write_row(
    connection: sqlite3.Connection, table: str, key: tuple[int, ...], fields: Mapping[str, Any], change: int
) -> None:
    """Set ``fields`` of one trial or leg; those not named stay."""
    kinds = FIELDS[table]
    row: dict[str, Any] = {name: _stored(kinds[name], value) for name, value in fields.items() if name in kinds}
    more = {name: value for name, value in fields.items() if name not in kinds}
    where = " AND ".join(f"{name} = ?" for name in KEYS[table])
    if more:
        found = connection.execute(f"SELECT {_MORE} FROM {table} WHERE {where}", key).fetchone()
        row[_MORE] = json.dumps((json.loads(found[0]) if found and found[0] else {}) | more, default=str)
    row["change"] = change
    names = [*KEYS[table], *row]
    quoted = ", ".join(f'"{name}"' for name in names)
    updates = ", ".join(f'"{name}" = excluded."{name}"' for name in row)
    # What is put again as it was keeps its number, so that viewers do not read it again.
    differ = " OR ".join(f'"{name}" IS NOT excluded."{name}"' for name in row if name != "change") or "0"
    connection.execute(
        f"INSERT INTO {table} ({quoted}) VALUES ({', '.join('?' * len(names))}) "
        f"ON CONFLICT ({', '.join(KEYS[table])}) DO UPDATE SET {updates} WHERE {differ}",
        (*key, *row.values()),
    )


def query_rows(table: str, rest: str) -> str:
    """The query whose rows :func:`records` understands."""
    return f"SELECT {_SELECT[table]} FROM {table} {rest}"


def records(table: str, rows: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Rows of :func:`query_rows` as people want them: every field by name, JSON decoded, nan again a float."""
    order, kinds = _ORDER[table], FIELDS[table]
    texts = [name for name in order if kinds.get(name) == "json"]
    numbers = [name for name in order if kinds.get(name) == "REAL"]
    found = []
    for row in rows:
        record: dict[str, Any] = dict(zip(order, row, strict=False))
        for name in texts:
            if record[name] is not None:
                record[name] = json.loads(record[name])
        for name in numbers:
            if record[name] == "nan":
                record[name] = math.nan
        if row[-2]:
            record = json.loads(row[-2]) | record
        record["change"] = row[-1]
        found.append(record)
    return found


def _stored(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind == "json":
        return json.dumps(value, default=str)
    if kind == "REAL":
        # SQLite makes NULL of nan, and NULL is "not known yet" here.
        return "nan" if math.isnan(value) else float(value)
    if kind == "INTEGER":
        return int(value)
    return written(str(value))

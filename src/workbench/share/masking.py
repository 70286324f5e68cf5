"""Masks secrets in what others will read. Law: code stays code; everything else loses what looks like a secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from workbench.records import Json
from workbench.snapshot.secrets.literals import masked_code
from workbench.snapshot.secrets.masking import MASK, is_secret, masked
from workbench.snapshot.surroundings.environment import variables_that_matter


def masked_data(data: Json) -> Json:
    """Plain data in which every text is masked."""
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
    """A spec without its author's private fields: places to write to, and people and commands to notify. Each may
    contain a secret, and the user who imports the experiment chose none of them.
    """
    own: dict[str, Any] = {"storage": None, "mirror": [], "notify": None}
    return {**spec, **{key: nothing for key, nothing in own.items() if key in spec}}


def masked_spec(data: dict[str, Any]) -> dict[str, Any]:
    """A spec for others: its code is unchanged, and of its variables only those remain that may change a result."""
    found: dict[str, Any] = {key: masked_data(value) for key, value in data.items() if key != "program"}
    program = {**data["program"], "source": masked_code(data["program"]["source"])}
    env = variables_that_matter(found["training"].get("env") or {})
    found |= {"program": program, "since": _since(found.get("since"))}
    return {**without_own(found), "training": {**found["training"], "env": env, "is_whole": False}}


def _since(since: Any) -> Any:
    """What changed since an earlier version; of variables only the names."""
    if not isinstance(since, dict):
        return since
    told = [one | {"before": None, "after": None} if one.get("kind") == "variable" else one for one in _listed(since)]
    return {**since, "differences": told}


def _listed(since: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [one for one in since.get("differences") or () if isinstance(one, dict)]


def masked_lines(data: bytes) -> bytes:
    """JSON lines, each masked as data; a line that is not JSON as text."""
    return b"".join(_masked_line(line) for line in data.splitlines(keepends=True))


def _masked_line(line: bytes) -> bytes:
    try:
        return json.dumps(masked_data(json.loads(line)), separators=(",", ":")).encode() + b"\n"
    except ValueError:
        return masked(line.decode(errors="replace")).encode()


def masked_word(text: str) -> str:
    """A text of a table, masked as data if it is JSON."""
    try:
        data = json.loads(text)
    except ValueError:
        return masked(text)
    found = masked_data(data)
    return text if found == data else json.dumps(found)

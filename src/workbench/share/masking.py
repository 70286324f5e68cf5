"""Masks secrets in what others will read. Law: code stays code; everything else loses what looks like a secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from workbench.records import Json
from workbench.snapshot.secrets.literals import masked_code
from workbench.snapshot.secrets.masking import MASK, is_secret, masked, tell
from workbench.snapshot.secrets.secret_names import holds_secret
from workbench.snapshot.surroundings.environment import variables_that_matter


def masked_data(data: Json) -> Json:
    """Plain data in which every text is masked."""
    if isinstance(data, str):
        return masked(data)
    if isinstance(data, list):
        return [masked_data(one) for one in data]
    if isinstance(data, dict):
        return {key: _hidden(value) if is_secret(key) else masked_data(value) for key, value in data.items()}
    return data


def _hidden(value: Json) -> Json:
    """The value of a secret's name, if it is a text."""
    if not isinstance(value, str) or not value:
        return masked_data(value)
    if MASK not in value:
        tell(value)
    return MASK


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
    if program.get("arguments"):
        program["arguments"] = _arguments(program["arguments"])
    if isinstance(data["space"].get("parameters"), list):
        found["space"] = _space(data["space"])
    env = variables_that_matter(found["training"].get("env") or {})
    found |= {"program": program, "since": _since(found.get("since"))}
    return {**without_own(found), "training": {**found["training"], "env": env, "is_whole": False}}


def _arguments(arguments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A script's arguments; ``--password`` names the word behind it."""
    found, before = [], ""
    for one in arguments:
        option, _, value = one["text"].partition("=")
        if not option.startswith("--") and _is_secret(before, one["text"]):
            shown = _hidden(one["text"])
        elif _is_secret(option, value):
            shown = f"{option}={_hidden(value)}"
        else:
            shown = masked(one["text"])
        before = one["text"] if option.startswith("-") else ""
        found.append({**one, "text": shown})
    return found


def _is_secret(option: str, value: str) -> bool:
    name = option.lstrip("-")
    return is_secret(name) and holds_secret(name, value)


def _space(space: dict[str, Any]) -> dict[str, Any]:
    """A search space. The options of a hyperparameter with a secret's name are hidden, and stay different."""
    parameters = [
        {**one, "options": [_option(option, number) for number, option in enumerate(one["options"])]}
        if is_secret(str(one.get("name"))) and isinstance(one.get("options"), list)
        else masked_data(one)
        for one in space["parameters"]
    ]
    return {**space, "parameters": parameters}


def _option(option: Json, number: int) -> Json:
    if not isinstance(option, dict) or not isinstance(option.get("value"), str):
        return masked_data(option)
    return {**option, "value": f"{_hidden(option['value'])}{number}"}


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

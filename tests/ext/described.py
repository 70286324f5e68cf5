"""What the server answers, held against its description: the panel's types are generated from that."""

from __future__ import annotations

import re
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from workbench_ext.server.handlers import description

SPEC = yaml.safe_load(description())


def check(method: str, path: str, status: int, answer: Any) -> None:
    """Raise ValidationError where ``answer`` is not as described. path: the address below ``api``, ``/experiments``."""
    entry = next(
        entry for template, entry in sorted(SPEC["paths"].items(), key=_loose) if re.fullmatch(_pattern(template), path)
    )
    responses = entry[method.lower()]["responses"]
    response = responses.get(str(status), responses["default"])
    if "$ref" in response:
        response = SPEC["components"]["responses"][response["$ref"].rpartition("/")[2]]
    schema = response["content"]["application/json"]["schema"]
    Draft202012Validator({**schema, "components": SPEC["components"]}).validate(answer)


def _loose(described: tuple[str, Any]) -> int:
    """Addresses without a parameter go before those that would match them with one."""
    return described[0].count("{")


def _pattern(template: str) -> str:
    return re.sub(r"\{\w+\}", "[^/]+", template)

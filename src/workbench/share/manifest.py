"""What an archive or a publication says about itself. Law: every field is checked before any is used."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from workbench import asked
from workbench.errors import BadInput, BadName
from workbench.records import SCHEMA, Json, check_schema
from workbench.records.names import checked_name, name_of
from workbench.store import Store
from workbench.store.ids import checked_id
from workbench.store.lists.summary import labels_of


@dataclass(frozen=True, slots=True)
class Listed:
    """One file: its place in a store, its size in bytes, and its digest."""

    name: str
    bytes: Annotated[int, Meta(ge=0, le=1 << 62)]
    sha256: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The experiment that is shared, and its files. Fields of a later Workbench are ignored."""

    kind: str = ""
    experiment: str
    label: str | None = None
    #: What users have said about the experiment, as fields of the request ``adopt``.
    labels: dict[str, Any] = field(default_factory=dict)
    #: None: a publication of a Workbench that did not list its files.
    files: list[Listed] | None = None

    @property
    def shown(self) -> str:
        """The experiment for a message. A label that could write control characters to a terminal is not shown."""
        return self.label if self.label and self.label.isprintable() else self.experiment

    def adoption(self, name: str | None) -> asked.Adopt:
        """The request that lists the experiment, under ``name`` if given, else under the name that it had.

        Raises BadField for a bad tag and the like. A label without a valid name is not used.
        """
        with suppress(BadName):
            name = name or checked_name(name_of(self.label or ""))
        request = asked.read({**self.labels, "kind": "adopt", "experiment": self.experiment, "name": name})
        assert isinstance(request, asked.Adopt)
        return request


def read(data: bytes) -> Manifest:
    """The manifest in ``data``. Raises BadInput if it is not one, and NewerSchema if a later Workbench wrote it."""
    try:
        found: Json = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"it is not JSON: {error}") from None
    if not isinstance(found, dict) or type(found.get("schema", 1)) is not int:
        raise BadInput("expected an object whose schema is a whole number")
    check_schema(found, "it")
    try:
        manifest = msgspec.convert(found, Manifest)
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadInput(str(error)) from None
    checked_id(manifest.experiment)
    manifest.adoption(None)
    return manifest


def described(
    kind: str, experiment_id: str, label: str | None, labels: dict[str, Json], files: Iterable[Listed]
) -> dict[str, Json]:
    """The manifest to write. Schema 1: fields were added since, and earlier versions ignore them."""
    return {
        "schema": SCHEMA,
        "kind": kind,
        "experiment": experiment_id,
        "label": label,
        "labels": labels,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "files": [asdict(one) for one in files],
    }


def protection(store: Store, experiment_id: str) -> dict[str, Json]:
    """The labels that keep checkpoints: the rule that users set, and pins."""
    said = labels_of(store).get(experiment_id, {})
    return {key: said[key] for key in ("keep", "pins") if said.get(key)}

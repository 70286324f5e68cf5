"""Other programs that show an experiment's trials while it trains, as its spec names them. Law: no secret is in it.

The exporter ``mirrors`` (see ``workbench.exporter``) makes these of a person's words, and writes there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from workbench.records import Json

#: The text for an experiment's mirrors while something has not been written and there is no error.
MIRRORING = "is being written"


@dataclass(frozen=True, slots=True)
class Mirror:
    """The target: ``where`` is an address for MLflow, a folder for TensorBoard, a project for W&B ('' is its name).

    offline, folder: W&B writes into that folder, and only there if it is offline.
    """

    kind: str
    where: str
    offline: bool = False
    folder: str = ""

    @classmethod
    def of(cls, data: Mapping[str, Json]) -> Mirror:
        """From the plain data in a spec."""
        known = cls.__dataclass_fields__
        return cls(**{key: value for key, value in data.items() if key in known})

    def to_json(self) -> dict[str, Json]:
        """Plain data for a spec."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.kind}:{self.where}" if self.where else self.kind

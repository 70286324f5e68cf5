"""One side of a comparison: what the store keeps of an experiment and, if one was named, of its trial."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from workbench.errors import NotFound, WorkbenchError
from workbench.records import Json, Spec
from workbench.snapshot import read_snapshot
from workbench.store import Store
from workbench.store.lists.catalog import Reference, resolve
from workbench.store.series import Series

#: The kinds of captured names that matter here.
Kind = Literal["code", "data", "value", "module", "unknown"]


@dataclass(frozen=True, slots=True)
class Captured:
    """A name captured from the notebook: its kind, the digest of its content, and its size if known."""

    kind: Kind
    digest: str
    words: str = ""
    rows: int | None = None
    bytes: int | None = None
    value: Json = None


def seen_of(legs: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]] | None:
    """The files that ``legs`` of one trial were seen to read, in the form of :attr:`Side.seen`."""
    found: dict[str, dict[str, Any]] | None = None
    for leg in legs:
        told = (leg.get("detail") or {}).get("seen")
        if told is not None:
            found = {**told["files"], **(found or {})}
    return found


class Side:
    """One side. Everything but the spec may be missing; ``missing`` lists what is."""

    def __init__(self, store: Store, reference: Reference) -> None:
        self.store = store
        self.reference = reference
        self.spec: Spec = store.read_spec(reference.experiment, viewing=True)
        #: What is not known about this side, in words.
        self.missing: list[str] = []
        self.snapshot: dict[str, Json] = self._snapshot()
        paths = store.experiment(self.spec.id)
        self._series = Series.read(paths.series) if paths.series.exists() else None
        if self._series is None:
            self.missing.append(f"{self.label} has no results yet")

    @classmethod
    def of(cls, store: Store, text: str) -> Side:
        """The side that ``text`` names. Raises NotFound and BadName like :func:`resolve`."""
        return cls(store, resolve(store, text))

    def close(self) -> None:
        """Close its database."""
        if self._series is not None:
            self._series.close()

    def _snapshot(self) -> dict[str, Json]:
        if self.spec.snapshot is None:
            self.missing.append(f"{self.label} has no snapshot")
            return {}
        try:
            return read_snapshot(self.store, self.spec.snapshot)
        except NotFound:
            self.missing.append(f"the snapshot of {self.label} was cleaned up")
        except (WorkbenchError, OSError, ValueError) as error:
            self.missing.append(f"the snapshot of {self.label} cannot be read ({error})")
        return {}

    # -- names --------------------------------------------------------------------------------------------------------

    @property
    def label(self) -> str:
        """``digits@2``."""
        return self.reference.label

    @property
    def trial(self) -> int | None:
        """The number of the named trial."""
        return self.reference.trial

    def to_json(self) -> dict[str, Json]:
        """Its identity."""
        reference = self.reference
        return {
            "ref": str(reference),
            "experiment": reference.experiment,
            "label": reference.label,
            "trial": reference.trial,
            "step": reference.step,
        }

    # -- results ------------------------------------------------------------------------------------------------------

    @property
    def series(self) -> Series | None:
        """Its points, or None if it has not started."""
        return self._series

    @functools.cached_property
    def trials(self) -> dict[int, dict[str, Any]]:
        """Its trials by number."""
        return {} if self._series is None else {row["number"]: row for row in self._series.trials()}

    @property
    def row(self) -> dict[str, Any]:
        """The row of the named trial; empty if none was named."""
        return self.trials.get(self.trial, {}) if self.trial is not None else {}

    @functools.cached_property
    def metrics(self) -> list[str]:
        """The names of reported metrics."""
        return [] if self._series is None else self._series.names()

    def detail(self, trial: int | None) -> dict[str, Json]:
        """What the first leg of ``trial`` reported when it started; empty if it never did."""
        if self._series is None or trial is None:
            return {}
        for leg in self._series.legs(trial):
            if isinstance(leg.get("detail"), dict) and leg["detail"]:
                found: dict[str, Json] = leg["detail"]
                return found
        return {}

    @functools.cached_property
    def seen(self) -> dict[str, dict[str, Any]] | None:
        """Files that the trial (the first one if none was named) was seen to read, each as it was when first seen; None
        if this was not recorded. It may have read others.
        """
        return None if self._series is None else seen_of(self._series.legs(self.trial or 0))

    @functools.cached_property
    def has_seen_all(self) -> bool:
        """Whether all files that the trial read are in :attr:`seen`, as far as is known: there were not too many, and
        it started no program whose files cannot be seen."""
        legs = [] if self._series is None else self._series.legs(self.trial or 0)
        told = [seen for leg in legs if (seen := (leg.get("detail") or {}).get("seen")) is not None]
        return bool(told) and not any(seen.get(key) for seen in told for key in ("beyond", "programs", "not_seen"))

    # -- parts of the snapshot ----------------------------------------------------------------------------------------

    def environment(self, part: str) -> dict[str, Json]:
        """One part of the recorded environment."""
        found = (self.snapshot.get("environment") or {}).get(part)
        return found if isinstance(found, dict) else {}

    @functools.cached_property
    def captured(self) -> dict[str, Captured]:
        """The captured names, except modules."""
        capture = self.snapshot.get("capture") or {}
        kinds: Mapping[str, Mapping[str, Json]] = capture.get("kinds") or {}
        found = {}
        for name, digest in (capture.get("names") or {}).items():
            told = dict(kinds.get(name, {"kind": "unknown"}))
            if told["kind"] != "module":
                found[name] = Captured(digest=digest, **told)
        return found

    @property
    def code(self) -> Path | None:
        """The folder with the copied project code, if there is one."""
        own = [self.store.code(self.spec.snapshot)] if self.spec.snapshot is not None else []
        # A trial that is trained again imports the code from the original copy.
        others = [Path(entry) for entry in self.spec.training.path if entry.startswith(f"{self.store.snapshots}/")]
        return next((path for path in (*own, *others) if path.is_dir()), None)

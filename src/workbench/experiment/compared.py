"""A comparison for the user. Law: it shows what the store contained when it was made; all texts are escaped."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from workbench.experiment.trial import Trial
from workbench.records import Json
from workbench.store import Store
from workbench.store.lists.catalog import Reference

if TYPE_CHECKING:
    from workbench.experiment import Experiment

_COLOURS = {"+": "rgba(46,160,67,.18)", "-": "rgba(248,81,73,.18)"}


class Comparison:
    """What differs between two trials or two experiments, the most likely causes first."""

    def __init__(self, found: dict[str, Json]) -> None:
        self._found = found

    @property
    def same(self) -> bool:
        """True if no difference can affect results, and no metric differs."""
        return bool(self._found["same"])

    @property
    def title(self) -> str:
        """The whole comparison in one line."""
        return str(self._found["title"])

    @property
    def sections(self) -> list[dict[str, Json]]:
        """The differences by kind (data, configuration, code, …), the most likely cause first."""
        return list(self._found["sections"])

    @property
    def parts_at(self) -> int | None:
        """The first step at which any metric differs; None if none does."""
        steps = [metric["parts_at"] for metric in self._found["results"]["metrics"]]
        return min((step for step in steps if step is not None), default=None)

    def to_dict(self) -> dict[str, Json]:
        """The whole comparison as plain data."""
        return self._found

    def __str__(self) -> str:
        from workbench.compare.words import lines

        return "\n".join(text for _, text in lines(self._found))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from workbench.compare.words import lines

        rows = []
        for kind, text in lines(self._found):
            style = "font-weight:600" if kind == "title" else f"background:{_COLOURS[kind]}" if kind in _COLOURS else ""
            rows.append(f"<div style='{style}'>{html.escape(text) or '&nbsp;'}</div>")
        body = "".join(rows)
        return f"<div style='font-family:var(--jp-code-font-family,monospace);white-space:pre-wrap'>{body}</div>"


def compare(
    a: str | Trial | Experiment, b: str | Trial | Experiment, *, store: str | Store | None = None
) -> Comparison:
    """What differs between two trials or two experiments: names such as ``digits@2/t0007``, objects, or published ones
    (``~/public/digits#t0007``). A name beside an object refers to the object's store, unless ``store`` is given.

    Raises NotFound and BadName.
    """
    from workbench.compare import compare as compared

    sides = [_placed(one) for one in (a, b)]
    home = next((place for place, _ in sides if place is not None and not place.published.exists()), None)
    if store is not None or home is None:
        home = store if isinstance(store, Store) else Store.find(store)
    (one, first), (two, second) = sides
    return Comparison(compared((one or home).check(), first, second, other=(two or home).check()))


def _placed(one: Any) -> tuple[Store | None, str | Reference]:
    """The store of one side, if it names one, and its name there."""
    from workbench.experiment.published import found

    if isinstance(one, Trial):
        return one.experiment.store, Reference(one.experiment.id, one.experiment.label, one.number)
    if isinstance(one, str):
        return found(one) or (None, one)
    return one.store, Reference(one.id, one.label)

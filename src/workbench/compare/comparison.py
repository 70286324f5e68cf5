"""The whole comparison: sections, the most likely cause first, results, and a title of one line."""

from __future__ import annotations

from workbench.compare.results import results
from workbench.compare.section import LIKELY, Section, listed
from workbench.compare.sections.code import code
from workbench.compare.sections.data import data
from workbench.compare.sections.environment import environment
from workbench.compare.sections.surroundings import architecture, hardware, libraries
from workbench.compare.sections.written import arguments, configuration, drawn, seeds, settings
from workbench.compare.sides import Side
from workbench.records import Json
from workbench.store import Store
from workbench.store.lists.catalog import Reference

_PARTS = (data, configuration, arguments, code, architecture, libraries, seeds, settings, environment, hardware)
#: Words that the title omits if another entry says the same better.
_SAID_ELSEWHERE = {"arguments": {"settings", "seeds", "configuration", "environment"}}
_TITLE = 4


def compare(store: Store, a: str | Reference, b: str | Reference, *, other: Store | None = None) -> dict[str, Json]:
    """What differs between ``a`` and ``b``: two trials (``digits@2/t0007``, optionally at a step), or two experiments.

    other: the store of ``b``, if it is another one.

    Plain data: ``title``, ``sections`` (the most likely causes first, and only what differs), ``results`` with the
    first step at which they differ, and in ``partial`` what could not be compared. Raises NotFound and BadName.
    """
    sides = []
    try:
        for place, one in ((store, a), (other or store, b)):
            sides.append(Side.of(place, one) if isinstance(one, str) else Side(place, one))
        return compared(*sides)
    finally:
        for side in sides:
            side.close()


def compared(a: Side, b: Side) -> dict[str, Json]:
    """The comparison of two sides."""
    found = differences(a, b)
    outcome = results(a, b)
    parted = [metric for metric in outcome["metrics"] if metric["parts_at"] is not None]
    causes = [section for section in found if section.causes and section.items]
    return {
        "a": a.to_json(),
        "b": b.to_json(),
        "same": not causes and not parted,
        "title": _title(causes, parted, a, b),
        "partial": [*dict.fromkeys([*a.missing, *b.missing, *(word for one in found for word in one.known)])],
        "sections": [
            {**section.to_json(), "likely": place}
            for place, section in enumerate((section for section in found if section.items), start=1)
        ],
        "results": outcome,
    }


def differences(a: Side, b: Side) -> list[Section]:
    """The sections with differences, the most likely causes first.

    A changed search seed comes before the configuration, which was drawn with it.
    """
    found = [section for part in _PARTS if (section := part(a, b)) is not None]
    order = [*LIKELY]
    if drawn(a, b):
        order.remove("seeds")
        order.insert(order.index("configuration"), "seeds")
    return sorted(found, key=lambda section: (not section.causes, order.index(section.kind)))


def _title(causes: list[Section], parted: list[dict[str, Json]], a: Side, b: Side) -> str:
    kinds = {section.kind for section in causes}
    words = [
        word for section in causes if not kinds & _SAID_ELSEWHERE.get(section.kind, set()) for word in section.short
    ]
    if words:
        return listed(words, _TITLE)
    if parted:
        step = min(metric["parts_at"] for metric in parted)
        return f"nothing that is recorded differs, but they differ from step {step}"
    if a.reference == b.reference:
        return "identical"
    return "nothing that is recorded differs"

"""A comparison as lines of text. Law: text in, text out; the caller that prints them removes control characters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from workbench.compare.section import number
from workbench.records import Json
from workbench.records.names import trial_label
from workbench.standing import Spread

#: Lines of unchanged text around a changed one.
_AROUND = 2
#: The number of items of one section, and of pairs of trials, to print; the JSON form has all.
_MOST = 12

#: The kind of a line: a title, plain text, added or removed.
Line = tuple[str, str]


def lines(comparison: Mapping[str, Json]) -> list[Line]:
    """The comparison as text for people: each line with its kind (``title``, ``""``, ``+`` or ``-``)."""
    a, b = comparison["a"]["ref"], comparison["b"]["ref"]
    found: list[Line] = [("title", f"{a} → {b}: {comparison['title']}")]
    for section in comparison["sections"]:
        found += [("", ""), ("title", f"{section['likely']}. {section['title']}: {section['summary']}")]
        found += [("", f"   {line}") for line in _items(section["items"])]
        for cell in section.get("cells") or ():
            found += _cell(cell)
    found += [("", ""), ("title", "Results")]
    found += [("", f"   {line}") for line in _results(comparison)]
    if comparison["partial"]:
        found += [("", ""), ("title", "Not known")]
        found += [("", f"   {word}") for word in comparison["partial"]]
    return found


def _items(items: list[dict[str, Json]]) -> Iterator[str]:
    width = max((len(item["name"]) for item in items), default=0)
    for item in items[:_MOST]:
        both = item["a"] is not None or item["b"] is not None
        values = f"{_value(item['a'])} → {_value(item['b'])}" if both else ""
        note = f"({item['note']})" if item["note"] and both else item["note"]
        yield "  ".join(part for part in (f"{item['name']:{min(width, 30)}}", values, note) if part)
    if len(items) > _MOST:
        yield f"and {len(items) - _MOST} more"


def _value(value: Any) -> str:
    return "not there" if value is None else repr(value) if isinstance(value, float) else str(value)


def _cell(cell: Mapping[str, Json]) -> Iterator[Line]:
    if not cell["diff"]:
        return
    yield "", ""
    yield "", f"   {cell['id']} ({cell['state']})"
    changed = [place for place, (sign, _) in enumerate(cell["diff"]) if sign != " "]
    near = {place + step for place in changed for step in range(-_AROUND, _AROUND + 1)}
    skipped = False
    for place, (sign, text) in enumerate(cell["diff"]):
        if place in near:
            if skipped:
                yield "", "     …"
            yield sign.strip(), f"   {sign} {text}"
        skipped = place not in near


def _results(comparison: Mapping[str, Json]) -> Iterator[str]:
    results = comparison["results"]
    goal, bests = results["goal"]["metric"], results["bests"]
    pairs = results["pairs"]
    spreads = [spread_of(best) for best in bests]
    by_mean = None not in spreads
    are_paired = bool(pairs) or None not in (comparison["a"]["trial"], comparison["b"]["trial"])
    for metric in results["metrics"]:
        step = metric["parts_at"]
        if step is not None:
            where = f"differ from step {step}"
        elif not are_paired:
            where = "no two trials of equal configuration"
        else:
            where = "no common step" if None in (metric["a"], metric["b"]) else "the same at every common step"
        ends = [number(metric[key]) for key in "ab"]
        if metric["name"] == goal:
            ends = [
                f"{_with_mean(end, spread, by_mean)}{f' ({best_words(best)})' if best_words(best) else ''}"
                for end, best, spread in zip(ends, bests, spreads, strict=True)
            ]
        yield f"{metric['name']}  {' → '.join(ends)}  ({where})"
    if not results["metrics"]:
        yield "nothing was reported on either side"
    if results["selection"]:
        yield results["selection"]
    if pairs:
        same = sum(pair["parts_at"] is None and None not in (pair["value_a"], pair["value_b"]) for pair in pairs)
        several = f"{len(pairs)} pairs" if len(pairs) > 1 else "1 pair"
        yield f"{several} of equal configuration, {same} of them the same bit for bit"
        for pair in [pair for pair in pairs if pair["parts_at"] is not None][:_MOST]:
            values = f"{number(pair['value_a'])} → {number(pair['value_b'])}"
            yield f"  {trial_label(pair['a'])} | {trial_label(pair['b'])}  {values}  differ at step {pair['parts_at']}"
    noise = results["within_noise"]
    if noise:
        judged = {True: "within noise", False: "beyond noise", None: "noise is not known"}[noise["verdict"]]
        yield f"{judged}: {noise['why']}"


def _with_mean(value: str, spread: Spread | None, by_mean: bool) -> str:
    """A value with the mean of its configuration; the mean alone if the means are compared."""
    if spread is None:
        return value
    return spread.words(number) if by_mean else f"{value}, {spread.words(number)}"


def spread_of(best: Mapping[str, Json] | None) -> Spread | None:
    """The values of the configuration's trials, if the best one stands for several."""
    return Spread(**best["spread"]) if best is not None and best.get("spread") else None


def best_words(best: Mapping[str, Json] | None) -> str:
    """``best of 81``, for a trial that is the best of several; ``best of 27 configurations`` if these were trained
    several times."""
    if best is None or (best["of"] or 0) <= 1:
        return ""
    return f"best of {best['of']:,}{' configurations' if best.get('spread') else ''}"

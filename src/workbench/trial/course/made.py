"""What a set-up made, in a form that another process can compare with its own. Law: pure; nothing is saved or restored.

Made        sums of prints by name: a checkpoint's record of everything that it does not contain itself
Unsteady    what the set-up does not make the same again: every checkpoint contains it
prints      what one process tells another about its whole set-up, to find out what is unsteady
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.records import SCHEMA, Json, check_schema
from workbench.trial.discovery import Entry, Names, Survey
from workbench.trial.kinds import Fixed, Kind
from workbench.trial.looking.digests import signature
from workbench.trial.marks import mark_of, print_of

_ROW = struct.Struct("<QQQ")
_SUM = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Made:
    """Of everything that the set-up made and the checkpoint does not contain: a sum of prints for each name.

    excluded: marks of objects that the checkpoint contains, or that were gone when it was taken. whole: the sum of the
    prints of all that a name leads to, as it is now. plain: :attr:`workbench.trial.state.State.plain`.
    These two are for the comparison with another checkpoint of the same step, which may keep other names.
    """

    sums: Mapping[str, int]
    excluded: frozenset[int]
    whole: Mapping[str, int] = field(default_factory=dict)
    plain: Sequence[str] = ()

    def to_plain(self) -> dict[str, Any]:
        """Numbers and bytes, for a checkpoint's header."""
        marks = struct.pack(f"<{len(self.excluded)}Q", *sorted(self.excluded))
        return {"sums": dict(self.sums), "excluded": marks, "whole": dict(self.whole), "plain": [*self.plain]}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Made:
        """The inverse of :meth:`to_plain`."""
        marks = data["excluded"]
        excluded = frozenset(struct.unpack(f"<{len(marks) // 8}Q", marks))
        return cls(data["sums"], excluded, data.get("whole", {}), data.get("plain", ()))


class Making:
    """Says of later surveys over ``base``, the set-up's, what they found unchanged. What equals the last answer is not
    summed again: usually each step changes the same objects."""

    def __init__(self, base: Survey) -> None:
        self._base = base
        self._last: tuple[Any, frozenset[int], dict[str, int]] | None = None

    def of(self, later: Survey, plain: Sequence[str] = (), *, whole: bool = False) -> Made:
        """What the set-up made and ``later`` found unchanged. plain, whole: see :class:`Made`."""
        base = self._base
        steady = {*later.entries} & {*base.entries} - {*later.changed, *later.replaced}
        names = {(root.label, name): token for root, name, token in later.tokens()}
        same = {(root.label, name) for root, name, token in base.tokens() if names.get((root.label, name)) == token}
        if self._last is None or self._last[0] != (steady, same):
            excluded = self._excluded(steady, same)
            self._last = (steady, same), excluded, _sums(base, excluded)
        _, excluded, sums = self._last
        return Made(sums, excluded, _sums(later, frozenset()) if whole else {}, plain)

    def _excluded(self, steady: set[int], same: set[tuple[str, str]]) -> frozenset[int]:
        base = self._base
        excluded = [entry.mark for number, entry in base.entries.items() if number not in steady]
        excluded += [_name_mark(root, name) for root, name, _ in base.tokens() if (root.label, name) not in same]
        # Open files, locks and the like: no checkpoint holds them, and a later set-up may do without them.
        excluded += [entry.mark for entry in base.entries.values() if _is_bare(entry)]
        excluded += [_name_mark(root, name) for (_, name), root in _bare(base).items()]
        return frozenset(excluded)


def differing(before: Made, base: Survey, reached: Survey | None = None) -> list[str]:
    """Names for which this set-up made something else than the one of ``before``.

    reached: what still exists after the checkpoint was restored; the rest is ignored.
    """
    now = _sums(base, before.excluded, reached)
    return sorted(name for name in {**before.sums, **now} if before.sums.get(name) != now.get(name))


def added(before: Made, base: Survey) -> list[tuple[Names, str]]:
    """Names that this set-up defined and the one of ``before`` did not."""
    tops = before.sums
    return [
        (root, name)
        for root, name, _ in base.tokens()
        if f"{root.label}{name}" not in tops and _name_mark(root, name) not in before.excluded
    ]


def _sums(base: Survey, excluded: frozenset[int], reached: Survey | None = None) -> dict[str, int]:
    tops: dict[int, str] = {}
    sums: dict[str, int] = {}
    for number, entry in base.entries.items():
        # Parents come before their children.
        parent = entry.parent
        top = tops[number] = tops[parent] if parent >= 0 else base.top(number) if number else ""
        if (
            entry.loose
            or entry.mark in excluded
            or not number
            or (reached is not None and number not in reached.entries)
        ):
            continue
        sums[top] = (sums.get(top, 0) + print_of(entry.mark, entry.signature)) & _SUM
    still = None if reached is None else {(root.label, name) for root, name, _ in reached.tokens()}
    for root, name, token in base.tokens():
        mark = _name_mark(root, name)
        if mark not in excluded and (still is None or (root.label, name) in still):
            top = f"{root.label}{name}"
            sums[top] = (sums.get(top, 0) + print_of(mark, signature(token))) & _SUM
    return sums


def _name_mark(root: Names, name: str) -> int:
    return mark_of(f"{name}=", mark_of(root.label, 1))


# ---------------------------------------------------------------------------------------------------------------------
# What is not made the same again


@dataclass(frozen=True, slots=True)
class Unsteady:
    """What the set-up makes differently each time, by marks, and the names that lead there, for messages.

    changed: it exists each time, with different content, or once. grown: it holds a different set of objects. failed:
    why this is unknown, if the set-up could not be run a second time. once: of those that changed, what exists only
    once, such as what a set-up makes to fill a cache.
    """

    changed: frozenset[int] = frozenset()
    grown: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()
    failed: str = ""
    once: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.changed or self.grown)

    def to_json(self) -> dict[str, Json]:
        """Plain data for a file."""
        marks = {"changed": sorted(self.changed), "grown": sorted(self.grown), "once": sorted(self.once)}
        return {"schema": SCHEMA, **marks, "names": list(self.names), "failed": self.failed}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Unsteady:
        """The inverse of :meth:`to_json`. Raises the errors of a newer schema."""
        check_schema(data, "what the set-up makes again")
        changed, grown, once = (frozenset(data.get(name, ())) for name in ("changed", "grown", "once"))
        return cls(changed, grown, tuple(data["names"]), data["failed"], once)

    def keep(self, base: Survey) -> list[str]:
        """Have every later checkpoint contain what is unsteady in ``base``. Returns the names that lead there."""
        changed: list[int] = []
        by_value: set[int] = set()
        for number, entry in base.entries.items():
            above = base.entries.get(entry.parent)
            if entry.loose or not number:
                continue
            is_within = above is not None and (entry.parent in by_value or above.mark in self.grown)
            if is_within or (entry.mark in self.once and not _is_bare(entry)):
                by_value.add(number)
            elif _has_content(entry.how) and (entry.mark in self.grown or entry.mark in self.changed):
                (by_value.add if _is_sized(entry.how) else changed.append)(number)
        by_value |= _views(base, by_value)
        every = self.changed | self.grown
        bare = _bare(base)
        names = [
            (root.label, name)
            for root, name, _ in base.tokens()
            if _name_mark(root, name) in every and (root.label, name) not in bare
        ]
        base.save_from_now_on(changed, by_value, names)
        tops = [base.top(number) for number in (*changed, *by_value)]
        return sorted({*tops, *(f"{label}{name}" for label, name in names)})


def _views(base: Survey, by_value: set[int]) -> set[int]:
    """NumPy's views into arrays that the set-up makes again: the base of a view cannot be replaced."""
    from workbench.trial.classifier import ARRAY

    found = set()
    for number, entry in base.entries.items():
        view = entry.ref() if entry.how is ARRAY else None
        if view is not None and base.numbers.get(id(view.base)) in by_value:
            found.add(number)
    return found


def _has_content(how: Any) -> bool:
    """Whether objects of this kind have content that a checkpoint holds; not open files, builtin functions and the
    like."""
    return type(how).content is not Kind.content


def _is_bare(entry: Entry) -> bool:
    """Whether a name holds an object that no checkpoint can hold."""
    return entry.parent < 0 and isinstance(entry.how, Fixed)


def _bare(base: Survey) -> dict[tuple[str, str], Names]:
    """The names of such objects, with their roots, by the root's label."""
    found = ((base.roots[-1 - one.parent], str(one.key)) for one in base.entries.values() if _is_bare(one))
    return {(root.label, name): root for root, name in found}


def _is_sized(how: Any) -> bool:
    """True for kinds that can be restored in place only from content of the same size."""
    from workbench.trial.classifier import ARRAY, OPAQUE

    return how is ARRAY or how is OPAQUE


def prints(survey: Survey) -> bytes:
    """For every object: its mark, that of its parent, and its print."""
    return b"".join(_ROW.pack(*row) for row in _rows(survey))


def unsteady(ours: Survey, theirs: bytes) -> Unsteady:
    """What differs between our set-up and the one that produced ``theirs``."""
    mine = {mark: (holder, value) for mark, holder, value in _rows(ours)}
    others = {mark: (holder, value) for mark, holder, value in _ROW.iter_unpack(theirs)}
    changed = {mark for mark, (_, value) in mine.items() if mark in others and others[mark][1] != value}
    only = [(mark, row[0]) for mark, row in _only_in(mine, others)] + [(m, row[0]) for m, row in _only_in(others, mine)]
    grown = {holder for _, holder in only}
    # A name that exists only sometimes has only its namespace as parent: it is kept itself.
    changed |= {mark for mark, _ in only}
    every = changed | grown
    tops = [ours.top(number) for number, entry in ours.entries.items() if number and entry.mark in every]
    tops += [f"{root.label}{name}" for root, name, _ in ours.tokens() if _name_mark(root, name) in changed]
    once = frozenset(mark for mark, _ in only)
    return Unsteady(frozenset(changed), frozenset(grown), tuple(dict.fromkeys(tops)), once=once)


def _only_in(some: Mapping[int, Any], others: Mapping[int, Any]) -> Iterable[tuple[int, Any]]:
    return ((mark, row) for mark, row in some.items() if mark not in others)


def _rows(survey: Survey) -> Iterator[tuple[int, int, int]]:
    for number, entry in survey.entries.items():
        if number and not entry.loose:
            above = survey.entries.get(entry.parent)
            yield entry.mark, above.mark if above is not None else 0, print_of(entry.mark, entry.signature)
    for root, name, token in survey.tokens():
        mark = _name_mark(root, name)
        yield mark, 0, print_of(mark, signature(token))

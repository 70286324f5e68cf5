"""Which state the training code has: surveys of all that its names reach, and what changed between two of them.

Law: nothing is declared. A survey at the end of the set-up numbers every object that the names of the cell (and the
locals of the functions around the loop) reach, and keeps a signature of each one's own content. A later survey tells
what is new and what changed since. What did not change is never saved: the set-up code makes it again. What changed is
put back into the very object that the set-up code made, found by its path, so that whoever else holds it sees it too.
"""

from __future__ import annotations

import collections
import gc
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.trial import kinds
from workbench.trial.classifier import (
    LATE_REASONS,
    OPAQUE,
    REASONS,
    SILENT,
    TENSOR,
    Classifier,
    has_state_dict,
    lost,
)
from workbench.trial.kinds import SCALARS, Fixed, Instance, Kind, Token, loaded
from workbench.trial.looking.digests import signature
from workbench.trial.marks import holds_addresses, is_loose, mark_of, may_hold_addresses

# ---------------------------------------------------------------------------------------------------------------------
# Roots: where the walk begins


class Names(Kind):
    """A namespace from which the walk begins: the cell's, or the locals of one function around the loop."""

    order = 3

    def __init__(
        self,
        label: str,
        values: Callable[[], Mapping[str, Any]],
        put: Callable[[dict[str, Any], list[str]], None],
        frame: types.FrameType | None = None,
    ) -> None:
        self.label = label
        #: The function's frame; None for the cell's own namespace.
        self.frame = frame
        self._values = values
        self.set = put
        #: True for the globals of a module.
        self.is_module = label.endswith(".")
        #: Names that the checkpoint under way does without.
        self.skipped: set[str] = set()

    def named(self, name: str) -> str:
        """The name as people write it: a module's with the module."""
        return f"{self.label}{name}" if self.is_module else name

    def values(self) -> Mapping[str, Any]:
        """What its names stand for now."""
        values = self._values()
        if not self.skipped:
            return values
        return {name: value for name, value in values.items() if name not in self.skipped}


@dataclass(slots=True)
class Found:
    """What a survey found, as the trial's page lists it."""

    objects: list[str]
    names: list[str]
    left_out: list[dict[str, str]]
    #: How exactly the trial resumes, in words.
    resumes: str = ""
    #: Names that the set-up does not make again: every checkpoint holds them.
    kept: list[str] = field(default_factory=list)
    #: What this leg has lost where it resumed: names with reasons.
    inexact: list[dict[str, str]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain data for a message."""
        return {
            "objects": self.objects,
            "names": self.names,
            "left_out": self.left_out,
            "resumes": self.resumes,
            **({"kept": self.kept} if self.kept else {}),
            **({"inexact": self.inexact} if self.inexact else {}),
        }


@dataclass(slots=True)
class Entry:
    """One object that a survey met."""

    number: int
    parent: int
    key: str | int
    how: Kind
    ref: Callable[[], Any]
    #: Stands for the path in every process: see :mod:`workbench.trial.course.made`.
    mark: int = 0
    #: True for what differs from process to process by its nature, and for all below it.
    loose: bool = False
    signature: bytes = b""


class _Strong:
    """Stands for a weak reference to an object of a type that allows none."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __call__(self) -> Any:
        return self.obj


def _nothing() -> None:
    """No reference: a later survey is asked nothing once it is written."""


def _reference(obj: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(obj)
    except TypeError:
        return _Strong(obj)


def _is_bare(how: Kind) -> bool:
    return isinstance(how, Instance) and how.bare


# ---------------------------------------------------------------------------------------------------------------------
# Surveys


class Survey:
    """All that the roots reach. With ``base`` (the survey at the end of the set-up), also what changed since."""

    def __init__(self, classifier: Classifier, roots: list[Names], base: Survey | None = None) -> None:
        self.classifier = classifier
        self.base = base
        #: Numbers below this one were given by the base survey; the others are new objects.
        self.size: int = base.size if base is not None else 1 << 60
        self.entries: dict[int, Entry] = {}
        #: Number of each object met, by its id; ``objects`` keeps them alive, so that ids stay theirs.
        self.numbers: dict[int, int] = {}
        self.objects: dict[int, Any] = {}
        #: Base objects whose own content changed, in the order of the walk.
        self.changed: list[int] = []
        #: Opaque base objects that changed: they are saved as new ones, and their holders point to those.
        self.replaced: set[int] = set()
        #: What cannot be saved, by id, and why; new objects only.
        self.left: dict[int, str] = {}
        #: What is iterated or open since the set-up, and may have moved on: number and reason.
        self.unsaved: list[tuple[int, str]] = []
        #: The same for names that turned out not to pickle.
        self.unsaved_names: list[tuple[str, str]] = []
        #: Tensors that came of a computation and still have its graph.
        self._computed: list[int] = []
        #: Of each opaque object and each of those tensors, who holds it: numbers, or a root and a name in it.
        self._holders: dict[int, set[int | tuple[int, str]]] = {}
        #: Of each object that is compared by its pickle: the numbers that stand in it.
        self._refers: dict[int, set[int]] = {}
        self._todo: collections.deque[tuple[int, Any, Kind]] = collections.deque()
        self._parent = 0
        self._mark, self._loose = 0, False
        self._name = ""
        self._next = 0
        self.roots = roots
        self._root_tokens: dict[str, dict[str, bytes]] = {}
        # A walk makes many small objects and no garbage: collections in between would find nothing, again and again.
        collects = gc.isenabled()
        gc.disable()
        try:
            self._walk()
        finally:
            if collects:
                gc.enable()
        if base is None:
            self.size = self._next

    # -- walking -----------------------------------------------------------------------------------------------------

    def _walk(self) -> None:
        self._next = self.base.size if self.base is not None else 1
        # Number 0 is the namespace itself: a cell may hold its globals(), which is no state of its own.
        main = self.classifier.main
        self.numbers[id(main)], self.objects[0] = 0, main
        self.entries[0] = Entry(0, -1, "globals()", SILENT, _Strong(main), mark_of("globals()", 0))
        for number, root in enumerate(self.roots):
            self._parent = -1 - number
            self._mark, self._loose = mark_of(root.label, 1), False
            tokens = self._root_tokens[root.label] = {}
            for name, value in root.values().items():
                self._name = name
                tokens[name] = signature(self.see(value, name))
        # What is compared by its pickle comes last: by then everything that such a pickle may refer to has its number.
        last: list[tuple[int, Any, Kind]] = []
        addresses: list[int] = []
        see = self.see
        while self._todo:
            number, obj, how = self._todo.popleft()
            self._parent = number
            entry = self.entries[number]
            if not entry.loose and is_loose(obj, how):
                entry.loose = True
            if may_hold_addresses(obj, how):
                addresses.append(number)
            self._mark, self._loose = entry.mark, entry.loose
            if how is OPAQUE or isinstance(how, kinds.ByState):
                last.append((number, obj, how))
                continue
            try:
                found = signature(how.look(obj, see))
            except Exception as error:
                # Somebody's class that does not let itself be looked into: the trial is not to fail for it.
                self._give_up(number, obj, error)
            else:
                self._compare(number, found)
        for number, obj, how in last:
            self._compare_pickle(number, obj, how)
        if self.replaced:
            self._replace_holders(last)
        for number in addresses:
            if holds_addresses(self.objects[number], self.numbers):
                self.entries[number].loose = True

    def see(self, child: Any, key: str | int) -> Token:
        """The token of ``child``, which stands at ``key`` in the object that is looked into now."""
        cls = type(child)
        if cls in SCALARS:
            return child
        number = self.numbers.get(id(child))
        if number is None:
            try:
                how = self.classifier.how(child)
            except Exception:  # somebody's class that answers no question
                how = SILENT
            if not isinstance(how, Kind):
                return how(child, self.see, key)
            number = self._meet(child, key, how)
        elif number in self._holders:
            self._holders[number].add(self._holder())
        return (..., self.entries[number].mark if number < self.size else -1)

    def _meet(self, obj: Any, key: str | int, how: Kind) -> int:
        number = -1
        loose = self._loose
        if self.base is not None:
            known = self.base.entry_of(obj)
            if known is not None:
                number, how = known.number, known.how if known.how is not OPAQUE else how
                mark, loose = known.mark, known.loose
        if number < 0:
            number = self._next
            self._next += 1
            mark = mark_of(key, self._mark)
            if isinstance(how, Fixed) and self.base is not None:
                self.left[id(obj)] = REASONS.get(how) or LATE_REASONS.get(how, "")
        if how in REASONS:
            self.unsaved.append((number, REASONS[how]))
        if how is self.classifier.storages:
            self.classifier.storages.seen_by.setdefault(id(obj), self.objects.get(self._parent))
        is_computed = how is TENSOR and not obj.is_leaf
        if is_computed:
            self._computed.append(number)
        if is_computed or how is OPAQUE:
            self._holders[number] = {self._holder()}
        self.numbers[id(obj)] = number
        self.objects[number] = obj
        reference = _reference(obj) if self.base is None else _nothing
        self.entries[number] = Entry(number, self._parent, key, how, reference, mark, loose)
        self._todo.append((number, obj, how))
        return number

    def _compare(self, number: int, found: bytes) -> None:
        self.entries[number].signature = found
        if self.base is not None and number < self.size and self.base.entries[number].signature != found:
            self.changed.append(number)

    def _give_up(self, number: int, obj: Any, error: Exception) -> None:
        reason = f"a {type(obj).__name__} could not be inspected ({type(error).__name__}: {error})"
        if isinstance(error, kinds.NotLookedInto):
            reason = str(error)
        self.unsaved.append((number, reason))
        if number >= self.size:
            self.left[id(obj)] = reason

    def _compare_pickle(self, number: int, obj: Any, how: Kind) -> None:
        from workbench.trial.graph import digest_of

        try:
            content = obj if how is OPAQUE else how.content(obj, self.is_left)
            found, self._refers[number] = digest_of(content, self)
        except Exception as error:
            # Nothing to compare by: whatever it has become, a resumed trial has what the set-up code makes.
            found = b""
            if number >= self.size:
                self.left[id(obj)] = f"{type(obj).__name__} cannot be pickled: {error}"
            elif reason := lost(obj, error):
                self.unsaved.append((number, reason))
        if how is not OPAQUE:
            self._compare(number, found)
            return
        self.entries[number].signature = found
        if self.base is not None and number < self.size and self.base.entries[number].signature != found:
            self._replace(number)

    def _replace(self, number: int) -> None:
        self.replaced.add(number)
        for holder in self._holders[number]:
            if isinstance(holder, int) and holder < self.size and holder not in self.changed:
                self.changed.append(holder)

    def _replace_holders(self, pickled: list[tuple[int, Any, Kind]]) -> None:
        """Whatever holds a replaced object inside its own pickle would go on with the old one: it goes along."""
        waiting = list(self.replaced)
        while waiting:
            one = waiting.pop()
            for number, _, how in pickled:
                if number >= self.size or one not in self._refers.get(number, ()):
                    continue
                if how is not OPAQUE:
                    if number not in self.changed:
                        self.changed.append(number)
                elif number not in self.replaced:
                    self._replace(number)
                    waiting.append(number)

    def _holder(self) -> int | tuple[int, str]:
        return self._parent if self._parent >= 0 else (self._parent, self._name)

    # -- asking ------------------------------------------------------------------------------------------------------

    def entry_of(self, obj: Any) -> Entry | None:
        """The entry of an object of this survey that still lives, or None."""
        number = self.numbers.get(id(obj))
        if number is None:
            return None
        entry = self.entries[number]
        return entry if entry.ref() is obj else None

    def is_left(self, obj: Any) -> bool:
        """True for a new object that cannot be saved."""
        return id(obj) in self.left

    def release(self) -> None:
        """Let go of the objects: from now on only those that nobody could refer to weakly are held."""
        self.objects.clear()

    def forget(self, later: Survey) -> None:
        """Forget the objects that ``later`` no longer met, so that they can be freed. Their paths stay known."""
        for number, entry in self.entries.items():
            if number not in later.entries:
                entry.ref = _nothing
        self.numbers = {key: number for key, number in self.numbers.items() if number in later.entries}

    def path(self, number: int) -> str:
        """Where the object stands, as a person would write it: ``model.0.weight``, ``history[3]``."""
        keys: list[str] = []
        entry_number = number
        while entry_number >= 0:
            entry = self.entries[entry_number]
            keys.append(entry.key if isinstance(entry.key, str) else f"[{entry.key}]")
            entry_number = entry.parent
        label = self.roots[-1 - entry_number].label
        return label + "".join(reversed(keys))

    def top(self, number: int) -> str:
        """The name through which the object was met first, as a person would write it: with its function, if any."""
        while number >= 0:
            entry = self.entries[number]
            number = entry.parent
        return f"{self.roots[-1 - number].label}{entry.key}"

    def tokens(self) -> Iterator[tuple[Names, str, Token]]:
        """What each name stood for: its root, the name, its token."""
        for root in self.roots:
            for name, token in self._root_tokens[root.label].items():
                yield root, name, token

    def save_from_now_on(
        self, numbers: Iterable[int], by_value: Iterable[int], names: Iterable[tuple[str, str]]
    ) -> None:
        """Have later surveys find these changed, whether they are or not.

        numbers: objects that are put back in place. by_value: objects that a later survey takes for new ones, so that
        their holders refer to what is made of the checkpoint. names: (label of the root, name).
        """
        for number in numbers:
            self.entries[number].signature = b""
        gone = set(by_value)
        self.numbers = {key: number for key, number in self.numbers.items() if number not in gone}
        for label, name in names:
            self._root_tokens[label][name] = b""

    def name(self, number: int) -> str:
        """The name through which the object was met first."""
        while True:
            entry = self.entries[number]
            if entry.parent < 0:
                root = self.roots[-1 - entry.parent] if number else None
                return root.named(str(entry.key)) if root is not None else str(entry.key)
            number = entry.parent

    def heaviest(self) -> tuple[str, int] | None:
        """The name through which most objects of Python are reached, and about how many."""
        counts: collections.Counter[str] = collections.Counter()
        for number, obj in self.objects.items():
            if type(obj) in (list, dict, set, collections.deque) and len(obj) >= kinds.MANY:
                counts[self._top(number)] += len(obj)
        apart = max(1, len(self.entries) // 10_000)  # a sample says it, where there are very many
        for number in list(self.entries)[::apart]:
            counts[self._top(number)] += apart
        return max(counts.items(), key=lambda one: one[1], default=None)

    def _top(self, number: int) -> str:
        """The name, with the function that it belongs to."""
        while (parent := self.entries[number].parent) >= 0:
            number = parent
        return self.path(number)

    def graphs(self) -> Iterator[tuple[str, Names, str]]:
        """Tensors whose graph no checkpoint holds, and which no set-up code makes again: path, root, name in it.

        Only those that a name stands for, or that lie in its lists and dicts: what a module keeps of its last forward
        it gives anew in the next.
        """
        changed = set(self.changed)
        for number in self._computed:
            if number < self.size and number not in changed:
                continue
            for holder in self._holders[number]:
                if not isinstance(holder, int):
                    root = self.roots[-1 - holder[0]]
                    yield root.label + holder[1], root, holder[1]
                    continue
                entry = self.entries[holder]
                while entry.parent >= 0 and _is_bare(entry.how):
                    entry = self.entries[entry.parent]
                if _is_bare(entry.how):
                    yield f"{self.path(holder)}[0]", self.roots[-1 - entry.parent], str(entry.key)

    def changed_names(self, root: Names) -> tuple[list[str], list[str]]:
        """Names of ``root`` that stand for something else than in the base survey, and names that are gone."""
        assert self.base is not None
        before, now = self.base._root_tokens.get(root.label, {}), self._root_tokens[root.label]
        changed = [name for name, token in now.items() if before.get(name) != token]
        place = -1 - self.roots.index(root)
        for number in self.replaced:
            for holder in self._holders[number]:
                if isinstance(holder, tuple) and holder[0] == place and holder[1] not in changed:
                    changed.append(holder[1])
        return changed, [name for name in before if name not in now and name not in root.skipped]

    def state_dict_owner(self, number: int) -> int | None:
        """The base object above ``number`` that gives and takes its own state, past modules and optimizers."""
        torch = loaded("torch")
        while number >= 0:
            entry = self.entries[number]
            obj = self.objects.get(number)
            if number < self.size and has_state_dict(obj):
                walked = torch is not None and isinstance(obj, torch.nn.Module | torch.optim.Optimizer)
                return None if walked else number
            number = entry.parent
        return None

"""The state of the training code: surveys of all that its names reach, and what changed between two of them.

Law: nothing is declared. A survey at the end of the set-up numbers every object that the names of the cell (and the
locals of the functions around the loop) reach, and stores a signature of each one's own content. A later survey tells
what is new and what changed since. Unchanged objects are not saved: the set-up code makes them again. Changed content
is restored into the object that the set-up code made, found by its path, so all other holders of the object see it.
"""

from __future__ import annotations

import collections
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.snapshot.imported import loaded
from workbench.trial import kinds, torch_kinds
from workbench.trial.classifier import (
    FILE,
    LATE_REASONS,
    OPAQUE,
    REASONS,
    SILENT,
    TENSOR,
    Classifier,
    has_state_dict,
    lost,
)
from workbench.trial.kinds import SCALARS, Fixed, Instance, Kind, Stateless, Token
from workbench.trial.looking import written
from workbench.trial.looking.collector import uncollected
from workbench.trial.looking.digests import counts_bound, looks_into, signature
from workbench.trial.looking.standard import is_environment
from workbench.trial.marks import address_in, holds_addresses, is_loose, mark_of, may_hold_addresses

# ---------------------------------------------------------------------------------------------------------------------
# Roots: where the walk starts


class Names(Kind):
    """A namespace where the walk starts: the cell's, or the locals of one function around the loop."""

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
        #: Names that the current checkpoint omits, and names that were restored from one.
        self.skipped, self.restored = set[str](), set[str]()

    def named(self, name: str) -> str:
        """The name as shown to users: names of a module include the module."""
        return f"{self.label}{name}" if self.is_module else name

    def restore(self, changed: dict[str, Any], gone: list[str]) -> None:
        """Set names as a checkpoint has them."""
        self.restored.update(changed)
        self.set(changed, gone)

    def values(self) -> Mapping[str, Any]:
        """The current values of its names."""
        values = self._values()
        if not self.skipped:
            return values
        return {name: value for name, value in values.items() if name not in self.skipped}


@dataclass(slots=True)
class Entry:
    """One object of a survey."""

    number: int
    parent: int
    key: str | int
    how: Kind
    ref: Callable[[], Any]
    #: The path's mark, equal in every process: see :mod:`workbench.trial.course.made`.
    mark: int = 0
    #: True for objects that naturally differ between processes, and for all below them.
    loose: bool = False
    signature: bytes = b""


class _Strong:
    """Replaces a weak reference for objects whose type does not support them."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __call__(self) -> Any:
        return self.obj


def _nothing() -> None:
    """Replaces the references of a later survey, which is not queried once it is written."""


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
    """Everything that the roots reach. With ``base`` (the survey at the end of the set-up), also what changed since."""

    def __init__(self, classifier: Classifier, roots: list[Names], base: Survey | None = None) -> None:
        self.classifier = classifier
        self.base = base
        #: Smaller numbers come from the base survey; the others are new objects.
        self.size: int = base.size if base is not None else 1 << 60
        self.entries: dict[int, Entry] = {}
        #: Number of each visited object, by its id; ``objects`` keeps them alive, so that no id is reused.
        self.numbers: dict[int, int] = {}
        self.objects: dict[int, Any] = {}
        #: Base objects whose own content changed, in walk order.
        self.changed: list[int] = []
        #: Opaque base objects that changed: they are saved as new objects, and their holders refer to those.
        self.replaced: set[int] = set()
        #: New objects that cannot be saved, by id, with the reason.
        self.left: dict[int, str] = {}
        #: Iterators and open files of the set-up that may have moved on: number and reason.
        self.unsaved: list[tuple[int, str]] = []
        #: The same for names whose values turned out not to pickle.
        self.unsaved_names: list[tuple[str, str]] = []
        #: The name that led to each object to which one did, and each further way to an object: its number, that of
        #: what refers to it (below 0: of a root), and the name in that root.
        self.named: dict[int, str] = {}
        self.again: list[tuple[int, int, str]] = []
        #: Tensors that result from a computation and still have its graph.
        self._computed: list[int] = []
        #: The holders of each opaque object and each of those tensors: numbers, or a root and a name in it.
        self._holders: dict[int, set[int | tuple[int, str]]] = {}
        #: The numbers of the objects inside each object that is compared by its pickle.
        self._refers: dict[int, set[int]] = {}
        #: Where numbers lie in storages of nothing else: see :func:`torch_kinds.scalar_place`.
        self._scalars: dict[int, list[torch_kinds.Place]] = {}
        self._todo: collections.deque[tuple[int, Any, Kind]] = collections.deque()
        self._parent = 0
        self._mark, self._loose = 0, False
        self._name, self._next = "", 0
        self.roots = roots
        self._root_tokens: dict[str, dict[str, bytes]] = {}
        with uncollected():
            self._walk()
        if base is None:
            self.size = self._next

    # -- walking -----------------------------------------------------------------------------------------------------

    def _walk(self) -> None:
        self._next = self.base.size if self.base is not None else 1
        # Number 0 is the namespace itself: a cell may hold its globals(), which must not count as state.
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
        # Objects compared by pickle come last: by then everything that such a pickle may refer to has its number.
        last: list[tuple[int, Any, Kind]] = []
        storages: list[tuple[int, Any]] = []
        # Those that may have objects' addresses as keys wait for all others: their paths contain the objects' paths.
        addresses: dict[int, None] = {}
        waiting: list[tuple[int, Any, Kind]] = []
        # A loop of thousands of rounds for a large model: what all of them read is looked up once.
        see, todo, entries, storage = self.see, self._todo, self.entries, self.classifier.storages
        while todo or waiting:
            if not todo:
                todo.extend(waiting)
                waiting.clear()
            number, obj, how = todo.popleft()
            self._parent = number
            entry = entries[number]
            if not entry.loose and is_loose(obj, how):
                entry.loose = True
            if number not in addresses and may_hold_addresses(obj, how):
                addresses[number] = None
                if looks_into():  # in earlier checkpoints they did not wait
                    waiting.append((number, obj, how))
                    continue
            self._mark, self._loose = entry.mark, entry.loose
            if how is OPAQUE or isinstance(how, kinds.ByState):
                last.append((number, obj, how))
                continue
            if how is storage and number in self._holders:
                storages.append((number, obj))
                continue
            try:
                found = signature(how.look(obj, see))
            except Exception as error:
                # A class of another library that cannot be inspected: the trial must not fail because of it.
                self._give_up(number, obj, error)
            else:
                self._compare(number, found)
        for number, obj, how in last:
            self._compare_pickle(number, obj, how)
        for number, obj in storages:  # by now all tensors on them are known
            self._compare_storage(number, obj)
        if self.replaced:
            self._replace_holders(last)
        for number in addresses:
            if holds_addresses(self.objects[number], self.numbers):
                self.entries[number].loose = True

    def see(self, child: Any, key: str | int) -> Token:
        """The token of ``child``, which is at ``key`` in the object that is being inspected."""
        cls = type(child)
        if cls in SCALARS:
            return child
        number = self.numbers.get(id(child))
        if number is None:
            known = self.base.entry_of(child) if self.base is not None else None
            if known is not None and known.how is not OPAQUE:
                number = self._meet(child, key, known.how, known)
            else:
                try:
                    how = self.classifier.how(child)
                except Exception:  # a class of another library that raises here
                    how = OPAQUE if counts_bound() else SILENT
                if not isinstance(how, Kind):
                    return how(child, self.see, key)
                number = self._meet(child, key, how, known)
        else:
            if number in self._holders:
                self._holders[number].add(self._holder())
            if self.base is not None:
                self.again.append((number, self._parent, self._name))
        return (..., self.entries[number].mark if number < self.size else -1)

    def _meet(self, obj: Any, key: str | int, how: Kind, known: Entry | None) -> int:
        """The number of an object that this survey has not met. known: its entry in the base survey."""
        is_written = False
        if known is not None:
            number, mark, loose = known.number, known.mark, known.loose
        else:
            number, loose = self._next, self._loose
            self._next += 1
            if type(key) is str and (address := address_in(key)) in self.numbers and looks_into():
                key = f"[id({self.path(self.numbers[address])})]"
            mark = mark_of(key, self._mark)
            is_written = self.base is not None and how is FILE and written.is_one(obj)  # the graph has it
            if isinstance(how, Fixed) and self.base is not None and not isinstance(how, Stateless) and not is_written:
                self.left[id(obj)] = REASONS.get(how) or LATE_REASONS.get(how, "")
        if how in REASONS and not is_written:
            self.unsaved.append((number, REASONS[how]))
        if how is self.classifier.storages:
            holder = self.objects.get(self._parent)
            self.classifier.storages.seen_by.setdefault(id(obj), holder)
            if torch_kinds.scalar_place(holder):
                self._holders[number] = {self._holder()}
        is_computed = how is TENSOR and not obj.is_leaf
        if is_computed:
            self._computed.append(number)
        if is_computed or how is OPAQUE:
            self._holders[number] = {self._holder()}
        self.numbers[id(obj)] = number
        self.objects[number] = obj
        if self._parent < 0:
            self.named[number] = self._name
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
        from workbench.trial.looking.pickles import digest_of

        try:
            content = obj if how is OPAQUE else how.content(obj, self.is_left)
            found, self._refers[number] = digest_of(content, self)
        except Exception as error:
            # Nothing to compare: a resumed trial always gets what the set-up code makes.
            found = b""
            if number >= self.size and not written.is_writer(obj):
                self.left[id(obj)] = f"{type(obj).__name__} cannot be pickled: {error}"
            elif reason := lost(obj, error):
                self.unsaved.append((number, reason))
        if how is not OPAQUE:
            self._compare(number, found)
            return
        self.entries[number].signature = found
        if self.base is not None and number < self.size and self.base.entries[number].signature != found:
            self._replace(number)

    def _compare_storage(self, number: int, obj: Any) -> None:
        holders: list[Any] = [*self._holders[number]]
        places = []
        if not any(number in refers for refers in self._refers.values()):
            places = self._scalars[number] = torch_kinds.scalar_places(map(self.objects.get, holders), obj)
        storages = self.classifier.storages
        self._compare(number, signature(storages.look_at(obj, places) if places else storages.look(obj, self.see)))

    def _replace(self, number: int) -> None:
        self.replaced.add(number)
        for holder in self._holders[number]:
            if isinstance(holder, int) and holder < self.size and holder not in self.changed:
                self.changed.append(holder)

    def _replace_holders(self, pickled: list[tuple[int, Any, Kind]]) -> None:
        """Also replace pickled holders of a replaced object: otherwise they would keep the old one."""
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

    # -- queries -----------------------------------------------------------------------------------------------------

    def entry_of(self, obj: Any) -> Entry | None:
        """The entry of a live object of this survey, or None."""
        number = self.numbers.get(id(obj))
        if number is None:
            return None
        entry = self.entries[number]
        return entry if entry.ref() is obj else None

    def pickled(self) -> Iterable[int]:
        """The objects that are compared by their pickles."""
        return self._refers

    def is_left(self, obj: Any) -> bool:
        """True for a new object that cannot be saved."""
        return id(obj) in self.left

    def scalars_in(self, storage: Any) -> list[torch_kinds.Place]:
        """Where the numbers lie in a storage of nothing else; empty for other storages."""
        return self._scalars.get(self.numbers.get(id(storage), -1), [])

    def release(self) -> None:
        """Release the objects: from now on only those without weak references are kept alive."""
        self.objects.clear()

    def forget(self, later: Survey) -> None:
        """Forget the objects that ``later`` did not visit, so that they can be freed. Their paths stay known."""
        for number, entry in self.entries.items():
            if number not in later.entries:
                entry.ref = _nothing
        self.numbers = {key: number for key, number in self.numbers.items() if number in later.entries}

    def path(self, number: int) -> str:
        """The path of the object, as a user would write it: ``model.0.weight``, ``history[3]``."""
        keys: list[str] = []
        entry_number = number
        while entry_number >= 0:
            entry = self.entries[entry_number]
            keys.append(entry.key if isinstance(entry.key, str) else f"[{entry.key}]")
            entry_number = entry.parent
        label = self.roots[-1 - entry_number].label
        return label + "".join(reversed(keys))

    def top(self, number: int) -> str:
        """The name that led to the object first, as a user would write it: with its function, if any."""
        entry = self.led_to(number)
        return f"{self.roots[-1 - entry.parent].label}{entry.key}"

    def led_to(self, number: int) -> Entry:
        """The object to which a name led, and from which this one was reached first; it may be the same."""
        entry = self.entries[number]
        while entry.parent >= 0:
            entry = self.entries[entry.parent]
        return entry

    def tokens(self) -> Iterator[tuple[Names, str, Token]]:
        """The value of each name: its root, the name, its token."""
        for root in self.roots:
            for name, token in self._root_tokens[root.label].items():
                yield root, name, token

    def save_from_now_on(
        self, numbers: Iterable[int], by_value: Iterable[int], names: Iterable[tuple[str, str]]
    ) -> None:
        """Have later surveys report these as changed in any case.

        numbers: objects that are restored in place. by_value: objects that a later survey treats as new, so that their
        holders refer to the objects made from the checkpoint. names: (label of the root, name).
        """
        for number in numbers:
            self.entries[number].signature = b""
        gone = set(by_value)
        self.numbers = {key: number for key, number in self.numbers.items() if number not in gone}
        for label, name in names:
            self._root_tokens[label][name] = b""

    def name(self, number: int) -> str:
        """The name that led to the object first."""
        entry = self.led_to(number)
        name = self.named.get(entry.number)
        return str(entry.key) if name is None else self.roots[-1 - entry.parent].named(name)

    def heaviest(self) -> tuple[str, int] | None:
        """The name that leads to the most Python objects, and about how many."""
        counts: collections.Counter[str] = collections.Counter()
        for number, obj in self.objects.items():
            if type(obj) in (list, dict, set, collections.deque) and len(obj) >= kinds.MANY:
                counts[self.top(number)] += len(obj)
        apart = max(1, len(self.entries) // 10_000)  # if there are very many, a sample is enough
        for number in list(self.entries)[::apart]:
            counts[self.top(number)] += apart
        return max(counts.items(), key=lambda one: one[1], default=None)

    def graphs(self) -> Iterator[tuple[str, Names, str]]:
        """Tensors whose graph is in no checkpoint and is not made again by the set-up: path, root, name in it.

        Only values of names, and items of their lists and dicts: what a module keeps of its last forward pass is
        replaced in the next.
        """
        changed = set(self.changed)
        for number in self._computed:
            if number < self.size and number not in changed:
                continue
            if torch_kinds.is_used_up(self.objects[number]):
                continue  # going back through it would be an error, with or without a resume
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
        """Names of ``root`` that have other values than in the base survey, and names that are gone."""
        assert self.base is not None
        before, now = self.base._root_tokens.get(root.label, {}), self._root_tokens[root.label]
        changed = [name for name, token in now.items() if before.get(name) != token]
        place = -1 - self.roots.index(root)
        for number in self.replaced:
            for holder in self._holders[number]:
                if isinstance(holder, tuple) and holder[0] == place and holder[1] not in changed:
                    changed.append(holder[1])
        return changed, [name for name in before if name not in now and name not in root.skipped]

    def owner_as_whole(self, number: int) -> int | None:
        """The base object above ``number`` that is restored as a whole, or not at all: a loader that saves and loads
        where it is, or an environment. A trainer may load less than it has."""
        torch = loaded("torch")
        while number >= 0:
            obj = self.objects.get(number)
            if torch is not None and isinstance(obj, torch.nn.Module | torch.optim.Optimizer):
                return None  # a container of modules is iterable as well
            is_loader = has_state_dict(obj) and isinstance(obj, Iterable)
            if number < self.size and (is_loader or is_environment(type(obj))):
                return number
            number = self.entries[number].parent
        return None

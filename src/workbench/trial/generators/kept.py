"""Generators that installed packages keep from their import on: Faker's, those of MONAI's transforms. Law: in each leg
they begin as in a process of its own, and a leg that resumes has them as its checkpoint found them.

They are found in the names of installed modules, in the classes that these define, and in the attributes of objects of
these classes. One that was made without a seed follows the trial's; another begins as its package made it. A process
holds them, whichever trial it trains, so nothing else would set them apart. Numbers that a package draws while it is
imported are not affected (see :mod:`workbench.trial.generators.seeds`).

One that a package makes without a seed later, when it first needs it, is a part of the state as well; the next leg gets
a process of its own then.
"""

from __future__ import annotations

import contextlib
import copy
import pickle
import random
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.search.seeds import trial_seed
from workbench.snapshot.imported import Newest, loaded
from workbench.trial.generators import unseeded
from workbench.trial.process.isolation import is_installed

#: Why a leg that resumes does not have one that the loop was the first to need.
LATE = "its package made it in the loop, and makes another one after a resume: draw from it in the set-up once"
#: Why it does not have one that training has put in a package's place.
REPLACED = "training has put a generator of its own in the package's place, and the set-up does not: do it there"
#: Modules hold these by the thousand. None is a generator, or holds one in a way that is looked for.
_PLAIN: tuple[type, ...] = (types.FunctionType, types.ModuleType, property, classmethod, staticmethod)
_GENERATOR, _CLASS, _OBJECT, _OTHER = range(4)
#: Packages that are not looked at. torch's compiler uses SymPy, whose generators would cost each checkpoint 40 µs.
_OTHERS = ("workbench", "sympy")
#: So many new modules are not looked through again: an experiment's own, which each leg imports again, are fewer.
_MANY = 64


@dataclass(slots=True, eq=False)
class _Generator:
    """A generator of a package's, whatever names it has."""

    value: Any
    #: Its state after its package's import. None: it came later.
    made: Any
    #: Where it was made, if it had no seed.
    place: str | None
    #: Its state at the beginning of the leg. None: it came later.
    begun: Any = None

    def begin(self, seed: tuple[int, int]) -> None:
        """Set it as the leg begins."""
        if self.made is None:
            return
        with contextlib.suppress(Exception):  # of a package's own class
            if self.place is not None:
                _reseed(self.value, trial_seed(*seed, f"kept/{self.place}"))
            else:
                _put(self.value, self.made)
            self.begun = _state(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class _Slot:
    """A name that holds a generator."""

    label: str
    holder: Any
    name: str
    generator: _Generator

    @property
    def now(self) -> Any:
        """The generator that the name holds now; None if it holds something else."""
        found = _names(self.holder).get(self.name)
        return found if _kind(type(found)) == _GENERATOR else None


@dataclass(slots=True)
class _Kept:
    """What this process knows of them."""

    slots: list[_Slot] = field(default_factory=list)
    generators: dict[int, _Generator] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)
    #: The modules that were looked at; how many there were, and the newest: to read thousands of names takes longer.
    looked: set[str] = field(default_factory=set)
    newest: tuple[int, str | None] = (0, None)
    #: All modules up to this one were looked at.
    before: Newest | None = None
    #: The trial's, while a leg trains.
    seed: tuple[int, int] | None = None
    #: By label, what a checkpoint holds of those that are not there yet.
    pending: dict[str, Any] = field(default_factory=dict)


_kept = _Kept()


def look(*, is_late: bool = False) -> None:
    """Find those of the modules that were imported since the last look, and what packages have made later.

    is_late: training may have drawn from them since.
    """
    # Generators that training makes without a seed in a package's function may stay in the package.
    again = unseeded.packages()
    new, newest = [], (len(sys.modules), next(reversed(sys.modules), None))
    if newest != _kept.newest:
        _kept.newest = newest
        now = Newest()  # first: another thread may import meanwhile
        later = _kept.before.later() if _kept.before is not None else None
        new = [name for name in list(sys.modules if later is None else later) if name not in _kept.looked]
        if later is None or len(later) > _MANY:
            _kept.before = now
    shared = _global() if new or again else set()
    for name in new:
        if sys.modules.get(name) is not None and loaded(name) is None:
            _kept.newest, _kept.before = (0, None), None  # another thread is importing it
        else:
            _kept.looked.add(name)
            _take(name, shared, is_late=is_late)
    if again and _kept.seed is not None:
        for name in [name for name in list(sys.modules) if name.partition(".")[0] in again]:
            _take(name, shared, is_late=True)


def begin(seed: tuple[int, int]) -> None:
    """Set all as a leg with these seeds begins."""
    _kept.seed, _kept.pending = seed, {}
    look()
    for slot in _kept.slots:
        if slot.now is not slot.generator.value:
            with contextlib.suppress(Exception):  # its class refuses to be changed
                setattr(slot.holder, slot.name, slot.generator.value)
    for one in _kept.generators.values():
        one.begin(seed)


def end() -> str | None:
    """The leg has ended. Why another one may not use this process, or None if it may."""
    if _kept.seed is None:
        return None
    look(is_late=True)
    _kept.seed = None
    late = [slot.label for slot in _kept.slots if slot.generator.made is None]
    return f"a package keeps a generator that it made while it was used: {late[0]}" if late else None


def lend(seed: tuple[int, int] | None, *, is_worker: bool = False) -> tuple[int, int] | None:
    """Follow other seeds from here on; those that were followed. Nothing changes where none were.

    is_worker: this is a process of a loader, which follows others for each batch: there those that have a seed of their
    package's follow them too, or they would draw the same for each.
    """
    before = _kept.seed
    if before is None or seed is None:
        return before
    look(is_late=True)
    _kept.seed = seed
    set_so_far: set[int] = set()
    for slot in _kept.slots:
        one, known = slot.now, slot.generator
        if one is None or id(one) in set_so_far:
            continue
        set_so_far.add(id(one))
        with contextlib.suppress(Exception):  # of a package's own class
            if known.place is None and known.made is not None and one is known.value and not is_worker:
                _put(one, known.made)
            else:
                _reseed(one, trial_seed(*seed, f"kept/{known.place or slot.label}"))
    return before


def state() -> dict[str, Any]:
    """By label, the states of those that have moved since the leg began."""
    if _kept.seed is None:
        return {}
    look(is_late=True)
    found = {}
    for slot in _kept.slots:
        one = slot.now
        if one is not None:
            now = _state(one)
            if one is not slot.generator.value or now != slot.generator.begun:
                found[slot.label] = now
    return {**_kept.pending, **found}


def put(saved: dict[str, Any]) -> None:
    """Restore what :func:`state` returned. What is not there yet is set when its package is imported."""
    if _kept.seed is None:
        return
    look(is_late=True)
    _kept.pending = {label: one for label, one in saved.items() if label not in _kept.labels}
    restored: dict[int, Any] = {}
    for slot in _kept.slots:
        one = slot.now
        if one is None or slot.label not in saved:
            continue
        with contextlib.suppress(Exception):  # of another kind than what was saved: see :func:`replaced`
            wanted = saved[slot.label]
            if restored.setdefault(id(one), wanted) != wanted:  # training had put another one here
                one = copy.deepcopy(one)
                setattr(slot.holder, slot.name, one)
            _put(one, wanted)
    for known in _kept.generators.values():
        if id(known.value) not in restored and known.begun is not None and _state(known.value) != known.begun:
            _put(known.value, known.begun)


def late() -> frozenset[str]:
    """The labels of those that packages have made when they first needed them."""
    if _kept.seed is not None:
        look(is_late=True)
    return frozenset(slot.label for slot in _kept.slots if slot.generator.made is None)


def replaced() -> list[tuple[str, Any, bool]]:
    """Those in whose place training has put another one: the label, what is there now, and whether it is of the same
    kind: a resume gives the package's own its state then, and else nothing."""
    return [
        (slot.label, slot.now, type(slot.now) is type(slot.generator.value))
        for slot in _kept.slots
        if _kept.seed is not None and slot.now is not None and slot.now is not slot.generator.value
    ]


def _take(name: str, shared: set[int], *, is_late: bool) -> None:
    """Note what a module holds that was not known. shared: the libraries' own, by ``id``."""
    module = sys.modules.get(name)
    package = name.partition(".")[0]
    if not isinstance(module, types.ModuleType) or package in sys.stdlib_module_names or package in _OTHERS:
        return
    if not is_installed(module):
        return  # a leg imports it again, and finds what it holds as state
    for label, holder, key, value in _holds(name, module):
        if id(value) in shared or label in _kept.labels:
            continue
        known = _kept.generators.get(id(value))
        if known is None:
            place = None if is_late else unseeded.place_of(value)
            made = _usable(value, place)
            if made is None:
                continue
            known = _kept.generators[id(value)] = _Generator(value, None if is_late else made, place)
            if _kept.seed is not None:
                known.begin(_kept.seed)
        _kept.slots.append(_Slot(label, holder, key, known))
        _kept.labels.add(label)
        if label in _kept.pending:
            with contextlib.suppress(Exception):
                _put(value, _kept.pending.pop(label))


def _usable(one: Any, place: str | None) -> Any:
    """Its state; None for one of a package's own class, of which it cannot be read or set."""
    with contextlib.suppress(Exception):
        state = _state(one)
        if place is not None:
            _reseed(one, 0)
        _put(one, state)
        return state
    return None


def _holds(name: str, module: types.ModuleType) -> Iterator[tuple[str, Any, str, Any]]:
    """The generators that a module holds: a label, what holds it, under which name, and the generator."""
    for key, value in list(_names(module).items()):
        kind = _kind(type(value))
        if kind == _GENERATOR:
            yield f"{name}:{key}", module, key, value
        elif (kind == _CLASS and _module(value) == name) or (
            kind == _OBJECT and _module(type(value)).partition(".")[0] == name.partition(".")[0]
        ):
            for inner, held in list(_names(value).items()):
                if _kind(type(held)) == _GENERATOR:
                    yield f"{name}:{key}.{inner}", value, inner, held


def _module(cls: type) -> str:
    """The name of a class's module; empty for those of other languages that have none."""
    try:
        found = type.__getattribute__(cls, "__module__")
    except AttributeError:
        return ""
    return found if isinstance(found, str) else ""


def _names(holder: Any) -> Mapping[str, Any]:
    """What a module, class or object holds by name; none of its own code runs."""
    try:
        found = (type if issubclass(type(holder), type) else object).__getattribute__(holder, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, Mapping) else {}


_kinds: dict[type, int] = dict.fromkeys(_PLAIN, _OTHER)


def _kind(cls: type) -> int:
    try:
        known = _kinds.get(cls)
    except TypeError:  # its metaclass compares classes, and has no hashes
        return _OTHER
    if known is None:
        known = _OBJECT if type.__getattribute__(cls, "__dictoffset__") else _OTHER
        if issubclass(cls, type):
            known = _CLASS
        elif issubclass(cls, _classes()) and not issubclass(cls, random.SystemRandom):
            known = _GENERATOR
        if known == _GENERATOR or not _may_be_partial(cls):
            _kinds[cls] = known
    return known


def _may_be_partial(cls: type) -> bool:
    """Whether its library is still being imported, so that its generators are not known yet."""
    top = _module(cls).partition(".")[0]
    return top in ("numpy", "torch") and loaded(top) is None


# ---------------------------------------------------------------------------------------------------------------------
# The kinds


def _classes() -> tuple[type, ...]:
    numpy, torch = loaded("numpy.random"), loaded("torch")
    found: list[type] = [random.Random]
    if numpy is not None:
        found += [numpy.RandomState, numpy.Generator, numpy.BitGenerator]
    if torch is not None:
        found.append(torch._C.Generator)
    return tuple(found)


def _global() -> set[int]:
    """Those that belong to the libraries, which seed and save them: packages have them in names of their own."""
    numpy, torch = loaded("numpy.random"), loaded("torch")
    found: list[Any] = [random._inst]
    if numpy is not None:
        shared = numpy.mtrand._rand
        found += [shared, shared._bit_generator]
    if torch is not None:
        found += [torch.default_generator, *torch.cuda.default_generators]
    return {id(one) for one in found}


def _core(one: Any) -> Any:
    """What has the state: NumPy's ``Generator`` draws from a bit generator."""
    numpy = loaded("numpy.random")
    return one.bit_generator if numpy is not None and isinstance(one, numpy.Generator) else one


def _state(one: Any) -> Any:
    one, numpy = _core(one), loaded("numpy.random")
    if isinstance(one, random.Random):
        return one.getstate()
    if numpy is not None and isinstance(one, numpy.RandomState):
        return pickle.dumps(one.get_state(legacy=False))  # arrays have no equality
    if numpy is not None and isinstance(one, numpy.BitGenerator):
        return pickle.dumps(one.state)
    return one.get_state().numpy().tobytes()


def _put(one: Any, saved: Any) -> None:
    one, numpy, torch = _core(one), loaded("numpy.random"), loaded("torch")
    if isinstance(one, random.Random):
        one.setstate(saved)
    elif numpy is not None and isinstance(one, numpy.RandomState):
        one.set_state(pickle.loads(saved))
    elif numpy is not None and isinstance(one, numpy.BitGenerator):
        one.state = pickle.loads(saved)
    else:
        one.set_state(torch.frombuffer(bytearray(saved), dtype=torch.uint8))


def _reseed(one: Any, seed: int) -> None:
    one, numpy = _core(one), loaded("numpy.random")
    if isinstance(one, random.Random):
        one.seed(seed)
    elif numpy is not None and isinstance(one, numpy.RandomState):
        one.set_state(numpy.RandomState(type(one._bit_generator)(seed)).get_state(legacy=False))
    elif numpy is not None and isinstance(one, numpy.BitGenerator):
        one.state = type(one)(seed).state
    else:
        one.manual_seed(seed)

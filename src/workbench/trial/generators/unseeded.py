"""Generators that are made without a seed. Law: they follow the trial's seed, each by the place that makes it.

``numpy.random.default_rng()``, ``random.Random()``, ``torch.Generator()`` and the like ask the operating system for
entropy (torch uses one constant), so a set-up that uses them would make something else each time it runs. Here the
n-th one that a function makes gets one of the trial's seeds, derived from that function and n. The counts are a part of
the trial's random state: a generator made in the loop gets the same seed after a resume.

What an installed package makes while it is imported stays in the process for trials to come: its seed follows from the
place alone, and :mod:`workbench.trial.generators.kept` sets it for each of them.

In a loader's worker the seed is the worker's own, which torch draws from the trial's. Other processes that training
code starts still use the operating system's entropy: several of them would otherwise draw the same numbers. (What numba
has there is seeded for each fork, by :mod:`workbench.trial.generators.seeds`.)
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.search.seeds import trial_seed
from workbench.snapshot.imported import loaded

_OURS = str(Path(__file__).resolve().parent.parent)
_LIBRARY = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib")})
#: Modules that make generators; the code that calls them is the place that makes it.
_MAKERS = ("random", "numpy.random", "torch", "secrets")


class _Seeds:
    """Issues seeds in the process that trains one trial."""

    def __init__(self) -> None:
        self.seed: tuple[int, int] | None = None
        self.counts: dict[str, int] = {}
        #: The installed package that is being imported by the main thread; empty: none.
        self.importing = ""
        self.of_imports: dict[str, int] = {}
        #: What :func:`place_of` knows: the places by the seeds that were given, and Python's generators.
        self.given: dict[int, str] = {}
        self.python: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        #: Installed packages that have made some since a package's names were last looked at.
        self.packages: set[str] = set()
        self._pid = 0

    def begin(self, experiment_seed: int, trial: int) -> None:
        self.seed, self.counts = (experiment_seed, trial), {}
        self.adopt()

    def adopt(self) -> None:
        self._pid = os.getpid()

    def next(self) -> int | None:
        """The seed for a generator that is made now; None to ask the operating system."""
        is_import = bool(self.importing) and threading.current_thread() is threading.main_thread()
        if self.seed is None and not is_import:
            return None
        place, package = _place()
        if place is None:
            return None
        if is_import:
            return self._of_import(place)
        assert self.seed is not None
        if package is not None:
            self.packages.add(package)
        number = self.counts[place] = self.counts.get(place, 0) + 1
        worker = _worker_seed() if os.getpid() != self._pid else 0
        if worker is None:
            return None
        return _wide(self.seed, f"unseeded/{place}/{number}/{worker}")

    def _of_import(self, place: str) -> int:
        place = f"{self.importing}/{place}"  # another package that makes one there is counted by itself
        number = self.of_imports[place] = self.of_imports.get(place, 0) + 1
        made = f"{place}/{number}"
        seed = _wide((0, 0), f"import/{made}")
        self.given[seed] = self.given[seed & _63_BITS] = made
        return seed


def _wide(seed: tuple[int, int], purpose: str) -> int:
    """A seed of 64 bits."""
    low, high = (trial_seed(*seed, f"{purpose}/{half}") for half in (0, 1))
    return high << 32 | low


_seeds = _Seeds()
#: Restores each patched library.
_undo: list[Callable[[], None]] = []


def follow(experiment_seed: int, trial: int) -> None:
    """From now on, generators without a seed follow this trial's, in this process. Call :func:`forget` to end it."""
    _seeds.begin(experiment_seed, trial)
    _patch_loaded()


def here() -> None:
    """Mark this process, forked from the one that called :func:`follow`, as training the same trial."""
    _seeds.adopt()


def lend(seed: tuple[int, int] | None) -> tuple[int, int] | None:
    """Follow another seed, from a count of zero on; the one that was followed. Nothing changes where none was."""
    before = _seeds.seed
    if before is not None:
        _seeds.seed, _seeds.counts = seed, {}
    return before


def library_imported(name: str) -> None:
    """Patch a library that was imported after :func:`follow`, or while packages are imported ahead."""
    if (_seeds.seed is not None or _seeds.importing) and name in _PATCHES:
        _PATCHES[name](loaded(name))


def importing(package: str) -> str:
    """From now on this installed package is being imported, or none if it is empty; the one that was."""
    before, _seeds.importing = _seeds.importing, package
    if package and not before:
        _patch_loaded()
    return before


def place_of(generator: Any) -> str | None:
    """Where a package made a generator without a seed while it was imported; None for any other.

    generator: Python's, NumPy's or torch's.
    """
    if isinstance(generator, random.Random):
        try:
            return _seeds.python.get(generator)
        except TypeError:  # as in :func:`_note`
            return None
    if hasattr(generator, "initial_seed"):
        return _seeds.given.get(generator.initial_seed())
    bits = getattr(generator, "bit_generator", getattr(generator, "_bit_generator", generator))
    sequence = getattr(bits, "_seed_seq", None)
    entropy = getattr(sequence, "entropy", None)
    return _seeds.given.get(entropy) if isinstance(entropy, int) else None


def packages() -> set[str]:
    """Installed packages that have made generators without a seed for training since the last call."""
    found, _seeds.packages = _seeds.packages, set()
    return found


def forget() -> None:
    """Undo :func:`follow`: generators without a seed ask the operating system again, and libraries are unpatched."""
    _seeds.seed = None
    while _undo:
        _undo.pop()()


def count(place: str) -> int:
    """Count one more that is made at a place; how many there are."""
    _seeds.counts[place] = _seeds.counts.get(place, 0) + 1
    return _seeds.counts[place]


def counts() -> dict[str, int]:
    """How many were made so far, by place: a part of the random state."""
    return dict(_seeds.counts)


def put_counts(saved: dict[str, int]) -> None:
    """Restore what :func:`counts` returned."""
    _seeds.counts = dict(saved)


def _place() -> tuple[str | None, str | None]:
    """The function that makes a generator: its module and name, and the installed package to which it belongs, if any.

    None for Python's own library, which uses such numbers in the names of temporary files. Not its line: an edit
    further up must not change the seed.
    """
    frame = sys._getframe(2)
    while frame.f_back is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not frame.f_code.co_filename.startswith(_OURS) and not module.startswith(_MAKERS):
            break
        frame = frame.f_back
    file = frame.f_code.co_filename
    is_installed = "site-packages" in file or "dist-packages" in file
    if file.startswith(_LIBRARY) and not is_installed:
        return None, None
    module = str(frame.f_globals.get("__name__", ""))
    return f"{module}:{frame.f_code.co_qualname}", module.partition(".")[0] if is_installed else None


def _worker_seed() -> int | None:
    data = loaded("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    return None if info is None else int(info.seed)


# ---------------------------------------------------------------------------------------------------------------------
# The place in each library that asks for entropy


def _patch_loaded() -> None:
    for name, patch in _PATCHES.items():
        if loaded(name) is not None:
            patch(loaded(name))


def _patch(owner: Any, **new: Any) -> None:
    before = {name: getattr(owner, name) for name in new}
    for name, value in new.items():
        setattr(owner, name, value)

    def put_back() -> None:
        for name, value in before.items():
            setattr(owner, name, value)

    _undo.append(put_back)


def _patch_python(module: Any) -> None:
    before = module.Random.seed
    if hasattr(before, "workbench_before"):
        return

    @functools.wraps(before)
    def seed(self: Any, a: Any = None, version: int = 2) -> None:
        place = None
        if a is None and (a := _seeds.next()) is not None:
            place = _seeds.given.get(a)
        before(self, a, version)
        if _seeds.importing:
            _note(self, place)

    seed.workbench_before = before  # type: ignore[attr-defined]
    _patch(module.Random, seed=seed)
    # The module's functions are methods of one hidden generator, bound at import.
    _patch(module, seed=module._inst.seed)


def _note(generator: Any, place: str | None) -> None:
    """Python's generators do not tell their seeds."""
    with contextlib.suppress(TypeError):  # a package's own class, without hashes
        if place is not None:
            _seeds.python[generator] = place
        else:
            _seeds.python.pop(generator, None)


def _patch_numpy(module: Any) -> None:
    bits: Any = sys.modules.get("numpy.random.bit_generator")
    if bits is None:  # NumPy imports it when it is first needed
        return
    before = bits.randbits
    if hasattr(before, "workbench_before"):
        return

    def randbits(count: int) -> int:
        seed = _seeds.next()
        return int(before(count)) if seed is None else seed

    randbits.workbench_before = before  # type: ignore[attr-defined]
    _patch(bits, randbits=randbits)


def _patch_torch(module: Any) -> None:
    real, before = module._C.Generator, module.seed
    if module.Generator is not real:
        return

    class OfTorch(type(real)):  # type: ignore[misc]
        """Behaves as torch's own class: generators that it makes are of that class."""

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, real)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, real)

    class Generator(real, metaclass=OfTorch):  # type: ignore[misc, valid-type]
        __doc__ = real.__doc__

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            made = real(*args, **kwargs)
            # Torch's own samplers immediately give theirs a seed that they have drawn.
            own = str(sys._getframe(1).f_globals.get("__name__", "")).startswith("torch.")
            seed = None if own else _seeds.next()
            if seed is not None:
                made.manual_seed(seed & _63_BITS)
            return made

    Generator.__module__, Generator.__qualname__ = real.__module__, real.__qualname__

    @functools.wraps(before)
    def seed() -> int:
        wanted = _seeds.next()
        if wanted is None:
            return int(before())
        module.manual_seed(wanted & _63_BITS)
        return wanted & _63_BITS

    _patch(module, Generator=Generator, seed=seed)
    _patch(module.random, seed=seed)


_PATCHES: dict[str, Callable[[Any], None]] = {"random": _patch_python, "numpy": _patch_numpy, "torch": _patch_torch}
_63_BITS = (1 << 63) - 1

"""Random state: set from the trial's seeds when a leg starts, saved and restored with a checkpoint.

Law: every generator that training code may use without naming it is covered: Python's, NumPy's global one, torch's on
the CPU and on each GPU in use, Polars', and those of numba's compiled functions. Generators held in names are found as
state; those that are made without a seed get one of the trial's (:mod:`workbench.trial.generators.unseeded`), and so do
those that packages keep (:mod:`workbench.trial.generators.kept`).
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import os
import random
import secrets
import sys
import threading
import types
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from workbench.search.seeds import trial_seed
from workbench.snapshot.imported import executed, loaded
from workbench.trial.course import boosters
from workbench.trial.generators import kept, unseeded
from workbench.trial.process import determinism
from workbench.trial.process.isolation import is_installed_file

#: The libraries with a global generator.
_LIBRARIES = ("numpy", "torch", "numba", "polars")
#: The turn, and how often generators whose state cannot be read have been set in it.
_turn: tuple[int, int] = (0, 0)
#: The number of the fork that training makes now; 0 if its numbers need no seed.
_forked = 0


def set_all(
    experiment_seed: int,
    trial: int,
    *,
    is_strict: bool = False,
    imported: Callable[[], None] | None = None,
    of_packages: bool = False,
) -> None:
    """Set every global generator from the trial's seeds. It does not initialise CUDA, whose seed is set when it starts.

    is_strict: also apply strict mode to torch, even if it is imported later. imported: called after each import of an
    installed module. of_packages: also those that installed packages keep, in a process that does nothing but train.
    """
    random.seed(trial_seed(experiment_seed, trial, "python"))
    for name in _LIBRARIES:
        if loaded(name) is not None:
            _set_library(name, experiment_seed, trial)
    unseeded.follow(experiment_seed, trial)
    _count(0, 0)
    if of_packages:
        kept.begin((experiment_seed, trial))
    if is_strict:
        determinism.hold()
    _on_import.begin((experiment_seed, trial), is_strict, imported, of_packages)
    if _on_import not in sys.meta_path:
        sys.meta_path.insert(0, _on_import)


def forget() -> None:
    """Stop seeding libraries that are imported from now on, and generators that are made without a seed."""
    _on_import.seed = None
    unseeded.forget()
    _free_polars()


def _set_library(name: str, experiment_seed: int, trial: int) -> None:
    seed = trial_seed(experiment_seed, trial, name)
    module: Any = loaded(name)
    if name == "numpy":
        module.random.seed(seed)
        return
    if name == "numba":
        _seed_numba(seed)
        return
    if name == "polars":
        module.set_random_seed(seed)
        return
    # Not `torch.manual_seed`: without a GPU it takes half a millisecond to queue a call for when CUDA starts.
    module.default_generator.manual_seed(seed)
    if module.version.cuda or module.version.hip:
        module.cuda.manual_seed_all(seed)
    if module.backends.mps.is_available():
        module.mps.manual_seed(seed)


def _numbas() -> list[tuple[Any, int]]:
    """What sets and reads the generators of numba's compiled functions in this thread, and where each one is. They are
    not those of NumPy and of Python, whose functions the code names."""
    helper: Any = loaded("numba._helperlib") if loaded("numba") is not None else None
    if helper is None:
        return []
    return [(helper, helper.rnd_get_np_state_ptr()), (helper, helper.rnd_get_py_state_ptr())]


def _seed_numba(seed: int) -> None:
    for helper, place in _numbas():
        helper.rnd_seed(place, seed % (1 << 32))


def _before_fork() -> None:
    """Training code forks, as a loader does that has workers: numba would ask the system for entropy in the child."""
    global _forked
    is_ours = str(sys._getframe(1).f_globals.get("__name__", "")).startswith("workbench.")
    _forked = unseeded.count("numba in a fork") if _on_import.seed is not None and _numbas() and not is_ours else 0


def _after_fork() -> None:
    seed = _on_import.seed
    if _forked and seed is not None:
        _seed_numba(trial_seed(*seed, f"numba in fork {_forked}"))


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


def seed_worker(seed: int) -> None:
    """Seed all that a loader's worker draws from without a name."""
    kept.lend((seed, 0), is_worker=True)
    numpy = loaded("numpy")
    random.seed(seed)
    loaded("torch").manual_seed(seed)
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))
    _seed_numba(seed)


class OnImport(importlib.abc.MetaPathFinder):
    """Keeps imports from moving the trial's generators, and seeds the libraries when they are first imported.

    Some installed modules draw numbers while they are imported (rich does, and scikit-learn imports it). A runner that
    has already imported such a module would draw other numbers afterwards than one that imports it now. What a package
    draws follows from the name of its module that is imported from outside of it: so it is the same ahead, for this
    trial, or for one before it in the same process. The experiment's own modules are not affected: every leg imports
    those again. Nor are imports in other threads of the training code, which draw while others do; the libraries
    are seeded there too.
    """

    def __init__(self) -> None:
        self.seed: tuple[int, int] | None = None
        self._is_strict = False
        self._of_packages = False
        self._imported: Callable[[], None] | None = None
        #: The module that is being imported, by whose name its package draws; empty: none.
        self._inside = ""
        #: Whether modules are imported before there is a trial.
        self.is_ahead = False
        #: Libraries that were seeded, when the leg began or on import: never twice, since training draws meanwhile.
        self._seeded: set[str] = set()

    def begin(
        self, seed: tuple[int, int], is_strict: bool, imported: Callable[[], None] | None, of_packages: bool
    ) -> None:
        self.seed, self._is_strict, self._imported, self._of_packages = seed, is_strict, imported, of_packages
        self._seeded = {name for name in _LIBRARIES if loaded(name) is not None}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        is_main = threading.current_thread() is threading.main_thread()
        inside, package = self._inside, _package(fullname)
        if (self.seed is None and not self.is_ahead) or not (is_main or fullname in _LIBRARIES):
            return None
        if is_main and inside and (package == _package(inside) or package in sys.stdlib_module_names):
            return None
        spec = self._found(fullname, path, target)
        if spec is None or not is_installed_file(spec.origin or "") or not hasattr(spec.loader, "exec_module"):
            return spec
        assert spec.loader is not None
        execute, seed = spec.loader.exec_module, self.seed

        def execute_aside(module: types.ModuleType) -> None:
            self._inside = fullname
            is_kept = self.is_ahead or self._of_packages
            was_import = unseeded.importing(_package(fullname) if is_kept else "")
            before = _drawn()
            _draw_by_name(fullname, before)
            try:
                try:
                    execute(module)
                    executed.add(fullname)
                finally:  # also of one that cannot be imported: training code may do without it
                    unseeded.importing(was_import)
                    _put_back(before)
                    if is_kept:
                        self._keep(is_outermost=not inside)
                    if inside:  # around this module, another one may draw from what was imported with it
                        _draw_by_name(inside, _drawn().keys() - before.keys())
                    elif seed is not None:
                        self._apply(seed)
            finally:
                executed.discard(fullname)
                self._inside = inside

        def execute_beside(module: types.ModuleType) -> None:
            execute(module)
            executed.add(fullname)
            try:
                if seed is not None:
                    self._apply(seed)
            finally:
                executed.discard(fullname)

        spec.loader.exec_module = execute_aside if is_main else execute_beside  # type: ignore[method-assign]
        return spec

    def _keep(self, *, is_outermost: bool) -> None:
        """What a package makes without a seed is seen from its library's import on, and found when its own is done."""
        for name in _LIBRARIES:
            if loaded(name) is not None:
                unseeded.library_imported(name)
        if is_outermost and not self.is_ahead:
            kept.look()

    def _apply(self, seed: tuple[int, int]) -> None:
        """Seed libraries that were imported just now, and apply what holds in them."""
        for name in _LIBRARIES:
            if name not in self._seeded and loaded(name) is not None:
                self._seeded.add(name)
                _set_library(name, *seed)
                unseeded.library_imported(name)
        if self._imported is not None:
            self._imported()
        if self._is_strict:
            determinism.hold()

    def _found(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        """What the other finders return, as if this one did not exist."""
        for finder in sys.meta_path:
            look = getattr(finder, "find_spec", None)
            if finder is not self and look is not None:
                spec: importlib.machinery.ModuleSpec | None = look(fullname, path, target)
                if spec is not None:
                    return spec
        return None


def _drawn() -> dict[str, Any]:
    """The state of all generators that can be used now."""
    numpy, torch = loaded("numpy.random"), loaded("torch")
    found: dict[str, Any] = {"python": random.getstate()}
    if numpy is not None:
        found["numpy"] = numpy.get_state(legacy=True)
    if torch is not None:
        found["torch"] = torch.get_rng_state()
    if numbas := _numba_state():
        found["numba"] = numbas
    return found


def _draw_by_name(name: str, generators: Collection[str]) -> None:
    """Set these generators as every import of the module ``name`` finds them."""
    seed = zlib.crc32(name.encode())
    if "python" in generators:
        random.seed(seed)
    if "numpy" in generators:
        loaded("numpy.random").seed(seed)
    if "torch" in generators:
        loaded("torch").default_generator.manual_seed(seed)
    if "numba" in generators:
        _seed_numba(seed)


def _package(name: str) -> str:
    return name.partition(".")[0]


def _put_back(before: dict[str, Any]) -> None:
    random.setstate(before["python"])
    numpy, torch = loaded("numpy"), loaded("torch")
    if "numpy" in before:
        numpy.random.set_state(before["numpy"])
    if "torch" in before:
        torch.set_rng_state(before["torch"])
    _put_numba(before)


def _numba_state() -> list[Any]:
    return [helper.rnd_get_state(place) for helper, place in _numbas()]


def _put_numba(saved: dict[str, Any]) -> None:
    for (helper, place), one in zip(_numbas(), saved.get("numba", ()), strict=False):
        helper.rnd_set_state(place, one)


_on_import = OnImport()


@contextlib.contextmanager
def importing_ahead() -> Iterator[None]:
    """Inside, before there is a trial, modules draw while they are imported as they do in a trial."""
    _on_import.is_ahead = True
    sys.meta_path.insert(0, _on_import)
    try:
        yield
    finally:
        sys.meta_path.remove(_on_import)
        _on_import.is_ahead = False
        unseeded.forget()
        kept.look()


def state() -> dict[str, Any]:
    """The state of every global generator that is in use."""
    found: dict[str, Any] = {"python": random.getstate(), "unseeded": unseeded.counts()}
    numpy, torch = loaded("numpy"), loaded("torch")
    if numpy is not None:
        found["numpy"] = numpy.random.get_state(legacy=True)
    if torch is not None:
        found["torch"] = torch.get_rng_state().numpy().tobytes()
        if torch.cuda.is_initialized():
            found["cuda"] = [one.numpy().tobytes() for one in torch.cuda.get_rng_state_all()]
    if numbas := _numba_state():
        found["numba"] = numbas
    if keeps := kept.state():
        found["kept"] = keeps
    return found


def put(saved: dict[str, Any]) -> None:
    """Restore what :func:`state` returned. Call it last: making and restoring objects may draw numbers."""
    random.setstate(saved["python"])
    unseeded.put_counts(saved.get("unseeded", {}))
    _put_numba(saved)
    kept.put(saved.get("kept", {}))
    numpy, torch = loaded("numpy"), loaded("torch")
    if numpy is not None and "numpy" in saved:
        numpy.random.set_state(saved["numpy"])
    if torch is not None and "torch" in saved:
        torch.set_rng_state(_bytes(torch, saved["torch"]))
        if "cuda" in saved and torch.cuda.is_available():
            # With fewer devices than last time it must not fail: the others continue exactly.
            for device, one in enumerate(saved["cuda"][: torch.cuda.device_count()]):
                torch.cuda.set_rng_state(_bytes(torch, one), device)


def turn_begins(step: int) -> None:
    """Have generators whose state cannot be read draw from here on as in a trial that is resumed after ``step``.

    The dropout of recurrent networks on a GPU draws from one of cuDNN's own. Torch starts it from its own generator, at
    the first use after that was set to a state; so it starts with each turn, whether or not a trial is resumed there.
    XGBoost has one for each thread, which the next booster with another seed starts; Polars has one.
    """
    boosters.turn_begins()
    torch = loaded("torch")
    if torch is not None and torch.cuda.is_initialized():
        for one in torch.cuda.default_generators:
            one.set_state(one.get_state())
    _count(step, 0)
    _set_unreadable(str(step))


def was_given() -> None:
    """A value that trials share was made or loaded: those generators draw the same from here on in either case."""
    step, count = _turn
    _count(step, count + 1)
    _set_unreadable(f"{step} {count + 1}")


def _free_polars() -> None:
    """No trial draws from here on, but a person's own code: two calls of ours must not let it draw the same twice."""
    polars = loaded("polars")
    if polars is not None:
        polars.set_random_seed(secrets.randbits(63))


def _count(step: int, count: int) -> None:
    global _turn
    _turn = (step, count)


def _set_unreadable(when: str) -> None:
    xgboost, polars, seed = loaded("xgboost"), loaded("polars"), _on_import.seed
    if seed is None:
        return
    if xgboost is not None:
        # Its seeds have 31 bits. It reads them when it is configured, which this asks for.
        options = {"seed": trial_seed(*seed, f"xgboost {when}") >> 1, "num_feature": 1}
        with contextlib.suppress(xgboost.core.XGBoostError):  # a release that wants other options
            xgboost.Booster(options).save_config()
    if polars is not None:
        polars.set_random_seed(trial_seed(*seed, f"polars {when}"))


@contextlib.contextmanager
def lent(seed: int) -> Iterator[None]:
    """Inside, all generators follow ``seed``, whatever the trial's do; afterwards these stand where they stood."""
    before, own = state(), _on_import.seed
    unseeded_before = unseeded.lend((seed, 0))
    kept_before = kept.lend((seed, 0))
    random.seed(trial_seed(seed, 0, "python"))
    _on_import.seed = (seed, 0) if own is not None else None
    try:
        for name in _LIBRARIES:
            if loaded(name) is not None:
                _set_library(name, seed, 0)
        yield
    finally:
        _on_import.seed = own
        unseeded.lend(unseeded_before)
        kept.lend(kept_before)
        if own is None:
            _free_polars()
        else:
            # What was imported or initialised inside starts as if this had happened afterwards.
            for name in _LIBRARIES:
                if loaded(name) is not None:
                    _set_library(name, *own)
        put(before)


def _bytes(torch: Any, data: bytes) -> Any:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)

"""Random state: set from the trial's seeds when a leg starts, saved and restored with a checkpoint.

Law: every generator that training code may use without naming it is covered: Python's, NumPy's global one, torch's on
the CPU and on each GPU in use. Generators held in names are found as state; those that are made without a seed get
one of the trial's (:mod:`workbench.trial.unseeded`).
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import random
import sys
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any

from workbench.search.seeds import trial_seed
from workbench.trial import unseeded
from workbench.trial.kinds import loaded
from workbench.trial.process import determinism
from workbench.trial.process.isolation import INSTALLED


def set_all(
    experiment_seed: int, trial: int, *, is_strict: bool = False, imported: Callable[[], None] | None = None
) -> None:
    """Set every global generator from the trial's seeds. It does not initialise CUDA, whose seed is set when it starts.

    is_strict: also apply strict mode to torch, even if it is imported later. imported: called after each import of an
    installed module.
    """
    random.seed(trial_seed(experiment_seed, trial, "python"))
    for name in ("numpy", "torch"):
        if loaded(name) is not None:
            _set_library(name, experiment_seed, trial)
    unseeded.follow(experiment_seed, trial)
    if is_strict:
        determinism.hold()
    _on_import.seed, _on_import.is_strict, _on_import.imported = (experiment_seed, trial), is_strict, imported
    if _on_import not in sys.meta_path:
        sys.meta_path.insert(0, _on_import)


def forget() -> None:
    """Stop seeding libraries that are imported from now on, and generators that are made without a seed."""
    _on_import.seed = None
    unseeded.forget()


def _set_library(name: str, experiment_seed: int, trial: int) -> None:
    seed = trial_seed(experiment_seed, trial, name)
    module: Any = loaded(name)
    if name == "numpy":
        module.random.seed(seed)
        return
    # Not `torch.manual_seed`: without a GPU it takes half a millisecond to queue a call for when CUDA starts.
    module.default_generator.manual_seed(seed)
    if module.version.cuda or module.version.hip:
        module.cuda.manual_seed_all(seed)
    if module.backends.mps.is_available():
        module.mps.manual_seed(seed)


class OnImport(importlib.abc.MetaPathFinder):
    """Keeps imports from moving the trial's generators, and seeds NumPy and torch when they are first imported.

    Some installed modules draw numbers while they are imported (scikit-learn does). A runner that has already imported
    such a module would draw other numbers afterwards than one that imports it now. The experiment's own modules are
    not affected: every leg imports those again.
    """

    def __init__(self) -> None:
        self.seed: tuple[int, int] | None = None
        self.is_strict = False
        self.imported: Callable[[], None] | None = None
        self._is_inside = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if self.seed is None or self._is_inside or threading.current_thread() is not threading.main_thread():
            return None
        spec = self._found(fullname, path, target)
        if spec is None or not (spec.origin or "").startswith(INSTALLED) or not hasattr(spec.loader, "exec_module"):
            return spec
        assert spec.loader is not None
        execute, seed = spec.loader.exec_module, self.seed

        def execute_aside(module: types.ModuleType) -> None:
            self._is_inside = True
            try:
                before = _drawn_from(fullname)
                execute(module)
                _put_back(before, *seed)
                if self.imported is not None:
                    self.imported()
                if self.is_strict:
                    determinism.hold()
            finally:
                self._is_inside = False

        spec.loader.exec_module = execute_aside  # type: ignore[method-assign]
        return spec

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


def _drawn_from(beginning: str) -> dict[str, Any]:
    """The state of all generators that can be used while the module ``beginning`` is only starting to load."""
    numpy, torch = loaded("numpy"), loaded("torch")
    found: dict[str, Any] = {"python": random.getstate()}
    if numpy is not None and beginning != "numpy":
        found["numpy"] = numpy.random.get_state(legacy=True)
    if torch is not None and beginning != "torch":
        found["torch"] = torch.get_rng_state()
    return found


def _put_back(before: dict[str, Any], experiment_seed: int, trial: int) -> None:
    random.setstate(before["python"])
    for name in ("numpy", "torch"):
        module: Any = loaded(name)
        if module is None:
            continue
        if name not in before:
            _set_library(name, experiment_seed, trial)
            unseeded.library_imported(name)
        elif name == "numpy":
            module.random.set_state(before[name])
        else:
            module.set_rng_state(before[name])


_on_import = OnImport()


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
    return found


def put(saved: dict[str, Any]) -> None:
    """Restore what :func:`state` returned. Call it last: making and restoring objects may draw numbers."""
    random.setstate(saved["python"])
    unseeded.put_counts(saved.get("unseeded", {}))
    numpy, torch = loaded("numpy"), loaded("torch")
    if numpy is not None and "numpy" in saved:
        numpy.random.set_state(saved["numpy"])
    if torch is not None and "torch" in saved:
        torch.set_rng_state(_bytes(torch, saved["torch"]))
        if "cuda" in saved and torch.cuda.is_available():
            # With fewer devices than last time it must not fail: the others continue exactly.
            for device, one in enumerate(saved["cuda"][: torch.cuda.device_count()]):
                torch.cuda.set_rng_state(_bytes(torch, one), device)


def _bytes(torch: Any, data: bytes) -> Any:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)

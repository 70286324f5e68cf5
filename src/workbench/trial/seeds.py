"""Random state: set from the trial's seeds when a leg begins, saved and put back with a checkpoint.

Law: every generator that training code may use without naming it is covered: Python's, NumPy's global one, torch's on
the CPU and on each GPU that was used. Generators held in names are found as state.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import random
import sys
import types
from collections.abc import Sequence
from typing import Any

from workbench.search.seeds import trial_seed
from workbench.trial.kinds import loaded


def set_all(experiment_seed: int, trial: int) -> None:
    """Set every global generator from the trial's seeds. CUDA is not initialised by it: its seed waits until it is."""
    random.seed(trial_seed(experiment_seed, trial, "python"))
    for name in ("numpy", "torch"):
        if loaded(name) is not None:
            _set_library(name, experiment_seed, trial)
    _on_import.seed = (experiment_seed, trial)
    if _on_import not in sys.meta_path:
        sys.meta_path.insert(0, _on_import)


def forget() -> None:
    """Seed no library any more that is imported from now on."""
    _on_import.seed = None


def _set_library(name: str, experiment_seed: int, trial: int) -> None:
    seed = trial_seed(experiment_seed, trial, name)
    module: Any = loaded(name)
    if name == "numpy":
        module.random.seed(seed)
        return
    # Not `torch.manual_seed`: without a GPU it spends half a millisecond on noting a call for when CUDA will begin.
    module.default_generator.manual_seed(seed)
    if module.version.cuda or module.version.hip:
        module.cuda.manual_seed_all(seed)
    if module.backends.mps.is_available():
        module.mps.manual_seed(seed)


class OnImport(importlib.abc.MetaPathFinder):
    """Seeds NumPy and torch when the training code imports them itself: until then there is nothing to seed."""

    def __init__(self) -> None:
        self.seed: tuple[int, int] | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in ("numpy", "torch") or self.seed is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None:
            return spec
        execute, seed = spec.loader.exec_module, self.seed

        def execute_and_seed(module: types.ModuleType) -> None:
            execute(module)
            _set_library(fullname, *seed)

        spec.loader.exec_module = execute_and_seed  # type: ignore[method-assign]
        return spec


_on_import = OnImport()


def state() -> dict[str, Any]:
    """The state of every global generator that is in use."""
    found: dict[str, Any] = {"python": random.getstate()}
    numpy, torch = loaded("numpy"), loaded("torch")
    if numpy is not None:
        found["numpy"] = numpy.random.get_state(legacy=True)
    if torch is not None:
        found["torch"] = torch.get_rng_state().numpy().tobytes()
        if torch.cuda.is_initialized():
            found["cuda"] = [one.numpy().tobytes() for one in torch.cuda.get_rng_state_all()]
    return found


def put(saved: dict[str, Any]) -> None:
    """Put back what :func:`state` gave. Last of all: making and restoring objects may draw numbers."""
    random.setstate(saved["python"])
    numpy, torch = loaded("numpy"), loaded("torch")
    if numpy is not None and "numpy" in saved:
        numpy.random.set_state(saved["numpy"])
    if torch is not None and "torch" in saved:
        torch.set_rng_state(_bytes(torch, saved["torch"]))
        if "cuda" in saved and torch.cuda.is_available():
            # A device less than last time is no reason to fail: what it drew is gone, the others go on exactly.
            for device, one in enumerate(saved["cuda"][: torch.cuda.device_count()]):
                torch.cuda.set_rng_state(_bytes(torch, one), device)


def _bytes(torch: Any, data: bytes) -> Any:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)

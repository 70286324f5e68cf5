"""Workbench: hyperparameter search from a notebook cell.

``import workbench as wb`` is cheap: each name is imported from its module when it is first used.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.experiment import Experiment, Trial, last, open  # noqa: A004 - it is wb.open()
    from workbench.experiment.again import repeat, replay
    from workbench.experiment.compared import compare
    from workbench.experiment.schedulers import ASHA, All, Hyperband, Median, maximize, minimize
    from workbench.experiment.why import why
    from workbench.space import Parameter, choice, loguniform, quniform, randint, uniform
    from workbench.trial.media import Audio, Histogram, Image, Table

#: The module of each public name.
_HOMES = {
    "ASHA": "experiment.schedulers",
    "All": "experiment.schedulers",
    "Audio": "trial.media",
    "Experiment": "experiment",
    "Histogram": "trial.media",
    "Hyperband": "experiment.schedulers",
    "Image": "trial.media",
    "Median": "experiment.schedulers",
    "Parameter": "space",
    "Table": "trial.media",
    "Trial": "experiment",
    "choice": "space",
    "compare": "experiment.compared",
    "last": "experiment",
    "loguniform": "space",
    "maximize": "experiment.schedulers",
    "minimize": "experiment.schedulers",
    "open": "experiment",
    "quniform": "space",
    "repeat": "experiment.again",
    "replay": "experiment.again",
    "randint": "space",
    "uniform": "space",
    "why": "experiment.why",
}
#: Modules for training frameworks, which ``wb.lightning.Callback()`` imports when it is first used.
_FRAMEWORKS = ("keras", "lightgbm", "lightning", "transformers", "xgboost")
__all__ = [
    "ASHA",
    "All",
    "Audio",
    "Experiment",
    "Histogram",
    "Hyperband",
    "Image",
    "Median",
    "Parameter",
    "Table",
    "Trial",
    "choice",
    "compare",
    "last",
    "loguniform",
    "maximize",
    "minimize",
    "open",
    "quniform",
    "randint",
    "repeat",
    "replay",
    "trial",
    "uniform",
    "why",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("workbench")
    if name == "trial" or name in _FRAMEWORKS:
        return importlib.import_module(f"workbench.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"workbench has no {name!r}; it has {', '.join(__all__)}")
    value = getattr(importlib.import_module(f"workbench.{home}"), name)
    globals()[name] = value
    return value


class _Package(types.ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        # Python makes every room an attribute when it is imported. If a public function has the name of a room, the
        # attribute stays the function; `from workbench.compare import …` still finds the room.
        if not (name in _HOMES and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)

    def __reduce__(self) -> Any:
        # Pickle it by name, as plain modules are.
        return importlib.import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext workbench``: the magics ``%%train`` and ``%workbench``."""
    from workbench.lab.magic import register

    register(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext workbench``."""
    from workbench.lab.magic import unregister

    unregister(shell)

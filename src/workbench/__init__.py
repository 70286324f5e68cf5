"""Workbench: hyperparameter search from a notebook cell.

``import workbench as wb`` is cheap: each name is fetched from its home when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.experiment import Experiment, Trial, last, open  # noqa: A004 - it is wb.open()
    from workbench.experiment.schedulers import ASHA, All, Hyperband, Median, maximize, minimize
    from workbench.space import choice, loguniform, quniform, randint, uniform

#: Where each public name lives.
_HOMES = {
    "ASHA": "experiment.schedulers",
    "All": "experiment.schedulers",
    "Experiment": "experiment",
    "Hyperband": "experiment.schedulers",
    "Median": "experiment.schedulers",
    "Trial": "experiment",
    "choice": "space",
    "last": "experiment",
    "loguniform": "space",
    "maximize": "experiment.schedulers",
    "minimize": "experiment.schedulers",
    "open": "experiment",
    "quniform": "space",
    "randint": "space",
    "uniform": "space",
}
__all__ = [
    "ASHA",
    "All",
    "Experiment",
    "Hyperband",
    "Median",
    "Trial",
    "choice",
    "last",
    "loguniform",
    "maximize",
    "minimize",
    "open",
    "quniform",
    "randint",
    "trial",
    "uniform",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("workbench")
    if name == "trial":
        return importlib.import_module("workbench.trial")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"workbench has no {name!r}; it has {', '.join(__all__)}")
    value = getattr(importlib.import_module(f"workbench.{home}"), name)
    globals()[name] = value
    return value


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

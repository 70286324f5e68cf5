"""Experiments and trials as objects for the user: handles that read the store and ask the engine."""

from workbench.experiment.experiment import Experiment
from workbench.experiment.opening import last, open  # noqa: A004 - it is wb.open()
from workbench.experiment.trial import Trial

__all__ = ["Experiment", "Trial", "last", "open"]

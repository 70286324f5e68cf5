"""Hyperparameters and their distributions. Law: standard library only; all randomness comes from a point of the unit
cube.

A configuration is plain JSON data. Options that are not JSON data (classes, functions, modules, objects) appear in it
by their label; :meth:`Choice.pick` turns a label back into the object. A hyperparameter whose condition does not hold
is inactive: its value is None.
"""

from workbench.space.conditions import Condition, Parameter
from workbench.space.distributions import (
    Choice,
    LogUniform,
    QUniform,
    RandInt,
    Uniform,
    choice,
    loguniform,
    quniform,
    randint,
    uniform,
)
from workbench.space.forms import Distribution
from workbench.space.given import Text, given_to, left_open
from workbench.space.labels import label
from workbench.space.space import Space

__all__ = [
    "Choice",
    "Condition",
    "Distribution",
    "LogUniform",
    "Parameter",
    "QUniform",
    "RandInt",
    "Space",
    "Text",
    "Uniform",
    "choice",
    "given_to",
    "label",
    "left_open",
    "loguniform",
    "quniform",
    "randint",
    "uniform",
]

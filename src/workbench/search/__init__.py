"""The search core: which trial trains, how far, and why. Pure: facts in, instructions out."""

from workbench.search.machine import Search, TrialView
from workbench.search.plan import Plan, plan
from workbench.search.simulate import Simulation, simulate

__all__ = ["Plan", "Search", "Simulation", "TrialView", "plan", "simulate"]

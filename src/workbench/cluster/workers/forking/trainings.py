"""Training environments on a worker. Law: what was computed for one leg is not computed again for the next."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from workbench import interpreter
from workbench.records import Training
from workbench.trial.process.surroundings import Hides, arranged, at_load

#: The number of environments that are remembered.
KNOWN = 16


@dataclass(frozen=True, slots=True)
class Known:
    """A training environment. variables: all variables of its processes here. path: the folders of its packages,
    according to the notebook. key: environments with different keys need different forkservers."""

    training: Training
    variables: dict[str, str]
    path: tuple[str, ...]
    key: tuple[Any, ...]


class Trainings:
    """The training environments of legs. has_devices, hides: as in :func:`arranged`."""

    def __init__(self, has_devices: bool, hides: Hides) -> None:
        self._has_devices, self._hides = has_devices, hides
        self._known: list[Known] = []

    def of(self, training: Training) -> Known:
        """What is known of ``training`` here."""
        found = next((known for known in self._known if known.training == training), None)
        if found is None:
            found = self._made(training)
            self._known = [found, *self._known[: KNOWN - 1]]
        return found

    def _made(self, training: Training) -> Known:
        variables = arranged(training, os.environ, has_devices=self._has_devices, hides=self._hides)
        path = tuple(entry for entry in training.path if interpreter.is_installed(entry))
        # Threads and hash seed are among the variables. Each runner is told where a project's modules are.
        key = (training.python, path, training.is_whole, at_load(variables))
        return Known(training, variables, path, key)

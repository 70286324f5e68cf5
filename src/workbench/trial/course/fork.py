"""A trial that starts from another one: its parent's checkpoint, restored into what its own set-up made.

Law: the fork's changes win. A name of the configuration, or an option of an optimizer, that the fork's set-up makes
differently from the parent's keeps the fork's value; everything else is as in the checkpoint.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.errors import CannotResume, NotFound, WorkbenchError
from workbench.records import Spec
from workbench.records.names import trial_label
from workbench.snapshot.imported import loaded
from workbench.store import Store
from workbench.store.keeping import remote
from workbench.store.keeping.checkpoints import Checkpoints, Folder
from workbench.trial.api.own import saved_in
from workbench.trial.checkpoint.header import GRAPH
from workbench.trial.looking import maps
from workbench.trial.state import State

#: Options of one optimizer: a mapping for each of its groups.
Groups = list[dict[str, Any]]


class Fork:
    """Where a trial without a checkpoint of its own starts."""

    def __init__(self, folder: Folder, step: int, label: str, configuration: Mapping[str, Any]) -> None:
        self.folder, self.step, self.label = folder, step, label
        self._configuration = configuration

    @classmethod
    def of(cls, store: Store, spec: Spec) -> Fork | None:
        """The parent's checkpoint; None if the experiment is not a fork. Raises CannotResume if it is gone."""
        parent = spec.parent
        if not parent:
            return None
        label = str(parent.get("label") or f"{parent['experiment']}/{trial_label(parent['trial'])}:{parent['step']}")
        try:
            with contextlib.suppress(WorkbenchError):  # the parent's spec may be gone while its checkpoint remains
                origin = store.read_spec(parent["experiment"], viewing=True)
                remote.at_hand(store, origin, parent["trial"], parent["step"])
            found = Checkpoints(store.experiment(parent["experiment"]).trial(parent["trial"])).at(parent["step"])
        except (NotFound, WorkbenchError) as error:
            raise CannotResume(f"the fork starts at checkpoint {label}, which is not available: {error}") from error
        if parent.get("digest") not in (None, found.manifest.digest):
            raise CannotResume(
                f"the fork starts at checkpoint {label}, which has changed since (its digest was "
                f"{str(parent['digest'])[:12]}, and is {found.manifest.digest[:12]}). Fork the trial again."
            )
        return cls(found.folder, found.step, label, parent.get("configuration") or {})

    @property
    def saved(self) -> Path | None:
        """What the parent kept with ``trial.save``."""
        return saved_in(self.folder)

    def changed(self, configuration: Mapping[str, Any]) -> list[str]:
        """The hyperparameters to which ``configuration`` gives another value than the parent had."""
        before = self._configuration
        return sorted(name for name in configuration if name not in before or before[name] != configuration[name])

    def put(self, state: State) -> None:
        """Restore the parent's state into ``state``, which the set-up has just made. Raises CannotResume with names."""
        if not (self.folder / GRAPH).exists():
            raise CannotResume(
                f"{self.label} was kept by a loop of its own (trial.save), and this one uses trial.steps(): there is "
                "nothing that could be put back. Fork with the same kind of loop."
            )
        changed = state.other(self._configuration)
        own = state.options
        try:
            with maps.files_as_they_are(is_fork=True):
                header = state.restore(self.folder)
        except CannotResume as error:
            raise CannotResume(f"{self.label} cannot be put into this fork: {error}") from error
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CannotResume(
                f"{self.label} cannot be put into this fork: {type(error).__name__}: {error}. A fork must make what "
                "its parent had, with the same shapes; it may add to it."
            ) from error
        for root, names in changed:
            root.set(names, [])
        _keep(state, own, header.options)


def _keep(state: State, own: Mapping[str, Groups], parents: Mapping[str, Groups]) -> None:
    """Keep the fork's options wherever its set-up made others than its parent's."""
    torch = loaded("torch")
    if torch is None:
        return
    for path, one in state.made(torch.optim.Optimizer):
        pairs = zip(one.param_groups, own.get(path, ()), parents.get(path, ()), strict=False)
        for group, mine, theirs in pairs:
            group.update({key: value for key, value in mine.items() if theirs.get(key, value) != value})
    for _, schedule in state.made(torch.optim.lr_scheduler.LRScheduler):
        if hasattr(schedule, "_last_lr"):
            schedule._last_lr = [group["lr"] for group in schedule.optimizer.param_groups]

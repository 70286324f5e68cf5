"""Whether one trial can be stopped, paused or resumed. Law: it checks, and changes nothing."""

from __future__ import annotations

from workbench import asked
from workbench.engine.loop import ExperimentLoop
from workbench.errors import BadOption, NotFound
from workbench.records import ENDED
from workbench.records.names import trial_label
from workbench.store.lists.catalog import shown_as


def check_steering(loop: ExperimentLoop, request: asked.Stop | asked.Pause | asked.Resume, trial: int) -> None:
    """Raises NotFound for a trial that has not started, and BadOption for one that is not in a state for it."""
    label = shown_as(loop.store, loop.spec)
    view = loop.search.trials.get(trial)
    if view is None:
        raise NotFound(f"{label} has no trial {trial}. `workbench show {label}` lists them.")
    name = f"{label}/{trial_label(trial)}"
    if isinstance(request, asked.Pause) and (view.state in ENDED or view.state == "stopping"):
        raise BadOption(f"{name} is {view.state}; expected a trial that has not ended.")
    if isinstance(request, asked.Resume) and loop.life.pause not in (None, "trials"):
        raise BadOption(
            f"{label} is paused as a whole ({loop.life.why_paused}). Resume it first: workbench resume {label}."
        )
    if isinstance(request, asked.Resume) and not (view.held or view.asked):
        if view.state == "stopping":
            raise BadOption(f"{name} is still being stopped. Ask again in a moment.")
        why = f" ({view.reason})" if view.reason else ""
        raise BadOption(f"{name} is {view.state}{why}; expected a trial that a person has paused or stopped.")


def ended(state: str, request: asked.Pause | asked.Resume, trial: int) -> str:
    """Why a trial of an experiment that has ended is neither paused nor resumed."""
    verb = asked.kind_of(request)
    return (
        f"{trial_label(trial)} cannot be {verb}d: its experiment is {state}. Extend the experiment, or start another "
        "from the trial's checkpoint with --from."
    )

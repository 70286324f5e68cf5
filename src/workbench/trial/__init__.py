"""What training code touches. In a script, ``from workbench import trial`` is the trial itself.

Inside of Workbench its attributes (``steps``, ``report``, ``max_steps``, …) are those of the current trial; outside,
those of a trial that takes all steps and prints its reports, so that the script runs anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.trial.api.trial import Trial

_current: Trial | None = None


def current() -> Trial:
    """The current trial of this process, or outside of Workbench a stand-in."""
    global _current
    if _current is None:
        from workbench.trial.api.local import local_trial

        _current = local_trial()
    return _current


def current_or_none() -> Trial | None:
    """The current trial of this process, if there is one."""
    return _current


def make_current(trial: Trial | None) -> None:
    """Set the current trial; None when it has ended."""
    global _current
    _current = trial


def keep_figure(figure: Any) -> None:
    """Keep a figure that training code showed, under the current step."""
    current()._course.show(figure)


#: Attributes that the module forwards to the trial.
_OF_TRIAL = frozenset(
    {
        "steps",
        "batches",
        "report",
        "log",
        "track",
        "loader",
        "data",
        "save",
        "restore",
        "cached",
        "shared",
        "max_steps",
        "configuration",
    }
    | {"number", "label", "seed", "device", "folder"}
)


def __getattr__(name: str) -> Any:
    if name not in _OF_TRIAL:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(current(), name)

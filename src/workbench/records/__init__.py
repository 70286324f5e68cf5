"""Data that passes between rooms: states, settings and names. Law: data only; no clock, no file, no decision."""

from __future__ import annotations

from workbench.records.metrics import (
    Metrics,
    plain_value,
    value_of,
)
from workbench.records.settings import (
    MANY,
    Argument,
    Configuration,
    Goal,
    Json,
    Keep,
    Program,
    Scheduler,
    Searcher,
    Training,
)
from workbench.records.spec import (
    BESIDE,
    SCHEMA,
    Recorded,
    Spec,
    check_schema,
)
from workbench.records.states import (
    BY_EXTENSION,
    ENDED,
    LEGAL_EXPERIMENT,
    LEGAL_TRIAL,
    SETTING_UP,
    UNREADABLE,
    ExperimentState,
    TrialState,
)

#: Number of the engine–worker–runner protocol; both sides exchange it before anything else.
PROTOCOL = 12

__all__ = [
    "BESIDE",
    "BY_EXTENSION",
    "ENDED",
    "LEGAL_EXPERIMENT",
    "LEGAL_TRIAL",
    "MANY",
    "PROTOCOL",
    "SCHEMA",
    "SETTING_UP",
    "UNREADABLE",
    "Argument",
    "Configuration",
    "ExperimentState",
    "Goal",
    "Json",
    "Keep",
    "Metrics",
    "Program",
    "Recorded",
    "Scheduler",
    "Searcher",
    "Spec",
    "Training",
    "TrialState",
    "check_schema",
    "plain_value",
    "value_of",
]

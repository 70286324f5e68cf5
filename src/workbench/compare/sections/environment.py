"""What training got from the process that launched it: variables, settings, threads. Law: no secret is shown."""

from __future__ import annotations

import re
from typing import Any

from workbench.compare.section import Item, Section, change, counted
from workbench.compare.sides import Side
from workbench.records import Training
from workbench.snapshot.settings import settings
from workbench.snapshot.surroundings.environment import variables_that_matter

#: Variables that affect arithmetic: they are listed first, and alone if an earlier version recorded no others.
_VARIABLE = re.compile(
    r"(OMP|MKL|OPENBLAS|BLIS|NUMEXPR|VECLIB|KMP|GOTO|CUBLAS|CUDA|CUDNN|NCCL|NVIDIA|HIP|ROCR|XLA|JAX|TORCH|TORCHINDUCTOR"
    r"|PYTORCH|TF)_\w+|PYTHONHASHSEED|PYTHONOPTIMIZE|LD_PRELOAD"
)
#: The location of caches affects no result.
_PLACE = re.compile(r"\w+_(DIR|HOME|PATH|ROOT|FILE)")


def environment(a: Side, b: Side) -> Section | None:
    """Threads, settings of the process, and variables; those that affect arithmetic first."""
    one, other = a.spec.training, b.spec.training
    section = Section("environment", [])
    if one.threads != other.threads:
        section.items.append(Item("threads", one.threads, other.threads))
        section.short.append(change("threads", one.threads, other.threads))
    before, after = settings.compared(one.settings), settings.compared(other.settings)
    for name in _different(before, after):
        values = [settings.shown(name, found.get(name)) for found in (before, after)]
        section.items.append(Item(name, values[0], values[1], "a setting of the notebook's process"))
        section.short.append(change(name, *values))
    both = one.is_whole and other.is_whole
    left, right = (_variables(side, both) for side in (a, b))
    rest = []
    for name in sorted(_different(left, right), key=lambda name: (not _reaches(name), name)):
        was, now = (_shown(name, side, found.get(name)) for side, found in ((one, left), (other, right)))
        is_secret = name in one.secrets or name in other.secrets
        note = "a secret: only its keyed hash is recorded" if is_secret else "a variable"
        section.items.append(Item(name, was, now, note))
        told = _told(name, was, now)
        if _reaches(name):
            section.short.append(told)
        else:
            rest.append(told)
    section.short += rest if len(rest) <= 2 else [rest[0], counted(len(rest) - 1, "other variable")]
    return section if section.items else None


def _variables(side: Side, both: bool) -> dict[str, Any]:
    """The variables to compare. both: both sides have recorded everything that training got."""
    training = side.spec.training
    if both:
        return {**training.env, **training.secrets}
    known: dict[str, Any] = variables_that_matter(training.env) if training.is_whole else side.environment("variables")
    return {str(name): value for name, value in known.items() if _reaches(str(name)) and name not in _FIXED}


#: Every runner has its own values of these, whatever the notebook has.
_FIXED = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "BLIS_NUM_THREADS",
          "VECLIB_MAXIMUM_THREADS", "CUBLAS_WORKSPACE_CONFIG", "PYTHONHASHSEED")  # fmt: skip


def _reaches(name: str) -> bool:
    return _VARIABLE.fullmatch(name) is not None and _PLACE.fullmatch(name) is None


def _different(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def _shown(name: str, training: Training, value: Any) -> Any:
    return f"a secret, #{value[:6]}" if name in training.secrets and value is not None else value


def _told(name: str, one: Any, other: Any) -> str:
    if one is None or other is None:
        return f"{name} {'added' if one is None else 'removed'}"
    return change(name, one, other)

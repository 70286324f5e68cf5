"""The key of a call: what its result depends on. Law: the same code and arguments give the same key in every process;
a call whose arguments have no content to compare is refused.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.errors import BadInput
from workbench.snapshot.fingerprint import Fingerprint
from workbench.snapshot.loading import python_of_captures
from workbench.snapshot.modules import project_digests
from workbench.snapshot.reach import functions_in, reached
from workbench.snapshot.reading.names import imported_names
from workbench.snapshot.surroundings.environment import version_of_distribution

#: Libraries whose version decides about numbers, even where a function reaches them only through others.
_LIBRARIES = ("numpy", "torch")
_ARGUMENT = "argument "


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function, as training code asks for it. method: ``cached`` or ``shared``."""

    method: str
    function: Callable[..., Any]
    arguments: Sequence[Any]
    named: Mapping[str, Any]

    def __str__(self) -> str:
        return f"trial.{self.method}({self.name})"

    @property
    def name(self) -> str:
        """The function's name."""
        return str(getattr(self.function, "__qualname__", None) or type(self.function).__qualname__)

    def made(self) -> Any:
        """The result, made now."""
        return self.function(*self.arguments, **self.named)


def parts_of(call: Call, namespace: Mapping[str, Any]) -> dict[str, str]:
    """What the result of ``call`` depends on, in words, each with a digest.

    namespace: that of the training code. Raises BadInput for a part without comparable content.
    """
    if not callable(call.function):
        raise BadInput(
            f"trial.{call.method}({call.function!r}) was given a {type(call.function).__name__}: expected a function "
            f"and its arguments, without calling it. For example: trial.{call.method}(prepare, 'data.csv')."
        )
    given = {
        "the function": call.function,
        **{f"{_ARGUMENT}{number}": one for number, one in enumerate(call.arguments, 1)},
        **{f"{_ARGUMENT}{name}=": one for name, one in call.named.items()},
    }
    fingerprint = Fingerprint(namespace)
    parts = {name: _digest(call, fingerprint, name, value) for name, value in given.items()}
    imports: set[str] = set()
    names = [name for name in reached(given, namespace) if name not in given]
    seen: set[int] = set()
    for value in (*given.values(), *(namespace[name] for name in names)):
        for function in functions_in(value, namespace, seen):
            imports |= imported_names(function.__code__)
    for name in names:
        parts[f"`{name}`"] = _digest(call, fingerprint, f"`{name}`", namespace[name])
    found = versions({*fingerprint.modules, *imports, *_LIBRARIES})
    return {**parts, **{f"module {name}": version for name, version in found.items()}, "Python": python_of_captures()}


def versions(modules: Iterable[str]) -> dict[str, str]:
    """The root of each of ``modules`` with its version; for project modules, with the digest of their files.

    It is the same whether a module is imported already or not.
    """
    named = {*modules}
    ours = project_digests(named)
    roots = {name.partition(".")[0] for name in named} - {"", "__main__", "workbench", *sys.stdlib_module_names}
    return {root: ours.get(root) or version_of_distribution(root) or _state(root) for root in sorted(roots)}


def seed_of(call: Call, parts: Mapping[str, str]) -> int:
    """The seed for the random numbers of a call with these parts.

    By its name and arguments alone: an edit, another version of a package or a replay keeps the numbers, as it keeps
    those of a trial.
    """
    arguments = sorted((part, digest) for part, digest in parts.items() if part.startswith(_ARGUMENT))
    return int(hashlib.sha256(json.dumps([call.name, arguments]).encode()).hexdigest()[:12], 16)


def _state(root: str) -> str:
    """Size and time of the file of a module whose package has another name (``sklearn``): finding the package takes a
    quarter of a second."""
    try:
        found = importlib.machinery.PathFinder.find_spec(root)
        status = os.stat(found.origin) if found is not None and found.origin is not None else None
    except (OSError, ValueError, ImportError):
        return ""
    return f"{status.st_size} {status.st_mtime_ns}" if status is not None else ""


def key_of(call: Call, parts: Mapping[str, str]) -> str:
    """The key of a call with these parts."""
    return hashlib.sha256(json.dumps([call.method, sorted(parts.items())]).encode()).hexdigest()


def _digest(call: Call, fingerprint: Fingerprint, part: str, value: Any) -> str:
    digest = fingerprint.of(value)
    for kind in fingerprint.opaque:
        if kind.startswith("workbench.trial."):
            raise BadInput(
                f"{call}: {part} is or holds the trial, but the result is shared by all trials. Give the function what "
                "it needs as arguments, for example trial.device."
            )
        raise BadInput(
            f"{call}: {part} holds a {kind}, whose content cannot be compared, so it is not known when the result "
            "must be made again. Make it inside the function, or give the function the values that it is made from."
        )
    return digest

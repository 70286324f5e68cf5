"""Which packages that training imported are installed in another version. Law: it imports none of them."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator, Mapping

from workbench.compare.difference import Difference

#: Workbench's own distributions: a new release changes no result.
_OURS = {"workbench", "jupyter-workbench"}
#: Distributions whose packages have other names, for uninstalled ones, which cannot be inspected.
_ALIASES = {
    "scikit-learn": "sklearn",
    "pillow": "pil",
    "pyyaml": "yaml",
    "opencv-python": "cv2",
    "beautifulsoup4": "bs4",
}


def packages(before: Mapping[str, str], now: Mapping[str, str], used: set[str]) -> Iterator[Difference]:
    """Distributions of ``used`` packages that changed. Only changed distributions are inspected for their packages."""
    changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)} - _OURS
    lower = {package.lower() for package in used}
    for name in sorted(changed & now.keys()):
        if used & _packages_of(name):
            yield _version(name, before[name], now[name]) if name in before else Difference("package", name, "new")
    gone = changed - now.keys()
    told = {name for name in gone if lower & likely(name)}
    for name in sorted(told):
        yield Difference("package", f"{name} {_bare(before[name])}", "gone")
    known = {package for name in told for package in likely(name)}
    for package in sorted(used) if gone else ():
        if package.lower() not in known and not _is_there(package):
            yield Difference("package", package, "gone")


def _version(name: str, one: str, other: str) -> Difference:
    if _bare(one) == _bare(other):
        return Difference("package", name, "from elsewhere")
    return Difference("package", name, "", _bare(one), _bare(other))


def _bare(version: str | None) -> str:
    return (version or "").partition(" @ ")[0]


def likely(distribution: str) -> set[str]:
    """The likely packages of a distribution, from its name."""
    return {distribution.replace("-", "_"), _ALIASES.get(distribution, distribution)}


def _packages_of(distribution: str) -> set[str]:
    """The packages (and modules) that an installed distribution holds."""
    found = likely(distribution)
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, OSError, ValueError):
        for file in importlib.metadata.distribution(distribution).files or ():
            top = file.parts[0] if file.parts else ""
            found.add(re.sub(r"(\.[\w-]+)?\.(py|so|pyd)$", "", top))
    return found


def _is_there(package: str) -> bool:
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        return importlib.util.find_spec(package) is not None
    return False

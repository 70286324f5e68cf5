"""Installed packages of a test's own."""

from __future__ import annotations

from pathlib import Path


def installed(folder: Path, **modules: str) -> str:
    """A new folder of installed packages with these modules, as ``PYTHONPATH`` names those of a person or a cluster."""
    site = folder / "site-packages"
    site.mkdir()
    for name, source in modules.items():
        (site / f"{name}.py").write_text(source)
    return str(site)

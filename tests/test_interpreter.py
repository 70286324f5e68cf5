"""The versions that all processes of a training share are those of what is installed now."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from workbench import interpreter


def put(folder: Path, version: str) -> None:
    place = folder / f"torch-{version}.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")


def test_a_package_that_is_installed_replaced_or_comes_first_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "site-packages"
    put(packages, "8.1")
    monkeypatch.syspath_prepend(str(packages))
    assert interpreter.versions()["torch"] == "8.1"
    os.rename(packages / "torch-8.1.dist-info", packages / "gone")
    put(packages, "8.2")
    assert interpreter.versions()["torch"] == "8.2"
    put(tmp_path / "vendored", "9.9")
    monkeypatch.syspath_prepend(str(tmp_path / "vendored"))
    assert interpreter.versions()["torch"] == "9.9", "a folder that is no interpreter's counts as well"


def test_a_version_that_could_not_be_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str, version: Callable[[str], str] = metadata.version) -> str:
        if name == "torch":
            raise OSError(24, "Too many open files")
        return version(name)

    monkeypatch.setattr(interpreter, "_versions", {})
    with monkeypatch.context() as patched:
        patched.setattr(metadata, "version", fails)
        patched.setitem(sys.modules, "torch", None)
        assert "torch" not in interpreter.versions()
    assert interpreter.versions()["torch"]

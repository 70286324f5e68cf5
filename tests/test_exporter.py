"""Exporters are found by their entry points, wherever they were installed, and their absence is one plain error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench import exporter
from workbench.errors import BadOption
from workbench.exporter import PROGRAMS, Exporter, Mirroring, Order, found, mirrored, mirroring, of_target
from workbench.store import Store

FOREIGN = """
def write(store, order):
    return {"file": order.target, "by": "somebody else"}

def lines(told):
    return [f"Written: {told['file']} by {told['by']}"]
"""


def installed(site: Path, name: str, points: str, **modules: str) -> Path:
    """A folder in which a distribution is installed."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    for module, text in modules.items():
        (site / f"{module}.py").write_text(text)
    return site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where alone distributions are looked for; nothing is installed there."""
    folder = tmp_path / "site-packages"
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(exporter, "_folders", lambda: [str(folder)])
    return folder


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("box/Containerfile", "containerfile"),
        ("Dockerfile", "containerfile"),
        ("mlflow", "mirrors"),
        ("tensorboard:box/Containerfile", "mirrors"),
        ("Containerfile.zip", None),
        (Path("mlflow:"), None),
        ("digits.zip", None),
        ("s3://bucket/digits.zip", None),
    ],
)
def test_a_target_names_its_exporter(target: str | Path, name: str | None) -> None:
    assert of_target(target) == name


def test_the_programs_are_those_that_mirrors_write_into() -> None:
    from workbench.exporters.mirrors.words import KINDS

    assert tuple(KINDS) == PROGRAMS


@pytest.mark.parametrize("name", exporter._WRITES)
def test_each_exporter_is_installed_with_workbench(name: exporter.Name) -> None:
    assert isinstance(found(name), Mirroring if name == "mirrors" else Exporter)


def test_mirrors_are_more_than_written_once(site: Path) -> None:
    assert mirrored([" ", ","]) == (), "nothing is looked up where none is named"
    installed(site, "runs", "[workbench.exporters]\nmirrors = runs\n", runs=FOREIGN)
    with pytest.raises(BadOption, match="lacks functions"):
        mirroring()


def test_another_distributions_exporter_is_found(site: Path, tmp_path: Path) -> None:
    installed(site, "boxes", "[workbench.exporters]\ncontainerfile = boxes\n", boxes=FOREIGN)
    writer = found("containerfile")
    told = writer.write(Store(tmp_path / "store"), Order("digits", "Containerfile"))
    assert writer.lines(told) == ["Written: Containerfile by somebody else"]


def test_without_one_it_is_said_what_to_install(site: Path) -> None:
    for points in ("", "[another.group]\ncontainerfile = boxes\n"):
        installed(site, f"other{len(points)}", points)
        with pytest.raises(BadOption) as refused:
            found("containerfile")
        assert str(refused.value) == (
            f"no exporter for Containerfiles is installed for {sys.executable}. Run {sys.executable} -m pip install "
            "'workbench[exporters]' (in a checkout of Workbench: pip install -e . again)."
        )


def test_what_is_found_and_does_not_fit_is_said_with_whose_it_is(site: Path) -> None:
    installed(site, "bent", "[workbench.exporters]\ncontainerfile = bent\n", bent="import no_such_module")
    with pytest.raises(BadOption, match=r"in bent cannot be imported \(ModuleNotFoundError: .*no_such_module"):
        found("containerfile")
    (site / "bent.py").write_text("def write(store, order): ...\n")
    sys.modules.pop("bent", None)
    with pytest.raises(BadOption, match="in bent, bent, lacks functions"):
        found("containerfile")
    installed(site, "boxes", "[workbench.exporters]\ncontainerfile = boxes\n", boxes=FOREIGN)
    with pytest.raises(BadOption, match="several distributions have an exporter for Containerfiles: bent, boxes"):
        found("containerfile")


def test_of_two_installations_of_one_distribution_the_first_on_the_path_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = installed(tmp_path / "first", "boxes", "")
    second = installed(tmp_path / "second", "boxes", "[workbench.exporters]\ncontainerfile = boxes\n", boxes=FOREIGN)
    for folders, there in (((first, second), False), ((second, first), True)):
        monkeypatch.setattr(exporter, "_folders", lambda folders=folders: [*map(str, folders)])
        assert bool(exporter._points("containerfile")) is there


def test_nothing_in_the_current_folder_is_taken_for_installed(tmp_path: Path) -> None:
    """`python -m workbench` has the current folder on its path, and anything may lie there."""
    installed(tmp_path, "planted", "[workbench.exporters]\ncontainerfile = planted\n", planted=FOREIGN)
    code = "from workbench.exporter import found; print(found('containerfile').__name__)"
    around = {**os.environ, "PYTHONPATH": f"{tmp_path}"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=around, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "workbench.exporters.containerfile", done.stderr


def test_nothing_is_looked_for_before_it_is_used() -> None:
    """The command line begins without reading what is installed."""
    code = """
import sys
import workbench.cli.commands.exports, workbench.exporter, workbench.experiment.experiment
print(sorted(name for name in sys.modules if name == "importlib.metadata" or "workbench.exporters" in name))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

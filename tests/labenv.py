"""JupyterLab's own environment: a second virtual environment, with Workbench and without torch.

It is created once for each checkout and kept under ``build/``, since installing its 150 distributions takes most of a
minute. Workbench itself is reinstalled whenever its sources have changed. Errors contain pip's output.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: What the wheel is made of.
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "install.json", "kernels", "src", "workbench_ext")
BUNDLE = ROOT / "workbench_ext" / "labextension"
#: The part of the version that tells this Workbench from the kernel's: only what trains may be compared and recorded.
MARK = "+lab"

_LEFT_OUT = shutil.ignore_patterns("__pycache__", "node_modules", "lib", ".yarn", "*.tsbuildinfo", "*.egg-info")


def lab_python() -> Path:
    """The interpreter of the environment, which is made where it is missing and brought up to date."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], "hatchling", "hatch-jupyter-builder"]
    constraints = ROOT / "constraints.txt"
    key = hashlib.sha256(repr((sys.version, sys.executable, wanted)).encode() + constraints.read_bytes()).hexdigest()
    folder = ROOT / "build" / f"lab-{key[:12]}"
    folder.parent.mkdir(exist_ok=True)
    python, made, installed = (folder / name for name in ("bin/python", ".made", ".installed"))
    with open(f"{folder}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests in several processes share it
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            _run(sys.executable, "-m", "venv", "--without-pip", str(folder))
            _install(python, "--no-compile", "-c", str(constraints), *wanted)
            made.touch()
        digest = _digest()
        if not installed.exists() or installed.read_text() != digest:
            installed.unlink(missing_ok=True)
            _install_workbench(python)
            installed.write_text(digest)
    return python


def packages(pid: int) -> set[str]:
    """The folders of the packages whose compiled modules a process has loaded."""
    mapped = Path(f"/proc/{pid}/maps").read_text()
    return set(re.findall(r"(/\S+/site-packages/[^/\s]+)", mapped))


def _install_workbench(python: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in SOURCES:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, Path(folder, name), ignore=_LEFT_OUT)
            else:
                shutil.copy2(source, folder)
        project = Path(folder, "pyproject.toml")
        text, count = re.subn(r'(?m)^version = "(.+)"$', rf'version = "\1{MARK}"', project.read_text(encoding="utf-8"))
        assert count == 1, "pyproject.toml has no version, or two"
        project.write_text(text, encoding="utf-8")
        if BUNDLE.is_dir():
            # As it was built for the environment of the tests: no Node, no registry.
            options, variables = ["--no-build-isolation", "--no-index"], {"HATCH_JUPYTER_BUILDER_SKIP_NPM": "1"}
        else:
            options, variables = [], {}
        _install(python, "--no-deps", "--force-reinstall", *options, folder, **variables)
    missing = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "check"], capture_output=True, text=True, check=False
    )
    assert missing.returncode == 0, f"the environment lacks something:\n{missing.stdout}"


def _install(python: Path, *words: str, **variables: str) -> None:
    _run(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *words, **variables)


def _run(*words: str, **variables: str) -> None:
    done = subprocess.run(
        words, env={**os.environ, **variables}, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode != 0:
        raise AssertionError(
            f"JupyterLab's environment cannot be made: {' '.join(words)[:300]} ended with {done.returncode}:\n"
            f"{done.stdout[-1500:]}{done.stderr[-3000:]}"
        )


def _digest() -> str:
    digest = hashlib.sha256()
    for path in _files():
        digest.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _files() -> Iterator[Path]:
    for name in SOURCES:
        for folder, folders, files in os.walk(ROOT / name):
            skipped = _LEFT_OUT(folder, [*folders, *files])
            folders[:] = sorted(set(folders) - skipped)
            yield from (Path(folder, file) for file in sorted(set(files) - skipped))
        if (ROOT / name).is_file():
            yield ROOT / name

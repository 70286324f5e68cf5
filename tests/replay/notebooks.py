"""Notebooks for tests, written by hand, and the command line as people type it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

#: What every notebook says of its kernel; many say its language as well.
KERNEL = {"name": "python3", "display_name": "Python 3"}


def write(
    path: Path, *cells: str, parameters: str | None = None, kernel: str = "python3", language: str | None = "python"
) -> Path:
    """A notebook with these code cells, before them one tagged ``parameters`` where there is one."""
    made = [new_code_cell(source) for source in cells]
    if parameters is not None:
        made.insert(0, new_code_cell(parameters, metadata={"tags": ["parameters"]}))
    told = {**KERNEL, "name": kernel, **({} if language is None else {"language": language})}
    nbformat.write(new_notebook(cells=made, metadata={"kernelspec": told}), path)
    return path


def printed(path: Path) -> str:
    """All that the cells of an executed notebook printed."""
    node = nbformat.read(path, as_version=4)
    outputs = [output for cell in node.cells for output in cell.get("outputs", ())]
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")


def command(*words: str, module: str = "workbench", folder: Path, **env: str) -> subprocess.Popen[str]:
    """A command line under way, in ``folder``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WORKBENCH_", "JPY_"))}
    return subprocess.Popen(
        [sys.executable, "-m", module, *words],
        cwd=folder,
        env={**kept, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    """The command line as it ended."""
    out, err = process.communicate(timeout=100)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)

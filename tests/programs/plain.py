"""Programs without Workbench. Law: each in a process that is forked from one in which its libraries are imported.

As a program: it reads lines, each a file, its arguments and a folder as JSON, and answers each by its exit status.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any


class Plain:
    """Runs programs as ``python file …`` does, one after another."""

    def __init__(self, preload: tuple[str, ...]) -> None:
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "WORKBENCH_STEPS": "2"}
        command = [sys.executable, __file__, *preload]
        self._process = subprocess.Popen(command, stdin=-1, stdout=-1, text=True, bufsize=1, env=variables)

    def __call__(self, file: Path, words: list[str], folder: Path) -> int:
        """The exit status. What it prints is in ``shown.txt`` in the folder."""
        process: Any = self._process
        process.stdin.write(json.dumps([str(file), words, str(folder)]) + "\n")
        return int(process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def _run(file: str, words: list[str], folder: str) -> int:
    os.chdir(folder)
    sys.argv[:] = [file, *words]
    sys.path[0] = os.path.dirname(file)
    with open("shown.txt", "w") as shown, contextlib.redirect_stdout(shown):
        try:
            runpy.run_path(file, run_name="__main__")
        except SystemExit as end:
            return int(end.code or 0)
        except BaseException:
            traceback.print_exc()
            return 1
    return 0


if __name__ == "__main__":
    for name in sys.argv[1:]:
        importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(_run(*json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

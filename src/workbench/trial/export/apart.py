"""A process of the training environment's Python that carries out one order about a trial. Law: the caller's process
imports nothing of the training environment; errors of ours come back as they are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from workbench import errors, interpreter
from workbench.errors import NotFound, TrialFailed, WorkbenchError
from workbench.records import Training
from workbench.snapshot.surroundings.variables import at_hand
from workbench.trial.process.surroundings import arranged, divided


def carried_out(module: str, order: Mapping[str, Any], training: Training, before: str) -> dict[str, Any]:
    """The answer of ``python -m module ORDER ANSWER`` (see :func:`answered`) to ``order``, with the variables, secrets
    and import path of ``training``. before: what the training code prevented if it ends the process, in words.

    Raises what the process answered, NotFound if it cannot be started, TrialFailed if it gave no answer.
    """
    variables = {**arranged(training, os.environ), **at_hand(training.secrets)}
    env = interpreter.surroundings(divided(variables)[0], training.cwd)
    with tempfile.TemporaryDirectory(prefix="workbench-order-") as folder:
        asked, answer = Path(folder) / "order.json", Path(folder) / "answer.json"
        asked.write_text(json.dumps({**order, "path": list(training.path)}))
        command = interpreter.command(module, str(asked), str(answer), python=training.python)
        try:
            done = subprocess.run(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        except OSError as error:
            raise NotFound(
                f"the training environment's Python {training.python} cannot be started ({error.strerror}), and torch "
                "is there."
            ) from None
        if not answer.exists():
            last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it said nothing")
            raise TrialFailed(f"the training code ended before {before}: {last.strip()[:400]}")
        told: dict[str, Any] = json.loads(answer.read_text())
    if "error" in told:
        kind = getattr(errors, told["type"], TrialFailed)
        raise kind(told["error"])
    return told


def answered(work: Callable[[Mapping[str, Any]], dict[str, Any]], order_file: str, answer_file: str) -> None:
    """In that process: carry out the order by ``work``; the answer is its result, or what went wrong."""
    order = json.loads(Path(order_file).read_text())
    sys.path[:] = [*order["path"], *(entry for entry in sys.path if entry not in order["path"])]
    try:
        answer = work(order)
    except WorkbenchError as error:
        answer = {"error": str(error), "type": type(error).__name__}
    Path(answer_file).write_text(json.dumps(answer))

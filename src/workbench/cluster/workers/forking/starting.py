"""Starts a forkserver: what a worker does for its first leg, and a kernel before its first train cell."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Sequence
from typing import Any

from workbench import interpreter
from workbench.cluster.workers.forking.trainings import Known
from workbench.errors import ClusterError
from workbench.messages import Hello
from workbench.trial.process import forkserver, surroundings


def begun(
    known: Known, preload: Sequence[str], learned: Sequence[str], listener: socket.socket | None, **popen: Any
) -> tuple[subprocess.Popen[bytes], socket.socket, Hello]:
    """A new forkserver: its process, our end of its socket, and the message to send to it first.

    preload, learned: modules that it imports ahead, named by the user and learned. listener: where other processes find
    it; it is closed here. Raises ClusterError.
    """
    training = known.training
    first, rest = surroundings.divided(known.variables)
    rest |= {name: first[name] for name in (interpreter.PATH,) if name in first}
    around = interpreter.surroundings(first, training.cwd)
    try:
        process, ours = forkserver.launch(training.python, around, listener, **popen)
    except OSError as error:
        raise ClusterError(
            f"the training environment's Python {training.python} cannot be started here ({error}). "
            "Install it on every machine at the same path, or start JupyterLab's kernel from one that is."
        ) from error
    finally:
        if listener is not None:
            listener.close()
    hello = Hello(
        preload=list(preload),
        learned=list(learned),
        secrets=list(training.secrets),
        env=rest,
        cwd=training.cwd,
        path=list(known.path),
        threads=training.threads,
    )
    return process, ours, hello

"""Executes one notebook in a process of its own. Law: that process and its kernel end with the process that started
them.

A batch's trials run ``execute``, in a runner, in a slot; ``python -m workbench.replay.executing`` is the process.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from workbench import interpreter
from workbench.errors import NotebookFailed, NotFound
from workbench.records import Json
from workbench.store import Store, new_id
from workbench.store.lists import notebooks
from workbench.store.lists.notebooks import NotebookRun

_PR_SET_PDEATHSIG = 1
#: Exit status of the process if the notebook failed and the index says so.
_FAILED = 1
#: The first bytes of a blob made by :func:`packed`.
_PACKED = b'{"path":'


def execute(store: str, tasks: str, label: str, experiment: str | None = None, trial: int | None = None) -> float:
    """Execute one notebook of a batch, once, and wait for it. Returns the seconds that it took.

    tasks: the blob made by :func:`packed`. label: which of its tasks. experiment, trial: the trial in whose slot it
    runs. Its output goes to this process's output. Raises NotebookFailed if a cell raised or the kernel died.
    """
    found = Store(store)
    batch = json.loads(found.get_blob(tasks))
    key = next(str(task["key"]) for task in batch["tasks"] if task["label"] == label)
    since = found.read_spec(experiment).created if experiment is not None and batch.get("again") else ""
    with notebooks.alone(found, key) as lock:
        before = notebooks.settled(found, key, since=since, experiment=experiment, trial=trial)
        if before is not None:  # the engine was killed before it knew of the end, or another command was quicker
            return outcome(found, before.id, label, 0)
        run = new_id()
        process = started(found, tasks, label, run, lock, experiment=experiment, trial=trial)
        try:
            status = process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise
    return outcome(found, run, label, status)


def outcome(store: Store, run: str, label: str, status: int, said: str = "") -> float:
    """The seconds that ``run`` took; its process ended with ``status``. Raises NotebookFailed."""
    try:
        ended = notebooks.read(store, run)
    except NotFound:
        words = said.strip().splitlines()[-1:] or [f"status {status}"]
        raise NotebookFailed(f"the notebook ({label}) could not be executed: {words[0]}") from None
    if ended.state == "completed" and ended.seconds is not None:
        return ended.seconds
    where = f"in code cell {ended.cell}" if ended.cell is not None else "outside of its cells"
    words_ = ended.error or f"its process ended with status {status}"
    raise NotebookFailed(
        f"{Path(ended.path).name} ({label}) failed {where}: {words_}. The part that was executed is kept as "
        f"{notebooks.executed(store, run)}."
    )


def packed(store: Store, path: Path, text: str, tasks: list[dict[str, Any]], *, again: bool = False) -> str:
    """Keep a notebook and its requested executions (key, label, parameters). Returns the blob's sha256.

    again: ignore earlier executions.
    """
    data: dict[str, Json] = {
        "path": str(path),
        "source": store.put_blob(text.encode(errors="surrogatepass")),
        "tasks": tasks,
    }
    data |= {"again": True} if again else {}
    return store.put_blob(json.dumps(data).encode())


def unpacked(blob: Path) -> dict[str, Any] | None:
    """What :func:`packed` kept in the file ``blob``; None if the file is something else."""
    with open(blob, "rb") as file:
        head = file.read(len(_PACKED))
        if head != _PACKED:
            return None
        data = head + file.read()
    try:
        found = json.loads(data)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("tasks"), list) else None


def started(store: Store, tasks: str, label: str, run: str, lock: int | None, **fields: Any) -> subprocess.Popen[bytes]:
    """Start the process that executes ``label`` of ``tasks`` as ``run``.

    lock: the descriptor from :func:`notebooks.alone`, which the process holds until it ends. fields: more fields of the
    run's record.
    """
    order = json.dumps({"store": str(store.root), "tasks": tasks, "label": label, "run": run, "fields": fields,
                        "import_path": os.environ.get(interpreter.PATH)})  # fmt: skip
    # The folder of Workbench itself, if it is not installed but on this process's path.
    own = str(Path(__file__).parents[2])
    written = os.pathsep.join(dict.fromkeys([own, *filter(None, [os.environ.get(interpreter.PATH)])]))
    environ = interpreter.surroundings({**os.environ, interpreter.PATH: written}, store.root, store.root.parent)
    command = interpreter.command("workbench.replay.executing", str(os.getpid()))
    held = () if lock is None else (lock,)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environ, pass_fds=held)
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(order.encode())
    return process


def main() -> int:
    """Execute the notebook named by the order on standard input."""
    _end_with_parent(int(sys.argv[1]))
    # A runner's forkserver ignores these signals; a kernel started here must not inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminated)
    order = json.loads(sys.stdin.buffer.read())
    if order.get("import_path"):  # the kernel's path, without Workbench's own entry
        os.environ[interpreter.PATH] = order["import_path"]
    store = Store(order["store"])
    batch = json.loads(store.get_blob(order["tasks"]))
    task = next(one for one in batch["tasks"] if one["label"] == order["label"])
    return _executed(store, batch, task, order)


def _executed(store: Store, batch: dict[str, Any], task: dict[str, Any], order: dict[str, Any]) -> int:
    import logging

    interpreter.spare_grammar()
    import nbformat
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.engines import papermill_engines

    from workbench.replay.notebook import without_secrets
    from workbench.replay.papermill import Engine, without
    from workbench.snapshot.secrets.masking import masked

    logging.getLogger("papermill").setLevel(logging.WARNING)
    papermill_engines.register("workbench", Engine)
    path = Path(batch["path"])
    run = NotebookRun(
        id=order["run"],
        key=task["key"],
        path=str(path),
        parameters=without_secrets(task["parameters"]),
        **order["fields"],
    )
    node = nbformat.reads(store.get_blob(batch["source"]).decode(errors="surrogatepass"), as_version=4)
    try:
        papermill.execute_notebook(
            node,
            None,
            parameters=task["parameters"],
            engine_name="workbench",
            # Papermill needs both before it asks the engine.
            kernel_name=Engine.nb_kernel_name(node),
            language=Engine.nb_language(node),
            progress_bar=False,
            cwd=str(path.parent),
            store=store,
            run=run,
        )
    except papermill.PapermillExecutionError as error:
        sys.stderr.write(masked(without(f"{error}\n", task["parameters"])))
        return _FAILED
    except DeadKernelError:  # the run's record has it
        sys.stderr.write("The kernel died while it executed a cell: often the machine's memory was full.\n")
        return _FAILED
    return 0


def _end_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit("the process that requested this notebook is gone")


def _terminated(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)  # the kernel is shut down during exit


if __name__ == "__main__":
    raise SystemExit(main())

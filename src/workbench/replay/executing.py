"""One notebook executed in a process of its own. Law: that process and its kernel end with whoever started it.

``execute`` is what a batch's trials run, in a runner, on a slot; ``python -m workbench.replay.executing`` the process.
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
#: Exit status of the process when the notebook failed, and said so in the index.
_FAILED = 1
#: How a blob begins that :func:`packed` made.
_PACKED = b'{"path":'


def execute(store: str, tasks: str, label: str, experiment: str | None = None, trial: int | None = None) -> float:
    """Execute one notebook of a batch, once, and wait for it; the seconds that it took.

    tasks: the blob that :func:`packed` made. label: which of them. experiment, trial: on whose slot. What it prints
    goes where this process prints. Raises NotebookFailed where a cell raised or the kernel died.
    """
    found = Store(store)
    batch = json.loads(found.get_blob(tasks))
    key = next(str(task["key"]) for task in batch["tasks"] if task["label"] == label)
    since = found.read_spec(experiment).created if experiment is not None and batch.get("again") else ""
    with notebooks.alone(found, key) as lock:
        before = notebooks.settled(found, key, since=since, experiment=experiment, trial=trial)
        if before is not None:  # the engine was killed before it heard of its end, or another command was quicker
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
    """The seconds that ``run`` took, whose process ended with ``status``. Raises NotebookFailed."""
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
    """Keep a notebook and the executions that are wanted of it (key, label, parameters); the blob's sha256.

    again: what was executed before counts for nothing.
    """
    data: dict[str, Json] = {
        "path": str(path),
        "source": store.put_blob(text.encode(errors="surrogatepass")),
        "tasks": tasks,
    }
    data |= {"again": True} if again else {}
    return store.put_blob(json.dumps(data).encode())


def unpacked(blob: Path) -> dict[str, Any] | None:
    """What :func:`packed` kept in the file ``blob``; None where that is anything else."""
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
    """The process that executes ``label`` of ``tasks`` as ``run``.

    lock: the descriptor of :func:`notebooks.alone`, which it holds until it ends. fields: more of the run's record.
    """
    order = json.dumps({"store": str(store.root), "tasks": tasks, "label": label, "run": run, "fields": fields,
                        "import_path": os.environ.get(interpreter.PATH)})  # fmt: skip
    # The folder of Workbench itself, where it is not installed but on this process's path.
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
    """Execute the notebook that the order on standard input names."""
    _end_with_parent(int(sys.argv[1]))
    # A runner's forkserver ignores them; a kernel started here must not inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminated)
    order = json.loads(sys.stdin.buffer.read())
    if order.get("import_path"):  # the kernel's, and none of ours
        os.environ[interpreter.PATH] = order["import_path"]
    store = Store(order["store"])
    batch = json.loads(store.get_blob(order["tasks"]))
    task = next(one for one in batch["tasks"] if one["label"] == order["label"])
    return _executed(store, batch, task, order)


def _executed(store: Store, batch: dict[str, Any], task: dict[str, Any], order: dict[str, Any]) -> int:
    import logging

    # A grammar of addresses that takes a second to compile. None makes importing it fail, and jsonschema does without.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    import nbformat
    import papermill
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
            # Papermill itself asks for both before it asks the engine, and does without neither.
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
    return 0


def _end_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit("the process that requested this notebook is gone")


def _terminated(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)  # the kernel is shut down on the way out


if __name__ == "__main__":
    raise SystemExit(main())

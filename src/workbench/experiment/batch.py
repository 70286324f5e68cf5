"""Notebooks executed in batches with parameters. Law: an execution with the same content is not repeated.

Notebooks without train cells are trials of one experiment: each holds a slot while it is executed, and continues after
the caller has left. One with train cells asks the engine for slots itself and holds none while it waits: a process of
the caller executes it.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workbench.errors import BadName, NotebookFailed, NotFound
from workbench.experiment.experiment import Experiment
from workbench.launch import Origin, draft
from workbench.records import ENDED, Goal, Json, Searcher, Spec
from workbench.replay.executing import outcome, packed, started
from workbench.replay.notebook import SourceNotebook, Task
from workbench.settled import settled
from workbench.snapshot import take
from workbench.snapshot.reading.cell import read_cell
from workbench.snapshot.surroundings.launched import launched
from workbench.status.waiting import LOOK_S
from workbench.store import Store, new_id
from workbench.store.lists import notebooks
from workbench.store.lists.known import experiments
from workbench.store.lists.notebooks import NotebookRun
from workbench.store.lists.numbering import write_numbered

#: The default number of notebooks with train cells that are executed at a time: they mostly wait.
AT_ONCE = 4
#: A notebook reports nothing before its end: it never counts as hung.
_PATIENCE_S = 30 * 86400.0
_CELL = """\
# {notebook}, executed with parameters
from workbench.replay.executing import execute

parameters = {labels}

for step in trial.steps():
    trial.report(seconds=execute({store!r}, {tasks!r}, parameters, {experiment!r}, trial.number))
"""


@dataclass(frozen=True, slots=True)
class Executed:
    """One notebook of a batch that has ended. before: an earlier command executed it, so it was not repeated."""

    label: str
    run: NotebookRun | None
    words: str
    before: bool = False

    @property
    def is_good(self) -> bool:
        """Whether it ended without an error."""
        return self.run is not None and self.run.state == "completed"


class Batch:
    """The executions of one notebook that were requested, and those of them still to do.

    again: repeat earlier executions too. Everything is checked here, before anything starts: raises BadInput,
    BadOption, NotFound.
    """

    def __init__(
        self, store: Store, path: str | os.PathLike[str], rows: Sequence[Mapping[str, Json]], *, again: bool = False
    ) -> None:
        self.store, self.source = store, SourceNotebook(path)
        self._again, self._asked = again, datetime.now(UTC).isoformat(timespec="milliseconds")
        names = list(dict.fromkeys(name for row in rows for name in row))
        #: Notes for the user before it starts, in words.
        self.notes = self.source.check(names)
        self.tasks = self.source.tasks(rows)
        newest = notebooks.newest(store)
        self._known = {key: run for key, run in newest.items() if run.state == "completed" and not again}
        #: Executions that had ended earlier.
        self._ended_before = {run.id: run for run in newest.values() if run.state != "running"}
        #: Executions that are still to do.
        self.open = [task for task in self.tasks if task.key not in self._known]

    @property
    def on_slots(self) -> bool:
        """Whether its notebooks take slots; those with train cells ask for slots themselves."""
        return not self.source.trains

    def run(self, typed: str = "", parallel: int | None = None) -> Iterator[Executed]:
        """Run the executions still to do, at most ``parallel`` at a time; yield each as it ends, earlier ones first.

        An interrupt leaves executions on slots running; the same command waits for them.
        """
        self.store.create()
        for task in self.tasks:
            if task.key in self._known:
                run = self._known[task.key]
                yield Executed(task.label, run, self._words(run), before=True)
        if self.open and self.on_slots and (len(self.tasks) > 1 or self._elsewhere()):
            yield from self._on_slots(typed, parallel)
        elif self.open:
            yield from self._here(1 if self.on_slots else parallel or AT_ONCE)

    def _words(self, run: NotebookRun) -> str:
        kept = notebooks.executed(self.store, run.id)
        if run.state == "completed":
            return f"completed in {run.seconds:.1f} s: {kept}" if run.seconds is not None else f"completed: {kept}"
        where = f" in code cell {run.cell}" if run.cell is not None else ""
        return f"{run.state}{where}{f': {run.error}' if run.error else ''} ({kept})"

    # -- in processes of this one -------------------------------------------------------------------------------------

    def _here(self, parallel: int) -> Iterator[Executed]:
        sha = self._packed(self.open)
        processes: list[Any] = []
        lock, is_over = threading.Lock(), threading.Event()

        def one(task: Task) -> Executed | None:
            since = self._asked if self._again else ""
            with notebooks.alone(self.store, task.key, lambda: not is_over.is_set()) as held:
                before = notebooks.settled(self.store, task.key, since=since)
                if before is not None:  # meanwhile another command executed it
                    return Executed(task.label, before, self._words(before), before=True)
                run = new_id()
                with lock:
                    if is_over.is_set():
                        return None
                    process = started(self.store, sha, task.label, run, held)
                    processes.append(process)
                status = process.wait()
            return self._ended(task, run, status)

        with ThreadPoolExecutor(parallel, "workbench-notebook") as pool:
            try:
                for executed in pool.map(one, self.open):
                    if executed is not None:
                        yield executed
            finally:
                with lock:
                    is_over.set()
                for process in processes:
                    if process.poll() is None:
                        process.terminate()

    def _ended(self, task: Task, run: str, status: int) -> Executed:
        try:
            outcome(self.store, run, task.label, status)
        except NotebookFailed as failed:
            words = str(failed)
        else:
            words = ""
        try:
            found = notebooks.read(self.store, run)
        except NotFound:
            return Executed(task.label, None, words)
        return Executed(task.label, found, self._words(found))

    def _packed(self, tasks: Sequence[Task]) -> str:
        plain = [dataclasses.asdict(task) for task in tasks]
        return packed(self.store, self.source.path, self.source.text, plain, again=self._again)

    # -- on slots -----------------------------------------------------------------------------------------------------

    def _on_slots(self, typed: str, parallel: int | None) -> Iterator[Executed]:
        waited = self._elsewhere()
        begun = {key for keys in waited.values() for key in keys}
        mine = [task for task in self.open if task.key not in begun]
        handles = [Experiment.of(self.store, one) for one in waited]
        if mine:
            handles.append(Experiment.of(self.store, self._launched(mine, typed, parallel).id))
        for handle in handles:
            handle.start()
        yield from self._followed(handles)

    def _elsewhere(self) -> dict[str, set[str]]:
        """Experiments of an earlier command that are executing some of these, with the keys they execute."""
        found = {}
        for entry in experiments(self.store):
            if entry["state"] in ENDED or entry.get("notebook") != str(self.source.path):
                continue
            handle = Experiment.of(self.store, entry["id"])
            keys = self._executes(handle) & {task.key for task in self.open}
            # The catalog is written with a delay.
            if keys and not handle.is_ended:
                found[entry["id"]] = keys
        return found

    def _executes(self, handle: Experiment) -> set[str]:
        """The keys that an experiment still has to execute: those of trials that have not ended."""
        sha = tasks_of(handle.spec)
        if sha is None or not self.store.has_blob(sha):
            return set()
        keys = {str(task["label"]): str(task["key"]) for task in json.loads(self.store.get_blob(sha))["tasks"]}
        over = {
            trial.configuration.get("parameters", next(iter(keys))) for trial in handle.records if trial.status in ENDED
        }
        return {key for label, key in keys.items() if label not in over}

    def _launched(self, tasks: Sequence[Task], typed: str, parallel: int | None) -> Spec:
        experiment, sha = new_id(), self._packed(tasks)
        source = _CELL.format(
            notebook=self.source.path.name.replace("\n", " "),
            labels=repr(tasks[0].label) if len(tasks) == 1 else f"choice({', '.join(repr(t.label) for t in tasks)})",
            store=str(self.store.root),
            tasks=sha,
            experiment=experiment,
        )
        cell = read_cell(source, {})
        settings = settled(
            cell,
            goal=Goal("seconds", "min"),
            steps=(1, 1),
            scheduler="all",
            trials=len(tasks),
            searcher=Searcher("grid"),
            parallel=parallel,
            hang_s=_PATIENCE_S,
            verify=False,
        )
        notebook = str(self.source.path)
        made = draft(cell, {}, _name(self.source.path), settings, self.store, Origin(typed, typed, notebook))
        spec = made.spec(take(self.store, cell=cell, capture=made.capture, notebook=notebook, typed=typed))
        training = dataclasses.replace(spec.training, cwd=str(self.source.folder), preload=())
        spec = dataclasses.replace(
            spec,
            id=experiment,
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
            training=training,
            launched=launched(self.source.folder),
            probe=False,
            # A cell that raised will raise again; a lost worker or engine does not count as a failure.
            max_restarts=0,
        )
        return write_numbered(self.store, spec)

    def _followed(self, handles: Sequence[Experiment]) -> Iterator[Executed]:
        """Yield each execution once it is known to have ended, until the experiments have."""
        from workbench.asking import Tending

        tend, told = Tending(self.store), set()
        wanted = {task.key: task for task in self.open}
        ids = {handle.id for handle in handles}
        while True:
            is_over = all(handle.is_ended for handle in handles)
            for run in notebooks.runs(self.store):
                has_ended = run.state in ("completed", "failed") and run.experiment in ids
                has_ended = has_ended and run.id not in self._ended_before
                if has_ended and run.key in wanted and run.key not in told:
                    told.add(run.key)
                    yield Executed(wanted[run.key].label, run, self._words(run))
            if is_over:
                break
            for handle in handles:
                handle.check_paused()
            tend()
            time.sleep(LOOK_S)
        newest = notebooks.newest(self.store)
        for key, task in wanted.items():
            other = newest.get(key)
            if key in told:
                continue
            if other is not None and other.state == "completed" and other.id not in self._ended_before:
                yield Executed(task.label, other, self._words(other), before=True)  # another command was faster
            else:
                yield Executed(task.label, None, f"not executed: {self._why(task, handles)}")

    def _why(self, task: Task, handles: Sequence[Experiment]) -> str:
        every = [(handle, trial) for handle in handles for trial in handle.records]
        only = task.label if len(self.tasks) == 1 else None
        own = [one for one in every if one[1].configuration.get("parameters", only) == task.label]
        for handle, trial in own or every:  # one that was never begun may lack its slot because of what another one met
            if error := trial.error:
                return error.strip().splitlines()[-1]
            if own and trial.status == "stopped":
                return f"{handle.label}/{trial.label} was stopped ({trial.reason})"
        return ", ".join(f"{handle.label} {handle.state} ({handle.reason})" for handle in handles)


def tasks_of(spec: Spec) -> str | None:
    """The blob with the executions of the experiment ``spec``; None for any other kind of experiment."""
    try:
        tree = ast.parse(spec.program.source)
    except SyntaxError:
        return None
    imports = any(isinstance(one, ast.ImportFrom) and one.module == "workbench.replay.executing" for one in tree.body)
    for node in ast.walk(tree) if imports else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "execute":
            sha = node.args[1]
            return sha.value if isinstance(sha, ast.Constant) and isinstance(sha.value, str) else None
    return None


def _name(path: Path) -> str:
    from workbench.experiment.notebook import name_of

    try:
        return name_of(str(path))
    except BadName:
        return "notebook"

"""An experiment's trials written into another program: once, or while they train. Law: it reads the series by cursor
and saves its progress, so that a process that is killed omits nothing and duplicates nothing.

    python -m workbench.exporters.mirrors.following STORE EXPERIMENT KIND

runs until everything is written, or its input is closed.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from workbench.errors import BadOption, WorkbenchError
from workbench.exporters.mirrors.foreign import Point, Run, Writer, run_of, writer
from workbench.exporters.mirrors.progress import Progress, keep, progress
from workbench.exporters.mirrors.words import read
from workbench.interpreter import is_installed
from workbench.records import ENDED, Spec
from workbench.snapshot.secrets.masking import masked
from workbench.store import Store
from workbench.store.lists.catalog import resolve_experiment
from workbench.store.lists.mirrors import Mirror
from workbench.store.series import Series

#: Seconds between checks during training, before the first retry, and the maximum between retries.
LOOK_S, FIRST_S, MOST_S = 1.0, 1.0, 60.0
#: Points that are read, written and recorded together.
MOST_POINTS = 5000
#: Seconds that a process told to leave has to finish its current work.
LEAVING_S = 3.0


class Mirroring:
    """The mirroring of one experiment into one program."""

    def __init__(self, store: Store, spec: Spec, mirror: Mirror, known: Progress, keeps: bool) -> None:
        self._store, self._spec, self._mirror, self._keeps = store, spec, mirror, keeps
        self.known = known
        self.written = 0
        #: An earlier process or export may have written points up to this number of the series.
        self._unsure = known.sending
        self._writer: Writer | None = None
        self._begun: dict[str, float | None] = {}
        #: Trials as last read, and the series number up to which they are known.
        self._rows: dict[int, dict[str, Any]] = {}
        self._change = 0
        #: Trials that have ended, and whose end is not written yet. Each is also in the rows.
        self._ended: dict[int, dict[str, Any]] = {}

    def look(self) -> bool:
        """Write what is new; whether nothing more will ever come."""
        path = self._store.experiment(self._spec.id).series
        if not path.exists():
            return False
        if self._writer is None:
            self._writer = writer(self._mirror, self._spec)
        with Series.read(path) as series:
            # Before the points: once the experiment has ended, all of them are there.
            is_over = series.meta().get("state") in ENDED
            while self._batch(series, is_over):
                pass  # the condition writes it; batches have a largest size, which limits the memory
        return is_over

    def close(self) -> None:
        """Flush what the other program's own library holds."""
        if self._writer is not None:
            self._writer.close()

    def _batch(self, series: Series, is_over: bool) -> bool:
        """Write one batch of points, and the ends of trials that have no more; whether more points wait."""
        self._read_trials(series)
        # Only trials that had ended before the points are read: all their points are there.
        ended, self._ended = self._ended, {}
        cursor, found = series.points_after(self.known.cursor, MOST_POINTS)
        trials = {point[0] for point in found}
        if not trials <= self._rows.keys():  # one has begun since
            self._read_trials(series)
        if not trials <= self._rows.keys() and not is_over:
            # A lost series gets its points back before its trials. A run is created once, with its hyperparameters.
            self._ended = ended | self._ended
            return False
        if found:
            self._points(series, cursor, found)
        is_more = len(found) == MOST_POINTS
        for number, row in ended.items():
            if is_more and row["change"] > cursor:  # its last points may still come
                self._ended.setdefault(number, row)
            else:
                self._end(series, row)
        return is_more

    def _read_trials(self, series: Series) -> None:
        self._change, changed = series.trials_after(self._change)
        for row in changed:
            number = int(row["number"])
            self._rows[number] = row
            self._ended.pop(number, None)
            if row["state"] in ENDED:
                self._ended[number] = row

    def _points(self, series: Series, cursor: int, found: Sequence[Any]) -> None:
        assert self._writer is not None
        of_trial: dict[int, list[Point]] = {}
        named = self._writer.names(series.names())
        for trial, name, step, _, value, at in found:
            of_trial.setdefault(trial, []).append((named[name], step, value, at))
        begun = {
            trial: self._run(series, self._rows.get(trial) or {"number": trial, "state": "running"})
            for trial in of_trial
        }
        self.known.sending = cursor
        self._keep()
        # What is known of a run and the cursor are saved together: half of a batch must not count as written.
        runs, again = dict(self.known.runs), self.known.cursor < self._unsure
        for trial, points in of_trial.items():
            runs[str(trial)] = self._writer.points(begun[trial], runs[str(trial)], points, again)
        self.known.runs, self.known.cursor = runs, cursor
        self._keep()
        self.written += len(found)

    def _end(self, series: Series, row: dict[str, Any]) -> None:
        assert self._writer is not None
        number, mark = str(row["number"]), f"{row['state']} {row.get('step')} {row.get('ended')}"
        if self.known.ended.get(number) != mark:
            run = self._run(series, row)
            self.known.runs[number] = self._writer.end(run, self.known.runs[number])
            self.known.ended[number] = mark
            self._keep()

    def _run(self, series: Series, row: dict[str, Any]) -> Run:
        assert self._writer is not None
        key = str(row["number"])
        is_new = key not in self._begun
        if is_new:
            began = [leg["began"] for leg in series.legs(int(key)) if leg.get("began")]
            self._begun[key] = min(began, default=None)
        run = run_of(self._store, self._spec, row, self._begun[key])
        if is_new:
            try:
                self.known.runs[key] = self._writer.begin(run, self.known.runs.get(key))
            except BaseException:
                del self._begun[key]
                raise
            self._keep()
        return run

    def _keep(self) -> None:
        if self._keeps:
            keep(self._store, self._spec.id, self._mirror.kind, self.known)


def write(store: Store, ref: str, word: str) -> dict[str, Any]:
    """Write the current state of the experiment ``ref`` once into ``mlflow:WHERE`` (or ``tensorboard:``, ``wandb:``).

    It completes what an earlier export wrote there: MLflow is queried for it, TensorBoard's files are rewritten. MLflow
    is read back and compared, point by point. Raises BadOption, StoreError.
    """
    experiment = resolve_experiment(store.check(), ref).experiment
    spec = store.read_spec(experiment, viewing=True)
    (mirror,) = read([word], "--to")
    going = Mirroring(store, spec, mirror, Progress(sending=sys.maxsize), keeps=False)
    with _telling(mirror):
        going.look()
        going.close()
        told = {"experiment": experiment, "to": masked(str(mirror)), "trials": len(going.known.runs)}
        told["points"] = going.written
        made = going._writer
        checked = getattr(made, "check", None)
        if made is not None and checked is not None:
            with Series.read(store.experiment(experiment).series) as series:
                rows = {row["number"]: row for row in series.trials()}
                named = made.names(series.names())
                told["read_back"] = sum(
                    checked(
                        run_of(store, spec, rows[int(number)]),
                        key,
                        [
                            (named[name], step, value, at)
                            for _, name, step, _, value, at in series.points([int(number)])
                        ],
                    )
                    for number, key in going.known.runs.items()
                )
    return told


@contextlib.contextmanager
def _telling(mirror: Mirror) -> Iterator[None]:
    from workbench.errors import StoreError

    try:
        yield
    except WorkbenchError:
        raise
    except Exception as error:  # libraries of others may raise anything
        raise StoreError(f"{masked(str(mirror))} cannot be written: {_words(error)}") from error


def _words(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return masked(f"{type(error).__name__}{': ' + lines[0] if lines else ''}"[:300])


def main(folder: str, experiment: str, kind: str) -> int:
    """Follow the experiment until everything is written. It leaves when its input is closed."""
    leaving = threading.Event()
    threading.Thread(target=_listen, args=(leaving,), daemon=True).start()
    os.nice(10)  # training has priority
    store = Store(folder)
    spec = store.read_spec(experiment)
    mirror = next((one for one in map(Mirror.of, spec.mirror) if one.kind == kind), None)
    if mirror is None:
        raise BadOption(f"{spec.label} has no mirror {kind}.")
    # Packages that the user installs for the notebook are found where the notebook finds them.
    installed = [entry for entry in spec.training.path if is_installed(entry)]
    sys.path[:] = [*installed, *(entry for entry in sys.path if entry not in installed)]
    known, pause = progress(store, experiment, kind), FIRST_S
    known.is_done = False
    keep(store, experiment, kind, known)
    going = Mirroring(store, spec, mirror, known, keeps=True)
    while True:
        try:
            is_over = going.look()
            if is_over:
                going.close()
        except Exception as error:  # a server is down or a folder is full: training continues, and this process waits
            known = progress(store, experiment, kind)  # as recorded, which may be less than what arrived
            since = known.word.partition(": ")[0] if known.word else f"waits since {datetime.now(UTC):%H:%M:%S} UTC"
            known.word = f"{since}: {_words(error)}"
            keep(store, experiment, kind, known)
            with contextlib.suppress(Exception):  # a program whose server is down may fail to close its runs
                going.close()
            going = Mirroring(store, spec, mirror, known, keeps=True)
            wait, pause = pause, min(2 * pause, MOST_S)
        else:
            wait, pause = LOOK_S, FIRST_S
            if known.word or is_over:
                known.word, known.is_done = None, is_over
                keep(store, experiment, kind, known)
            if is_over:
                return 0
        if leaving.wait(wait):
            with contextlib.suppress(Exception):
                going.close()
            return 0


def _listen(leaving: threading.Event) -> None:
    """Wait until the engine's end of the pipe closes: it does when the engine ends this process, or is killed."""
    while os.read(0, 4096):  # not sys.stdin: the process would wait for its lock when it ends
        pass
    leaving.set()
    threading.Event().wait(LEAVING_S)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

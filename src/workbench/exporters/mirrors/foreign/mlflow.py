"""Trials as MLflow's runs: an MLflow experiment for each name. Law: it asks what an earlier process has written, and
does not write it again.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from workbench.errors import StoreError
from workbench.exporters.mirrors.foreign import Point, Run
from workbench.records import Json, Spec
from workbench.snapshot.secrets.masking import masked
from workbench.store.files import packed
from workbench.store.lists.mirrors import Mirror

#: The most of each in one request, as MLflow's servers define it, and letters of a value and of a name.
MOST_METRICS, MOST_PARAMS, MOST_LETTERS, MOST_IN_NAME = 1000, 100, 6000, 250
#: MLflow's names of a trial's states.
_STATUS = {"completed": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
_NO_NAME = re.compile(r"[^\w.\-: /]")
#: A point as it is compared: its metric, step, milliseconds since 1970 and value.
_Point = tuple[str, int, int, str]
#: If a server is down, the caller retries later, instead of each request for minutes.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")


class Writer:
    """Writes into the tracking server, database or folder at ``mirror.where``."""

    def __init__(self, mirror: Mirror, spec: Spec) -> None:
        if mirror.where.startswith("file:"):
            # MLflow requires this variable before it writes plain folders, which need no database and no server.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        try:
            self.client = MlflowClient(tracking_uri=mirror.where, registry_uri=None)
        except (MlflowException, ModuleNotFoundError) as error:
            raise StoreError(f"MLflow at {masked(mirror.where)} is not available: {_words(error)}") from None
        self._where, self._spec = masked(mirror.where), spec
        self._experiment: str | None = None
        self._there: dict[str, str] | None = None
        #: For runs that an earlier process may have written to: the points that it had when this process began, by
        #: run and metric. A run's are dropped at its end.
        self._earlier: dict[str, dict[str, set[_Point]]] = {}

    def names(self, metrics: Sequence[str]) -> dict[str, str]:
        """Names of the letters that MLflow allows. The second of two that become equal gets a number: ``a_b_``,
        ``a_b__2``.
        """
        found: dict[str, str] = {}
        taken: set[str] = set()
        for metric in metrics:
            name, count = _name(metric), 1
            while name in taken:
                count += 1
                name = f"{_name(metric)[: MOST_IN_NAME - len(f'_{count}')]}_{count}"
            taken.add(name)
            found[metric] = name
        return found

    def begin(self, run: Run, known: Json) -> Json:
        """The id of its run, which is created if needed."""
        experiment = self._place(run)
        if known:
            return known
        tags = {**run.tags, "mlflow.source.name": "workbench", "mlflow.source.type": "NOTEBOOK"}
        there = self._runs(experiment)
        key = there.get(run.id) or there.get(run.name)
        if key is None:
            at = _ms(run.started)
            key = self.client.create_run(experiment, start_time=at, tags=tags, run_name=run.name).info.run_id
        else:
            self.client.log_batch(key, tags=[RunTag(name, value) for name, value in tags.items()])
        given = self.client.get_run(key).data.params
        params = {_name(name): str(value)[:MOST_LETTERS] for name, value in run.parameters.items()}
        missing = [Param(name, value) for name, value in params.items() if name not in given]
        for first in range(0, len(missing), MOST_PARAMS):
            self.client.log_batch(key, params=missing[first : first + MOST_PARAMS])
        return key

    def points(self, run: Run, known: Json, points: Sequence[Point], again: bool) -> Json:
        """Log points in requests of a thousand."""
        metrics = [Metric(name, value, _ms(at) or 0, step) for name, step, value, at in points]
        if again:
            there = self._earlier.setdefault(str(known), {})
            for name in {one.key for one in metrics} - there.keys():
                there[name] = set(self._history(str(known), name))
            metrics = [one for one in metrics if _same(one) not in there[one.key]]
        for first in range(0, len(metrics), MOST_METRICS):
            self.client.log_batch(str(known), metrics=metrics[first : first + MOST_METRICS])
        return known

    def end(self, run: Run, known: Json) -> Json:
        """Write state, tags, the log without secrets, and the files that the trial kept."""
        key = str(known)
        self.client.log_batch(key, tags=[RunTag(name, value) for name, value in run.tags.items()])
        log = packed.read(run.log)
        if log is not None:
            self.client.log_text(key, masked(log.decode(errors="replace")), "log.txt")
        if run.files.is_dir() and any(run.files.iterdir()):
            self.client.log_artifacts(key, str(run.files), "files")
        self.client.set_terminated(key, _STATUS[run.state], end_time=_ms(run.ended))
        self._earlier.pop(key, None)
        return known

    def close(self) -> None:
        """Does nothing: there is no buffer."""

    def _place(self, run: Run) -> str:
        if self._experiment is None:
            found = self.client.get_experiment_by_name(run.group)
            if found is not None and found.lifecycle_stage == "deleted":
                self.client.restore_experiment(found.experiment_id)
            self._experiment = self.client.create_experiment(run.group) if found is None else found.experiment_id
        return self._experiment

    def _runs(self, experiment: str) -> dict[str, str]:
        """Existing runs of this experiment's trials, by the trial's id; or by name, if a process that created them
        was killed before it tagged them with the id.
        """
        if self._there is None:
            self._there, token = {}, None
            words = f"attributes.run_name LIKE '{self._spec.label}/%'"
            while True:
                page = self.client.search_runs([experiment], words, max_results=1000, page_token=token)
                self._there |= {one.data.tags.get("workbench.id", one.info.run_name): one.info.run_id for one in page}
                token = page.token
                if not token:
                    break
        return self._there

    def _history(self, key: str, name: str) -> list[_Point]:
        return [_same(one) for one in self.client.get_metric_history(key, name)]

    def check(self, run: Run, known: Json, points: Sequence[Point]) -> int:
        """Read the run back: how many points it has, which are more if some were written twice; points that the trial
        replaced later do not count. Raises StoreError if one is missing or differs.
        """
        written = Counter(_same(Metric(name, value, _ms(at) or 0, step)) for name, step, value, at in points)
        there = Counter(one for name in {name for name, *_ in written} for one in self._history(str(known), name))
        # Databases keep equal points of one millisecond once.
        missing = written.keys() - there.keys()
        params = self.client.get_run(str(known)).data.params
        wrong = [name for name, value in run.parameters.items() if params.get(_name(name)) != str(value)[:MOST_LETTERS]]
        if missing or wrong:
            raise StoreError(
                f"MLflow at {self._where} returns a different {run.name} than was written: {len(missing)} points "
                f"are missing{'; ' + ', '.join(wrong) + ' differ' if wrong else ''}."
            )
        return len(points) + sum(max(0, there[one] - count) for one, count in written.items())


def _same(metric: Metric) -> _Point:
    # Databases return an infinity as the largest number, and -0.0 as 0.0. As text, nan equals nan.
    value = math.copysign(sys.float_info.max, metric.value) if math.isinf(metric.value) else metric.value
    return metric.key, metric.step, metric.timestamp, repr(value + 0.0)


def _name(name: str) -> str:
    return _NO_NAME.sub("_", name)[:MOST_IN_NAME]


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _words(error: Exception) -> str:
    return masked(str(error).splitlines()[0][:300]) if str(error) else type(error).__name__

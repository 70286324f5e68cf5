"""Stores filled by the store's own writers, a stand-in for the engine that answers requests, and one way to type."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.cli import main
from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.space import Space, choice, loguniform
from workbench.store import Store, new_id, requests
from workbench.store.journal import Journal
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.lists.catalog import Catalog
from workbench.store.owner.lease import EngineLease
from workbench.store.series import Series


@dataclass
class Said:
    """What a command line answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Written:
    """A store, and experiments written into it as an engine leaves them."""

    store: Store
    catalog: Catalog
    specs: dict[str, Spec] = field(default_factory=dict)

    def experiment(
        self,
        name: str = "digits",
        version: int = 1,
        *,
        created: str | None = None,
        space: Any = None,
        metric: str = "val_acc",
        **entry: Any,
    ) -> Spec:
        """An experiment with its spec, journal, series and line in the catalog; completed unless told."""
        spec = Spec(
            id=new_id(),
            name=name,
            version=version,
            created=created or f"2026-01-0{version}T00:00:00.000+00:00",
            goal=Goal(metric),
            space=Space(space or {"lr": loguniform(1e-4, 1.0), "hidden": choice(32, 64)}).to_json(),
            scheduler=Scheduler(last=27),
            searcher=Searcher(),
            program=Program(kind="cell", source="for epoch in trial.steps():\n    ...\n", filename=f"<{name}>"),
            training=Training(python=sys.executable, cwd="/"),
        )
        self.store.write_spec(spec)
        self.specs[spec.label] = spec
        state = entry.setdefault("state", "completed")
        entry = {
            "name": name, "version": version, "label": spec.label, "created": spec.created, "started": spec.created,
            "reason": "every trial has ended", "goal": str(spec.goal), "trials": 3,
            "best": {"trial": 1, "value": 0.975}, "content": "", "notebook": None,
            **entry,
        }  # fmt: skip
        if state in ("completed", "stopped", "failed"):
            entry.setdefault("ended", "2026-01-09T00:00:00.000+00:00")
        with Journal.open(self.store.experiment(spec.id).journal) as journal:
            journal.append({"kind": "Began", "experiment": spec.id})
            for trial in range(max(3, entry["trials"])):
                journal.append({"kind": "LegStarted", "trial": trial, "attempt": 1, "start": 0, "until": 1})
            for trial in range(entry["trials"]):
                journal.append({"kind": "Run", "trial": trial, "start": 0, "until": 1, "reason": "new"})
            if entry["best"]:
                journal.append({"kind": "Reached", "trial": 1, "step": 3, "value": entry["best"]["value"]})
            if state in ("completed", "stopped", "failed"):
                journal.append({"kind": "Finish", "state": state, "reason": entry["reason"]})
        self.series(spec, entry)
        self.catalog.upsert_experiment(spec.id, entry)
        self.catalog.close()
        return spec

    def series(self, spec: Spec, entry: dict[str, Any]) -> None:
        """Trials, legs and points: t0001 is the best, t0002 failed."""
        going = entry["state"] not in ("completed", "stopped", "failed")
        with Series.open(self.store.experiment(spec.id).series) as series:
            series.put_meta("planned", {"trials": 49, "legs": 70, "steps": 357})
            series.put_meta("counts", {"running": 2, "failed": 1} if going else {"completed": 2, "failed": 1})
            for key in ("state", "reason", "best", "started"):
                series.put_meta(key, entry[key])
            for number in range(3):
                state = "failed" if number == 2 else "running" if going else "completed"
                series.put_trial(
                    number, configuration={"lr": 0.1 / (number + 1), "hidden": 64, "off": None}, bracket=number,
                    state=state, reason="bracket 3, rung 0: it is new", level=1, step=3,
                    value=(0.9, 0.925, None)[number],
                    best=0.95 + 0.025 * number if number < 2 else None, attempt=number + 1, restarts=number,
                )  # fmt: skip
                series.put_leg(
                    number, 1, start=0, until=3, slot="cpu0", started="2026-01-01T00:00:00+00:00",
                    ended="2026-01-01T00:00:04+00:00", outcome="reached", reason="rung 1",
                )  # fmt: skip
            series.put_trial(2, error="Traceback (most recent call last):\n  File x\nValueError: \x1b[31mno\x07")
            series.add_points(
                (trial, "val_acc", step, 0, round(0.9 + 0.025 * (trial + step - 1), 3), 1.0)
                for trial in range(2)
                for step in (1, 2, 3)
            )
            if entry["best"]:
                series.add_points([(1, "val_acc", 3, 0, entry["best"]["value"], 1.0)])

    def checkpoint(self, spec: Spec, trial: int, step: int, data: bytes = b"weights") -> Path:
        """A checkpoint as a runner leaves it."""
        kept = Checkpoints(self.store.experiment(spec.id).trial(trial))
        aside = kept.begin(step, 1)
        (aside / "state.pt").write_bytes(data)
        kept.publish(aside, step, 1)
        return kept.at(step).folder

    def log(self, spec: Spec, trial: int, text: str, part: int | None = None) -> Path:
        """What a trial printed; ``part``: an older part, moved away by rotation."""
        path = self.store.experiment(spec.id).trial(trial).log
        path.parent.mkdir(parents=True, exist_ok=True)
        path = path if part is None else path.with_name(f"{path.name}.{part}")
        path.write_text(text)
        return path

    def set(self, spec: Spec, **meta: Any) -> None:
        """What the engine would write next."""
        with Series.open(self.store.experiment(spec.id).series) as series:
            for key, value in meta.items():
                series.put_meta(key, value)


Typed = Callable[..., Said]


def typed(*words: str, store: Store | None = None) -> Said:
    """Type ``workbench …`` in this process, as ``%workbench`` does."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*(["--store", str(store.root)] if store else []), *words])
    return Said(code, out.getvalue(), err.getvalue())


class Answering:
    """Holds the lease and answers requests, like an engine that trains nothing."""

    def __init__(self, store: Store, refusal: dict[str, Any] | None = None) -> None:
        self.store, self.refusal = store, refusal
        self.asked: list[dict[str, Any]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with Journal.open(self.store.journal_path) as journal:
            while not self._end.is_set():
                for number, request in requests.pending(self.store):
                    if not requests.take(self.store, number):
                        continue  # it was withdrawn
                    self.asked.append(request)
                    answer = self.refusal or {"accepted": True}
                    journal.append({"kind": "answer", "request": number, **answer})
                    journal.commit()
                    requests.remove(self.store, number)
                    if request["kind"] == "end":
                        self._lease.release()
                self._end.wait(0.005)

    def __enter__(self) -> Answering:
        self._lease = EngineLease.acquire(self.store, address="tcp://127.0.0.1:1")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._lease.release()


def until(condition: Callable[[], Any], timeout: float = 20.0) -> Any:
    """Wait until ``condition`` is true."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return value

"""A trial as an object for the user. Law: it shows what the store said at the last look, and asks for the rest."""

from __future__ import annotations

import html
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.errors import BadName, NotFound
from workbench.records.names import trial_label, trial_number
from workbench.records.plain import plain
from workbench.status.board import configured, number
from workbench.store.files import packed
from workbench.store.lists import system
from workbench.store.lists.glance import Glance
from workbench.words import few

if TYPE_CHECKING:
    import pandas as pd

    from workbench.compare.difference import Difference
    from workbench.experiment import Experiment


#: The maximum number of files that a warning names.
_SAID = 4


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check of a trial against an uninterrupted turn; true if every bit was the same.

    kind: *identical*, *parts*, *could not* or *not checked*. details: where they differ, and the possible cause.
    """

    kind: str
    words: str
    details: Mapping[str, Any] = field(repr=False)

    def __bool__(self) -> bool:
        return self.kind == "identical"

    def __str__(self) -> str:
        return self.words


class Trial:
    """One configuration over its whole life, as the store knows it at the last look."""

    def __init__(self, experiment: Experiment, row: Mapping[str, Any]) -> None:
        self.experiment = experiment
        self._row = dict(row)

    @property
    def number(self) -> int:
        """7 for ``t0007``."""
        return int(self._row["number"])

    @property
    def label(self) -> str:
        """``t0007``."""
        return trial_label(self.number)

    @property
    def configuration(self) -> dict[str, Any]:
        """Its hyperparameters; None for an inactive one."""
        return dict(self._row.get("configuration") or {})

    @property
    def status(self) -> str:
        """waiting, setting up, running, paused, stopping, completed, stopped or failed."""
        return str(self._row["state"])

    @property
    def reason(self) -> str:
        """Why it is in that state, in words and numbers."""
        return str(self._row.get("reason") or "")

    @property
    def step(self) -> int:
        """Steps done."""
        return int(self._row.get("step") or 0)

    @property
    def value(self) -> float | None:
        """The goal's metric in its last report."""
        value: float | None = self._row.get("value")
        return value

    @property
    def error(self) -> str | None:
        """The traceback of the error that ended it, if it failed."""
        error = self._row.get("error")
        if isinstance(error, dict):
            return str(error.get("traceback") or f"{error.get('type')}: {error.get('message')}")
        return error

    @property
    def verdict(self) -> Verdict | None:
        """The result of its newest check against an uninterrupted turn; None if there was none."""
        found = self._row.get("verify")
        return Verdict(found["verdict"], found["words"], found) if found else None

    @property
    def log(self) -> str:
        """What its training code printed."""
        path = self.experiment.store.experiment(self.experiment.id).trial(self.number).log
        return (packed.read(path) or b"").decode("utf-8", errors="replace")

    def curve(self, metric: str | None = None) -> pd.Series:
        """The reported values of one metric (by default the goal's), by step."""
        import pandas as pd

        name = metric or self.experiment.spec.goal.metric
        points = self.experiment.series_curves(name, self.number).get(self.number, {})
        if not points and name not in self.experiment.metrics:
            raise NotFound(
                f"{self} has not reported {name}; reported are {', '.join(self.experiment.metrics) or 'none'}."
            )
        return pd.Series(points, name=name, dtype=float).rename_axis("step")

    def curves(self) -> pd.DataFrame:
        """All reported values, a column for each metric, a row for each step."""
        import pandas as pd

        names = self.experiment.metrics
        found = {name: self.experiment.series_curves(name, self.number).get(self.number) for name in names}
        return pd.DataFrame({name: points for name, points in found.items() if points}).rename_axis("step").sort_index()

    @property
    def system(self) -> pd.DataFrame:
        """What its processes used, by seconds since its start, as their worker saw it; NaN between legs.

        ``cpu`` in cores, ``memory`` in bytes, ``waits`` as the share of the time in which its loop waited for data; on
        a GPU ``gpu`` (share of the time), ``gpu_memory`` (bytes) and ``gpu_power`` (watts). Each measure has its own
        times. A leg of less than two seconds has none. Of a trial on several slots, it is the first rank's.
        """
        import pandas as pd

        path = self.experiment.store.experiment(self.experiment.id).series
        found = {}
        if path.exists():
            with Glance(path) as glance:
                for name in system.names(glance):
                    xs, ys = system.curves(glance, name, [self.number]).get(self.number, ([], []))
                    if xs:
                        found[name] = pd.Series(ys, index=xs)
        return pd.DataFrame(found).rename_axis("seconds")

    def stop(self) -> None:
        """End it; the other trials continue."""
        self.experiment.stop(self)

    def pause(self) -> None:
        """Save it and free its slot; the other trials continue, and its rung waits for it where it compares all."""
        self.experiment.pause(self)

    def resume(self) -> None:
        """Continue after :meth:`pause` or :meth:`stop`, exactly from its newest checkpoint.

        A stopped trial is no longer compared with the others: it trains to its last step.
        """
        self.experiment.resume(self)

    def fork(
        self, step: int | None = None, *, name: str | None = None, max_steps: int | None = None, **changes: Any
    ) -> Experiment:
        """Continue from this trial's checkpoint at ``step`` (by default the newest) with other hyperparameters.

        This makes a new experiment, called ``name``, and starts it: ``exp["t0007"].fork(step=27, lr=0.001)``.
        To fork with other code, use a cell: ``%%train NAME --from digits@2/t0007:27``. Raises BadOption for a
        hyperparameter that it does not have, NotFound if there is no such checkpoint.
        """
        from workbench.replay.fork import fork
        from workbench.store.lists.catalog import Reference

        reference = Reference(self.experiment.id, self.experiment.label, self.number, plain(step))
        made = fork(self.experiment.store, reference, changes, name=name, last=plain(max_steps))
        return type(self.experiment).of(self.experiment.store, made.spec.id).start()

    def load(self, step: int | None = None) -> Any:
        """Run the set-up with this configuration in a fresh namespace, and restore the checkpoint.

        Returns the namespace: ``.model``, ``.opt``, … ``step``: of the checkpoint; by default the newest. Modules of
        your project are as they were in training. Files are read as they are now: a warning names those that have
        changed.
        """
        from workbench.compare.files import changed_files
        from workbench.store.owner.trust import check_trusted
        from workbench.trial.export.loading import load

        check_trusted(self.experiment.store, self.experiment.spec.id)
        if changed := changed_files(self.experiment.store, self.experiment.spec, self.number):
            warnings.warn(_other_data(changed, str(self)), stacklevel=2)
        return load(self.experiment.store, self.experiment.spec, self.number, self.configuration, step)

    def export(
        self,
        form: str,
        target: str | os.PathLike[str] | None = None,
        *,
        inputs: Sequence[str] = (),
        name: str | None = None,
    ) -> dict[str, Any]:
        """Write its model as ``safetensors``, ``torch.export`` or ``onnx``, compared with the model's own output.

        inputs: what the model takes, such as ``float32[8,64]``, one for each argument; by default the input of its
        training loop. name: the model's name, if the training code has several. Returns what was written, with
        ``difference``, the largest absolute difference; raises TrialFailed if it is more than rounding.
        """
        from workbench import exporter

        path = None if target is None else os.fspath(target)
        order = exporter.Order(f"{self.experiment.id}/{self.label}", path, form, tuple(inputs), name)
        return exporter.found("model").write(self.experiment.store, order)

    @property
    def state(self) -> dict[str, Any]:
        """The newest checkpoint as plain tensors and values; no code of the experiment runs."""
        from workbench.trial.export.loading import plain_state

        return plain_state(self.experiment.store, self.experiment.spec, self.number)

    def __str__(self) -> str:
        return f"{self.experiment.label}/{self.label}"

    def __repr__(self) -> str:
        value = "" if self.value is None else f", {self.experiment.spec.goal.metric}={number(self.value)}"
        words = configured(self.configuration)
        return f"<{self}: {self.status} at step {self.step}{value}{', ' if words else ''}{words}>"

    def _repr_html_(self) -> str:
        metric = self.experiment.spec.goal.metric
        facts = [("state", self.status), ("step", str(self.step)), (metric, number(self.value))]
        facts += [(name, number(value)) for name, value in self.configuration.items() if value is not None]
        return table(str(self), facts, " · ".join(map(str, filter(None, (self.reason, self.verdict)))))


def _other_data(changed: Sequence[Difference], trial: str) -> str:
    """What a user should know of files that have changed since ``trial`` read them."""
    names, gone = ", ".join(few([file.name for file in changed], _SAID)), sum(one.how == "gone" for one in changed)
    if len(changed) == 1:
        verb, files, them = "is gone" if gone else "has changed", "the file as it is", "it"
    else:
        verb = "have changed or are gone" if gone else "have changed"
        verb, files, them = "are gone" if gone == len(changed) else verb, "the files as they are", "them"
    return (
        f"{names} {verb} since {trial} was trained: load runs the set-up with {files} now. Restore {them} to load the "
        "trial exactly."
    )


def table(title: str, facts: list[tuple[str, str]], below: str) -> str:
    """A small table; all texts are escaped."""
    cells = "".join(
        "<span style='margin-right:1.6em'>"
        f"<span style='opacity:.65'>{html.escape(name)}</span> {html.escape(value)}</span>"
        for name, value in facts
    )
    end = f"<div style='opacity:.65'>{html.escape(below)}</div>" if below else ""
    return f"<div><b style='margin-right:1.6em'>{html.escape(title)}</b>{cells}{end}</div>"


def number_of(trial: int | str | Trial) -> int:
    """The number of a trial that the user names, or gives as an object. Raises BadName."""
    if isinstance(trial, Trial):
        return trial.number
    if isinstance(trial, str):
        return trial_number(trial)
    number = plain(trial)
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise BadName(f"{trial!r} is not a trial: expected its number or its label. For example: 7, or 't0007'.")
    return number

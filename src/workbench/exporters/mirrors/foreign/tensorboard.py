"""Trials as TensorBoard's runs: a folder with one event file each. Law: the file is only appended to; what a killed
process may have written is cut off and written again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import metadata
from tensorboard.plugins.hparams.api_pb2 import Status
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
from tensorboard.summary.writer.record_writer import RecordWriter

from workbench.exporters.mirrors.foreign import Point, Run
from workbench.records import Json, Spec
from workbench.store.lists.mirrors import Mirror

#: TensorBoard recognizes event files by the middle part of this name.
NAME = "events.out.tfevents.workbench"
_STATUS = {"completed": Status.STATUS_SUCCESS, "stopped": Status.STATUS_SUCCESS, "failed": Status.STATUS_FAILURE}


class Writer:
    """Writes below the folder ``mirror.where``: ``digits@2/t0007``. What is known of a run is its file's length."""

    def __init__(self, mirror: Mirror, spec: Spec) -> None:
        self._folder = Path(mirror.where)

    def names(self, metrics: Sequence[str]) -> dict[str, str]:
        """Every name is allowed."""
        return {name: name for name in metrics}

    def begin(self, run: Run, known: Json) -> Json:
        """Create its file, with the hyperparameters."""
        if known:
            return known
        start = SessionStartInfo(group_name=run.name, start_time_secs=run.started or 0.0)
        for name, value in run.parameters.items():
            if isinstance(value, bool):
                start.hparams[name].bool_value = value
            elif isinstance(value, int | float):
                start.hparams[name].number_value = value
            else:
                start.hparams[name].string_value = value
        at = run.started or 0.0
        first = Event(wall_time=at, file_version="brain.Event:2")
        return self._append(run, 0, [first, _hparams(at, "_hparams_/session_start_info", session_start_info=start)])

    def points(self, run: Run, known: Json, points: Sequence[Point], again: bool) -> Json:
        """Write a scalar for each point, at its step and time."""
        return self._append(
            run,
            int(known),
            [
                Event(wall_time=at, step=step, summary=Summary(value=[Summary.Value(tag=name, simple_value=value)]))
                for name, step, value, at in points
            ],
        )

    def end(self, run: Run, known: Json) -> Json:
        """Write how it ended, for the table of hyperparameters."""
        at = run.ended or run.started or 0.0
        info = SessionEndInfo(status=_STATUS[run.state], end_time_secs=at)
        return self._append(run, int(known), [_hparams(at, "_hparams_/session_end_info", session_end_info=info)])

    def close(self) -> None:
        """Does nothing: no file stays open."""

    def file(self, run: Run) -> Path:
        """The run's event file."""
        return self._folder / run.name / NAME

    def _append(self, run: Run, size: int, events: list[Any]) -> int:
        path = self.file(run)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "r+b" if path.exists() else "w+b") as file:
            file.truncate(size)
            file.seek(size)
            record = RecordWriter(file)
            for event in events:
                record.write(event.SerializeToString())
            file.flush()
            os.fsync(file.fileno())
            return file.tell()


def _hparams(at: float, tag: str, **info: Any) -> Any:
    content = HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **info)
    about = metadata.create_summary_metadata(content)
    return Event(wall_time=at, summary=Summary(value=[Summary.Value(tag=tag, metadata=about)]))

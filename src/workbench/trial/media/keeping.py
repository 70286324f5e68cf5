"""Files of what a trial logs by step: ``sample-000003.png`` for ``trial.log(sample=…)`` in step 3.

Law: a name and a step have one content. Training a step again, after a crash or in a replay, writes the same files.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import BadInput
from workbench.records.texts import written
from workbench.store.files.atomic import telling, unfinished_name, write_atomic
from workbench.store.files.inside import make_inside
from workbench.trial.media import tables
from workbench.trial.media.arrays import described, is_array, size
from workbench.trial.media.histograms import counted
from workbench.trial.media.pictures import is_pillow, png
from workbench.trial.media.sounds import wav
from workbench.trial.media.tables import tabled
from workbench.trial.media.values import Audio, Histogram, Image, Table

_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
#: Files that one name may have in one step.
MOST_LISTED = 64


@dataclass(frozen=True, slots=True)
class _File:
    """The content of one file, and what the user should know about it."""

    suffix: str
    #: A path is copied: it may be larger than memory.
    data: bytes | Path
    caption: str = ""
    remark: str = ""


class Media:
    """The files of one trial in this process."""

    def __init__(self, folder: Path, *, writes: bool = True) -> None:
        """writes: False in the ranks of a trial that do not write; what they are given is read and dropped."""
        self._folder, self._writes = folder, writes
        #: Names about whose values the user was told something.
        self._told: set[str] = set()

    def keep(self, step: int, name: str, value: Any) -> bool:
        """Write ``value`` under its name and step; False if it must be a number.

        What was logged under the same name and step before is replaced. Raises BadInput for a value that cannot be
        shown, StoreError if it cannot be written.
        """
        making = _maker_of(value, name)
        if making is None:
            return False
        if not self._writes:
            return True
        files = making(value, name)
        stem = f"{_NOT_IN_NAMES.sub('-', name).strip('.-') or 'file'}-{step:06d}"
        is_list = isinstance(value, list | tuple) and not _is_plain(value)
        for number, file in enumerate(files, 1):
            self._write(f"{stem}-{number}{file.suffix}" if is_list else f"{stem}{file.suffix}", file.data)
            if file.remark and name not in self._told:
                self._told.add(name)
                print(f"[workbench] {file.remark}")  # noqa: T201 - the trial's log
        if is_list:
            self._drop_after(stem, len(files), files[0].suffix)
        captions = [file.caption for file in files]
        if any(captions):
            self._write(f"{stem}.captions.json", _json(captions))
        elif any(file.suffix in _CAPTIONED for file in files):
            (self._folder / f"{stem}.captions.json").unlink(missing_ok=True)
        return True

    def show(self, step: int, number: int, figure: Any) -> None:
        """Write a figure of Matplotlib that the training code showed: the step's first, second, and so on."""
        if self._writes:
            self._write(f"figure-{step:06d}-{number}.png", _drawn(figure))

    def _write(self, name: str, data: bytes | Path) -> None:
        make_inside(self._folder)
        if isinstance(data, Path):
            _copy(data, self._folder / name)
        else:
            # Not synced: that would cost milliseconds in each step, and what a power cut takes is a picture.
            write_atomic(self._folder / name, data, fsync=False)

    def _drop_after(self, stem: str, count: int, suffix: str) -> None:
        """Remove what a longer list left in this step."""
        for number in range(count + 1, MOST_LISTED + 1):
            try:
                (self._folder / f"{stem}-{number}{suffix}").unlink()
            except FileNotFoundError:
                return


Maker = Callable[[Any, str], Sequence[_File]]
#: Suffixes of files that may have a caption.
_CAPTIONED = frozenset({".png", ".wav"})


def _maker_of(value: Any, name: str) -> Maker | None:
    """What makes the files of ``value``; None if it must be a number. Raises BadInput if it may be several things."""
    if is_array(value) and not isinstance(value, str) and not tables.is_frame(value):
        if size(value) == 1:
            return None  # a number
        if len(value.shape) < 2:
            raise BadInput(
                f"trial.log({name}=…) was given {described(value)}, which can be several things. Log "
                f"workbench.Histogram({name}), workbench.Audio({name}, rate=16000), or one number such as its mean."
            )
        return lambda array, name: [_picture(Image(array), name)]
    if isinstance(value, list | tuple) and not _is_plain(value):
        return _listed
    return next((make for is_one, make in _MAKERS if is_one(value)), None)


def _is_plain(values: Sequence[Any]) -> bool:
    """Whether a list holds something else than pictures and sounds."""
    return not values or not all(_is_listable(value) for value in values)


def _is_listable(value: Any) -> bool:
    if isinstance(value, Image | Audio) or is_pillow(value) or _is_figure(value):
        return True
    return is_array(value) and not tables.is_frame(value) and len(value.shape) > 1 and size(value) > 1


def _listed(values: Sequence[Any], name: str) -> list[_File]:
    if len(values) > MOST_LISTED:
        raise BadInput(
            f"trial.log({name}=…) was given {len(values)} pictures or sounds, at most {MOST_LISTED} are kept of a "
            f"step. Log some of them: {name}[:{MOST_LISTED}]."
        )
    files: list[_File] = []
    for value in values:
        making = _maker_of(value, name)
        assert making is not None
        files.extend(making(value, name))
    if len({file.suffix for file in files}) > 1:
        raise BadInput(f"trial.log({name}=…) was given pictures and sounds in one list. Log them under two names.")
    return files


def _picture(image: Image, name: str) -> _File:
    data, remark = png(image, name)
    return _File(".png", data, str(image.caption), remark)


def _named(path: Path, name: str) -> list[_File]:
    if not path.is_file():
        raise BadInput(f"trial.log({name}=Path({str(path)!r})): there is no such file. Give the path of a file.")
    return [_File(path.suffix, path)]


def _copy(source: Path, target: Path) -> None:
    """Copy a file, whole or not at all."""
    unfinished = unfinished_name(target)
    with telling(target):
        try:
            shutil.copy2(source, unfinished)
            os.replace(unfinished, target)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


def _drawn(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _json(value: Any) -> bytes:
    return written(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode()


def _is_figure(value: Any) -> bool:
    return hasattr(value, "savefig")


#: What each kind of value is stored as; the first that fits.
_MAKERS: tuple[tuple[Callable[[Any], bool], Maker], ...] = (
    (lambda value: isinstance(value, Image), lambda value, name: [_picture(value, name)]),
    (lambda value: isinstance(value, Audio), lambda value, name: [_File(".wav", wav(value, name), str(value.caption))]),
    (
        lambda value: isinstance(value, Histogram),
        lambda value, name: [_File(".histogram.json", _json(counted(value, name)))],
    ),
    (lambda value: isinstance(value, Table), lambda value, name: [_File(".table.json", _json(tabled(value, name)))]),
    (tables.is_frame, lambda value, name: [_File(".table.json", _json(tabled(Table(value), name)))]),
    (lambda value: isinstance(value, str), lambda value, name: [_File(".txt", written(value).encode())]),
    (lambda value: isinstance(value, Path), _named),
    (_is_figure, lambda value, name: [_File(".png", _drawn(value))]),
    (
        lambda value: hasattr(value, "to_plotly_json"),
        lambda value, name: [_File(".plotly.json", written(value.to_json()).encode())],
    ),
    (is_pillow, lambda value, name: [_picture(Image(value), name)]),
    (
        lambda value: isinstance(value, dict | list | tuple),
        lambda value, name: [_File(".json", json.dumps(value, default=str, indent=1).encode())],
    ),
)

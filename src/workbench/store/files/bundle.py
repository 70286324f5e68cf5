"""A trial's small checkpoints in one zip archive. Law: the file is replaced atomically.

A member has the name that the file would have in a folder of checkpoints: ``step-00000027/manifest.json``. Each
checkpoint's digests are in its manifest, and the archive's checksum protects the manifest.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from workbench.errors import StoreError
from workbench.store.files import packed
from workbench.store.files.atomic import to_json
from workbench.store.keeping.manifest import NAME, File, Manifest, digest, from_plain, is_changed, to_plain

#: The maximum size of a checkpoint kept here, and of the whole file, since each change rewrites it.
SMALL, FULL = 1 << 18, 1 << 20

_STEP = re.compile(rb"step-(\d{8,12})/manifest\.json")
#: Exceptions that reading a damaged archive may raise.
DAMAGED = (zipfile.BadZipFile, zlib.error, OSError, ValueError, KeyError, TypeError, AttributeError,
           NotImplementedError, RuntimeError, EOFError)  # fmt: skip


class Bundle:
    """The checkpoints in the file at ``path`` when this object was made. The file may have been packed since.

    data: its bytes, if already read.
    """

    def __init__(self, path: Path, data: bytes | None = None) -> None:
        self.path = path
        #: Why it cannot be read; None if it can, or if there is none.
        self.trouble: str | None = None
        self._zip: zipfile.ZipFile | None = None
        self._steps: set[int] = set()
        try:
            data = packed.read(path) if data is None else data
        except (StoreError, OSError, ValueError) as error:
            self.trouble = str(error)
            return
        if data is not None and not self._open(data):
            # A power cut may lose a file that is not on disk yet; the file that it replaced still exists.
            before = packed.read(older(path))
            if before is None or not self._open(before):
                self.trouble = "it is not an archive" if not self._steps else None

    def steps(self) -> list[int]:
        """Steps with a checkpoint, intact or not, rising."""
        return sorted(self._steps)

    def folder(self, step: int) -> zipfile.Path:
        """The files of the checkpoint at ``step``, in the form of a readable folder. Raises one of :data:`DAMAGED`."""
        return zipfile.Path(self._opened(), f"{_name(step)}/")

    def manifest(self, step: int) -> Manifest:
        """The manifest of the checkpoint at ``step``. Raises one of :data:`DAMAGED`."""
        data = self._opened().read(f"{_name(step)}/{NAME}")
        return from_plain(json.loads(data), f"the checkpoint of step {step} in {self.path}")

    def read(self, step: int) -> tuple[Manifest | None, str | None]:
        """A checkpoint's manifest, if readable, and what is wrong with the checkpoint."""
        try:
            manifest = self.manifest(step)
        except DAMAGED as error:
            return None, f"its manifest cannot be read ({error})"
        return manifest, "it belongs to another step" if manifest.step != step else self._what_is_wrong(step, manifest)

    def _what_is_wrong(self, step: int, manifest: Manifest) -> str | None:
        for name, file in manifest.files.items():
            try:
                data = self._opened().read(f"{_name(step)}/{name}")
            except DAMAGED as error:
                return f"{name} cannot be read ({error})"
            if len(data) != file.size:
                return f"{name} has {len(data)} bytes instead of {file.size}"
            if is_changed(data, file):
                return f"the bytes of {name} have changed"
        return None

    def size(self, step: int) -> int:
        """Bytes of the files of the checkpoint at ``step``; 0 if there is none."""
        try:
            members = self._opened().infolist()
        except DAMAGED:
            return 0
        return sum(one.file_size for one in members if one.filename.startswith(f"{_name(step)}/"))

    def with_one(self, manifest: Manifest, files: Mapping[str, bytes], *, alone: bool) -> bytes | None:
        """The archive with one more checkpoint, or with only this one if ``alone``; None if that is too large."""
        content = {f"{_name(manifest.step)}/{name}": data for name, data in files.items()}
        content[f"{_name(manifest.step)}/{NAME}"] = to_json(to_plain(manifest))
        kept = {} if alone else self._members(without=[manifest.step])
        data = _written({**kept, **content})
        return data if len(data) <= FULL or not kept else None

    def without(self, steps: Iterable[int]) -> bytes | None:
        """The archive without these; None if nothing is left."""
        kept = self._members(without=steps)
        return _written(kept) if kept else None

    def _members(self, without: Iterable[int]) -> dict[str, bytes]:
        """Its members except those of these steps and unreadable ones."""
        gone = tuple(f"{_name(step)}/" for step in without)
        found: dict[str, bytes] = {}
        try:
            members = self._opened().namelist()
        except DAMAGED:
            return found
        for name in members:
            if not name.startswith(gone):
                try:
                    found[name] = self._opened().read(name)
                except DAMAGED:
                    continue
        return found

    def _open(self, data: bytes) -> bool:
        """Read ``data`` and return whether it is an archive; steps in its names count in any case."""
        self._steps |= {int(step) for step in _STEP.findall(data)}
        try:
            archive = zipfile.ZipFile(io.BytesIO(data))
        except DAMAGED:
            return False
        members = archive.infolist()
        if sum(one.file_size for one in members) > len(data) or any(one.compress_type for one in members):
            return False  # Workbench never writes compressed members
        archive.filename = str(self.path)  # for messages with a checkpoint's path
        self._zip = archive
        return True

    def _opened(self) -> zipfile.ZipFile:
        if self._zip is None:
            raise zipfile.BadZipFile("it was cut short")
        return self._zip


def older(path: Path) -> Path:
    """The previous version of the file at ``path``, kept until the new one is on disk."""
    return path.with_name(f"{path.name}.old")


def listed(files: Mapping[str, bytes]) -> dict[str, File]:
    """``files`` in the form of a manifest."""
    return {name: File(len(data), digest(data)) for name, data in files.items()}


def _written(content: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in content.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return stream.getvalue()


def _name(step: int) -> str:
    return f"step-{step:08d}"

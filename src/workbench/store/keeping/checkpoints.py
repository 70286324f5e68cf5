"""A trial's checkpoints. Law: one that can be seen is whole, and nobody writes over a newer attempt's.

A checkpoint is made in a folder aside, its manifest last, and shown by one rename. Small ones lie in one file together
(:mod:`workbench.store.files.bundle`), which is replaced by one rename. Nothing waits for the disk then:
:meth:`Checkpoints.settle` brings it there, from another thread. A power cut before that leaves files that do not match
their manifest, and the checkpoint before is taken.

Runners use this with the standard library alone; where xxhash is installed it makes the digests.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import threading
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from workbench.errors import NotFound, StoreError
from workbench.records import Json
from workbench.store.files import bundle, fence, packed
from workbench.store.files.atomic import (
    REMOVED,
    fsync_folder,
    make_folder,
    telling,
    tree_size,
    write_atomic,
)
from workbench.store.files.atomic import to_json as _to_json
from workbench.store.files.bundle import Bundle
from workbench.store.keeping import folders
from workbench.store.keeping.manifest import (
    NAME,
    File,
    Manifest,
    digest,
    digest_file,
    files_in,
    read_manifest,
    to_plain,
    what_is_wrong,
)
from workbench.store.layout import TrialPaths, bundle_of

__all__ = ["Checkpoint", "Checkpoints", "File", "Manifest", "Skipped", "digest"]

#: Folders of trials whose names this process has brought to the disk.
_named: set[Path] = set()
#: A folder or a file of a checkpoint: both are read like a path (``/``, ``open``, ``exists``, ``read_bytes``).
Folder: TypeAlias = Path | zipfile.Path


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that can be resumed from."""

    step: int
    attempt: int
    #: Where its files can be read. A small one's are members of an archive, which was read whole.
    folder: Folder
    manifest: Manifest

    def file(self, name: str) -> Folder:
        """One of its files. Raises NotFound where the manifest names no such file."""
        if name not in self.manifest.files:
            raise NotFound(f"{self.folder} has no file {name!r}: it has {', '.join(self.manifest.files)}.")
        return self.folder / name


@dataclass(frozen=True, slots=True)
class Skipped:
    """A checkpoint that cannot be used, and why."""

    step: int
    folder: Folder
    why: str


class Checkpoints:
    """The checkpoints of one trial. Its runner makes them; anybody may read them, from any process."""

    def __init__(self, trial: TrialPaths | Path) -> None:
        """``trial``: the trial's places, or its folder."""
        place = trial.folder if isinstance(trial, TrialPaths) else trial
        self.folder = place / "checkpoints"
        #: The file that holds the small ones.
        self.bundle = bundle_of(place)
        self._trial = place.parent if place.name in ("passing", "setup") else place
        #: What the last :meth:`newest` or :meth:`all` passed over.
        self.skipped: list[Skipped] = []
        self._unsettled: list[int] = []
        self._settling = threading.Lock()
        self._swept = False

    # Making ----------------------------------------------------------------------------------------------------------

    def begin(self, step: int, attempt: int) -> Path:
        """A folder to write the state at ``step`` into. Raises StaleAttempt where a newer attempt has begun."""
        self.fence(attempt)
        make_folder(self.folder)
        if not self._swept:
            self._swept = True
            self.sweep(attempt)
        return folders.begun(self.folder, step, attempt)

    def publish(
        self,
        aside: Path,
        step: int,
        attempt: int,
        digests: Mapping[str, str] | None = None,
        details: Mapping[str, Json] | None = None,
        *,
        settled: bool = False,
    ) -> Manifest:
        """Show what :meth:`begin` gave as the checkpoint at ``step``. Files are digested, but for those in ``digests``.

        A checkpoint at the same step is replaced. It is visible to all processes when this returns, and on the disk
        after the next :meth:`settle`; with ``settled`` it is there before it is shown, so that what it replaces goes
        only then (it blocks: call it in a thread). Raises StaleAttempt (and nothing was shown), StoreFull and its kin.
        """
        target = self.folder / folders.name_of(step)
        with telling(aside):
            try:
                files = {
                    name: File(size, (digests or {}).get(name) or digest_file(aside / name))
                    for name, size in sorted(files_in(aside))
                }
            except FileNotFoundError:
                self.fence(attempt)  # a newer attempt has swept the folder away
                raise
            created = datetime.now(UTC).isoformat(timespec="milliseconds")
            manifest = Manifest(step, attempt, created, files, dict(details or {}))
            folders.write(aside / NAME, _to_json(to_plain(manifest)))
            if settled:
                folders.fsync_all(aside)
            with self._fence(attempt):
                folders.show(aside, target)
                self._change(Bundle(self.bundle), without=[step])
        with self._settling:
            self._unsettled.append(step)
        return manifest

    def put(
        self,
        files: Mapping[str, bytes],
        step: int,
        attempt: int,
        details: Mapping[str, Json] | None = None,
        *,
        settled: bool = False,
        alone: bool = False,
    ) -> Manifest | None:
        """Show ``files`` as the checkpoint at ``step``, as :meth:`publish` does; None where they are too large for it.

        alone: in place of all small ones. Raises StaleAttempt (and nothing was shown), StoreFull and its kin.
        """
        if sum(map(len, files.values())) > bundle.SMALL:
            return None
        created = datetime.now(UTC).isoformat(timespec="milliseconds")
        manifest = Manifest(folders.checked(step), attempt, created, bundle.listed(files), dict(details or {}))
        with self._fence(attempt), telling(self.bundle):
            held = Bundle(self.bundle)
            data = held.with_one(manifest, files, alone=alone)
            if data is None:
                return None
            if not settled and held.steps():
                # A power cut that takes the new file must not take the checkpoints before it.
                with contextlib.suppress(OSError):  # it is packed, or one that is on the disk is there already
                    os.link(self.bundle, bundle.older(self.bundle))
            write_atomic(self.bundle, data, fsync=settled)
            self._remove_folders(step)
        with self._settling:
            self._unsettled.append(step)
        return manifest

    def begin_fetched(self, step: int, attempt: int | None) -> Path:
        """A folder to bring the checkpoint at ``step`` into, from elsewhere. attempt: as :meth:`adopt`."""
        if attempt is not None:
            return self.begin(step, attempt)
        make_folder(self.folder)
        # An attempt that nobody has: whoever trains sweeps it away, and then it is not wanted.
        return folders.begun(self.folder, step, 0)

    def adopt(self, aside: Path, step: int, attempt: int | None) -> None:
        """Show what was brought into ``aside``, with its manifest; a sound checkpoint at ``step`` stays instead.

        attempt: of the leg that wants it, or None for somebody who only looks. Raises StaleAttempt.
        """
        with telling(aside):
            folders.fsync_all(aside)
            with self._fence(attempt):
                if self._read(step, "digest") is None:
                    folders.show(aside, self.folder / folders.name_of(step))
                    self._change(Bundle(self.bundle), without=[step])
            fsync_folder(self.folder)

    def discard(self, aside: Path) -> None:
        """Give up what :meth:`begin` gave."""
        shutil.rmtree(aside, ignore_errors=True)

    def settle(self) -> list[int]:
        """Bring what was published to the disk, files and names; give the steps. It blocks: call it in a thread.

        Where it raises, the steps wait for the next call.
        """
        with self._settling:
            steps, self._unsettled = self._unsettled, []
        try:
            small = set(Bundle(self.bundle).steps()) if steps else set()
            for step in dict.fromkeys(steps):
                if step not in small:
                    self._secure_folder(step)
            if small.intersection(steps):
                self._secure_bundle()
            above = self._trial.parent
            if steps and above not in _named:
                # The folders above are new as well, up to the experiment's.
                for folder in (above, above.parent):
                    with telling(folder):
                        fsync_folder(folder)
                if len(_named) > 1_000:
                    _named.clear()
                _named.add(above)
        except BaseException:
            with self._settling:
                self._unsettled = steps + self._unsettled
            raise
        return list(dict.fromkeys(steps))

    def fence(self, attempt: int) -> None:
        """From now on nobody with a lower attempt writes here. Raises StaleAttempt where a higher one has begun."""
        with self._fence(attempt):
            pass

    # Reading ---------------------------------------------------------------------------------------------------------

    def newest(self, at_most: int | None = None, *, verify: Literal["digest", "size"] = "digest") -> Checkpoint | None:
        """The newest checkpoint (at step ``at_most`` or before) whose files are what its manifest says, or None.

        Damaged ones are passed over and listed in :attr:`skipped`. ``verify="size"`` reads no file: quick, and enough
        for one that the same boot of the machine wrote.
        """
        held = self._looked()
        for step in sorted({*(step for step, _ in folders.shown(self.folder)), *held.steps()}, reverse=True):
            if at_most is None or step <= at_most:
                found = self._read(step, verify, held)
                if found is not None:
                    return found
        return None

    def at(self, step: int, *, verify: Literal["digest", "size"] = "digest") -> Checkpoint:
        """The checkpoint at ``step``. Raises NotFound, or StoreError where it is damaged."""
        self.skipped = []
        found = self._read(step, verify)
        if found is not None:
            return found
        if self.skipped:
            raise StoreError(f"the checkpoint in {self.skipped[0].folder} is damaged: {self.skipped[0].why}.")
        steps = ", ".join(map(str, self.steps())) or "none"
        raise NotFound(f"{self.folder} has no checkpoint at step {step}. Steps that have one: {steps}.")

    def all(self, *, verify: Literal["digest", "size"] = "size") -> list[Checkpoint]:
        """Checkpoints that can be resumed from, by step. Damaged ones are listed in :attr:`skipped`."""
        held = self._looked()
        steps = sorted({*(step for step, _ in folders.shown(self.folder)), *held.steps()})
        return [found for step in steps if (found := self._read(step, verify, held)) is not None]

    def steps(self) -> list[int]:
        """Steps that have a checkpoint, sound or not, rising."""
        return sorted({*(step for step, _ in folders.shown(self.folder)), *Bundle(self.bundle).steps()})

    @property
    def is_empty(self) -> bool:
        """True where no checkpoint is to be found, sound or not."""
        return not self.steps()

    # Removing --------------------------------------------------------------------------------------------------------

    def remove(self, step: int) -> int:
        """Remove the checkpoint at ``step``; it vanishes in one go. The bytes that this freed: 0 where it is not there.

        A crash on the way leaves a folder that means nothing, for :meth:`sweep`.
        """
        freed = self._remove_folders(step)
        if step in Bundle(self.bundle).steps():
            with self._fence(None), telling(self.bundle):
                held = Bundle(self.bundle)
                freed += held.size(step)
                self._change(held, without=[step])
        return freed

    def drop(self) -> None:
        """Remove all of them, whatever state they are in."""
        with telling(self.bundle):
            packed.replace(self.bundle, None)
            for path in (bundle.older(self.bundle), self.bundle):
                path.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def size(self, step: int) -> int:
        """Bytes of the checkpoint at ``step``; 0 where there is none."""
        alone = sum(tree_size(str(folder)) for found, folder in folders.shown(self.folder) if found == step)
        return alone + Bundle(self.bundle).size(step)

    def secure(self, step: int) -> None:
        """Bring the checkpoint at ``step`` to the disk, unless it has gone meanwhile. It blocks."""
        if step in Bundle(self.bundle).steps():
            self._secure_bundle()
        self._secure_folder(step)

    def sweep(self, attempt: int) -> list[str]:
        """Remove what attempts before ``attempt`` left half-written; give the folders' names."""
        left = folders.left_by_attempts_before(attempt, self.folder)
        for entry in left:
            shutil.rmtree(self.folder / entry, ignore_errors=True)
        return left

    # How -------------------------------------------------------------------------------------------------------------

    def _remove_folders(self, step: int) -> int:
        """Remove what lies in a folder of its own of the checkpoint at ``step``; the bytes that this freed."""
        freed = 0
        for found, folder in folders.shown(self.folder):
            if found == step:
                aside = self.folder / f"{REMOVED}{folders.name_of(step)}-a0-{secrets.token_hex(4)}"
                with telling(folder), contextlib.suppress(FileNotFoundError):
                    freed += tree_size(str(folder), links=False)  # the others keep what they share
                    os.rename(folder, aside)
                    shutil.rmtree(aside, ignore_errors=True)
        return freed

    def _change(self, held: Bundle, without: list[int]) -> None:
        """Take checkpoints out of the file of small ones, which the fence guards."""
        if not set(without) & set(held.steps()):
            return
        data = held.without(without)
        if packed.replace(self.bundle, data) and not self.bundle.exists():
            return
        if data is not None:
            write_atomic(self.bundle, data)
        for path in (bundle.older(self.bundle), *((self.bundle,) if data is None else ())):
            path.unlink(missing_ok=True)

    def _secure_bundle(self) -> None:
        with telling(self.bundle), contextlib.suppress(FileNotFoundError):  # what is packed is on the disk
            inode = folders.fsync(self.bundle)
            fsync_folder(self.bundle.parent)
            if bundle.older(self.bundle).exists():
                with self._fence(None):
                    if self.bundle.stat().st_ino == inode:
                        bundle.older(self.bundle).unlink(missing_ok=True)

    def _secure_folder(self, step: int) -> None:
        folder = self.folder / folders.name_of(step)
        with telling(folder), contextlib.suppress(FileNotFoundError):
            folders.fsync_all(folder)
            for above in (self.folder, *self.folder.parents[:1]):
                fsync_folder(above)

    def _looked(self) -> Bundle:
        """The small ones as they are now. Nothing is skipped yet, but those where none of them can be read."""
        held = Bundle(self.bundle)
        self.skipped = unreadable(held)
        return held

    def _read(self, step: int, verify: str, held: Bundle | None = None) -> Checkpoint | None:
        """The checkpoint at ``step``, where it is sound; what is wrong is kept in :attr:`skipped`."""
        before = len(self.skipped)
        both = [self._read_small(step, held or Bundle(self.bundle)), self._read_folder(step, verify)]
        found = [one for one in both if one is not None]
        if found:
            del self.skipped[before:]
        # Both are there after a crash between showing the one and removing the other.
        return max(found, key=lambda one: (one.attempt, one.manifest.created), default=None)

    def _read_small(self, step: int, held: Bundle) -> Checkpoint | None:
        if step not in held.steps():
            return None
        found = small(held, step)
        if isinstance(found, Skipped):
            self._skip(found)
            return None
        return found

    def _read_folder(self, step: int, verify: str) -> Checkpoint | None:
        plain = self.folder / folders.name_of(step)
        # Between the two renames that replace a checkpoint, or after a crash there, only the old one is to be found.
        for folder in (plain, plain.with_name(f"{plain.name}.old"), plain):
            try:
                manifest = read_manifest(folder)
            except FileNotFoundError as error:
                if folder.is_dir():
                    self._skip(Skipped(step, folder, f"its manifest is missing ({error.strerror})"))
                    return None
                continue
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                self._skip(Skipped(step, folder, f"its manifest cannot be read ({error})"))
                return None
            why = "it belongs to another step" if manifest.step != step else what_is_wrong(folder, manifest, verify)
            if why is None:
                return Checkpoint(step, manifest.attempt, folder, manifest)
            if folder.is_dir():
                self._skip(Skipped(step, folder, why))
                return None
        return None

    def _skip(self, skipped: Skipped) -> None:
        self.skipped.append(skipped)

    def _fence(self, attempt: int | None) -> contextlib.AbstractContextManager[None]:
        return fence.held(self._trial, attempt)


def small(held: Bundle, step: int) -> Checkpoint | Skipped:
    """The checkpoint at ``step`` in a bundle, or what is wrong with it: its digests are compared as well."""
    manifest, why = held.read(step)
    if manifest is None:
        return Skipped(step, held.path, str(why))
    folder = held.folder(step)
    return Checkpoint(step, manifest.attempt, folder, manifest) if why is None else Skipped(step, folder, why)


def unreadable(held: Bundle) -> list[Skipped]:
    """A bundle of which nothing can be read, with why; nothing for all others."""
    return [Skipped(0, held.path, f"it cannot be read: {held.trouble}")] if held.trouble else []

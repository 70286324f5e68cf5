"""A trial's checkpoints. Law: a visible checkpoint is complete, and an older attempt never overwrites a newer one's.

A checkpoint is made in a hidden folder, its manifest last, and published by one rename. Small ones share one file
(:mod:`workbench.store.files.bundle`), which is replaced by one rename. This does not wait for the disk:
:meth:`Checkpoints.settle` syncs it, from another thread. A power cut before that leaves files that do not match
their manifest, and the checkpoint before is used.

Runners use this with the standard library alone; if xxhash is installed, it computes the digests.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import threading
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from workbench.errors import NotFound, StoreError
from workbench.records import Json
from workbench.store.files import bundle, fence, packed
from workbench.store.files.atomic import REMOVED, fsync_folder, telling, tree_size, write_atomic
from workbench.store.files.atomic import to_json as _to_json
from workbench.store.files.bundle import Bundle
from workbench.store.files.inside import make_inside
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

#: Folders of trials whose names this process has synced to the disk.
_named: set[Path] = set()
#: A folder or a file of a checkpoint: both can be read like a path (``/``, ``open``, ``exists``, ``read_bytes``).
Folder: TypeAlias = Path | zipfile.Path


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that can be resumed from."""

    step: int
    attempt: int
    #: The folder to read its files from. A small one's files are members of an archive, which was read completely.
    folder: Folder
    manifest: Manifest

    def file(self, name: str) -> Folder:
        """One of its files. Raises NotFound if the manifest does not list it."""
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
    """The checkpoints of one trial. Its runner makes them; any process may read them."""

    def __init__(self, trial: TrialPaths | Path) -> None:
        """``trial``: the trial's paths, or its folder."""
        place = trial.folder if isinstance(trial, TrialPaths) else trial
        self.folder = place / "checkpoints"
        #: The file that contains the small ones.
        self.bundle = bundle_of(place)
        self._trial = place.parent if place.name in ("passing", "setup") else place
        #: What the last :meth:`newest` or :meth:`all` skipped.
        self.skipped: list[Skipped] = []
        #: Steps that were published since the last :meth:`settle`, and whether each is in the bundle.
        self._unsettled: dict[int, bool] = {}
        self._settling = threading.Lock()
        self._swept = False

    # Making ----------------------------------------------------------------------------------------------------------

    def begin(self, step: int, attempt: int) -> Path:
        """A folder for the state at ``step``. Raises StaleAttempt if a newer attempt has started."""
        self.fence(attempt)
        make_inside(self.folder)
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
        """Publish the folder of :meth:`begin` as the checkpoint at ``step``. Digests files that are not in ``digests``.

        A checkpoint at the same step is replaced. It is visible to all processes when this returns, and on the disk
        after the next :meth:`settle`; with ``settled`` it is synced before it is published, so that the one it replaces
        is removed only then (it blocks: use a thread). Raises StaleAttempt (nothing was published), StoreFull etc.
        """
        target = self.folder / folders.name_of(step)
        with telling(aside):
            try:
                files = {
                    name: File(size, (digests or {}).get(name) or digest_file(aside / name))
                    for name, size in sorted(files_in(aside))
                }
            except FileNotFoundError:
                self.fence(attempt)  # a newer attempt has removed the folder
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
            self._unsettled[step] = False
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
        """Publish ``files`` as the checkpoint at ``step``, as :meth:`publish` does; None if they are too large.

        alone: replace all small ones. Raises StaleAttempt (nothing was published), StoreFull and the like.
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
                # A power cut that destroys the new file must not destroy the checkpoints before it.
                with contextlib.suppress(OSError):  # it is packed, or an older file that is on the disk exists already
                    os.link(self.bundle, bundle.older(self.bundle))
            write_atomic(self.bundle, data, fsync=settled)
            self._remove_folders([step])
        with self._settling:
            self._unsettled[step] = True
        return manifest

    def begin_fetched(self, step: int, attempt: int | None) -> Path:
        """A folder into which the checkpoint at ``step`` is fetched from elsewhere. attempt: as for :meth:`adopt`."""
        if attempt is not None:
            return self.begin(step, attempt)
        make_inside(self.folder)
        # Attempt 0 is never used: the next leg removes the folder, and then no process needs it.
        return folders.begun(self.folder, step, 0)

    def adopt(self, aside: Path, step: int, attempt: int | None) -> None:
        """Publish what was fetched into ``aside``, with its manifest, unless ``step`` has an intact checkpoint.

        attempt: of the leg that needs it, or None for a viewer. Raises StaleAttempt.
        """
        with telling(aside):
            folders.fsync_all(aside)
            with self._fence(attempt):
                if self._read(step, "digest") is None:
                    folders.show(aside, self.folder / folders.name_of(step))
                    self._change(Bundle(self.bundle), without=[step])
            fsync_folder(self.folder)

    def discard(self, aside: Path) -> None:
        """Discard the folder of :meth:`begin`."""
        shutil.rmtree(aside, ignore_errors=True)

    def settle(self) -> list[int]:
        """Sync published checkpoints to the disk, files and names; return the steps. It blocks: call it in a thread.

        If it raises, the steps wait for the next call.
        """
        return settle([self])[0]

    def fence(self, attempt: int) -> None:
        """Refuse lower attempts from now on. Raises StaleAttempt if a higher one has started."""
        with self._fence(attempt):
            pass

    # Reading ---------------------------------------------------------------------------------------------------------

    def newest(self, at_most: int | None = None, *, verify: Literal["digest", "size"] = "digest") -> Checkpoint | None:
        """The newest checkpoint (at step ``at_most`` or before) whose files match its manifest, or None.

        Damaged ones are skipped and listed in :attr:`skipped`. ``verify="size"`` reads no file: it is fast, and enough
        for one that was written since the machine's last boot.
        """
        held = self._looked()
        for step in sorted({*(step for step, _ in folders.shown(self.folder)), *held.steps()}, reverse=True):
            if at_most is None or step <= at_most:
                found = self._read(step, verify, held)
                if found is not None:
                    return found
        return None

    def at(self, step: int, *, verify: Literal["digest", "size"] = "digest") -> Checkpoint:
        """The checkpoint at ``step``. Raises NotFound, or StoreError if it is damaged."""
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
        """Steps that have a checkpoint, intact or not, rising."""
        return sorted({*(step for step, _ in folders.shown(self.folder)), *Bundle(self.bundle).steps()})

    @property
    def is_empty(self) -> bool:
        """True if there is no checkpoint, intact or not."""
        return not self.steps()

    # Removing --------------------------------------------------------------------------------------------------------

    def remove(self, step: int) -> int:
        """Remove the checkpoint at ``step`` atomically. Returns the bytes freed: 0 if it does not exist.

        A crash during the removal leaves a folder without meaning, for :meth:`sweep`.
        """
        return self.trim([step])

    def trim(self, going: Collection[int], staying: Collection[int] = ()) -> int:
        """Remove the checkpoints at ``going`` once those at ``staying`` are on the disk; the bytes freed. It blocks.

        A power cut may lose one that is not on the disk yet: the one before it must still exist then.
        """
        small, freed, is_rewritten = set(Bundle(self.bundle).steps()), 0, False
        self._secure(dict.fromkeys(set(staying) - small, False))
        if small.intersection(going):
            with self._fence(None), telling(self.bundle):
                held = Bundle(self.bundle)
                freed += sum(map(held.size, going))
                is_rewritten = self._change(held, without=going)  # and synced with those that stay
        if not is_rewritten:
            self._secure(dict.fromkeys(small.intersection(staying), True))
        return freed + self._remove_folders(going)

    def drop(self) -> None:
        """Remove all of them, intact or not."""
        with telling(self.bundle):
            packed.replace(self.bundle, None)
            for path in (bundle.older(self.bundle), self.bundle):
                path.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def size(self, step: int) -> int:
        """Bytes of the checkpoint at ``step``; 0 if there is none."""
        alone = sum(tree_size(str(folder)) for found, folder in folders.shown(self.folder) if found == step)
        return alone + Bundle(self.bundle).size(step)

    def sweep(self, attempt: int) -> list[str]:
        """Remove half-written folders of attempts before ``attempt``; return their names."""
        left = folders.left_by_attempts_before(attempt, self.folder)
        for entry in left:
            shutil.rmtree(self.folder / entry, ignore_errors=True)
        return left

    # Internals -------------------------------------------------------------------------------------------------------

    def _remove_folders(self, steps: Collection[int]) -> int:
        """Remove the separate folders of the checkpoints at ``steps``, if any; the bytes freed."""
        freed = 0
        for found, folder in folders.shown(self.folder):
            if found in steps:
                aside = self.folder / f"{REMOVED}{folders.name_of(found)}-a0-{secrets.token_hex(4)}"
                with telling(folder), contextlib.suppress(FileNotFoundError):
                    freed += tree_size(str(folder), links=False)  # the other checkpoints keep shared files
                    os.rename(folder, aside)
                    shutil.rmtree(aside, ignore_errors=True)
        return freed

    def _change(self, held: Bundle, without: Collection[int]) -> bool:
        """Remove checkpoints from the file of small ones, which the fence guards: the rest is on the disk then. False
        if it has none of them."""
        if not set(without) & set(held.steps()):
            return False
        data = held.without(without)
        if packed.replace(self.bundle, data) and not self.bundle.exists():
            return True
        if data is not None:
            write_atomic(self.bundle, data)
        for path in (bundle.older(self.bundle), *((self.bundle,) if data is None else ())):
            path.unlink(missing_ok=True)
        return True

    def _synced(self, steps: Mapping[int, bool], *, are_new: bool) -> tuple[int, list[Path]]:
        """Sync the files of these checkpoints; the inode of the bundle (0: none was synced), and folders with names of
        theirs, which are not synced yet. are_new: the folders above may be, too."""
        inode, above = 0, {}
        for step in (step for step, is_small in steps.items() if not is_small):
            folder = self.folder / folders.name_of(step)
            with telling(folder), contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
                folders.fsync_all(folder)
                above.update(dict.fromkeys((self.folder, self.folder.parent)))
        if any(steps.values()):
            with telling(self.bundle), contextlib.suppress(FileNotFoundError):  # packed ones are on the disk
                inode = folders.fsync(self.bundle)
                above[self.bundle.parent] = None
        if are_new and steps and self._trial.parent not in _named:
            above.update(dict.fromkeys((self._trial.parent, self._trial.parent.parent)))  # up to the experiment's
        return inode, [*above]

    def _secure(self, steps: Mapping[int, bool]) -> None:
        """Sync these checkpoints, each with whether it is in the bundle."""
        for error in _secure({self: steps}).values():
            raise error

    def _drop_older(self, inode: int) -> None:
        """Remove what the bundle has replaced, if the bundle is the file with this inode, which is on the disk."""
        if inode and bundle.older(self.bundle).exists():
            with contextlib.suppress(OSError, StoreError), self._fence(None):  # it is removed with the next one
                if self.bundle.stat().st_ino == inode:
                    bundle.older(self.bundle).unlink(missing_ok=True)

    def _looked(self) -> Bundle:
        """The small ones as of now. Resets :attr:`skipped`, to all of them if their file is unreadable."""
        held = Bundle(self.bundle)
        self.skipped = unreadable(held)
        return held

    def _read(self, step: int, verify: str, held: Bundle | None = None) -> Checkpoint | None:
        """The checkpoint at ``step``, if it is intact; problems are added to :attr:`skipped`."""
        before = len(self.skipped)
        both = [self._read_small(step, held or Bundle(self.bundle)), self._read_folder(step, verify)]
        found = [one for one in both if one is not None]
        if found:
            del self.skipped[before:]
        # Both exist after a crash between publishing the one and removing the other.
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
        # Between the two renames that replace a checkpoint, or after a crash there, only the old one exists.
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

    def _taken(self) -> dict[int, bool]:
        """What waits for :func:`settle`, which nothing waits for any more."""
        with self._settling:
            steps, self._unsettled = self._unsettled, {}
        return steps

    def _give_back(self, steps: Mapping[int, bool]) -> None:
        with self._settling:
            self._unsettled = {**steps, **self._unsettled}

    def _skip(self, skipped: Skipped) -> None:
        self.skipped.append(skipped)

    def _fence(self, attempt: int | None) -> contextlib.AbstractContextManager[None]:
        return fence.held(self._trial, attempt)


def settle(several: Sequence[Checkpoints]) -> list[list[int]]:
    """Sync what each of these has published to the disk, files and names; return the steps of each. It blocks.

    If it raises, what is not on the disk waits for the next call.
    """
    waiting = {one: one._taken() for one in several}
    errors = _secure(waiting, are_new=True)
    for one in errors:
        one._give_back(waiting[one])
    if len(_named) > 1_000:
        _named.clear()
    _named.update(one._trial.parent for one, steps in waiting.items() if steps and one not in errors)
    for error in errors.values():
        raise error
    return [[*steps] for steps in waiting.values()]


def _secure(
    waiting: Mapping[Checkpoints, Mapping[int, bool]], *, are_new: bool = False
) -> dict[Checkpoints, StoreError]:
    """Sync checkpoints, each with whether it is in a bundle; a folder once for all names in it. Returns what failed."""
    done, errors, failed = [], {}, {}
    for one, steps in waiting.items():
        try:
            done.append((one, *one._synced(steps, are_new=are_new)))
        except StoreError as error:
            errors[one] = error
    for folder in sorted({folder for *_, above in done for folder in above}, key=lambda one: (-len(one.parts), one)):
        try:
            with telling(folder), contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
                fsync_folder(folder)
        except StoreError as error:
            failed[folder] = error
    for one, inode, above in done:
        missed = [failed[folder] for folder in above if folder in failed]
        if missed:
            errors[one] = missed[0]
        else:
            one._drop_older(inode)
    return errors


def small(held: Bundle, step: int) -> Checkpoint | Skipped:
    """The checkpoint at ``step`` in a bundle, or what is wrong with it: digests are compared as well."""
    manifest, why = held.read(step)
    if manifest is None:
        return Skipped(step, held.path, str(why))
    folder = held.folder(step)
    return Checkpoint(step, manifest.attempt, folder, manifest) if why is None else Skipped(step, folder, why)


def unreadable(held: Bundle) -> list[Skipped]:
    """The checkpoints of an unreadable bundle, with the reason; none for a readable one."""
    return [Skipped(0, held.path, f"it cannot be read: {held.trouble}")] if held.trouble else []

"""Export of one experiment to one file, and import into a store. Law: imported data is checked before it is placed
anywhere, and nothing in it is executed.

A zip archive: ``manifest.json`` first (schema, the experiment, each file's size and SHA-256), then the files by their
places in a store.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePath
from typing import IO, Any, BinaryIO

from workbench.asking import ask
from workbench.errors import BadInput, NewerSchema, StoreError, WorkbenchError
from workbench.records.names import checked_name
from workbench.share import manifest
from workbench.share.arriving import arriving, take_out
from workbench.share.contents import (
    copy_series,
    experiment_of,
    files_of,
    is_name,
    may_vanish,
    opened_file,
    read_out,
    undisturbed,
)
from workbench.share.copies import copied, look, refuse_secrets
from workbench.share.looking import Findings, carried, told
from workbench.share.manifest import Listed, Manifest
from workbench.share.masking import masked_data, without_own
from workbench.store import Store
from workbench.store.files import database, packed
from workbench.store.files.atomic import (
    FILE_MODE,
    FOLDER_MODE,
    MOST_JSON,
    NoFile,
    fsync_folder,
    read_file,
    telling,
    unfinished_name,
    write_json,
)
from workbench.store.files.below import open_below
from workbench.store.files.blobs import is_kept
from workbench.store.layout import PACKED
from workbench.store.lists.catalog import read_catalog, read_entry, resolve_experiment
from workbench.store.owner.pausing import pause
from workbench.store.owner.trust import is_marked, mark, mark_snapshot, same_snapshot

MANIFEST = "manifest.json"
KIND = "workbench experiment"
#: The most bytes to which a file may unpack, unless the user allows more.
MOST_BYTES = 100 << 30
#: A file that claims a higher compression ratio is rejected: checkpoints hardly compress at all.
MOST_RATIO = 200
#: Smaller members count as having this size: a short text may well be compressed more.
_SMALL = 1 << 16
#: A file is compressed if it is smaller than this part of itself afterwards.
_WORTH = 0.9
#: How a member may be compressed. zipfile limits what these two unpack to, and not what others do.
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_IS_ENCRYPTED = 1
#: What zipfile raises for an archive that is damaged, or that it cannot read.
_UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, RuntimeError, ValueError, EOFError)
_CHUNK = 1 << 20
#: Why an imported experiment is paused if it was training at the export.
ELSEWHERE = "it came from elsewhere while it was training"


def export(
    store: Store, ref: str, target: Path, *, checkpoints: bool = True, data: bool = False, mask: bool = False
) -> dict[str, Any]:
    """Write the experiment ``ref`` to the file ``target``, which must not exist, and which only its owner can read.

    data: include the files that its trials read, if they were kept; by default only their digests. mask: remove the
    secrets from its texts, as :func:`publish` does; by default everything is unchanged. The answer says what the file
    contains, and which secrets were found. The file contains the current state: of an experiment that still trains,
    everything that its engine has written so far.
    """
    experiment_id = resolve_experiment(store.check(), ref).experiment
    if target.exists():
        raise BadInput(f"{target} exists. Name another file, or remove it first.")
    if mask:
        refuse_secrets(store, experiment_id)
    entry = read_entry(store, experiment_id)
    unfinished = unfinished_name(target)
    findings = Findings()
    with telling(target), tempfile.TemporaryDirectory(dir=target.parent, prefix=".workbench-") as folder:
        laid_out = Path(folder) / "packed"
        laid_out.mkdir()
        try:
            with undisturbed(store, experiment_id):
                if mask:
                    files = copied(
                        store, experiment_id, Path(folder), laid_out, findings, checkpoints=checkpoints, data=data
                    )
                    entry = masked_data(entry)
                else:
                    files = _as_it_is(store, experiment_id, Path(folder), laid_out, checkpoints=checkpoints, data=data)
                    look(files, findings)
                descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
                with os.fdopen(descriptor, "w+b") as file:
                    listed = _pack(file, files, store, experiment_id, entry)
            os.replace(unfinished, target)
        finally:
            unfinished.unlink(missing_ok=True)
    return {
        "file": str(target),
        "experiment": experiment_id,
        "files": len(listed),
        "bytes": target.stat().st_size,
        "unpacked": sum(one.bytes for one in listed),
        "carries": carried(one.name for one in listed),
        **told(findings.found),
    }


def _as_it_is(
    store: Store, experiment_id: str, folder: Path, aside: Path, *, checkpoints: bool, data: bool
) -> list[tuple[str, Path]]:
    """Names and paths of the experiment's files; its spec without the author's private fields."""
    files = list(files_of(store, experiment_id, aside, checkpoints=checkpoints, data=data))
    spec = store.read_spec_json(experiment_id)
    if spec != without_own(spec):
        write_json(folder / "spec.json", without_own(spec))
        own = store.experiment(experiment_id).spec
        files = [(name, folder / "spec.json" if path == own else path) for name, path in files]
    if copy_series(store, experiment_id, folder / "series.db"):
        files.append((f"experiments/{experiment_id}/series.db", folder / "series.db"))
    return files


def _pack(
    file: IO[bytes], files: list[tuple[str, Path]], store: Store, experiment_id: str, entry: dict[str, Any]
) -> list[Listed]:
    listed: list[Listed] = []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, path in files:
            with (
                may_vanish(name),
                opened_file(path) as source,
                # A bare ZipInfo is stored as it is.
                archive.open(name if _is_deflated(source) else zipfile.ZipInfo(name), "w", force_zip64=True) as member,
            ):
                listed.append(read_out(name, source, member.write))
        labels = {key: entry[key] for key in ("tags", "note") if entry.get(key)}
        labels |= manifest.protection(store, experiment_id)
        about = manifest.described(KIND, experiment_id, entry.get("label"), labels, listed)
        archive.writestr(MANIFEST, json.dumps(about))
    return listed


def _is_deflated(source: BinaryIO) -> bool:
    """Whether an archive compresses this file: if it shrinks, and not so much that an import would take it for a bomb.

    The beginning tells of a checkpoint that it hardly shrinks; anything else is compressed once to see.
    """
    packer, size, deflated = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS), 0, 0
    shrinks = True
    while shrinks and (chunk := source.read(_CHUNK)):
        size += len(chunk)
        deflated += len(packer.compress(chunk))
        shrinks = deflated < _WORTH * size
    deflated += len(packer.flush())
    source.seek(0)
    # Half of what is allowed: a log may grow before it is read again.
    return deflated < _WORTH * size and size <= MOST_RATIO // 2 * max(deflated, _SMALL)


def take_in(store: Store, source: Path, *, name: str | None = None, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Import the experiment in the file ``source`` into ``store``; its id and label there.

    Nothing is written before all names, kinds and sizes were checked, and nothing appears in the store before every
    byte was compared with its digest. Nothing in it is executed, now or later, until the user trusts it.
    Raises BadInput for a file that is not such an archive, or whose experiment is already in the store.
    """
    if name is not None:
        checked_name(name)
    if source.is_dir():
        return _take_in_folder(store, source, name)
    if source.exists() and not source.is_file():
        # A device or a pipe may never end, or never answer.
        raise BadInput(f"{source} is neither a file nor a folder. Name a file that `workbench export` wrote.")
    try:
        archive = zipfile.ZipFile(source)
    except (*_UNREADABLE, OSError) as error:
        raise BadInput(f"{source} is not a file that `workbench export` wrote ({error}).") from None
    with archive:
        about = _checked(archive, source, most_bytes)
        with arriving(store) as folder:
            if not _is_waiting(store, about):
                _unpack(archive, about.files or (), folder)
                return _taken_in(store, folder, about, name)
    return _adopted(store, about, name)


def _take_in_folder(store: Store, source: Path, name: str | None) -> dict[str, Any]:
    """The same from the output of `workbench publish`: plain files in the places of a store; links are left out."""
    try:
        about = manifest.read(read_file(Store(source).published, MOST_JSON))
    except NewerSchema:
        raise
    except (OSError, ValueError) as error:
        raise BadInput(f"{source} was not written by `workbench publish` or `export` ({error}).") from None
    with arriving(store) as folder:
        if not _is_waiting(store, about):
            about = replace(about, files=_copied_folder(source, about, folder))
            return _taken_in(store, folder, about, name)
    return _adopted(store, about, name)


def _copied_folder(source: Path, about: Manifest, folder: Path) -> list[Listed]:
    """Copy the publication's files to ``folder``. Raises BadInput if one that it lists is missing or different."""
    expected = {one.name: one for one in about.files or ()}
    names = expected if about.files is not None else _names_in(source)
    copies: list[Listed] = []
    for name in names:
        target = folder / name
        if not is_name(name) or experiment_of(name) not in (None, about.experiment):
            raise BadInput(f"{source} is not imported: {name[:120]!r} is not a file of its experiment.")
        target.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        try:
            with open_below(source, PurePath(name)) as file, open(target, "xb") as copy:
                os.chmod(target, FILE_MODE)
                copies.append(read_out(name, file, copy.write))
        except (FileNotFoundError, NotADirectoryError, FileExistsError, NoFile, StoreError) as error:
            raise _incomplete(source, name, str(error)) from None
        if copies[-1] != expected.get(name, copies[-1]):
            raise _incomplete(source, name, "its size or its digest is another one")
    return copies


def _incomplete(source: Path, name: str, why: str) -> BadInput:
    return BadInput(
        f"{source} is not imported: {name[:120]!r} is missing or not as it was published ({why}). Copy the whole "
        "folder again."
    )


def _names_in(source: Path) -> list[str]:
    """The files of a store in a publication of a Workbench that did not list them. Links are left out."""
    files = [path for path in sorted(source.rglob("*")) if path.is_file() and not path.is_symlink()]
    return [name for path in files if is_name(name := path.relative_to(source).as_posix())]


def _is_waiting(store: Store, about: Manifest) -> bool:
    """Whether the experiment is in the store, but not in the catalog: an earlier import was killed before its last
    step. Raises BadInput if it is in the catalog.
    """
    experiment = about.experiment
    if not store.experiment(experiment).folder.exists():
        return False
    # Without a catalog, the list is built from the folders.
    is_listed = store.catalog_path.exists() and any(one["id"] == experiment for one in read_catalog(store))
    if store.experiment(experiment).foreign.exists() and not is_listed:
        return True
    raise _is_there(store, about)


def _is_there(store: Store, about: Manifest) -> BadInput:
    label = read_entry(store, about.experiment).get("label") or about.shown
    named = "" if label == about.shown else f" as {label}"
    return BadInput(f"{about.shown} is already in {store.root}{named}: nothing to do.")


def _taken_in(store: Store, folder: Path, about: Manifest, name: str | None) -> dict[str, Any]:
    """Place what was unpacked, and have the engine list it. If that fails, the experiment is removed again."""
    _place(store, folder, about)
    try:
        return _adopted(store, about, name)
    except BaseException:
        take_out(store.experiment(about.experiment).folder)
        raise


def _adopted(store: Store, about: Manifest, name: str | None) -> dict[str, Any]:
    answer = ask(store, about.adoption(name))
    return {"experiment": about.experiment, "label": answer.get("label"), "files": len(about.files or ())}


def _checked(archive: zipfile.ZipFile, source: Path, most_bytes: int) -> Manifest:
    """The manifest of an archive whose members are those that it lists, each a plain file in a place of a store."""

    def refused(why: str) -> BadInput:
        return BadInput(f"{source} is not imported: {why}.")

    members = {info.filename: info for info in archive.infolist()}
    for name, info in members.items():
        if info.flag_bits & _IS_ENCRYPTED or info.compress_type not in _METHODS:
            raise refused(f"{name[:120]!r} is encrypted, or compressed in a way that `workbench export` does not use")
        if info.file_size > MOST_RATIO * max(info.compress_size, _SMALL):
            raise refused(f"{name[:120]!r} would unpack to more than it should")
    if MANIFEST not in members or members[MANIFEST].file_size > MOST_JSON:
        raise refused("it has no manifest that could be read")
    try:
        about = manifest.read(archive.read(MANIFEST))
    except NewerSchema:
        raise
    except (*_UNREADABLE, BadInput) as error:
        raise refused(f"its manifest cannot be read ({error})") from None
    files = about.files or []
    listed = {one.name: one.bytes for one in files}
    if about.kind != KIND or len(listed) != len(files) or len(members) != len(archive.infolist()):
        raise refused("its manifest does not describe one experiment with each file once")
    if listed.keys() != members.keys() - {MANIFEST}:
        raise refused("its files are not those that its manifest lists")
    for name, size in listed.items():
        info = members[name]
        kind = stat.S_IFMT(info.external_attr >> 16)
        if not is_name(name):
            raise refused(f"{name[:120]!r} is not a path in a store")
        if (owner := experiment_of(name)) is not None and owner != about.experiment:
            raise refused(f"{name[:120]!r} belongs to another experiment")
        if kind not in (0, stat.S_IFREG) or info.is_dir():
            raise refused(f"{name[:120]!r} is a link or a device, not a plain file")
        if info.file_size != size:
            raise refused(f"{name[:120]!r} would unpack to more than it should")
    total = sum(listed.values())
    if total > most_bytes:
        raise refused(f"it would unpack to {total >> 30} GiB; {most_bytes >> 30} GiB are allowed")
    if f"experiments/{about.experiment}/spec.json" not in listed:
        raise refused("the experiment's spec is missing")
    return about


def _unpack(archive: zipfile.ZipFile, listed: Iterable[Listed], folder: Path) -> None:
    for one in listed:
        target = folder / one.name
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        digest, left = hashlib.sha256(), one.bytes
        try:
            with archive.open(one.name) as member, open(target, "xb") as file:
                while chunk := member.read(min(_CHUNK, left + 1)):
                    left -= len(chunk)
                    if left < 0:
                        break
                    digest.update(chunk)
                    file.write(chunk)
        except (*_UNREADABLE, FileExistsError, NotADirectoryError) as error:
            raise BadInput(f"{one.name[:120]!r} cannot be unpacked: {error}.") from None
        if left or digest.hexdigest() != one.sha256:
            raise BadInput(f"{one.name[:120]!r} does not match the manifest: the file is damaged.")
        os.chmod(target, 0o600)


def _place(store: Store, folder: Path, about: Manifest) -> None:
    """Move what was unpacked to its place: shared files first, the experiment last, in one rename. Everything is
    checked, and on disk, before anything is moved: a power cut leaves the whole experiment, or nothing of it.

    Blobs and snapshots are as new as the import afterwards, so that a clean-up in progress spares them.
    """
    _look_at(store, folder, about.experiment)
    _sync(folder)
    for path in sorted((folder / "blobs").glob("*")):
        if not is_kept(store.blobs / path.name, path.stat().st_size):  # the blob there may be damaged
            os.replace(path, store.blobs / path.name)
    for path in sorted((folder / "snapshots").glob("*")):
        _place_snapshot(path, store.snapshots / path.name)
    for shared in (store.blobs, store.snapshots):
        fsync_folder(shared)
    try:
        os.rename(folder / "experiments" / about.experiment, store.experiment(about.experiment).folder)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise _is_there(store, about) from None
        raise StoreError(f"the experiment could not be put into {store.root}: {error.strerror}.") from error
    fsync_folder(store.experiments)


def _sync(folder: Path) -> None:
    """Have the files below ``folder`` on disk, with their names."""
    for place, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                os.fsync(file.fileno())
        fsync_folder(Path(place))


def _place_snapshot(path: Path, target: Path) -> None:
    while not _touched(target):
        mark_snapshot(path)
        try:
            os.rename(path, target)
            return
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # else it has been put there meanwhile
                raise


def _touched(target: Path) -> bool:
    """Whether the snapshot is there after it was marked as used. A clean-up moves it away before it looks at the time
    again: only one that is still there afterwards stays.
    """
    with contextlib.suppress(FileNotFoundError, PermissionError):  # another user's needs no mark
        os.utime(target)
    return target.is_dir()


def _look_at(store: Store, folder: Path, experiment_id: str) -> None:
    """Raise BadInput if the content of the experiment, a blob or a snapshot does not match; mark the experiment."""
    for path in sorted((folder / "snapshots").glob("*")):
        there = store.snapshots / path.name
        if is_marked(there) and not same_snapshot(path, there):
            raise BadInput(
                f"snapshot {path.name[:12]} was imported before, with other content: one of the two is not valid. "
                "Delete the experiment that brought the other (`workbench delete`), clean up, and import this one "
                "in again."
            )
    for path in sorted((folder / "blobs").glob("*")):
        with open(path, "rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != path.name:
                raise BadInput(f"blob {path.name} does not match its name: the file is damaged.")
    whole = folder / "experiments" / experiment_id
    try:
        spec = json.loads((whole / "spec.json").read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"the experiment's spec cannot be read ({error}).") from None
    if not isinstance(spec, dict) or spec.get("id") != experiment_id:
        raise BadInput("the spec belongs to another experiment.")
    if spec != without_own(spec):
        write_json(whole / "spec.json", without_own(spec))
    for path in (whole / "series.db", whole / PACKED):
        if (wrong := database.forged(path)) is not None:
            raise BadInput(f"{path.name} cannot be used: {wrong}.")
    packed.pack(whole / "trials")
    try:
        Store(folder).read_spec(experiment_id)
    except NewerSchema:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, StoreError, WorkbenchError) as error:
        raise BadInput(f"the experiment's spec is not valid ({str(error)[:200]}).") from None
    mark(Store(folder), experiment_id)
    try:
        pause(Store(folder), experiment_id, ELSEWHERE)
    except StoreError as error:
        raise BadInput(f"what it has recorded cannot be read ({error}).") from None

"""`doctor`: one line for each possible problem. Law: it changes nothing, and says what to do."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from workbench.cli.codes import FAILED, OK
from workbench.cli.words import SILENT_S, clean, coloured, cut, say, say_json, who
from workbench.cluster import devices
from workbench.cluster.address import check_address
from workbench.compare.section import counted, size
from workbench.errors import WorkbenchError
from workbench.records import ENDED
from workbench.store import Store
from workbench.store.files import filesystem
from workbench.store.files.atomic import open_file
from workbench.store.files.space import space_left
from workbench.store.owner import own_cluster, ownership
from workbench.store.owner.lease import read_engine

#: Free bytes on the store's disk below which a line warns, and below which it reports a problem.
LITTLE, NOTHING = 2_000_000_000, 200_000_000
#: The same for free inodes, if the file system counts them.
FEW_FILES = 10_000
#: The maximum number of listed findings of one kind.
LISTED = 50


@dataclass(frozen=True, slots=True)
class Finding:
    """One line."""

    about: str
    level: Literal["ok", "warning", "problem"]
    says: str


def doctor(options: Any) -> int:
    """Run all checks; return 1 if there is a problem."""
    store = Store.find(options.store)
    mended = _mended(store) if options.mend else []
    findings = [finding for look in CHECKS for finding in _safely(look, store)]
    problems = sum(finding.level == "problem" for finding in findings)
    if options.json:
        listed = [asdict(finding) for finding in findings]
        say_json({"store": str(store.root), "problems": problems, "findings": listed, "mended": mended})
    else:
        if options.mend:
            says = ", ".join(map(clean, mended)) or "no ended experiment has lost its curves"
            say(f"mended: {says}", "")
        width = max(len(finding.about) for finding in findings)
        for finding in findings:
            level = coloured(f"{finding.level:7}", finding.level)
            say(f"{level}  {finding.about:{width}}  {clean(finding.says)}")
    return FAILED if problems else OK


def _mended(store: Store) -> list[str]:
    """Have the engine, which alone writes series, rebuild lost ones; the labels of their experiments."""
    from workbench.asked import Mend
    from workbench.asking import ask

    return list(ask(store.check(), Mend(), timeout=3600.0)["mended"])


def _safely(look: Callable[[Store], Iterator[Finding]], store: Store) -> Iterator[Finding]:
    try:
        yield from look(store)
    except Exception as error:  # damage can take any form, and the other checks must still run
        yield Finding(look.__name__.strip("_").replace("_", " "), "problem", str(error) or repr(error))


# ---------------------------------------------------------------------------------------------------------------------
# This machine


def _versions(_: Store) -> Iterator[Finding]:
    found = {name: _version(name) for name in ("workbench", "dask", "distributed", "torch")}
    words = [f"Python {sys.version.split()[0]}", *(f"{name} {version or 'missing'}" for name, version in found.items())]
    lacking = [name for name in ("dask", "distributed") if found[name] is None]
    if lacking:
        says = f"{', '.join(words)}: {' and '.join(lacking)} run the engine. Install them: pip install workbench"
        yield Finding("versions", "problem", says)
    elif found["torch"] is None:
        yield Finding("versions", "ok", f"{', '.join(words)} (training code brings its own, where it needs it)")
    else:
        yield Finding("versions", "ok", ", ".join(words))


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _processes(_: Store) -> Iterator[Finding]:
    lacking = "which Linux has: a killed worker may leave training code behind"
    if not hasattr(os, "fork"):
        yield Finding("processes", "problem", "this system cannot fork, and runners are forked. Use Linux")
    elif not _has_death_signal():
        yield Finding("processes", "warning", f"no death signal for children (PR_SET_PDEATHSIG), {lacking}")
    else:
        yield Finding("processes", "ok", "fork and death signals work")


def _has_death_signal() -> bool:
    import ctypes

    try:
        number = ctypes.c_int()
        return bool(ctypes.CDLL(None, use_errno=True).prctl(2, ctypes.byref(number), 0, 0, 0) == 0)  # PR_GET_PDEATHSIG
    except (OSError, AttributeError):
        return False


def _gpus(_: Store) -> Iterator[Finding]:
    note = devices.plan(None).note
    if note is not None:
        yield Finding("GPUs", "warning", note)
    try:
        import pynvml
    except ImportError:
        yield Finding("GPUs", "warning", "not checked: nvidia-ml-py is missing. pip install nvidia-ml-py")
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        yield Finding("GPUs", "ok", f"none here ({error}); trials use CPU cores")
        return
    try:
        words = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            device = pynvml.nvmlDeviceGetHandleByIndex(index)
            name = pynvml.nvmlDeviceGetName(device)
            memory = pynvml.nvmlDeviceGetMemoryInfo(device)
            text = name.decode() if isinstance(name, bytes) else name
            words.append(f"{text}, {size(memory.free)} of {size(memory.total)} free")
        yield Finding("GPUs", "ok", "; ".join(words) or "none here; trials use CPU cores")
    except pynvml.NVMLError as error:
        yield Finding("GPUs", "warning", f"the driver does not answer: {error}. nvidia-smi may say more")
    finally:
        pynvml.nvmlShutdown()


# ---------------------------------------------------------------------------------------------------------------------
# The store


def _store(store: Store) -> Iterator[Finding]:
    place = _nearest(store.root)
    if not store.exists:
        yield Finding("store", "ok", f"none at {store.root} yet; a %%train cell creates it")
    if not os.access(place, os.W_OK | os.X_OK):
        says = f"{place} cannot be written. Give yourself permission, or choose another place with --store"
        yield Finding("store", "problem", says)
    elif store.exists:
        try:
            _try_writing(place)
        except OSError as error:
            yield Finding("store", "problem", f"{place} cannot be written ({error.strerror}). Check the disk")
        else:
            yield Finding("store", "ok", f"{store.root} can be written")
        whose = ownership.ownership(store)
        if not whose.is_ours:
            says = f"it is not known to be yours, and nothing in it runs: {whose.why}. {ownership.remedy(store, whose)}"
            yield Finding("store", "warning", says)
        if place.stat().st_mode & 0o077:
            says = f"other users of this machine can read {place}. chmod 700 prevents it"
            yield Finding("store", "warning", says)


def _try_writing(place: Path) -> None:
    import tempfile

    with tempfile.TemporaryFile(dir=place) as file:  # it never has a name
        file.write(b"x")
        file.flush()
        os.fsync(file.fileno())


def _nearest(path: Path) -> Path:
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _space(store: Store) -> Iterator[Finding]:
    place = _nearest(store.root)
    free = space_left(place)
    if free is None:
        yield Finding("space", "ok", "this file system does not tell how much is left")
    else:
        level: Literal["ok", "warning", "problem"] = (
            "problem" if free < NOTHING else "warning" if free < LITTLE else "ok"
        )
        advice = "" if level == "ok" else ". Experiments pause when nothing is left; free some"
        yield Finding("space", level, f"{size(free)} left{advice}")
    files = os.statvfs(place)
    if files.f_files and files.f_favail < FEW_FILES:
        says = f"only {files.f_favail:,} more files can be made on this file system. Remove some"
        yield Finding("space", "problem" if files.f_favail < FEW_FILES / 100 else "warning", says)
    kind = filesystem.kind(store.root)
    if filesystem.is_network(store.root):
        says = (
            f"{kind}, a network file system: locks may not reach other machines, and the live view is slower. "
            "Start the engine on one machine only"
        )
        yield Finding("file system", "warning", says)
    else:
        yield Finding("file system", "ok", f"{kind}, on this machine")


def _requests(store: Store) -> Iterator[Finding]:
    waiting = [name for name in _names(store.requests) if name.endswith(".json")]
    refused = _names(store.refused_requests)
    info = read_engine(store)
    if waiting and (info is None or not info.alive):
        says = f"{len(waiting)} waiting, and no engine is running. Start one: workbench engine start"
        yield Finding("requests", "warning", says)
    if refused:
        says = f"{len(refused)} could not be read and were moved to {store.refused_requests}: {_some(refused)}"
        yield Finding("requests", "warning", says)
    if store.exists and not refused and not (waiting and (info is None or not info.alive)):
        yield Finding("requests", "ok", f"{len(waiting)} waiting" if waiting else "none waits")


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _files(store: Store) -> Iterator[Finding]:
    from workbench.cli.damage import damage

    if not store.exists:
        return
    count = 0
    for about, is_problem, says in damage(store):
        count += 1
        if count <= LISTED:
            yield Finding(about, "problem" if is_problem else "warning", says)
    if count > LISTED:
        yield Finding("files", "problem", f"and {count - LISTED} more")
    if not count:
        yield Finding("files", "ok", f"{counted(len(store.experiment_ids()), 'experiment')}, all intact")


def _catalog(store: Store) -> Iterator[Finding]:
    from workbench.store.files.atomic import read_json
    from workbench.store.lists.catalog import read_catalog
    from workbench.store.lists.summary import entry_of

    if not store.exists:
        return
    advice = "the engine rebuilds it from the journals when it starts"
    known = {experiment: entry for experiment in store.experiment_ids() if (entry := entry_of(store, experiment))}
    if not store.catalog_path.exists():
        if known:
            yield Finding("catalog", "warning", f"it is missing; {advice}")
        return
    try:
        read_json(store.catalog_path)
    except (OSError, ValueError) as error:
        yield Finding("catalog", "warning", f"{store.catalog_path} is damaged ({error}); {advice}")
        return
    listed = {entry["id"]: entry for entry in read_catalog(store)}
    info = read_engine(store)
    if info is not None and info.alive:
        # It is written after the journals, so only experiments that ended long ago, which never change, must agree.
        known = {id_: entry for id_, entry in known.items() if listed.get(id_, {}).get("state") in ENDED}
    different = [
        str(entry["label"])
        for id_, entry in known.items()
        if id_ not in listed or (entry["state"] in ENDED and listed[id_].get("state") != entry["state"])
    ]
    gone = [str(entry.get("label")) for id_, entry in listed.items() if not store.experiment(id_).spec.exists()]
    if gone:
        says = f"it lists {counted(len(gone), 'experiment')} whose files are missing: {_some(gone)}. Restore them"
        yield Finding("catalog", "warning", says)
    elif different:
        yield Finding("catalog", "warning", f"it differs from the journals for {_some(different)}; {advice}")
    else:
        yield Finding("catalog", "ok", f"{counted(len(listed), 'experiment')}, as the journals say")


# ---------------------------------------------------------------------------------------------------------------------
# The engine and its cluster


def _engine(store: Store) -> Iterator[Finding]:
    info = read_engine(store)
    if info is None or not info.alive:
        died = f"; the last one (process {info.pid} on {info.host}) died" if info is not None else ""
        trains_on = own_cluster.trains_on(store.root)
        died += f"; {trains_on}" if died and trains_on else ""
        yield Finding("engine", "warning" if died else "ok", f"none is running{died}. One starts when it is needed")
    elif info.silent_s > SILENT_S:
        says = f"{who(info)}, and has not responded for {info.silent_s:.0f} s: it "
        try:
            _try_writing(_nearest(store.root))
        except OSError:  # then no heartbeat of its can be seen
            yield Finding("engine", "warning", f"{says}cannot write to the store either. It continues when it can")
        else:
            yield Finding("engine", "problem", f"{says}hangs. End it with kill {info.pid}")
    else:
        yield Finding("engine", "ok", f"{who(info)}, last heard from {info.silent_s:.0f} s ago")
    tail = _tail(store.engine_log)
    bad = [line for line in tail if " ERROR " in line or "Error: " in line or line.startswith("Traceback")]
    if bad:
        yield Finding("engine log", "warning", f"{cut(clean(bad[-1]), 300)} (in {store.engine_log})")
    elif tail:
        yield Finding("engine log", "ok", cut(clean(tail[-1]), 200))


def _tail(path: Path, lines: int = 20) -> list[str]:
    try:
        with open_file(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
            return file.read().decode("utf-8", "replace").splitlines()[-lines:]
    except (OSError, ValueError):
        return []


def _cluster(store: Store) -> Iterator[Finding]:
    info = read_engine(store)
    named = os.environ.get("WORKBENCH_CLUSTER")
    address = named or (info.address if info is not None and info.alive else None)
    if not address:
        yield Finding("cluster", "ok", "WORKBENCH_CLUSTER is not set: the engine starts a cluster on this machine")
        return
    try:
        check_address(address)
    except WorkbenchError as error:
        yield Finding("cluster", "problem", f"{'WORKBENCH_CLUSTER: ' if named else ''}{error}")
    else:
        yield Finding("cluster", "ok", f"{address} accepts connections")


CHECKS: tuple[Callable[[Store], Iterator[Finding]], ...] = (
    _versions, _processes, _gpus, _store, _space, _engine, _cluster, _requests, _files, _catalog,
)  # fmt: skip

"""A container that trains an experiment again: its Python, every distribution at its version, and its code.

Law: what cannot be restored is listed in comments; it contains no index, folder or secret of this machine. A snapshot
may be another person's: only names, versions and addresses of the usual form become lines, for a line may be a command.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from workbench import interpreter
from workbench.errors import BadInput, NotFound
from workbench.exporter import Order
from workbench.records import Json, Spec
from workbench.records.names import trial_label
from workbench.share.archive import export
from workbench.snapshot import read_snapshot
from workbench.snapshot.secrets.masking import MASK, masked
from workbench.store import Store
from workbench.store.files.atomic import telling
from workbench.store.lists.catalog import resolve
from workbench.store.owner.trust import check_trusted

LOCK, ARCHIVE, SOURCES = "requirements.lock", "experiment.zip", "workbench-sources"
_PLATFORMS = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}
#: PyTorch's own index has builds of these with a label, such as 2.13.0+cpu; PyPI does not.
_TORCH = frozenset({"torch", "torchvision", "torchaudio"})
_LABEL = re.compile(r"(?P<version>[^+]+)\+(?P<label>cpu|cu[0-9]+|rocm[0-9.]+|xpu)")
#: A distribution's name (PEP 503) and version (PEP 440), a version of Python, and a commit of git.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.!_-]*(\+[0-9A-Za-z][0-9A-Za-z._-]*)?")
_PYTHON = re.compile(r"[0-9]+(\.[0-9]+){1,2}((a|b|rc)[0-9]+)?\+?")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
#: An address without white space, quotes, and what pip or a shell replaces. Only git is reached by ssh.
_ADDRESS = re.compile(r"https?://[A-Za-z0-9._~:/?\[\]@!&()*+,=%-]+")
_REPOSITORY = re.compile(r"(git\+)?(https?|ssh)://[A-Za-z0-9._~:/@+,=%-]+")


def write(store: Store, order: Order) -> dict[str, Any]:
    """Write the Containerfile ``order.target``; see :func:`write_container`."""
    return write_container(store, order.ref, Path(order.target or "Containerfile"))


def lines(told: dict[str, Any]) -> list[str]:
    """What was written, as lines for the user."""
    gone = [f"Not restored: {name}: {why}." for name, why in told["not_restored"].items()]
    words = f"Python {told['python']}, {told['distributions']} distributions"
    return [words, *gone, f"Written: {told['file']}, and beside it the files that it copies"]


@dataclass(slots=True)
class Lock:
    """Lines of ``requirements.lock``. missing: distributions that no index and no address provides, and why."""

    lines: list[str] = field(default_factory=list)
    indexes: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    needs_git: bool = False

    @property
    def text(self) -> str:
        """The content of the file."""
        head = [
            "# Every distribution of the environment, as it was recorded: pip install --no-deps -r requirements.lock",
            *([f"# with {self.variable}"] if self.indexes else []),
        ]
        gone = [f"# not restored: {name} ({why})" for name, why in self.missing.items()]
        return "\n".join([*head, *self.lines, *gone]) + "\n"

    @property
    def variable(self) -> str:
        """The environment variable that tells pip where to find builds that PyPI does not have, as an assignment."""
        return f'PIP_EXTRA_INDEX_URL="{" ".join(self.indexes)}"'


def lock_of(distributions: Mapping[str, str]) -> Lock:
    """What pip installs for recorded ``distributions``: from an index, a commit or an address; the rest is listed.

    Credentials are removed from addresses; those of folders are not written at all.
    """
    lock = Lock()
    for name, recorded in sorted(distributions.items()):
        version, _, origin = str(recorded).partition(" @ ")
        if not (_NAME.fullmatch(name) and _VERSION.fullmatch(version)):
            lock.missing[_shown(name)] = f"{_shown(version)!r} and its name are not what packages have"
            continue
        if origin:
            _from_origin(lock, name, version, origin)
            continue
        found = _LABEL.fullmatch(version)
        if found is not None and name in _TORCH:
            index = f"https://download.pytorch.org/whl/{found['label']}"
            lock.indexes += [index] if index not in lock.indexes else []
            lock.lines.append(f"{name}=={version}")
        elif "+" in version:
            lock.lines.append(f"{name}=={version.partition('+')[0]}  # was {version}: no index holds that build")
        else:
            lock.lines.append(f"{name}=={version}")
    return lock


def _from_origin(lock: Lock, name: str, version: str, origin: str) -> None:
    address, _, _ = origin.partition(" (editable)")
    address, _, commit = masked(address).partition("#")
    parts = urlsplit(address)
    secret = f"{MASK}@" in address
    address = address.replace(f"{MASK}@", "")
    said = "  # its credentials were left out: it wants some" if secret else ""
    if parts.scheme in ("", "file"):
        how = "in place" if origin.endswith(" (editable)") else "from a folder"
        lock.missing[name] = f"{version} was installed {how}; of its code, what the notebook imports is in {ARCHIVE}"
    elif not (_REPOSITORY.fullmatch(address) and _COMMIT.fullmatch(commit) if commit else _ADDRESS.fullmatch(address)):
        lock.missing[name] = f"{version} came from {_shown(origin)!r}, which is not an address for pip"
    elif commit:
        lock.needs_git = True
        lock.lines.append(f"{name} @ git+{address.removeprefix('git+')}@{commit}{said}")
    else:
        lock.lines.append(f"{name} @ {address}{said}")


def write_container(store: Store, ref: str, target: Path) -> dict[str, Any]:
    """Write ``target``, a Containerfile, and beside it the files that it copies: lock, experiment, Workbench's sources.

    Its command trains the trial ``ref`` (of an experiment the best) again and compares. Raises NotFound if the
    snapshot is gone, BadInput if one of the files exists, Untrusted if the experiment came from elsewhere: building and
    running the container runs what its snapshot says.
    """
    reference = resolve(store.check(), ref)
    spec = store.read_spec(reference.experiment)
    check_trusted(store, spec.id)
    if spec.snapshot is None:
        raise NotFound(f"{reference.label} has no snapshot, so its environment is not known.")
    snapshot = read_snapshot(store, spec.snapshot)
    environment: Mapping[str, Any] = snapshot.get("environment") or {}
    recorded = dict(environment.get("distributions") or {})
    python = environment.get("python") or {}
    if not recorded or python.get("implementation") != "cpython":
        raise NotFound(f"the snapshot of {reference.label} records no environment of CPython to write a container for.")
    if not _PYTHON.fullmatch(given := str(python.get("version"))):
        raise BadInput(
            f"the snapshot of {reference.label} names Python {_shown(given)!r}, expected a version such as 3.12.1: no "
            "image can be named."
        )
    folder = target.absolute().parent
    taken = [name for name in (target.name, LOCK, ARCHIVE, SOURCES) if (folder / name).exists()]
    if taken:
        raise BadInput(f"{', '.join(taken)} in {folder} would be overwritten. Name another folder.")
    lock = lock_of(recorded)
    ours = "workbench" in lock.missing or "workbench" not in recorded
    if ours:
        lock.missing.pop("workbench", None)
    trial = "" if reference.trial is None else f"/{trial_label(reference.trial)}"
    with telling(target):
        folder.mkdir(parents=True, exist_ok=True)
        told = export(store, spec.id, folder / ARCHIVE, checkpoints=False)
        if ours:
            _copy_sources(folder / SOURCES)
        (folder / LOCK).write_text(lock.text)
        target.write_text(_text(spec, target.name, trial, snapshot, lock, ours))
    return {
        "file": str(target),
        "experiment": spec.id,
        "python": python["version"],
        "distributions": len(lock.lines),
        "not_restored": lock.missing,
        "bytes": told["bytes"],
    }


def _copy_sources(folder: Path) -> None:
    """Copy the imported Workbench itself, with its metadata."""
    shutil.copytree(interpreter.PACKAGE, folder / "workbench", ignore=shutil.ignore_patterns("__pycache__"))
    for entry in sys.path:
        for info in Path(entry or ".").glob("workbench-*.dist-info"):
            kept = ("METADATA", "entry_points.txt")  # other files contain its path on this machine
            for name in kept:
                if (info / name).is_file() and not (folder / info.name / name).exists():
                    (folder / info.name).mkdir(exist_ok=True)
                    shutil.copyfile(info / name, folder / info.name / name)


def _text(spec: Spec, name: str, trial: str, snapshot: Mapping[str, Json], lock: Lock, ours: bool) -> str:
    environment = snapshot["environment"]
    machine: Mapping[str, Any] = environment.get("machine") or {}
    platform = _PLATFORMS.get(str(machine.get("architecture")))
    cuda = ((environment.get("libraries") or {}).get("torch") or {}).get("cuda")
    tag = re.sub(r"[^a-z0-9]+", "-", spec.name.lower()).strip("-") + "-replay"
    version = environment["python"]["version"]
    data = (snapshot.get("data") or {}).get("files") or []
    lines = [
        f"# Trains {_shown(spec.label)}{trial or ' (its best trial)'} again, and says whether it comes out the same:",
        f"#     podman build -t {tag} -f {name} . && podman run --rm {tag}",
        *(f"# Not restored: {name}: {why}." for name, why in lock.missing.items()),
        *([f"# Its torch is for CUDA {_shown(str(cuda))}: where it trained on GPUs, give it such."] if cuda else []),
        *(["# It read these files: mount the same ones under the same paths (-v FILE:FILE:ro)."] if data else []),
        *(f"#     {one['path']} ({one['size']:,} bytes, digest {one['digest'][:16]})" for one in map(_of_file, data)),
        f"FROM {f'--platform={platform} ' if platform else ''}docker.io/library/python:{version}-slim",
    ]
    if lock.needs_git:
        lines += ["RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*"]
    lines += [
        f"COPY {LOCK} /replay/{LOCK}",
        f"RUN {f'{lock.variable} ' if lock.indexes else ''}pip install --no-cache-dir --no-deps -r /replay/{LOCK}",
    ]
    if ours:
        lines += [f"COPY {SOURCES} /replay/{SOURCES}", f"ENV PYTHONPATH=/replay/{SOURCES}"]
    command = f"python -m workbench import {ARCHIVE} --trust && exec python -m workbench replay {spec.id}{trial}"
    lines += [
        f"COPY {ARCHIVE} /replay/{ARCHIVE}",
        "WORKDIR /replay",
        "ENV WORKBENCH_HOME=/replay/store",
        "# --trust: building this runs the experiment's code.",
        f"CMD {json.dumps(['sh', '-c', command])}",
    ]
    return "\n".join(lines) + "\n"


def _of_file(entry: Mapping[str, Any]) -> dict[str, Any]:
    path, digest = _shown(masked(str(entry.get("path")))), _shown(str(entry.get("digest") or ""))
    return {"path": path, "size": int(entry.get("size") or 0), "digest": digest}


def _shown(text: str) -> str:
    """``text`` on one line, for a comment."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:400])

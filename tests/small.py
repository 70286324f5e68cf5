"""Small checkpoints as tests look at them: in the trial's one file."""

import contextlib
import zipfile
from pathlib import Path

from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.keeping.usage import trials_of
from workbench.store.layout import ExperimentPaths, TrialPaths


def damage(bundle: Path, member: str) -> None:
    """Change one byte of a member of the archive ``bundle``."""
    with zipfile.ZipFile(bundle) as archive:
        info = archive.getinfo(member)
    with open(bundle, "r+b") as file:
        file.seek(info.header_offset + 30 + len(member) + info.file_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 0xFF]))


def member(trial: TrialPaths, step: int, name: str) -> bytes:
    """The bytes of one file of a small checkpoint."""
    with zipfile.ZipFile(trial.bundle) as archive:
        return archive.read(f"step-{step:08d}/{name}")


def members(bundle: Path) -> list[str]:
    """What lies in the archive ``bundle``; nothing where there is none."""
    if not bundle.exists():
        return []
    with zipfile.ZipFile(bundle) as archive:
        return sorted(archive.namelist())


def held(paths: ExperimentPaths) -> dict[str, bytes]:
    """The files of all checkpoints at levels, wherever they lie, called as they are at a URL."""
    found = {}
    for number in trials_of(paths):
        for one in Checkpoints(paths.trial(number)).all():
            folder = f"{paths.trial(number).folder.name}/checkpoints/step-{one.step:08d}"
            for name in (*one.manifest.files, "manifest.json"):
                with contextlib.suppress(FileNotFoundError):  # others come and go
                    found[f"{folder}/{name}"] = (one.folder / name).read_bytes()
    return found


def lose(trial: TrialPaths) -> None:
    """Let the disk lose all checkpoints of a trial."""
    for place in (trial, trial.passing, trial.setup):
        Checkpoints(place).drop()

"""Where something is trained again: the environment as it is now, or one that is built from the recorded versions.

Law: differences from the record are listed before training; nothing is installed but what was recorded.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench import interpreter
from workbench.errors import BadOption, NotFound, VersionsDiffer
from workbench.records import Json, Spec, Training
from workbench.replay.variables import again
from workbench.snapshot.surroundings.environment import distributions, machine
from workbench.store import Store
from workbench.store.files.atomic import make_folder
from workbench.words import few

#: Seconds that an interpreter has to answer.
_LOOK_S = 30.0
_SAY = "import json, sys; print(json.dumps({'version': sys.version.split()[0], 'path': sys.path}))"
#: Packages that must be the same on every worker; recorded in a spec.
_COMPARED = ("torch", "numpy", "workbench")


@dataclass(frozen=True, slots=True)
class Place:
    """An environment to train in.

    training: for runners. environment: in the form of a snapshot. how: ``same``, ``rebuilt`` or ``other``. packages:
    differences of Python and its packages from the record, each in words; machine: those of the machine; variables:
    those of the variables.
    """

    training: Training
    environment: dict[str, Json]
    how: str
    packages: Mapping[str, str]
    machine: tuple[str, ...]
    variables: tuple[str, ...] = ()

    @property
    def differs(self) -> tuple[str, ...]:
        """All differences of packages and machine from the record, in words."""
        return (*self.packages.values(), *self.machine)

    @property
    def is_buildable(self) -> bool:
        """Whether building the recorded environment would restore anything: it never restores Workbench's version."""
        return bool(self.packages.keys() - {"workbench"})

    @property
    def words(self) -> str:
        """One line about it."""
        if self.how == "rebuilt":
            return "the recorded environment, rebuilt" + (f" except {self._listed}" if self.differs else "")
        return f"another environment: {self._listed}" if self.differs else "the recorded environment"

    @property
    def _listed(self) -> str:
        return ", ".join(few(self.differs, 4))


def place(
    store: Store,
    spec: Spec,
    snapshot: Mapping[str, Json],
    env: str = "same",
    around: Mapping[str, str] | None = os.environ,
) -> Place:
    """The place for training ``spec`` again, with the recorded variables and settings.

    env: ``same`` takes the recorded interpreter as it is now (or this one if it is gone), ``rebuild`` makes a virtual
    environment with the recorded versions, and any other value is the path of an interpreter or a virtual environment.
    around: as in :func:`workbench.replay.variables.again`. Raises BadOption, NotFound if the recorded versions are
    unavailable, VersionsDiffer if captured code cannot run.
    """
    if env == "rebuild":
        python = _rebuilt(store, snapshot)
        training, version = _of_interpreter(spec.training, python)
    elif env == "same":
        python = spec.training.python
        if os.access(python, os.X_OK):
            training, version = spec.training, _look(python)["version"]
        else:
            training, version = _of_interpreter(spec.training, sys.executable)
    else:
        training, version = _of_interpreter(spec.training, _interpreter(env))
    _check_python(store, spec, version)
    recorded: Mapping[str, Any] = snapshot.get("environment") or {}
    now = distributions(training.path)
    versions = {name: now[name].partition(" @ ")[0] for name in _COMPARED if name in now}
    if env == "rebuild" or training is not spec.training:
        versions["workbench"] = _version_in(training.python) or versions.get("workbench", "")
    training = dataclasses.replace(training, versions={"python": version, **versions})
    training, others = again(training, around)
    environment = {
        **recorded,
        "python": {**(recorded.get("python") or {}), "version": version, "executable": training.python},
        "machine": machine(),
        "distributions": now,
        "libraries": _libraries(recorded.get("libraries") or {}, now),
    }
    packages, hardware = _packages(recorded, environment), _hardware(recorded, environment)
    how = "rebuilt" if env == "rebuild" else "other" if packages or hardware else "same"
    return Place(training, environment, how, packages, hardware, tuple(others))


def _packages(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """The versions that differ, Python first and packages by name."""
    told = {}
    before, after = (part.get("python", {}).get("version") for part in (recorded, now))
    if before and before != after:
        told["python"] = f"python {before} → {after}"
    one, other = (part.get("distributions") or {} for part in (recorded, now))
    names = sorted({**one, **other}, key=lambda name: (name not in _COMPARED, name)) if one else []
    return told | {
        name: f"{name} {_bare(one.get(name))} → {_bare(other.get(name))}"
        for name in names
        if one.get(name) != other.get(name)
    }


def _hardware(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    one, other = (part.get("machine") or {} for part in (recorded, now))
    return tuple(
        f"{key} {one[key]} → {other.get(key)}"
        for key in ("architecture", "processor", "gpus")
        if one.get(key) and one[key] != other.get(key)
    )


def _bare(version: str | None) -> str:
    return "not there" if version is None else version.partition(" @ ")[0]


def _libraries(recorded: Mapping[str, Any], now: Mapping[str, str]) -> dict[str, Json]:
    """The recorded facts about builds, for libraries whose versions are still the same."""
    found: dict[str, Json] = {}
    for name, told in recorded.items():
        version = now.get(name, "").partition(" @ ")[0]
        same = str(told.get("version", "")).partition("+")[0] == version.partition("+")[0]
        found[name] = told if same else {"version": version}
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Interpreters


def _look(python: str) -> dict[str, Any]:
    """The version and search path of an interpreter. Raises BadOption if it does not answer."""
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(
            [python, "-c", _SAY], capture_output=True, text=True, timeout=_LOOK_S, env=surroundings, check=True, cwd="/"
        )
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise BadOption(
            f"{python} does not answer as a Python interpreter ({error}). Name another with --env."
        ) from None
    return found


def _interpreter(env: str) -> str:
    path = Path(env).expanduser()
    python = path / "bin" / "python" if path.is_dir() else path
    if not os.access(python, os.X_OK):
        raise BadOption(
            f"--env {env}: expected same, rebuild, or the path of a Python interpreter or a virtual environment; "
            f"{python} is none."
        )
    return os.path.abspath(python)


def _of_interpreter(training: Training, python: str) -> tuple[Training, str]:
    """``training`` with another interpreter and its search path; the user's own folders stay first."""
    found = _look(python)
    own = [entry for entry in training.path if not interpreter.is_installed(entry)]
    path = tuple(dict.fromkeys([*own, *(entry for entry in found["path"] if entry)]))
    return dataclasses.replace(training, python=python, path=path), found["version"]


def _version_in(python: str) -> str | None:
    """The interpreter's version of Workbench."""
    code = "from importlib.metadata import version; print(version('workbench'))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=_LOOK_S, check=False, cwd="/")
    return done.stdout.strip() or None


def _check_python(store: Store, spec: Spec, version: str) -> None:
    """Captured functions are compiled code: they only run in the Python version that compiled them."""
    if spec.program.capture is None:
        return
    written = str(json.loads(store.get_blob(spec.program.capture))["python"])
    if version.split(".")[:2] != written.split(".")[:2]:
        raise VersionsDiffer(
            f"{spec.label} was captured by Python {written}, and {version} would train it: compiled functions do not "
            f"go from one to the other. Name an interpreter of Python {written} with --env."
        )


# ---------------------------------------------------------------------------------------------------------------------
# Rebuilding the environment


def _rebuilt(store: Store, snapshot: Mapping[str, Json]) -> str:
    """The interpreter of a virtual environment with the recorded versions, created if it is missing."""
    recorded: Mapping[str, Any] = snapshot.get("environment") or {}
    wanted = {name: str(version) for name, version in (recorded.get("distributions") or {}).items()}
    if not wanted:
        raise NotFound("this snapshot records no distributions to build an environment from. Use --env same.")
    base = _base(recorded.get("python") or {})
    key = hashlib.sha256(json.dumps([sorted(wanted.items()), base]).encode()).hexdigest()[:16]
    folder = store.environments / key
    python, made = folder / "bin" / "python", folder / ".made"
    if not made.exists():
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder.parent)
        _run("make a virtual environment", base, "-m", "venv", "--without-pip", str(folder))
        packages = [_requirement(name, version) for name, version in wanted.items() if name != "workbench"]
        if packages:
            pip = (sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps")
            _run("install the recorded versions", *pip, "--disable-pip-version-check", *packages)
        _link_workbench(python, folder)
        made.touch()
    return str(python)


def _base(python: Mapping[str, Any]) -> str:
    """An interpreter of the recorded version: the recorded one, or this one."""
    wanted = str(python.get("version", ""))
    for candidate in (str(python.get("executable", "")), sys.executable):
        if os.access(candidate, os.X_OK) and _look(candidate)["version"].split(".")[:2] == wanted.split(".")[:2]:
            return candidate
    raise NotFound(
        f"no interpreter of Python {wanted} is installed here to build the environment with. Install it, or --env same."
    )


def _requirement(name: str, version: str) -> str:
    number, _, origin = version.partition(" @ ")
    if origin:
        return f"{name} @ {origin.removesuffix(' (editable)').replace('#', '@')}"
    # An index may list a build only under its public version: 2.13.0 also satisfies 2.13.0+cpu.
    return f"{name}=={number.partition('+')[0]}"


def _link_workbench(python: Path, folder: Path) -> None:
    """Link this Workbench, whatever version the record names: engine, worker and runner must have the same protocol."""
    ours = interpreter.PACKAGE
    room = folder / "workbench-link"
    room.mkdir()
    (room / "workbench").symlink_to(ours)
    for info in (*ours.parent.glob("workbench-*.dist-info"), *_infos()):
        if not (room / info.name).exists():
            (room / info.name).symlink_to(info)
    [site] = (python.parent.parent / "lib").glob("python3*/site-packages")
    (site / "workbench-link.pth").write_bytes(os.fsencode(room) + b"\n")


def _infos() -> list[Path]:
    """An editable installation's metadata is not next to its code."""
    return [info for entry in sys.path if entry for info in Path(entry).glob("workbench-*.dist-info")]


def _run(what: str, *words: str) -> None:
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
        cwd="/",
        env=interpreter.surroundings(os.environ),
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-600:]
        raise NotFound(f"the recorded environment cannot be built; it failed to {what}: {said}. Use --env same.")

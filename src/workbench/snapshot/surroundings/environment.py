"""The environment of the notebook: Python, packages, machine, threads. Law: it reads files and modules that are already
imported; it imports no large package, runs no program, and records no secret.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workbench.records import Json
from workbench.snapshot.imported import imported
from workbench.snapshot.secrets.masking import MASK, is_secret, masked

#: Environment variables that may change what training does. No others are read.
_VARIABLES = re.compile(
    r"PYTHON(HASHSEED|PATH|OPTIMIZE|UTF8|WARNINGS)|(OMP|MKL|OPENBLAS|BLIS|NUMEXPR|VECLIB|KMP|GOTO)_\w+"
    r"|(CUBLAS|CUDA|CUDNN|NCCL|NVIDIA|HIP|ROCR|HSA|XLA|JAX|TORCH|TORCHINDUCTOR|PYTORCH|ACCELERATE|HF|TRANSFORMERS)_\w+"
    r"|LANG|LC_\w+|TZ|VIRTUAL_ENV|CONDA_DEFAULT_ENV|WORKBENCH_\w+|MALLOC_\w+|LD_(PRELOAD|LIBRARY_PATH)"
    r"|TF_(CPP|CUDNN|DETERMINISTIC|ENABLE|FORCE|GPU|NUM|XLA)_\w+|SLURM_(JOB_ID|JOB_PARTITION)"
)
_DISTRIBUTION = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(?:-.*)?\.(?:dist|egg)-info")


def environment() -> dict[str, Json]:
    """The whole environment as plain data; :func:`take` writes it into ``environment.json``."""
    return {
        "python": python(),
        "machine": machine(),
        "threads": threads(),
        "libraries": libraries(),
        "variables": variables(),
        "distributions": distributions(),
    }


def distributions(path: Iterable[str] | None = None) -> dict[str, str]:
    """Every installed distribution with its version, and its origin if it was installed from a folder or an address.

    path: the folders to search; None for this interpreter's search path. Name and version come from the names of
    metadata folders: reading the metadata of 200 distributions takes a fifth of a second.
    """
    found: dict[str, str] = {}
    searched = sys.path if path is None else path
    for entry in reversed([*dict.fromkeys(os.path.abspath(entry or os.getcwd()) for entry in searched)]):
        with contextlib.suppress(OSError):
            found |= _distributions_in(entry, os.stat(entry).st_mtime_ns)
    return dict(sorted(found.items()))


@functools.lru_cache(maxsize=64)
def _distributions_in(folder: str, _changed: int) -> dict[str, str]:
    found = {}
    for entry in os.scandir(folder):
        match = _DISTRIBUTION.fullmatch(entry.name)
        if match is not None and not entry.name.startswith("~"):  # being removed by pip
            name = re.sub(r"[-_.]+", "-", match["name"]).lower()
            found[name] = match["version"] + _origin(f"{entry.path}/direct_url.json")
    return found


def forget_distributions() -> None:
    """Read all of them again next time: a folder's modification time does not show changes deeper inside."""
    _distributions_in.cache_clear()


def _origin(path: str) -> str:
    """`` @ <where from>`` for a distribution that was not installed from an index (PEP 610)."""
    try:
        with open(path, "rb") as file:  # almost none is there: making a path of each took longer than looking for it
            data = json.load(file)
    except (OSError, ValueError):
        return ""
    commit = data.get("vcs_info", {}).get("commit_id", "")
    editable = " (editable)" if data.get("dir_info", {}).get("editable") else ""
    return f" @ {masked(str(data.get('url', '')))}{'#' + commit if commit else ''}{editable}"


def version_of_distribution(name: str) -> str:
    """The version of one distribution, or an empty string."""
    return distributions().get(re.sub(r"[-_.]+", "-", name).lower(), "").partition(" @ ")[0]


def python() -> dict[str, Json]:
    """Which Python."""
    return {
        "version": sys.version.split()[0],
        "build": sys.version,
        "implementation": sys.implementation.name,
        "executable": sys.executable,
        "prefix": sys.prefix,
        "flags": {name: getattr(sys.flags, name) for name in ("optimize", "hash_randomization", "utf8_mode")},
    }


@functools.cache
def machine() -> dict[str, Json]:
    """Which machine: system, processor, cores, memory in bytes."""
    uname = os.uname()
    return {
        "system": uname.sysname,
        "release": uname.release,
        "architecture": uname.machine,
        "host": uname.nodename,
        "libc": _libc(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "gpus": _gpus(),
    }


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):  # another C library
        return ""


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            text = file.read(4096)
    except OSError:
        return ""
    match = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else ""


def _gpus() -> list[str]:
    """The NVIDIA devices that the driver lists, without its library: using that is slow and initialises the devices."""
    found = []
    with contextlib.suppress(OSError):
        for entry in sorted(os.scandir("/proc/driver/nvidia/gpus"), key=lambda entry: entry.name):
            text = Path(entry.path, "information").read_text()
            match = re.search(r"^Model:\s*(.+)$", text, re.MULTILINE)
            found.append(match[1].strip() if match else "unknown")
    return found


def threads() -> dict[str, Json]:
    """How many threads the loaded libraries use."""
    found: dict[str, Json] = {}
    torch = imported("torch")
    if torch is not None and hasattr(torch, "get_num_threads"):
        found["torch"] = torch.get_num_threads()
        found["torch_interop"] = torch.get_num_interop_threads()
    return found


def libraries() -> dict[str, Json]:
    """Versions and builds of the computing libraries that the notebook has imported."""
    found: dict[str, Json] = {}
    torch = imported("torch")
    if torch is not None and hasattr(torch, "__version__"):
        backends: Any = getattr(torch, "backends", None)
        found["torch"] = {
            "version": str(torch.__version__),
            "cuda": torch.version.cuda,
            "hip": getattr(torch.version, "hip", None),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "cudnn_benchmark": backends.cudnn.benchmark if backends is not None else None,
            "matmul_precision": torch.get_float32_matmul_precision(),
            "default_dtype": str(torch.get_default_dtype()),
        }
    numpy = imported("numpy")
    if numpy is not None and hasattr(numpy, "__version__"):
        found["numpy"] = {"version": str(numpy.__version__), **_blas(numpy)}
    return found


def _blas(numpy: Any) -> dict[str, Json]:
    config = getattr(getattr(numpy, "__config__", None), "CONFIG", {})
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return {"blas": blas.get("name"), "blas_version": blas.get("version")} if blas else {}


def variables() -> dict[str, str]:
    """The environment variables that may change what training does, with secrets masked."""
    return {
        name: MASK if is_secret(name) and not name.startswith("PYTHON") else masked(value)
        for name, value in sorted(variables_that_matter(os.environ).items())
    }


def variables_that_matter(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of ``environ`` that are known to change what training does."""
    return {name: value for name, value in environ.items() if _VARIABLES.fullmatch(name)}

"""The variables of a training process. Law: the notebook's at launch, those that a runner sets, and those that only its
machine knows; none of the shell in which an engine or a worker was started.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Literal

from workbench.records import Training
from workbench.trial.process.forkserver import environment

#: What only the worker knows: its machine's name, and the devices of its slot.
_MACHINE = re.compile(r"HOSTNAME|HOST")
_DEVICES = re.compile(
    r"(CUDA|HIP|ROCR|NVIDIA|ASCEND_RT|HABANA|TPU)_VISIBLE_(DEVICES|CHIPS|MODULES)|GPU_DEVICE_ORDINAL|ZE_AFFINITY_MASK"
    r"|CUDA_MPS_\w+"
)
#: The NVIDIA GPUs that a process sees.
VISIBLE = "CUDA_VISIBLE_DEVICES"
#: Which of them are hidden from training.
Hides = Literal["none", "unnamed", "all"]
#: With one of these values a notebook says that it uses no GPU at all.
_NO_DEVICE = ("", "-1")
#: Variables that libraries or Python itself read when they are loaded: processes have them from the start. All others
#: can be set in a process that has already imported everything.
_AT_LOAD = re.compile(
    r"PYTHON\w*|LANG|LANGUAGE|LC_\w+|TZ|TZDIR|HOME|TMPDIR|TEMP|TMP|XDG_CACHE_HOME|LD_\w+|MALLOC_\w+|GLIBC_\w+"
    r"|(OMP|GOMP|LIBOMP|MKL|KMP|OPENBLAS|NVPL|GOTO|BLIS|NUMEXPR|VECLIB|DNNL|ONEDNN|ATEN|ACCELERATE)_\w+"
    r"|(CUDA|CUDNN|CUBLAS|CUBLASLT|NVIDIA|NCCL|HIP|ROCR|ROCM|HSA|MIOPEN|GPU|ZE|XLA|JAX|TF|TPU|KINETO|TRITON)_\w+"
    r"|(TORCH|PYTORCH|AOT|INDUCTOR)\w*|(NPY|NUMPY|SCIPY|SKLEARN|PANDAS|JOBLIB|LOKY|SYMPY|MPMATH|TQDM|PL|LIGHTNING)_\w+"
    r"|(HF|HUGGINGFACE|TRANSFORMERS|TOKENIZERS|DIFFUSERS|DATASETS)_\w+"
)
#: A program can be started with strings of at most 128 KiB, about 2 MB in all. The rest is sent by message.
_LONGEST, _MOST = 100_000, 1_000_000


def is_of_slot(name: str) -> bool:
    """Whether a variable tells a process which machine, or which of its devices, it has."""
    return bool(_MACHINE.fullmatch(name) or _DEVICES.fullmatch(name))


def arranged(
    training: Training, around: Mapping[str, str], *, has_devices: bool = True, hides: Hides = "none"
) -> dict[str, str]:
    """The whole environment of a process of ``training``, without its secrets, started from the variables ``around``.

    has_devices: the variables there that name GPUs are those of the worker's slot, not those of a user's shell.
    hides: NVIDIA's GPUs that a CPU core's slot does not see: all, or all if the notebook names none itself.
    """
    fixed = environment(training.threads, training.hash_seed)
    if hides == "all" or (hides == "unnamed" and VISIBLE not in training.env):
        fixed[VISIBLE] = ""
    if not training.is_whole:
        return {**around, **fixed, **training.env, **{name: fixed[name] for name in (VISIBLE,) if name in fixed}}
    own = {
        name: value
        for name, value in around.items()
        if _MACHINE.fullmatch(name)
        or (has_devices and _DEVICES.fullmatch(name) and training.env.get(name) not in _NO_DEVICE)
    }
    return {**training.env, **own, **fixed}


def at_load(variables: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The variables that require separate processes if they differ: they are read when libraries are loaded."""
    return tuple(sorted(item for item in variables.items() if is_at_load(item[0])))


def is_at_load(name: str) -> bool:
    """Whether the variable ``name`` is read when libraries are loaded."""
    return _AT_LOAD.fullmatch(name) is not None


def divided(variables: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The variables with which a program can be started, and those that must be sent afterwards."""
    sizes = {name: len(os.fsencode(name)) + len(os.fsencode(value)) for name, value in variables.items()}
    fitting = {name for name, size in sizes.items() if size <= _LONGEST}
    if sum(sizes[name] for name in fitting) > _MOST:
        fitting = {name for name in fitting if _AT_LOAD.fullmatch(name) or name == "PATH"}
    return (
        {name: value for name, value in variables.items() if name in fitting},
        {name: value for name, value in variables.items() if name not in fitting},
    )


def put(wanted: Mapping[bytes, bytes]) -> None:
    """Give this process exactly the variables ``wanted``: most are the same as for the leg before.

    As bytes: each look at a text in ``os.environ`` is observed, to learn which variables training uses.
    """
    now = dict(os.environb)
    for name in now.keys() - wanted.keys():
        del os.environb[name]
    for name, value in wanted.items():
        if now.get(name) != value:
            os.environb[name] = value

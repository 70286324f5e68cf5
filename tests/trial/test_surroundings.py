"""The variables of a process that trains: the notebook's, what a runner fixes, and what only its machine knows."""

import dataclasses

import pytest

from workbench.records import Training
from workbench.trial.process.forkserver import environment
from workbench.trial.process.surroundings import arranged, at_load, divided

TRAINING = Training("python", "/", env={"MINE": "1", "PATH": "/mine"}, is_whole=True, threads=3, hash_seed=7)
GPU = {"CUDA_VISIBLE_DEVICES": "3"}
SHELL = {"SHELLS": "1", "PATH": "/shell", "LANG": "C", "OMP_NUM_THREADS": "9"}
FIXED = environment(3, 7)


def with_env(**env: str) -> Training:
    return dataclasses.replace(TRAINING, env=env)


@pytest.mark.parametrize(
    ("training", "around", "has_devices", "wanted"),
    [
        # Nothing of the shell in which an engine or a worker was started.
        (TRAINING, SHELL, True, {"MINE": "1", "PATH": "/mine", **FIXED}),
        # What a runner fixes wins.
        (with_env(OMP_NUM_THREADS="8", MPLBACKEND="inline"), SHELL, True, FIXED),
        # A machine's name is the worker's.
        (TRAINING, {**SHELL, "HOSTNAME": "node7"}, True, {**TRAINING.env, "HOSTNAME": "node7", **FIXED}),
        # The GPU of a slot is the worker's, unless its variables are those of the engine's shell.
        (with_env(), GPU, True, {**GPU, **FIXED}),
        (with_env(), GPU, False, FIXED),
        (with_env(CUDA_VISIBLE_DEVICES="1"), GPU, True, {**GPU, **FIXED}),
        (with_env(CUDA_VISIBLE_DEVICES="1"), GPU, False, {"CUDA_VISIBLE_DEVICES": "1", **FIXED}),
        (with_env(CUDA_VISIBLE_DEVICES="1"), {}, True, {"CUDA_VISIBLE_DEVICES": "1", **FIXED}),
        # A notebook that uses no GPU gets none.
        (with_env(CUDA_VISIBLE_DEVICES=""), GPU, True, {"CUDA_VISIBLE_DEVICES": "", **FIXED}),
        (with_env(CUDA_VISIBLE_DEVICES="-1"), GPU, True, {"CUDA_VISIBLE_DEVICES": "-1", **FIXED}),
        # An earlier version's spec names a few variables; the others are the worker's, as they were then.
        (dataclasses.replace(TRAINING, is_whole=False), SHELL, True, {**SHELL, **FIXED, "MINE": "1", "PATH": "/mine"}),
    ],
)  # fmt: skip
def test_the_variables_of_a_process_that_trains(training, around, has_devices, wanted):
    assert arranged(training, around, has_devices=has_devices) == wanted


@pytest.mark.parametrize(
    ("name", "apart"),
    [
        ("OMP_DYNAMIC", True),
        ("MKL_CBWR", True),
        ("KMP_AFFINITY", True),
        ("LD_LIBRARY_PATH", True),
        ("CUDA_LAUNCH_BLOCKING", True),
        ("MALLOC_ARENA_MAX", True),
        ("PYTHONPATH", True),
        ("TORCHINDUCTOR_CACHE_DIR", True),
        ("HF_HOME", True),
        ("LC_ALL", True),
        ("MINE", False),
        ("PATH", False),
        ("DATA_DIR", False),
        ("AWS_PROFILE", False),
    ],
)
def test_processes_are_started_apart_for_what_is_read_when_libraries_are_loaded(name, apart):
    assert at_load({name: "1"}) == (((name, "1"),) if apart else ())


def test_what_is_too_long_to_start_a_program_with_is_told_afterwards():
    assert divided({"A": "1", "LONG": "x" * 200_000}) == ({"A": "1"}, {"LONG": "x" * 200_000})
    many = {f"N{n}": "x" * 90_000 for n in range(20)}
    first, rest = divided({**many, "LD_PRELOAD": "/lib", "PATH": "/bin"})
    assert first == {"LD_PRELOAD": "/lib", "PATH": "/bin"}
    assert rest == many

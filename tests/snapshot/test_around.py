"""What training gets of the process that launches it: how many threads, and which seed of hashes."""

import os
import types

import pytest

from workbench.errors import BadOption
from workbench.experiment.grammar import parse
from workbench.snapshot.surroundings import around
from workbench.snapshot.surroundings.around import Around, checked_threads, threads_of

CALLED = "import torch\ntorch.set_num_threads(4)"


def torch_with(threads):
    return types.SimpleNamespace(get_num_threads=lambda: threads)


@pytest.mark.parametrize(
    ("wanted", "now", "texts", "env", "threads", "said"),
    [
        (None, None, (), {}, 1, None),
        (None, 4, (), {}, 1, None),  # as torch begins here: no one has said so
        (None, 8, (), {}, 1, None),
        (None, 3, (), {}, 3, None),  # a cell has called torch.set_num_threads(3)
        (None, 1, (), {}, 1, None),
        (None, 4, (CALLED,), {}, 4, None),  # and so it has here
        (None, 4, ("# get_num_threads()",), {}, 1, None),
        (2, 3, (CALLED,), {}, 2, None),  # what is written wins
        (2, None, (), {"OMP_NUM_THREADS": "6"}, 2, None),
        (None, 6, (), {"OMP_NUM_THREADS": "6"}, 1, "OMP_NUM_THREADS=6 is not passed on"),
        (None, None, (), {"MKL_NUM_THREADS": "6"}, 1, "MKL_NUM_THREADS=6 is not passed on"),
        (None, 1, (), {"OMP_NUM_THREADS": "1"}, 1, None),
        (None, 5, (), {"OMP_NUM_THREADS": "6"}, 5, None),
    ],
)
def test_how_many_threads_a_trial_uses(monkeypatch, wanted, now, texts, env, threads, said):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(around, "_physical_cores", lambda: 4)
    found, notes = threads_of(None if now is None else torch_with(now), wanted, texts)
    assert found == threads
    assert [said] == [note[: len(said)] for note in notes] if said else notes == ()


@pytest.mark.parametrize("given", [0, -1, 10_000, 1.5, True, "two", None])
def test_threads_that_cannot_be_used_are_refused(given):
    with pytest.raises(BadOption, match=r"^threads=.*: expected a whole number from 1 to \d+, the cores"):
        checked_threads(given, "threads=")


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "two", "99999"])
def test_they_are_refused_in_the_line_too(text):
    with pytest.raises(BadOption, match=rf"^--threads {text}: expected a whole number from 1 to"):
        parse(f"--threads {text}")
    assert parse("--threads 1").threads == 1
    assert parse("").threads is None


@pytest.mark.parametrize(("value", "seed"), [("0", 0), ("5", 5), ("random", 0), ("", 0), (str(2**40), 0), (None, 0)])
def test_hashes_have_the_seed_of_the_launch_and_are_never_random(monkeypatch, value, seed):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    if value is not None:
        monkeypatch.setenv("PYTHONHASHSEED", value)
    assert Around.here().hash_seed == seed

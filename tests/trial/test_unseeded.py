"""Generators that are made without a seed follow the trial's, whatever was made before and in which process."""

import multiprocessing
import random
import subprocess
import sys
import tempfile

import numpy as np
import pytest
import torch

from workbench.trial.generators import seeds


@pytest.fixture(autouse=True)
def put_back():
    before = seeds.state()
    yield
    seeds.forget()
    seeds.put(before)


def of_numpy():
    return np.random.default_rng().integers(1 << 40)


def of_numpy_old():
    return np.random.RandomState().randint(1 << 30)


def of_python():
    return random.Random().getrandbits(40)


def of_torch():
    return int(torch.randint(1 << 40, (), generator=torch.Generator()))


def of_seed_sequences():
    return np.random.SeedSequence().entropy


def of_random_seed():
    random.seed()
    np.random.seed()  # noqa: NPY002 - people write it
    return random.getrandbits(40), np.random.randint(1 << 30)  # noqa: NPY002


def of_torch_seed():
    return torch.seed(), int(torch.randint(1 << 40, ()))


def drawn_apart(number):
    return number, np.random.default_rng().integers(1 << 40), random.Random().random()


MAKERS = [of_numpy, of_numpy_old, of_python, of_torch, of_seed_sequences, of_random_seed, of_torch_seed]


@pytest.mark.parametrize("make", MAKERS)
def test_the_same_trial_gets_the_same_numbers_and_another_trial_others(make):
    seeds.set_all(1, 2)
    first, second = make(), make()
    seeds.set_all(1, 2)
    assert (make(), make()) == (first, second)
    assert first != second
    seeds.set_all(1, 3)
    assert make() not in (first, second)


@pytest.mark.parametrize("make", [of_numpy, of_python, of_torch])
def test_what_another_function_makes_before_changes_nothing(make):
    seeds.set_all(1, 2)
    first = make()
    seeds.set_all(1, 2)
    np.random.default_rng()
    random.Random()
    torch.Generator()
    assert make() == first


def test_a_resumed_loop_makes_the_next_generator_and_not_the_first_again():
    seeds.set_all(1, 2)
    of_numpy()
    saved = seeds.state()
    second = of_numpy()
    seeds.set_all(1, 2)
    seeds.put(saved)
    assert of_numpy() == second


def test_what_has_a_seed_keeps_it():
    seeds.set_all(1, 2)
    ours = np.random.default_rng(5).random(), random.Random(5).random(), torch.Generator().manual_seed(5).initial_seed()
    seeds.forget()
    assert ours == (np.random.default_rng(5).random(), random.Random(5).random(), 5)


def test_names_of_temporary_files_are_no_ones_seed():
    seeds.set_all(1, 2)
    first = next(tempfile._RandomNameSequence())
    assert seeds.state()["unseeded"] == {}
    seeds.set_all(1, 2)
    assert next(tempfile._RandomNameSequence()) != first


def test_generators_of_torchs_own_samplers_do_not_count():
    seeds.set_all(1, 2)
    list(torch.utils.data.DataLoader(range(4), shuffle=True))
    assert seeds.state()["unseeded"] == {}


def test_torch_sees_its_own_class():
    seeds.set_all(1, 2)
    made = torch.Generator()
    assert isinstance(made, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    assert not isinstance(3, torch.Generator)
    assert len(torch.utils.data.random_split(range(10), [5, 5], generator=made)[0]) == 5


def test_afterwards_the_libraries_are_as_they_were():
    before = torch.Generator, random.Random.seed, np.random.bit_generator.randbits, torch.seed
    seeds.set_all(1, 2)
    assert torch.Generator is not before[0]
    seeds.forget()
    assert (torch.Generator, random.Random.seed, np.random.bit_generator.randbits, torch.seed) == before
    assert of_numpy() != of_numpy()


def test_a_library_that_is_imported_later_follows_too():
    source = """
import sys
from workbench.trial.generators import seeds
assert "numpy" not in sys.modules and "torch" not in sys.modules
seeds.set_all(1, 2)
import numpy, torch
print(numpy.random.default_rng().integers(1 << 40), torch.Generator().initial_seed())
"""
    said = {subprocess.run([sys.executable, "-c", source], capture_output=True, check=True).stdout for _ in range(2)}
    assert len(said) == 1


def test_workers_of_a_loader_draw_other_numbers_each():
    seeds.set_all(1, 2)

    class Drawing(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, number):
            return np.random.default_rng().random()

    first = [float(x) for x in torch.utils.data.DataLoader(Drawing(), num_workers=2)]
    seeds.set_all(1, 2)
    assert [float(x) for x in torch.utils.data.DataLoader(Drawing(), num_workers=2)] == first
    assert len(set(first)) == 4


def test_processes_of_their_own_draw_other_numbers_each():
    seeds.set_all(1, 2)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        drawn = pool.map(drawn_apart, range(4), chunksize=1)
    assert len({numpy for _, numpy, _ in drawn}) == len({python for _, _, python in drawn}) == 4

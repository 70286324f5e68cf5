"""Arrays mapped from files: a resumed trial writes into the same file, which ends as that of an undisturbed one."""

import pytest
from trial.world import points

from workbench.trial.export.loading import load

#: What makes the map: before the loop, or in its first turn; and what each turn does.
MAPS = {
    "of the set-up": ("a = np.memmap(FILE, 'f4', 'w+', shape=(4, 3))", "", "a[epoch] = np.random.rand(3)"),
    "of the set-up, as NumPy's own file": (
        "a = np.lib.format.open_memmap(FILE, 'w+', 'f4', shape=(4, 3))",
        "",
        "a[epoch] = np.random.rand(3)",
    ),
    "of a file that is there": (
        "os.path.exists(FILE) or np.zeros(12, 'f4').tofile(FILE); a = np.memmap(FILE, 'f4', 'r+', shape=(4, 3))",
        "",
        "a[epoch:] += np.random.rand(3)",
    ),
    "of the loop": ("a = None", "a = np.memmap(FILE, 'f4', 'w+', shape=(4, 3))", "a[epoch] = np.random.rand(3)"),
    "of the loop, with views and a tensor": (
        "import torch; a = None",
        "a = np.memmap(FILE, 'f4', 'w+', shape=(4, 3), order='F'); part = a[2:, 1]; tensor = torch.from_numpy(a)",
        "a[epoch] = np.random.rand(3); part += 1; tensor *= 2",
    ),
}


def source_of(name):
    set_up, first, turn = MAPS[name]
    return f"""
import os
import numpy as np
FILE = "map.dat"
{set_up}
for epoch in trial.steps():
    if epoch == 0:
        {first or "pass"}
    {turn}
    trial.report(score=float(a.sum()))
"""


def trained(server, cell, starts):
    told = []
    for start, end in zip(starts, (*starts[1:], 4), strict=True):
        runner = server.runner()
        told += runner.leg(cell.order(end, start=start))
        runner.kill()
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
    return points(told)


@pytest.mark.parametrize("name", MAPS)
def test_the_file_and_the_values_are_those_of_an_undisturbed_trial(server, experiment, tmp_path, name):
    file = tmp_path / "map.dat"
    calm = trained(server, experiment(source_of(name)), [0])
    expected = file.read_bytes()
    file.unlink()
    assert trained(server, experiment(source_of(name)), [0, 1, 2, 3]) == calm
    assert file.read_bytes() == expected


@pytest.mark.parametrize("name", MAPS)
def test_a_trial_that_is_only_loaded_leaves_the_file_as_it_is(server, experiment, tmp_path, monkeypatch, name):
    cell = experiment(source_of(name))
    trained(server, cell, [0, 1, 2])
    monkeypatch.chdir(tmp_path)  # loading runs the set-up in this process
    file = tmp_path / "map.dat"
    before = file.read_bytes()
    loaded = load(cell.store, cell.spec, 0, {}, 2)
    assert file.read_bytes() == before
    assert loaded.a.shape == (4, 3)


def test_a_fork_leaves_its_parents_file_as_it_is(server, experiment, tmp_path):
    source = source_of("of the loop").replace('"map.dat"', 'str(trial.folder / "map.dat")')
    parent = experiment(source)
    calm = trained(server, parent, [0, 2])
    (file,) = tmp_path.rglob("map.dat")
    before = file.read_bytes()
    child = experiment(source, parent={"experiment": parent.spec.id, "trial": 0, "step": 2, "configuration": {}})
    runner = server.runner()
    told = runner.leg(child.order(3, start=2, resume=False))
    runner.kill()
    assert told[-1]["error"] is None
    assert points(told).items() <= calm.items()
    assert file.read_bytes() == before

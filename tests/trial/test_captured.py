"""Names from the notebook in a runner: they see this trial's values, change, and are resumed like the cell's own."""

import sys

import numpy as np
import pytest
from trial.world import points, said

from workbench.records import Program, Training
from workbench.snapshot.capture import capture
from workbench.snapshot.reading.cell import read_cell
from workbench.trial.export.loading import load, plain_state

NOTEBOOK = """
import numpy as np
import torch
from torch import nn
big = np.arange(300_000, dtype=np.float64)
table = np.zeros(40_000)
notes = []
class Data(torch.utils.data.Dataset):
    seen = 0
    def __len__(self): return 12
    def __getitem__(self, at):
        Data.seen += 1
        return torch.full((4,), float(at) * hidden)
def scaled(x):
    return x * hidden + len(notes)
"""

CELL = """
hidden = choice(2, 3)
model = nn.Linear(4, hidden)
opt = torch.optim.Adam(model.parameters())
loader = trial.loader(Data(), batch_size=4, shuffle=True)
for epoch in trial.steps():
    for x in loader:
        loss = model(x).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
    notes.append(epoch)
    table[epoch] = loss.item()
    trial.report(score=loss, scaled=scaled(1), seen=Data.seen, big=big.sum(), table=table.sum())
"""


@pytest.fixture
def cell(experiment, tmp_path):
    def make(steps=4, notebook=NOTEBOOK, source=CELL):
        namespace = {"__name__": "__main__"}
        before = sys.modules["__main__"]
        try:
            exec(compile(notebook, "<notebook>", "exec"), namespace)
        finally:
            sys.modules["__main__"] = before
        found = read_cell(source, namespace)
        made = experiment("", steps=steps)
        captured = capture(found.needs, namespace, made.store, assigned=found.assigned)
        return experiment(
            source,
            steps=steps,
            program=Program("cell", source, "<cell test>", captured.digest),
            training=Training(sys.executable, str(tmp_path)),
        )

    return make


def test_captured_names_see_the_trials_values_and_resume(server, cell):
    experiment = cell()
    configuration = {"hidden": 3}
    calm = server.runner().leg(experiment.order(configuration=configuration))
    assert calm[-1]["error"] is None, calm[-1]["error"]["traceback"]
    assert calm[-1]["metrics"]["scaled"] == 3 + 4
    assert calm[-1]["metrics"]["seen"] == 48
    experiment, resumed = cell(), {}
    for step in range(4):
        told = server.runner().leg(experiment.order(step + 1, start=step, configuration=configuration))
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
        resumed |= points(told)
    assert resumed == points(calm)


def test_what_did_not_change_is_not_in_the_checkpoints(server, cell):
    told = server.runner().leg(cell().order(2, configuration={"hidden": 2}))
    (saved,) = (message for message in said(told, "saved") if not message["passing"])
    assert set(saved["found"]["names"]) == {"epoch", "x", "loss", "table", "notes", "loader", "Data"}
    # The table has changed (320 kB), the large array (2.4 MB) has not.
    assert 320_000 < saved["bytes"] < 400_000


def test_a_large_name_that_only_captured_functions_read_is_saved(server, cell):
    notebook = """
import functools
import torch
def score(): return float(big.sum())
class Meter:
    def read(self): return float(other.sum())
meter = Meter()
net = torch.nn.Identity()
net.register_forward_hook(lambda module, given, out: out + hooked.sum())
"""
    source = """
big = other = hooked = own = torch.zeros(400_000)
for epoch in trial.steps():
    before = score() + meter.read() + net(torch.zeros(2)).sum().item()
    big = torch.ones(400_000) * (epoch + 1)
    other, hooked, own = big * 2, big * 3, big * 4
    trial.report(score=before)
"""
    calm = server.runner().leg(cell(3, notebook, source).order())
    assert calm[-1]["error"] is None, calm[-1]["error"]["traceback"]
    experiment, resumed = cell(3, notebook, source), {}
    for step in range(3):
        told = server.runner().leg(experiment.order(step + 1, start=step))
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
        resumed |= points(told)
        left = [one["name"] for saved in said(told, "saved") for one in saved["found"]["left_out"]]
        assert left == ([] if step == 2 else ["own"])
    assert resumed == points(calm)


def test_a_trained_trial_comes_home(server, cell):
    import torch

    experiment = cell()
    told = server.runner().leg(experiment.order(3, configuration={"hidden": 2}))
    assert told[-1]["error"] is None
    state = torch.get_rng_state()
    home = load(experiment.store, experiment.spec, 0, {"hidden": 2})
    assert torch.equal(torch.get_rng_state(), state)
    assert home.hidden == 2
    assert home.notes == [0, 1, 2]
    assert home.table.sum() == pytest.approx(told[-1]["metrics"]["table"])
    assert home.model(torch.ones(1, 4)).shape == (1, 2)
    assert "model" not in sys.modules["__main__"].__dict__
    plain = plain_state(experiment.store, experiment.spec, 0)
    assert torch.equal(plain["model"]["weight"], home.model.weight)
    assert plain["opt"]["state"][0]["step"] == 9
    assert np.array_equal(home.big, np.arange(300_000))


def test_a_trial_without_a_checkpoint_cannot_come_home(cell):
    from workbench.errors import NotFound

    experiment = cell()
    with pytest.raises(NotFound, match="no checkpoint yet"):
        load(experiment.store, experiment.spec, 0, {"hidden": 2})

"""What training code may call, outside of Workbench too."""

import sys

import numpy as np
import pytest

from workbench.errors import BadInput, BadMetric
from workbench.trial.api import metrics
from workbench.trial.api.local import local_trial
from workbench.trial.loaders import Order


@pytest.mark.parametrize(
    ("given", "number"),
    [(1, 1.0), (0.5, 0.5), (True, 1.0), (np.float32(0.5), 0.5), (np.array(2), 2.0), (np.array([[3.0]]), 3.0)],
)
def test_numbers_of_all_sorts_are_metrics(given, number):
    assert metrics.number(given, "loss", 0, 1) == number


def test_tensors_of_one_element_are_metrics():
    torch = pytest.importorskip("torch")
    assert metrics.number(torch.tensor([2.5], requires_grad=True), "loss", 0, 1) == 2.5
    assert metrics.number(torch.tensor(7), "loss", 0, 1) == 7.0


@pytest.mark.parametrize("given", ["1.0", None, 1j, [1], np.zeros(2), object()])
def test_what_is_no_number_is_refused_with_what_to_write(given):
    with pytest.raises(BadMetric, match=r"trial t0003 reported loss=.* at step 2.*(Report|For example)"):
        metrics.number(given, "loss", 3, 2)


def test_an_integer_beyond_all_floats_is_refused_by_name():
    with pytest.raises(BadMetric, match=r"reported loss=an integer beyond all .* Report its logarithm"):
        metrics.number(10**400, "loss", 3, 2)


def test_a_trial_outside_of_workbench_takes_all_steps_and_prints(capsys, tmp_path):
    trial = local_trial({"lr": 0.1}, max_steps=3, folder=tmp_path)
    steps = trial.steps()
    assert len(steps) == 3
    for epoch in steps:
        assert trial.report(loss=1 / (epoch + 1)) is (epoch < 2)
        trial.log(batch=1.0, note="well")
    assert capsys.readouterr().out.splitlines() == ["step 1: loss 1", "step 2: loss 0.5", "step 3: loss 0.333333"]
    assert trial.configuration == {"lr": 0.1}
    assert len(list(tmp_path.iterdir())) == 3
    with pytest.raises(BadInput, match="second time"):
        trial.steps()


def test_its_folder_is_made_when_it_is_asked_for(tmp_path):
    trial = local_trial(folder=tmp_path / "files")
    assert not (tmp_path / "files").exists()
    (trial.folder / "best.pt").write_text("weights")
    (tmp_path / "file").touch()
    assert local_trial(folder=tmp_path / "file" / "no folder").folder == tmp_path / "file" / "no folder"


def test_the_module_is_the_trial(monkeypatch, capsys):
    from workbench import trial

    monkeypatch.setenv("WORKBENCH_STEPS", "2")
    trial.make_current(None)
    try:
        assert list(trial.steps()) == [0, 1]
        assert trial.max_steps == 2
        assert trial.label == "t0000"
        with pytest.raises(AttributeError):
            trial.nothing
    finally:
        trial.make_current(None)


def test_the_order_of_a_loader_is_a_function_of_seed_and_epoch():
    pytest.importorskip("torch")
    one, other = Order(10, 5, True), Order(10, 5, True)
    epochs = [list(one) for _ in range(3)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    other.epoch = 2
    assert list(other) == epochs[2]
    assert list(Order(10, 6, True)) != epochs[0]
    assert list(Order(4, 5, False)) == [0, 1, 2, 3]


def test_training_code_needs_no_torch():
    import subprocess

    code = "import sys, workbench.trial.process.leg; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)

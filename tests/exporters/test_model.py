"""A trained model for other programs: what is written gives the model's own output, or is not kept."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from running import ended, engine, spec_of, start

import workbench as wb
from workbench.errors import BadInput, BadOption, TrialFailed, Untrusted
from workbench.exporters.model.exporting import difference, model_of
from workbench.exporters.model.ordering import write_model
from workbench.records import Keep, Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store

SOURCE = """
import torch
lr = uniform(0.01, 0.1)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU())
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x, scale=1.0):
        hidden = self.body(x)
        return {"logits": self.head(hidden) * scale, "hidden": hidden}

model = Net()
critic = torch.nn.Linear(2, 2)
data = torch.randn(24, 6)
optimizer = torch.optim.SGD(model.parameters(), lr=lr)
for epoch in trial.steps():
    model.train()
    for batch in data.split(8):
        optimizer.zero_grad()
        loss = (model(batch)["logits"] - batch[:, :3]).pow(2).mean()
        loss.backward()
        optimizer.step()
    trial.report(score=-loss.item())
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Spec]:
    folder = tmp_path_factory.mktemp("home")
    store = Store(folder / "store").create()
    spec = spec_of(
        SOURCE, folder, space={"lr": uniform(0.01, 0.1)}, scheduler=Scheduler("all", 1, 3), trials=1, name="nets",
        preload=("torch",), verify=False, keep=Keep.of("all"),
    )  # fmt: skip
    with engine(store, workers=1):
        start(store, spec)
        assert ended(store, spec) == "completed"
    return store, spec


def own(store: Store, x: Any) -> Any:
    model = wb.open("nets", store=store)["t0000"].load().model.eval()
    import torch

    with torch.no_grad():
        return model(x)["logits"]


def test_weights_are_what_the_checkpoint_holds(trained: tuple[Store, Spec], tmp_path: Path) -> None:
    from safetensors.torch import load_file

    store, _ = trained
    told = write_model(store, "nets/t0000", "safetensors", tmp_path / "net.safetensors")
    assert told["difference"] == 0
    assert told["step"] == 3
    assert told["input"] == ["float32[8,6]"]
    assert told["input_from"] == "the training loop"
    model = wb.open("nets", store=store)["t0000"].load().model
    written = load_file(tmp_path / "net.safetensors")
    assert written.keys() == model.state_dict().keys()
    assert all(written[name].equal(one) for name, one in model.state_dict().items())
    with pytest.raises(BadInput, match="exists"):
        write_model(store, "nets/t0000", "safetensors", tmp_path / "net.safetensors")


def test_a_program_of_torch_export_takes_batches_of_any_size(trained: tuple[Store, Spec], tmp_path: Path) -> None:
    import torch

    store, _ = trained
    told = wb.open("nets", store=store).best.export("torch.export", tmp_path / "net.pt2")
    assert told["batch"] == "any"
    assert told["difference"] <= 1e-6
    x = torch.randn(5, 6)
    again = torch.export.load(tmp_path / "net.pt2").module()
    assert torch.allclose(again(x)["logits"], own(store, x), atol=1e-6)
    # No file names a module of ours, so all of them are read wherever the exporter may lie.
    code = "import sys, torch; sys.modules['workbench'] = None; torch.export.load('net.pt2').module()"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_onnx_runs_elsewhere_and_gives_the_same_and_the_command_line_says_how_far_it_is(
    trained: tuple[Store, Spec], tmp_path: Path
) -> None:
    import onnxruntime
    import torch

    store, _ = trained
    words = ["--store", str(store.root), "export", "nets@1/t0000", "--model", "onnx", "--to", "net.onnx", "--json"]
    command = [sys.executable, "-m", "workbench", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["difference"] <= 1e-5
    assert told["batch"] == "any"
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    x = torch.randn(3, 6)
    (name,) = (one.name for one in session.get_inputs())
    assert torch.allclose(torch.from_numpy(session.run(None, {name: x.numpy()})[0]), own(store, x), atol=1e-5)


def test_what_makes_no_sense_is_refused_and_leaves_nothing(trained: tuple[Store, Spec], tmp_path: Path) -> None:
    store, _ = trained
    with pytest.raises(BadOption, match="expected safetensors"):
        write_model(store, "nets", "pickle", tmp_path / "net.pkl")
    with pytest.raises(BadOption, match=r"did not call critic.*--input"):
        write_model(store, "nets", "onnx", tmp_path / "critic.onnx", name="critic")
    assert not list(tmp_path.iterdir())


def test_nothing_of_somebody_else_runs_unasked(trained: tuple[Store, Spec], tmp_path: Path) -> None:
    store, _ = trained
    wb.open("nets", store=store).publish(str(tmp_path / "page"))
    theirs = wb.open(str(tmp_path / "page"))
    with pytest.raises(Untrusted):
        write_model(theirs.store, theirs.id, "safetensors", tmp_path / "net.safetensors")
    theirs = wb.open(str(tmp_path / "page"), trust=True)
    told = write_model(
        theirs.store, f"{theirs.id}/t0000:1", "safetensors", tmp_path / "one.safetensors", inputs=["float32[2,6]"]
    )
    assert (told["input"], told["input_from"], told["step"]) == (["float32[2,6]"], "--input", 1)
    assert told["difference"] == 0


SCRIPT = """
import argparse, torch, near, workbench
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
lr = parser.parse_args().lr
model = near.Net()
for step in workbench.trial.steps():
    with torch.no_grad():
        model.weight.fill_(lr)
    workbench.trial.report(score=model(torch.ones(2, 1)).mean().item())
"""
NEAR = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x * self.weight * 1
"""


def test_the_model_is_written_with_the_modules_beside_the_script_as_they_were(tmp_path: Path) -> None:
    import torch

    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "near.py").write_text(NEAR)
    words = ["run", "train.py", "--goal", "max", "score", "--steps", "1-2", "--scheduler", "all", "--trials", "1"]
    command = [sys.executable, "-m", "workbench", *words, "--", "--lr", "uniform(0.5, 1)"]
    store = Store(tmp_path / ".workbench").create()
    with engine(store, workers=1):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
    (tmp_path / "near.py").write_text(NEAR.replace("* 1\n", "* 1000\n"))
    best = wb.open("train", store=store).best
    best.export("torch.export", tmp_path / "net.pt2")
    model = torch.export.load(tmp_path / "net.pt2").module()
    assert model(torch.ones(2, 1)).mean().item() == pytest.approx(best.value)


def test_another_output_is_an_error_and_rounding_is_none() -> None:
    import torch

    one = torch.tensor([1.0, float("inf"), float("nan")])
    assert difference([one], [one.clone()], "it") == 0
    assert 0 < difference([one], [one + torch.tensor([1e-6, 0, 0])], "it") < 1e-5
    with pytest.raises(TrialFailed, match=r"differ by up to 0\.1"):
        difference([one], [one + torch.tensor([0.1, 0, 0])], "it")
    with pytest.raises(TrialFailed, match="it gives float32"):
        difference([one], [one[:2]], "it")
    with pytest.raises(TrialFailed):
        difference([one], [torch.zeros(3)], "it")


def test_the_model_is_the_module_that_is_part_of_no_other() -> None:
    import torch

    inner = torch.nn.Linear(1, 1)
    whole = torch.nn.Sequential(inner)
    assert model_of({"encoder": inner, "net": whole, "x": 1}, None) == ("net", whole)
    assert model_of({"a": whole, "model": torch.nn.Linear(1, 1)}, None)[0] == "model"
    assert model_of({"net": whole}, "net.0") == ("net.0", inner)
    with pytest.raises(BadOption, match="several: a, b"):
        model_of({"a": torch.nn.Linear(1, 1), "b": torch.nn.Linear(1, 1)}, None)

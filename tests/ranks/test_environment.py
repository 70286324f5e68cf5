"""The usual variables of a rank, and code that manages its ranks itself."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

from workbench.errors import BadInput
from workbench.trial.ranks import environment, gang


def test_the_variables_are_those_of_torchrun():
    assert environment.variables(3, 4, 1, 2, "node7", 29501) == {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "node7",
        "MASTER_PORT": "29501",
    }


@pytest.mark.parametrize("numbers", [(4, 4, 0, 2), (-1, 4, 0, 2), (0, 4, 2, 2), (0, 2, 0, 4)])
def test_numbers_that_are_no_ranks_are_refused(numbers):
    with pytest.raises(BadInput, match="is not a rank"):
        environment.variables(*numbers, "node7", 29501)


def test_a_port_that_is_none_is_refused():
    with pytest.raises(BadInput, match="port 70000"):
        environment.variables(0, 1, 0, 1, "node7", 70000)


@pytest.mark.parametrize(
    "text",
    [
        "import torch.distributed as dist\ndist.init_process_group('gloo')",
        "import torch\ntorch.distributed.init_process_group('gloo')",
        "from torch.distributed import init_process_group as begin\nbegin()",
        "from torch.nn.parallel import DistributedDataParallel as DDP\nmodel = DDP(model)",
        "import torch\nmodel = torch.nn.parallel.DistributedDataParallel(model)",
        "from torch.distributed.fsdp import fully_shard\nfully_shard(model)",
        "import lightning as L\nL.Trainer().fit(model)",
        "from lightning.pytorch import Trainer\nTrainer()",
        "import pytorch_lightning as pl\npl.Trainer()",
        "from lightning.fabric import Fabric\nFabric()",
        "from accelerate import Accelerator\nAccelerator()",
        "from transformers import Trainer\nTrainer(model)",
        "from trl import SFTTrainer\nSFTTrainer(model)",
    ],
)
def test_code_that_manages_ranks_is_known_by_its_text(text):
    assert environment.managed_in(text).startswith("line 2 uses")
    assert gang.start({}, text) is None


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nmodel = torch.nn.Linear(1, 1)",
        "class Trainer: pass\nTrainer().fit()",
        "import torch.distributed as dist\ndist.is_available()",
        "from mine import Trainer\nTrainer()",
        "import lightning\nlightning.seed_everything(1)",
        "from transformers import AutoModel\nAutoModel.from_pretrained('tiny')",
    ],
)
def test_other_code_is_not(text):
    assert environment.managed_in(text) == ""


def test_a_process_group_of_the_code_is_left_alone(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        model = torch.nn.Linear(1, 1)
        assert environment.managed_by({"model": model}) == "init_process_group was called"
        assert gang.start({"model": model}) is None
        replica = torch.nn.parallel.DistributedDataParallel(model)
    finally:
        torch.distributed.destroy_process_group()
    assert environment.managed_by({"replica": replica}) == "replica is a DistributedDataParallel"
    assert environment.managed_by({"model": model}) == ""


MADE = {
    "accelerate": ("from accelerate import Accelerator; made = Accelerator(cpu=True)", "an Accelerator was made"),
    "lightning": (
        "import lightning; made = lightning.Trainer(accelerator='cpu', logger=False, enable_checkpointing=False)",
        "made is a Trainer",
    ),
}


@pytest.mark.parametrize("library", MADE)
def test_objects_of_other_libraries_are_known(library):
    if find_spec(library) is None:  # importing it here would change what later tests in this process see
        pytest.skip(f"{library} is not installed")
    text, said = MADE[library]
    code = f"{text}\nfrom workbench.trial.ranks import environment\nprint(environment.managed_by({{'made': made}}))"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == said


def test_a_process_that_is_no_rank_is_refused(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(BadInput, match="RANK is not set"):
        gang.start({"model": torch.nn.Linear(1, 1)})


def test_the_room_is_imported_without_torch():
    code = """
import importlib, pkgutil, sys
import workbench.trial.ranks as ranks
for module in pkgutil.walk_packages(ranks.__path__, "workbench.trial.ranks."):
    importlib.import_module(module.name)
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]"])
def test_ranks_of_several_machines_use_the_interface_that_leads_to_the_first(host, monkeypatch):
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.delenv(name, raising=False)
    assert environment.interfaces(host, False) == {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "=lo"}


def test_an_interface_that_a_person_chose_stays_unless_all_ranks_are_on_one_machine(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0")
    assert environment.interfaces("127.0.0.1", False).keys() == {"NCCL_SOCKET_IFNAME"}
    assert environment.interfaces("127.0.0.1", True)["GLOO_SOCKET_IFNAME"] == "lo"


def test_without_a_way_to_the_first_rank_no_interface_is_named():
    assert environment.interfaces("node7.invalid", False) == {}

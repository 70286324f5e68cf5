"""A compiled model that a set-up makes looks the same in every process, although torch keeps addresses in it."""

import json
import subprocess
import sys

PROGRAM = """
import json, sys, types
main = types.ModuleType("__main__")
sys.modules["__main__"] = main
exec('''
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
fast = torch.compile(model, backend="eager")
''', main.__dict__)
from workbench.trial.state import State
base = State(main.__dict__, []).base
seen = {str(entry.mark): entry.signature.hex() for entry in base.entries.values() if not entry.loose}
print(json.dumps([main.fast._torchdynamo_wrapper_id, seen]))
"""


def test_two_processes_see_the_same():
    variables = {"PYTHONHASHSEED": "0", "PATH": "/usr/bin"}
    runs = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], env=variables, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    (one, first), (other, second) = [json.loads(run.communicate(timeout=120)[0].splitlines()[-1]) for run in runs]
    assert one != other, "torch no longer keeps an address there"
    assert len(first) > 10
    assert first == second

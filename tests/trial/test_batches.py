"""``trial.batches``: killed between two batches and resumed in a fresh process, a trial equals an undisturbed one."""

import pytest
from trial.loops import FOOT
from trial.test_resume import result
from trial.world import points, said

from workbench.trial.api.batches import BY_STEPS, EXACT

STEPS = 3
#: So short that a checkpoint is due at every batch.
ALWAYS = 1e-9

HEAD = """
import os, random
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, TensorDataset
torch.manual_seed(1)
X = torch.randn(40, 6); Y = (X.sum(1) > 0).long()
class Data(Dataset):
    def __init__(self): self.reads = os.environ.get("READS")
    def __len__(self): return len(X)
    def __getitem__(self, i):
        print("read", i, flush=True)
        noise = torch.randn(6) * .1 + random.random() + float(np.random.rand())
        return X[i] + noise, Y[i]
model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Linear(8, 2))
opt = torch.optim.AdamW(model.parameters(), lr=0.01)
def result(): return model.state_dict(), opt.state_dict()
"""

STEP = "opt.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step()"

BODY = f"""
for epoch in trial.steps():
    model.train()
    total, seen = 0.0, []
    warm = torch.rand(())            # drawn before the loop, and not to be drawn twice
    for x, y in trial.batches(loader):
        {STEP}
        total += loss.item(); seen.append(float(x[0, 0]))
        trial.log(inner=loss.item())
    trial.report(score=total / len(seen), n=len(seen), warm=warm)
"""

EXACTLY = {
    "shuffled by torch": "loader = DataLoader(Data(), 8, shuffle=True)" + BODY,
    "shuffled by a generator of its own": (
        "loader = DataLoader(Data(), 8, shuffle=True, generator=torch.Generator().manual_seed(3))" + BODY
    ),
    "the trial's own loader": "loader = trial.loader(Data(), 8, shuffle=True)" + BODY,
    "two workers, which draw numbers": "loader = DataLoader(Data(), 4, shuffle=True, num_workers=2)" + BODY,
    "drawn with weights": (
        "loader = DataLoader(Data(), 8, sampler=torch.utils.data.WeightedRandomSampler(torch.ones(40), 40))" + BODY
    ),
    "a sampler of the cell's": """
class Own(Sampler):
    def __init__(self): self.epoch, self.order = 0, list(range(40))
    def __len__(self): return 40
    def __iter__(self):
        self.epoch += 1
        random.shuffle(self.order)
        return iter(self.order[: 32 + self.epoch])
loader = DataLoader(Data(), 8, sampler=Own())
"""
    + BODY,
    "a list of batches": "loader = [(X[i:i + 8], Y[i:i + 8]) for i in range(0, 40, 8)]" + BODY,
    "a data set itself": "loader = Data()"
    + BODY.replace("in trial", "in trial").replace(STEP, "x, y = x[None], y[None]; " + STEP),
    "a working directory of each step's own": """
import os
os.makedirs(trial.folder / "out", exist_ok=True); os.chdir(trial.folder)
loader = DataLoader(Data(), 8, shuffle=True)
"""
    + BODY.replace("    total, seen =", '    os.chdir("out"); total, seen =').replace(
        "    trial.report(", '    os.chdir(".."); trial.report('
    ),
    "functions between the loops": f"""
loader = DataLoader(Data(), 8, shuffle=True)
class Meter:
    def __init__(self): self.total, self.n = 0.0, 0
    def add(self, value): self.total += value; self.n += 1
def train_one(loader, scale):
    meter, last, history = Meter(), None, []
    for x, y in trial.batches(loader):
        {STEP}
        meter.add(loss.item()); history.append(meter.total); last = loss.item() * scale
    return meter.total / meter.n, last, len(history)
def fit():
    best = 1e9
    for epoch in trial.steps():
        mean, last, n = train_one(loader, epoch + 1)
        best = min(best, mean)
        trial.report(score=mean, best=best, last=last, n=n)
fit()""",
    "a progress bar and a second pass": f"""
from tqdm import tqdm
loader, check = DataLoader(Data(), 8, shuffle=True), DataLoader(Data(), 20)
for epoch in trial.steps():
    total, right = 0.0, 0
    trial.report(begun=epoch)
    for x, y in tqdm(trial.batches(loader)):
        {STEP}
        total += loss.item()
    for x, y in trial.batches(check):
        right += int((model(x).argmax(1) == y).sum())
    trial.report(score=total, right=right)""",
    "a loader that knows where it is": """
class Stateful:
    def __init__(self): self.epoch, self.turn, self.running = 0, 0, None
    def _generate(self):
        order = torch.randperm(len(X), generator=torch.Generator().manual_seed(self.epoch))
        for at in range(self.turn * 8, 40, 8):
            self.turn += 1
            print("read", at, flush=True)
            yield X[order[at:at + 8]], Y[order[at:at + 8]]
        self.epoch, self.turn = self.epoch + 1, 0
    def __iter__(self): return self._generate()
    def state_dict(self): return {"epoch": self.epoch, "turn": self.turn}
    def load_state_dict(self, state): self.epoch, self.turn = state["epoch"], state["turn"]
loader = Stateful()
"""
    + BODY,
}

#: Loaders that cannot start at a later batch, and steps that cannot be resumed inside: reported, and still exact.
SAID = {
    "a stream": (
        """
class Stream(IterableDataset):
    def __iter__(self):
        for i in range(40):
            yield X[i] + random.random(), Y[i]
loader = DataLoader(Stream(), 8)
"""
        + BODY,
        "its first batches are read again and dropped",
    ),
    "an iterator": (BODY.replace("trial.batches(loader)", "trial.batches(zip(X.split(8), Y.split(8)))"), "an iterator"),
    "an enumeration": (
        "loader = DataLoader(Data(), 8, shuffle=True)"
        + BODY.replace("for x, y in trial.batches(loader)", "for i, (x, y) in enumerate(trial.batches(loader))"),
        "enumerate around trial.batches() keeps its own count",
    ),
    "a zip": (
        "loader = DataLoader(Data(), 8, shuffle=True)"
        + BODY.replace("for x, y in trial.batches(loader)", "for (x, y), _ in zip(trial.batches(loader), range(99))"),
        "zip around trial.batches() keeps its own count",
    ),
    "a generator around it": (
        """
loader = DataLoader(Data(), 8, shuffle=True)
def ahead(batches):
    kept = None
    for batch in batches:
        if kept is not None:
            yield kept
        kept = batch
    yield kept
"""
        + BODY.replace("trial.batches(loader)", "ahead(trial.batches(loader))"),
        "a generator",
    ),
}


def outcome(told, output):
    """Every point, and the digest of the result."""
    return points(told), result(output)


def undisturbed(server, experiment, source):
    cell = experiment(HEAD + source + FOOT, steps=STEPS)
    runner = server.runner()
    told = runner.leg(cell.order())
    assert told[-1]["outcome"] == "completed", told[-1]["error"]
    runner.kill()
    return outcome(told, runner.output())


def killed_and_resumed(server, cell, kills):
    """Points and result of a trial that is killed after each checkpoint in ``kills``; and all that was said."""
    told, places, output = [], [], ""
    for step, inside in kills:
        runner = server.runner()
        # A kill that comes late finds it no further than the next step's beginning.
        runner.connection.send(cell.order(step + 1, resume=bool(told)))
        told += runner.until("saved", step=step, **({"inside": inside} if inside is not None else {}))
        assert told[-1]["op"] == "saved", told[-1]
        runner.kill()
        # It may have come further before the kill; what it said then counts as well.
        told += runner.until("left")
        places.append(runner.output())
        assert "RESULT" not in places[-1]
    runner = server.runner()
    told += runner.leg(cell.order(resume=True))
    assert told[-1]["outcome"] == "completed", told[-1]["error"]
    runner.kill()
    output = runner.output()
    return outcome(told, output), told, output


@pytest.mark.parametrize("name", EXACTLY)
def test_a_trial_killed_between_batches_equals_an_undisturbed_one(server, experiment, name):
    expected = undisturbed(server, experiment, EXACTLY[name])
    cell = experiment(HEAD + EXACTLY[name] + FOOT, steps=STEPS, save_s=ALWAYS)
    found, told, _ = killed_and_resumed(server, cell, [(0, 2), (1, 1)])
    assert found == expected
    assert said(told, "saved")[-1]["step"] == STEPS
    assert [m["found"]["resumes"] for m in said(told, "saved") if m["found"]][-1] == EXACT


def test_workers_that_outlive_a_pass_draw_their_seed_once(server, experiment):
    """The workers' own random numbers start again (the experiment's page says so); those of the training continue."""
    source = (
        "loader = DataLoader(torch.utils.data.TensorDataset(X, Y), 8, shuffle=True, num_workers=1, "
        "persistent_workers=True)" + BODY
    )
    expected = undisturbed(server, experiment, source)
    cell = experiment(HEAD + source + FOOT, steps=STEPS, save_s=ALWAYS)
    assert killed_and_resumed(server, cell, [(0, 2), (1, 1)])[0] == expected


@pytest.mark.parametrize("name", SAID)
def test_what_cannot_be_resumed_inside_is_said_and_exact_all_the_same(server, experiment, name):
    source, reason = SAID[name]
    expected = undisturbed(server, experiment, source)
    cell = experiment(HEAD + source + FOOT, steps=STEPS, save_s=ALWAYS)
    found, told, output = killed_and_resumed(server, cell, [(1, None)])
    assert found == expected
    assert any(reason in m["found"]["resumes"] for m in said(told, "saved") if m["found"])
    assert output.count("[workbench] trial.batches: ") == 1
    assert reason in output


def test_batches_that_were_trained_are_not_read_again(server, experiment):
    source = "loader = trial.loader(Data(), 8, shuffle=True)" + BODY
    cell = experiment(HEAD + source + FOOT, steps=2, save_s=ALWAYS)
    _, told, output = killed_and_resumed(server, cell, [(0, 3)])
    begun = max(m["inside"] for m in said(told, "saved")[:-1] if "inside" in m)
    assert output.count("read") <= 2 * 40 - 3 * 8
    assert output.count("read") % 8 == 0
    assert begun >= 3


def test_without_batches_the_page_says_what_a_fault_costs(server, experiment):
    cell = experiment(HEAD + "for epoch in trial.steps():\n    trial.report(score=1)\n", steps=1)
    assert said(server.runner().leg(cell.order()), "begun")[0]["found"]["resumes"] == BY_STEPS


def test_a_stop_that_keeps_leaves_between_two_batches_with_all_that_was_trained(server, experiment, tmp_path):
    stay = tmp_path / "stay"  # while it is there, the trial waits for the stop
    held = f"        while len(seen) == 2 and os.path.exists({str(stay)!r}): time.sleep(0.01)\n        trial.log"
    source = "import time\nloader = DataLoader(Data(), 8, shuffle=True)" + BODY.replace("        trial.log", held)
    expected = undisturbed(server, experiment, source)
    cell = experiment(HEAD + source + FOOT, steps=STEPS)
    stay.touch()
    runner = server.runner()
    runner.connection.send(cell.order())
    told = runner.until("points")
    runner.connection.send({"op": "stoporder", "reason": "a pause", "keep": True})
    stay.unlink()
    told += runner.until("left")
    saved = said(told, "saved")[-1]
    assert (told[-1]["outcome"], told[-1]["step"], saved["step"]) == ("stopped", 0, 0)
    assert saved["inside"] >= 1
    runner.kill()
    runner = server.runner()
    told += runner.leg(cell.order(resume=True))
    runner.kill()
    assert outcome(told, runner.output()) == expected


def test_a_turn_that_comes_by_another_place_goes_on_from_the_checkpoint_before(server, experiment, tmp_path):
    stay = tmp_path / "stay"  # while it is there, the trial waits for the kill
    stay.touch()
    source = f"""
import time
loader = DataLoader(Data(), 8)
trained = 0
for epoch in trial.steps():
    if trained % 5 == 0:             # depends on what the batches change
        for x, y in trial.batches(loader):
            while trained == 7 and os.path.exists({str(stay)!r}): time.sleep(0.01)
            {STEP}
            trained += 1
    else:
        for x, y in trial.batches(loader):
            trained += 1
    trial.report(score=trained)
"""
    cell = experiment(HEAD + source + FOOT, steps=STEPS, save_s=ALWAYS)
    runner = server.runner()
    runner.connection.send(cell.order())
    runner.until("saved", step=1, inside=2)
    runner.kill()
    stay.unlink()
    left = server.runner().leg(cell.order(resume=True))[-1]
    assert left["outcome"] == "failed"
    assert left["error"]["type"] == "Elsewhere"
    assert "was not the first of the turn" in left["error"]["message"]
    again = server.runner().leg(cell.order(resume=True))
    assert again[-1]["outcome"] == "completed"
    assert again[-1]["metrics"]["score"] == 15

"""Training loops as odd as people write them. Each ends with ``result()``: what must be the same byte for byte."""

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
X = torch.randn(96, 8)
Y = (X.sum(1) > 0).long()
def batches(size=32):
    order = torch.randperm(len(X))
    for at in range(0, len(X), size):
        yield X[order[at:at + size]], Y[order[at:at + size]]
"""

MODEL = """
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2))
opt = torch.optim.AdamW(model.parameters(), lr=0.01)
def result(): return model.state_dict()
"""

EPOCH = """
    for x, y in batches():
        opt.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step()
"""

TORCH = {
    "a plain loop": MODEL + "for epoch in trial.steps():" + EPOCH + "    trial.report(score=loss)",
    "sgd with momentum": """
model = nn.Linear(8, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
def result(): return model.state_dict(), opt.state_dict()
for epoch in trial.steps():"""
    + EPOCH
    + "    trial.report(score=loss)",
    "a while loop around next": MODEL
    + """
steps = trial.steps()
while (epoch := next(steps, None)) is not None:"""
    + EPOCH
    + "    trial.report(score=loss, epoch=epoch)",
    "a function with the loop in it": MODEL
    + """
def fit(model, opt):
    best, patience, seen = 0.0, 0, []
    for epoch in trial.steps():
        for x, y in batches():
            opt.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step()
        seen.append(loss.item())
        patience = patience + 1 if loss.item() > best else 0
        best = max(best, loss.item())
        trial.report(score=loss, best=best, patience=patience, mean=sum(seen) / len(seen))
    return seen
seen = fit(model, opt)
def result(): return model.state_dict(), seen""",
    "functions in functions, with a closure that counts": MODEL
    + """
def main():
    count = 0
    log = []
    def step(x, y):
        nonlocal count
        count += 1
        opt.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step()
        log.append((count, loss.item()))
        return loss
    def loop():
        last = None
        for epoch in trial.steps():
            assert epoch == 0 or last == log[-1]
            for x, y in batches():
                loss = step(x, y)
            last = log[-1]
            trial.report(score=loss, count=count, rows=len(log))
    loop()
    return log
log = main()
def result(): return model.state_dict(), log""",
    "closures made in the loop that share a variable": MODEL
    + """
def counter():
    n = 0
    def up():
        nonlocal n
        n += 1
        return n
    def get():
        return n
    return up, get
up = get = None
for epoch in trial.steps():"""
    + EPOCH
    + """
    if up is None:
        up, get = counter()
    up(); up()
    trial.report(score=loss, n=get())""",
    "two optimizers against each other": """
G = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 8))
D = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(), nn.Linear(16, 1))
og, od = torch.optim.Adam(G.parameters(), lr=1e-3), torch.optim.Adam(D.parameters(), lr=1e-3)
noise = torch.randn(16, 4)
images = []
def result(): return G.state_dict(), D.state_dict(), images
for epoch in trial.steps():
    for x, _ in batches():
        fake = G(torch.randn(len(x), 4))
        d = F.softplus(-D(x)).mean() + F.softplus(D(fake.detach())).mean()
        od.zero_grad(); d.backward(); od.step()
        g = F.softplus(-D(fake)).mean()
        og.zero_grad(); g.backward(); og.step()
    images.append(G(noise).detach())
    trial.report(score=g, d=d)""",
    "a learning-rate schedule": MODEL
    + """
schedule = torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=trial.max_steps * 3)
for epoch in trial.steps():
    for x, y in batches():
        opt.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step(); schedule.step()
    trial.report(score=loss, lr=schedule.get_last_lr()[0])""",
    "a schedule by a lambda, and one on a plateau": MODEL
    + """
warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda epoch: min(1, (epoch + 1) / 3))
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=0, factor=0.5)
for epoch in trial.steps():"""
    + EPOCH
    + """
    warm.step(); plateau.step(loss.item())
    trial.report(score=loss, lr=opt.param_groups[0]["lr"])""",
    "an average of the weights": MODEL
    + """
import copy
ema = copy.deepcopy(model)
for p in ema.parameters():
    p.requires_grad_(False)
swa = torch.optim.swa_utils.AveragedModel(model)
for epoch in trial.steps():"""
    + EPOCH
    + """
    with torch.no_grad():
        for a, b in zip(ema.parameters(), model.parameters()):
            a.lerp_(b, 0.1)
    swa.update_parameters(model)
    trial.report(score=F.cross_entropy(ema.eval()(X), Y))
def result(): return model.state_dict(), ema.state_dict(), swa.state_dict()""",
    "the best so far, copied early": MODEL
    + """
import copy
best, best_state, best_epoch = float("inf"), None, -1
for epoch in trial.steps():"""
    + EPOCH
    + """
    if epoch == 0 or loss.item() < best:
        best, best_state, best_epoch = loss.item(), copy.deepcopy(model.state_dict()), epoch
    trial.report(score=best, epoch=best_epoch)
model.load_state_dict(best_state)""",
    "the best so far, not copied": MODEL
    + """
best_state = None
for epoch in trial.steps():"""
    + EPOCH
    + """
    if epoch == 0:
        best_state = model.state_dict()   # a mistake people make: it goes on changing
    same = all(a.data_ptr() == b.data_ptr() for a, b in zip(best_state.values(), model.state_dict().values()))
    trial.report(score=loss, same=same, total=sum(v.sum() for v in best_state.values()))""",
    "histories of all sorts": MODEL
    + """
from collections import Counter, defaultdict, deque, OrderedDict
history, counts, window, by = [], Counter(), deque(maxlen=2), defaultdict(list)
alias, table, ordered, seen = history, {"rows": history}, OrderedDict(a=1, b=2), set()
for epoch in trial.steps():"""
    + EPOCH
    + """
    history.append({"epoch": epoch, "loss": loss.item()})
    counts[round(loss.item(), 1)] += 1
    window.append(loss.item())
    by[epoch % 2].append(loss.item())
    ordered.move_to_end("a" if epoch % 2 else "b"); seen.add(epoch)
    assert alias is history and table["rows"] is history
    trial.report(score=loss, n=len(alias), w=sum(window), c=len(counts), b=len(by[0]), s=len(seen))
def result(): return model.state_dict(), history, counts, window, by, list(ordered), seen""",
    "a batch fetched ahead": MODEL
    + """
def endless():
    while True:
        yield from batches()
order = torch.randperm(96)
position = 0
def fetch():
    global position, order
    if position >= 96:
        position, order = 0, torch.randperm(96)
    found = X[order[position:position + 32]], Y[order[position:position + 32]]
    position += 32
    return found
ahead = fetch()
for epoch in trial.steps():
    for _ in range(4):
        (x, y), ahead = ahead, fetch()
        opt.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step()
    trial.report(score=loss, position=position)""",
    "gradients that pile up over turns": MODEL
    + """
for epoch in trial.steps():
    for x, y in batches():
        loss = F.cross_entropy(model(x), y) / 5
        loss.backward()
    if epoch % 2:
        opt.step(); opt.zero_grad()
    trial.report(score=loss)""",
    "gradients set to zero and kept": MODEL
    + """
for epoch in trial.steps():
    for x, y in batches():
        F.cross_entropy(model(x), y).backward()
        opt.step(); opt.zero_grad(set_to_none=False)
    trial.report(score=sum(p.sum() for p in model.parameters()), g=sum(p.grad.sum() for p in model.parameters()))""",
    "a dataclass as state": MODEL
    + """
from dataclasses import dataclass, field
@dataclass
class State:
    step: int = 0
    losses: list = field(default_factory=list)
    best: torch.Tensor = None
@dataclass(frozen=True, slots=True)
class Row:
    loss: float
state, rows = State(), [Row(0.0)]
for epoch in trial.steps():"""
    + EPOCH
    + """
    state.step += 1
    state.losses.append(loss.item())
    state.best = loss.detach() if state.best is None or loss < state.best else state.best
    rows.append(Row(loss.item()))
    trial.report(score=state.best, step=None, steps=state.step, n=len(state.losses), rows=len(rows))
def result(): return model.state_dict(), state.losses, state.best, [row.loss for row in rows]""",
    "a trainer of the cell's own": """
class Net(nn.Module):
    made = 0
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 2)
        self.calls = 0
        self.noise = []
        Net.made += 1
    def forward(self, x):
        self.calls += 1
        return self.b(F.relu(self.a(x)))
class Trainer:
    total = 0
    def __init__(self):
        self.model = Net()
        self.opt = torch.optim.RMSprop(self.model.parameters(), lr=1e-3)
        self.seen, self.callbacks = 0, [self.note]
        self.notes = {}
    def note(self, loss):
        self.notes[self.seen] = loss
    def epoch(self):
        for x, y in batches():
            self.opt.zero_grad(); loss = F.cross_entropy(self.model(x), y); loss.backward(); self.opt.step()
            self.seen += len(x)
            Trainer.total += 1
        for callback in self.callbacks:
            callback(loss.item())
        return loss
trainer = Trainer()
for epoch in trial.steps():
    loss = trainer.epoch()
    trial.report(score=loss, calls=trainer.model.calls, total=Trainer.total, notes=len(trainer.notes))
def result(): return trainer.model.state_dict(), trainer.notes, trainer.seen""",
    "a group of parameters added in the loop": """
body, head = nn.Linear(8, 8), nn.Linear(8, 2)
for p in body.parameters():
    p.requires_grad_(False)
opt = torch.optim.Adam(head.parameters(), lr=0.01)
def result(): return body.state_dict(), head.state_dict(), opt.state_dict()
for epoch in trial.steps():
    if epoch == 2:
        for p in body.parameters():
            p.requires_grad_(True)
        opt.add_param_group({"params": list(body.parameters()), "lr": 1e-3})
    for x, y in batches():
        opt.zero_grad(); loss = F.cross_entropy(head(body(x)), y); loss.backward(); opt.step()
    trial.report(score=loss, groups=len(opt.param_groups))""",
    "an optimizer and a layer made in the loop": """
model, opt = nn.Sequential(nn.Linear(8, 8)), None
def result(): return model.state_dict(), opt.state_dict()
for epoch in trial.steps():
    if epoch == 1:
        model.append(nn.ReLU()); model.append(nn.Linear(8, 2))
    if epoch % 2 == 0 or opt is None:
        opt = torch.optim.Adam(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)
    for x, y in batches():
        opt.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step()
    schedule.step()
    trial.report(score=loss, lr=opt.param_groups[0]["lr"])""",
    "weights tied": """
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8, bias=False)
        self.outer = nn.Linear(8, 8, bias=False)
        self.outer.weight = self.inner.weight
    def forward(self, x): return self.outer(torch.tanh(self.inner(x)))
model = Tied()
shared = model.inner.weight
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
def result(): return model.state_dict(), shared
for epoch in trial.steps():
    for x, _ in batches():
        opt.zero_grad(); loss = (model(x) - x).pow(2).mean(); loss.backward(); opt.step()
    tied = model.inner.weight is model.outer.weight is shared
    trial.report(score=loss, tied=tied, total=shared.sum())""",
    "batch norm and spectral norm": """
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(),
                      nn.utils.parametrizations.spectral_norm(nn.Linear(16, 2)))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
def result(): return model.state_dict()
for epoch in trial.steps():"""
    + EPOCH
    + """
    model.eval(); value = F.cross_entropy(model(X), Y); model.train()
    trial.report(score=value)""",
    "an lstm that carries its state over": """
model, head = nn.LSTM(8, 8), nn.Linear(8, 2)
opt = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=0.01)
hidden = None
def result(): return model.state_dict(), hidden
for epoch in trial.steps():
    for x, y in batches():
        out, hidden = model(x.unsqueeze(1), hidden)
        hidden = tuple(h.detach() for h in hidden)
        opt.zero_grad(); loss = F.cross_entropy(head(out[:, 0]), y); loss.backward(); opt.step()
    trial.report(score=loss)""",
    "a transformer": """
layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 2))
opt = torch.optim.AdamW(model.parameters(), lr=0.01)
def result(): return model.state_dict()
for epoch in trial.steps():
    for x, y in batches():
        opt.zero_grad(); loss = F.cross_entropy(model(x.unsqueeze(1))[:, 0], y); loss.backward(); opt.step()
    trial.report(score=loss)""",
    "a gradient scaler": MODEL
    + """
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**4, growth_interval=2)
for epoch in trial.steps():
    for x, y in batches():
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward(); scaler.step(opt); scaler.update()
    trial.report(score=loss, scale=scaler.get_scale())""",
    "loaders of torch": MODEL
    + """
from torch.utils.data import DataLoader, TensorDataset, random_split, WeightedRandomSampler
data = TensorDataset(X, Y)
train, rest = random_split(data, [64, 32])
loader = DataLoader(train, batch_size=16, shuffle=True)
weighted = DataLoader(rest, batch_size=16, sampler=WeightedRandomSampler(torch.ones(32), 32))
own = DataLoader(train, batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(5))
for epoch in trial.steps():
    for part in (loader, weighted, own):
        for x, y in part:
            opt.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step()
    trial.report(score=loss)""",
    "the trial's own loader": MODEL
    + """
from torch.utils.data import TensorDataset
loader = trial.loader(TensorDataset(X, Y), batch_size=32, shuffle=True)
for epoch in trial.steps():
    for x, y in loader:
        opt.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step()
    trial.report(score=loss, first=x[0, 0])""",
    "random generators of every sort": MODEL
    + """
import random
import numpy as np
rng, old, mine, gen = np.random.default_rng(1), np.random.RandomState(2), random.Random(3), torch.Generator()
gen.manual_seed(4)
class Noise:
    def __init__(self): self.rng = np.random.default_rng(7)
    def __call__(self): return self.rng.normal()
noise = Noise()
for epoch in trial.steps():"""
    + EPOCH
    + """
    trial.report(score=loss, a=rng.normal(), b=old.normal(), c=mine.random(), d=torch.rand((), generator=gen),
                 e=random.random(), f=np.random.rand(), g=noise(), h=torch.rand(()))""",
    "a progress bar": MODEL
    + """
from tqdm import tqdm
bar = tqdm(trial.steps(), disable=False)
for epoch in bar:"""
    + EPOCH
    + """
    bar.set_description(f"{loss.item():.3f}")
    trial.report(score=loss, epoch=epoch)""",
    "names deleted and made": MODEL
    + """
first = torch.randn(3)
for epoch in trial.steps():"""
    + EPOCH
    + """
    if epoch == 1:
        del first
        late = torch.randn(3)
        view = late[1:]
    if epoch > 1:
        view += 1
    trial.report(score=loss, a="first" in globals(), b=late.sum() if epoch else 0)""",
    "arrays and views of arrays": MODEL
    + """
import numpy as np
table = np.zeros((4, 3)); row = table[1]; column = table[:, 2]
objects = np.array([[], {}], dtype=object)
grown = np.zeros(0)
for epoch in trial.steps():"""
    + EPOCH
    + """
    row += epoch; column[epoch % 4] += loss.item(); objects[0].append(epoch)
    grown = np.append(grown, loss.item())
    if epoch == 0:
        late = np.arange(6.0).reshape(2, 3); part = late[1]
    part += epoch
    assert row.base is table and np.shares_memory(part, late)
    trial.report(score=loss, t=table.sum(), r=row.sum(), n=len(objects[0]), g=grown.sum(), l=late.sum())
def result(): return model.state_dict(), table, row, column, grown, late""",
    "hooks that collect": MODEL
    + """
features, handles = [], []
model[0].register_forward_hook(lambda module, given, out: features.append(out.mean().item()))
for epoch in trial.steps():
    if epoch == 1:
        handles.append(model[1].register_forward_hook(lambda module, given, out: features.append(1.0)))
    if epoch == 2:
        handles.pop().remove()"""
    + EPOCH
    + """
    trial.report(score=loss, n=len(features), total=sum(features))""",
    "classes, instances and functions made in the loop": MODEL
    + """
kept = []
for epoch in trial.steps():"""
    + EPOCH
    + """
    if epoch == 0:
        class Point:
            scale = 1
            def __init__(self, x): self.x = x
            def value(self): return self.x * self.scale
        origin = Point(2.0)
        double = lambda point: 2 * point.value() + len(kept)
    Point.scale += 1
    kept.append(Point(loss.item()))
    kept.append(origin)
    assert all(type(point) is Point for point in kept) and kept[1] is origin
    trial.report(score=loss, d=double(origin), v=sum(point.value() for point in kept))""",
    "objects that hold one another": MODEL
    + """
class Node:
    __slots__ = ("next", "value", "owner")
    def __init__(self, owner, value): self.owner, self.value, self.next = owner, value, None
class Chain(list):
    def __init__(self): super().__init__(); self.total = 0.0
chain = Chain()
ring = Node(chain, 0.0); ring.next = ring
for epoch in trial.steps():"""
    + EPOCH
    + """
    node = Node(chain, loss.item()); node.next = ring.next; ring.next = node
    chain.append(node); chain.total += node.value
    found, length = ring.next, 1
    while found is not ring:
        assert found.owner is chain and found in chain
        found, length = found.next, length + 1
    trial.report(score=loss, n=length, total=chain.total)""",
    "a compiled model": MODEL
    + """
fast = torch.compile(model, backend="eager")
for epoch in trial.steps():
    for x, y in batches():
        opt.zero_grad(); loss = F.cross_entropy(fast(x), y); loss.backward(); opt.step()
    trial.report(score=loss)""",
    "a module of the cell and a function, both compiled": MODEL
    + """
class Twice(nn.Module):
    def __init__(self): super().__init__(); self.inner = model
    def forward(self, x):
        once = self.inner(x)
        torch._dynamo.graph_break()
        return once + self.inner(x)
fast = torch.compile(Twice(), backend="eager")
@torch.compile(backend="eager")
def averaged(old, new): return old * 0.9 + new * 0.1
mean = [p.detach().clone() for p in model.parameters()]
def result(): return model.state_dict(), mean
for epoch in trial.steps():
    for x, y in batches():
        opt.zero_grad(); loss = F.cross_entropy(fast(x), y); loss.backward(); opt.step()
    with torch.no_grad(): mean = [averaged(a, b) for a, b in zip(mean, model.parameters())]
    trial.report(score=loss)""",
    "a loader that knows where it is": MODEL
    + """
class Stateful:
    def __init__(self): self.epoch, self.turn, self.running = 0, 0, None
    def _generate(self):
        order = torch.randperm(len(X), generator=torch.Generator().manual_seed(self.epoch))
        for at in range(self.turn * 32, 96, 32):
            self.turn += 1
            yield X[order[at:at + 32]], Y[order[at:at + 32]]
        self.epoch, self.turn = self.epoch + 1, 0
    def __iter__(self):
        if self.running is None: self.running = self._generate()
        return self
    def __next__(self):
        try:
            return next(self.running)
        except StopIteration:
            self.running = None
            raise
    def state_dict(self): return {"epoch": self.epoch, "turn": self.turn}
    def load_state_dict(self, state): self.epoch, self.turn, self.running = state["epoch"], state["turn"], None
loader = Stateful()
for epoch in trial.steps():
    for (x, y), _ in zip(loader, range(2)):
        opt.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step()
    trial.report(score=loss, epoch=loader.epoch, turn=loader.turn, first=x.sum())""",
    "objects that no name reaches": MODEL
    + """
class Counter:
    def __init__(self): self.n = 0
counter = trial.track(Counter())
def make(counter):
    table = {"hidden": counter}
    def step():
        table["hidden"].n += 1
        return table["hidden"].n
    return iter(step, None)
steps = make(counter)
del counter
for epoch in trial.steps():"""
    + EPOCH
    + """
    trial.report(score=loss, n=next(steps))""",
    "large temporaries, and large ones that only some turns make": MODEL
    + """
kept = None
for epoch in trial.steps():
    big = torch.randn(400_000)
    if epoch == 1:
        kept = big * 2
    pair = {"a": big + 1, "b": [epoch]}"""
    + EPOCH
    + """
    trial.report(score=loss, big=big.sum(), kept=0 if kept is None else kept.sum())
def result(): return model.state_dict(), kept, big""",
    "tensors that are not strided": MODEL
    + """
sparse = torch.eye(3).to_sparse()
turned = torch.tensor([1 + 2j, 3j]).conj()
mean = torch.ones(())
empty = torch.empty(0)
for epoch in trial.steps():"""
    + EPOCH
    + """
    sparse = sparse * 2
    turned = (turned * 1j).conj()
    mean.mul_(2)
    empty = torch.cat([empty, loss.detach()[None]])
    trial.report(score=loss, a=sparse.to_dense().sum(), b=turned.real.sum(), c=turned.imag.sum(), m=mean, n=len(empty))
def result(): return model.state_dict(), sparse.to_dense(), torch.view_as_real(turned.resolve_conj()), mean, empty""",
    "steps through a generator of the cell": MODEL
    + """
def turns():
    for epoch in trial.steps():
        yield epoch, epoch * 2
for epoch, twice in turns():"""
    + EPOCH
    + """
    trial.report(score=loss, twice=twice)""",
    "a lazy layer that the loop makes": """
model = nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.LazyLinear(2))
opt = None
def result(): return model.state_dict()
for epoch in trial.steps():
    if epoch == 0:
        model(X)
        opt = torch.optim.Adam(model.parameters(), lr=0.01)"""
    + EPOCH
    + """
    trial.report(score=loss, lazy=type(model[0]).__name__ == "LazyLinear")""",
    "frozen parts and a large table": """
embedding = nn.Embedding(1000, 8)
embedding.weight.requires_grad_(False)
model = nn.Linear(8, 2)
opt = torch.optim.Adagrad(model.parameters(), lr=0.1)
def result(): return model.state_dict(), embedding.state_dict()
for epoch in trial.steps():
    for x, y in batches():
        opt.zero_grad(); loss = F.cross_entropy(model(x + embedding(y)), y); loss.backward(); opt.step()
    embedding.weight.data[epoch] = epoch
    trial.report(score=loss)""",
    "a namespace with all sorts of things in it": """
import sys, threading
from types import SimpleNamespace
from tqdm import tqdm
class Settings(SimpleNamespace): pass
run = Settings(
    net=nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)), best=9.0, lock=threading.Lock(),
    bar=tqdm(total=5, file=sys.stdout), log=open("/dev/null", "w"), inner=SimpleNamespace(seen=[]),
)
inner = run.inner
opt = torch.optim.Adam(run.net.parameters(), lr=0.01)
def result(): return run.net.state_dict(), run.best, inner.seen
for epoch in trial.steps():
    for x, y in batches():
        opt.zero_grad(); loss = F.cross_entropy(run.net(x), y); loss.backward(); opt.step()
    run.bar.update(1)
    with run.lock:
        run.best = min(run.best, loss.item())
    inner.seen.append(loss.item())
    trial.report(score=loss, best=run.best, n=len(run.inner.seen), same=run.inner is inner)""",
    "a loss summed with its graph": MODEL
    + """
running, losses = torch.zeros(()), []
for epoch in trial.steps():"""
    + EPOCH
    + """
    running += loss
    losses.append(loss)
    trial.report(score=running.item(), mean=sum(one.item() for one in losses) / len(losses))
def result(): return model.state_dict(), running.detach(), [one.detach() for one in losses]""",
    "large tables, changed in few places": """
table = torch.zeros(10_000_000)
embedding = nn.Embedding(1_000_000, 10)
embedding.weight.requires_grad_(False)
class Bank(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(90_000, 100))
        self.at = 50_020
    def push(self, row):
        self.rows[self.at] = row
        self.at += 1
bank = Bank()
for epoch in trial.steps():
    if epoch in (0, 3):
        table[5_002_001 + epoch] = 7.0
    embedding.weight.data[500_200 + epoch] = float(epoch + 1)
    if epoch < 2:
        bank.push(torch.randn(100))
    trial.report(score=table.sum(), e=embedding.weight[500_200:500_210].sum(), b=bank.rows.sum())
def result(): return table, embedding.weight[500_200:500_210], bank.rows""",
    "workers that live on from epoch to epoch": MODEL
    + """
from torch.utils.data import DataLoader, TensorDataset
data, workers = TensorDataset(X, Y), {"num_workers": 1, "persistent_workers": True}
class Every:
    def __init__(self): self.begun = 0
    def __len__(self): return 96
    def __iter__(self):
        self.begun += 1
        return iter([(place * self.begun) % 96 for place in range(96)])
loader = DataLoader(data, 32, shuffle=True, **workers)
own = DataLoader(data, 32, shuffle=True, generator=torch.Generator().manual_seed(3), **workers)
ordered = DataLoader(data, 32, sampler=Every(), **workers)
ours = trial.loader(data, batch_size=32, shuffle=True, **workers)
for epoch in trial.steps():
    for part in (loader, own, ordered, ours):
        for x, y in part:
            opt.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step()
    trial.report(score=loss, first=x[0, 0], noise=torch.rand(()))""",
    "early stopping by break": MODEL
    + """
for epoch in trial.steps():"""
    + EPOCH
    + """
    trial.report(score=loss)
    if epoch == 2:
        break""",
    "try, finally and with": MODEL
    + """
import contextlib
opened = []
@contextlib.contextmanager
def room():
    opened.append("in")
    try:
        yield
    finally:
        opened.append("out")
with room():
    try:
        for epoch in trial.steps():"""
    + EPOCH.replace("\n    ", "\n            ")
    + """
            trial.report(score=loss, n=len(opened))
    finally:
        opened.append("finally")
def result(): return model.state_dict(), opened""",
}

PLAIN = {
    "no torch at all": """
import random
value, history = 1.0, []
def result(): return history
for epoch in trial.steps():
    value = value * 0.5 + random.random()
    history.append(value)
    trial.report(score=value)""",
    "sklearn, fitted in parts": """
import numpy as np
from sklearn.linear_model import SGDClassifier
rng = np.random.default_rng(0)
X = rng.normal(size=(90, 5)); y = (X[:, 0] > 0).astype(int)
model = SGDClassifier(random_state=0, average=True)
def result(): return model.coef_, model.intercept_, model.t_
for epoch in trial.steps():
    order = rng.permutation(len(X))
    model.partial_fit(X[order], y[order], classes=[0, 1])
    trial.report(score=model.score(X, y), t=model.t_)""",
    "pandas": """
import pandas as pd
frame = pd.DataFrame({"epoch": [], "loss": []})
running = pd.Series([0.0, 0.0], index=["a", "b"])
other = running
def result(): return frame.to_csv(), running.to_csv()
for epoch in trial.steps():
    frame.loc[len(frame)] = [epoch, 1 / (epoch + 1)]
    running["a"] += epoch
    trial.report(score=frame["loss"].sum(), n=len(frame), r=other["a"])""",
    "iterators and objects that hold another one": """
import itertools
it = iter(range(100)); pairs = zip(it, it)
indices = itertools.cycle(range(3)); squares = map(lambda i: i * i, indices)
class Count:
    def __init__(self, n=0): self.n = n
    def __reduce__(self): return Count, (self.n,)
class Holder:
    def __init__(self, held): self.held = held
    def __reduce__(self): return Holder, (self.held,)
class Saved:
    def __init__(self): self.held, self.turns = None, 0
    def __getstate__(self): return {"held": self.held}
    def __setstate__(self, state): self.held = state["held"]
count = Count(); holder = Holder(Holder(count)); saved = Saved(); saved.held = count
seen = []
def result(): return seen
for epoch in trial.steps():
    count.n += 1
    seen.append((next(pairs), next(it), next(squares), next(indices), holder.held.held.n, saved.held.n))
    trial.report(score=sum(seen[-1][0]), s=seen[-1][2], i=seen[-1][3], n=count.n, same=holder.held.held is count,
                 kept=saved.held is count)""",
    "queues": """
import queue, random
first, top, ahead, alias = None, queue.PriorityQueue(), queue.Queue(maxsize=8), None
first = alias = ahead.queue          # found before the queue, and after it
ahead.put(0.5)
seen = []
def result(): return seen
for epoch in trial.steps():
    top.put((random.random(), epoch))
    if top.qsize() > 3: top.get()
    ahead.put(random.random()); ahead.put(random.random())
    seen.append(ahead.get()); ahead.task_done()
    trial.report(score=seen[-1], n=top.qsize(), s=sum(one for one, _ in top.queue), a=len(alias))
while not ahead.empty():
    seen.append(ahead.get()); ahead.task_done()
ahead.join()""",
    "generators that have children": """
import numpy as np
rng, sequence = np.random.default_rng(0), np.random.SeedSequence(5)
seen = []
def result(): return seen
for epoch in trial.steps():
    children = rng.spawn(2)
    seen.append((children[1].random(), np.random.default_rng(sequence.spawn(1)[0]).random(), rng.random()))
    trial.report(score=seen[-1][0], b=seen[-1][1], c=seen[-1][2])""",
    "iterators that can be saved": """
import itertools
numbers, names = itertools.count(5), iter(["a", "b", "c", "d", "e"])
seen = []
def result(): return seen
for epoch in trial.steps():
    seen.append((next(numbers), next(names)))
    trial.report(score=seen[-1][0], n=len(seen))""",
}

FOOT = """

import hashlib as _hashlib
def _bytes(value):
    if hasattr(value, "detach"):
        return str((value.dtype, tuple(value.shape))).encode() + value.detach().contiguous().numpy().tobytes()
    if hasattr(value, "tobytes"):
        return value.tobytes()
    if isinstance(value, dict):
        return b"{" + b",".join(_bytes(key) + b":" + _bytes(item) for key, item in value.items()) + b"}"
    if isinstance(value, (list, tuple)) or type(value).__name__ in ("deque", "set"):
        return b"[" + b",".join(map(_bytes, value)) + b"]"
    return repr(value).encode()
print("RESULT", _hashlib.sha256(_bytes(result())).hexdigest())
"""

ALL = {**{name: HEAD + source for name, source in TORCH.items()}, **PLAIN}

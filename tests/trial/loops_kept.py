"""Loops that change what is easily overlooked: hooks of tensors, buffers in memory, settings, … Each ends with
``result()``, as those of :mod:`trial.loops`."""

from trial.loops import EPOCH, FOOT, HEAD, MODEL

HOOKS = {
    "a hook of a tensor registered in the loop": MODEL
    + """
for epoch in trial.steps():
    if epoch == 1: handle = model[0].weight.register_hook(lambda gradient: gradient * 0.1)
    if epoch == 3: handle.remove()"""
    + EPOCH
    + "    trial.report(score=loss)",
    "a hook of a tensor removed in the loop": MODEL
    + """
handle = model[0].weight.register_hook(lambda gradient: gradient * 0.1)
for epoch in trial.steps():
    if epoch == 1: handle.remove()"""
    + EPOCH
    + "    trial.report(score=loss)",
    "hooks of tensors that count": MODEL
    + """
class Scale:
    def __init__(self): self.n = 0
    def __call__(self, gradient):
        self.n += 1
        return gradient / self.n
def make():
    n = 0
    def hook(gradient):
        nonlocal n
        n += 1
        return gradient / n
    return hook
model[0].weight.register_hook(make())
model[0].bias.register_hook(Scale())
for epoch in trial.steps():"""
    + EPOCH
    + "    trial.report(score=loss)",
    "optimizers that only hooks hold": """
model = nn.Linear(8, 2)
def attach(parameter):
    opt = torch.optim.Adam([parameter], lr=0.01)
    def hook(one):
        opt.step(); opt.zero_grad()
    parameter.register_post_accumulate_grad_hook(hook)
for parameter in model.parameters(): attach(parameter)
def result(): return model.state_dict()
for epoch in trial.steps():
    for x, y in batches():
        loss = F.cross_entropy(model(x), y); loss.backward()
    trial.report(score=loss)""",
    "a new tensor with hooks, and hooks whose handles nobody keeps": MODEL
    + """
scale = None
for epoch in trial.steps():
    if scale is None:
        scale = nn.Parameter(torch.ones(2)); scale.register_hook(lambda gradient: gradient * 0.5)
        other = torch.optim.SGD([scale], lr=0.1)
        scale.register_post_accumulate_grad_hook(lambda one: other.step())
    model[0].register_forward_hook(lambda module, given, out: out * 1.01)
    model[0].weight.register_hook(lambda gradient: gradient * 1.1)
    for x, y in batches():
        opt.zero_grad(); scale.grad = None
        loss = F.cross_entropy(model(x) * scale, y); loss.backward(); opt.step()
    trial.report(score=loss, scale=scale.sum(), hooks=len(model[0]._forward_hooks))""",
}

FILES = {
    "the best weights in a new BytesIO": MODEL
    + """
import io
best, kept = 1e9, io.BytesIO()
for epoch in trial.steps():"""
    + EPOCH
    + """
    if epoch == 1: best, kept = loss.item(), io.BytesIO(); torch.save(model.state_dict(), kept)
    trial.report(score=best)
kept.seek(0); model.load_state_dict(torch.load(kept))""",
    "the best weights in one BytesIO": MODEL
    + """
import io
kept, log, both = io.BytesIO(), io.StringIO(newline=""), []
for epoch in trial.steps():"""
    + EPOCH
    + """
    if epoch == 0:
        kept.seek(0); kept.truncate(); torch.save(model.state_dict(), kept); kept.seek(7); both = [kept, log]
    print(epoch, loss.item(), "\\u00e9\\r", file=log)
    trial.report(score=kept.tell(), lines=len(log.getvalue()), same=both[0] is kept and both[1] is log)
kept.seek(0); model.load_state_dict(torch.load(kept))
def result(): return model.state_dict(), log.getvalue()""",
    "files in memory that are closed": """
import io
one, other, late = io.BytesIO(b"abc"), io.StringIO("abc"), None
for epoch in trial.steps():
    if epoch == 1: one.close(); late = io.StringIO("x"); late.close()
    trial.report(score=one.closed, other=len(other.read(1)), late=late is not None and late.closed)
def result(): return other.tell()""",
}

OBJECTS = {
    "a defaultdict that is frozen in the loop": """
from collections import defaultdict
vocabulary, counts = defaultdict(lambda: len(vocabulary)), defaultdict(int)
def result(): return dict(vocabulary), dict(counts)
for epoch in trial.steps():
    if epoch == 1: vocabulary.default_factory = None; counts.default_factory = lambda: 10
    n = 0
    for word in [f"{epoch} {i}" for i in range(3)]:
        try: n += vocabulary[word]
        except KeyError: n -= 1
    counts[epoch] += 1
    trial.report(score=n, size=len(vocabulary), counted=sum(counts.values()))""",
}

SCRIPT = {
    "TorchScript that counts, and changes its mode": """
class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.l = nn.Linear(8, 2); self.d = nn.Dropout(0.5); self.calls = 0; self.seen = [0.0]
        self.mean = torch.zeros(2)
    def forward(self, x):
        self.calls += 1
        out = self.l(self.d(x)) * (1.0 + 0.1 * self.calls)
        self.seen.append(float(out.mean())); self.mean = self.mean + out.detach().mean(0)
        return out
model, traced = torch.jit.script(Net()), torch.jit.trace(nn.Sequential(nn.Linear(8, 2)), X)
opt = torch.optim.AdamW([*model.parameters(), *traced.parameters()], lr=0.01)
def result(): return model.state_dict(), traced.state_dict()
for epoch in trial.steps():
    if epoch == 1: model.d.eval()
    for x, y in batches():
        opt.zero_grad(); loss = F.cross_entropy(model(x) + traced(x), y); loss.backward(); opt.step()
    trial.report(score=loss, calls=model.calls, seen=sum(model.seen), mean=model.mean.sum(), mode=model.d.training)""",
}

CLASSES = {
    "an attribute of a class that is deleted, and one that is new": """
class Config:
    warm, n = True, 0
    lock = None
for epoch in trial.steps():
    if epoch == 1: del Config.warm
    if epoch == 2: Config.late = (x for x in ())
    Config.n += 1
    trial.report(score=float(hasattr(Config, "warm")), n=Config.n)
def result(): return Config.n""",
    "weights that are parametrized, and no longer": MODEL
    + """
from torch.nn.utils import parametrizations, parametrize
parametrizations.spectral_norm(model[3])
for epoch in trial.steps():
    if epoch == 1: parametrizations.weight_norm(model[0])
    if epoch == 2: parametrize.remove_parametrizations(model[3], "weight")
    if epoch == 4: parametrize.remove_parametrizations(model[0], "weight")
    if epoch in (1, 2, 4): opt = torch.optim.AdamW(model.parameters(), lr=0.01)"""
    + EPOCH
    + "    trial.report(score=loss, kind=float(len(type(model[0]).__name__)))",
    "a function that a library makes, with variables of its own": MODEL
    + """
from torch.optim import swa_utils
average = None
for epoch in trial.steps():
    if average is None: average = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.5))"""
    + EPOCH
    + """
    average.update_parameters(model)
    trial.report(score=loss, mean=average.module[0].weight.sum())""",
    "an object that gets another class": """
class Warm:
    def rate(self): return 0.1
class Full(Warm):
    def __init__(self): self.n = 0
    def rate(self): self.n += 1; return 1.0 + self.n
phase = Warm(); holder = [phase]
for epoch in trial.steps():
    if epoch == 1: phase.__class__ = Full; phase.n = 0
    if epoch == 4: phase.__class__ = Warm
    trial.report(score=phase.rate(), held=holder[0] is phase)
def result(): return phase.n""",
}

LOCKS = {
    "locks, loggers and queues in objects that the loop makes": """
import logging, queue, threading
class Buffer:
    def __init__(self):
        self.lock, self.again, self.items, self.log = threading.Lock(), threading.RLock(), [], logging.getLogger("mine")
        self.ready, self.some, self.changed = threading.Event(), threading.Semaphore(9), threading.Condition(self.lock)
    def add(self, item):
        with self.changed:
            assert self.lock.locked()
            self.items.append(item); self.log.debug("added"); self.some.acquire(); self.changed.notify_all()
        if item == 1: self.ready.set()
class Holder: lock = buffer = None
class Log:
    def __init__(self): self.rows, self.lock = [], threading.Lock()
    def __getstate__(self): return dict(self.__dict__)
early, buffer, holder, log = threading.Event(), None, Holder(), Log()
for epoch in trial.steps():
    if buffer is None:
        buffer = holder.buffer = Buffer(); holder.lock = buffer.lock
        q, p = queue.Queue(), queue.PriorityQueue()
    if epoch == 2: early.set()
    with log.lock: log.rows.append(epoch)
    buffer.add(epoch); q.put(epoch); p.put((-epoch, epoch)); q.put(q.get())
    trial.report(score=sum(buffer.items) + 10 * sum(log.rows), n=q.qsize(), p=p.queue[0][1],
                 left=buffer.some._value, early=early.is_set(), ready=buffer.ready.is_set(),
                 same=holder.lock is buffer.lock and holder.buffer is buffer)
def result(): return list(q.queue), buffer.log is logging.getLogger("mine")""",
}

SETTINGS = {
    "another default dtype from one turn on": MODEL
    + """
for epoch in trial.steps():
    if epoch == 1: torch.set_default_dtype(torch.float64)
    trial.report(score=torch.rand(3).sum(), bits=torch.rand(1).element_size())""",
    "no gradients from one turn on": MODEL
    + """
for epoch in trial.steps():
    if epoch == 2: torch.set_grad_enabled(False)
    out = model(X).sum()
    if out.requires_grad: opt.zero_grad(); out.backward(); opt.step()
    trial.report(score=out.item())""",
    "numpy's errors and decimal's precision": """
import numpy as np, decimal
for epoch in trial.steps():
    if epoch == 1: np.seterr(all="raise"); decimal.getcontext().prec = 5
    if epoch == 3: np.seterr(all="ignore")
    try: value = float(np.float64(1) / np.float64(0))
    except FloatingPointError: value = -1.0
    trial.report(score=min(value, 1e9), third=float(decimal.Decimal(1) / decimal.Decimal(3)))
def result(): return 0""",
    "settings of torch, pandas, scikit-learn and Python": """
import pandas, sklearn, sys
for epoch in trial.steps():
    if epoch == 1:
        torch.set_num_threads(2); torch.autograd.set_detect_anomaly(True); sys.set_int_max_str_digits(9000)
        torch.backends.cuda.enable_flash_sdp(False); torch.backends.mkldnn.deterministic = True
        sklearn.set_config(assume_finite=True); pandas.set_option("compute.use_numexpr", False)
    trial.report(
        score=torch.get_num_threads() + 10 * torch.is_anomaly_enabled(), digits=sys.get_int_max_str_digits(),
        flash=torch.backends.cuda.flash_sdp_enabled(), same=torch.backends.mkldnn.deterministic,
        finite=sklearn.get_config()["assume_finite"], fast=pandas.get_option("compute.use_numexpr"),
    )
def result(): return 0""",
    "environment variables": """
import os
os.environ["GONE"] = "1"
for epoch in trial.steps():
    os.environ["PHASE"] = str(int(os.environ.get("PHASE", "0")) + 1)
    if epoch == 1: del os.environ["GONE"]
    trial.report(score=int(os.environ["PHASE"]), gone="GONE" not in os.environ)
def result(): return os.environ["PHASE"]""",
}
#: Names that look like Python's own.
UNDERSCORES = {
    "in the cell, a class and a module": """
import types
class Count: __n__ = 0; __hash__ = None
made = types.ModuleType("made"); made.__n__ = 0
__best__, __seen__, __ = 0, [], 0
for epoch in trial.steps():
    __best__ += 1; __seen__.append(epoch); __ += 2; Count.__n__ += 1; made.__n__ += 1
    trial.report(score=__best__ + 10 * len(__seen__) + 100 * __, n=Count.__n__ + 10 * made.__n__)
""",
}
#: Databases that are nowhere but in memory.
DATABASES = {
    "databases in memory": """
import sqlite3
db, late, more = sqlite3.connect(":memory:"), None, {}
db.execute("create table t (n)"); db.commit(); db.row_factory = sqlite3.Row
for epoch in trial.steps():
    if late is None: late = sqlite3.connect(":memory:"); late.execute("create table t (n)")
    more[epoch] = sqlite3.connect(":memory:"); late.execute("pragma foreign_keys = 1")
    for one in (db, late): one.execute("insert into t values (?)", (epoch,)); one.commit()
    score = sum(one.execute("select count(*) + sum(n) as s from t").fetchone()[0] for one in (db, late))
    n = db.execute("select max(n) as top from t").fetchone()["top"] + late.execute("pragma foreign_keys").fetchone()[0]
    trial.report(score=score + 100 * len(more), n=n)
""",
}
#: The generators that all code shares, held by objects and names: they stay the ones that all code shares.
SHARED = {
    "scikit-learn that draws from NumPy's own generator": """
import numpy as np
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.utils import check_random_state
A = np.random.RandomState(0).randn(40, 3); b = (A[:, 0] > 0) * 1; box = {}
gb = GradientBoostingClassifier(n_estimators=1, warm_start=True, subsample=.8)
for epoch in trial.steps():
    if "r" not in box: box["r"] = check_random_state(None); draw = np.random.rand
    gb.n_estimators += 1; gb.fit(A, b)
    trial.report(score=gb.predict_proba(A).var(), n=np.random.rand(), m=box["r"].rand() + 10 * draw())
""",
    "Python's own and torch's": """
import random
box = {}
for epoch in trial.steps():
    if not box: box = {"r": random._inst, "t": torch.default_generator, "draw": random.random}
    trial.report(score=box["r"].random() + 10 * random.random() + 100 * box["draw"](),
                 n=torch.rand(1, generator=box["t"]).item() + 10 * torch.rand(1).item())
""",
}
#: The last three have no model whose weights to compare.
PLAIN = {name: f"{loop}def result(): return 0\n" for name, loop in {**UNDERSCORES, **DATABASES, **SHARED}.items()}

LOCALS = {
    "attributes of a thread's own, and context variables": """
import contextvars, threading
class Own(threading.local):
    def __init__(self): self.seen = 0
class Noted:
    def __init__(self, n): self.note, self.n = contextvars.ContextVar("note", default=n), n
local, own, late, history = threading.local(), Own(), None, []
local.turns = []
turn, notes = contextvars.ContextVar("turn", default=0), contextvars.ContextVar("notes")
def noted(): return [(one.n, one.note.get()) for one in history]
def result(): return local.turns, own.seen, late.n, turn.get(), notes.get(), noted()
for epoch in trial.steps():
    if late is None:
        late = Own()
        late.n = 0
    history.append(Noted(epoch))
    if epoch == 1: history[-1].note.set(7)
    local.turns.append(epoch); own.seen += 1; late.n += 1
    turn.set(turn.get() + 1); notes.set([*notes.get([]), epoch])
    trial.report(score=len(local.turns), own=own.seen, late=late.n, turn=turn.get(), notes=len(notes.get()))""",
}

BOUND = {
    "generators of numba's own, in the loop and in workers that outlive a pass": """
import random
import numpy as np
from numba import njit
from torch.utils.data import DataLoader, Dataset
@njit
def draw(n): return np.random.randint(n) + random.random()
class Data(Dataset):
    def __len__(self): return 4
    def __getitem__(self, place): return place + draw(100)
loader = DataLoader(Data(), 2, num_workers=1, persistent_workers=True)
for epoch in trial.steps(): trial.report(score=draw(1000), read=sum(batch.sum() for batch in loader))
def result(): return draw(1000)""",
    "generators of numba's own in the workers of each pass": """
import numpy as np
from numba import njit
from torch.utils.data import DataLoader, Dataset
@njit
def draw(n): return np.random.randint(n)
class Data(Dataset):
    def __len__(self): return 4
    def __getitem__(self, place): return draw(1_000_000)
loader = DataLoader(Data(), 1, num_workers=2)
for epoch in trial.steps():
    rows = [batch.item() for batch in loader]
    assert len({*rows}) == 4, rows
    trial.report(score=sum(rows), own=draw(1000))
def result(): return draw(1000)""",
    "the generator of Polars, and a value that trials share": """
import polars
rows = polars.DataFrame({"row": range(1000)})
def some(): return rows["row"].shuffle()[:5].to_list()
def prepare(): return some()
first = some()
for epoch in trial.steps():
    shared = sum(trial.cached(prepare))
    trial.report(score=sum(some()), first=sum(first), drawn=rows.sample(3)["row"].sum(), shared=shared)
def result(): return some()""",
    "attributes by another name": """
import dataclasses, torch, types
@dataclasses.dataclass
class Rate:
    value: float = 1.0
rates, place, model = [Rate(), Rate()], types.SimpleNamespace(x=0), torch.nn.Linear(2, 2)
model.n, by_name, kept = 0, None, []
for epoch in trial.steps():
    if epoch == 0:
        by_name = [vars(rate) for rate in rates]
        names = place.__dict__
        kept.append({"of": model.__dict__})
    by_name[1]["value"] *= 0.5
    names["x"] += 1
    kept[0]["of"]["n"] += 2
    trial.report(score=rates[1].value, x=place.x, n=model.n)
def result(): return [rates[1].value, place.x, model.n]""",
    "methods in C that stay bound, and attributes of a partial": """
import functools, itertools
number, has = itertools.count(3).__next__, None
def train():
    seen = {}
    put, size = seen.__setitem__, seen.__len__
    del seen
    for epoch in trial.steps():
        global has
        put(epoch, 1); called.n += 1
        if has is None: table = {0}; has, add = table.__contains__, table.add; del table
        add(epoch)
        trial.report(score=number(), size=size(), has=has(epoch - 1), n=called.n)
called = functools.partial(max, 0); called.n = 0
train()
def result(): return number(), called.n""",
    "weak references that call back, dictionaries of them, and proxies": """
import weakref
class Node:
    parent, n = None, 0
class Leaf(Node): pass
nodes, gone = [Node() for _ in range(4)], []
by_key, by_value, all_ = weakref.WeakKeyDictionary({nodes[3]: 7}), weakref.WeakValueDictionary(), weakref.WeakSet(nodes)
late, refs, root = None, [weakref.ref(one, gone.append) for one in nodes], nodes[3]
for epoch in trial.steps():
    if late is None: late = weakref.WeakKeyDictionary(); leaf = Leaf(); leaf.parent = weakref.proxy(root)
    node = Node(); nodes.append(node)
    by_key[node] = late[node] = epoch; by_value[epoch] = node; all_.add(node)
    refs.append(weakref.ref(node, gone.append))
    del node
    if epoch: nodes.pop(); nodes.pop(0)
    leaf.parent.n += 1
    trial.report(score=root.n, gone=len(gone), k=sum(by_key.values()), v=len(by_value), a=len(all_), late=len(late))
def result(): return root.n, len(gone), sorted(by_key.values()), sorted(by_value), len(all_), sorted(late.values())""",
    "a trainer with a state_dict of a part, beside what cannot be saved": """
import logging, threading
from concurrent.futures import ThreadPoolExecutor
from tqdm import tqdm
class Trainer:
    def __init__(self): self.w, self.history, self.best = 0.0, [], 9.0
    def state_dict(self): return {"w": self.w}
    def load_state_dict(self, state): self.w = state["w"]
    def epoch(self):
        self.bar, self.handler, self.pool = tqdm([1.0, 2.0], disable=True), logging.NullHandler(), ThreadPoolExecutor(1)
        self.thread = threading.Thread(target=list); self.thread.start(); self.thread.join()
        self.w += sum(self.bar); self.history.append(self.w); self.best = min(self.best, self.w)
        return sum(self.history) + self.best
trainer = Trainer()
for epoch in trial.steps(): trial.report(score=trainer.epoch())
def result(): return trainer.w, trainer.history, trainer.best""",
    "what own classes add to handlers, bars and threads": """
import logging, threading
from tqdm import tqdm
class Keep(logging.Handler):
    def __init__(self): super().__init__(); self.records = []
    def emit(self, record): self.records.append(record.args[0])
class Bar(tqdm):
    sum = 0.0
    def add(self, x): self.sum += x; self.update()
class Work(threading.Thread):
    def __init__(self, before): super().__init__(); self.found = before
    def run(self): self.found += 1
keep, bar, log, work = Keep(), Bar(total=9, disable=True), logging.getLogger("mine"), Work(1)
log.propagate = False; log.addHandler(keep)
work.start(); work.join()
for epoch in trial.steps():
    log.warning("%d", epoch); bar.add(epoch / 2); work.found += 1
    trial.report(score=sum(keep.records), bar=bar.sum, found=work.found)
def result(): return keep.records, bar.sum, work.found""",
    "environments that pickle as their arguments": """
import random
class EzPickle:
    def __init__(self, *given): self.given = given
    def __getstate__(self): return {"given": self.given}
    def __setstate__(self, state): vars(self).update(vars(type(self)(*state["given"])))
class Env(EzPickle):
    def __init__(self, seed): super().__init__(seed); self.rng, self.t = random.Random(seed), 0
    def step(self): self.t += 1; return self.t + self.rng.random()
class Body:
    def __reduce__(self): raise TypeError("a body of another language")
class World(Env):
    def __init__(self): self.given, self.rng, self.bodies = (), random.Random(3), []
    def reset(self): [vars(one) for one in self.bodies]; self.bodies = [Body()]; return self.rng.random()
class Wrapper:
    def __init__(self, env): self.env = env
    def step(self): return self.env.step()
env, late, world = Wrapper(Env(1)), None, World()
world.reset()
for epoch in trial.steps():
    if late is None: late = Wrapper(Env(2))
    trial.report(score=env.step(), late=late.step(), world=world.reset())
def result(): return env.step(), late.step(), world.reset()""",
}

ALL = {
    name: HEAD + source + FOOT
    for name, source in (HOOKS | FILES | OBJECTS | SCRIPT | CLASSES | LOCKS | SETTINGS | PLAIN | LOCALS | BOUND).items()
}

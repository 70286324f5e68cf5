"""Loops with objects that are easily made otherwise by a resume: optimizers of the loop, containers with an order of
their own, what pickles only with arguments. Each ends with ``result()``, as those of :mod:`trial.loops`."""

from trial.loops import EPOCH, FOOT, HEAD, MODEL

OPTIMIZERS = {
    "LBFGS fine-tuning after Adam": MODEL
    + """for epoch in trial.steps():
    if epoch == 2: opt = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=3, history_size=3)
    if epoch < 2:
        loss = F.cross_entropy(model(X), Y); opt.zero_grad(); loss.backward(); opt.step()
    else:
        def closure():
            opt.zero_grad(); l = F.cross_entropy(model(X), Y); l.backward(); return l
        loss = opt.step(closure)
    trial.report(score=loss)""",
    "scheduler and optimizer of the loop": MODEL
    + """
opt = None
for epoch in trial.steps():
    if opt is None:
        opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, 0.2, total_steps=20)
    for x, y in batches():
        opt.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step(); sched.step()
    trial.report(score=loss, lr=sched.get_last_lr()[0], c=opt._opt_called)""",
    "own optimizer with attributes, made in the loop": MODEL
    + """
class Warm(torch.optim.SGD):
    def __init__(self, params, lr, warm=3):
        super().__init__(params, lr=lr, momentum=0.9); self.n = 0; self.warm = warm
    def step(self, closure=None):
        self.n += 1; s = min(1, self.n / self.warm); old = [g["lr"] for g in self.param_groups]
        for g in self.param_groups: g["lr"] *= s
        r = super().step(closure)
        for g, l in zip(self.param_groups, old): g["lr"] = l
        return r
for epoch in trial.steps():
    if epoch == 1: opt = Warm(model.parameters(), 0.1)"""
    + EPOCH
    + """    trial.report(score=loss, n=getattr(opt, 'n', 0))""",
    "step hook on an optimizer made in the loop": MODEL
    + """
n = [0]
def after(o, a, k): n[0] += 1; [p.data.mul_(0.99) for g in o.param_groups for p in g["params"]]
for epoch in trial.steps():
    if epoch == 1: opt = torch.optim.SGD(model.parameters(), lr=0.1); opt.register_step_post_hook(after)"""
    + EPOCH
    + """    trial.report(score=loss, n=n[0])""",
    "lazy layers with buffers, which the first step makes": """
class LazyScale(nn.modules.lazy.LazyModuleMixin, nn.Linear):
    cls_to_become = nn.Linear
    def __init__(self): super().__init__(1, 1); self.weight = nn.UninitializedParameter()
    def initialize_parameters(self, x):
        if self.has_uninitialized_params():
            self.in_features = x.shape[1]; self.weight.materialize((1, x.shape[1])); self.reset_parameters()
model = nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.LazyBatchNorm1d(), nn.LazyLinear(2))
scale, opt = LazyScale(), None
def result(): return model.state_dict(), scale.state_dict()
for epoch in trial.steps():
    if opt is None: model(X[:4]); scale(X[:4]); opt = torch.optim.Adam([*model.parameters(), *scale.parameters()])"""
    + EPOCH.replace("model(x)", "model(x) * scale(x)")
    + """    trial.report(score=loss, mean=model[2].running_mean.sum())""",
    "optimizer swapped, state carried": MODEL
    + """for epoch in trial.steps():"""
    + EPOCH
    + """
    if epoch == 1:
        groups = [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[3].parameters()}]
        old = opt; opt = torch.optim.SGD(groups, lr=0.05, momentum=0.9)
        opt.lookup = {p: i for i, p in enumerate(model.parameters())}
    if epoch == 3:
        opt.state.update({p: {"momentum_buffer": s["exp_avg"].clone()} for p, s in old.state.items()})
    trial.report(score=loss, n=len(getattr(opt, "lookup", {})))""",
}
OBJECTS = {
    "a closed database": """
import sqlite3
db = sqlite3.connect(":memory:"); db.close()
for epoch in trial.steps(): trial.report(score=epoch)
""",
    "a library's decorated function": """
m = nn.Linear(3, 1); clip = None
for epoch in trial.steps():
    if clip is None: clip = torch.nn.utils.clip_grad_norm_
    loss = m(torch.randn(2, 3)).sum(); loss.backward()
    trial.report(score=clip(m.parameters(), 1.0), same=clip is torch.nn.utils.clip_grad_norm_)
""",
    "method wrappers, functions of NumPy, cached properties": """
import numpy as np, functools
add = (5).__add__; act = np.tanh
class C:
    @functools.cached_property
    def x(self): return torch.rand(()).item()
c = None
for epoch in trial.steps():
    if c is None:
        class D:
            @functools.cached_property
            def x(self): return torch.rand(()).item()
        c, d = C(), D()
    trial.report(score=add(epoch) + float(act(0.5)) + c.x + d.x + D().x)
""",
    "a subclass of dict with a count": """
class R(dict):
    def __init__(self, **k): super().__init__(**k); self.n = 0
    def __setitem__(self, k, v): self.n += 1; super().__setitem__(k, v)
r = None
for epoch in trial.steps():
    if r is None: r = R(a=1)
    r[epoch] = epoch
    trial.report(score=len(r) + r.n)
""",
    "subclasses of set, deque and OrderedDict made in the loop": """
from collections import deque, OrderedDict
class Names(set):
    def __init__(self, name): super().__init__(); self.name = name
class Window(deque):
    def __init__(self, n): super().__init__(maxlen=n)
class LRU(OrderedDict):
    def __init__(self, cap): super().__init__(); self.cap = cap
    def __setitem__(self, k, v):
        super().__setitem__(k, v); self.move_to_end(k)
        if len(self) > self.cap: self.popitem(last=False)
n = None
for epoch in trial.steps():
    if n is None: n, w, l = Names("x"), Window(2), LRU(3)
    n.add(epoch); w.append(epoch); l[epoch % 4] = epoch; l[1] = epoch
    order = sum(k * (i + 1) for i, k in enumerate(l))
    trial.report(score=len(n) * 100 + sum(w) + list(l)[0] * 1000, w=w.maxlen, l=order)
""",
    "an exception with a field in C": """
class Stop(SystemExit):
    def __init__(self, code): super().__init__(code)
s = None
for epoch in trial.steps():
    if s is None: s = Stop(3)
    trial.report(score=s.code + epoch)
""",
    "losses as arrays, and views of a tensor that is gone": """
losses, views = [], None
for epoch in trial.steps():
    losses.append(F.binary_cross_entropy(torch.rand(100, 100), torch.rand(100, 100)).numpy())
    if views is None: a = torch.rand(6).numpy(); views = [a, a[1:], a[::-1]]
    views[0] *= 0.5; views[1] += 1
    trial.report(score=float(sum(losses)), v=float(views[2][0] + views[2][3]))
""",
    "read-only views": """
import numpy as np
a = v = None
for epoch in trial.steps():
    if a is None:
        a = np.zeros((3, 4)); v = np.broadcast_to(a[0], (2, 4)); w = a[1:]; w.flags.writeable = False
    a += 1
    trial.report(score=float(v.sum() + w.sum()), f=v.flags.writeable + 2 * w.flags.writeable)
""",
    "__new__ with an argument": """
class Angle:
    def __new__(cls, deg): o = super().__new__(cls); o.deg = deg % 360; return o
a = None
for epoch in trial.steps():
    if a is None: a = Angle(30)
    a.deg += 100
    trial.report(score=a.deg)""",
    "an exception whose __init__ takes more": """
class Bad(Exception):
    def __init__(self, a, b): super().__init__(f"{a} {b}"); self.a, self.b = a, b
last = None; n = 0
for epoch in trial.steps():
    if last is None:
        try: raise Bad(1, 2)
        except Bad as e: last = e
    n += last.a + len(str(last))
    trial.report(score=n)
""",
    "torch generator of the loop": """
import torch
g = None
for epoch in trial.steps():
    if g is None: g = torch.Generator().manual_seed(3); d = {"g": torch.Generator()}
    trial.report(score=torch.rand((), generator=g), d=torch.rand((), generator=d["g"]))
""",
    "a seed sequence that a generator shares": """
import numpy as np
ss = np.random.SeedSequence(7); g = np.random.default_rng(ss)
for epoch in trial.steps():
    g.spawn(1)
    r = np.random.default_rng(ss.spawn(1)[0])
    trial.report(score=ss.n_children_spawned, r=r.random())
""",
    "a random generator of an own class": """
import random
class Counted(random.Random):
    count = 0
    def __init__(self, seed=None, scale=1.0): super().__init__(seed); self.scale = scale
    def random(self): self.count += 1; return super().random() * self.scale
early, late = Counted(3, 2.0), None
for epoch in trial.steps():
    if late is None: late = Counted(4); late.scale = 3.0
    early.scale *= 0.5
    trial.report(score=early.random() + late.random(), n=early.count + late.count, gauss=early.gauss(0, 1))
""",
    "an operator of one's own": """
@torch.library.custom_op("hunt3::scale", mutates_args=())
def scale(x: torch.Tensor, k: float) -> torch.Tensor: return x * k
@scale.register_fake
def _(x, k): return torch.empty_like(x)
n = 0
for epoch in trial.steps():
    n += 1
    trial.report(score=scale(X, 0.5).sum() + n)""",
    "TypeVar alone": """from typing import TypeVar
T = TypeVar('T')
for epoch in trial.steps():
    trial.report(score=epoch)""",
    "Generic class, subscripted": """from typing import TypeVar, Generic
T = TypeVar('T')
class B(Generic[T]):
    def __init__(self): self.n = 0
b = B[int]()
for epoch in trial.steps():
    b.n += 1
    trial.report(score=b.n)""",
    "a library's decorator applied in the loop": """
def f(x): return x.sum()
for epoch in trial.steps():
    if epoch == 0: f = torch.no_grad()(f)
    trial.report(score=f(X))""",
    "module made by code": """
import types
cfg = types.ModuleType("cfg"); cfg.lr = 1.0; cfg.seen = []
for epoch in trial.steps():
    cfg.lr *= 0.5; cfg.seen.append(epoch)
    trial.report(score=cfg.lr, n=len(cfg.seen))
""",
    "module from a file": """
import importlib.util
lines = ["lr, history = 1.0, []", "def note(x):", "    global lr", "    history.append(x); lr *= 0.5"]
p = trial.folder / "conf.py"; p.write_text("\\n".join(lines))
spec = importlib.util.spec_from_file_location("conf", p); conf = importlib.util.module_from_spec(spec)
spec.loader.exec_module(conf)
for epoch in trial.steps():
    conf.note(epoch)
    trial.report(score=conf.lr, n=len(conf.history))
""",
}
CONTAINERS = {
    "list iterator over a list that grows": """
todo = [1, 2]; it = iter(todo); late = None
for epoch in trial.steps():
    if late is None: more = [5]; late = iter(more)
    todo.append(epoch * 10); more.append(epoch)
    trial.report(score=next(it), l=next(late))""",
    "worklist iterator in an object": """
class Crawl:
    def __init__(self): self.work = [1]; self.it = iter(self.work)
    def one(self): n = next(self.it); self.work += [2 * n, 2 * n + 1]; return n
c = Crawl()
for epoch in trial.steps():
    c.one(); n = c.one()
    trial.report(score=n, l=len(c.work))""",
    "cycle over a list, and zip of one iterator": """
import itertools
xs = [1, 2, 3]; cy = itertools.cycle(xs); it = iter(range(100)); pairs = zip(it, it); en = enumerate(cy)
for epoch in trial.steps():
    xs.append(epoch); a, b = next(pairs)
    trial.report(score=next(cy) * 100 + next(en)[1], p=a * 100 + b, n=next(it))""",
    "list subclass that iterates backwards": """
class Stack(list):
    def __iter__(self): return reversed(self)
s = Stack([1, 2])
for epoch in trial.steps():
    s.append(epoch * 10)
    trial.report(score=s[0] * 1000 + s[-1], first=next(iter(s)))""",
    "list subclass whose iteration draws": """
import random
class Data(list):
    passes = 0
    def __iter__(self):
        Data.passes += 1
        order = list(range(len(self))); random.shuffle(order)
        return (self[i] for i in order)
d = Data([1.0, 2.0, 3.0, 4.0])
for epoch in trial.steps():
    v = 0.0
    for i, x in enumerate(d): v += i * x
    trial.report(score=v, n=Data.passes, r=random.random())""",
    "dict subclass with counted and scaled reads": """
class Counted(dict):
    def __init__(self, *a): super().__init__(*a); self.reads = 0
    def __getitem__(self, k): self.reads += 1; return super().__getitem__(k) * 2
    def __iter__(self): self.reads += 1; return iter(sorted(super().keys(), reverse=True))
    def keys(self): self.reads += 1; return super().keys()
c = Counted({"a": 1, "b": 2})
for epoch in trial.steps():
    c["a"] = c["b"] + epoch; c[f"k{epoch}"] = 1
    trial.report(score=c["a"], n=c.reads, f=ord(next(iter(c))[0]))""",
    "deque subclass as a ring with order": """
from collections import deque
class Ring(deque):
    def __iter__(self): return iter(sorted(super().__iter__()))
    def __getitem__(self, i): return super().__getitem__(-1 - i)
r = Ring(maxlen=4)
for epoch in trial.steps():
    r.append((epoch * 7) % 5)
    trial.report(score=r[0], f=r.popleft() if len(r) == 4 else -1, s=next(iter(r)))""",
    "an OrderedDict": """
from collections import OrderedDict
lru = OrderedDict((i, i) for i in range(5))
for epoch in trial.steps():
    lru.move_to_end(epoch % 3)
    if epoch == 3: lru[9] = lru.popitem(last=False)[1]
    trial.report(score=next(iter(lru)) * 10 + next(reversed(lru)), s=sum(k * (i + 1) for i, k in enumerate(lru)))
""",
    "a subclass of OrderedDict": """
from collections import OrderedDict
class LRU(OrderedDict):
    def __getitem__(self, k): v = super().__getitem__(k); self.move_to_end(k); return v
lru = LRU((i, i) for i in range(5)); late = None
for epoch in trial.steps():
    if late is None: late = LRU((i, i) for i in range(5))
    lru[epoch % 3]; late[epoch % 3]
    trial.report(score=next(iter(lru)) * 10 + next(reversed(lru)), s=sum(k * (i + 1) for i, k in enumerate(late)))
""",
    "an OrderedDict of which only the order changes": """
from collections import OrderedDict
lru = OrderedDict((f"{i}", [i]) for i in range(4))
for epoch in trial.steps():
    lru.move_to_end(f"{epoch % 2}")
    trial.report(score=sum(int(k) * (i + 1) for i, k in enumerate(lru)))
""",
}
AROUND = {
    "the working directory": """
import os
for epoch in trial.steps():
    if epoch == 0:
        os.makedirs(trial.folder / "w", exist_ok=True); os.chdir(trial.folder / "w")
        open("a.txt", "w").write("5")
    trial.report(score=int(open("a.txt").read()) + epoch)
""",
    "denormal numbers": """
for epoch in trial.steps():
    if epoch == 1: torch.set_flush_denormal(True)
    trial.report(score=float(torch.tensor(1e-310, dtype=torch.float64) * 1 > 0))
""",
    "flags of torch's backends": """
for epoch in trial.steps():
    if epoch == 1: torch.backends.mkldnn.enabled = False; torch.backends.cudnn.benchmark = True
    trial.report(score=2 * torch.backends.mkldnn.enabled + torch.backends.cudnn.benchmark)
""",
    "a logger's level": """
import logging
log = logging.getLogger("lvl"); n = 0
for epoch in trial.steps():
    if epoch == 1: log.setLevel(logging.DEBUG)
    if log.isEnabledFor(logging.DEBUG): n += 1
    trial.report(score=n)
""",
    "XGBoost, which samples rows": """
import numpy as np, xgboost as xgb
rng = np.random.RandomState(1); A = rng.randn(60, 4); y = (A[:, 0] > 0).astype(int); d = xgb.DMatrix(A, y); bst = None
for epoch in trial.steps():
    bst = xgb.train({"nthread": 1, "seed": 1, "subsample": 0.5}, d, 2, xgb_model=bst)
    trial.report(score=float(bst.predict(d).sum()), n=bst.num_boosted_rounds())
""",
}
#: Another value takes the place of one that looks the same.
VALUES = {
    "functions that were made with one name": """
def made(body):
    ns = {}; exec(f"def f(x): return {body}", ns); return ns["f"]
f, g = made("x + 1"), eval("lambda x: x + 1", {})
for epoch in trial.steps():
    if epoch == 1: f, g = made("x * 100"), eval("lambda x: x * 10", {})
    trial.report(score=f(3), other=g(3))
""",
    "a long regular expression": """
import re
words = [f"word{i:03d}" for i in range(40)]; pat = re.compile("|".join(words))
for epoch in trial.steps():
    if epoch == 1: pat = re.compile("|".join([*words, "new"]))
    trial.report(score=len(pat.findall("new0 new1 new2 new3 new4")))
""",
    "members of an enum with a repr of its own": """
import enum
class Phase(enum.Enum):
    WARM = 1; LONG = 2
    def __repr__(self): return "Phase"
phase = Phase.WARM
for epoch in trial.steps():
    if epoch == 1: phase = Phase.LONG
    trial.report(score=phase.value)
""",
    "a time with another unit": """
import numpy as np
gap = np.timedelta64(1, "D")
for epoch in trial.steps():
    if epoch == 1: gap = np.timedelta64(1, "s")
    trial.report(score=gap.astype("m8[s]").astype(int))
""",
}
#: Objects that answer for others, and views of others' memory.
BEHIND = {
    "a dict whose keys are attributes, made in the loop": """
class Config(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__
cfg = None
for epoch in trial.steps():
    if cfg is None: cfg = Config(lr=0.1, n=0)
    cfg.n += 1; cfg.lr *= 0.9
    trial.report(score=cfg.lr, n=cfg.n)
""",
    "a dict whose keys are attributes, made before it": """
class Config(dict):
    def __getattr__(self, name): return self[name]
    def __setattr__(self, name, value): self[name] = value
cfg = Config(lr=0.1, n=0)
for epoch in trial.steps():
    cfg.n += 1; cfg.lr *= 0.9
    trial.report(score=cfg.lr, n=cfg.n)
""",
    "a wrapper that passes on what it lacks": """
class Wrapper:
    def __init__(self, inner): self.inner = inner; self.calls = 0
    def __getattr__(self, name): return getattr(self.inner, name)
box = None
for epoch in trial.steps():
    if box is None: box = Wrapper([1, 2])
    box.append(epoch); box.calls += 1
    trial.report(score=len(box.inner), n=box.calls)
""",
    "one with slots, around a module": """
class Wrapper:
    __slots__ = ("module", "scale", "missing")
    def __init__(self, module, scale): self.module = module; self.scale = scale
    def __getattr__(self, name): return getattr(self.module, name)
m = None
for epoch in trial.steps():
    if m is None: m = Wrapper(nn.Linear(3, 1), 2.0)
    loss = (m.forward(torch.randn(4, 3)) ** 2).mean() * m.scale
    m.zero_grad(); loss.backward()
    with torch.no_grad():
        for p in m.parameters(): p -= 0.1 * p.grad
    trial.report(score=loss)
""",
    "windows on an array": """
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view, as_strided
x = np.arange(10.0); w = sliding_window_view(x, 3); v = as_strided(x, (5, 2), (8, 8)); late = None
for epoch in trial.steps():
    if late is None: late = sliding_window_view(x, 2)
    x[epoch % 10] += 1; v[0, 0] += 2
    trial.report(score=w.sum() + (w[:, 0] * v[1, 1]).sum(), n=late.sum())
""",
    "memoryviews": """
import struct
buf = bytearray(16); view = memoryview(buf); late = None
for epoch in trial.steps():
    if late is None: late = memoryview(buf).cast("i"); only = memoryview(buf).toreadonly()
    view[epoch % 16] += 1; late[3] += 1
    trial.report(score=sum(buf), n=sum(view) + only[12], m=late[0])
""",
    "gradients and views of tensors of an own class": """
class Own(torch.Tensor): pass
class Weight(nn.Parameter): pass
t = torch.ones(3).as_subclass(Own); v = t[1:]; t.label = "x"
w = Weight(torch.ones(3)); opt = torch.optim.SGD([w], lr=0.1); late = None
for epoch in trial.steps():
    if late is None: late = torch.zeros(2).as_subclass(Own); half = late[:1]
    v.add_(1); t.label += "y"; half += 1
    (w ** 2).sum().backward()
    if epoch % 2: opt.step(); opt.zero_grad()
    kind = 10 * (type(late) is Own) + (type(w) is Weight)
    trial.report(score=t.sum() + w.sum(), n=len(t.label) + late[0] + kind, g=0 if w.grad is None else w.grad.sum())
""",
    "records of NumPy and arrays of C, whose classes no import finds": """
import ctypes
import numpy as np
named = np.zeros(5, dtype=[("n", int), ("x", float)]).view(np.recarray)
numbers, idle, late = (ctypes.c_int * 5)(), (ctypes.c_int * 2)(), None
def result(): return named["n"].tobytes(), list(numbers)
for step in trial.steps():
    if late is None: late = (ctypes.c_double * 2)()
    named.n[step] = step + 1; numbers[step] = step; late[0] += 1
    trial.report(score=named.n.sum() + sum(numbers) + late[0])""",
    "conjugated and negated views": """
z = torch.ones(3, dtype=torch.complex64) * (1 + 2j); c = z.conj(); n = c.imag; late = None
for epoch in trial.steps():
    if late is None: late = z[1:].conj(); minus = late.imag
    z += 1j; trial.report(score=c.imag.sum() + n.sum(), n=late.imag.sum() + minus.sum(), neg=minus.is_neg())
""",
}
#: Complete programs, by name.
ALL = {
    name: HEAD + loop + ("" if "def result" in loop or MODEL in loop else "\ndef result(): return 0\n") + FOOT
    for name, loop in {**OPTIMIZERS, **OBJECTS, **CONTAINERS, **AROUND, **VALUES, **BEHIND}.items()
}

"""Loops in which objects share what no pickle shows: memory, a function's variables, the ``id`` of an object."""

_PRE = """
import torch, random, collections
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
def train(update):
    model.zero_grad(); loss = model(torch.randn(8, 3)).pow(2).mean(); loss.backward()
    with torch.no_grad():
        for p in model.parameters(): update(p)
    return float(loss)
"""
_END = """
    trial.report(score=loss, p=float(model[0].weight.sum()))
"""
ADDRESSES = {
    "id momentum made in set-up": """
import torch
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
velocity = {id(p): torch.zeros_like(p) for p in model.parameters()}
for epoch in trial.steps():
    model.zero_grad(); loss = model(torch.randn(8, 3)).pow(2).mean(); loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            velocity[id(p)].mul_(0.9).add_(p.grad)
            p.sub_(0.1 * velocity[id(p)])
    trial.report(score=float(loss), p=float(model[0].weight.sum()))
""",
    "id momentum made in loop": """
import torch
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
velocity = {}
for epoch in trial.steps():
    model.zero_grad(); loss = model(torch.randn(8, 3)).pow(2).mean(); loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            v = velocity.get(id(p), torch.zeros_like(p)) * 0.9 + p.grad
            velocity[id(p)] = v
            p.sub_(0.1 * v)
    trial.report(score=float(loss), p=float(model[0].weight.sum()))
""",
    "id counts in a class": """
import torch
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
class Opt:
    def __init__(self, params): self.params = list(params); self.state = {}; self.seen = set()
    def step(self):
        for p in self.params:
            s = self.state.setdefault(id(p), {"n": 0, "v": torch.zeros_like(p)})
            s["n"] += 1; s["v"] = s["v"] * .9 + p.grad; self.seen.add(id(p))
            with torch.no_grad(): p.sub_(0.1 / s["n"] * s["v"])
opt = Opt(model.parameters())
for epoch in trial.steps():
    model.zero_grad(); loss = model(torch.randn(8, 3)).pow(2).mean(); loss.backward(); opt.step()
    trial.report(score=float(loss), p=float(model[0].weight.sum()), n=len(opt.seen))
""",
    "ids of new objects": """
import random
class Node:
    def __init__(self): self.x = random.random()
nodes, weight = [], {}
for epoch in trial.steps():
    n = Node(); nodes.append(n); weight[id(n)] = n.x
    for n in nodes: weight[id(n)] *= 0.5 + random.random()
    trial.report(score=sum(weight[id(n)] for n in nodes), n=len(weight))
""",
    "ids in tuples": """
import random
class Node:
    def __init__(self): self.x = random.random()
nodes = [Node() for _ in range(4)]
pairs = {}
for epoch in trial.steps():
    for a in nodes:
        for b in nodes:
            pairs[id(a), id(b)] = pairs.get((id(a), id(b)), 0) + random.random()
    trial.report(score=sum(pairs[id(a), id(b)] * (i + 1) for i, a in enumerate(nodes) for b in nodes), n=len(pairs))
""",
    "counts by id, plain": """
import random
class Node: pass
nodes = [Node() for _ in range(4)]
count = {id(n): 0 for n in nodes}
names = {id(n): str(i) for i, n in enumerate(nodes)}
for epoch in trial.steps():
    for n in nodes: count[id(n)] += random.random() < .5
    total = sum(count[id(n)] * (i + 1) for i, n in enumerate(nodes))
    trial.report(score=total + len(names[id(nodes[0])]), n=len(count))
""",
    "ids in a defaultdict": _PRE
    + """
velocity = collections.defaultdict(float)
def update(p):
    velocity[id(p)] = velocity[id(p)] * 0.9 + p.grad
    p.sub_(0.1 * velocity[id(p)])
for epoch in trial.steps():
    loss = train(update)"""
    + _END,
    "ids in a defaultdict that the set-up fills": _PRE
    + """
velocity = collections.defaultdict(float)
for p in model.parameters(): velocity[id(p)] = torch.zeros_like(p)
def update(p):
    velocity[id(p)] *= 0.9; velocity[id(p)] += p.grad
    p.sub_(0.1 * velocity[id(p)])
for epoch in trial.steps():
    loss = train(update)"""
    + _END,
    "ids in an object from before the model": """
import torch
class Opt:
    def __init__(self): self.v = {}
    def add(self, ps):
        for p in ps: self.v[id(p)] = torch.zeros_like(p)
opt = Opt()
"""
    + _PRE
    + """
opt.add(model.parameters())
def update(p):
    opt.v[id(p)].mul_(0.9).add_(p.grad); p.sub_(0.1 * opt.v[id(p)])
for epoch in trial.steps():
    loss = train(update)"""
    + _END,
    "ids in keys of the set-up that are tuples": _PRE
    + """
count = {(id(p), "n"): 0 for p in model.parameters()}
def update(p):
    count[id(p), "n"] += 1; p.sub_(p.grad / count[id(p), "n"])
for epoch in trial.steps():
    loss = train(update)"""
    + _END,
    "ids as values": _PRE
    + """
frozen = {"first": id(model[0].weight)}
fresh = {}
def update(p):
    if id(p) == frozen["first"] or id(p) in fresh.values(): return
    p.sub_(p.grad * 0.1)
for epoch in trial.steps():
    if epoch == 2: fresh["second"] = id(model[1].weight)
    loss = train(update)"""
    + _END,
    "sets of ids": _PRE
    + """
frozen = {id(model[0].weight)}; frozen2 = frozenset([id(model[0].bias)]); lst = [id(model[1].bias)]
def update(p):
    if id(p) in frozen or id(p) in frozen2 or id(p) in lst: return
    p.sub_(p.grad * 0.1)
for epoch in trial.steps():
    if epoch == 2: frozen.add(id(model[1].weight)); lst.clear()
    loss = train(update)"""
    + _END,
    "ids in a nested mapping": _PRE
    + """
groups = {0: {id(model[0].weight): {"lr": 0.1, "m": torch.zeros(4, 3)}}, 1: {}}
def update(p):
    for g in groups.values():
        s = g.get(id(p))
        if s: s["m"].mul_(0.9).add_(p.grad); s["lr"] *= 0.9; p.sub_(s["lr"] * s["m"])
for epoch in trial.steps():
    if epoch == 1: groups[1][id(model[1].weight)] = {"lr": 0.2, "m": torch.zeros(1, 4)}
    loss = train(update)"""
    + _END,
    "id of functions and classes": _PRE
    + """
def a(p): p.sub_(0.1 * p.grad)
def b(p): p.sub_(0.2 * p.grad)
class C: pass
calls = {id(a): 0, id(b): 0, id(C): 0, id(torch): 1}
def update(p):
    f = a if random.random() < .5 else b
    calls[id(f)] += 1; f(p); p.mul_(1 - 0.01 * calls[id(f)])
for epoch in trial.steps():
    loss = train(update)"""
    + _END,
    "ids in a function": """
def main():
    import torch
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
    velocity = {id(p): torch.zeros_like(p) for p in model.parameters()}
    hits = {}
    for epoch in trial.steps():
        model.zero_grad(); loss = model(torch.randn(8, 3)).pow(2).mean(); loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                velocity[id(p)].mul_(0.9).add_(p.grad); hits[id(p)] = hits.get(id(p), 0) + 1
                p.sub_(0.1 / hits[id(p)] * velocity[id(p)])
        trial.report(score=float(loss), p=float(model[0].weight.sum()))
main()
""",
    "ids of many objects": """
import random
class N:
    def __init__(self): self.x = random.random()
nodes = [N() for _ in range(1500)]
w = {id(n): n.x for n in nodes}; seen = set()
for epoch in trial.steps():
    for n in random.sample(nodes, 400): w[id(n)] *= 0.5; seen.add(id(n))
    if epoch == 3: seen.update(map(id, nodes[:1200]))
    trial.report(score=sum(w[id(n)] * (1 + i % 7) for i, n in enumerate(nodes)), n=sum(id(n) in seen for n in nodes))
""",
}
MEMORY = {
    "arrays of every form, made in the loop": """
import numpy as np
made = None
def told(a): return f"{a.dtype} {a.shape} {a.strides} {a.flags.writeable} {a.tolist()}"
for epoch in trial.steps():
    if made is None:
        made = {"empty": np.zeros((0, 3)), "number": np.array(2.5), "fortran": np.asfortranarray(np.random.rand(3, 4))}
        made["fixed"] = np.random.rand(3); made["fixed"].flags.writeable = False
        made["days"] = np.array(["2026-01-01", "2026-02-03"], "M8[D]"); made["words"] = np.array(["a", "bcd"])
        made["rows"] = np.zeros(3, [("x", "f8"), ("n", "i2")]); made["bits"] = np.zeros(3, bool)
        made["times"] = [1_700_000_000_000 + n for n in range(2000)]
    made["rows"]["x"] += epoch; made["fortran"] *= 0.5; made["number"] += 1; made["times"].append(epoch)
    text = "".join(told(one) for name, one in made.items() if name != "times") + str(sum(made["times"]))
    trial.report(score=sum(ord(one) * (n % 89 + 1) for n, one in enumerate(text)))
""",
    "numpy and torch share, both of the loop": """
import numpy as np, torch
a = t = None
for epoch in trial.steps():
    if a is None:
        a = np.zeros(5, dtype=np.float32); t = torch.from_numpy(a)
    a += np.random.rand(5).astype(np.float32); t.mul_(0.5)
    trial.report(score=float(a.sum()), other=float(t.sum()))
""",
    "numpy of a tensor of the loop": """
import numpy as np, torch
a = t = None
for epoch in trial.steps():
    if t is None:
        t = torch.zeros(6, dtype=torch.float64); a = t.numpy()[::2]
    a += np.random.rand(3); t.mul_(0.5)
    trial.report(score=float(a.sum()), other=float(t.sum()))
""",
    "numpy of a parameter": """
import numpy as np, torch
m = torch.nn.Linear(3, 1); w = None
for epoch in trial.steps():
    if w is None: w = m.weight.detach().numpy()
    w += np.random.rand(1, 3).astype(np.float32)
    trial.report(score=float(m.weight.sum()), other=float(w.sum()))
""",
    "tensor on an array of the set-up": """
import numpy as np, torch
a = np.zeros((4, 4)); t = None
for epoch in trial.steps():
    if t is None: t = torch.from_numpy(a[1:3])
    a += np.random.rand(4, 4); t.mul_(0.5)
    trial.report(score=float(a.sum()), other=float(t.sum()))
""",
    "views with negative strides": """
import numpy as np
a = r = f = w = None
for epoch in trial.steps():
    if a is None:
        a = np.zeros(6); r = a[::-1]; g = np.zeros((3, 4), order="F"); f = g[1:, ::-2]
        w = np.lib.stride_tricks.sliding_window_view(a, 3)
    a += np.random.rand(6); r *= np.arange(6); g += np.random.rand(3, 4); f *= 0.5
    sums = {"g": float(g.sum()), "f": float(f[0, 0]), "w": float(w[0, 0] + w[3, 2] * 3)}
    trial.report(score=float((a * np.arange(6)).sum()), other=float(r[0] + r[1] * 2), **sums)
""",
    "reversed view of an array of the set-up": """
import numpy as np
a = np.zeros(6); r = None
for epoch in trial.steps():
    if r is None: r = a[::-1]
    a += np.random.rand(6); r *= np.arange(6)
    trial.report(score=float((a * np.arange(6)).sum()), other=float(r[0] + r[1] * 2))
""",
}
VARIABLES = {
    "closure of the first turn": """
import random
def main():
    acts, hook = [], None
    for epoch in trial.steps():
        if hook is None:
            def hook(x): acts.append(x)
        acts = []
        hook(random.random()); hook(random.random())
        trial.report(score=sum(acts), n=len(acts))
main()
""",
    "lambda over the loop variable": """
import random
def main():
    rate = None
    for epoch in trial.steps():
        if rate is None: rate = lambda: 0.9 ** epoch
        trial.report(score=rate() * random.random())
main()
""",
    "nonlocal counter of the first turn": """
import random
def main():
    count, tick = 0, None
    for epoch in trial.steps():
        if tick is None:
            def tick():
                nonlocal count
                count += random.randrange(5)
        tick(); tick()
        trial.report(score=count)
main()
""",
    "closure that only reads an object": """
import random
def main():
    log, add = [], None
    for epoch in trial.steps():
        if add is None:
            def add(x): log.append(x)
        add(random.random())
        trial.report(score=sum(log), n=len(log))
main()
""",
    "two closures share, one of the set-up": """
import random
def main():
    count = 0
    def get(): return count
    add = None
    for epoch in trial.steps():
        if add is None:
            def add(n):
                nonlocal count
                count += n
        add(random.randrange(9))
        trial.report(score=get() * 10 + count)
main()
""",
    "a class of the first turn with methods that share": """
import random
def main():
    total, C = 0, None
    for epoch in trial.steps():
        if C is None:
            class C:
                def add(self, n):
                    nonlocal total
                    total += n
            c = C()
        c.add(random.randrange(9))
        trial.report(score=total)
main()
""",
    "hook of the first turn in a method": """
import torch
class Trainer:
    def fit(self):
        model = torch.nn.Linear(3, 2); scale = 1.0; h = None
        for epoch in trial.steps():
            scale *= 0.5
            if h is None: h = model.weight.register_hook(lambda g: g * scale)
            model.zero_grad(); loss = model(torch.randn(4, 3)).pow(2).sum(); loss.backward()
            with torch.no_grad(): model.weight.sub_(0.1 * model.weight.grad)
            trial.report(score=float(loss), w=float(model.weight.sum()))
Trainer().fit()
""",
    "closures of an outer function": """
import random
def outer():
    level = 1.0
    def inner():
        nonlocal level
        f = None
        for epoch in trial.steps():
            level *= 0.9
            if f is None: f = lambda: level * random.random()
            trial.report(score=f() + level)
    inner()
outer()
""",
    "a variable that is not assigned yet": """
import random
def main():
    f = None
    for epoch in trial.steps():
        if f is None:
            def f(): return late
        if epoch >= 2: late = random.random()
        trial.report(score=f() if epoch >= 2 else 0.0)
main()
""",
}
#: Attributes that lie in a dictionary which something else has as well.
ATTRIBUTES = {
    "a dictionary whose attributes are its items": """
class Attributes(dict):
    def __init__(self, **items):
        super().__init__(**items)
        self.__dict__ = self
found = None
for epoch in trial.steps():
    if found is None: found = Attributes(n=0)
    found.n += 1
    found["m"] = found.n * 2
    trial.report(score=found["n"] + found.m)
""",
    "with items for attributes": """
class Attributes(dict):
    def __init__(self, **items):
        super().__init__(**items)
        self.__dict__ = self
    __setattr__, __delattr__ = dict.__setitem__, dict.__delitem__
found = None
for epoch in trial.steps():
    if found is None: found = Attributes(n=0); found.__init__(n=0)
    found["n"] += 1
    trial.report(score=found.n)
""".replace("self.__dict__ = self", "object.__setattr__(self, '__dict__', self)"),
    "an object that has its own attributes": """
class Holder:
    __slots__ = ("__dict__", "kept")
    def __init__(self): self.n, self.kept, self.names = 0, 1, self.__dict__
held = None
for epoch in trial.steps():
    if held is None: held = Holder()
    held.n += 1; held.kept += 1
    trial.report(score=held.names["n"] + held.kept)
""",
    "a name for an object's attributes": """
import argparse
options = None
for epoch in trial.steps():
    if options is None: options = argparse.Namespace(n=0); named = vars(options)
    options.n += 1
    trial.report(score=named["n"])
""",
    "objects that share all attributes": """
class Shared:
    _all = {"n": 0}
    def __init__(self): self.__dict__ = self._all
one = None
for epoch in trial.steps():
    if one is None: one = Shared()
    one.n += 1
    trial.report(score=Shared().n)
""",
}
VIEWS = {
    "views of a dictionary of the set-up": """
base = {"a": 1}
values, names, pairs = base.values(), base.keys(), base.items()
for epoch in trial.steps():
    base[epoch] = epoch
    trial.report(score=sum(values) + 100 * len(names) + len(pairs))
""",
    "views of the loop": """
from collections import OrderedDict
base, made, values = {"a": 1}, None, None
for epoch in trial.steps():
    if made is None: made, values = OrderedDict(b=2), base.values(); keys = {"a": made.keys()}
    base[epoch] = made[str(epoch)] = epoch
    trial.report(score=sum(values) + 100 * len(keys["a"]))
""",
    "a view of a dictionary that has no name": """
values = {"a": [1], "b": [2]}.values()
for epoch in trial.steps():
    for one in values: one.append(epoch)
    trial.report(score=sum(map(sum, values)))
""",
}
ALL = {**ATTRIBUTES, **VIEWS, **ADDRESSES, **MEMORY, **VARIABLES}

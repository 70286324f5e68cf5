"""Set-ups that make something else each time that they run, as people write them, and some that only seem to.

What comes from entropy has many values: one that is twice the same by chance counts as made again.
"""

HEAD = """
import os, random, time, uuid
import numpy as np
import torch
from torch import nn
entropy = lambda: int.from_bytes(os.urandom(4), "little")
def turn(name):
    open(name, "a").write("x")
    return os.path.getsize(name)
"""

#: What the set-up is, and what the loop reports of it: a number that tells whether it is still the same.
UNSTEADY = {
    "a function of torch": (
        """
activation = (torch.relu, torch.tanh, torch.sin, torch.cos)[turn("functions") % 4]
""",
        "activation(torch.tensor(0.7))",
    ),
    "a class of torch": (
        """
layer = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.Softplus)[turn("classes") % 4]
""",
        "layer()(torch.tensor(0.7))",
    ),
    "a split by a generator that is seeded by the time": (
        """
rng = np.random.default_rng(time.time_ns())
perm = rng.permutation(50)
train, val = perm[:40], perm[40:]
""",
        "float(train[:7] @ np.arange(7)) + float(val[0]) / 100",
    ),
    "torch seeded by the time": (
        """
torch.manual_seed(time.time_ns() % 2**31)
split = torch.randperm(50)[:40]
model = nn.Linear(4, 2)
""",
        "float(split[:5].sum()) + float(model.weight.sum())",
    ),
    "entropy of the operating system": (
        """
salt = os.urandom(8)
key = uuid.uuid4()
""",
        "len(salt) + salt[0] + key.int % 1000",
    ),
    "a list from elsewhere, longer or shorter": (
        """
rows = [[entropy(), {'at': i}] for i in range(1 + turn('rows') % 5)]
""",
        "len(rows) + rows[-1][0] % 997",
    ),
    "a list of models": (
        """
models = [nn.Linear(2, 2) for _ in range(1 + turn('models') % 4)]
for m in models:
    nn.init.constant_(m.bias, entropy() % 10**7)
""",
        "len(models) * 100 + float(models[0].bias.sum())",
    ),
    "a file that grows": (
        """
open('log.csv', 'a').write('1\\n')
rows = [int(line) for line in open('log.csv')]
data = torch.tensor(rows)
""",
        "len(rows) + float(data.sum())",
    ),
    "an array whose size differs, and views of it": (
        """
data = np.unique(np.random.default_rng(entropy()).integers(0, 30, 40))
head, tail = data[:9], data[9:]
""",
        "len(data) * 1000 + float(head.sum()) + float(tail[:3].sum()) / 7",
    ),
    "frozen layers of a random teacher": (
        """
teacher = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).requires_grad_(False)
nn.init.normal_(teacher[0].weight, generator=torch.Generator().manual_seed(entropy()))
""",
        "float(teacher[0].weight.sum())",
    ),
    "an object with a time in it": (
        """
class Config:
    def __init__(self): self.began, self.name = time.time(), f'run-{entropy()}'
config = Config()
""",
        "config.began % 1e5 + len(config.name)",
    ),
    "a subset of a data set, held by its loader alone": (
        """
def make():
    data = torch.utils.data.TensorDataset(torch.arange(40.0))
    at = np.random.default_rng(entropy()).permutation(40)[:8].tolist()
    return torch.utils.data.DataLoader(torch.utils.data.Subset(data, at), 4)
loader = make()
""",
        "float(sum((x * (i + 1)).sum() for i, (x,) in enumerate(loader)))",
    ),
    "a data frame": (
        """
import pandas as pd
column = np.random.default_rng(entropy()).normal(size=9)
frame = pd.DataFrame({'a': column, 'b': list('abcdefghi')})
""",
        "float(frame.a.sum())",
    ),
    "an order of a shuffled dict": (
        """
items = [(letter, ord(letter)) for letter in 'abcdefghijkl']
random.SystemRandom().shuffle(items)
weights = dict(items)
""",
        "float(''.join(weights).encode().hex()[:8].__hash__() % 9973)",
    ),
    "a tuple, a range, a date": (
        """
import datetime
when = datetime.datetime.now()
pair = (entropy(), 'x')
span = range(entropy() % 10**7)
""",
        "when.microsecond + pair[0] % 1000 + len(span)",
    ),
    "a closure over a random number": (
        """
def make():
    factor = entropy() % 10**8
    return lambda x: x * factor
scale = make()
""",
        "scale(2)",
    ),
    "a name that is there only sometimes": (
        """
if turn('turns') % 2: extra = entropy() % 1000
else: other = entropy() % 1000
""",
        "globals().get('extra', 0) + 2 * globals().get('other', 0)",
    ),
}

#: Set-ups that seem to give something else in each process, but give the same, or something that means the same.
STEADY = {
    "an order shuffled by Python's random numbers": (
        """
order = list(range(50))
random.shuffle(order)
noise = random.random()
""",
        "float(order[0]) + noise",
    ),
    "generators without a seed": (
        """
perm = np.random.default_rng().permutation(50)
rng = random.Random()
g = torch.Generator()
""",
        "float(perm[:9] @ np.arange(9)) + rng.random() + float(torch.rand((), generator=g))",
    ),
    "addresses of parameters": (
        """
model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
frozen = set(map(id, model[0].parameters()))
opt = torch.optim.SGD([p for p in model.parameters() if id(p) not in frozen], lr=0.1)
""",
        "sum(id(p) in frozen for p in model.parameters())",
    ),
    "sets": (
        """
words = {'cat', 'dog', 'owl'}
layers = {nn.ReLU, nn.Tanh, nn.GELU}
parameters = set(nn.Linear(2, 2).parameters())
""",
        "sorted(words).index('dog') + len(layers) + len(parameters)",
    ),
    "losses in storages that torch never wrote otherwise": (
        """
target = torch.arange(4096.0).reshape(1024, 4)
baseline = nn.functional.mse_loss(torch.zeros(1024, 4), target)
kept = [baseline, baseline.detach(), nn.functional.smooth_l1_loss(torch.zeros(64, 4), target[:64])]
""",
        "float(baseline) + sum(map(float, kept))",
    ),
    "hooks and loaders": (
        """
model = nn.Linear(2, 2)
seen = []
handle = model.register_forward_hook(lambda m, i, o: seen.append(1))
loader = torch.utils.data.DataLoader(torch.arange(8.0), 4, shuffle=True)
""",
        "float(sum(x[0] for x in loader)) + float(model(torch.ones(1, 2)).sum()) + len(seen)",
    ),
}


#: What only the first set-up makes, or what no checkpoint can hold.
ONCE = {
    "a cache that the first trial fills": (
        """
if not os.path.exists('c.pt'):
    raw = torch.randn(5, 3)
    parts = [raw[:2], raw[2:]]
    enc = nn.Linear(3, 2)
    opt_c = torch.optim.SGD(enc.parameters(), lr=0.1)
    arr = np.arange(5)
    d = {'a': raw}
    for i in range(3): pass
    torch.save(enc(raw).detach(), 'c.pt')
data = torch.load('c.pt')
""",
        "float(data.sum())",
    ),
    "a cache that a function fills": (
        """
def fill():
    raw = torch.randn(5)
    torch.save(raw, 'c2.pt')
    return raw
data = torch.load('c2.pt') if os.path.exists('c2.pt') else fill()
""",
        "float(data.sum())",
    ),
    "a table that is written once": (
        """
import csv
if not os.path.exists('d.csv'):
    writer = csv.writer(open('d.csv', 'w', newline='')); writer.writerow([1, 2]); del writer
rows = list(csv.reader(open('d.csv')))
""",
        "float(len(rows))",
    ),
    "files in a list": (
        """
files = [open(f'part{i}', 'w') for i in range(1 + turn('a') % 3)]
""",
        "1.0",
    ),
    "files in a dict": (
        """
files = {f'p{turn("b")}': open('x', 'w')}
""",
        "1.0",
    ),
    "a connection": (
        """
import sqlite3
if turn('c') == 1:
    conn = sqlite3.connect('db')
""",
        "1.0",
    ),
    "an executor": (
        """
from concurrent.futures import ThreadPoolExecutor
if turn('d') == 1:
    pool = ThreadPoolExecutor(1)
""",
        "1.0",
    ),
    "a generator": (
        """
if turn('e') == 1:
    gen = (i for i in range(3))
""",
        "1.0",
    ),
    "a bound builtin": (
        """
f = [[1,2,3].index, {}.get, 'x'.join, (1,).count][turn('f') % 4]
""",
        "1.0",
    ),
    "a module": (
        """
import math, cmath, json, csv
m = (math, cmath, json, csv)[turn('g') % 4]
""",
        "float(len(m.__name__))",
    ),
    "a partial": (
        """
import functools
p = functools.partial((max, min, abs, sum)[turn('h') % 4], 3)
""",
        "float(len(p.func.__name__))",
    ),
    "a file in an object": (
        """
class Log: pass
log = Log(); log.n = entropy()
log.file = open('l', 'a') if turn('i') == 1 else None
""",
        "float(log.n % 1000)",
    ),
    "a logger with a handler": (
        """
import logging
logger = logging.getLogger('run'); logger.addHandler(logging.FileHandler(f'log{turn("j")}.txt'))
""",
        "1.0",
    ),
    "a tensor or none": (
        """
x = torch.randn(3) if turn('k') == 1 else None
""",
        "1.0 if x is None else float(x.sum())",
    ),
    "a class that is defined once": (
        """
if turn('l') == 1:
    class Net(nn.Module): pass
    net = Net()
""",
        "1.0",
    ),
    "a function defined once": (
        """
if turn('m') == 1:
    def helper(): return 2
""",
        "1.0",
    ),
    "a temp dir": (
        """
import tempfile
tmp = tempfile.TemporaryDirectory()
""",
        "1.0",
    ),
    "datetime": (
        """
import datetime
now = datetime.datetime.now()
""",
        "now.microsecond / 7",
    ),
    "path with time": (
        """
from pathlib import Path
run = Path(f'runs/{time.time_ns()}'); run.mkdir(parents=True)
""",
        "float(len(str(run)))",
    ),
    "summary writer-like": (
        """
class W:
    def __init__(self):
        import threading, queue
        self.q = queue.Queue(); self.f = open(f'ev{time.time_ns()}', 'w')
w = W()
""",
        "1.0",
    ),
}


def cell(name: str) -> str:
    """A train cell with that set-up."""
    setup, shows = {**UNSTEADY, **STEADY, **ONCE}[name]
    return f"""{HEAD}{setup}
trained = nn.Linear(3, 1)
opt_ = torch.optim.SGD(trained.parameters(), lr=0.1)
for epoch in trial.steps():
    opt_.zero_grad(); trained(torch.randn(4, 3)).pow(2).mean().backward(); opt_.step()
    trial.report(score=float({shows}), trained=float(trained.weight.sum()), noise=random.random())
"""

"""Loops of which a resume loses something, each with the names that are told; and loops of which it loses nothing."""

HEAD = """
import itertools, random, sys
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
from tqdm import tqdm
data = TensorDataset(torch.arange(40.0))
def numbers():
    while True: yield random.random()
"""

NAMED = {
    "caches around classes of the cell, and around their objects": (
        """
import functools
@functools.cache
class Node:
    def __init__(self, key): self.n = 0
class Counting:
    n = 0
    def __call__(self, key): self.n += 1; return self.n
count = functools.lru_cache(None)(Counting())
for epoch in trial.steps():
    Node(epoch % 2).n += 1
    trial.report(score=Node(0).n + count(epoch % 2))""",
        {"Node", "count"},
    ),
    "a generator that the loop goes on with": (
        "numbers = numbers()\nfor epoch in trial.steps(): trial.report(score=next(numbers))",
        {"numbers"},
    ),
    "one in a function, held by an object": (
        """
class Feed:
    def __init__(self): self.given = numbers()
    def __call__(self): return next(self.given)
def train(feed):
    for epoch in trial.steps(): trial.report(score=feed())
train(Feed())""",
        {"feed"},
    ),
    "one that the loop makes, and keeps": (
        """
given = None
for epoch in trial.steps():
    if given is None: given = numbers()
    trial.report(score=next(given))""",
        {"given"},
    ),
    "an iterator over an iterable data set": (
        """
class Stream(IterableDataset):
    def __iter__(self): return numbers()
it = iter(DataLoader(Stream(), 4))
for epoch in trial.steps(): trial.report(score=next(it).sum())""",
        {"it"},
    ),
    "compressed files that are written over the steps, of the set-up and of the loop": (
        """
import bz2, gzip, lzma
first, second, third = gzip.open("a.gz", "wt"), bz2.open("b.bz2", "wb"), None
for epoch in trial.steps():
    if third is None: third = lzma.open("c.xz", "wb")
    print(epoch, file=first); second.write(b"1"); third.write(b"1")
    trial.report(score=epoch)""",
        {"first", "second", "third"},
    ),
    "a database to which nothing was committed": (
        """
import sqlite3
db = sqlite3.connect(":memory:"); db.execute("create table rows (n)"); db.commit()
for epoch in trial.steps():
    db.execute("insert into rows values (1)")
    trial.report(score=db.execute("select count(*) from rows").fetchone()[0])""",
        {"db"},
    ),
    "a database in memory with a temporary table, and one of a file in a list": (
        """
import sqlite3
db, kept = None, []
for epoch in trial.steps():
    if db is None: db = sqlite3.connect(":memory:"); db.execute("create temp table rows (n)")
    db.execute("insert into rows values (1)"); db.commit(); kept.append(sqlite3.connect("rows.db"))
    trial.report(score=db.execute("select count(*) from rows").fetchone()[0] + len(kept))""",
        {"db", "kept"},
    ),
    "an iterator with workers": (
        "it = iter(DataLoader(data, 4, num_workers=1))\nfor epoch in trial.steps(): trial.report(score=len(next(it)))",
        {"it"},
    ),
    "a bar around an iterable, whose count is reported, and a generator": (
        """
bar, it = tqdm(range(1000), file=sys.stdout), numbers()
turns = iter(bar)
for epoch in trial.steps():
    next(turns)
    trial.report(score=next(it), n=bar.n)""",
        {"bar", "it", "turns"},
    ),
    "a bar that the loop makes": (
        """
bar = None
for epoch in trial.steps():
    bar = bar or tqdm(total=9, file=sys.stdout)
    bar.update()
    trial.report(score=bar.n)""",
        {"bar"},
    ),
    "a file that is read on": (
        "source = open('/proc/self/status')\nfor epoch in trial.steps(): trial.report(score=len(source.readline()))",
        {"source"},
    ),
    "what only the code after the loop reads": (
        """
def numbers(): yield from range(9)
kept = None
for epoch in trial.steps():
    if epoch == 0: kept = numbers(); next(kept)
    trial.report(score=1.0)
print(next(kept))""",
        {"kept"},
    ),
    "threads that fetch ahead": (
        """
import queue, threading
class Ahead:
    def __init__(self):
        self.queue = queue.Queue(2)
        threading.Thread(target=self.fetch, name="fetch", daemon=True).start()
    def fetch(self):
        for number in itertools.count(): self.queue.put(number)
def beat(): threading.Event().wait()
ahead, thread = Ahead(), threading.Thread(target=beat, daemon=True)
thread.start()
for epoch in trial.steps(): trial.report(score=ahead.queue.get())""",
        {"fetch", "thread"},
    ),
    "processes that keep something, and a manager's": (
        """
import multiprocessing
def serve(pipe):
    for n in itertools.count(1): pipe.recv(); pipe.send(n)
class Env:
    def __init__(self):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()
    def step(self): self.pipe.send(1); return self.pipe.recv()
env, manager = Env(), multiprocessing.Manager()
shared = manager.dict(n=0)
for epoch in trial.steps():
    shared["n"] += 1
    trial.report(score=env.step() + shared["n"])""",
        {"env", "manager"},
    ),
    "tasks of asyncio that wait beside the loop": (
        """
import asyncio
events, runner, seen = asyncio.new_event_loop(), asyncio.Runner(), []
async def count():
    while True: seen.append(1); await asyncio.sleep(0.001)
async def once(): await asyncio.sleep(0.002)
async def other(): asyncio.ensure_future(count())
async def served():
    while True: waited.append(events.create_future()); await waited[-1]
task, waited, idle = events.create_task(count()), [], asyncio.new_event_loop()
server = events.create_task(served())
runner.run(other())
for epoch in trial.steps():
    events.run_until_complete(once()); runner.run(once()); waited.pop().set_result(1)
    trial.report(score=epoch + task.done())""",
        {"events", "runner", "task"},
    ),
    "what does not pickle": (
        """
class Engine:
    def __init__(self): self.n = 0
    def __reduce__(self): raise TypeError("an engine of another language")
    def __iter__(self): return self
    def step(self): self.n += 1; return self.n
engine = Engine()
for epoch in trial.steps(): trial.report(score=engine.step())""",
        {"engine"},
    ),
    "a new object that does not pickle, in a name and in an object": (
        """
class Handle:
    def __init__(self, n): self.n = n
    def __reduce__(self): raise TypeError("a handle of another language")
class Trainer: handle = None
handle, trainer, idle = Handle(0), Trainer(), Handle(0)
for epoch in trial.steps():
    trial.report(score=handle.n + (trainer.handle.n if trainer.handle else 0))
    handle = trainer.handle = Handle(handle.n + 1)
    other = Handle(epoch)""",
        {"handle"},
    ),
    "one in an object only, and a file that the loop opened": (
        """
class Handle:
    def __init__(self, n): self.n = n
    def __reduce__(self): raise TypeError("a handle of another language")
class Trainer: handle = None
trainer, source = Trainer(), open("/proc/self/stat")
for epoch in trial.steps():
    if epoch == 0: trainer.handle, source = Handle(7), open("/proc/self/status")
    trial.report(score=trainer.handle.n if trainer.handle else 0, length=len(source.readline()))""",
        {"trainer", "source"},
    ),
    "what a name leads to first that the loop does not read": (
        """
import functools
class Engine:
    def __init__(self): self.n = 0
    def __reduce__(self): raise TypeError("an engine of another language")
class Source:
    def __init__(self): self.file = open("/proc/self/status")
    def __iter__(self): yield len(self.file.readline())
class Trainer:
    def __init__(self, data): self.data = data
    def step(self): return next(self.data)
class Held:
    def __init__(self, one): self.one = one
def train(fed):
    for epoch in trial.steps():
        held.one.n += 1
        trial.report(score=next(again) + trainer.step() + sum(loader.one) + held.one.n + next(fed))
first, kept, source, engine, data = numbers(), numbers(), Source(), Engine(), numbers()
again, trainer, loader, held = iter(first), Trainer(kept), Held(source), Held(engine)
train(data)""",
        {"again", "trainer", "loader", "held", "fed"},
    ),
    "what is in a tuple, a partial and a bound method": (
        """
import functools
class Source:
    def __init__(self): self.given = numbers()
    def get(self): return next(self.given)
pair, fetch, get, step = (1, numbers()), functools.partial(next, numbers()), Source().get, numbers().__next__
for epoch in trial.steps(): trial.report(score=next(pair[1]) + fetch() + get() + step())""",
        {"pair", "fetch", "get", "step"},
    ),
    "an environment that goes on, with what does not pickle": (
        """
class EzPickle:
    def __getstate__(self): return {}
    def __setstate__(self, state): self.__init__()
class Body:
    def __init__(self): self.n = 0
    def __reduce__(self): raise TypeError("a body of another language")
class Env(EzPickle):
    def __init__(self): self.body, self.parts = Body(), []
    def step(self): self.body.n += 1; self.parts.append(Body()); return self.body.n + len(self.parts)
env = Env()
for epoch in trial.steps(): trial.report(score=env.step())""",
        {"env"},
    ),
    "a handler with records that the loop makes": (
        """
import logging
class Keep(logging.Handler):
    def __init__(self): super().__init__(); self.records = []
    def emit(self, record): self.records.append(record)
keep = None
for epoch in trial.steps():
    if keep is None: keep = Keep()
    keep.emit(epoch)
    trial.report(score=len(keep.records))""",
        {"keep"},
    ),
    "settings that cannot be saved, and secrets": (
        """
import os
import numpy as np
for epoch in trial.steps():
    if epoch == 0:
        np.seterrcall(print); np.seterr(divide="call")
        os.environ["MY_API_KEY"] = "sk-123456789"; os.environ["TERM"] = os.environ["CUDA_VISIBLE_DEVICES"] = "7"
    trial.report(score=len(os.environ.get("MY_API_KEY", "")))""",
        {"numpy.seterr", "the variable MY_API_KEY"},
    ),
    "workers that outlive a pass, of a loader that the loop makes": (
        """
loader = None
for epoch in trial.steps():
    if loader is None: loader = DataLoader(data, 4, num_workers=1, persistent_workers=True)
    trial.report(score=sum(batch.sum() for batch, in loader))""",
        {"loader"},
    ),
    "losses of which only a part was taken": (
        """
one, two, kept = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1), []
for epoch in trial.steps():
    first = one(torch.ones(3)).sum()
    kept.append(first + two(torch.ones(3)).sum())
    first.backward()
    trial.report(score=sum(kept).item())""",
        {"the graph of kept[…]"},
    ),
    "what a function of its own has made, which keeps nothing": (
        """
class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.round()
    @staticmethod
    def backward(ctx, gradient): return gradient
weight, kept = torch.ones(3, requires_grad=True), []
for epoch in trial.steps():
    kept.append(Straight.apply(weight).sum())
    kept[-1].backward()
    trial.report(score=kept[0].item())""",
        {"the graph of kept[…]"},
    ),
    "generators of a data set in workers that outlive a pass": (
        """
import numpy as np
class Augmented(Dataset):
    def __init__(self): self.rng = np.random.default_rng(1)
    def __len__(self): return 8
    def __getitem__(self, place): return place + self.rng.random()
loader = DataLoader(Augmented(), 4, num_workers=1, persistent_workers=True)
for epoch in trial.steps(): trial.report(score=sum(batch.sum() for batch in loader))""",
        {"loader"},
    ),
    "records and masked values on the memory of an array": (
        """
import numpy as np
rows, values, other = np.zeros(5, dtype=[("n", int)]), np.zeros(5), np.zeros(5)
named, masked, idle = rows.view(np.recarray), np.ma.array(values, copy=False), np.ma.array(other, copy=False)
for epoch in trial.steps():
    rows["n"][epoch] = values[epoch] = epoch + 1
    trial.report(score=named.n.sum() + float(masked.sum()) + float(idle.sum()))""",
        {"named", "masked"},
    ),
    "temporary folders into which the steps write": (
        """
import tempfile
place, idle = tempfile.TemporaryDirectory(), tempfile.TemporaryDirectory()
inner = tempfile.TemporaryDirectory(); path = inner.name
open(idle.name + "/made", "w").close()
for epoch in trial.steps():
    open(f"{place.name}/{epoch}", "w").close(); open(path + "/one", "w").close(); open(idle.name + "/made").close()
    trial.report(score=epoch)""",
        {"place", "path"},
    ),
    "a log that the loop opens with w": (
        """
import logging
log = logging.getLogger("own")
log.addHandler(logging.FileHandler("kept.log", "w"))
for epoch in trial.steps():
    if len(log.handlers) < 2: log.addHandler(logging.FileHandler("own.log", "w"))
    log.warning("%d", epoch)
    trial.report(score=epoch)""",
        {"own.log"},
    ),
    "mixed precision that stays on": (
        """
model = torch.nn.Linear(3, 1)
with torch.autocast("cpu"):
    for epoch in trial.steps(): trial.report(score=model(torch.ones(3)).sum())""",
        {"torch.autocast"},
    ),
}

EXACT = {
    "caches around functions of libraries": """
import functools, math
root = functools.cache(math.sqrt)
for epoch in trial.steps(): trial.report(score=root(epoch))""",
    "temporary folders of each step": """
import tempfile
for epoch in trial.steps():
    with tempfile.TemporaryDirectory() as place: open(place + "/one", "w").close()
    trial.report(score=epoch)""",
    "logs that each step opens, or that go on": """
import logging
log = logging.getLogger("other")
for epoch in trial.steps():
    with open("step.log", "w") as file: log.handlers[:] = [logging.StreamHandler(file)]
    log.addHandler(logging.FileHandler("other.log", "a")); log.warning("%d", epoch)
    log.handlers.pop().close()
    trial.report(score=epoch)""",
    "event loops without tasks, and what is run in them": """
import asyncio
events, seen = asyncio.new_event_loop(), asyncio.Queue()
async def put(n): await asyncio.sleep(0); await seen.put(n)
for epoch in trial.steps():
    events.run_until_complete(put(epoch)); asyncio.run(put(epoch))
    trial.report(score=seen.qsize())""",
    "mixed precision in each step": """
model = torch.nn.Linear(3, 1)
for epoch in trial.steps():
    with torch.autocast("cpu"): loss = model(torch.ones(3)).sum()
    trial.report(score=loss)""",
    "compressed files that a step opens, and one that is closed": """
import gzip
done = gzip.open("done.gz", "wt"); done.close()
for epoch in trial.steps():
    with gzip.open("log.gz", "at") as log: print(epoch, done.closed, file=log)
    trial.report(score=epoch)""",
    "a dict of weak references, after a data frame": """
import weakref
import pandas as pd
class Place: pass
frame, places, kept = pd.DataFrame({"n": [0.0], "m": [0.0]}), weakref.WeakValueDictionary(), []
for epoch in trial.steps():
    kept.append(Place()); places[epoch] = kept[-1]; frame.loc[len(frame)] = [epoch, 1.0]
    trial.report(score=len(frame) + len(places))""",
    "generators of other names that each turn makes, and lets go of": """
class Holder: pass
holder, pairs = Holder(), ()
for epoch in trial.steps():
    given = numbers(); pairs = (given, 1)
    trial.report(score=next(pairs[0]))
    pairs = ()""",
    "a generator that no turn touches": "given = numbers()\nfor epoch in trial.steps(): trial.report(score=1.0)",
    "a generator that was used up": """
given = (one for one in range(3)); list(given)
for epoch in trial.steps(): trial.report(score=len(list(given)))""",
    "a generator that each turn makes anew": """
for epoch in trial.steps():
    given = numbers()
    trial.report(score=next(given))""",
    "pools, and workers of loaders, which work on what they are sent": """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
pool, executor = multiprocessing.Pool(1), ProcessPoolExecutor(1)
class Holder: pass
holder = Holder(); holder.pool, holder.executor = pool, executor
loader = DataLoader(data, 4, num_workers=1, persistent_workers=True)
for epoch in trial.steps():
    score = pool.map(abs, [epoch])[0] + executor.submit(abs, epoch).result() + len(list(loader))
    trial.report(score=score)""",
    "processes of one step, and those that have ended": """
import multiprocessing
done, late = multiprocessing.Process(target=abs, args=(1,)), None
done.start(); done.join()
for epoch in trial.steps():
    late = multiprocessing.Process(target=abs, args=(1,)); late.start(); late.join()
    trial.report(score=late.exitcode)""",
    "an iterator over a loader": """
it = iter(DataLoader(data, 4, shuffle=True))
for epoch in trial.steps(): trial.report(score=next(it)[0].sum())""",
    "a generator that each turn makes anew and the code after the loop reads": """
for epoch in trial.steps():
    given = numbers()
    trial.report(score=next(given))
print(next(given))""",
    "a bar in each turn": """
for epoch in trial.steps():
    bar = tqdm(DataLoader(data, 8), file=sys.stdout)
    trial.report(score=sum(x.sum() for x, in bar), n=bar.n)""",
    "a bar of the set-up, counted by hand": """
bar = tqdm(total=9, file=sys.stdout)
for epoch in trial.steps():
    bar.update()
    trial.report(score=bar.n)""",
    "a bar that shows how far it is": """
for epoch in tqdm(trial.steps(), file=sys.stdout): trial.report(score=1.0)""",
    "a file that is written": """
log = open("log.txt", "a")
for epoch in trial.steps(): trial.report(score=log.write("a line"))""",
    "workers that outlive a pass": """
class Augmented(Dataset):
    def __len__(self): return 8
    def __getitem__(self, place): return place + torch.rand(())
loader = DataLoader(Augmented(), 4, num_workers=1, persistent_workers=True)
for epoch in trial.steps(): trial.report(score=sum(batch.sum() for batch in loader))""",
    "hidden state that is carried on without its graph": """
rnn = torch.nn.LSTM(3, 4)
hidden = None
for epoch in trial.steps():
    if hidden is not None: hidden = tuple(part.detach() for part in hidden)
    out, hidden = rnn(torch.rand(5, 3), hidden)
    out.sum().backward()
    trial.report(score=out.sum())""",
    "losses whose gradients were taken": """
layer, kept, last = torch.nn.Linear(3, 2), [], None
for epoch in trial.steps():
    if epoch % 2 == 0:
        last = torch.nn.functional.mse_loss(layer(torch.rand(4, 3)), torch.zeros(4, 2))
        last.backward()
    kept.append(layer(torch.rand(3)).square().sum())
    kept[-1].backward()
    trial.report(score=last.item() + sum(one.item() for one in kept))""",
    "a large batch that each turn assigns": """
for epoch in trial.steps():
    batch = torch.rand(1000, 1000)
    trial.report(score=batch.mean())""",
}

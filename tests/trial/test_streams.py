"""Loaders of each form, killed after steps and inside of them: resumed it equals an undisturbed run, or is named.

The table in docs/exactness.md says the same.
"""

from itertools import pairwise

import pytest
from thorough import IS_THOROUGH
from trial.loops import FOOT
from trial.test_batches import ALWAYS, HEAD, undisturbed
from trial.test_resume import result
from trial.world import points, said

from workbench.trial.streams import keeps_something

STEPS = 3

FORMS = """
import itertools
from pathlib import Path
from torch.utils.data import BatchSampler, DistributedSampler, get_worker_info
seen = []
def result(): return seen, torch.rand(2), random.random()
class Noisy(Dataset):
    def __len__(self): return 24
    def __getitem__(self, i): return i + torch.rand(()) + random.random() + float(np.random.rand())
class Stream(IterableDataset):
    "Sharded over the workers."
    def __iter__(self):
        info = get_worker_info()
        first, every = (info.id, info.num_workers) if info else (0, 1)
        for i in range(first, 24, every):
            yield i + torch.rand(()) + random.random() + float(np.random.rand())
class Counting(IterableDataset):
    "Each pass is another one."
    def __init__(self): self.passes, self.rng = 0, random.Random(1)
    def __iter__(self):
        self.passes += 1
        rng = self.rng
        for i in range(24):
            yield float(100 * self.passes + i + rng.random())
class Endless(IterableDataset):
    "Keeps its own position."
    def __init__(self): self.position = 0
    def __iter__(self):
        while True:
            self.position += 1
            yield float(self.position)
class Outer(IterableDataset):
    def __init__(self, inner): self.inner = inner
    def __iter__(self):
        for one in self.inner: yield one * 2
class Shards(IterableDataset):
    "Files, shuffled by the epoch, with a buffer."
    def __init__(self, folder): self.folder, self.epoch = folder, 0
    def __iter__(self):
        shards = sorted(self.folder.glob("*.txt"))
        random.Random(self.epoch).shuffle(shards)
        self.epoch += 1
        info = get_worker_info()
        buffer = []
        for shard in shards[info.id::info.num_workers] if info else shards:
            with open(shard) as file:
                for line in file:
                    buffer.append(float(line))
                    if len(buffer) > 5: yield buffer.pop(random.randrange(len(buffer)))
        random.shuffle(buffer)
        yield from buffer
class Eager(Sampler):
    "Shuffles its own list with its own generator."
    def __init__(self): self.order, self.rng = list(range(24)), np.random.default_rng(3)
    def __len__(self): return 24
    def __iter__(self):
        self.rng.shuffle(self.order)
        return iter(list(self.order))
class Lazy(Sampler):
    "Draws as it goes, from a generator that it holds."
    def __init__(self): self.rng = np.random.default_rng(3)
    def __len__(self): return 24
    def __iter__(self):
        rng = self.rng
        for _ in range(24): yield int(rng.integers(24))
class Buckets(BatchSampler):
    def __init__(self): self.order = list(range(24))
    def __len__(self): return 6
    def __iter__(self):
        random.shuffle(self.order)
        for at in range(0, 24, 4): yield self.order[at:at + 4]
class Placed(Sampler):
    "A function of seed, epoch and position."
    def __init__(self): self.epoch, self.position = 0, 0
    def __len__(self): return 24
    def __iter__(self):
        order = torch.randperm(24, generator=torch.Generator().manual_seed(7 + self.epoch)).tolist()
        while self.position < 24:
            self.position += 1
            yield order[self.position - 1]
        self.epoch, self.position = self.epoch + 1, 0
class Large(Sampler):
    "Shuffles a list in place that is too large to be saved at each pass."
    def __init__(self): self.order = list(range(200_000))
    def __len__(self): return 24
    def __iter__(self):
        random.shuffle(self.order)
        return iter([one % 24 for one in self.order[:24]])
class Epochs:
    "No DataLoader."
    def __init__(self): self.epoch = 0
    def __iter__(self):
        self.epoch += 1
        order = torch.randperm(24, generator=torch.Generator().manual_seed(self.epoch))
        for at in range(0, 24, 4): yield order[at:at + 4]
def own():
    return torch.Generator().manual_seed(3)
lasting = {"num_workers": 2, "persistent_workers": True}
"""

LOOP = """
for epoch in trial.steps():
    rows, noise = [], torch.rand(())
    if hasattr(getattr(loader, "sampler", None), "set_epoch"): loader.sampler.set_epoch(epoch)
    for batch in BATCHES:
        rows += batch.tolist()
    seen.append(rows)
    score = sum(place * one for place, one in enumerate(rows))
    trial.report(score=score, n=len(rows), noise=noise, after=torch.rand(()))
"""

EXACT = {
    "a stream": "DataLoader(Stream(), 4)",
    "a stream, sharded over workers": "DataLoader(Stream(), 4, num_workers=2)",
    "a stream with a generator, sharded over workers": "DataLoader(Stream(), 4, num_workers=2, generator=own())",
    "a stream in workers that outlive a pass": "DataLoader(Stream(), 4, **lasting)",
    "a stream that counts its passes": "DataLoader(Counting(), 4)",
    "a stream around another": "DataLoader(Outer(Counting()), 4)",
    "an iterable of one's own that counts its passes": "Epochs()",
    "workers that outlive a pass, and fetch ahead": (
        "DataLoader(Noisy(), 4, shuffle=True, prefetch_factor=3, generator=own(), **lasting)"
    ),
    "a sampler with a generator of its own": "DataLoader(Noisy(), 4, sampler=Eager())",
    "the same in workers that outlive a pass": "DataLoader(Noisy(), 4, sampler=Eager(), **lasting)",
    "a sampler that draws as it goes": "DataLoader(Noisy(), 4, sampler=Lazy())",
    "batches of indices": "DataLoader(Noisy(), batch_sampler=Buckets(), num_workers=1)",
    "a function of seed, epoch and position": "DataLoader(Noisy(), 4, sampler=Placed())",
    "a distributed sampler": "DataLoader(Noisy(), 4, sampler=DistributedSampler(range(24), 2, 1, seed=4))",
}

FILES = """
folder = Path("shards")
if not folder.exists():
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text("\\n".join(str(100.0 * number + line) for line in range(6)))
"""

HUGGING_FACE = """
from datasets import Dataset as Table
def stacked(rows): return torch.tensor([float(row["x"]) for row in rows])
rows = Table.from_dict({"x": list(range(24))}).to_iterable_dataset(num_shards=4).shuffle(seed=1, buffer_size=10)
"""

SET_UP = {
    **{name: f"loader = {source}" for name, source in EXACT.items()},
    "shards read from files": FILES + "loader = DataLoader(Shards(folder), 4)",
    "shards read from files by workers": FILES + "loader = DataLoader(Shards(folder), 4, num_workers=2)",
    "rows of Hugging Face": HUGGING_FACE + "loader = DataLoader(rows, 4, collate_fn=stacked)",
    "rows of Hugging Face in workers": HUGGING_FACE + "loader = DataLoader(rows, 4, num_workers=2, collate_fn=stacked)",
}

#: Passes that are not saved inside, because that would not be exact: set-up, and why.
UP_TO_A_STEP = {
    "a large list that is shuffled in place": (
        "loader = DataLoader(Noisy(), 4, sampler=Large())",
        "Large.order changes during a pass and is too large to be saved with its order",
    ),
    "workers out of order": (
        "loader = DataLoader(torch.arange(24.0), 4, num_workers=1, in_order=False)",
        "with in_order=False its batches come in the order in which its workers finish them",
    ),
}

#: Set-up, the batches of a step, and why it is named.
NAMED = {
    "a stream with a position, in workers that outlive a pass": (
        "loader = DataLoader(Endless(), 4, num_workers=1, persistent_workers=True)",
        "itertools.islice(iter(loader), 3)",
        "keeps a position or a count in workers that outlive a pass",
    ),
    "a data set that training changes for such workers": (
        "data = Noisy(); data.stage = -1; loader = DataLoader(data, 4, **lasting)",
        "[setattr(data, 'stage', epoch)] and loader",
        "has changed since the set-up",
    ),
}


def after_a_step(server, cell):
    """The outcome of a trial whose process is killed after its first step, and what its legs said."""
    told, output = [], ""
    for start, until in pairwise(range(STEPS + 1) if IS_THOROUGH else (0, 1, STEPS)):
        runner = server.runner()
        new = runner.leg(cell.order(until, start=start))
        assert new[-1]["error"] is None, new[-1]["error"]["traceback"]
        told += new
        runner.kill()
        output += runner.output()
    return (points(told), result(output)), told, output


def inside(server, cell, kills):
    """The same, killed after these batches of these steps; with None, after that step's beginning was saved."""
    told, output = [], ""
    for step, batches in kills:
        runner = server.runner()
        # A kill that comes late finds it no further than the next step's beginning.
        runner.connection.send(cell.order(step + 1, resume=bool(told)))
        told += runner.until("saved", step=step, **({"inside": batches} if batches else {}))
        runner.kill()
        told += runner.until("left")
        output += runner.output()
    runner = server.runner()
    told += runner.leg(cell.order(resume=True))
    assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
    runner.kill()
    last = runner.output()
    return (points(told), result(last)), told, output + last


def lost(told):
    """The reasons by name of what legs lost by resuming."""
    return {one["name"]: one["reason"] for leg in said(told, "begun") for one in leg["found"].get("inexact", [])}


@pytest.mark.parametrize("name", SET_UP)
def test_killed_after_a_step_or_inside_of_one_it_equals_an_undisturbed_run(server, experiment, name):
    source = FORMS + SET_UP[name] + LOOP.replace("BATCHES", "trial.batches(loader)")
    expected = undisturbed(server, experiment, source)
    found, told, _ = after_a_step(server, experiment(HEAD + source + FOOT, steps=STEPS))
    assert found == expected
    assert lost(told) == {}
    kills = [(0, 2), (1, 1), (2, 3)] if IS_THOROUGH else [(0, 2), (2, 3)]
    found, told, _ = inside(server, experiment(HEAD + source + FOOT, steps=STEPS, save_s=ALWAYS), kills)
    assert found == expected
    assert lost(told) == {}


@pytest.mark.parametrize("name", UP_TO_A_STEP)
def test_what_cannot_be_saved_inside_of_a_step_is_said_and_exact_from_the_step_on(server, experiment, name):
    set_up, reason = UP_TO_A_STEP[name]
    source = FORMS + set_up + LOOP.replace("BATCHES", "trial.batches(loader)")
    expected = undisturbed(server, experiment, source)
    found, _, output = inside(server, experiment(HEAD + source + FOOT, steps=STEPS, save_s=ALWAYS), [(1, None)])
    assert found == expected
    assert f"[workbench] trial.batches: a fault costs up to one step: {reason}" in output


@pytest.mark.parametrize("name", NAMED)
def test_what_is_lost_in_workers_is_named(server, experiment, name):
    set_up, batches, reason = NAMED[name]
    source = FORMS + set_up + LOOP.replace("BATCHES", batches)
    _, told, _ = after_a_step(server, experiment(HEAD + source + FOOT, steps=STEPS))
    assert reason in lost(told)["loader"]


def test_what_a_data_set_keeps_is_read_from_its_code():
    from torch.utils.data import Dataset, IterableDataset, TensorDataset

    class Opens(Dataset):
        def __init__(self):
            self.file, self.seen = None, {}

        def __getitem__(self, at):
            if self.file is None:
                self.file = open(__file__)
            self.seen[at] = len(self.file.name)
            return self.seen[at]

    class Counts(Opens):
        def __getitem__(self, at):
            self.calls += 1
            return at

    class Reads(IterableDataset):
        def __init__(self, inner=None):
            self.inner, self.rows = inner, [1, 2]

        def __iter__(self):
            row, buffer = {}, []
            for one in self.rows:
                row["x"] = one
                buffer.append(row["x"])
            yield from buffer

    class Moves(IterableDataset):
        def __iter__(self):
            self.at = 1
            yield self.at

    class Collects(IterableDataset):
        def __iter__(self):
            self.rows.append(1)
            yield 1

    class Fills(IterableDataset):
        def __iter__(self):
            self.rows["x"] = 1
            yield 1

    class Adds(IterableDataset):
        def __iter__(self):
            self.rows["x"] += 1
            yield 1

    class Nested(IterableDataset):
        def __iter__(self):
            def draw():
                self.n = 1
                return self.n

            yield draw()

    assert not any(keeps_something(one) for one in (Opens(), Reads(), Reads(Reads()), TensorDataset()))
    assert all(keeps_something(one()) for one in (Counts, Moves, Collects, Fills, Adds, Nested))
    assert keeps_something(Reads(Moves()))
    assert keeps_something(Reads(iter([1])))

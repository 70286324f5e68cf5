"""torchdata's StatefulDataLoader and its nodes, killed after steps and inside of them, equal an undisturbed run.

Loading its ``state_dict`` between two passes would shorten the next one, or change its order.
"""

import pytest
from trial.loops import FOOT
from trial.test_batches import ALWAYS, HEAD, undisturbed
from trial.test_streams import FORMS, HUGGING_FACE, LOOP, STEPS, after_a_step, inside, lost

TORCHDATA = """
import torchdata.nodes as nodes
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import RandomSampler, StatefulDistributedSampler
data = Noisy()
class Placing(IterableDataset):
    "Saves and loads its own position."
    def __init__(self): self.at, self.epoch = 0, 0
    def __iter__(self):
        while self.at < 24:
            self.at += 1
            yield float(self.at + 100 * self.epoch)
        self.at, self.epoch = 0, self.epoch + 1
    def state_dict(self): return {"at": self.at, "epoch": self.epoch}
    def load_state_dict(self, state): self.at, self.epoch = state["at"], state["epoch"]
"""

LOADERS = {
    "in order": "StatefulDataLoader(data, 4)",
    "shuffled": "StatefulDataLoader(data, 4, shuffle=True)",
    "shuffled, with a generator": "StatefulDataLoader(data, 4, shuffle=True, generator=own())",
    "shuffled, with workers": "StatefulDataLoader(data, 4, shuffle=True, num_workers=2)",
    "shuffled, with a generator and workers": (
        "StatefulDataLoader(data, 4, shuffle=True, generator=own(), num_workers=2)"
    ),
    "shuffled, with workers that outlive a pass": "StatefulDataLoader(data, 4, shuffle=True, **lasting)",
    "its own sampler": "StatefulDataLoader(data, 4, sampler=RandomSampler(data, generator=own()))",
    "its own distributed sampler": (
        "StatefulDataLoader(data, 4, sampler=StatefulDistributedSampler(data, 2, 1, seed=4))"
    ),
    "another sampler, with workers": "StatefulDataLoader(data, 4, sampler=Eager(), num_workers=1)",
    "a stream": "StatefulDataLoader(Stream(), 4)",
    "a stream with a state": "StatefulDataLoader(Placing(), 4)",
    "a stream with a state, in a worker": "StatefulDataLoader(Placing(), 4, num_workers=1)",
    "nodes": "nodes.Loader(nodes.Mapper(nodes.Batcher(nodes.SamplerWrapper(Eager()), 4), torch.tensor))",
}


@pytest.mark.parametrize("name", LOADERS)
def test_killed_after_a_step_or_inside_of_one_it_equals_an_undisturbed_run(server, experiment, name):
    equals_undisturbed(server, experiment, f"loader = {LOADERS[name]}")


def test_rows_of_hugging_face_that_it_loads(server, experiment):
    equals_undisturbed(server, experiment, HUGGING_FACE + "loader = StatefulDataLoader(rows, 4, collate_fn=stacked)")


def equals_undisturbed(server, experiment, set_up):
    source = FORMS + TORCHDATA + set_up + LOOP.replace("BATCHES", "trial.batches(loader)")
    expected = undisturbed(server, experiment, source)
    found, told, _ = after_a_step(server, experiment(HEAD + source + FOOT, steps=STEPS))
    assert (found, lost(told)) == (expected, {})
    cell = experiment(HEAD + source + FOOT, steps=STEPS, save_s=ALWAYS)
    found, told, _ = inside(server, cell, [(0, 2), (1, 1), (2, 3)])
    assert (found, lost(told)) == (expected, {})

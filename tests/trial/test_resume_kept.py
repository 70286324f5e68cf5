"""What is easily overlooked is kept too: hooks of tensors, buffers in memory, settings, …"""

import pytest
import torch
from trial.loops_kept import ALL
from trial.test_resume import same
from trial.world import points

from workbench.trial.torch_kinds import hooks_of, put_hooks


@pytest.mark.parametrize("name", ALL)
def test_resumed_equals_undisturbed(server, experiment, name):
    same(server, experiment, ALL[name])


def test_hooks_by_which_ranks_average_gradients_are_no_state():
    def average(_):
        pass

    average.__module__ = "workbench.trial.ranks.replicate"
    weight = torch.ones(3, requires_grad=True)
    weight.register_post_accumulate_grad_hook(average)
    assert hooks_of(weight) is None
    put_hooks(weight, None)
    assert [*weight._post_accumulate_grad_hooks.values()] == [average]
    weight.register_hook(lambda gradient: gradient)
    before, after = hooks_of(weight)
    assert len(before) == 1
    assert after is None


def test_a_variable_in_which_a_library_keeps_its_process_is_not_put_back(server, experiment):
    source = """
import os
NAME = "".join(["SERVICE", "_PORT"])
for epoch in trial.steps():
    trial.report(score=epoch, stale=os.environ.get(NAME, str(os.getpid())) != str(os.getpid()))
    os.environ[NAME] = str(os.getpid())
"""
    cell, told, start = experiment(source, steps=3), [], 0
    for until in (1, 2, 3):
        runner = server.runner()
        told += runner.leg(cell.order(until, start=start))
        runner.kill()
        start = until
    assert {value for (name, _, _), value in points(told).items() if name == "stale"} == {0}

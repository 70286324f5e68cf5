"""What objects share without a name for it stays shared: memory, a function's variables, the ``id`` of an object."""

import pytest
from trial.loops import FOOT
from trial.loops_shared import ALL
from trial.test_resume import same
from trial.test_states import states

from workbench.engine.judging.states import differing

END = FOOT.replace("result()", "[]")


@pytest.mark.parametrize("name", ALL)
def test_resumed_equals_undisturbed(server, experiment, name):
    same(server, experiment, ALL[name] + END)


@pytest.mark.parametrize("name", ALL)
def test_resuming_gives_the_same_state(server, experiment, name):
    assert differing(*states(server, experiment, ALL[name] + END)) == []

"""What a pickle would make otherwise is the same after a resume: optimizers of the loop, orders of containers, …"""

import pytest
from trial.loops_odd import ALL
from trial.test_resume import same


@pytest.mark.parametrize("name", ALL)
def test_resumed_equals_undisturbed(server, experiment, name):
    same(server, experiment, ALL[name])

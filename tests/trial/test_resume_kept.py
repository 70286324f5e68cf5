"""What is easily overlooked is kept too: hooks of tensors, buffers in memory, settings, …"""

import pytest
from trial.loops_kept import ALL
from trial.test_resume import same


@pytest.mark.parametrize("name", ALL)
def test_resumed_equals_undisturbed(server, experiment, name):
    same(server, experiment, ALL[name])

"""A short form of `make soak`: some faults in a row, of several kinds, change nothing."""

from pathlib import Path

import pytest
from soak.test_soak import chaos


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_handful_of_faults_changes_nothing(tmp_path: Path) -> None:
    verdict = chaos(tmp_path, "--local", "--plain", "--faults", "5", "--last", "9", "--pause", "0.2", "--seed", "5")
    assert verdict["differences"] == []
    assert len(verdict["kinds"]) >= 3

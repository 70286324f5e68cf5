import pytest

from workbench.store import Store


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "store")
    made.create()
    return made

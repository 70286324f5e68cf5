"""What is left on a file system, for root and for others."""

from __future__ import annotations

import os

import pytest

from workbench.store.files.space import left_to


@pytest.mark.parametrize(
    ("user", "blocks", "free", "available", "left"),
    [
        (1000, 100, 50, 0, 0),
        (0, 100, 50, 0, 50 * 4096),  # root may use what is reserved
        (1000, 0, 0, 0, None),  # it tells no sizes
        (0, 0, 0, 0, None),
    ],
)
def test_what_is_left_of_a_disk(user: int, blocks: int, free: int, available: int, left: int | None) -> None:
    told = os.statvfs_result((4096, 4096, blocks, free, available, 9, 9, 9, 0, 255))
    assert left_to(user, told) == left

"""A cluster that the tests of a file have one after another."""

from __future__ import annotations

from collections.abc import AsyncIterator

import by_hand
import pytest
import pytest_asyncio


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[by_hand.Cluster]:
    """One of one worker, whose slot each test has until its end. The tests run in the event loop of their module."""
    async with by_hand.cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found

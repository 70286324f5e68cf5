"""The digest that a GPU computes, here on the CPU: every byte and its place count, in pieces of any number."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workbench.trial.looking import on_device
from workbench.trial.looking.on_device import digest_there


def told(content: bytes) -> bytes:
    view = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)
    return digest_there(view)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_device, "_PIECE", 4)


def parts_swapped(content: bytes, one: int, other: int, size: int) -> bytes:
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    one, other = one % len(parts), other % len(parts)
    parts[one], parts[other] = parts[other], parts[one]
    return b"".join(parts)


@given(st.binary(max_size=200), st.data())
def test_equal_bytes_are_equal_and_others_are_not(content: bytes, data: Any) -> None:
    assert told(content) == told(bytes(content))
    other = data.draw(st.binary(max_size=200))
    assert (told(other) == told(content)) == (other == content)
    if content:
        changed = bytearray(content)
        changed[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        assert told(bytes(changed)) != told(content)


@given(st.binary(min_size=8, max_size=200), st.integers(0, 30), st.integers(0, 30), st.sampled_from([8, 32]))
def test_the_place_counts(content: bytes, one: int, other: int, size: int) -> None:
    moved = parts_swapped(content, one, other, size)
    assert (told(moved) == told(content)) == (moved == content)


def test_many_signs_that_change_at_once_do_not_cancel() -> None:
    for dtype in (torch.float64, torch.float32, torch.int64):
        values = torch.arange(1, 65).to(dtype)
        assert digest_there(values.view(torch.uint8)) != digest_there((-values).view(torch.uint8))


def test_no_gradient_no_default_device_and_no_generator_gets_in_the_way() -> None:
    view = torch.arange(256, dtype=torch.uint8)
    expected, before = digest_there(view), torch.get_rng_state()
    with torch.device("meta"):
        assert digest_there(view) == expected
    assert torch.equal(torch.get_rng_state(), before)

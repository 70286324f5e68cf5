"""What a comparison says of the results: never that they are the same where nothing could be compared."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.compare.words import lines


def comparison(metrics: list[dict[str, Any]], pairs: list[dict[str, Any]], trial: int | None = None) -> dict[str, Any]:
    return {
        "a": {"ref": "a@1", "trial": trial},
        "b": {"ref": "b@1", "trial": trial},
        "title": "",
        "sections": [],
        "partial": [],
        "results": {
            "goal": {"metric": "acc", "mode": "max"}, "bests": [None, None], "selection": None, "within_noise": None,
            "metrics": metrics, "pairs": pairs,
        },
    }  # fmt: skip


def metric(a: float | None, b: float | None, at: int | None = None) -> dict[str, Any]:
    return {"name": "acc", "a": a, "b": b, "parts_at": at}


def pair(a: float | None, b: float | None, at: int | None = None) -> dict[str, Any]:
    return {"configuration": {}, "a": 0, "b": 1, "value_a": a, "value_b": b, "parts_at": at}


@pytest.mark.parametrize(
    ("metrics", "pairs", "trial", "said"),
    [
        ([metric(0.5, 0.5)], [pair(0.5, 0.5)], None, "the same at every common step"),
        ([metric(0.5, 0.7, 2)], [pair(0.5, 0.7, 2)], None, "differ from step 2"),
        ([metric(0.5, 0.7)], [], None, "no two trials of equal configuration"),
        ([metric(None, 0.7)], [pair(None, 0.7)], None, "no common step"),
        ([metric(0.5, 0.7)], [], 3, "the same at every common step"),
        ([metric(0.5, None)], [], 3, "no common step"),
    ],
)
def test_metrics_are_the_same_only_where_steps_were_compared(
    metrics: list[dict[str, Any]], pairs: list[dict[str, Any]], trial: int | None, said: str
) -> None:
    (line,) = [words for _, words in lines(comparison(metrics, pairs, trial)) if words.strip().startswith("acc  ")]
    assert line.endswith(f"({said})")


def test_a_pair_without_values_is_not_the_same_bit_for_bit() -> None:
    found = [words.strip() for _, words in lines(comparison([], [pair(0.5, 0.5), pair(None, None), pair(None, 0.1)]))]
    assert "3 pairs of equal configuration, 1 of them the same bit for bit" in found
    assert "1 pair of equal configuration, 0 of them the same bit for bit" in [
        words.strip() for _, words in lines(comparison([], [pair(None, 0.1)]))
    ]

"""What the docs draw and promise is what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.records import BY_EXTENSION, ENDED, LEGAL_EXPERIMENT, LEGAL_TRIAL

ROOT = Path(__file__).resolve().parents[1]


def drawn(table: frozenset[tuple[str, str]]) -> str:
    """The diagram of a table of legal transitions."""
    return "stateDiagram-v2\n" + "".join(f"    {before} --> {after}\n" for before, after in sorted(table))


@pytest.mark.parametrize("table", [LEGAL_TRIAL, LEGAL_EXPERIMENT])
def test_the_state_diagram_in_the_docs_is_drawn_from_the_table(table: frozenset[tuple[str, str]]) -> None:
    assert drawn(table) in (ROOT / "docs" / "architecture.md").read_text()


@pytest.mark.parametrize("table", [LEGAL_TRIAL, LEGAL_EXPERIMENT])
def test_an_ended_state_is_left_by_an_extension_alone_and_always_reached(table: frozenset[tuple[str, str]]) -> None:
    assert {pair for pair in table if pair[0] in ENDED} <= BY_EXTENSION
    assert {after for _, after in table} >= ENDED


ROWS = [line.split("`")[-2] for line in (ROOT / "docs" / "exactness.md").read_text().splitlines() if "::test_" in line]


@pytest.mark.parametrize("row", ROWS)
def test_each_row_of_exactness_is_a_test(row: str) -> None:
    path, name = row.split("::")
    assert f"def {name}(" in (ROOT / path).read_text()

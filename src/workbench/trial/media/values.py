"""What training code gives to ``trial.log`` where a bare array would not say what it is. Law: they hold what they are
given; it is checked when it is logged, where its name is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """A picture with a caption: ``trial.log(sample=wb.Image(array, "a seven"))``.

    array: H×W, H×W×C or C×H×W, where C is 1, 3 or 4 (red, green, blue and opacity), of NumPy, torch or anything that
    NumPy reads; or an image of Pillow. low, high: the values that are drawn black and white; by default 0 and 1 for
    floats, 0 and 255 for integers. Values beyond them are cut.
    """

    array: Any
    caption: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Audio:
    """A sound: ``trial.log(speech=wb.Audio(array, 16000))``.

    array: N samples, or N×C or C×N of C channels, at most eight; floats between -1 and 1, or int16. rate: samples per
    second.
    """

    array: Any
    rate: int
    caption: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """How often which values occur: ``trial.log(weights=wb.Histogram(layer.weight))``.

    values: numbers of any shape; nan and infinities are counted apart. bins: how many, of equal width, at most 512.
    edges: if given, ``values`` are counts, and these are their edges: one more than there are counts, ascending.
    """

    values: Any
    bins: int = 64
    edges: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows and columns: ``trial.log(errors=wb.Table([{"word": "cat", "said": "dog"}]))``.

    rows: dictionaries, sequences of equal length, a two-dimensional array, or a DataFrame of pandas or Polars.
    columns: their names, for rows that do not have any. Of a long table the first 10,000 rows are kept, of one with
    more than 50 columns the first 500,000 cells, and it says how many rows there were.
    """

    rows: Any
    columns: Sequence[str] | None = None

"""Histograms as small JSON: edges and counts."""

from __future__ import annotations

from typing import Any

from workbench.errors import BadInput
from workbench.trial.media.arrays import as_array, described
from workbench.trial.media.values import Histogram

_MOST_BINS = 512
#: Half of the largest float: the width of a histogram must be a float.
_WIDEST = 8e307


def counted(histogram: Histogram, name: str) -> dict[str, Any]:
    """``edges``, ``counts`` between them, and how many values were ``left_out`` because they are nan or infinite.

    Without any finite value there are no edges. Raises BadInput.
    """
    import numpy as np

    values = as_array(histogram.values, name).reshape(-1)
    if histogram.edges is not None:
        return _given(values, as_array(histogram.edges, name).reshape(-1), name)
    bins = histogram.bins
    if isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins <= _MOST_BINS:
        raise BadInput(
            f"trial.log({name}=Histogram(…, bins={bins!r})): expected a whole number from 1 to {_MOST_BINS}. For edges "
            "of your own, give counts and edges: Histogram(counts, edges=edges)."
        )
    if not values.size:
        raise BadInput(f"trial.log({name}=Histogram(…)) was given {described(histogram.values)}: there are no values.")
    left_out = 0
    if values.dtype.kind == "b":
        values = values.astype(np.uint8)
    if values.dtype.kind == "f" and not (np.isfinite(values.min()) and np.isfinite(values.max())):
        finite = values[np.isfinite(values)]
        left_out, values = values.size - finite.size, finite
        if not values.size:
            return {"edges": [], "counts": [], "left_out": left_out}
    if values.dtype.itemsize == 8 and max(-float(values.min()), float(values.max())) > _WIDEST:
        values = np.clip(values, -_WIDEST, _WIDEST)
    counts, edges = np.histogram(values, bins)
    return {"edges": edges.tolist(), "counts": counts.tolist(), "left_out": left_out}


def _given(counts: Any, edges: Any, name: str) -> dict[str, Any]:
    import numpy as np

    fits = edges.size == counts.size + 1 and 1 <= counts.size <= _MOST_BINS
    if not fits or not (np.isfinite(edges).all() and np.isfinite(counts).all()):
        raise BadInput(
            f"trial.log({name}=Histogram(counts, edges=edges)) was given {counts.size} counts and {edges.size} edges. "
            f"Expected 1 to {_MOST_BINS} counts, and one edge more than there are counts, all finite."
        )
    if not (np.diff(edges) > 0).all() or (counts < 0).any():
        raise BadInput(
            f"trial.log({name}=Histogram(counts, edges=edges)): expected ascending edges, and no count below 0."
        )
    return {"edges": edges.tolist(), "counts": counts.tolist(), "left_out": 0}

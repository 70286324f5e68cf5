"""matplotlib's backend inside a trial: nothing is drawn on a screen; ``plt.show()`` keeps figures as the trial's files.

Named by ``MPLBACKEND=module://workbench.trial.process.backend``.
"""

from __future__ import annotations

from typing import Any

from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

FigureCanvas = FigureCanvasAgg
FigureManager = FigureManagerBase


def show(*args: Any, **kwargs: Any) -> None:
    """Keep every open figure as a file of the trial, and close it."""
    from matplotlib import pyplot as plt

    from workbench import trial as current

    for number in plt.get_fignums():
        figure = plt.figure(number)
        current.keep_figure(figure)
        plt.close(figure)

"""The cost of checking that a set-up makes the same values, on top of the survey that checkpoints need anyway, and at a
save.

    python -m benchmarks setup --json

A set-up in this process makes a model, an optimizer and a data set; it is timed itself, then its survey, and what is
added to that: the sums for a checkpoint and the comparison on a resume.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any


def arguments(parser: argparse.ArgumentParser) -> None:
    """How many times."""
    parser.add_argument("--rounds", type=int, default=30)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Medians in milliseconds, and the comparison as a share of the set-up."""
    import torch
    from sklearn.datasets import load_digits

    from workbench.trial.classifier import Classifier
    from workbench.trial.course.made import Making, differing
    from workbench.trial.discovery import Survey
    from workbench.trial.namespace import roots

    def set_up() -> dict[str, Any]:
        X, y = load_digits(return_X_y=True)
        X = torch.tensor(X, dtype=torch.float32) / 16
        order = torch.randperm(len(X))
        model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
        opt = torch.optim.AdamW(model.parameters())
        train = torch.utils.data.TensorDataset(X[order[:1200]], torch.tensor(y)[order[:1200]])
        loader = torch.utils.data.DataLoader(train, 32, shuffle=True)
        return {"X": X, "y": y, "order": order, "model": model, "opt": opt, "train": train, "loader": loader}

    set_up()  # imports
    times: dict[str, list[float]] = {}

    def timed(name: str, do: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        result = do()
        times.setdefault(name, []).append((time.perf_counter() - begun) * 1e3)
        return result

    for _ in range(options.rounds):
        main = timed("set-up", set_up)
        where = roots(main, [], ())
        base = timed("survey", partial(lambda main, where: Survey(Classifier(main), where), main, where))
        later = Survey(base.classifier, where, base)
        sums = timed("sums at a save", partial(Making(base).of, later))
        assert timed("comparison on a resume", partial(differing, sums, base)) == []
    median = {f"{name}, ms": round(statistics.median(values), 3) for name, values in times.items()}
    share = median["comparison on a resume, ms"] / median["set-up, ms"]
    return {**median, "comparison of a set-up, %": round(100 * share, 2), "objects": len(base.entries)}

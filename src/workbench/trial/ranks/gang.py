"""One rank's side of a gang. Law: the training code is not changed; what cannot be right is refused by name.

::

    gang = start(named, source)        # all ranks, after the set-up; None if the code manages its ranks itself
    values = gang.reduced(values)      # all ranks, in trial.report, before a value is recorded
    gang.state(), gang.put(state)      # with this rank's other state in a checkpoint
    gang.end()                         # all ranks, after the loop
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from workbench.errors import BadInput
from workbench.snapshot.imported import loaded
from workbench.trial.ranks import agree, environment, norms, together, totals
from workbench.trial.ranks.reduce import reduced
from workbench.trial.ranks.replicate import Replicas
from workbench.trial.ranks.samples import Samples
from workbench.trial.ranks.sharded import Shards
from workbench.trial.ranks.sharding import Sharding

#: Steps of optimizers between two comparisons of the ranks.
EVERY = 100


class Gang:
    """This process as one of several ranks of a trial, between :func:`start` and :meth:`end`."""

    def __init__(self, named: Mapping[str, Any], every: int, source: str, timeout_s: float, strategy: str) -> None:
        torch = loaded("torch")
        distributed, data = torch.distributed, torch.utils.data
        self._every, self._steps, self._is_compared = every, 0, False
        models = _distinct(named, torch.nn.Module)
        self._samples = Samples(distributed.get_world_size())
        optimizers = _distinct(named, torch.optim.Optimizer)
        self._shards: Shards | None = None
        self._replicas: Replicas | None = None
        if strategy == "fsdp":
            self._shards = Shards(models, optimizers, self._samples.take_share, self._after_backward)
        else:
            self._replicas = Replicas(models, optimizers, self._samples.take_share, self._after_backward, timeout_s)
        self._models = list(models.values())
        readers = {name: one for name, one in named.items() if isinstance(one, data.DataLoader | data.Dataset)}
        self._sharding = Sharding(
            distributed.get_rank(), distributed.get_world_size(), self._samples, self._is_training, readers
        )
        self._sharding.begin()
        norms.begin(self._samples.share)
        #: What the user should know, in sentences.
        self._totals = totals.totals(source, [name for name, one in named.items() if isinstance(one, data.DataLoader)])
        self.remarks = _remarks(models) + totals.remarks(self._totals)
        if not any(isinstance(one, data.DataLoader) for one in readers.values()):
            self.remarks.append(
                "No DataLoader was made before the loop. If the loop makes its batches itself, every rank trains on "
                "the same whole batches: the results are right, and no faster than on one slot. A DataLoader is split."
            )
        self._hook = loaded("torch.optim.optimizer").register_optimizer_step_pre_hook(self._before_step)

    def reduced(self, values: Mapping[str, float]) -> dict[str, float]:
        """The reported values as means over all ranks, or as sums where the text of the code says so
        (:mod:`~workbench.trial.ranks.totals`). Raises BadMetric if ranks report different names."""
        return reduced(values, self._samples.take_unreported(), self._totals.names)

    def state(self) -> dict[str, Any]:
        """What the order of later batches depends on; the same on all ranks."""
        return self._sharding.stream.state()

    def put(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state` returned."""
        self._sharding.stream.put(state)

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Within this, models and optimizers have whole plain tensors, for a checkpoint. All ranks must enter it."""
        if self._shards is None:
            yield
            return
        with self._shards.whole():
            self._shards.refuse_kept()
            yield

    def end(self) -> None:
        """Leave models, loaders and optimizers as they were before.

        Ranks that still wait for this one fail with a reason. Call it while an exception is handled, if there is one.
        """
        self._hook.remove()
        self._sharding.end()
        norms.end()
        if self._replicas is not None:
            self._replicas.end()
        elif self._shards is not None and not isinstance(sys.exc_info()[1], Exception):
            self._shards.end()  # after an error the other ranks may not take part
        _leave(isinstance(sys.exc_info()[1], Exception))

    def _is_training(self) -> bool:
        torch = loaded("torch")
        return torch.is_grad_enabled() and (not self._models or any(_is_in_training(one) for one in self._models))

    def _after_backward(self) -> None:
        if self._replicas is not None and not self._is_compared:
            self._is_compared = True
            agree.compare(self._replicas.named_parameters(), "after the first backward pass")

    def _before_step(self, *_: Any) -> None:
        if self._replicas is not None and self._steps % self._every == 0:
            agree.compare(self._replicas.named_parameters(), f"before step {self._steps + 1} of the optimizers")
        self._steps += 1


def start(
    named: Mapping[str, Any],
    source: str = "",
    *,
    every: int = EVERY,
    init: str = "env://",
    store: Any = None,
    timeout_s: float = 600.0,
    strategy: str = "replicate",
) -> Gang | None:
    """Make this process one of the ranks of a trial. All ranks must call this; the variables of
    :func:`workbench.trial.ranks.environment.variables` are set.

    named: the objects that the training code made before its loop, by their paths: models, optimizers, loaders, data
    sets; others are ignored. source: the code's text. every: the ranks are compared after the first backward pass and
    before every so many steps of optimizers. init: where the ranks meet, as ``init_process_group`` takes it; store: of
    torch, through which they meet instead. timeout_s: seconds after which a collective that not all ranks have joined
    is an error. strategy: ``replicate``, or ``fsdp`` to shard models and optimizers. Returns None if the
    training code manages its ranks itself. Raises BadInput, by name, for what several ranks cannot train.
    """
    if (source and environment.managed_in(source)) or environment.managed_by(named):
        return None
    torch = loaded("torch")
    if torch is None:
        raise BadInput(
            "the code before the loop does not import torch, and only torch trains on several slots. Use --slots 1."
        )
    shared = environment.join(init, timeout_s, store)
    try:
        together.begin(shared)
        return Gang(named, every, source, timeout_s, strategy)
    except BaseException:
        _leave(is_failed=True)
        raise


def _leave(is_failed: bool) -> None:
    together.end(is_failed)
    loaded("torch").distributed.destroy_process_group()


def of_namespace(names: Mapping[str, Any]) -> dict[str, Any]:
    """Models, optimizers, loaders and data sets among the values of names, and in their lists, tuples and dicts."""
    found: dict[str, Any] = {}
    for name, value in names.items():
        items: Any = ()
        if type(value) in (list, tuple):
            items = [(f"{name}[{number}]", one) for number, one in enumerate(value)]
        elif type(value) is dict:
            items = [(f"{name}[{key!r}]", one) for key, one in value.items()]
        found.update([(key, one) for key, one in [(name, value), *items] if _is_relevant(one)])
    return found


def _is_relevant(one: Any) -> bool:
    torch = loaded("torch")
    data = torch.utils.data
    return isinstance(one, torch.nn.Module | torch.optim.Optimizer | data.DataLoader | data.Dataset)


def _distinct(named: Mapping[str, Any], cls: Any) -> dict[str, Any]:
    """Objects of a class, each once, by the first of its names."""
    found: dict[int, tuple[str, Any]] = {}
    for name, one in named.items():
        if isinstance(one, cls):
            found.setdefault(id(one), (name, one))
    return dict(found.values())


def _is_in_training(model: Any) -> bool:
    """A loss function is a module too, which training code never puts into evaluation mode."""
    return any(one.requires_grad for one in model.parameters()) and any(one.training for one in model.modules())


def _remarks(models: Mapping[str, Any]) -> list[str]:
    norm = loaded("torch.nn.modules.batchnorm")._BatchNorm
    remarks = []
    for name, model in models.items():
        for key, module in model.named_modules():
            place = f"{name}.{key}" if key else name
            if isinstance(module, norm) and not norms.is_whole(module):
                remarks.append(
                    f"{place} is a {type(module).__name__}, which normalizes each rank's part of a batch by itself, so "
                    "results depend on the number of slots. torch.nn.BatchNorm2d normalizes whole batches."
                )
            if getattr(module, "reduction", None) == "sum":
                remarks.append(
                    f"{place} adds up the losses of a batch (reduction='sum'). Gradients are averaged over ranks, so "
                    "they are smaller by the number of slots, unless the code divides by the batch's own size. Use "
                    "reduction='mean'."
                )
    return remarks

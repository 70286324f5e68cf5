"""Models that are trained on several ranks in place. Law: the gradient that an optimizer sees is that of the mean loss
over the whole batch, on every rank.

There is no wrapper. Each parameter gets a hook for when its gradient is there; its bucket is averaged while backward
goes on, and at the end of backward the means are in ``.grad``. So clipping, accumulation, other optimizers and updates
by hand see them. A gradient that is accumulated is averaged in each backward pass: what was there before is equal on
all ranks, and the weights of the ranks add up to 1, so it stays.

Why not torch's: ``DistributedDataParallel`` is a wrapper with other names in its state, and its subclass trick
``torch.distributed._composable.replicate`` is private, changes the class of the model (pickles and copies of it fail)
and hooks ``forward`` alone. Both weigh ranks equally, which is wrong for batches that do not divide.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workbench.errors import BadInput
from workbench.snapshot.imported import loaded
from workbench.trial.ranks import together
from workbench.trial.ranks.buckets import Bucket, packed, refuse_sparse
from workbench.trial.ranks.buffers import Buffers, put_from_first
from workbench.trial.ranks.together import Place


class Replicas:
    """All models and optimizers of this process, trained as one with those of the other ranks."""

    def __init__(
        self,
        models: Mapping[str, Any],
        optimizers: Mapping[str, Any],
        share: Callable[[], float],
        finished: Callable[[], None],
        timeout_s: float,
    ) -> None:
        """Broadcast parameters and buffers of the first rank, and average gradients from now on.

        share: this rank's weight in the mean over the current batch. finished: called at the end of each backward pass
        that reached a parameter, when gradients are averaged. timeout_s: seconds that a collective may take. All ranks
        must call this at the same time. Raises BadInput for what cannot be replicated, and if the ranks have different
        models.
        """
        check(models, optimizers)
        self.models = dict(models)
        self._share, self._finished = share, finished
        self._lock = threading.Lock()
        self._is_under_way = False
        self._now = 0.0
        parts = list(_parts(self.models, optimizers))
        put_from_first(
            [(name, one) for part in parts for name, one in part],
            [(f"{name}.{key}", one) for name, model in models.items() for key, one in model.named_buffers()],
        )
        self._replicas = [_Replica(part, self._arrived, timeout_s) for part in parts]
        self._buffers = Buffers(self.models)

    def end(self) -> None:
        """Remove all hooks. Gradients are no longer averaged."""
        for replica in self._replicas:
            replica.end()

    def named_parameters(self) -> list[tuple[str, Any]]:
        """All parameters of the models as they are now, and those of optimizers; each once."""
        found: dict[int, tuple[str, Any]] = {}
        for name, one in _named(self.models):
            found.setdefault(id(one), (name, one))
        for replica in self._replicas:
            for name, one in zip(replica.names, replica.parameters, strict=True):
                found.setdefault(id(one), (name, one))
        return list(found.values())

    def _arrived(self, replica: _Replica, number: int) -> None:
        with self._lock:  # torch runs a backward pass in one thread for each device
            if not self._is_under_way:
                self._is_under_way = True
                self._now = self._share()
                loaded("torch").autograd.Variable._execution_engine.queue_callback(self._finish)
            replica.arrived(number, self._now)

    def _finish(self) -> None:
        with self._lock:
            # With reentrant checkpointing, a backward pass inside of this one has finished it.
            if not self._is_under_way:
                return
            self._is_under_way = False
            for replica in self._reached():
                replica.finish(self._now)
            self._buffers.average(self._now)
        self._finished()

    def _reached(self) -> list[_Replica]:
        """The models that the backward pass reached on any rank. Of a GAN's two, the ranks may differ in that."""
        if len(self._replicas) == 1:
            return self._replicas
        torch = loaded("torch")
        reached = torch.tensor([replica.is_reached for replica in self._replicas], dtype=torch.int32)
        together.all_reduce(reached, Place.BACKWARD)
        return [one for one, count in zip(self._replicas, reached.tolist(), strict=True) if count]


class _Replica:
    """One model, or several that share parameters, with collectives of its own."""

    def __init__(
        self, named: list[tuple[str, Any]], arrived: Callable[[_Replica, int], None], timeout_s: float
    ) -> None:
        torch = loaded("torch")
        self.names = [name for name, _ in named]
        self.parameters = [one for _, one in named]
        # Its own group: ranks may reach two models in different orders, and collectives of one group may not mix.
        # Without a limit it would have torch's, which is half an hour, and not that of the process group.
        self._group = torch.distributed.new_group(timeout=dt.timedelta(seconds=timeout_s))
        #: Parameters in the order in which their gradients come: first a guess, then that of the first pass.
        self._order = list(reversed(range(len(named))))
        self._is_order_seen = False
        self._seen: list[int] = []
        self._buckets: list[Bucket] = []
        self._bucket_of: dict[int, Bucket] = {}
        #: The first bucket whose collective has not been started in this pass.
        self._next = 0
        self._trained: list[bool] = []
        self.is_reached = False
        self._hooks = [self._hook(number, arrived) for number in range(len(named))]

    def _hook(self, number: int, arrived: Callable[[_Replica, int], None]) -> Any:
        one = self.parameters[number]
        is_trained = one.requires_grad
        one.requires_grad_(True)  # else it takes no hook, and it may be trained later
        hook = one.register_post_accumulate_grad_hook(lambda _: arrived(self, number))
        one.requires_grad_(is_trained)
        return hook

    def end(self) -> None:
        for hook in self._hooks:
            hook.remove()
        # The hooks are in a circle with this object. Garbage with a process group in it crashes a worker of a loader
        # that is forked later and collects it: the group's threads are not in that process.
        self._hooks, self._buckets, self._bucket_of, self._group = [], [], {}, None

    def arrived(self, number: int, share: float) -> None:
        """The gradient of a parameter is there."""
        one = self.parameters[number]
        refuse_sparse(self.names[number], one)
        if not self.is_reached:
            self.is_reached = True
            self._pack()
        bucket = self._bucket_of[number]
        if number in bucket.reached:
            raise BadInput(
                f"one backward pass reaches {self.names[number]} twice, so its gradient cannot be averaged while "
                "backward goes on. Use checkpoint(..., use_reentrant=False)."
            )
        bucket.reached.add(number)
        if not self._is_order_seen:
            self._seen.append(number)
        while self._next < len(self._buckets):
            following = self._buckets[self._next]
            if len(following.reached) < len(following.members):
                return
            following.start(share, self._group)
            self._next += 1

    def finish(self, share: float) -> None:
        """Average what is left, and wait."""
        if not self.is_reached:
            self._pack()
        for bucket in self._buckets[self._next :]:
            bucket.start(share, self._group)
        for bucket in self._buckets:
            bucket.finish()
        self.is_reached = False
        self._next = 0
        if not self._is_order_seen:
            self._is_order_seen = True
            self._agree_on_order()

    def _agree_on_order(self) -> None:
        """Take the order of the first rank: its parameters as they came, then those that were not reached."""
        torch = loaded("torch")
        rest = [number for number in self._order if number not in set(self._seen)]
        order = torch.tensor(self._seen + rest, device=self.parameters[0].device)
        together.broadcast(order, Place.BACKWARD, self._group)
        self._order, self._seen, self._trained = order.tolist(), [], []

    def _pack(self) -> None:
        """Make buckets of the parameters that are trained now, if they are others than before."""
        trained = [one.requires_grad for one in self.parameters]
        if trained == self._trained:
            return
        self._trained = trained
        self._buckets = packed([number for number in self._order if trained[number]], self.parameters)
        self._bucket_of = {number: bucket for bucket in self._buckets for number in bucket.members}


def check(models: Mapping[str, Any], optimizers: Mapping[str, Any]) -> None:
    """Raises BadInput, by name, for what cannot be replicated."""
    torch = loaded("torch")
    for name, model in models.items():
        for key, module in model.named_modules():
            place = f"{name}.{key}" if key else name
            if getattr(module, "sparse", False) is True:
                raise BadInput(
                    f"{place} is a {type(module).__name__} with sparse=True, and sparse gradients are not averaged "
                    "over ranks. Make it with sparse=False, or use --slots 1."
                )
            if isinstance(module, torch.nn.DataParallel):
                raise BadInput(
                    f"{place} is a DataParallel, which uses several GPUs in one process. Use its .module; each rank "
                    "has one GPU."
                )
    for name, one in [*_named(models), *_of_optimizers(optimizers)]:
        if torch.nn.parameter.is_lazy(one):
            raise BadInput(
                f"{name} has no shape yet, because its module is lazy. Call the model on one batch before the loop."
            )
        if not (one.is_floating_point() or one.is_complex()) and one.requires_grad:
            raise BadInput(f"{name} has the type {one.dtype}, whose gradients cannot be averaged. Use a float type.")


def _parts(models: Mapping[str, Any], optimizers: Mapping[str, Any]) -> Iterable[list[tuple[str, Any]]]:
    """The parameters, each once with its name; those of models that share one are together. Optimizers may have others,
    which come last."""
    parts: list[dict[int, tuple[str, Any]]] = []
    for name, model in models.items():
        own = {id(one): (key, one) for key, one in _named({name: model})}
        touching = [part for part in parts if not part.keys().isdisjoint(own)]
        merged = {key: value for part in touching for key, value in part.items()}
        parts = [part for part in parts if part not in touching]
        parts.append({**own, **merged})
    known = {key for part in parts for key in part}
    parts.append({id(one): (name, one) for name, one in _of_optimizers(optimizers) if id(one) not in known})
    return [list(part.values()) for part in parts if part]


def _named(models: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    for name, model in models.items():
        for key, one in model.named_parameters():
            yield f"{name}.{key}", one


def _of_optimizers(optimizers: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    for name, optimizer in optimizers.items():
        for group, values in enumerate(optimizer.param_groups):
            for number, one in enumerate(values["params"]):
                yield f"{name}.param_groups[{group}]['params'][{number}]", one

"""Processes that live for all tests of a module, and train a loop as ranks whenever they are told to."""

from __future__ import annotations

import inspect
import os
import pickle
import socket
import traceback
from dataclasses import dataclass, field
from typing import Any

import torch
from ranks import loops
from torch import multiprocessing
from torch.utils.data import DataLoader

#: Seconds between two looks and until ranks are stuck: short for loops that are.
USUAL_S = (2.0, 30.0)
PATIENCE_S = dict.fromkeys(("one_breaks", "one_returns", "one_fails"), (0.2, 1.0))


@dataclass
class Run:
    """What one process has after a loop."""

    reports: list[dict[str, float]]
    #: Tensors of the models' states, by name.
    state: dict[str, torch.Tensor]
    #: The numbers of the samples, batch by batch.
    seen: list[list[int]]
    remarks: list[str] = field(default_factory=list)
    #: Whether the models, pickled while they were trained, could be read.
    pickles: bool = True


class Failed(Exception):
    """A loop raised an error: the class's name and its text."""


def alone(name: str) -> Run:
    """The loop as plain PyTorch, in this process."""
    loop = getattr(loops, name)()
    names = next(loop)
    return _result(names, list(loop))


def as_rank(name: str, init: str, every: int, strategy: str) -> Run:
    """The loop as one of several ranks; the environment's variables are set."""
    from workbench.trial import iterators
    from workbench.trial.ranks import gang, together

    together.LOOK_S, together.PATIENCE_S = PATIENCE_S.get(name, USUAL_S)
    iterators.watch()  # as in each leg
    loop = getattr(loops, name)()
    names = next(loop)
    source = inspect.getsource(getattr(loops, name))
    here = gang.start(gang.of_namespace(names), source, every=every, init=init, timeout_s=30, strategy=strategy)
    assert here is not None
    reports = []
    try:
        given = next(loop, None)
        while given is not None:
            reports.append(here.reduced(given))
            try:
                given = loop.send(reports[-1])
            except StopIteration:
                break
        with here.whole():
            pickled = pickle.loads(pickle.dumps(names["model"])) if not hasattr(names["model"], "_orig_mod") else None
            found = _result(names, reports)
    finally:
        here.end()
    _train_on(names)
    found.remarks = here.remarks
    found.pickles = pickled is None or type(pickled) is type(names["model"])
    return found


def _train_on(names: dict[str, Any]) -> None:
    """After the end, models and loaders are those of one process: nothing waits for another rank."""
    for one in names.values():
        if isinstance(one, torch.nn.Module) and any(weight.requires_grad for weight in one.parameters()):
            sum(weight.abs().sum() for weight in one.parameters()).backward()
        if type(one) is DataLoader and one.batch_size and one.in_order and len(one.dataset) >= one.batch_size:
            assert len(next(iter(one))[0]) == one.batch_size


def _result(names: dict[str, Any], reports: list[dict[str, float]]) -> Run:
    models = {name: one for name, one in names.items() if isinstance(one, torch.nn.Module)}
    state = {
        f"{name}.{key}": value.detach().clone()
        for name, one in models.items()
        for key, value in one.state_dict().items()
    }
    return Run(reports, state, names["seen"])


def _serve(pipe: Any) -> None:
    torch.set_num_threads(1)
    # This process would start others as it was started itself. Each worker of a loader would then import torch, and
    # free it for seconds when it ends. A trial's process starts workers by the platform's own method.
    multiprocessing.set_start_method(None, force=True)
    while (asked := pipe.recv()) is not None:
        name, environment, init, every, strategy = asked
        os.environ.update(environment)
        try:
            # As bytes: a pipe would send tensors as shared memory.
            pipe.send_bytes(pickle.dumps(as_rank(name, init, every, strategy)))
        except Exception as error:
            pipe.send_bytes(pickle.dumps(Failed(type(error).__name__, f"{error}", traceback.format_exc())))


class World:
    """Up to ``size`` ranks."""

    def __init__(self, size: int, folder: Any) -> None:
        context = multiprocessing.get_context("forkserver")
        # What the first optimizer of a process imports.
        context.set_forkserver_preload([__name__, "torch._dynamo", "torchdata.stateful_dataloader"])
        self._folder, self._count = folder, 0
        self._pipes, self._processes = [], []
        for _ in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,))
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def run(self, name: str, ranks: int, every: int = 1, init: str = "", strategy: str = "replicate") -> list[Run]:
        """The loop on so many ranks. Raises the first rank's Failed if one failed."""
        answers = self.answers(name, ranks, every, init, strategy)
        for one in answers:
            if isinstance(one, Failed):
                raise one
        return answers

    def answers(self, name: str, ranks: int, every: int = 1, init: str = "", strategy: str = "replicate") -> list[Any]:
        """What each rank has after the loop, or why it failed."""
        from workbench.trial.ranks import environment

        self._count += 1
        init = init or f"file://{self._folder}/{self._count}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for rank, pipe in enumerate(self._pipes[:ranks]):
            pipe.send((name, environment.variables(rank, ranks, rank, ranks, "127.0.0.1", port), init, every, strategy))
        return [
            pickle.loads(pipe.recv_bytes()) if pipe.poll(60) else Failed("Hung", name) for pipe in self._pipes[:ranks]
        ]

    def end(self) -> None:
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join(10)
            process.kill()

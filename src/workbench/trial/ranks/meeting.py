"""How the ranks of a leg find each other and decide together. Law: the first rank decides, and the others do the same.

The first rank writes where it listens, and from which checkpoint the leg resumes, into files that the others wait for.
When the set-up is done, they connect to a store of torch (``TCPStore``) in the first rank's process. Its law is simple:
all ranks ask the same questions in the same order, and the first rank's answer counts. A rank that waits for an answer
of one that has died gets an error, or is ended by its worker.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import pickle
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from workbench.errors import BadInput, StoreError, TrialFailed
from workbench.messages import Rank
from workbench.snapshot.imported import loaded
from workbench.store.files.atomic import entries_in, read_json, write_json
from workbench.store.files.inside import make_inside
from workbench.store.layout import UNFINISHED
from workbench.trial.ranks import environment, gang
from workbench.trial.state import State

#: Seconds between two looks for a file of the first rank.
_LOOK_S = 0.01
#: The longest wait for the others' set-ups, which --setup-limit bounds. Workers find the ranks that are gone.
_FOREVER = dt.timedelta(days=7)
#: The longest wait, in seconds, for an answer of the first rank, which may write a checkpoint or evaluate alone.
ANSWER_S = 3600.0
#: Answers that stay readable. Ranks exchange gradients, so none is ever so far behind.
_KEPT = 10_000
#: Seconds that the first rank waits for the others before its store ends with it.
_LAST_S = 10.0
#: Seconds for which the first rank, whose own part of a checkpoint is written, waits for that of another; and for how
#: long at once.
SILENT_S, _NAP = 600.0, dt.timedelta(seconds=0.5)
#: Seconds for which a rank that has left its loop by ``break`` waits for the others to do so.
BREAK_S = 60.0


class Ranks:
    """This process as one of the ranks of a leg."""

    def __init__(self, rank: Rank, folder: Path, *, is_elastic: bool = False, strategy: str = "replicate") -> None:
        """folder: where the files of this leg's ranks are; every machine sees it. is_elastic: another leg of the trial
        may have another number of ranks. strategy: as the option of a search."""
        self.rank, self.folder, self.is_elastic = rank, folder, is_elastic
        self.is_first, self._strategy = rank.index == 0, strategy
        self._listening: socket.socket | None = None
        self._address: dict[str, Any] = {}
        self._store: Any = None
        self._other: Any = None
        self._asked = 0
        self._source = ""
        self._is_over = False
        #: What replicates the models and splits the loaders; None if the training code does that itself.
        self.gang: gang.Gang | None = None

    # -- before the training code runs --------------------------------------------------------------------------------

    def meet(self, source: str, seed: int) -> int:
        """Agree on where the ranks meet, and on the seed; returns it. source: the text of the training code."""
        self._source = source
        if self.is_first:
            make_inside(self.folder)
            for entry in entries_in(str(self.folder)):
                if entry.name.startswith(UNFINISHED):  # a killed leg has left it
                    remove(Path(entry.path))
            self._listening = _listening(self.rank.host)
            with contextlib.closing(_listening(self.rank.host)) as free:
                ports = {"port": self._listening.getsockname()[1], "free": free.getsockname()[1]}
            self.say("place", {**ports, "seed": seed})
        self._address = self.heard("place")
        return int(self._address["seed"])

    @property
    def variables(self) -> dict[str, str]:
        """The variables by which libraries know this rank, after :meth:`meet`."""
        rank, place = self.rank, (self.rank.here, self.rank.here_size)
        if os.environ.get("CUDA_VISIBLE_DEVICES", "").count(",") == 0 and os.environ.get("CUDA_VISIBLE_DEVICES"):
            place = (0, 1)  # it sees one GPU, its own: to the code it is alone on its machine
        found = environment.variables(rank.index, rank.size, *place, rank.host, self._address["free"])
        # As torchrun names a run: Lightning and Accelerate recognize processes that were started for them by it.
        found["TORCHELASTIC_RUN_ID"] = rank.meeting
        return found | environment.interfaces(rank.host, rank.here_size == rank.size)

    @property
    def may_run_twice(self) -> bool:
        """Whether this rank's set-up may be run a second time beside it: not if it meets the other ranks itself."""
        return self.is_first and not environment.managed_in(self._source)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Descriptors that a forked copy of this process must close."""
        return () if self._listening is None else (self._listening.fileno(),)

    def say(self, what: str, facts: Any) -> None:
        """The first rank tells the others something before they are connected."""
        write_json(self._file(what), facts, fsync=False)

    def heard(self, what: str) -> Any:
        """Wait for what the first rank says, and return it."""
        file = self._file(what)
        while not file.exists():
            time.sleep(_LOOK_S)  # another machine may write it: no event crosses a shared disk
        return read_json(file)

    def _file(self, what: str) -> Path:
        return self.unfinished(f"{what}.json")

    def unfinished(self, name: str) -> Path:
        """A file or folder that this leg needs for a while; what a killed one leaves is removed by the next."""
        return self.folder / f"{UNFINISHED}{self.rank.meeting}-{name}"

    # -- from the first turn on ---------------------------------------------------------------------------------------

    def begin(self, state: State, before: bytes | None) -> list[str]:
        """Connect the ranks, and make the objects of ``state`` those of one training; returns remarks for the user.

        before: what :meth:`saved` returned for the checkpoint that was restored. Raises BadInput, by name, for what
        several ranks cannot train.
        """
        self._connect()
        named: dict[str, Any] = {}
        for root in state.roots:
            named |= {root.named(name): one for name, one in gang.of_namespace(root.values()).items()}
        self.gang = gang.start(named, self._source, store=self._store, strategy=self._strategy)
        if self.gang is None:
            self._refuse_elastic(named)
            return []
        if before is not None:
            self.gang.put(pickle.loads(before))
        return self.gang.remarks

    def begin_own(self, names: Mapping[str, Any]) -> list[str]:
        """The same for a loop that counts its own steps, which must manage its ranks itself. Raises BadInput."""
        self._connect()
        if not (environment.managed_in(self._source) or environment.managed_by(gang.of_namespace(names))):
            raise BadInput(
                f"this loop counts its own steps, and --slots {self.rank.size} gives it {self.rank.size} processes. "
                "Only loops over trial.steps() are spread over several slots without a change: write `for epoch in "
                "trial.steps():`, or use torch.distributed, Lightning or Accelerate, or leave --slots out."
            )
        self._refuse_elastic(gang.of_namespace(names))
        if environment.is_one_group(self.rank.size):
            return []
        remark = (
            f"--slots {self.rank.size} gives each trial {self.rank.size} processes, but this code has not joined them "
            "into one group of torch.distributed, so each may train the whole data alone: the same results, and no "
            f"faster. In Lightning, write Trainer(devices={self.rank.here_size}, num_nodes="
            f"{self.rank.size // self.rank.here_size}, strategy='ddp')."
        )
        return [remark]

    def _refuse_elastic(self, named: Mapping[str, Any]) -> None:
        if self._strategy != "replicate":
            raise BadInput(
                f"--strategy {self._strategy} is for code that does not manage its ranks itself, as this code does. "
                "Leave --strategy out."
            )
        if self.is_elastic:
            why = environment.managed_in(self._source) or environment.managed_by(named)
            raise BadInput(
                f"--slots with a range: {why}, and code that manages its ranks itself trains on a batch for each of "
                "them, so its results would depend on how many slots are free. Give one number, such as --slots 2."
            )

    def _connect(self) -> None:
        if self._store is not None:
            return
        if loaded("torch") is None:
            raise BadInput(
                "the code before the loop does not import torch, and only torch trains on several slots. Leave --slots "
                "out, or import torch."
            )
        from torch.distributed import TCPStore

        where: dict[str, Any] = {"host_name": self.rank.host, "port": self._address["port"], "timeout": _FOREVER}
        if self._listening is not None:
            where["master_listen_fd"] = self._listening.detach()
            self._listening = None
        self._store = TCPStore(is_master=self.is_first, wait_for_workers=False, **where)
        # One rank's set-up may take longer than a collective may.
        self._store.set(f"ready {self.rank.index}", "")
        self._store.wait([f"ready {index}" for index in range(self.rank.size)], _FOREVER)
        self._store.set_timeout(dt.timedelta(seconds=ANSWER_S))
        self._other = self._store.clone()  # for the thread that writes checkpoints

    def agreed(self, mine: Any) -> Any:
        """The first rank's value of ``mine`` (plain JSON), on every rank. All ranks call this in the same order."""
        self._connect()  # a framework's loop asks before its first report, with which it begins
        self._asked += 1
        name = f"answer {self._asked}"
        if self.is_first:
            self._store.set(name, json.dumps(mine))
            if self._asked > _KEPT:
                self._store.delete_key(f"answer {self._asked - _KEPT}")
            return mine
        try:
            return json.loads(self._store.get(name))
        except RuntimeError as error:
            raise TrialFailed(
                f"the first rank of this trial is gone, or has said nothing for {ANSWER_S:g} s ({error})"
            ) from error

    def reduced(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Reported values as those of all ranks."""
        return values if self.gang is None else self.gang.reduced(values)

    def saved(self) -> bytes | None:
        """For this rank's part of a checkpoint."""
        return None if self.gang is None else pickle.dumps(self.gang.state())

    def over(self) -> None:
        """The loop is over: the code after it runs on each rank by itself."""
        if self.gang is not None:
            self.gang.end()
            self.gang = None

    def close(self) -> None:
        """The leg has left in good order. The first rank waits until the others need its store no more."""
        if self._store is None:
            return
        with contextlib.suppress(RuntimeError):  # a rank that does not leave in time is ended by its worker
            if self.is_first:
                self._store.wait(self.of_others("left"), dt.timedelta(seconds=_LAST_S))
            else:
                self._store.set(f"left {self.rank.index}", "")

    def forget(self) -> None:
        """The leg is over: wait for no other rank any more, and remove what it needed for a while."""
        self._is_over = True
        if self.is_first:
            for file in self.folder.glob(f"{UNFINISHED}{self.rank.meeting}-*"):
                remove(file)

    def broke(self, step: int) -> None:
        """This rank has left the loop by ``break`` after ``step`` turns. Raises TrialFailed if another one has not."""
        names = [f"broke {index}" for index in range(self.rank.size)]
        self._store.set(names[self.rank.index], str(step))
        with contextlib.suppress(RuntimeError):
            self._store.wait(names, dt.timedelta(seconds=BREAK_S))
            if {int(self._store.get(name)) for name in names} == {step}:
                return
        raise TrialFailed(
            f"one rank has left the loop by break in turn {step + 1}, and another one has not within {BREAK_S:g} s. "
            "All ranks must take the same way: decide by values that are the same on all of them, as those of an "
            "evaluation are, and not by the loss of a batch."
        )

    # -- in the thread that writes checkpoints ------------------------------------------------------------------------

    def of_others(self, what: str) -> list[str]:
        """The names under which the ranks besides the first say ``what``."""
        return [f"{what} {index}" for index in range(1, self.rank.size)]

    def tell_first(self, what: str, facts: Any) -> None:
        """Tell the first rank ``what``."""
        self._other.set(f"{what} {self.rank.index}", json.dumps(facts))

    def told(self, what: str) -> Iterator[tuple[int, Any]]:
        """What each other rank tells the first one, with its index; waits for it. Raises StoreError if one says
        nothing for :data:`SILENT_S` seconds, or if this rank leaves meanwhile."""
        for index, name in enumerate(self.of_others(what), 1):
            until = time.monotonic() + SILENT_S
            while not self._is_said(name):
                if self._is_over or time.monotonic() > until:
                    raise StoreError(f"rank {index} has not saved its part of the checkpoint")
            yield index, json.loads(self._other.get(name))
            self._other.delete_key(name)

    def _is_said(self, name: str) -> bool:
        try:
            self._other.wait([name], _NAP)
        except RuntimeError:
            return False
        return True


def whole(ranks: Ranks | None) -> contextlib.AbstractContextManager[None]:
    """Within this, objects have whole plain tensors, for a checkpoint. All ranks must enter it. None: one process."""
    return contextlib.nullcontext() if ranks is None or ranks.gang is None else ranks.gang.whole()


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _listening(host: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.bind((host.strip("[]"), 0))
    found.listen(1024)
    return found

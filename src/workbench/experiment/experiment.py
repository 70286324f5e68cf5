"""An experiment as an object for the user. Law: it owns nothing; it asks the engine, and shows what the store says."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from workbench.asked import Extend, Pause, Resume, Start, Stop
from workbench.errors import BadOption, NotFound, TrialFailed, Unreadable
from workbench.experiment.results import absent, summary, why_it_failed
from workbench.experiment.trial import Trial, Verdict, number_of, table
from workbench.records import UNREADABLE, Goal, Keep, Scheduler, Searcher, Spec
from workbench.records.names import checked_name, name_of, trial_label
from workbench.records.plain import plain
from workbench.status.board import Board, progress, sentence
from workbench.status.waiting import Pauses
from workbench.store import Store
from workbench.store.lists.catalog import shown_as

if TYPE_CHECKING:
    import pandas as pd

    from workbench.compare.importance import Importance
    from workbench.experiment.again import Replay
    from workbench.given import Given
    from workbench.launch import Draft
    from workbench.search import Plan, Simulation
    from workbench.settled import Settings
    from workbench.share.looking import Finding
    from workbench.space import Space


class Experiment:
    """An objective, a space, a goal, a scheduler and a seed; it owns trials.

    Made from a function it is a draft until :meth:`start`; :func:`open` and ``%%train`` return started ones. ``space``
    gives distributions and constants beside the function (docs/functions.md). What a method, partial or closure holds
    is captured at the start: every trial gets its own copy. Raises BadCell, BadSpace, BadMetric or BadOption.

    >>> import workbench as wb
    >>> def train(trial, lr=wb.loguniform(1e-4, 1)):
    ...     for epoch in trial.steps():
    ...         trial.report(val_acc=1 - lr / (epoch + 1))
    >>> exp = wb.Experiment("quick", train, goal=wb.maximize("val_acc"), scheduler=wb.Hyperband(max_steps=9))
    >>> print(exp.plan())
    bracket  step 1  step 3  step 9
          2       9       3       1
          1               5       1
          0                       3
    17 trials, 5 promotions, 69 steps (78 without checkpoints)
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        space: Mapping[str, Any] | None = None,
        goal: Goal,
        scheduler: Scheduler,
        searcher: Literal["random", "grid", "sobol"] = "random",
        first: Given = None,
        configurations: Given = None,
        seed: int = 0,
        seeds: int = 1,
        trials: int | None = None,
        parallel: int | None = None,
        weight: float = 1.0,
        priority: int = 0,
        limit_s: float | None = None,
        slots: float | str = 1,
        strategy: Literal["replicate", "fsdp"] = "replicate",
        threads: int | None = None,
        deterministic: Literal["off", "seeded", "strict"] = "seeded",
        save_every: int | float | str | None = None,
        hang_s: float | None = None,
        setup_limit_s: float | None = None,
        verify: bool = True,
        notify: str | None = None,
        notify_command: str | None = None,
        alerts: Sequence[str] = (),
        keep: str | Keep = "",
        storage: str | None = None,
        mirror: str | Sequence[str] = (),
        keep_data: str | int = "50MB",
        store: str | Store | None = None,
    ) -> None:
        from workbench.amounts import keep_data as read_keep_data
        from workbench.amounts import save_every as read_save_every
        from workbench.choices import slots_of
        from workbench.engine.judging.patience import checked_limit
        from workbench.engine.telling.alerts import rules
        from workbench.engine.telling.notify import checked
        from workbench.exporter import mirrored
        from workbench.settled import settled
        from workbench.snapshot.reading.function import read_function

        if not isinstance(goal, Goal):
            raise BadOption(f"goal={goal!r}: expected wb.maximize(METRIC) or wb.minimize(METRIC).")
        if not isinstance(scheduler, Scheduler):
            raise BadOption(f"scheduler={scheduler!r}: expected a scheduler, such as wb.Hyperband(max_steps=27).")
        self._cell = read_function(function, space)
        self._function = function
        self._settings = settled(
            self._cell,
            goal=goal,
            steps=None,
            scheduler=scheduler,
            trials=trials,
            written="",
            searcher=Searcher(searcher),
            first=first,
            configurations=configurations,
            seed=seed,
            seeds_each=seeds,
            parallel=parallel,
            weight=weight,
            priority=priority,
            limit_s=None if limit_s is None else checked_limit(limit_s, f"limit_s={limit_s!r}"),
            **slots_of(slots, ""),
            strategy=strategy,
            threads=threads,
            deterministic=deterministic,
            hang_s=None if hang_s is None else checked_limit(hang_s, f"hang_s={hang_s!r}"),
            setup_limit_s=(
                None if setup_limit_s is None else checked_limit(setup_limit_s, f"setup_limit_s={setup_limit_s!r}")
            ),
            save_every=None if save_every is None else read_save_every(save_every),
            verify=verify,
            notify=checked(notify, notify_command) if notify or notify_command else None,
            alerts=tuple(rule.text for rule in rules(alerts)),
            keep=Keep.of(keep) if isinstance(keep, str) and keep else keep or Keep(),
            storage=storage,
            mirror=mirrored([mirror] if isinstance(mirror, str) else mirror, "mirror="),
            keep_data=read_keep_data(keep_data),
        )
        self._name = checked_name(name)
        self.store = store if isinstance(store, Store) else Store.to_train(store)
        self._id: str | None = None
        self._seen: Board | None = None

    @classmethod
    def of(cls, store: Store, experiment: str) -> Experiment:
        """The handle of the experiment with this id, whose spec is in ``store``."""
        handle = cls.__new__(cls)
        handle.store, handle._id, handle._seen = store, experiment, None
        handle._name = handle.spec.name
        return handle

    # -- before it starts ---------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """What will be trained: brackets, trials, steps; and the time, where it was measured. Starts nothing."""
        from workbench.launch import measured
        from workbench.settled import planned

        return planned(*self._wanted(), measured(self.store, self._name))

    def simulate(self, curve: Any, slots: int = 1, step_time: float = 1.0) -> Simulation:
        """Run the search in virtual time. ``curve(configuration, step)`` returns the goal's metric."""
        from workbench.search import simulate
        from workbench.settled import searched

        return simulate(searched(*self._wanted()), curve, slots, step_time)

    def _wanted(self) -> tuple[Space, Settings]:
        from workbench.settled import Settings
        from workbench.space import Space

        if self._id is None:
            return self._cell.space, self._settings
        spec = self.spec
        about = {"goal": spec.goal, "scheduler": spec.scheduler, "searcher": spec.searcher, **spec.recorded()}
        return Space.from_json(spec.space), Settings(**about)

    def start(self, *, again: bool = False, same: bool = False, cluster: str | None = None) -> Experiment:
        """Train, unless the same content was trained under this name before: then reattach to that experiment.

        It reattaches only if everything that training was seen to depend on (files, packages, modules, variables) is
        unchanged; :attr:`changed` lists differences. ``same`` reattaches anyway, and ``again`` trains again.
        ``cluster`` is the address of a Dask scheduler for an engine started by this call; by default that engine makes
        a cluster on this machine. It returns as soon as the engine has accepted the experiment.
        """
        from workbench.asking import ask, check_cluster
        from workbench.experiment.opening import remember
        from workbench.launch import expecting

        if self._id is None:
            expecting()
            made = self._drafted()
            shown = made.shown(again=again, same=same)
            if shown is not None:
                self._id = shown
                self.changed.append(str(made.standing))
            else:
                check_cluster(made.store, cluster)
                spec, is_new = made.launch_once(again=again)
                self._id = spec.id
                self.changed.extend(made.beside if is_new else ["the same content as before"])
        remember(self)
        if not self._look().is_ended:
            ask(self.store, Start(self._id), cluster=cluster)
        return self

    def _drafted(self) -> Draft:
        from workbench.experiment.notebook import origin, shell_here
        from workbench.launch import draft
        from workbench.snapshot.reading.function import taken

        cell, its = taken(self._cell, self._function)
        here = origin(shell_here())
        return draft(
            cell, its.namespace, self._name, self._settings, self.store, here, values=its.values, parts=its.parts
        )

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Its id in the store. Raises NotFound before :meth:`start`."""
        if self._id is None:
            raise NotFound(f"{self._name} has not been started. Call start() first.")
        return self._id

    @property
    def spec(self) -> Spec:
        """Everything that defines it."""
        return self._seen.spec if self._seen is not None else self.store.read_spec(self.id, viewing=True)

    @cached_property
    def changed(self) -> list[str]:
        """What differs from the version before, in words; nothing for a first version."""
        from workbench.experiment.versions import changed

        return changed(self.store, self.spec)

    @property
    def name(self) -> str:
        """Its name, without the version."""
        return self._name if self._id is None else name_of(self.label)

    @property
    def version(self) -> int:
        """1 for the first content under its name."""
        return self.spec.version

    @property
    def label(self) -> str:
        """``digits@1``, as its store lists it; before it starts, its name."""
        return self._name if self._id is None else shown_as(self.store, self.spec)

    @property
    def state(self) -> str:
        """waiting, running, paused, stopping, completed, stopped or failed."""
        return self._look().status.state

    @property
    def reason(self) -> str:
        """Why it is in that state, in words."""
        return self._look().status.reason

    @property
    def is_ended(self) -> bool:
        """True once it is in a state that it never leaves."""
        return self._look().is_ended

    @property
    def best(self) -> Trial:
        """The best trial so far. Raises NotFound if there is none, with the reason; Broken if trials were lost."""
        board = self._results()
        if (best := board.status.best) is None:
            raise NotFound(board.why_none_is_best)
        return Trial(self, board.trials[best.trial])

    @property
    def records(self) -> list[Trial]:
        """The trials, by number. Raises Broken if they were lost, as other results do."""
        board = self._results()
        return [Trial(self, board.trials[number]) for number in sorted(board.trials)]

    @property
    def trials(self) -> pd.DataFrame:
        """The trials as a table, best first. For trials that resumed inexactly, ``inexact`` names what they lost."""
        from workbench.experiment.results import trials

        return trials(self._results())

    @property
    def configurations(self) -> pd.DataFrame:
        """The configurations as a table, best mean first, with the spread over seeds and folds (docs/seeds.md)."""
        from workbench.experiment.results import configurations

        return configurations(self._results())

    def at_level(self, level: int | None = None) -> pd.DataFrame:
        """The goal's value at one level of the search, and the configuration, of each trial that reached it; the best
        first. By default it is the highest level that any trial reached. Raises BadOption for another step."""
        from workbench.experiment.results import at_level

        return at_level(self._results(), level)

    def importance(self, metric: str | None = None, level: int | None = None) -> Importance:
        """Which hyperparameters matter, by three methods, among the trials of one level (docs/panel.md)."""
        from workbench.compare.importance import importance

        return importance(self.store, self.id, metric, level)

    def __getitem__(self, trial: int | str) -> Trial:
        board, wanted = self._results(), number_of(trial)
        if wanted not in board.trials:
            raise NotFound(f"{self.label} has no trial {trial_label(wanted)}; it has {len(board.trials)} so far.")
        return Trial(self, board.trials[wanted])

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.records)

    def curves(self, metric: str | None = None) -> pd.DataFrame:
        """One metric (by default the goal's) of all trials: a column for each trial, a row for each step."""
        from workbench.experiment.results import curves

        return curves(self.series_curves(metric or self.spec.goal.metric))

    @property
    def metrics(self) -> list[str]:
        """Names of the reported metrics, in the order of their first report."""
        series = self._results().series
        return series.names() if series is not None else []

    def series_curves(self, metric: str, trial: int | None = None) -> dict[int, dict[int, float]]:
        """A metric's reported values by trial and step, as plain data."""
        series = self._results().series
        found = series.curves(None if trial is None else [trial], [metric]) if series is not None else {}
        return {
            number: {step: value for step, index, value in points if index <= 0}
            for (number, _), points in found.items()
        }

    # -- while it runs ------------------------------------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> Experiment:
        """Wait until it has ended. An interrupt leaves it running, and says so.

        Raises TimeoutError after ``timeout`` seconds, TrialFailed if the experiment failed, and Paused at once if it is
        paused, by the user or since a package changed: then only :meth:`resume` continues it. If it is paused because
        the disk or the quota is full or its folder is gone, it says so and waits: that pause ends by itself.
        """
        from workbench.experiment.waited import wait

        wait(self._board, self._look, timeout)
        self.check()
        return self

    def __await__(self) -> Generator[Any, None, Experiment]:
        """``await exp`` waits like :meth:`wait`, but the kernel's event loop stays free: buttons and views work."""
        return self._ended().__await__()

    async def _ended(self) -> Experiment:
        from workbench.experiment.waited import wait_beside

        await wait_beside(self._board, self._look)
        self.check()
        return self

    def check_paused(self) -> None:
        """Raise Paused if it is paused and does not resume by itself."""
        board = self._look()
        if not board.is_ended:
            Pauses(self.label, lambda _: None).check(board.meta)

    def check(self) -> None:
        """Raise TrialFailed if the experiment failed, with the message of the first failed trial."""
        status = (board := self._look()).status
        if status.state == UNREADABLE:
            raise Unreadable(f"{self.label} is unreadable: {status.reason}")
        if status.state != "failed":
            return
        failed = next((Trial(self, row) for row in board.trials.values() if row["state"] == "failed"), None)
        raise TrialFailed(why_it_failed(self.label, status.reason, failed))

    def watch(self) -> None:
        """Show it live: in a notebook the live view, elsewhere lines until it has ended."""
        from workbench.live.show import watch

        watch(self)

    def stop(self, trial: int | str | Trial | None = None) -> None:
        """End one trial, or by default the whole experiment. It returns when the engine has taken the request."""
        self._ask(Stop(self.id, None if trial is None else number_of(trial)))

    def pause(self, trial: int | str | Trial | None = None) -> None:
        """Checkpoint running trials and start nothing more; or pause one trial, while the others continue."""
        self._ask(Pause(self.id, None if trial is None else number_of(trial)))

    def resume(self, trial: int | str | Trial | None = None) -> None:
        """Continue after :meth:`pause`; or one trial that was paused or stopped. Raises BadOption if it cannot."""
        self._ask(Resume(self.id, None if trial is None else number_of(trial)))

    def extend(
        self, *, trials: int | None = None, max_steps: int | None = None, limit_s: float | None = None
    ) -> Experiment:
        """Continue a running or ended experiment with more trials, longer trials or more time. Decisions made stay.

        Trials that took all steps continue from their checkpoint if the scheduler lets them; those whose checkpoints
        are gone train again. Raises BadOption for invalid values, such as fewer steps.
        """
        from workbench.asking import ask
        from workbench.engine.judging.patience import checked_limit

        seconds = None if limit_s is None else checked_limit(limit_s, f"limit_s={limit_s!r}")
        ask(self.store, Extend(experiment=self.id, trials=plain(trials), last=plain(max_steps), seconds=seconds))
        return self

    def verify(self, trial: int | str | Trial, step: int | None = None, timeout: float | None = None) -> Verdict:
        """Train ``trial`` again beside its own run, and check whether resuming gave the same bits.

        Up to ``step``, or to the first level after it was resumed. The check takes a slot when no trial needs one,
        and this call waits for it. Raises BadOption for a trial or a step that was not trained, TimeoutError after
        ``timeout`` seconds.
        """
        from workbench.experiment.checked import checked

        return checked(self, self._look, number_of(trial), step, timeout)

    def replay(self, trial: int | str | Trial | None = None, **options: Any) -> Replay:
        """Train one trial (by default the best) again, as :func:`workbench.replay` does; returns the replay."""
        from workbench.experiment.again import replay

        return replay(self if trial is None else self[number_of(trial)], **options)

    def publish(
        self,
        destination: str,
        *,
        checkpoints: bool = True,
        consent: Callable[[Sequence[Finding]], bool] | None = None,
    ) -> str:
        """Write a read-only store and a page into a folder or URL, for others to open; the page's path.

        Secrets are masked, and each is printed with its place and kind. consent: called with them before anything is
        written; returns whether to continue. See :func:`workbench.open` for opening it.
        """
        from workbench.share import publish
        from workbench.terminal import clean, say

        told = publish(self.store, self.id, destination, checkpoints=checkpoints, consent=consent)
        if consent is None:
            say(*map(clean, told["said"]))
        return str(told["page"])

    def export(
        self, target: str | os.PathLike[str], *, checkpoints: bool = True, data: bool = False, mask: bool = False
    ) -> dict[str, Any]:
        """Write one file for import into another store (``.zip``), all points as a table (``.csv``, ``.parquet``), a
        ``Containerfile`` that trains the best trial again, or a run for each trial in another program
        (``mlflow:WHERE``, ``tensorboard:FOLDER``, ``wandb:PROJECT``). data: include the kept data in the ``.zip``.
        mask: remove the secrets that are found from the ``.zip``; ``findings`` of the answer lists them.
        """
        from workbench.experiment.exported import exported

        return exported(self.store, self.id, target, checkpoints=checkpoints, data=data, mask=mask)

    def _ask(self, request: Stop | Pause | Resume) -> None:
        from workbench.asking import ask

        # The engine says why a trial of an ended experiment cannot be steered.
        if not self.is_ended or (request.trial is not None and not isinstance(request, Stop)):
            ask(self.store, request)

    @property
    def _board(self) -> Board:
        if self._seen is None or not self._seen.is_there:
            self._seen = Board(self.store, self.id)  # raises NotFound for one that was deleted
        return self._seen

    def _look(self) -> Board:
        board = self._board
        board.look()
        return board

    def _results(self) -> Board:
        """What was trained. Raises Broken if it is damaged or missing."""
        board = self._look()
        board.check_readable()
        return board

    def __repr__(self) -> str:
        if words := absent(self.store, self._id):
            return f"<{self._name}: {words}>"
        board = self._look()
        return f"<{sentence(board) if board.is_ended else progress(board)}>"

    def _repr_html_(self) -> str:
        if words := absent(self.store, self._id):
            return table(self._name, [("state", words)], "")
        return summary(self._look())

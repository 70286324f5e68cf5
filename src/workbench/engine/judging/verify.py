"""Checks that resuming is exact: trains a trial again in a folder of its own and compares. Law: the search never knows.

A check has the lowest priority: it takes a slot that no trial needs, and leaves at once when a trial needs it. It
counts in no rung, writes none of the trial's checkpoints and points, and is dropped when its experiment is stopped.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from workbench.engine.judging import states
from workbench.engine.judging import verdict as verdicts
from workbench.engine.judging.verdict import COULD_NOT, IDENTICAL, NOT_CHECKED, PARTS, Task
from workbench.engine.legs.leg import Leg, said
from workbench.errors import BadOption, StoreError
from workbench.messages import Begun, Check, FromLeg, Left, Order, Points
from workbench.records import Spec
from workbench.records.names import trial_label
from workbench.records.sizes import at, trained
from workbench.store.keeping.checkpoints import Checkpoint, Checkpoints
from workbench.store.keeping.setups import begins_again, made_anew
from workbench.store.layout import ATTEMPTS, ExperimentPaths, TrialPaths
from workbench.store.lists import outcome
from workbench.store.series import Series

#: Legs of one check that may be lost before it is given up. Making room for the search does not count.
TRIES = 3
#: The largest checkpoint, in bytes, that a check writes as well to compare its content.
STATE_BYTES = 64 << 20


class Verification:
    """The checks of one experiment: those due, the one under way, and the newest verdict."""

    def __init__(
        self,
        spec: Spec,
        paths: ExperimentPaths,
        series: Series,
        tell: Callable[[dict[str, Any] | None], None],
        stop: Callable[[Leg, str], None],
        now: Callable[[], str],
    ) -> None:
        """tell: journals a line (or None) and tests whether the experiment is over. stop: ends a leg."""
        self.spec = spec
        self._paths, self._series, self._tell, self._stop, self._now = paths, series, tell, stop, now
        self._due: deque[Task] = deque()
        #: The leg of the check that is under way.
        self.leg: Leg | None = None
        self._points: dict[tuple[str, int], float] = {}
        self._place: dict[str, Any] = {}
        self._lost = 0
        self._seen_first = False
        self._comparing: asyncio.Task[None] | None = None
        #: The newest verdict; None before the first.
        self.newest: dict[str, Any] | None = None

    # -- what is due ------------------------------------------------------------------------------------------------

    def resumed(self, trial: int, start: int, step: int, until: int, slots: int) -> None:
        """A leg on so many slots resumed ``trial`` at ``start`` and trained to ``step``.

        The first one of an experiment is checked; one on another number of slots than the legs before cannot be.
        """
        if self._seen_first or not self.spec.verify or start <= self.spec.base or step <= start:
            return
        if self.spec.is_elastic and {count for _, count in trained(self._series.legs(trial))} - {slots}:
            self._not_checked(trial, start, min(until, step), "its legs had different numbers of slots")
            return  # check the next promoted trial
        if not begins_again(self._paths, trial):
            return  # it started before the set-up's results were known to vary: check the next promoted trial
        self._seen_first = True
        if self.spec.deterministic == "off":
            self._not_checked(trial, start, min(until, step), "--deterministic off seeds nothing")
            return
        self._take(Task(trial, 0, min(until, step), start, "the first promotion"))

    def _not_checked(self, trial: int, start: int, until: int, why: str) -> None:
        if self.newest is None:
            task = Task(trial, 0, until, start, "the first promotion")
            found = {**task.to_json(), "verdict": NOT_CHECKED, "why": why}
            self.newest = {**found, "words": verdicts.sentence(found)}
            self._series.put_meta("verify", self.newest)

    def _changes(self, trial: int, start: int, until: int) -> list[int]:
        """The steps between ``start`` and ``until`` after which the trial was trained on another number of slots."""
        if not self.spec.is_elastic:
            return []
        return [step for step, _ in trained(self._series.legs(trial))[1:] if start < step < until]

    @property
    def size(self) -> int:
        """On how many slots the check that is due trains: as many as its trial did."""
        if self.spec.is_elastic and self._due:
            found = trained(self._series.legs(self._due[0].trial))
            return at(found, self._due[0].start) if found else int(self.spec.slots_least or self.spec.slots)
        return max(1, int(self.spec.slots))

    def ask(self, trial: int, upto: int | None, levels: tuple[int, ...]) -> Task:
        """The user requests a check of ``trial``, up to step ``upto`` or the first level after it was resumed.

        Raises NotFound if there is no such trial, BadOption if it has not trained that far.
        """
        row = self._series.trial(trial)
        name, done = f"{self.spec.label}/{trial_label(trial)}", int(row.get("step") or 0)
        if done < 1 or (upto is not None and not 1 <= upto <= done):
            wanted = "a trial that has trained" if done < 1 else f"a step from 1 to {done}"
            raise BadOption(f"{name} has trained {done} steps; expected {wanted}. `workbench show {name}` shows it.")
        legs = self._series.legs(trial)
        resumed = next((leg["start"] for leg in legs if _was_resumed(leg)), 0)
        start = 0
        if not resumed:
            # It was never disturbed, so a check that resumes is compared with the trial itself.
            kept = [one.step for one in Checkpoints(self._paths.trial(trial)).all() if one.step < (upto or done)]
            start = kept[0] if kept else 0
        if not start and not begins_again(self._paths, trial):
            names = ", ".join(made_anew(self._paths)[:4])
            raise BadOption(
                f"{name} began before it was known that its set-up makes {names} differently each time, so it cannot "
                "be trained again from its beginning. Its checkpoints hold what was made; verify a trial that began "
                "later."
            )
        at = resumed or start
        if upto is None:
            upto = min([level for level in levels if at < level <= done], default=done)
        if changes := self._changes(trial, start, upto):
            raise BadOption(
                f"{name} was trained on another number of slots from step {changes[0]} on, and results on different "
                f"numbers agree only up to rounding. Expected a step from {start + 1} to {changes[0]}."
            )
        return self._take(Task(trial, start, upto, resumed or None, "requested by you"))

    def _take(self, task: Task) -> Task:
        self._due.append(task)
        self._series.put_meta("checking", True)
        self._tell({"kind": "VerifyDue", **task.to_json(), "why": task.why})
        return task

    def recall(self, line: dict[str, Any]) -> None:
        """Read a line of the journal again."""
        if line["kind"] == "VerifyDue":
            self._seen_first = self._seen_first or line["why"] == "the first promotion"
            self._due.append(Task(*(line[key] for key in ("trial", "start", "until", "resumed", "why"))))
        elif line["kind"] == "Verified":
            self.newest = {key: value for key, value in line.items() if key not in ("kind", "n", "schema")}
            if self._due:
                self._due.popleft()

    def put_back(self) -> None:
        """Write the newest verdict again, after the series was lost."""
        if self.newest is not None:
            self._series.put_trial(self.newest["trial"], verify=self.newest)
            self._series.put_meta("verify", self.newest)
        if self._due:
            self._series.put_meta("checking", True)

    def drop(self, why: str) -> None:
        """Stop checking: the checks that are due get the verdict "not checked", because of ``why``."""
        if self._comparing is not None:
            return
        self.make_room(why)
        while self._due:
            self._verdict(self._due.popleft(), {"verdict": NOT_CHECKED, "why": why})

    def make_room(self, why: str) -> None:
        """Leave the slot at once. The check restarts when no trial needs a slot."""
        if self.leg is not None and self.leg.stop is None:
            self.leg.stop = why
            self._stop(self.leg, why)

    @property
    def has_begun(self) -> bool:
        """Whether a leg has resumed from a checkpoint, so that the check of the first one is due or done."""
        return self._seen_first or not self.spec.verify

    @property
    def is_wanted(self) -> bool:
        """Whether a check is due and none is under way."""
        return bool(self._due) and self.leg is None and self._comparing is None

    @property
    def is_pending(self) -> bool:
        """Whether the experiment must stay open for a check."""
        return bool(self._due) or self.leg is not None or self._comparing is not None

    @property
    def word(self) -> str | None:
        """For the catalog: *waiting*, or the newest verdict."""
        return "waiting" if self._due else (self.newest or {}).get("verdict")

    @property
    def checked(self) -> str:
        """The same in a few words, for the lists; empty if there is nothing to check."""
        return outcome.checked_words({"verdict": "waiting"} if self._due else self.newest)

    # -- the leg ----------------------------------------------------------------------------------------------------

    def begin(self) -> Leg:
        """The leg of the check that is due."""
        task = self._due[0]
        self._points, self._place = {}, {}
        label = trial_label(task.trial)
        # A killed engine may have left a check running: no key is given twice.
        key = f"{self.spec.label}-check-{label}-{secrets.token_hex(4)}-{self.spec.id}"
        self.leg = Leg(task.trial, 1, task.start, task.until, f"a check: {task.why}", key, step=task.start)
        return self.leg

    def message(self, leg: Leg, order: Order) -> Order:
        """The trial's ``order``, changed for a check: in a folder of its own, as a first attempt, and stopped without a
        grace period."""
        shutil.rmtree(self._paths.check(leg.trial).folder, ignore_errors=True)
        inner = replace(
            order.leg,
            attempt=1,
            start=leg.start,
            until=leg.until,
            known_step=leg.until,
            told=leg.start,
            resume=leg.start > 0,
            may_wait=False,
            asks=False,
            check=Check(self._is_light(leg)),
        )
        return replace(
            order,
            key=leg.key,
            experiment=f"{self.spec.id}-check",
            attempt=1,
            start=leg.start,
            grace_s=0.0,
            strict=True,
            log=str(self._paths.check(leg.trial).log),
            leg=inner,
        )

    def _is_light(self, leg: Leg) -> bool:
        kept = self._checkpoint(self._paths.trial(leg.trial), leg.until)
        return kept is not None and kept.manifest.size <= STATE_BYTES

    def hear(self, leg: Leg, message: FromLeg) -> None:
        """Handle a message of the check's leg."""
        leg.heard = time.monotonic()
        match message:
            case Begun():
                leg.began = leg.heard
                self._place = message.environment
            case Points():
                for name, step, index, value, _ in message.rows:
                    if index == 0:
                        self._points[name, step] = value
            case Left():
                self.leg = None
                if self._due:
                    self._left(leg, message)
                else:
                    self._clear(leg.trial)
                    self._tell(None)

    def _left(self, leg: Leg, message: Left) -> None:
        outcome = message.outcome
        if outcome in ("reached", "completed"):
            step = message.step or 0
            if step < leg.until:
                self._end({"verdict": COULD_NOT, "why": f"it ended by itself at step {step}"})
            else:
                self._comparing = asyncio.get_running_loop().create_task(self._compare(message))
        elif outcome == "failed":
            self._end({"verdict": COULD_NOT, "why": f"trained again, it failed: {said(message)}"})
        elif leg.stop is None or leg.hung is not None:  # it was lost; a leg that made room restarts later
            self._lost += 1
            if self._lost >= TRIES:
                self._end({"verdict": COULD_NOT, "why": f"lost {TRIES} times: {message.reason or outcome}"})

    async def _compare(self, message: Left) -> None:
        task = self._due[0]
        try:
            found = await asyncio.get_running_loop().run_in_executor(None, self._compared, task, message)
        except StoreError as error:
            found = {"verdict": COULD_NOT, "why": str(error)}
        except Exception as error:  # a damaged checkpoint may hold anything; an experiment must not wait for ever
            found = {"verdict": COULD_NOT, "why": f"the comparison failed: {error!r}"}
        self._comparing = None
        self._end(found)

    def _compared(self, task: Task, message: Left) -> dict[str, Any]:
        self._series.flush()
        reports = {
            (name, step): value for _, name, step, index, value, _ in self._series.points([task.trial]) if not index
        }
        found = verdicts.compared(task, self.spec.goal.metric, reports, self._points)
        if found["verdict"] == PARTS:
            details = [leg.get("detail") or {} for leg in self._series.legs(task.trial)]
            left_out = {
                one["name"]: one for detail in details for one in (detail.get("found") or {}).get("left_out", ())
            }
            places = [detail.get("environment") or {} for detail in details]
            touched = message.touched or {"files": []}
            found["causes"] = verdicts.causes(self.spec, list(left_out.values()), [*places, self._place], touched)
        elif found["verdict"] == IDENTICAL:
            found |= self._state(task)
        return found

    def _state(self, task: Task) -> dict[str, Any]:
        """Compare the two checkpoints, set-up included, if both exist."""
        kept = [self._checkpoint(paths, task.until) for paths in self._places(task.trial)]
        if kept[0] is None or kept[1] is None:
            return {"state": None}
        files = [{name: file.digest for name, file in one.manifest.files.items()} for one in kept if one]
        both = {name: (files[0].get(name), files[1].get(name)) for name in {**files[0], **files[1]}}
        names = states.differing(kept[0].folder, kept[1].folder, both)
        if not names:
            return {"state": None if names is None else IDENTICAL}
        what = f"the state of {', '.join(names[:4])}"
        told = {"step": task.until, "metric": what, "before": False, "same": self.spec.goal.metric}
        return {"verdict": PARTS, "state": "differs", "differs": names, **told}

    def _places(self, trial: int) -> tuple[TrialPaths, TrialPaths]:
        return self._paths.trial(trial), self._paths.check(trial)

    @staticmethod
    def _checkpoint(trial: TrialPaths, step: int) -> Checkpoint | None:
        return next((one for one in Checkpoints(trial).all() if one.step == step), None)

    # -- the end ----------------------------------------------------------------------------------------------------

    def _end(self, found: dict[str, Any]) -> None:
        self._lost = 0
        self._verdict(self._due.popleft(), found)

    def _verdict(self, task: Task, found: dict[str, Any]) -> None:
        verdict = {**task.to_json(), **found}
        verdict["words"] = verdicts.sentence(verdict)
        self._tell({"kind": "Verified", **verdict})
        self.newest = verdict = {**verdict, "at": self._now()}
        self._series.put_trial(task.trial, verify=verdict)
        self._series.put_meta("verify", verdict)
        self._series.put_meta("checking", bool(self._due))
        if self.leg is None:
            self._clear(task.trial)

    def _clear(self, trial: int) -> None:
        folder = self._paths.check(trial).folder
        shutil.rmtree(folder, ignore_errors=True)
        for file in folder.parent.glob(f"{folder.name}.*"):
            file.unlink(missing_ok=True)
        try:
            if not any(folder.parent.glob("t*")):
                (folder.parent / ATTEMPTS).unlink(missing_ok=True)
            folder.parent.rmdir()
        except OSError:  # another check uses it, or none was started
            return


def _was_resumed(leg: dict[str, Any]) -> bool:
    """Whether a leg, by its row of the series, trained on from a checkpoint."""
    in_place = (leg.get("detail") or {}).get("in_place")
    return bool(leg.get("start")) and (leg.get("step") or 0) > leg["start"] and not in_place

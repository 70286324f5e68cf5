"""The legs of one experiment and their messages. Law: pure; messages in, facts and journal lines out, in order.

It opens no file, reads no clock and does not know Dask: the time (monotonic seconds) comes with each message.
:mod:`workbench.engine.legs.hearing` shows messages to viewers.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench import messages
from workbench.cluster.backend import Survivor
from workbench.engine.judging.faults import Faults, Verdict
from workbench.engine.judging.patience import Patience
from workbench.engine.legs.dividing import Need, needed, parts, words
from workbench.engine.legs.leg import Leg, cut, said
from workbench.facts import Ended, Fact, Failed, Left, Lost, Reached, Run, StopAsked
from workbench.messages import Begun, FromLeg, Level, Measured, Points, Sampled, Saved
from workbench.records import Spec, plain_value, sizes
from workbench.records.names import trial_label

#: Behind legs whose median duration is shorter than this, others are queued to hide Dask's latency: about QUEUED_S
#: seconds of work for each slot, and at most MOST_QUEUED legs.
SHORT_LEG_S = 0.15
QUEUED_S = 0.03
MOST_QUEUED = 8
#: Set-ups that end within this many seconds are not shown: nothing flickers, and they cost nothing.
SHOWN_S = 2.0
#: If two trials fail in the same way before any trial has reported, the code is wrong, not their configuration.
PROBES = 2
_SLOTS = ("slots", "slot")
#: Fields of an error that are journaled: all that a later engine needs to judge it.
ERROR = ("type", "message", "line", "device_memory")

Line = dict[str, Any]


@dataclass(slots=True)
class Heard:
    """What follows from one message of a leg."""

    #: For the search, and before that for the journal.
    facts: list[Fact] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    #: The goal at steps: step, value (None: it was not reported), and all metrics if they were sent.
    known: list[tuple[int, float | None, dict[str, float] | None]] = field(default_factory=list)
    #: It is the experiment's first report: the other trials may start now.
    probed: bool = False
    #: Another number of trials shares a slot from now on; and what the user is told about it.
    divided: str = ""
    #: How the leg ended, once it has left: its outcome, its last step, and the reason.
    outcome: str | None = None
    step: int = 0
    reason: str = ""
    #: Why a lost leg died: the cause, and the error's type; and on which worker, if that is known.
    way: tuple[str, str] | None = None
    lost_on: str | None = None


class LegBook:
    """The legs under way, and what is known from earlier ones."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        #: By trial: the leg that was ordered and has not ended.
        self.legs: dict[int, Leg] = {}
        #: Whether a trial has reported, so that the others may start.
        self.probed = not spec.probe
        #: By trial: the number of its newest attempt, and the attempt that has started and not ended.
        self.attempts: dict[int, int] = {}
        self.begun: dict[int, int] = {}
        #: The newest checkpoint of each trial, and trials that may have one between levels.
        self.checkpoints: dict[int, int] = {}
        self.passing: set[int] = set()
        #: Why trials that should leave with a checkpoint left without one, until that is shown.
        self.cut: dict[int, str] = {}
        #: Bytes of the largest checkpoint so far, and of those reported since the last look at the disk.
        self.largest = self.heard_bytes = 0
        #: Seconds of the newest set-ups.
        self._setups: deque[float] = deque(maxlen=15)
        #: What trials were measured to need, and how many of them share a slot; None before one was measured.
        self.need: Need | None = None
        self._packed: int | None = None
        #: Whether a trial has reported, of which it is not known yet what it needs; and trials that need a whole slot.
        self._has_reported = False
        self._whole: set[int] = set()
        #: How many lost legs were retried.
        self.retries = 0
        self.faults = Faults(spec.max_restarts)
        self._patience = Patience(spec.hang_s)
        #: Where trials must train until they reach their level. A pause or another fault does not change it.
        self._wanted: dict[int, dict[str, Any]] = {}
        #: Attempts whose skipped checkpoints are journaled.
        self._skipped: set[tuple[int, int]] = set()
        self._waits: dict[int, float] = {}
        #: By trial that waits at its level to be continued: the worker.
        self._waits_at: dict[int, str] = {}
        self._durations: deque[float] = deque(maxlen=15)
        self._probe_failures: list[tuple[Any, ...]] = []

    # -- beginning

    def ordered(self, order: Run, why: str = "") -> Leg:
        """A new leg for ``order``."""
        attempt = self.attempts[order.trial] = self.attempts.get(order.trial, 0) + 1
        start = max(order.start, min(self.checkpoints.get(order.trial, 0), order.until))
        leg = Leg(
            trial=order.trial,
            attempt=attempt,
            start=start,
            until=self.until(order, start),
            size=sizes.at(self._spec.sizes, start) if self._spec.sizes else 0,
            reason=why + order.reason,
            key=f"{self._spec.label}-{trial_label(order.trial)}-{attempt}-{self._spec.id}",
            not_before=self._waits.pop(order.trial, 0.0),
            step=start,
            prefers=self._waits_at.pop(order.trial, None),
            parts=self._parts(order.trial),
            **self._wanted.get(order.trial, {}),
        )
        self.legs[order.trial] = leg
        return leg

    def until(self, order: Run, start: int) -> int:
        """Up to which step a leg of ``order`` trains: no further than to a step at which its size must change."""
        return sizes.until(self._spec.sizes, start, order.until)

    def adopted(self, order: Run, found: Survivor, row: Mapping[str, Any], known: dict[int, float], now: float) -> Leg:
        """The leg of ``order`` that an earlier engine started and that still trains.

        row: its row of the series. known: the goal by step, as far as it was heard.
        """
        reason, story = row.get("reason") or order.reason, found.story
        leg = Leg(order.trial, story.attempt, story.start, story.until, reason, story.key, step=story.start)
        leg.alone, leg.parts = self.is_alone(order.trial), story.parts
        leg.detail, leg.heard, leg.known = dict(row.get("detail") or {}), now, known
        leg.placed, leg.since = now, row.get("started")
        self.legs[order.trial] = leg
        return leg

    def recall(self, line: Mapping[str, Any]) -> bool:
        """Read a line of the journal again. Returns whether it is about a leg."""
        match line["kind"]:
            case "LegStarted":
                self.attempts[line["trial"]] = self.begun[line["trial"]] = line["attempt"]
            case "LegLeft":
                self._recall_left(line)
            case "Saved":
                self._saved(line["trial"], line["step"], line.get("inside", 0))
            case "SlotsDivided":
                self.need, self._packed = Need.from_json(line), line["parts"]
            case "Skipped":
                self._skipped.add((line["trial"], line["attempt"]))
            case _:
                return False
        return True

    def _recall_left(self, line: Mapping[str, Any]) -> None:
        trial, error = line["trial"], line.get("error")
        self.begun.pop(trial, None)
        if line["outcome"] in ("failed", "died"):
            how = {"alone": self.is_alone(trial), "packed": self._is_packed(line.get("parts", 1))}
            verdict = self.faults.judge(trial, line["cause"], line["step"] or 0, error, line["reason"], **how)
            self._wants(trial, verdict, None)
            self.retries += verdict.again
        elif line["outcome"] in ("reached", "completed"):
            self._wanted.pop(trial, None)

    # -- while it trains

    def hear(self, leg: Leg, message: FromLeg, now: float) -> Heard:
        """What follows from a message of ``leg`` at the time ``now``. The leg and this book are updated."""
        if isinstance(message, Sampled):
            return Heard()  # the worker sent it: it does not show that the training code is alive
        if leg.began is not None and not isinstance(message, messages.Left):
            self._patience.heard_after(now - leg.heard)
        leg.heard = now
        heard = Heard()
        match message:
            case Begun():
                self._begun(leg, message, now, heard)
            case Points():
                self._points(leg, message.rows, now, heard)
            case Level():
                self._level(leg, message, now, heard)
            case Saved():
                self._heard_saved(leg, message, heard)
            case Measured():
                self._measured(leg, message, heard)
            case messages.Left():
                self._left(leg, message, now, heard)
        return heard

    def _begun(self, leg: Leg, message: Begun, now: float, heard: Heard) -> None:
        leg.began = now
        if leg.placed and not message.in_place:
            self._setups.append(now - leg.placed)
        leg.step = leg.start = message.step
        if leg.start > self.checkpoints.get(leg.trial, 0):
            self._saved(leg.trial, leg.start)  # it exists, but its message was lost
        if self._spec.is_elastic:
            counted = {"trial": leg.trial, "attempt": leg.attempt, "slots": len(leg.in_slots)}
            heard.lines.append({"kind": "LegSized", **counted})
        if (leg.trial, leg.attempt) not in self._skipped:
            about = {"kind": "Skipped", "trial": leg.trial, "attempt": leg.attempt}
            heard.lines += [{**about, "step": one.step, "why": one.why} for one in message.skipped]

    def _points(self, leg: Leg, rows: list[list[Any]], now: float, heard: Heard) -> None:
        for name, step, index, value, _ in rows:
            if name == self._spec.goal.metric and index == 0:
                heard.known.append((step, value, None))
                leg.goal = (step, value)
            if index == 0:
                self._turned(leg, step, now)
            leg.step = max(leg.step, step)
        if self._spec.packs and self.need is None:
            self._has_reported = True  # the others start when it is known how many of them share a slot
        else:
            self._answered(heard)

    def _level(self, leg: Leg, message: Level, now: float, heard: Heard) -> None:
        step, metrics = message.step, message.metrics
        leg.step = max(leg.step, step)
        self._turned(leg, step, now)
        value = metrics[self._spec.goal.metric]
        heard.known.append((step, value, metrics))
        self._answered(heard)
        if step < leg.until:
            heard.facts.append(Reached(leg.trial, step, value))

    def _measured(self, leg: Leg, found: Measured, heard: Heard) -> None:
        before, self.need = self.need, needed(found, leg.there, self.need)
        count = min(parts(self.need), self._packed or parts(self.need))
        if self._spec.packs and (before is None or count != self._packed):
            self._packed, heard.divided = count, words(self.need, count)
            heard.lines.append({"kind": "SlotsDivided", "parts": count, **self.need.to_json(), "why": heard.divided})
            for other in self.legs.values():
                if other.slot is None:
                    other.parts = self._parts(other.trial)
        if self._has_reported:
            self._answered(heard)

    def _answered(self, heard: Heard) -> None:
        heard.probed = not self.probed
        self.probed = True

    def _turned(self, leg: Leg, step: int, now: float) -> None:
        """``leg`` has reported ``step``: a turn ends about now."""
        if leg.began is None:
            return
        before, since = leg.turned or (leg.start, leg.began)
        if step == before + 1:
            self._patience.turned_after(now - since)
        if step > before:
            leg.turned = (step, now)

    def _heard_saved(self, leg: Leg, message: Saved, heard: Heard) -> None:
        step, inside = message.step, message.inside
        self.largest = max(self.largest, message.bytes)
        self.heard_bytes += message.bytes
        if message.passing:
            self.passing.add(leg.trial)
        # Between levels there may be one a second. They are journaled only if a later engine needs them to judge
        # faults. The next leg finds the newest checkpoint itself.
        if not message.passing or self.faults.troubled(leg.trial):
            where: dict[str, Any] = {"inside": inside} if inside else {}
            value = leg.goal[1] if leg.goal is not None and leg.goal[0] == step else leg.known.get(step)
            if value is not None:
                where["value"] = plain_value(value)
            heard.lines.append({"kind": "Saved", "trial": leg.trial, "attempt": leg.attempt, "step": step, **where})
        self._saved(leg.trial, step, inside)
        leg.saved(message)

    def _saved(self, trial: int, step: int, inside: int = 0) -> None:
        self.checkpoints[trial] = max(step, self.checkpoints.get(trial, 0))
        self.faults.saved(trial, step, inside)

    # -- its end

    def _left(self, leg: Leg, message: messages.Left, now: float, heard: Heard) -> None:
        if self.legs.get(leg.trial) is leg:
            del self.legs[leg.trial]
        if message.seconds is not None:
            self._durations.append(message.seconds)
        step = leg.step if message.step is None else message.step
        outcome, cause, reason = self._outcome(leg, message)
        error = message.error
        heard.outcome, heard.step, heard.reason = outcome, step, reason
        heard.lines.append(
            {
                "kind": "LegLeft",
                "trial": leg.trial,
                "attempt": leg.attempt,
                "outcome": outcome,
                "step": step,
                "cause": cause if outcome in ("failed", "died") else None,
                "reason": reason,
                "error": {k: error.get(k) for k in ERROR if k in error} if error else None,
                **({"parts": leg.parts} if leg.parts > 1 else {}),
            }
        )
        if message.waits and leg.slot is not None:
            self._waits_at[leg.trial] = leg.slot.worker
        if outcome in ("reached", "completed"):
            self._wanted.pop(leg.trial, None)
            value = message.metrics.get(self._spec.goal.metric)
            heard.known.append((step, value, None))
            if (size := self._next_size(leg, step, outcome)) is not None:
                # Not a level of its search: it is trained on at once.
                heard.facts.append(Lost(leg.trial, f"continues on {size} {_SLOTS[size == 1]}, as it was trained first"))
            else:
                kind = Ended if outcome == "completed" else Reached
                heard.facts.append(kind(leg.trial, step, value))
            self._answered(heard)
        elif outcome == "stopped":
            heard.facts.append(Left(leg.trial))
        else:
            heard.lost_on = leg.lost_on(message)
            self._lost(leg, cause, step, error, reason, now, heard)

    def _next_size(self, leg: Leg, step: int, outcome: str) -> int | None:
        """On how many slots the trial of ``leg`` must go on, if the leg ended where that changes; else None."""
        recorded = self._spec.sizes
        return sizes.at(recorded, step) if outcome == "reached" and step in dict(recorded[1:]) else None

    def _outcome(self, leg: Leg, message: messages.Left) -> tuple[str, str, str]:
        """How a leg ended, the cause if it was lost, and the reason in words."""
        outcome, reason = message.outcome, message.reason or said(message)
        if message.cut_s is not None:
            reason = self.cut[leg.trial] = cut(reason, message.cut_s, self.checkpoints.get(leg.trial, 0))
        cause = message.cause or (message.error or {}).get("cause") or "exception"
        if outcome == "stopped" and leg.hung is not None:
            return "died", "hang", f"no report for {leg.hung:.0f} s"
        if outcome == "stopped" and leg.stop is None:
            return "died", "cluster", reason  # this experiment did not stop it
        if outcome in ("failed", "died") and leg.stop is not None and leg.hung is None:
            return "stopped", cause, reason
        return outcome, cause, reason

    def _lost(
        self, leg: Leg, cause: str, step: int, error: dict[str, Any] | None, reason: str, now: float, heard: Heard
    ) -> None:
        how = {"alone": self.is_alone(leg.trial), "packed": self._is_packed(leg.parts)}
        verdict = self.faults.judge(leg.trial, cause, step, error, reason, **how)
        kind = (error or {}).get("type")
        heard.way = (cause, str(kind or ""))
        if verdict.again:
            self.retries += 1
            self._waits[leg.trial] = now + verdict.wait_s
            self._wants(leg.trial, verdict, heard.lost_on)
            heard.facts.append(Lost(leg.trial, verdict.reason))
            return
        if not self.probed:
            self._probe_failures.append((cause, kind, (error or {}).get("line")))
            same = len(self._probe_failures) >= PROBES and len(set(self._probe_failures[-PROBES:])) == 1
            if same or cause == "refused":
                # One typing error costs two trials and not eighty; a failing configuration costs only itself.
                why = f"no trial got as far as a first report: {verdict.reason}"
                heard.facts.append(StopAsked(None, why, "failed"))
        heard.facts.append(Failed(leg.trial, verdict.reason))

    def _wants(self, trial: int, verdict: Verdict, worker: str | None) -> None:
        """Note where the next leg of ``trial`` must train, according to ``verdict``."""
        self._wanted[trial] = {
            "alone": verdict.alone or self.is_alone(trial),
            "avoid": None if verdict.whole else worker,
        }
        if verdict.whole:
            self._whole.add(trial)

    def is_alone(self, trial: int) -> bool:
        """Whether the newest leg of ``trial`` has, or had, its machine to itself."""
        return bool(self._wanted.get(trial, {}).get("alone"))

    def _parts(self, trial: int) -> int:
        """Into how many parts the slot of a leg of ``trial`` is divided."""
        return 1 if self.is_alone(trial) or trial in self._whole else self.per_slot

    @property
    def divided(self) -> tuple[int, str] | None:
        """How many trials share a slot by what one was measured to need, and why, in words; None where it is not."""
        if not self._spec.packs or self.need is None or self._packed is None:
            return None
        return self._packed, words(self.need, self._packed)

    def _is_packed(self, parts: int) -> bool:
        return self._spec.packs and parts > 1

    @property
    def per_slot(self) -> int:
        """How many trials share a slot from now on."""
        return self._packed or 1 if self._spec.packs else self._spec.per_slot

    # -- time

    def turn_s(self, leg: Leg, now: float) -> float:
        """Seconds that ``leg`` gets to finish its turn."""
        since = leg.turned[1] if leg.turned else leg.began or leg.heard
        return max(self._spec.grace_s, self._patience.turn_s(now - since))

    def setting_up(self, now: float) -> list[Leg]:
        """Legs whose set-up has lasted :data:`SHOWN_S` seconds since the last look. Their trials are *setting up* from
        now on."""
        found = []
        # Its worker takes promoted trials first, whichever leg was ordered before.
        taken = {
            id(leg.slot)
            for leg in self.legs.values()
            if leg.began is not None and leg.slot is not None and leg.key in leg.slot.legs and leg.parts == 1
        }
        for leg in self.legs.values():
            if leg.began is not None or leg.slot is None or leg.is_setting_up:
                continue
            if leg.key not in leg.slot.legs[: leg.parts] or id(leg.slot) in taken:
                leg.placed, leg.since = now, None  # it is queued behind another leg
            elif now - leg.placed >= SHOWN_S:
                leg.is_setting_up = True
                found.append(leg)
        return found

    def hanging(self, now: float, check: Leg | None = None) -> list[Leg]:
        """The legs that have been silent for too long. They count as stopped from now on.

        check: the leg of the check of resuming that is under way.
        """
        asleep, found = self._patience.asleep(now), []
        for leg in (*self.legs.values(), *([] if check is None else [check])):
            leg.heard += asleep
            patience = self._patience.limit(leg.trial)
            if patience is None or leg.began is None or leg.stop is not None or now - leg.heard <= patience:
                continue
            leg.hung, leg.stop = now - leg.heard, "it hangs"
            if leg is not check:  # which repeats what a leg has done: how long that was silent is known
                self._patience.hung(leg.trial)
            found.append(leg)
        return found

    @property
    def setup_s(self) -> float:
        """Seconds that a set-up usually takes: the first one also starts the process from which trials are forked."""
        return statistics.median_low(self._setups) if self._setups else 0.0

    @property
    def depth(self) -> int:
        """How many legs a slot, or a part of one, may hold: one; or more very short ones, so that the slot is never
        idle. Beside others in its slot a part is never the only one to be busy."""
        if len(self._durations) < 5 or not self.probed or self._spec.slots != 1 or self.per_slot > 1:
            return 1
        median = statistics.median(self._durations)
        if median > SHORT_LEG_S:
            return 1
        return 1 + min(MOST_QUEUED, max(1, int(QUEUED_S / max(median, 1e-3))))

    @property
    def leaving(self) -> int:
        """How many legs were told to leave, still occupy a slot, and may be followed there by another."""
        legs = self.legs.values()
        return sum(leg.stop is not None and leg.slot is not None and not leg.makes_room for leg in legs)

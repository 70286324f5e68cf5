"""An experiment's outcome besides its best trial: failures, inexact resumes, whether resuming was checked.

Law: one reading. The engine keeps the facts (plain data, in the series and in the catalog), and cell, command line and
server take their words from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from workbench.records import Goal, Json
from workbench.records.names import trial_label
from workbench.standing import SEED_ADVICE, Best

#: The maximum length of an error, and number of lost names, in one line.
ERROR_LENGTH = 90
#: The part of a reason that gives the number of attempts.
_TAILS = ("; the second time in a row", "; restart ")
MOST_NAMES = 6


# ---------------------------------------------------------------------------------------------------------------------
# Facts


def failures(reasons: Iterable[str]) -> dict[str, Json] | None:
    """The trials that failed, by their reasons: how many, the most common reason, and how many had it. None: no trial.

    Reasons that differ only in numbers count as one: ``line 3: bad lr 0.1`` and ``line 3: bad lr 0.2``.
    """
    found = [_short(reason) for reason in reasons]
    if not found:
        return None
    alike = Counter(_alike(reason) for reason in found)
    commonest, same = alike.most_common(1)[0]
    return {"count": len(found), "error": next(one for one in found if _alike(one) == commonest), "same": same}


def inexact(trials: Iterable[Iterable[Mapping[str, str]]]) -> dict[str, Json] | None:
    """Inexactly resumed names from the losses of each trial, the most common first, and the number of trials."""
    names: Counter[str] = Counter()
    count = 0
    for lost in trials:
        own = list(dict.fromkeys(one["name"] for one in lost))
        names.update(own)
        count += bool(own)
    return {"names": [name for name, _ in names.most_common()], "trials": count} if count else None


def added(before: Iterable[Mapping[str, str]], now: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """All state that a trial has lost: names with the first reason."""
    found: dict[str, str] = {}
    for one in (*before, *now):
        found.setdefault(one["name"], one["reason"])
    return [{"name": name, "reason": reason} for name, reason in found.items()]


def promoted(level: int, rows: Iterable[tuple[str, int]]) -> dict[str, Json] | None:
    """The trials promoted from the best trial's level, if all of them failed; else None.

    rows: state and newest level of each trial of a search that has ended.
    """
    failed = sum(state == "failed" and newest >= level > 0 for state, newest in rows)
    return {"failed": failed, "level": level} if failed else None


# ---------------------------------------------------------------------------------------------------------------------
# Words


def trials_words(trials: int, told: Mapping[str, Any], *, others: Iterable[str] = ()) -> str:
    """``6 trials, 4 failed (ZeroDivisionError: division by zero)``. others: further counts, inserted between both."""
    failed = told.get("failures")
    words = [f"{trials} trial{'s' * (trials != 1)}", *others, *([failed_words(failed)] if failed else [])]
    return ", ".join(words)


def failed_words(failed: Mapping[str, Any]) -> str:
    """``4 failed (ValueError: bad)``, or ``4 failed (3 of them: ValueError: bad)``."""
    count, same, error = int(failed["count"]), int(failed["same"]), str(failed["error"])
    several = f"{same} of them: " if same != count else ""
    return f"{count} failed" + (f" ({several}{error})" if error else "")


def inexact_words(lost: Mapping[str, Any] | None) -> str:
    """``resumed inexactly: it, bar (3 trials)``; empty if nothing was."""
    if not lost:
        return ""
    names, trials = list(lost["names"]), int(lost["trials"])
    return f"resumed inexactly: {_listed(names)} ({trials} trial{'s' * (trials != 1)})"


def lost_words(lost: Iterable[Mapping[str, str]] | None) -> str:
    """For one trial: ``it (an iterator or generator cannot be saved: …); bar (…)``; empty if nothing was lost."""
    return "; ".join(f"{one['name']} ({one['reason']})" for one in lost or ())


def checked_words(verdict: Mapping[str, Any] | None) -> str:
    """``resume checked: identical``; empty if no trial was resumed, or checks are off."""
    if not verdict:
        return ""
    kind = verdict.get("verdict")
    if kind == "identical":
        return "resume checked: identical"
    if kind == "parts":
        return f"resume checked: differs from step {verdict.get('step')}: {verdict.get('metric')}"
    if kind == "waiting":
        return "resume check: not done yet"
    why = _short(str(verdict.get("why") or ""))
    return f"resume not checked{f': {why}' if why else ''}"


def curves_words(lost: Mapping[str, Any] | None) -> str:
    """``Curves before 2026-11-22 10:03 were lost; 49 of 357 points were put back from the journal``; or an empty
    text."""
    if not lost:
        return ""
    sources = " and ".join(lost.get("sources") or ())
    before = str(lost.get("before") or "")[:16].replace("T", " ")
    back = f"{lost.get('put_back') or 0} of {lost.get('points') or 0} points were put back"
    return f"Curves before {before} were lost; {back}{f' from {sources}' if sources else ''}"


def best_words(goal: Goal, trial: int, told: Mapping[str, Any], value: str, more: str = "") -> str:
    """``best val_acc 0.98 by t0005 (lr=0.05)``, with an explanation if all promoted trials failed.

    value: the best value as text. more: the configuration.
    """
    by = f"{value} by {trial_label(trial)}" + (f" ({more})" if more else "")
    failed = told.get("promoted")
    if not failed:
        return f"best {goal.metric} {by}"
    return f"best of the trials that did not fail, at step {failed['level']}: {goal.metric} {by}; {_all_failed(failed)}"


def told(meta: Mapping[str, Any]) -> dict[str, Json]:
    """The words for code that only shows them: the server, and readers of its answers.

    Each may be empty. meta: the series' facts about the experiment.
    """
    failed, lost = meta.get("failures"), meta.get("promoted")
    return {
        "failed": failed_words(failed) if failed else "",
        "promoted": _promoted_words(lost) if lost else "",
        "inexact": inexact_words(meta.get("inexact")),
        "checked": str(meta.get("checked") or ""),
        "lost": curves_words(meta.get("lost")),
        "seeds": _seeds_words(meta.get("best")),
    }


def known(entry: Mapping[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    """The facts for :func:`told`, from the catalog's line and the series; older ones may lack some."""
    found = {name: meta.get(name) or entry.get(name) for name in ("failures", "inexact", "promoted", "lost", "best")}
    found["checked"] = entry.get("checked")
    failed = (meta.get("counts") or entry.get("counts") or {}).get("failed")
    if failed and not found["failures"]:
        found["failures"] = {"count": failed, "error": "", "same": failed}
    return found


def _seeds_words(best: Mapping[str, Any] | None) -> str:
    spread = Best.from_json(best).spread if best else None
    if spread is None or not spread.is_same:
        return ""
    return f"all {spread.trials} trials of the best configuration gave the same bits; {SEED_ADVICE}"


def _promoted_words(failed: Mapping[str, Any]) -> str:
    return f"best of the trials that did not fail, at step {failed['level']}; {_all_failed(failed)}"


def _all_failed(failed: Mapping[str, Any]) -> str:
    count = int(failed["failed"])
    return "the one promoted trial failed" if count == 1 else f"all {count} promoted trials failed"


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _short(reason: str) -> str:
    line = reason.strip().splitlines()[0] if reason.strip() else ""
    for tail in _TAILS:
        line = line.partition(tail)[0]
    return line if len(line) <= ERROR_LENGTH else line[: ERROR_LENGTH - 1].rstrip() + "…"


def _alike(reason: str) -> str:
    return "".join("0" if letter.isdigit() else letter for letter in reason)

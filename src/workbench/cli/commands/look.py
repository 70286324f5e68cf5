"""`show`, `best`, `plan`: present and planned experiments. Law: reads only."""

from __future__ import annotations

from typing import Any

from workbench.cli.codes import OK
from workbench.cli.commands.lists import best_words
from workbench.cli.data import back_lines, seen, seen_part
from workbench.cli.found import Experiment, Row, best_of, store_of
from workbench.cli.words import (
    age,
    between,
    clean,
    coloured,
    configured,
    cut,
    facts,
    number,
    say,
    say_json,
    span,
    table,
)
from workbench.compare.section import counted, size
from workbench.errors import BadOption, NotFound
from workbench.records import Scheduler, Searcher, Spec
from workbench.records.sizes import slots_of_row
from workbench.search.cost import Times
from workbench.snapshot.settings.settings import compared
from workbench.snapshot.settings.settings import shown as shown_setting
from workbench.standing import has_diverged
from workbench.status.about import about
from workbench.status.board import since_words
from workbench.status.unranked import why_none_is_best
from workbench.store.files import packed
from workbench.store.keeping.remote import shown, shown_spec
from workbench.store.lists import outcome
from workbench.store.lists.mirrors import Mirror
from workbench.store.lists.said import said

#: Trials that `show` prints unless told to print all.
SHOWN = 20
#: A traceback longer than this is cut in the middle.
TRACEBACK_LINES = 60


# ---------------------------------------------------------------------------------------------------------------------
# show


def show(options: Any) -> int:
    """One experiment, or one trial of it."""
    with Experiment.found(store_of(options), options.ref) as experiment:
        if experiment.reference.trial is None:
            _show_experiment(experiment, options)
        else:
            _show_trial(experiment, experiment.reference.trial, experiment.reference.step, options.json)
    return OK


def _storage(spec: Spec, entry: Row) -> str | None:
    """Where its checkpoints are copied to, and whether all copies exist."""
    if not spec.storage:
        return None
    word = entry.get("storage")
    return clean(shown(spec.storage)) + (f" ({clean(word)})" if word else "")


def _mirror(spec: Spec, entry: Row) -> str | None:
    """Other programs that mirror it, and whether the mirrors are complete."""
    word = entry.get("mirror")
    named = ", ".join(clean(str(Mirror.of(one))) for one in spec.mirror)
    return (named + (f" ({clean(word)})" if word else "")) or None


def _show_experiment(experiment: Experiment, options: Any) -> None:
    spec, trials = experiment.spec, experiment.trials()
    if options.json:
        say_json({"experiment": {**experiment.line(), "spec": shown_spec(spec)}, "trials": trials})
        return
    line = experiment.line()
    wishes = said(experiment.store)
    what = about(spec, _last(experiment))
    took = between(experiment.status.started, experiment.status.ended) if experiment.status.started else None
    say(_title(clean(experiment.label), experiment.status.state, experiment.status.reason))
    say(
        *facts(
            [
                ("goal", clean(spec.goal)),
                ("best", _best_and_why(line) if line["best"] else None),
                ("trials", _counted(trials, experiment.status.progress.planned)),
                ("scheduler", clean(what["search"])),
                ("created", f"{clean(spec.created)} ({age(spec.created)})"),
                ("took" if experiment.is_ended else "so far", span(took) if took is not None else None),
                ("time left", _left(experiment)),
                ("alerts", "; ".join(clean(one["words"]) for one in experiment.meta.get("alerts") or ()) or None),
                ("note", "; ".join(map(clean, experiment.meta.get("says") or ())) or None),
                ("from", clean(spec.parent["label"]) if spec.parent else None),
                ("failures", clean(line["outcome"]["failed"]) or None),
                ("seeds", clean(line["outcome"]["seeds"]) or None),
                ("curves", clean(experiment.trouble or line["outcome"]["lost"]) or None),
                ("resumed", _resumed(experiment.meta)),
                ("verified", _verified(experiment.meta)),
                ("launched", _launched(what["launched"])),
                ("notebook", clean(spec.notebook) if spec.notebook else None),
                ("snapshot", spec.snapshot),
                ("threads", str(spec.training.threads) if spec.training.threads != 1 else None),
                ("settings", _settings(spec)),
                ("secrets", _secrets(spec, experiment.meta)),
                ("typed", cut(clean(spec.typed), 200) or None),
                ("tags", cut(clean(", ".join(line["tags"])), 2000) or None),
                ("note", cut(clean(line["note"]), 2000) if line["note"] else None),
                ("keeps", str(wishes.rule(spec.id, spec.keep))),
                ("storage", _storage(spec, experiment.entry)),
                ("mirror", _mirror(spec, experiment.entry)),
                ("pinned", ", ".join(pin or "all of it" for pin in wishes.pins_of(spec.id)) or None),
                ("id", spec.id),
            ]
        )
    )
    if not trials:
        return
    shown = trials if options.all else trials[:SHOWN]
    head = ["trial", "state", "step", f"best {cut(clean(spec.goal.metric), 20)}", "last", "configuration", "why"]
    say("", *table(head, (_trial_cells(row) for row in shown), states=1))
    if len(shown) < len(trials):
        say(f"and {len(trials) - len(shown)} more: workbench show {clean(experiment.label)} --all")


def _launched(by: Any) -> str | None:
    """Who launched it, on which host, and the commit of its code."""
    if not by:
        return None
    git = by.get("git") or {}
    commit = f", commit {git['commit'][:12]}" if git.get("commit") else ""
    commit += f" of {git['branch']}" if commit and git.get("branch") else ""
    commit += f" with {counted(git['changed'], 'changed file')}" if git.get("changed") else ""
    return clean(f"by {by['account']} on {by['host']}{commit}")


def _settings(spec: Spec) -> str | None:
    """Settings of the notebook's process that every trial has."""
    found = compared(spec.training.settings)
    return cut(clean("; ".join(f"{name} {shown_setting(name, value)}" for name, value in found.items())), 300) or None


def _secrets(spec: Spec, meta: Row) -> str | None:
    """Variables whose values are not recorded, and those that its trials lacked."""
    lacks = meta.get("lacks") or []
    missing = f" (missing: {', '.join(lacks)}; `workbench resume` once they are set provides them)" if lacks else ""
    return clean(", ".join(spec.training.secrets) + missing) or None


def _last(experiment: Experiment) -> int:
    return int(experiment.meta.get("last") or experiment.spec.scheduler.last)


def _verified(row: Row) -> str | None:
    return clean(row["verify"]["words"]) if row.get("verify") else None


def _best_and_why(line: Row) -> str:
    return "; ".join(words for words in (best_words(line), clean(line["outcome"]["promoted"])) if words)


def _resumed(meta: Row) -> str | None:
    """Whether its trials resumed exactly, as far as is known."""
    checking = {"verdict": "waiting"} if meta.get("checking") else meta.get("verify")
    words = (outcome.inexact_words(meta.get("inexact")), outcome.checked_words(checking))
    return "; ".join(clean(one) for one in words if one) or None


def _title(name: str, state: str, reason: str | None) -> str:
    return f"{name}  {coloured(state, state)}  {clean(reason or '')}".rstrip()


def _left(experiment: Experiment) -> str | None:
    left = experiment.meta.get("seconds_left")
    return f"about {span(left)}" if left is not None and experiment.status.state == "running" else None


def _counted(trials: list[Row], planned: int | None) -> str | None:
    if not trials and planned is None:
        return None
    counts: dict[str, int] = {}
    for row in trials:
        counts[row["state"]] = counts.get(row["state"], 0) + 1
    words = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    lost = sum(has_diverged(row.get("value")) for row in trials)
    words += f"; {lost} diverged" if lost else ""
    return f"{len(trials)}{f' of {planned}' if planned else ''}{f': {words}' if words else ''}"


def _outcome(value: float | None) -> str:
    return "diverged" if has_diverged(value) else number(value)


def _trial_cells(row: Row) -> list[str]:
    return [
        row["label"],
        row["state"],
        number(row.get("step")),
        number(best_of(row)),
        _outcome(row.get("value")),
        cut(configured(row.get("configuration")), 60),
        clean("; ".join(filter(None, [since_words(row), *_lost_names(row), row.get("reason") or ""]))),
    ]


def _lost_names(row: Row) -> list[str]:
    names = ", ".join(one["name"] for one in row.get("inexact") or ())
    return [f"resumed inexactly: {names}"] if names else []


def _show_trial(experiment: Experiment, trial: int, step: int | None, as_json: bool) -> None:
    from workbench.search.plan import given_of
    from workbench.store.keeping.checkpoints import Checkpoints
    from workbench.store.keeping.cleaning import removed

    row = experiment.trial(trial)
    legs = experiment.series.legs(trial)
    paths = experiment.store.experiment(experiment.id).trial(trial)
    kept = Checkpoints(paths)
    checkpoints: list[Row] = [
        {"step": c.step, "attempt": c.attempt, "created": c.manifest.created, "bytes": c.manifest.size,
         "path": str(c.folder)}
        for c in kept.all()
    ]  # fmt: skip
    damaged = [{"step": skipped.step, "path": str(skipped.folder), "why": skipped.why} for skipped in kept.skipped]
    pins = {pin[1:] for pin in said(experiment.store).pins if pin[0] == experiment.id}
    for one in checkpoints:
        one["pinned"] = bool(pins & {(trial, one["step"]), (trial, None), (None, None)})
    gone = removed(experiment.store, experiment.id, trial)
    metrics = _metrics(experiment, trial, step)
    if step is not None and not metrics and all(c["step"] != step for c in checkpoints):
        raise NotFound(
            f"{experiment.label}/{row['label']} has neither a report nor a checkpoint at step {step}: it reached step "
            f"{row.get('step') or 0}. `workbench show {experiment.label}/{row['label']}` shows what there is."
        )
    if as_json:
        say_json(
            {
                "experiment": {"id": experiment.id, "label": experiment.label},
                "trial": row,
                "metrics": {"step": step if step is not None else row.get("step"), "values": metrics},
                "legs": legs,
                "seen": seen(legs),
                "checkpoints": checkpoints,
                "damaged": damaged,
                "removed": [{"step": at, "why": why} for at, why in sorted(gone.items())],
                "log": str(paths.log),
            }
        )
        return
    name = clean(experiment.label) + "/" + row["label"]
    say(_title(name, row["state"], "; ".join(filter(None, [since_words(row), row.get("reason")]))))
    goal = clean(experiment.spec.goal.metric)
    best, last = best_of(row), row.get("value")
    say(
        *facts(
            [
                (
                    goal,
                    f"{number(best)} at best, {_outcome(last)} last"
                    if best is not None or has_diverged(last)
                    else None,
                ),
                ("step", f"{number(row.get('step') or 0)} of {_last(experiment)}"),
                ("bracket", number(row.get("bracket")) if row.get("bracket") is not None else None),
                ("attempts", _attempts(row)),
                ("resumed", f"inexactly: {clean(lost)}" if (lost := outcome.lost_words(row.get("inexact"))) else None),
                ("verified", _verified(row)),
                ("log", clean(paths.log) if packed.is_there(paths.log) else None),
            ]
        )
    )
    given = given_of(experiment.spec, trial)
    values = (row.get("configuration") or {}).items()
    _say_part("configuration", facts((clean(k), number(v) + " (given)" * (k in given)) for k, v in values))
    at = step if step is not None else row.get("step")
    _say_part(f"metrics at step {at}", facts((clean(k), number(v)) for k, v in metrics.items()))
    _say_part("legs", _leg_table(legs))
    _say_part(
        "checkpoints",
        [
            f"  step {c['step']:<6} {size(c['bytes']):>8}  {'pinned  ' if c['pinned'] else ''}{clean(c['path'])}"
            for c in checkpoints
        ]
        + [f"  step {d['step']:<6} damaged: {clean(d['why'])}" for d in damaged]
        + [f"  step {at:<6} gone: {clean(why)} removed it" for at, why in sorted(gone.items())],
    )
    title, lines = seen_part(legs)
    if title:
        say("", title, *lines)
    _say_part("data put back", back_lines(legs))
    _say_part("error", _traceback(row.get("error")))


def _attempts(row: Row) -> str:
    restarts = row.get("restarts")
    own = f", {counted(restarts, 'restart')} after its own errors" if restarts else ""
    return f"{row.get('attempt') or 0}{own}"


def _say_part(title: str, body: list[str]) -> None:
    if body:
        say("", title, *body)


def _metrics(experiment: Experiment, trial: int, step: int | None) -> dict[str, float]:
    """The trial's reports at ``step``, or its last one of each metric."""
    points = experiment.series.points(trials=[trial])
    return {name: value for _, name, at, index, value, _ in points if index == 0 and (step is None or at == step)}


def _leg_table(legs: list[Row]) -> list[str]:
    rows = []
    for leg in legs:
        took = between(leg.get("started"), leg.get("ended")) if leg.get("started") and leg.get("ended") else None
        worker, slot = clean(leg.get("worker") or ""), clean(leg.get("slot") or "")
        where = slot if slot.startswith(worker) else f"{worker} {slot}".strip()
        if (count := slots_of_row(leg)) > 1:
            where = f"{where or '–'} ({count} slots)"
        why = clean(leg.get("reason") or "")
        rows.append(
            [f"  {leg['attempt']}", f"{number(leg.get('start'))}–{number(leg.get('until'))}", where or "–",
             clean(leg.get("outcome") or "not ended"), span(took) if took is not None else "–", why]
        )  # fmt: skip
    return table(["  attempt", "steps", "where", "outcome", "took", "why"], rows) if rows else []


def _traceback(error: Any) -> list[str]:
    if not error:
        return []
    text = error.get("traceback") or error.get("message") or error if isinstance(error, dict) else error
    found = [f"  {clean(line)}" for line in str(text).rstrip().splitlines()]
    if len(found) > TRACEBACK_LINES:
        half = TRACEBACK_LINES // 2
        found = [*found[:half], f"  … {len(found) - 2 * half} lines …", *found[-half:]]
    return found


# ---------------------------------------------------------------------------------------------------------------------
# best


def best(options: Any) -> int:
    """The best trial, its configuration and checkpoint."""
    from workbench.store.keeping.checkpoints import Checkpoints

    with Experiment.found(store_of(options), options.ref, trial=False) as experiment:
        if experiment.status.best is None:
            spec, rows = experiment.spec, experiment.trials()
            raise NotFound(why_none_is_best(spec, experiment.label, rows, is_ended=experiment.is_ended))
        found = experiment.status.best
        trial, value = found.trial, found.value
        row = experiment.trial(trial)
        step = _step_of(experiment, trial, value, row.get("level"))
        checkpoint = _checkpoint(Checkpoints(experiment.store.experiment(experiment.id).trial(trial)), step)
    goal = experiment.spec.goal
    if options.json:
        say_json(
            {
                "experiment": {"id": experiment.id, "label": experiment.label, "state": experiment.status.state},
                "goal": {"metric": goal.metric, "mode": goal.mode},
                **found.to_json(),
                "trial": row["label"],
                "step": step,
                "state": row["state"],
                "configuration": row.get("configuration"),
                "checkpoint": checkpoint and {"step": checkpoint.step, "path": str(checkpoint.folder)},
            }
        )
        return OK
    at = f" at step {step}" if step is not None else ""
    say(f"{clean(experiment.label)}/{row['label']}  {clean(goal.metric)} {found.words(number)}{at}")
    say(*facts((clean(name), number(value)) for name, value in (row.get("configuration") or {}).items()))
    if checkpoint is None:
        say("  no checkpoint is kept")
    else:
        say(f"  checkpoint of step {checkpoint.step}: {clean(checkpoint.folder)}")
    if not experiment.is_ended:
        say(f"so far; the experiment is {experiment.status.state}.")
    return OK


def _step_of(experiment: Experiment, trial: int, value: float, level: int | None) -> int | None:
    """The step at which the trial reported ``value``: its ``level``, by which it was compared, or else the first."""
    points = experiment.series.points(trials=[trial], names=[experiment.spec.goal.metric])
    steps = [at for _, _, at, index, seen, _ in points if index == 0 and seen == value]
    return level if level in steps else next(iter(steps), None)


def _checkpoint(kept: Any, step: int | None) -> Any:
    """The checkpoint at the best step if it is kept and intact, else the newest intact one."""
    if step is not None and step in kept.steps():
        try:
            return kept.at(step)
        except (NotFound, OSError):
            pass  # it was removed or damaged: use the newest intact one
    return kept.newest()


# ---------------------------------------------------------------------------------------------------------------------
# plan


def plan(options: Any) -> int:
    """Show a search's plan, before or after it was started."""
    from workbench.launch import measured
    from workbench.search.plan import plan as planned

    took = _given_times(options)
    if options.ref is not None:
        written = [name for name in _PLAN if getattr(options, name) is not None]
        if written:
            raise BadOption(
                f"an experiment was given and --{written[0]} too; expected only one of them. Leave one out."
            )
        from workbench.space import Space

        store = store_of(options)
        with Experiment.found(store, options.ref, trial=False) as experiment:
            spec = experiment.spec
        took = took or measured(store, spec.name)
        found = planned(
            spec.scheduler,
            space=Space.from_json(spec.space),
            searcher=spec.searcher,
            trials=spec.trials,
            seeds=spec.seeds_each,
        )
    else:
        if options.steps is None:
            raise BadOption(
                "neither an experiment nor --steps was given. For example: "
                "workbench plan --steps 1-81 --eta 3, or workbench plan digits."
            )
        first, last = options.steps
        names = ("eta", "table", "mode", "brackets")
        given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
        scheduler = Scheduler(kind=options.scheduler or "hyperband", first=first, last=last, **given)
        found = planned(scheduler, searcher=Searcher(), trials=options.trials, seeds=options.seeds or 1)
    found = found.priced(took)
    if options.json:
        say_json({"plan": found.to_json()})
    else:
        say(*str(found).splitlines())
    return OK


def _given_times(options: Any) -> Times | None:
    """The times of a set-up and of a step, if they were given."""
    if (options.setup_time is None) != (options.step_time is None):
        given, lacks = ("setup", "step") if options.step_time is None else ("step", "setup")
        raise BadOption(
            f"--{given}-time was given without --{lacks}-time; the time of a plan needs both. For example: "
            "--setup-time 2m --step-time 30s."
        )
    if options.setup_time is None:
        return None
    return Times(options.setup_time, options.step_time, "you gave")


_PLAN = ("steps", "scheduler", "eta", "table", "mode", "brackets", "trials", "seeds")

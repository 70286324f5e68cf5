"""`delete`, `keep`, `pin`, `unpin`, `gc`: what is kept and what is deleted. Law: sizes are shown before anything is
removed."""

from __future__ import annotations

import os
from typing import Any

from workbench.asked import Delete, Gc, Keep, Pin, Quota, Unpin
from workbench.cli.codes import OK
from workbench.cli.commands.orders import answered
from workbench.cli.found import Experiment, store_of
from workbench.cli.words import agreed, clean, facts, say, say_json
from workbench.compare.section import counted, size
from workbench.errors import BadOption, InUse, NotFound, StoreError
from workbench.records.names import trial_label
from workbench.status import RESTING, Around, Status, asked_trials
from workbench.store import Store
from workbench.store.files.atomic import size_of
from workbench.store.keeping.cleaning import KINDS, Cleaned, clean_ended, sweep
from workbench.store.keeping.usage import experiment_usage, usage
from workbench.store.lists.catalog import Reference, read_entry, resolve
from workbench.store.lists.said import read_bytes, said

_WORDS = {
    "checkpoints": "checkpoints not kept by any rule",
    "blobs": "unreferenced captured values",
    "snapshots": "unreferenced snapshots",
    "documents": "unreferenced open notebooks",
    "cached": "cached results not used for a month",
    "unfinished": "left half-written",
    "removed": "partly removed",
}


def delete(options: Any) -> int:
    """Delete an experiment, also one that is unreadable, or the files of one of its trials."""
    store = store_of(options)
    reference = resolve(store, options.ref)
    name, trial = clean(reference), reference.trial
    if reference.step is not None:
        raise BadOption(
            f"{name} names a step; expected an experiment or a trial. `workbench keep` says how many checkpoints stay."
        )
    if trial is None:
        _check_inactive(store, reference)
        used = experiment_usage(store, reference.experiment)
        what, loses, later = "everything", used.folder, used.own
    else:
        from workbench.store.keeping.checkpoints import Checkpoints

        with Experiment.found(store, options.ref) as experiment:
            experiment.trial(trial)
        paths = store.experiment(reference.experiment).trial(trial)
        kept = Checkpoints(paths)
        what, loses, later = "checkpoints and files", sum(map(kept.size, kept.steps())) + size_of(paths.files), 0
    more = f", and {size(later)} with the next `workbench gc`" if later else ""
    if not options.yes and not agreed(f"delete {what} of {name}: {size(loses)}{more}. This cannot be undone."):
        raise BadOption(f"nothing was deleted. `workbench delete {name} --yes` deletes without asking.")
    answer = answered(store, Delete(reference.experiment, trial))
    if options.json:
        named = {"id": reference.experiment, "label": reference.label}
        label = None if trial is None else trial_label(trial)
        say_json({"deleted": named, "trial": label, "bytes": answer["bytes"], "later": later})
    else:
        say(f"{name} was deleted: {size(answer['bytes'])} are free{more}.")
    return OK


def _check_inactive(store: Store, reference: Reference) -> None:
    """Raise InUse for an experiment that may train. One whose spec is damaged cannot."""
    try:
        spec = store.read_spec(reference.experiment, viewing=True)
    except (StoreError, NotFound):
        return
    entry = read_entry(store, reference.experiment)
    if entry.get("state", "waiting") not in RESTING:
        state = Status.of(entry, {}, Around.of(store), asked_trials(spec)).state
        raise InUse(
            f"{reference.label} is {state}, and a running experiment is not deleted. `workbench stop "
            f"{reference.label}` ends it; then delete it."
        )


def keep(options: Any) -> int:
    """Show or change which checkpoints of an experiment are kept."""
    with Experiment.found(store_of(options), options.ref, trial=False) as experiment:
        rule = said(experiment.store).rule(experiment.id, experiment.spec.keep)
        freed = None
        if options.rule is not None:
            answer = answered(experiment.store, Keep(experiment.id, options.rule))
            rule, freed = type(rule)(**answer["rule"]), answer.get("bytes")
        if options.json:
            named = {"id": experiment.id, "label": experiment.label}
            fields = ("experiment", "best", "latest", "stopped")
            say_json({"experiment": named, "rule": {name: getattr(rule, name) for name in fields}, "bytes": freed})
        else:
            went = f"; {size(freed)} freed" if freed else ""
            say(f"{clean(experiment.label)} keeps {rule}{went}.")
    return OK


def pin(options: Any) -> int:
    """Protect one checkpoint, or all of a trial or experiment."""
    with Experiment.found(store_of(options), options.ref) as experiment:
        reference = experiment.reference
        if reference.trial is not None:
            experiment.trial(reference.trial)
        what = (experiment.id, reference.trial, reference.step)
        answer = answered(experiment.store, Pin(*what) if options.verb == "pin" else Unpin(*what))
        if options.json:
            say_json({"experiment": {"id": experiment.id, "label": experiment.label}, "pins": answer["pins"]})
        elif options.verb == "pin":
            say(f"{clean(reference)} is pinned: it is not deleted until `workbench unpin {clean(reference)}`.")
        else:
            say(f"{clean(reference)} is no longer pinned.")
    return OK


def quota(options: Any) -> int:
    """Show or change how much space the store may use."""
    store = store_of(options)
    if options.size is not None:
        from workbench.asking import ask

        ask(store, Quota(0 if options.size == "off" else read_bytes(options.size)))
    used, limit = usage(store), said(store).quota
    named = os.environ.get("WORKBENCH_QUOTA")
    if limit is None and named:
        limit = read_bytes(named)
    if options.json:
        say_json({"quota": limit or None, "used": used.bytes, "free": used.free})
    else:
        free = f"; the disk has {size(used.free)} left" if used.free is not None else ""
        say(f"the store takes {size(used.bytes)} of {size(limit) if limit else 'no quota'}{free}.")
    return OK


def gc(options: Any) -> int:
    """Remove checkpoints not kept by a rule, and unreferenced files."""
    store = store_of(options)
    if options.dry_run:
        cleaned = what_would_go(store)
        told: dict[str, Any] = {
            "dry_run": True,
            "bytes": cleaned.bytes,
            "things": cleaned.things,
            "total": cleaned.total,
        }
    else:
        from workbench.asking import ask

        told = ask(store, Gc(), timeout=3600.0)
    if options.json:
        say_json({name: told[name] for name in ("dry_run", "bytes", "things", "total")})
        return OK
    rows = [(_WORDS[kind], f"{size(told['bytes'][kind]):>8}  {counted(told['things'][kind], 'thing')}")
            for kind in KINDS if told["things"].get(kind)]  # fmt: skip
    say(f"{size(told['total'])} {'would be freed' if options.dry_run else 'freed'}.", *facts(rows))
    return OK


def what_would_go(store: Store) -> Cleaned:
    """What cleaning up would remove now; it does not ask, and changes nothing."""
    wishes = said(store)
    cleaned = Cleaned()
    for key in store.experiment_ids():
        try:
            cleaned += clean_ended(store, key, wishes, dry_run=True)
        except (NotFound, OSError):
            continue  # a damaged spec: keep what cannot be interpreted
    cleaned += sweep(store, wishes, dry_run=True)
    return cleaned

"""`publish`, `import`, `trust`: copy experiments out of a store or into it. Law: none of them runs an experiment's
code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.codes import OK
from workbench.cli.found import Experiment, store_of
from workbench.cli.words import agreed, clean, say, say_json
from workbench.errors import BadOption, Declined
from workbench.store import Store
from workbench.store.owner import trust as trusting
from workbench.store.owner.ownership import check_ours

if TYPE_CHECKING:
    from workbench.share.looking import Finding


def publish(options: Any) -> int:
    """Write a read-only store and a page."""
    from workbench.share import publish as write

    checkpoints = not options.no_checkpoints
    consent = None if options.yes else _consents
    try:
        told = write(store_of(options), options.ref, options.destination, checkpoints=checkpoints, consent=consent)
    except Declined as error:
        raise BadOption(f"{error} `workbench publish {options.ref} DEST --yes` does not ask.") from None
    if options.json:
        say_json(told)
    else:
        if options.yes:
            say(*(clean(line) for line in told["said"]))
        say(f"{told['bytes'] / 1e6:.1f} MB written. Page: {clean(told['page'])}")
        say(f"Others open it with wb.open({told['destination']!r}).")
    return OK


def _consents(findings: Sequence[Finding]) -> bool:
    """Show the secrets found, and ask. If there are none, do not ask."""
    if not findings:
        return True
    say(*(clean(one) for one in findings))
    return agreed("Secrets were found there. What is masked or left out is not written. Publish the rest.")


def take_in(options: Any) -> int:
    """Import an experiment into this store."""
    from workbench.share import take_in as take

    store = Store.find(options.store)
    told = take(store, Path(options.source), name=options.name)
    if options.trust:
        trusting.trust(store, told["experiment"])
    if options.json:
        say_json(told)
    else:
        say(f"{clean(told['label'])} is in {clean(str(store.root))}.")
        if not options.trust:
            say(f"None of its code runs until you run `workbench trust {clean(told['label'])}`.")
    return OK


def trust(options: Any) -> int:
    """Allow an imported experiment to run."""
    store = store_of(options)
    check_ours(store)
    with Experiment.found(store, options.ref, trial=False) as experiment:
        trusting.trust(store, experiment.id)
        say(f"{clean(experiment.label)} may be loaded and trained.")
    return OK

"""`publish`, `import`, `trust`: experiments that leave a store or come into it. Law: none runs their code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.cli.found import Experiment, store_of
from workbench.cli.verbs import OK
from workbench.cli.words import clean, say, say_json
from workbench.store import Store
from workbench.store import trust as trusting
from workbench.store.ownership import check_ours


def publish(options: Any) -> int:
    """Write a read-only store and a page."""
    from workbench.share import publish as write

    told = write(store_of(options), options.ref, options.destination, checkpoints=not options.no_checkpoints)
    if options.json:
        say_json(told)
    else:
        say(f"{told['bytes'] / 1e6:.1f} MB written. Page: {clean(told['page'])}")
        say(f"Others open it with wb.open({told['destination']!r}).")
    return OK


def take_in(options: Any) -> int:
    """Take an experiment into this store."""
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
            say(f"Nothing of it runs until `workbench trust {clean(told['label'])}`.")
    return OK


def trust(options: Any) -> int:
    """Say that an experiment from elsewhere may run."""
    store = store_of(options)
    check_ours(store)
    with Experiment.found(store, options.ref, trial=False) as experiment:
        trusting.trust(store, experiment.id)
        say(f"{clean(experiment.label)} may be loaded and trained.")
    return OK

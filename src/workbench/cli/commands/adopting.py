"""`adopt`: make a store this user's. Law: it shows what that means, and asks once."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

from workbench.cli.codes import OK
from workbench.cli.words import clean, is_terminal, say, say_json
from workbench.compare.section import counted
from workbench.errors import BadOption
from workbench.store import Store
from workbench.store.layout import FOLDER
from workbench.store.owner.adoption import Offer, adopt, check_plain, offer
from workbench.store.owner.ownership import ADOPT, ownership


def adopting(options: Any) -> int:
    """Show what adopting means, ask, and adopt."""
    store = _meant(options)
    found = offer(store)
    if ownership(store).is_ours:
        _said(options, found, adopted=False, words=f"{clean(found.root)} is yours already: {clean(found.why)}.")
        return OK
    check_plain(store)
    if not options.yes and not _agreed(found):
        words = " ".join(_meaning(found))
        raise BadOption(f"nothing was adopted. {words} `workbench adopt {found.root} --yes` adopts it without asking.")
    done = adopt(store)
    words = f"{clean(done.root)} is yours from now on."
    if not done.is_kept:
        words += f" The list of your stores cannot be written, so only this process knows; others need {ADOPT}."
    _said(options, done, adopted=True, words=words)
    return OK


def _meant(options: Any) -> Store:
    """The store to adopt: a store's folder, or the folder that contains ``.workbench``."""
    named = options.folder or options.store or os.environ.get("WORKBENCH_HOME") or FOLDER
    store = Store(Path(named).expanduser())
    return Store(store.root / FOLDER) if options.folder and not store.exists else store


def _meaning(found: Offer) -> list[str]:
    """What adopting means, in sentences."""
    told = [
        f"{clean(found.root)} belongs to {clean(found.owner)} and holds {counted(found.experiments, 'experiment')}.",
        f"It is not known to be yours: {clean(found.why)}.",
        "After you adopt it, its contents may run as you: training code, captured values, checkpoints.",
    ]
    if found.unfinished:
        shown = ", ".join(clean(label) for label in found.unfinished[:5])
        more = f" and {len(found.unfinished) - 5} more" if len(found.unfinished) > 5 else ""
        told.append(f"Unfinished: {shown}{more}; paused until you resume them by name.")
    if found.requests:
        told.append(f"{counted(found.requests, 'request')} that waited will not be carried out.")
    if found.tells:
        told.append("Its notification addresses are removed.")
    return told


def _agreed(found: Offer) -> bool:
    if not (is_terminal() and sys.stdin is not None and sys.stdin.isatty()):
        return False
    say(*_meaning(found))
    sys.stdout.write("Type yes to adopt it: ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _said(options: Any, found: Offer, *, adopted: bool, words: str) -> None:
    if options.json:
        say_json({"adopted": adopted, **dataclasses.asdict(found)})
        return
    say(words)
    if adopted and found.unfinished:
        say(f"Paused: {', '.join(map(clean, found.unfinished))}. `workbench resume NAME` continues one.")

"""`notify`: the notifications of this store's searches. Law: a webhook's address is a secret, and shown masked."""

from __future__ import annotations

import threading
from typing import Any

from workbench.cli.codes import FAILED, OK
from workbench.cli.found import store_of
from workbench.cli.words import clean, say, say_json
from workbench.engine.telling.notify import EVENTS, Messenger, checked, mask, read, write
from workbench.snapshot.secrets.masking import masked


def notify(options: Any) -> int:
    """Set, show or test the notifications."""
    store = store_of(options)
    kept = read(store) or {}
    if options.off:
        write(store, None)
        kept = {}
    elif options.webhook or options.command or options.on:
        on = tuple(part.strip() for part in options.on.split(",")) if options.on else tuple(kept.get("on") or EVENTS)
        kept = checked(options.webhook or kept.get("webhook"), options.command or kept.get("command"), on)
        write(store, kept)
    whom = [mask(kept["webhook"])] if kept.get("webhook") else []
    whom += [masked(str(kept["command"]))] if kept.get("command") else []
    failed = _tried(kept) if options.attempt and whom else []
    if options.json:
        say_json({"to": whom, "on": kept.get("on") or [], "failed": failed})
    else:
        say(
            f"{', '.join(map(clean, whom))} is notified on {', '.join(kept['on'])}."
            if whom
            else "notifications are off."
        )
        for line in failed:
            say(clean(line))
    return FAILED if failed else OK


def _tried(kept: dict[str, Any]) -> list[str]:
    """Send one message now; return what went wrong."""
    answers: list[tuple[str, str | None]] = []
    some = threading.Semaphore(0)

    def done(whom: str, error: str | None) -> None:
        answers.append((whom, error))
        some.release()

    Messenger().tell({**kept, "on": ["end"]}, {"event": "end", "words": "workbench notify --try: it works"}, done)
    for _ in range(bool(kept.get("webhook")) + bool(kept.get("command"))):
        some.acquire()
    return [f"{whom}: {error}" for whom, error in answers if error]

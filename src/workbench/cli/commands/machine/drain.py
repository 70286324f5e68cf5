"""`drain`: take a slot out of use, for all engines of this user. Law: what trains there loses nothing."""

from __future__ import annotations

import time
from typing import Any

from workbench.cli.verbs import OK
from workbench.cli.words import say, say_json
from workbench.cluster import devices
from workbench.errors import NotFound
from workbench.store.owner import slots

#: Seconds between looks at whether the slot is free.
LOOK_S = 0.1


def drain(options: Any) -> int:
    """Drain a slot and wait until nothing trains there; or use it again. Raises NotFound, StoreError."""
    name, there = options.slot, [*devices.slot_names(), *slots.cores()]
    known = dict.fromkeys([*there, *(holder.slot for holder in slots.holders()), *sorted(slots.drained())])
    if name not in known:
        raise NotFound(f"slot {name!r} is not on this machine. Its slots: {', '.join(known)}.")
    if options.undo:
        slots.use_again(name)
    else:
        slots.drain(name)
    is_free = _is_free(name)
    if not (options.undo or options.no_wait):
        if not is_free and not options.json:
            say(f"{name} is drained: no trial starts there. Waiting for the one that trains there to save and leave …")
        while not is_free:
            time.sleep(LOOK_S)
            is_free = _is_free(name)
    if options.json:
        say_json({"slot": name, "drained": not options.undo, "free": is_free})
    elif options.undo:
        say(f"{name} is used again.")
    else:
        state = "is free" if is_free else "is not free yet"
        say(f"{name} {state}. `workbench drain {name} --undo` lets trials use it again.")
    return OK


def _is_free(name: str) -> bool:
    return all(holder.slot != name for holder in slots.holders())

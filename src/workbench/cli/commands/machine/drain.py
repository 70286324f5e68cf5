"""`drain`: take a slot out of use, for the engines of this user or of all. Law: what trains there loses nothing."""

from __future__ import annotations

import time
from typing import Any

from workbench.cli.codes import OK
from workbench.cli.words import say, say_json
from workbench.status.queue import is_for_all, is_free, use
from workbench.store.owner import machine
from workbench.store.owner.listed import person
from workbench.store.owner.slots import drained

#: Seconds between looks at whether the slot is free.
LOOK_S = 0.1


def drain(options: Any) -> int:
    """Drain a slot and wait until nothing trains there; or use it again. Raises NotFound, StoreError.

    Where users share the machine, one who is not its administrator waits for the own trials only.
    """
    shared, name = machine.shared(), options.slot
    for_all, free = is_for_all(), use(name, is_used=options.undo)
    if not (options.undo or options.no_wait):
        if not free and not options.json:
            say(f"{name} is drained: no trial starts there. Waiting for the one that trains there to save and leave …")
        while not free:
            time.sleep(LOOK_S)
            free = is_free(name)
    if options.json:
        say_json({"slot": name, "drained": name in drained(), "free": free, "for_all_users": for_all})
    elif options.undo and name in drained():
        assert shared is not None
        say(f"{name} stays drained: only {person(shared.owner)} can undo that.")
    elif options.undo:
        say(f"{name} is used again.")
    elif not for_all:
        assert shared is not None
        state = "none of your trials is there" if free else "your trial is leaving"
        say(f"{name}: {state}, and none starts there until `workbench drain {name} --undo`. Trials of other users may; "
            f"only {person(shared.owner)} can drain it for all.")  # fmt: skip
    else:
        state = "is free" if free else "is not free yet"
        say(f"{name} {state}. `workbench drain {name} --undo` lets trials use it again.")
    return OK

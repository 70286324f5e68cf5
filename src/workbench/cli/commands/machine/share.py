"""`share-machine`: the users of this machine share its slots. Law: it changes only the folder that it makes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from workbench.cli.codes import OK
from workbench.cli.commands.machine.queue import named
from workbench.cli.words import clean, say, say_json
from workbench.cluster import devices
from workbench.errors import BadOption
from workbench.store.owner import machine


def share(options: Any) -> int:
    """Make the folder, or make it right, with the machine's slots. Raises BadOption, StoreError."""
    for name in options.slot:
        if not re.fullmatch(r"cpu\d+|gpu-[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise BadOption(f"--slot {name}: expected the name of a slot, such as cpu3 or gpu-MIG-UUID.")
    path = machine.PLACE if options.folder is None else Path(options.folder).absolute()
    cores = [f"cpu{number}" for number in {*range(os.cpu_count() or 1), *os.sched_getaffinity(0)}]
    made = machine.prepare(path, {*cores, *devices.gpu_slots(), *options.slot})
    slots, (weights, trouble) = sorted(made.slots), made.weights()
    if options.json:
        say_json({"folder": str(path), "slots": slots, "weights": weights, "trouble": trouble})
        return OK
    say(f"users share {len(slots)} slots of this machine: {clean(named(slots))}.")
    say(f"all users have the same share, or that of {clean(str(path / machine.WEIGHTS))}.")
    if trouble is not None:
        say(clean(trouble))
    if path != machine.PLACE:
        say(f"their programs need {machine.VARIABLE}={clean(str(path))}, for example in /etc/environment.")
    return OK

"""A seeded search under many faults, held against the calm one: `python tests/soak/chaos.py FOLDER --faults 50`.

Prints each fault as it happens, and at the end one line of JSON. The exit code is 0 when nothing differs.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1])]

from running import ended, lines, outcome, until
from soak import faults
from soak.world import CELL, PLAIN_CELL, World, world

from workbench import asked
from workbench.asking import ask
from workbench.records import Spec
from workbench.store import Store, requests
from workbench.store.journal import read as read_journal
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.owner.lease import read_engine

#: Seconds within which something must come of a search after each fault.
PROGRESS_S = 120.0


def the_only(store: Store) -> Spec:
    """The spec of the store's one experiment, as soon as there is one."""
    return store.read_spec(until(store.experiment_ids, 60, "the experiment")[0])


def promise(store: Store, spec: Spec) -> dict[str, Any]:
    """What no fault may change: configurations, metrics, states, decisions with their reasons, and the best's bytes."""
    found = outcome(store, spec)
    fates = [
        line
        for line in lines(store, spec)
        if line["kind"] == "Finish" or line.get("state") in ("completed", "stopped", "failed")
    ]
    found["decisions"] = sorted((line.get("trial", -1), line["state"], line["reason"]) for line in fates)
    found["reached"] = sorted(
        {(line["trial"], line["step"], line["value"]) for line in lines(store, spec) if line["kind"] == "Reached"}
    )
    import workbench as wb

    best = wb.open(spec.label, store=store).best
    found["best"] = (best.number, best.value, hashlib.sha256(repr(sorted(_flat(best.state))).encode()).hexdigest())
    return found


def _flat(value: Any, name: str = "") -> list[tuple[str, str]]:
    torch = sys.modules.get("torch")  # without it, no state has tensors
    if isinstance(value, dict):
        return [leaf for key, one in value.items() for leaf in _flat(one, f"{name}.{key}")]
    if isinstance(value, list | tuple):
        return [leaf for number, one in enumerate(value) for leaf in _flat(one, f"{name}.{number}")]
    if torch is not None and isinstance(value, torch.Tensor):
        return [(name, hashlib.sha256(value.contiguous().numpy().tobytes()).hexdigest())]
    return [(name, repr(value))]


def calm(folder: Path, cell: str) -> dict[str, Any]:
    """The same search when nothing goes wrong."""
    folder.mkdir()
    with world(folder, remote=False) as quiet:
        store = Store(quiet.store)
        quiet.sit_down(cell)
        spec = the_only(store)
        assert ended(store, spec, 900) == "completed"
        found = promise(store, spec)
        ask(store, asked.End())
        until(lambda: not quiet.role("engine"), 30, "the engine's end")
    return found


def disturbed(
    folder: Path, cell: str, wanted: int, seed: int, *, remote: bool, small_disk: bool
) -> tuple[dict[str, Any], list[str], dict[str, int]]:
    """The same search under ``wanted`` faults: what it promised, what is wrong with the store, and faults by kind."""
    dice = random.Random(seed)
    known = faults.kinds(remote=remote, small_disk=small_disk)
    count: collections.Counter[str] = collections.Counter()
    began = time.monotonic()
    with world(folder, remote=remote) as shaken:
        store = Store(shaken.store)
        shaken.sit_down(cell)
        spec = the_only(store)
        bag: list[str] = []
        until_it_moves(store, spec, 0)
        while not lines(store, spec, "Finish") and count.total() < wanted:
            if not bag:
                bag = [kind for kind, (_, often) in known.items() for _ in range(often)]
                dice.shuffle(bag)
            kind = bag.pop()
            before = newest(store, spec)
            told = known[kind][0](shaken, dice)
            count[kind] += 1
            print(f"{time.monotonic() - began:7.1f} s  {count.total():3}  {told}", flush=True)
            if not shaken.role("kernel"):
                shaken.kernel.end()
                shaken.sit_down(cell)  # Restart and Run All
            until_it_moves(store, spec, before)
        state = ended(store, spec, 900)
        print(f"{time.monotonic() - began:7.1f} s       {state}", flush=True)
        found = promise(store, spec)
        ask(store, asked.End())
        until(lambda: not shaken.role("engine"), 60, "the engine's end")
        wrong = wrong_with(store, spec)
        orphans = orphaned(shaken)
    return found, wrong + orphans, dict(count)


def newest(store: Store, spec: Spec) -> int:
    """The newest line of the journal that says that something was trained."""
    told = [line["n"] for line in lines(store, spec) if line["kind"] in ("Saved", "Reached", "Ended", "Finish")]
    return told[-1] if told else 0


def until_it_moves(store: Store, spec: Spec, before: int) -> None:
    """Wait until the search got on: faults are told apart by what was trained between them."""
    until(lambda: newest(store, spec) > before, PROGRESS_S, "progress after a fault")


def orphaned(shaken: World) -> list[str]:
    """Runners and forkservers that outlive their engine: the cluster's workers are theirs who started them."""
    try:
        until(lambda: not (shaken.role("runner") + shaken.role("engine")), 30, "the end of the runners")
    except AssertionError:
        return [f"orphan: {' '.join(process.cmdline())}" for process in shaken.role("runner")]
    return []


def wrong_with(store: Store, spec: Spec) -> list[str]:
    """Torn or lost files in a store that no process writes any more."""
    wrong: list[str] = []
    for path in (store.journal_path, store.experiment(spec.id).journal):
        damage: list[Any] = []
        numbers = [line["n"] for line in read_journal(path, damage=damage)]
        wrong += [f"{path.name}: {one}" for one in damage]
        if numbers != sorted(set(numbers)):
            wrong.append(f"{path.name}: its lines are not numbered one by one")
    with sqlite3.connect(store.experiment(spec.id).series) as connection:
        (sound,) = connection.execute("PRAGMA integrity_check").fetchone()
    wrong += [] if sound == "ok" else [f"series.db: {sound}"]
    json.loads(store.catalog_path.read_text())
    if requests.pending(store):
        wrong.append("a request was left")
    if (info := read_engine(store)) is not None and info.alive:
        wrong.append("an engine still holds the store")
    for number in range(len(outcome(store, spec)["trials"])):
        checkpoints = Checkpoints(store.experiment(spec.id).trial(number))
        checkpoints.all(verify="digest")
        # Checkpoints that a fault damaged and no trial needed afterwards may remain; half-written folders may not.
        wrong += [f"{one.folder}: {one.why}" for one in checkpoints.skipped if "manifest is missing" in one.why]
    return wrong


def compared(quiet: dict[str, Any], shaken: dict[str, Any]) -> list[str]:
    """What differs, in words."""
    return [f"{part} differ from the calm run's" for part in quiet if quiet[part] != shaken[part]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--last", type=int, default=81, help="the search's last step")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds that each step sleeps")
    parser.add_argument("--plain", action="store_true", help="training in plain Python, without torch")
    parser.add_argument("--local", action="store_true", help="the engine's own cluster, not somebody else's")
    parser.add_argument("--disk-mb", type=int, help="mount a tmpfs of this size for the store (in a namespace)")
    options = parser.parse_args(arguments)
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    cell = (PLAIN_CELL if options.plain else CELL).format(last=options.last, pause=options.pause, line="")
    began = time.monotonic()
    quiet = calm(folder / "calm", cell)
    calm_s = time.monotonic() - began
    print(f"calm: {calm_s:.1f} s, {len(quiet['trials'])} trials, best {quiet['best'][:2]}", flush=True)
    room = folder / "chaos"
    room.mkdir()
    if options.disk_mb:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={options.disk_mb}m", "none", str(room)], check=True)
    began = time.monotonic()
    shaken, wrong, count = disturbed(
        room, cell, options.faults, options.seed, remote=not options.local, small_disk=bool(options.disk_mb)
    )
    differences = compared(quiet, shaken) + wrong
    if sum(count.values()) < options.faults:
        differences.append(f"the search ended after {sum(count.values())} faults; {options.faults} were wanted")
    verdict = {
        "identical": not differences,
        "faults": sum(count.values()),
        "kinds": count,
        "trials": len(shaken["trials"]),
        "points": len(shaken["points"]),
        "best": list(shaken["best"][:2]),
        "calm_s": round(calm_s, 1),
        "chaos_s": round(time.monotonic() - began, 1),
        "differences": differences,
    }
    print(json.dumps(verdict), flush=True)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())

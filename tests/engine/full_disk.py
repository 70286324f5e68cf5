"""An engine whose disk is full. Run by test_full_disk.py in a namespace of its own, where one is mounted."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

from cli.stored import typed
from engine.small_disk import mount
from running import ended, engine, engine_pid, lines, outcome, spec_of, start, until

from workbench.asked import Extend
from workbench.asking import ask
from workbench.records import Keep
from workbench.space import uniform
from workbench.store import Store, requests
from workbench.store.files.atomic import write_all
from workbench.store.journal import read
from workbench.store.lists.catalog import read_catalog

SPACE = {"x": uniform(0.0, 1.0)}
#: Its turns last a moment, so that the disk is full while it trains.
STEADY = """
x = uniform(0.0, 1.0)
import random, time
total = 0.0
for epoch in trial.steps():
    time.sleep(0.02)
    total = 0.9 * total + x + 0.01 * random.random()
    trial.report(score=total)
"""
#: Longer than what is left of a page of the disk: no answer that holds it can be written.
NOTE = "n" * 9000


def fill(folder: Path) -> Path:
    """A file that takes all that is left."""
    filler = folder / "filler"
    descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for size in (1 << 16, 1):
        with contextlib.suppress(OSError):
            while True:
                write_all(descriptor, b"x" * size)
    os.close(descriptor)
    return filler


def main(folder: Path) -> None:
    mount(folder, "size=50m")
    store = Store(folder / "store").create()
    settings = {"space": SPACE, "seed": 5, "verify": False, "keep": Keep.of("all")}
    calm = spec_of(STEADY, folder, name="calm", **settings)
    spec = spec_of(STEADY, folder, name="full", **settings)
    with engine(store) as process:
        start(store, calm)
        assert ended(store, calm) == "completed"
        start(store, spec)
        until(lambda: len(lines(store, spec, "Saved")) > 3, what="a few checkpoints")
        # What is asked while nothing can be written: it is taken when the engine goes on, and the disk is full then.
        os.kill(process.pid, signal.SIGSTOP)
        asked = [requests.put(store, {"kind": "note", "experiment": calm.id, "note": f"{NOTE}{n}"}) for n in range(3)]
        asked.append(requests.put(store, {"kind": "extend", "experiment": calm.id, "trials": 2}))
        (store.requests / "nonsense").write_text("{")
        filler = fill(folder)
        os.kill(process.pid, signal.SIGCONT)
        told = store.engine_log.stat().st_size
        with contextlib.suppress(AssertionError):  # several heartbeats, tables, catalogs and looks
            until(lambda: (fill(folder), process.poll())[1] is not None, 5, "its end")
        assert process.poll() is None, store.engine_log.read_text()
        assert engine_pid(store) == process.pid
        assert any(requests.state(store, one) == "taken" for one in asked)
        # Who looks is told, although the engine cannot write it down.
        fill(folder)
        assert "waiting: no space is left on the disk of" in typed("show", spec.id, store=store).out
        assert "full@1: no space is left on the disk of" in typed("ls", store=store).out
        filler.unlink()
        answers = until(
            lambda: (
                (found := {one["request"]: one for one in read(store.journal_path) if one["kind"] == "answer"})
                and all(one in found for one in (*asked, "nonsense"))
                and found
            ),
            20,
            "all answers",
        )
        assert all(answers[one]["accepted"] for one in asked[:-1])
        assert not answers["nonsense"]["accepted"]
        if not answers[asked[-1]]["accepted"]:  # a refusal has changed nothing
            assert answers[asked[-1]]["type"] == "StoreFull"
            ask(store, Extend(experiment=calm.id, trials=2))
        until(lambda: not any(requests.state(store, one) != "gone" for one in asked), what="the end of the requests")
        assert ended(store, spec) == "completed"
        until(lambda: len(lines(store, calm, "Finish")) == 2, what="the end of the extended one")
        until(lambda: next(one for one in read_catalog(store) if one["id"] == calm.id).get("note") == f"{NOTE}2")
        assert process.poll() is None
        # Its log lies on the same disk: that something waited is there only where a line found room.
        until(lambda: "the heartbeat is written again" in store.engine_log.read_text()[told:], what="a word in the log")
        went = outcome(store, spec)
    # One that begins on a full disk goes on with what was under way when there is room.
    more = spec_of(STEADY, folder, name="more", **settings)
    with engine(store) as process:
        start(store, more)
        until(lambda: len(lines(store, more, "Saved")) > 3, what="a few checkpoints")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert outcome(store, calm)["trials"].items() >= went["trials"].items()
    filler = fill(folder)
    with engine(store) as process:
        assert process.wait(30) == 1
    assert "no space is left" in store.engine_log.read_text()
    filler.unlink()
    with engine(store):
        assert ended(store, more) == "completed"
    assert outcome(store, more) == went


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    print("ok")

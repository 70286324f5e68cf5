"""Rules on metrics and logs, stalls, and a real webhook that is told: by a server of this machine, and real engines."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from running import ended, engine, lines, spec_of, start, state, until

from workbench import asked
from workbench.asking import ask
from workbench.engine.telling import notify
from workbench.engine.telling.alerts import Watch, digest, rules
from workbench.errors import BadOption
from workbench.records import Goal, Scheduler
from workbench.space import uniform
from workbench.standing import Best, Spread
from workbench.store import Store
from workbench.store.series import Series

GOAL = Goal("loss", "min")
CELL = """
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    print("CUDA out of memory, it says" if epoch == 1 else "fine")
    trial.report(score=1.0, loss=float("nan") if epoch == 2 else 0.5)
"""


class Hook:
    """A webhook of this machine: what it was told, and how often it refuses first."""

    def __init__(self) -> None:
        self.told: queue.Queue[dict[str, Any]] = queue.Queue()
        self.refusals = 0
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.refusals -= 1
                hook.told.put({**body, "path": self.path})
                self.send_response(503 if hook.refusals >= 0 else 204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/secret-token"


@pytest.fixture
def hook() -> Iterator[Hook]:
    found = Hook()
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def watch(*texts: str) -> Watch:
    return Watch(GOAL, rules(texts), 0.0)


def test_nan_is_told_once_for_a_trial() -> None:
    seen = watch("loss is nan")
    assert seen.points(0, [("loss", 1, 0, 0.5)], 1.0) == []
    (alert,) = seen.points(0, [("loss", 2, 0, float("nan"))], 2.0)
    assert alert["words"] == "t0000: loss is nan at step 2"
    assert seen.points(0, [("loss", 3, 0, float("inf"))], 3.0) == []
    assert len(seen.points(1, [("loss", 3, 0, float("inf"))], 3.0)) == 1


def test_no_improvement_counts_from_the_best_step() -> None:
    seen = watch("no improvement in 3 steps")
    values = [0.5, 0.4, 0.45, 0.44, 0.43]
    found = [seen.points(0, [("loss", step, 0, value)], step) for step, value in enumerate(values, 1)]
    assert [len(one) for one in found] == [0, 0, 0, 0, 1]
    assert found[-1][0]["words"] == "t0000: loss has not improved on 0.4 since step 2, now step 5"


def test_a_log_is_searched_line_by_line() -> None:
    (alert,) = watch('log ~ "out of .emory"').log(2, "fine\nCUDA out of memory here\nmore")
    assert alert["words"] == "t0002: its log says: CUDA out of memory here"


def test_a_stall_is_much_longer_than_any_wait_before() -> None:
    seen = watch()
    for at in (10.0, 20.0, 30.0):
        seen.points(0, [("loss", 1, 0, 0.5)], at)
    assert seen.stalled(125.0) == []
    assert seen.stalled(131.0)[0]["event"] == "stall"
    assert seen.stalled(200.0) == []
    seen.points(0, [("loss", 2, 0, 0.5)], 201.0)
    seen.busy(2000.0)
    assert seen.stalled(2001.0) == []


@pytest.mark.parametrize("text", ["loss", "no improvement", "log ~ (", "loss > 3", ""])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="--alert"):
        rules([text])


@pytest.mark.parametrize("url", ["ftp://x/y", "example.org", "http://"])
def test_what_is_no_webhook_is_refused(url: str) -> None:
    with pytest.raises(BadOption, match="is not a webhook"):
        notify.checked(url, None)


def test_a_digest_says_what_was_best_and_what_to_do_next() -> None:
    facts = {"counts": {"completed": 3, "stopped": 6}, "retries": 2, "seconds": 61.0}
    message = digest("digits@1", GOAL, "completed", "all", Best(4, 0.125), facts)
    assert message["words"] == (
        "digits@1 completed: 9 trials (3 completed, 6 stopped), 2 retries, 61 s; best loss 0.125 by t0004"
    )
    assert "workbench extend digits@1" in message["next"]
    several = digest("digits@1", GOAL, "completed", "all", Best(4, 0.125, Spread(0.25, 0.0123, 3)), facts)
    assert several["words"].endswith("best loss 0.125, mean 0.25 ± 0.012 of 3 trials by t0004")
    assert several["best"]["of"] == {"mean": 0.25, "deviation": 0.0123, "trials": 3}
    assert digest("d@1", GOAL, "failed", "why", None, facts)["event"] == "fail"


def test_a_webhook_is_tried_thrice_and_never_shown(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "BETWEEN_S", (0.01, 0.01))
    answers: queue.Queue[tuple[str, str | None]] = queue.Queue()
    kept, messenger = notify.checked(hook.url, None), notify.Messenger()
    hook.refusals = 2
    messenger.tell(kept, {"event": "end", "words": "done"}, lambda *one: answers.put(one))
    assert answers.get(timeout=20) == ("http://127.0.0.1/…", None)
    assert hook.told.qsize() == 3
    hook.refusals = 3
    messenger.tell(kept, {"event": "end", "words": "done"}, lambda *one: answers.put(one))
    whom, error = answers.get(timeout=20)
    assert "503" in str(error)
    assert "secret-token" not in whom + str(error)
    assert notify.masked(f"%%train d --notify {hook.url}", kept) == "%%train d --notify http://127.0.0.1/…"


def test_a_command_hears_one_thing_after_the_other(tmp_path: Path) -> None:
    out = tmp_path / "told"
    program = f"import os, sys; open({str(out)!r}, 'a').write(os.environ['WORKBENCH_WORDS'])"
    kept, messenger = notify.checked(None, f'{sys.executable} -c "{program}"'), notify.Messenger()
    done: queue.Queue[str | None] = queue.Queue()
    for word in "abcdef":
        messenger.tell(kept, {"event": "rule", "words": word}, lambda _, error: done.put(error))
    assert [done.get(timeout=20) for _ in "abcdef"] == [None] * 6
    assert out.read_text() == "abcdef"


def test_what_no_variable_can_hold_is_replaced(hook: Hook, tmp_path: Path) -> None:
    out, done = tmp_path / "told", queue.Queue[str | None]()
    program = f"import os, sys; open({str(out)!r}, 'a').write(os.environ['WORKBENCH_WORDS'] + sys.stdin.read())"
    kept, messenger = notify.checked(hook.url, f'{sys.executable} -c "{program}"'), notify.Messenger()
    (alert,) = watch("log ~ memory").log(2, "fine\nout of \0memory\n")
    for word in (alert["words"], "more"):
        messenger.tell(kept, {"event": "rule", "words": word}, lambda _, error: done.put(error))
    assert [done.get(timeout=20) for _ in range(4)] == [None] * 4
    told, *_ = out.read_text().partition("{")
    assert told == hook.told.get(timeout=20)["words"] == "t0002: its log says: out of \ufffdmemory"


@pytest.mark.parametrize("command", ["my-notify 'unclosed", " ", "my-\0notify"])
def test_a_command_that_cannot_be_started_is_told_and_holds_up_nothing(command: str) -> None:
    done: queue.Queue[str | None] = queue.Queue()
    messenger = notify.Messenger()
    for _ in range(2):  # as a file may have it that was edited by hand
        messenger.tell({"command": command}, {"event": "rule", "words": "x"}, lambda _, error: done.put(error))
    assert all(done.get(timeout=20) for _ in range(2))


def test_who_refused_thrice_is_tried_once_until_it_takes_something(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "BETWEEN_S", (0.01, 0.01))
    kept, messenger = notify.checked(hook.url, None), notify.Messenger()
    errors: queue.Queue[str | None] = queue.Queue()
    hook.refusals = 5
    for _ in range(4):
        messenger.tell(kept, {"event": "rule", "words": "more"}, lambda _, error: errors.put(error))
    assert [errors.get(timeout=20) is None for _ in range(4)] == [False, False, False, True]
    assert hook.told.qsize() == 3 + 1 + 1 + 1
    hook.refusals = 1
    messenger.tell(kept, {"event": "rule", "words": "more"}, lambda _, error: errors.put(error))
    assert errors.get(timeout=20) is None  # it is tried again, as before its failure


def test_a_search_tells_of_its_rules_and_of_its_end(hook: Hook, tmp_path: Path) -> None:
    store, out = Store(tmp_path / "store").create(), tmp_path / "told.json"
    program = f"import sys; open({str(out)!r}, 'a').write(sys.stdin.read() + chr(10))"
    notify.write(store, notify.checked(None, f'{sys.executable} -c "{program}"', ("end",)))
    spec = spec_of(
        CELL,
        tmp_path,
        space={"x": uniform(0.0, 1.0)},
        scheduler=Scheduler(kind="all", first=1, last=9),
        trials=1,
        verify=False,
        notify=notify.checked(hook.url, None),
        alerts=("loss is nan", "no improvement in 5 steps", 'log ~ "out of memory"'),
    )
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
        told = [hook.told.get(timeout=30) for _ in range(4)]
        while not out.exists() or not out.read_text().endswith("\n"):
            threading.Event().wait(0.02)
    assert {one["event"] for one in told} == {"rule", "end"}
    assert {one.get("rule") for one in told} == {None, *spec.alerts}
    (end,) = [one for one in told if one["event"] == "end"]
    assert end["words"].startswith("probe@1 completed: 1 trials (1 completed), 0 retries")
    assert json.loads(out.read_text())["words"] == end["words"]
    with Series.read(store.experiment(spec.id).series) as series:
        alerts = series.meta()["alerts"]
    assert {alert["rule"] for alert in alerts} == set(spec.alerts)
    assert len(lines(store, spec, "Alert")) == 3


def test_who_is_not_told_yet_when_the_engine_dies_is_told_by_the_next_and_nobody_twice(
    hook: Hook, tmp_path: Path
) -> None:
    store, out = Store(tmp_path / "store").create(), tmp_path / "told.json"
    program = f"import sys; open({str(out)!r}, 'a').write(sys.stdin.read() + chr(10))"
    notify.write(store, notify.checked(None, f'{sys.executable} -c "{program}"'))
    spec = spec_of(
        CELL,
        tmp_path,
        space={"x": uniform(0.0, 1.0)},
        scheduler=Scheduler(kind="all", first=1, last=3),
        trials=1,
        verify=False,
        notify=notify.checked(hook.url, None, ("end",)),
        alerts=("loss is nan",),
    )
    hook.refusals = 1000
    with engine(store) as process:
        start(store, spec)
        until(lambda: {line["event"] for line in lines(store, spec, "Notified")} == {"rule", "end"}, what="the command")
        first = hook.told.get(timeout=30)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert state(store, spec) == "completed"
    hook.refusals = 0
    while not hook.told.empty():
        hook.told.get()
    with engine(store):
        again = hook.told.get(timeout=30)
        assert {**again, "seconds": None, "words": None} == {**first, "seconds": None, "words": None}
        until(lambda: len(lines(store, spec, "Notified")) == 3, what="the word that it was told")
    assert first["id"] == f"{spec.id}-2"
    with engine(store):
        ask(store, asked.Ping())
    assert hook.told.empty()
    assert [json.loads(line)["event"] for line in out.read_text().splitlines()] == ["rule", "end"]
    assert {(line["way"], line["event"], line["error"]) for line in lines(store, spec, "Notified")} == {
        ("store's command", "rule", None),
        ("store's command", "end", None),
        ("experiment's webhook", "end", None),
    }


def test_an_engine_that_begins_again_knows_when_a_trial_has_improved(tmp_path: Path) -> None:
    """After its second step the trial never improves on it, though each later value is better than the one before. Its
    steps take long enough for a kill between them."""
    store = Store(tmp_path / "store").create()
    spec = spec_of(
        """
import time
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    time.sleep(0.1)
    trial.report(score=0.9 if epoch == 1 else epoch / 1000)
""",
        tmp_path,
        space={"x": uniform(0.0, 1.0)},
        scheduler=Scheduler(kind="all", first=1, last=40),
        trials=1,
        verify=False,
        alerts=("no improvement in 30 steps",),
    )

    def steps() -> int:
        path = store.experiment(spec.id).series
        if not path.exists():
            return 0
        with Series.read(path) as series:
            return len(series.points(names=["score"]))

    with engine(store) as process:
        start(store, spec)
        until(lambda: steps() > 15, what="step 16")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with engine(store):
            assert ended(store, spec) == "completed"
    assert [line["words"] for line in lines(store, spec, "Alert")] == [
        "t0000: score has not improved on 0.9 since step 2, now step 32"
    ]

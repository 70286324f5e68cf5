"""Watching ends with the experiment, says its outcome by exit code, and leaves it alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading

import pytest
from cli.stored import Answering, Typed, Written, until

from workbench.cli.commands import watch


@pytest.mark.parametrize(("state", "code"), [("completed", 0), ("failed", 1), ("stopped", 6)])
def test_the_exit_code_is_the_outcome(written: Written, type_: Typed, state: str, code: int) -> None:
    written.experiment(state=state, reason="27 trials ended")
    found = type_("watch", "digits")
    assert found.code == code
    assert found.out == (
        f"digits@1 {state}: 27 trials ended; best val_acc 0.975 (t0001); 1 failed. "
        "`workbench best digits@1` shows it.\n"
    )


def test_a_reason_that_names_the_best_is_not_repeated(written: Written, type_: Typed) -> None:
    written.experiment(reason="3 trials; best val_acc 0.975 by t0001 at step 3")
    assert type_("watch", "digits").out == (
        "digits@1 completed: 3 trials; best val_acc 0.975 by t0001 at step 3; 1 failed. "
        "`workbench best digits@1` shows it.\n"
    )


def test_it_follows_until_the_end(
    written: Written, type_: Typed, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LOOK_S", 0.01)
    spec = written.experiment(state="running", reason="training")
    written.set(spec, seconds_left=150.0)
    steps = iter(
        [
            {"best": {"trial": 0, "value": 0.99}, "counts": {"running": 1, "completed": 2}},
            {"counts": {"setting up": 2, "completed": 2}},
            {"state": "completed", "reason": "all done", "counts": {"completed": 3}},
        ]
    )
    tell = watch._Lines.tell

    def told(self: watch._Lines, experiment: watch.Experiment) -> None:
        tell(self, experiment)
        if (step := next(steps, None)) is not None:
            written.set(spec, **step)

    monkeypatch.setattr(watch._Lines, "tell", told)
    found = type_("watch", "digits")
    assert found.code == 0
    assert found.out.splitlines() == [
        "digits@1  running  1 of 49 trials ended  best val_acc 0.975 (t0001)  about 2 min left",
        "digits@1  running  2 of 49 trials ended  best val_acc 0.99 (t0000)  about 2 min left",
        "digits@1  running  2 of 49 trials ended  2 trials setting up  best val_acc 0.99 (t0000)  about 2 min left",
        "digits@1 completed: all done; best val_acc 0.99 (t0000). `workbench best digits@1` shows it.",
    ]


def test_as_json_it_is_one_object_a_line(written: Written, type_: Typed) -> None:
    written.experiment(state="failed", reason="no trial got as far as a first report")
    found = type_("watch", "digits", "--json")
    assert found.code == 1
    assert [json.loads(line)["state"] for line in found.out.splitlines()] == ["failed"]


def test_without_an_engine_it_does_not_wait_for_ever(
    written: Written, type_: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "GONE_S", 0.05)
    monkeypatch.setattr(watch, "LOOK_S", 0.01)
    written.experiment(state="running", reason="training")
    found = type_("watch", "digits")
    assert found.code == 4
    assert "workbench engine start" in found.err


def test_a_store_that_is_removed_meanwhile_is_said_to_be_gone(
    written: Written, type_: Typed, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It looks at once: between two looks the store is removed.
    monkeypatch.setattr(watch, "LOOK_S", 0.01)
    monkeypatch.setattr(watch, "ENGINE_S", 0.0)
    monkeypatch.setattr(watch, "GONE_S", 0.05)
    written.experiment(state="running", reason="training")
    root = written.store.root
    tell = watch._Lines.tell

    def told(self: watch._Lines, experiment: watch.Experiment) -> None:
        tell(self, experiment)
        if root.exists():
            root.rename(root.with_name("trash"))

    monkeypatch.setattr(watch._Lines, "tell", told)
    found = type_("watch", "digits")
    assert found.code == 3
    assert found.err.startswith(f"digits@1 is gone: it was deleted, or {root} was removed or moved.")


def test_ctrl_c_leaves_the_experiment_running_and_says_so(written: Written, answering: Answering) -> None:
    written.experiment(state="running", reason="training")
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench", "--store", str(written.store.root), "watch", "digits"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("digits@1  running")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err == "stopped watching; digits@1 continues. `workbench stop digits@1` ends it.\n"
    assert "Traceback" not in out
    assert not answering.asked


def test_in_a_terminal_there_is_a_progress_bar(written: Written, answering: Answering) -> None:
    import os
    import pty

    spec = written.experiment(state="running", reason="training")
    main, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench", "--store", str(written.store.root), "watch", "digits"],
        stdout=side,
        stderr=side,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(side)
    seen = bytearray()

    def read() -> None:
        while True:
            try:
                data = os.read(main, 4096)
            except OSError:
                return
            if not data:
                return
            seen.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        until(lambda: b"1/49" in seen)
        written.set(spec, state="completed", reason="all done")
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        reader.join()
        os.close(main)
    assert b"best val_acc 0.975 (t0001)" in seen
    assert b"completed: all done" in seen
    assert b"\x1b" in seen

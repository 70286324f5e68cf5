"""A trial's output as it was printed: with older parts, the last lines, and what is still to come."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cli.stored import Answering, Typed, Written

from workbench.cli.commands import logs
from workbench.cluster.workers.log import LogWriter


def test_the_whole_log_with_its_older_parts(written: Written, type_: Typed) -> None:
    spec = written.experiment()
    written.log(spec, 0, "five\n\x1b[32msix\x1b[0m\n")
    written.log(spec, 0, "three\nfour\n", part=1)
    written.log(spec, 0, "one\ntwo\n", part=2)
    assert type_("logs", "digits/t0000").out == "one\ntwo\nthree\nfour\nfive\n\x1b[32msix\x1b[0m\n"
    assert type_("logs", "digits/t0000", "--tail", "1").out == "\x1b[32msix\x1b[0m\n"
    assert type_("logs", "digits/t0000", "-n", "5").out.startswith("two\nthree\nfour\nfive\n")
    assert type_("logs", "digits/t0000", "-n", "0").out == ""
    assert type_("logs", "digits/t0000", "-n", "99").out.startswith("one\n")


@pytest.mark.timeout(10)
def test_an_older_part_that_is_a_pipe_is_not_waited_for(written: Written, type_: Typed) -> None:
    spec = written.experiment()
    written.log(spec, 0, "two\n")
    os.mkfifo(Path(f"{written.store.experiment(spec.id).trial(0).log}.1"))
    assert type_("logs", "digits/t0000").out == "two\n"
    assert type_("logs", "digits/t0000", "-n", "5").out == "two\n"


def test_a_trial_that_printed_nothing(written: Written, type_: Typed) -> None:
    written.experiment()
    found = type_("logs", "digits/t0001")
    assert found.code == 3
    assert "(completed) has printed nothing: " in found.err


def test_following_ends_with_the_trial(
    written: Written, type_: Typed, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = written.experiment(state="running", reason="training")
    path = written.log(spec, 0, "one\n")
    monkeypatch.setattr(logs, "LOOK_S", 0.01)

    def add(text: str) -> None:
        with path.open("a") as file:
            file.write(text)

    steps: list[Callable[[], object]] = [
        lambda: add("two\nthr"),
        lambda: add("ee\n"),
        lambda: written.set(spec, state="stopped"),
    ]
    going = logs._is_going

    def look(experiment: logs.Experiment, trial: int) -> bool:
        if steps:
            steps.pop(0)()
        experiment.look()
        return going(experiment, trial)

    monkeypatch.setattr(logs, "_is_going", look)
    assert type_("logs", "digits/t0000", "--follow").out == "one\ntwo\nthree\n"
    assert not steps


def test_a_line_that_is_redrawn_is_printed_once(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    writer = LogWriter(path)
    with closing(logs._Follower(path)) as follower:
        writer.feed(b"start\n 10%")
        writer.show()
        assert follower.more() == b"start\n"
        writer.feed(b"\r 90%")
        writer.show()
        assert follower.more() == b""
        writer.feed(b"\r100%\n")
        assert follower.more() == b"100%\n"
        writer.feed(b"last")
        writer.close()
        assert follower.more() + follower.rest() == b"last\n"


def test_a_rotated_log_is_followed_without_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.cluster.workers.log.ROTATE_BYTES", 20)
    path = tmp_path / "log.txt"
    writer = LogWriter(path)
    seen = b""
    with closing(logs._Follower(path)) as follower:
        for number in range(12):
            writer.feed(b"line %d\n" % number)
            seen += follower.more()
    writer.close()
    assert seen == b"".join(b"line %d\n" % number for number in range(12))

"""A trial's log: redraws keep their last line, nothing else is lost, and it is rotated."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.cluster.workers import log as log_module
from workbench.cluster.workers.log import LogWriter

CASES = [
    ([b"a\nb\n"], "a\nb\n"),
    ([b"half", b" a line\n"], "half a line\n"),
    ([b"  0%\r 50%\r100%\n"], "100%\n"),
    ([b"  0%\r", b" 50%\r", b"100%", b"\n"], "100%\n"),
    ([b"windows\r\nline\r\n"], "windows\nline\n"),
    ([b"windows\r", b"\nline\n"], "windows\nline\n"),
    ([b"done 100%\r\n"], "done 100%\n"),
    ([b"no newline at the end"], "no newline at the end\n"),
    ([b"bar 1\rbar 2\rbar 3"], "bar 3\n"),
    ([b"bar\r", b"print between\n"], "print between\n"),
    ([b"\n\n"], "\n\n"),
    ([b"longer redraw\rshort\n"], "short\n"),
    ([b""], ""),
]


@pytest.mark.parametrize(("pieces", "wanted"), CASES)
@pytest.mark.parametrize("shown", [False, True])
def test_what_is_printed_is_kept_line_by_line(tmp_path: Path, pieces: list[bytes], wanted: str, shown: bool) -> None:
    writer = LogWriter(tmp_path / "t" / "log.txt")
    for piece in pieces:
        writer.feed(piece)
        if shown:
            writer.show()
    writer.close()
    # Where nothing was printed there is neither a file nor a folder.
    assert [path.read_bytes().decode() for path in tmp_path.rglob("*.txt")] == ([wanted] if wanted else [])
    assert (tmp_path / "t").exists() == bool(wanted)


def test_an_unfinished_line_is_shown_and_then_replaced(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log.txt")
    writer.feed(b"first\n 50%|#####     | 5/10")
    writer.show()
    assert (tmp_path / "log.txt").read_text() == "first\n 50%|#####     | 5/10"
    writer.feed(b"\r100%\n")
    assert (tmp_path / "log.txt").read_text() == "first\n100%\n"


def test_a_second_attempt_goes_on_below_the_first(tmp_path: Path) -> None:
    for word in (b"one\n", b"two\n"):
        writer = LogWriter(tmp_path / "log.txt")
        writer.feed(word)
        writer.close()
    assert (tmp_path / "log.txt").read_text() == "one\ntwo\n"


def test_a_long_log_is_rotated_and_its_newest_lines_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "ROTATE_BYTES", 1000)
    writer = LogWriter(tmp_path / "log.txt")
    for number in range(1000):
        writer.feed(b"line %04d\n" % number)
    writer.close()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["log.txt", "log.txt.1", "log.txt.2", "log.txt.3"]
    kept = "".join((tmp_path / name).read_text() for name in ["log.txt.3", "log.txt.2", "log.txt.1", "log.txt"])
    lines = kept.splitlines()
    assert lines[-1] == "line 0999"
    assert lines == [f"line {number:04d}" for number in range(1000 - len(lines), 1000)]


def test_a_log_that_could_not_be_rotated_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "ROTATE_BYTES", 100)
    writer = LogWriter(tmp_path / "log.txt")
    (tmp_path / "log.txt.2").write_text("older\n")
    in_the_way = tmp_path / "log.txt.3"
    in_the_way.mkdir()
    for number in range(30):
        writer.feed(b"line %04d\n" % number)
    in_the_way.rmdir()
    writer.feed(b"the last\n")
    writer.close()
    assert (tmp_path / "log.txt").read_text() == "the last\n"
    assert (tmp_path / "log.txt.1").read_text().startswith("line 0000\nline 0001\n")


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log.txt")
    for _ in range(100):
        writer.feed(b"x" * 10_000)
    assert len(writer._line) <= log_module.LONGEST_LINE + 10_000
    writer.close()
    assert (tmp_path / "log.txt").read_text().replace("\n", "") == "x" * 1_000_000


def test_a_head_comes_before_what_is_printed_and_alone_it_makes_no_file(tmp_path: Path) -> None:
    for attempt, text in ((1, b"one\n"), (2, b""), (3, b"three\n")):
        writer = LogWriter(tmp_path / "log.txt", b"[attempt %d]\n" % attempt)
        writer.feed(text)
        writer.close()
    assert (tmp_path / "log.txt").read_text() == "[attempt 1]\none\n[attempt 3]\nthree\n"
    LogWriter(tmp_path / "other.txt", b"[attempt 1]\n").close()
    assert not (tmp_path / "other.txt").exists()

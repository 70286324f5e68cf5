"""A file that the loop opens for writing and keeps open holds what an undisturbed run writes."""

import pytest
from trial.world import said

from workbench.trial.export.loading import load
from workbench.trial.looking import written

#: What opens the file in the first step, and what each step writes.
FILES = {
    "text": ("log = open(FILE, 'w')", "print(epoch, file=log); assert log.tell() == 2 * epoch + 2"),
    "text with other options": (
        "log = open(FILE, 'w', encoding='utf-16', errors='replace', buffering=1)",
        "print(epoch, file=log)",
    ),
    "lines that end as on Windows": (r"log = open(FILE, 'w', newline='\r\n')", "print(epoch, file=log)"),
    "lines that end with a return": (r"log = open(FILE, 'w', newline='\r')", "print(epoch, file=log)"),
    "lines that end as they are written": (
        "log = open(FILE, 'w', newline='')",
        r"log.write(f'{epoch}\r\n' if epoch % 2 else f'{epoch}\n')",
    ),
    "text that does not wait in memory": (
        "log = open(FILE, 'w'); log.reconfigure(write_through=True)",
        "assert log.write_through; print(epoch, file=log)",
    ),
    "bytes": ("log = open(FILE, 'wb'); same = log", "log.write(b'%d\\n' % epoch); assert log is same"),
    "bytes without a buffer": ("log = open(FILE, 'wb', buffering=0)", "log.write(b'%d\\n' % epoch)"),
    "a file that goes on": ("log = open(FILE, 'a')", "print(epoch, file=log)"),
    "one that is written again": (
        "log = open(FILE, 'w')",
        "log.seek(0); log.truncate(); log.write('1' * (9 - epoch)); log.flush()",
    ),
    "rows": (
        "file = open(FILE, 'w', newline=''); log = csv.writer(file, delimiter=';')",
        "log.writerow([epoch, 'a;'])",
    ),
    "rows with a head, in an object": (
        "log = Log(FILE)",
        "log.rows.writerow({'step': epoch}); log.file.flush()",
    ),
}
SOURCE = """
import csv, os
class Log:
    def __init__(self, name):
        self.file = open(name, "w", newline="")
        self.rows = csv.DictWriter(self.file, ["step"]); self.rows.writeheader()
FILE, log = PLACE, None
for epoch in trial.steps():
    if log is None:
        OPENS
    STEP
    if epoch == 2 and os.path.exists("kill"):
        log = None; os.remove("kill"); os.kill(os.getpid(), 9)
    trial.report(score=epoch)
"""


def source_of(name, place="'log.txt'"):
    opens, step = FILES[name]
    return SOURCE.replace("PLACE", place).replace("OPENS", opens).replace("STEP", step)


def trained(server, cell, *legs):
    named = []
    for start, end, changes in legs:
        runner = server.runner()
        told = runner.leg(cell.order(end, start=start, **changes))
        runner.kill()
        if told[-1]["op"] == "left":
            assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
            named += said(told, "begun")[0]["found"].get("inexact", [])
    return named


@pytest.mark.parametrize("name", FILES)
def test_promoted_and_killed_it_is_that_of_an_undisturbed_trial(server, experiment, tmp_path, name):
    file = tmp_path / "log.txt"
    trained(server, experiment(source_of(name)), (0, 4, {}))
    expected = file.read_bytes()
    file.unlink()
    cell = experiment(source_of(name))
    trained(server, cell, (0, 1, {}), (1, 2, {}))
    (tmp_path / "kill").touch()
    named = trained(server, cell, (2, 4, {}), (2, 3, {}), (3, 4, {}))
    assert not (tmp_path / "kill").exists()
    if name == "a file that goes on":  # the trial may not be the only one that writes it
        assert file.read_text().split() == ["0", "1", "2", "2", "3"]
    else:
        assert file.read_bytes() == expected
    assert named == []


def test_a_trial_that_is_only_loaded_leaves_it_as_it_is(server, experiment, tmp_path, monkeypatch):
    cell = experiment(source_of("text"))
    trained(server, cell, (0, 2, {}), (2, 4, {}))
    monkeypatch.chdir(tmp_path)
    with load(cell.store, cell.spec, 0, {}, 2).log as log:
        log.write("loaded")
    assert (tmp_path / "log.txt").read_text() == "0\n1\n2\n3\n"


def test_a_fork_writes_into_its_own_folder(server, experiment, tmp_path):
    source = source_of("bytes", "str(trial.folder / 'log.txt')")
    parent = experiment(source)
    trained(server, parent, (0, 2, {}))
    child = experiment(source, parent={"experiment": parent.spec.id, "trial": 0, "step": 2, "configuration": {}})
    trained(server, child, (2, 4, {"resume": False}))
    written = {one.read_text() for one in tmp_path.rglob("log.txt")}
    assert written == {"0\n1\n", "2\n3\n"}


def test_rows_that_a_writer_of_the_set_up_writes_are_not_named(server, experiment, tmp_path):
    cell = experiment(
        "import csv; log = csv.DictWriter(open('log.csv', 'w', newline=''), ['step']); log.writeheader()\n"
        "for epoch in trial.steps(): log.writerow({'step': epoch}); trial.report(score=epoch)\n"
    )
    assert trained(server, cell, (0, 1, {}), (1, 2, {}), (2, 4, {})) == []
    assert (tmp_path / "log.csv").read_text().split() == ["step", "0", "1", "2", "3"]


#: What opens a file that cannot be gone on with; the name that the loop gives it, and a part of the reason, if one is.
OTHERS = {
    "rows of a file that is read too": ("log = csv.writer(open(FILE, 'w+', newline=''))", "log", "cannot be pickled"),
    "rows at the end of one": ("log = csv.writer(open(FILE, 'a+', newline=''))", "log", "cannot be pickled"),
    "rows in one that is there": (
        "open(FILE, 'w').close(); log = csv.writer(open(FILE, 'r+', newline=''))",
        "log",
        "cannot be pickled",
    ),
    "compressed rows": ("log = csv.writer(gzip.open(FILE, 'wt', newline=''))", "log", "cannot be pickled"),
    "rows of a temporary file": (
        "log = csv.writer(tempfile.NamedTemporaryFile('w', newline=''))",
        "log",
        "cannot be pickled",
    ),
    "rows that a function gets": ("log = csv.writer(Own())", "log", "cannot be pickled"),
    "rows that are printed": ("log = csv.writer(sys.stdout)", "log", "cannot be pickled"),
    "compressed text": ("log = gzip.open(FILE, 'wt')", "log", "compressed"),
    "compressed bytes with a buffer": (
        "log = io.TextIOWrapper(io.BufferedWriter(gzip.open(FILE, 'wb')))",
        "log",
        "compressed",
    ),
    "the output": ("log = open('/dev/stdout', 'w')", None, ""),
    "a pipe": (
        "os.path.exists(FILE) or os.mkfifo(FILE); reader = os.open(FILE, os.O_RDWR); log = open(FILE, 'w')",
        None,
        "",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_cannot_go_on_is_named_as_what_it_is(server, experiment, name):
    opens, named, reason = OTHERS[name]
    found = trained(
        server,
        experiment(
            "import csv, gzip, io, os, sys, tempfile\n"
            "class Own:\n    write = lambda self, text: None\n"
            "FILE, log = 'log.txt', None\n"
            "for epoch in trial.steps():\n"
            f"    if log is None:\n        {opens}\n"
            "    if hasattr(log, 'writerow'): log.writerow([epoch])\n"
            "    else: log.write('x')\n"
            "    trial.report(score=epoch)\n"
        ),
        (0, 2, {}),
        (2, 3, {}),
    )
    assert [one["name"] for one in found if one["name"] == "log"] == ([named] if named else [])
    assert all(reason in one["reason"] and "AttributeError" not in one["reason"] for one in found), found


def test_rows_in_memory_go_on(server, experiment, tmp_path):
    cell = experiment(
        "import csv, io\nlog = None\n"
        "for epoch in trial.steps():\n"
        "    if log is None: rows = io.StringIO(); log = csv.writer(rows)\n"
        "    log.writerow([epoch]); trial.report(score=len(rows.getvalue().split()))\n"
        "    open('rows.txt', 'w').write(rows.getvalue())\n"
    )
    assert trained(server, cell, (0, 2, {}), (2, 4, {})) == []
    assert (tmp_path / "rows.txt").read_text().split() == ["0", "1", "2", "3"]


@pytest.mark.parametrize("name", ["text with other options", "a file that goes on", "bytes without a buffer"])
def test_a_file_that_is_gone_at_the_resume_is_named(server, experiment, tmp_path, name):
    cell = experiment(source_of(name))
    trained(server, cell, (0, 2, {}))
    (tmp_path / "log.txt").unlink()
    named = trained(server, cell, (2, 3, {}))
    assert named == [{"name": "log.txt", "reason": written.LACKING}]
    assert trained(server, cell, (3, 4, {})) == named  # it is still lacking
    encoding = "utf-16" if name == "text with other options" else None
    assert (tmp_path / "log.txt").read_text(encoding) == "2\n3\n"


def test_a_file_that_is_shorter_at_the_resume_is_named(server, experiment, tmp_path):
    cell = experiment(source_of("bytes without a buffer"))
    trained(server, cell, (0, 2, {}))
    (tmp_path / "log.txt").write_text("0\n")
    assert trained(server, cell, (2, 3, {})) == [{"name": "log.txt", "reason": written.LACKING}]

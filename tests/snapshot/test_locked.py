"""Reading a file releases no lock that this process has on it."""

import fcntl
import os
import sqlite3
import subprocess
import sys
import threading

import pytest

from workbench.snapshot.modules import copied, copy_code, project_modules
from workbench.snapshot.surroundings import locked
from workbench.snapshot.surroundings.data import content_of_folder, describe, named_files


def elsewhere(code: str, path) -> str:
    """What ``code`` prints in another process."""
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.strip()


def rows_elsewhere(path) -> int:
    """The rows that another process finds in a database, which it closes again."""
    code = "import sqlite3, sys\nopen_ = sqlite3.connect(sys.argv[1])\n"
    code += "print(open_.execute('select count(*) from t').fetchone()[0])\nopen_.close()"
    return int(elsewhere(code, path))


def can_lock_elsewhere(path) -> bool:
    code = "import fcntl, sys\ntry:\n    fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    return elsewhere(f"{code}    print(True)\nexcept OSError:\n    print(False)", path) == "True"


@pytest.fixture
def database(tmp_path):
    """A database with one row, open here with a log."""
    open_ = sqlite3.connect(tmp_path / "a.db")
    open_.execute("pragma journal_mode=wal")
    open_.execute("create table t(x)")
    open_.execute("insert into t values(1)")
    open_.commit()
    yield open_
    open_.close()


def opened(path) -> int:
    """How many descriptors of a file this process has."""
    links = (f"/proc/self/fd/{one}" for one in os.listdir("/proc/self/fd"))
    return sum(os.path.exists(one) and os.path.samefile(path, one) for one in links)


def package_of(folder):
    (folder / "__init__.py").write_text("")
    return project_modules([folder.name])


READS = {
    "a file that the notebook names": lambda folder: named_files(["'a.db'"], folder),
    "a file": lambda folder: describe(folder / "a.db"),
    "a folder's content": content_of_folder,
    "the digest of a package": lambda folder: copied(package_of(folder)),
    "the copy of a package": lambda folder: copy_code(package_of(folder), folder.parent / "copy"),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_database_that_is_open_here_loses_no_row(read, database, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path.parent)  # one of the reads imports the folder as a package
    for count in (2, 3):
        read(tmp_path)
        assert rows_elsewhere(tmp_path / "a.db") == count - 1
        database.execute("insert into t values(1)")
        database.commit()
        assert rows_elsewhere(tmp_path / "a.db") == count


def test_a_locked_file_stays_open_once_and_until_it_is_not_locked(tmp_path):
    path, other = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_text("1")
    other.write_text("1")
    with open(path, "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        for text in ("12", "123"):
            path.write_text(text)  # it closes a descriptor, so the lock is lost
            fcntl.lockf(file, fcntl.LOCK_EX)
            with locked.reading(path) as read:
                assert read.read() == text.encode()
        assert not can_lock_elsewhere(path)
        assert opened(path) == 2
    with locked.reading(other) as read:
        assert read.read() == b"1"
    assert opened(path) == 0
    assert can_lock_elsewhere(path)


def test_two_threads_read_a_locked_file_at_once(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("text")
    both, found = threading.Barrier(2, timeout=30), []

    def read():
        for _ in range(3):
            with locked.reading(path) as file:
                both.wait()
                found.append(file.read())

    with open(path, "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not can_lock_elsewhere(path)
    assert found == [b"text"] * 6

"""Who launched an experiment, where, and the state of its git repository."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from workbench.snapshot.surroundings.launched import again, git, launched


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git answers in milliseconds, but for a busy machine."""
    monkeypatch.setattr("workbench.snapshot.surroundings.launched.GIT_S", 60.0)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository on the branch ``trunk`` with one file and no commit."""
    folder = tmp_path / "project"
    folder.mkdir()
    run(folder, "init", "-q", "-b", "trunk")
    (folder / "model.py").write_text("width = 1\n")
    run(folder, "add", "model.py")
    return folder


def run(folder: Path, *words: str) -> str:
    person = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    return subprocess.run(
        ["git", "-C", str(folder), *person, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_without_a_repository_there_is_no_git(tmp_path: Path) -> None:
    assert launched(tmp_path)["git"] is None


def test_without_git_there_is_no_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))
    assert git(repository) is None


def test_before_the_first_commit(repository: Path) -> None:
    assert git(repository) == {"commit": None, "branch": "trunk", "remote": None, "changed": 1}


def test_a_commit_its_branch_and_what_was_changed_since(repository: Path) -> None:
    run(repository, "commit", "-qm", "first")
    commit = run(repository, "rev-parse", "HEAD")
    (repository / "notes.txt").write_text("not tracked")
    (repository / "deeper").mkdir()
    assert git(repository / "deeper") == {"commit": commit, "branch": "trunk", "remote": None, "changed": 0}
    (repository / "model.py").write_text("width = 2\n")
    assert (git(repository) or {})["changed"] == 1
    run(repository, "checkout", "-q", "--detach")
    assert (git(repository) or {})["branch"] is None


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("https://ada:secret@example.org/a/b.git", "https://example.org/a/b.git"),
        ("https://token@example.org/a/b.git", "https://example.org/a/b.git"),
        ("git@example.org:a/b.git", "git@example.org:a/b.git"),
    ],
)
def test_the_remote_is_kept_without_passwords(repository: Path, written: str, kept: str) -> None:
    run(repository, "remote", "add", "origin", written)
    assert (git(repository) or {})["remote"] == kept


def test_a_program_that_the_repository_names_is_not_started(repository: Path, tmp_path: Path) -> None:
    run(repository, "config", "core.fsmonitor", f"touch {tmp_path / 'started'}; false")
    assert git(repository) is not None
    assert not (tmp_path / "started").exists()


def test_who_and_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_USER", "ada")
    found = launched(tmp_path)
    assert (found["account"], found["host"]) == ("ada", os.uname().nodename)
    monkeypatch.setenv("JUPYTERHUB_USER", "grace")
    assert again({**found, "git": {"commit": "1"}}) == {**found, "account": "grace", "git": {"commit": "1"}}
    assert again(None)["git"] is None

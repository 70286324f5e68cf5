"""Paths below a folder that another person has filled: nothing beside the folder is read."""

from __future__ import annotations

import os
import socket
from pathlib import Path, PurePath

import pytest

from workbench.store.files.atomic import NoFile
from workbench.store.files.below import is_plain_below, open_below


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret.txt").write_text("secret")
    root = tmp_path / "store"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file.txt").write_text("own")
    (root / "link").symlink_to(tmp_path / "out")
    (root / "a" / "link.txt").symlink_to(tmp_path / "out" / "secret.txt")
    os.mkfifo(root / "a" / "pipe")
    return root


def test_a_file_is_read_even_if_the_root_is_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(root)
    for place in (root, tmp_path / "other"):
        with open_below(place, PurePath("a/b/file.txt")) as file:
            assert file.read() == b"own"
        assert is_plain_below(place, place / "a" / "b")


@pytest.mark.parametrize("path", ["link/secret.txt", "a/link.txt", "a/pipe", "a/socket", "a", ".", "../out/secret.txt"])
def test_links_pipes_folders_and_ways_out_are_refused(root: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "a")  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    with pytest.raises(NoFile):
        open_below(root, PurePath(path))
    with pytest.raises(NoFile):
        open_below(root, root / "a" / "b" / "file.txt")


def test_a_missing_file_is_told_as_such(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_below(root, PurePath("a/nothing.txt"))


@pytest.mark.parametrize("path", ["link", "nothing", "a/b/file.txt", "a/../a", "../out"])
def test_only_plain_folders_within_it_are_plain(root: Path, path: str) -> None:
    assert not is_plain_below(root, root / path)

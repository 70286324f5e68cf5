"""What a checkpoint looks at beside the names of the training code costs little."""

import os
import tempfile

import pytest

from workbench.trial import inexact
from workbench.trial.classifier import Classifier
from workbench.trial.discovery import Survey
from workbench.trial.looking import of_process
from workbench.trial.namespace import roots


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory() as path:
        yield path


@pytest.fixture
def looked_at(monkeypatch):
    """The folders whose entries are listed from now on; they are still listed."""
    found, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: found.append(path) or scandir(path))
    return found


@pytest.mark.parametrize("is_held", [True, False])
def test_only_temporary_folders_that_the_code_holds_are_looked_at(looked_at, is_held):
    place = tempfile.TemporaryDirectory()
    main = {"path": place.name} if is_held else {}
    survey = Survey(Classifier(main), roots(main, [], ()))
    before = inexact.before(survey)
    open(f"{place.name}/one", "w").close()
    looked_at.clear()
    lost = inexact.lost(survey, before, lambda root, name: True, set, [])
    assert (place.name in looked_at, lost) == (is_held, [("path", of_process.FOLDER)] if is_held else [])
    place.cleanup()


def test_of_a_large_folder_what_came_or_went_is_seen(folder, monkeypatch):
    monkeypatch.setattr(of_process, "MOST", 3)  # a folder of a thousand files takes long
    place = tempfile.TemporaryDirectory(dir=folder)
    for number in range(5):
        open(f"{place.name}/{number}", "w").close()
    os.utime(place.name, (0, 0))  # the clock of files is coarse
    before = of_process.OfProcess.now()
    assert list(before.folders[place.name]) == ["."]
    assert not of_process.is_written(before, place.name)
    open(f"{place.name}/5", "w").close()
    assert of_process.is_written(before, place.name)
    for number in range(4):
        os.remove(f"{place.name}/{number}")
    assert of_process.is_written(before, place.name)  # it has few entries now
    place.cleanup()

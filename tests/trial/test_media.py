"""What `trial.log` makes of pictures, sounds, histograms, tables and texts; a killed trial has the same files."""

from __future__ import annotations

import io
import json
import wave
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image as pillow

import workbench as wb
from workbench.errors import BadInput
from workbench.trial.api.local import local_trial
from workbench.trial.media.keeping import Media


@pytest.fixture
def media(tmp_path):
    return Media(tmp_path / "files")


@pytest.fixture
def files(tmp_path):
    return tmp_path / "files"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def pixels(path: Path) -> np.ndarray:
    with pillow.open(path) as image:
        return np.asarray(image)


RAMP = np.arange(2 * 5 * 3).reshape(2, 5, 3)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.array([[0.0, 0.5], [1.0, 0.2]]), [[0, 128], [255, 51]]),
        (np.array([[0, 200]], np.uint8), [[0, 200]]),
        (np.array([[0, 200]]), [[0, 200]]),
        (np.array([[True, False]]), [[255, 0]]),
        (RAMP[..., :1].astype(np.uint8), RAMP[..., 0]),
        (RAMP.astype(np.uint8), RAMP),
        (np.moveaxis(RAMP, -1, 0).astype(np.uint8), RAMP),
        (np.dstack([RAMP, RAMP[..., 0]]).astype(np.uint8), np.dstack([RAMP, RAMP[..., 0]])),
        (torch.tensor(np.moveaxis(RAMP, -1, 0) / 255), RAMP),
        (torch.tensor(np.moveaxis(RAMP, -1, 0) / 255, dtype=torch.bfloat16).requires_grad_(), RAMP),
        (np.full((2, 2), 1.0005), np.full((2, 2), 255)),  # rounding is not worth a word
        (wb.Image(np.array([[-1.0, 1.0]]), low=-1, high=1), [[0, 255]]),
        (wb.Image(np.array([[3, 9]], np.uint8), low=3, high=9), [[0, 255]]),
        (np.array([[np.nan, np.inf, -np.inf]]), [[0, 255, 0]]),
    ],
)
def test_arrays_and_tensors_are_pictures(media, files, capsys, given, expected):
    assert media.keep(3, "sample", given)
    assert names(files) == ["sample-000003.png"]
    assert np.abs(pixels(files / "sample-000003.png").astype(int) - np.asarray(expected)).max() <= 1
    assert capsys.readouterr().out == ""


def test_a_shape_of_both_kinds_is_read_as_its_library_has_it(media, files):
    both = np.zeros((3, 5, 4), np.uint8)
    both[0] = 9
    media.keep(1, "numpy", both)
    media.keep(1, "torch", torch.tensor(both))
    assert pixels(files / "numpy-000001.png").shape == (3, 5, 4)
    assert pixels(files / "torch-000001.png").shape == (5, 4, 3)


def test_values_that_are_cut_are_named_once(media, capsys):
    for step in (1, 2):
        media.keep(step, "sample", np.array([[-2.0, 0.5, 3.0]]))
    assert capsys.readouterr().out == (
        "[workbench] trial.log(sample=…): values from -2 to 3 are cut to 0 to 1. To show all of them, log "
        "workbench.Image(sample, low=-2, high=3).\n"
    )


def test_a_list_is_several_pictures_with_their_captions_and_a_shorter_one_replaces_it(media, files):
    one = pillow.new("CMYK", (2, 2))
    media.keep(2, "val/seen", [wb.Image(np.eye(2), "a seven"), torch.eye(3), one])
    assert names(files) == ["val-seen-000002-1.png", "val-seen-000002-2.png", "val-seen-000002-3.png",
                            "val-seen-000002.captions.json"]  # fmt: skip
    assert json.loads((files / "val-seen-000002.captions.json").read_text()) == ["a seven", "", ""]
    media.keep(2, "val/seen", [np.eye(4)])
    assert names(files) == ["val-seen-000002-1.png"]
    assert pixels(files / "val-seen-000002-1.png").shape == (4, 4)


@pytest.mark.parametrize(
    ("given", "channels", "samples"),
    [
        (wb.Audio([0.0, 1.0, -1.0, 7.0, float("nan")], 8000), 1, [0, 32767, -32767, 32767, 0]),
        (wb.Audio(np.array([[1, 2], [3, 4], [5, 6]], np.int16), 8000), 2, [1, 2, 3, 4, 5, 6]),
        (wb.Audio(torch.tensor([[1, 3, 5], [2, 4, 6]], dtype=torch.int16), 8000), 2, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_arrays_with_a_rate_are_sounds(media, files, given, channels, samples):
    assert media.keep(1, "said", given)
    with wave.open(io.BytesIO((files / "said-000001.wav").read_bytes())) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (8000, channels, 2)
        assert np.frombuffer(sound.readframes(-1), "<i2").tolist() == samples


def histogram(media, files, given):
    assert media.keep(1, "spread", given)
    return json.loads((files / "spread-000001.histogram.json").read_text())


def test_histograms_are_edges_and_counts(media, files):
    found = histogram(media, files, wb.Histogram(torch.arange(8.0).reshape(2, 4), bins=4))
    assert found == {"edges": [0.0, 1.75, 3.5, 5.25, 7.0], "counts": [2, 2, 2, 2], "left_out": 0}
    found = histogram(media, files, wb.Histogram([1.0, float("nan"), 2.0, float("inf")], bins=1))
    assert found == {"edges": [1.0, 2.0], "counts": [2], "left_out": 2}
    assert histogram(media, files, wb.Histogram([float("nan")])) == {"edges": [], "counts": [], "left_out": 1}
    found = histogram(media, files, wb.Histogram(np.array([-1.7e308, 1.7e308]), bins=2))
    assert found["counts"] == [1, 1]
    found = histogram(media, files, wb.Histogram([3, 4], edges=[0, 1, 10]))
    assert found == {"edges": [0, 1, 10], "counts": [3, 4], "left_out": 0}


def table(media, files, given):
    assert media.keep(1, "rows", given)
    return json.loads((files / "rows-000001.table.json").read_text())


@pytest.mark.parametrize(
    ("given", "columns", "rows"),
    [
        (wb.Table([{"a": 1, "b": "x"}, {"b": "y", "c": None}]), ["a", "b", "c"], [[1, "x", None], [None, "y", None]]),
        (wb.Table([{"a": 1, "b": 2}], columns=["b"]), ["b"], [[2]]),
        (wb.Table([(1, True), (np.float32(0.5), torch.tensor(2))]), ["0", "1"], [[1, True], [0.5, 2]]),
        (wb.Table(np.eye(2), columns=["no", "yes"]), ["no", "yes"], [[1.0, 0.0], [0.0, 1.0]]),
        (wb.Table([[float("nan"), "x" * 2000]]), ["0", "1"], [["nan", "x" * 999 + "…"]]),
        (wb.Table([], columns=["a"]), ["a"], []),
        (pd.DataFrame({"word": ["cat"], "p": [0.5]}), ["word", "p"], [["cat", 0.5]]),
        (pd.DataFrame([[1, 2]], ["cat"], ["cat", "dog"]), ["index", "cat", "dog"], [["cat", 1, 2]]),
    ],
)
def test_rows_and_frames_are_tables(media, files, given, columns, rows):
    assert table(media, files, given) == {"columns": columns, "rows": rows, "total": len(rows)}


def test_of_a_long_table_the_first_rows_are_kept_and_it_says_how_many_there_were(media, files):
    for given in (wb.Table([[number] for number in range(12_000)]), pd.DataFrame({"0": range(12_000)})):
        found = table(media, files, given)
        assert (found["total"], len(found["rows"]), found["rows"][-1]) == (12_000, 10_000, [9_999])
    assert len(table(media, files, wb.Table(np.zeros((5_000, 200))))["rows"]) == 2_500


def test_texts_files_and_figures_are_kept_as_before(media, files, tmp_path):
    (tmp_path / "notes.md").write_text("by hand")
    from matplotlib.figure import Figure
    from plotly import graph_objects

    figure = Figure()
    figure.subplots().plot([1, 2])
    for name, value in (
        ("text", "well"), ("copied", tmp_path / "notes.md"), ("drawn", figure), ("live", graph_objects.Figure()),
        ("facts", {"a": [1]}), ("numbers", [1, 2]), ("np_text", np.str_("well")),
    ):  # fmt: skip
        assert media.keep(1, name, value)
    assert names(files) == [
        "copied-000001.md", "drawn-000001.png", "facts-000001.json", "live-000001.plotly.json", "np_text-000001.txt",
        "numbers-000001.json", "text-000001.txt",
    ]  # fmt: skip
    assert (files / "copied-000001.md").read_text() == "by hand"


def test_what_is_not_utf_8_is_kept_with_escapes(media, files):
    assert media.keep(1, "text", "of caf\udce9.txt")
    assert media.keep(1, "rows", wb.Table([["caf\udce9.txt"]]))
    assert (files / "text-000001.txt").read_text() == r"of caf\udce9.txt"
    assert json.loads((files / "rows-000001.table.json").read_text())["rows"] == [["caf\udce9.txt"]]


@pytest.mark.parametrize("number", [np.array([1.5]), torch.tensor(1.5), np.float32(1), None, object()])
def test_numbers_and_what_is_no_medium_are_left_to_the_metrics(media, files, number):
    assert not media.keep(1, "loss", number)
    assert names(files) == []


REFUSED = [
    (torch.zeros(8, 3, 4, 4), r"a Tensor of shape \(8, 3, 4, 4\) and type float32.* H×W×C .*list\(x\[:8\]\)"),
    (np.zeros((5, 7, 9)), r"an ndarray of shape \(5, 7, 9\).*a picture is H×W"),
    (np.zeros((0, 3)), "a picture is H×W"),
    (np.zeros(9), r"of shape \(9,\).*Histogram\(x\).*Audio\(x, rate=16000\)"),
    (np.array([["a", "b"]]), "does not hold numbers"),
    (wb.Image("x.png"), "a str of 5. Give an array"),
    (wb.Image(np.eye(2), low=1, high=1), "low below high"),
    ([np.eye(2)] * 65, r"65 pictures or sounds, at most 64.*x\[:64\]"),
    ([wb.Image(np.eye(2)), wb.Audio([0.5], 8000)], "two names"),
    (wb.Audio(np.zeros((20, 20)), 8000), "at most 8 channels"),
    (wb.Audio(np.zeros(5, np.int64), 8000), "or int16"),
    (wb.Audio(np.zeros(5), 0), "rate=0.*samples per second"),
    (wb.Histogram([]), "there are no values"),
    (wb.Histogram([1], bins=0), "from 1 to 512"),
    (wb.Histogram([1, 2], edges=[0, 1]), "2 counts and 2 edges"),
    (wb.Histogram([1, 2], edges=[0, 2, 1]), "ascending edges"),
    (wb.Histogram(["a"]), "does not hold numbers"),
    (wb.Table([1, 2]), "a list of dictionaries"),
    (wb.Table("rows"), "a list of dictionaries"),
    (wb.Table([[1], [1, 2]]), "from 1 to 2 cells"),
    (wb.Table([[1, 2]], columns=["a"]), "columns= names 1, and the rows have 2"),
    (wb.Table(np.zeros((1, 1001))), "1001 columns"),
    (Path("nothing.png"), "there is no such file"),
]


@pytest.mark.parametrize(("given", "said"), REFUSED)
def test_what_cannot_be_shown_is_refused_with_what_was_given_and_wanted(media, files, given, said):
    with pytest.raises(BadInput, match=rf"trial\.log\(x.*{said}"):
        media.keep(1, "x", given)
    assert names(files) == []


def test_a_rank_that_does_not_write_takes_the_same_values(files):
    media = Media(files, writes=False)
    assert media.keep(1, "sample", np.eye(2))
    assert media.keep(1, "note", "well")
    assert not media.keep(1, "loss", torch.tensor(1.0))
    media.show(1, 1, None)
    assert names(files) == []


def test_outside_of_workbench_the_same_files_are_written(tmp_path, capsys):
    trial = local_trial(max_steps=2, folder=tmp_path / "files")
    for _ in trial.steps():
        trial.log(sample=np.eye(2), loss=0.5)
    assert names(tmp_path / "files") == ["sample-000001.png", "sample-000002.png"]


#: It is killed in its third step, after it has logged and before a checkpoint, unless that has happened.
LOGS = """
import os, signal
import matplotlib.pyplot as plt
import numpy as np
import workbench as wb
rng = np.random.default_rng(3)
for epoch in trial.steps():
    drawn = rng.random((3, 8, 8, 3))
    trial.log(drawn=[wb.Image(one, f"epoch {epoch}") for one in drawn], spread=wb.Histogram(drawn, bins=8))
    trial.log(sound=wb.Audio(drawn[0, 0, :, 0], 8000), rows=wb.Table(drawn[0, :, :, 0]), said=f"epoch {epoch}")
    for one in drawn[:2]:
        plt.plot(one[0, :, 0]); plt.show()
    if epoch == 2 and not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    trial.report(score=epoch)
"""


def contents(cell) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in cell.paths().files.iterdir()}


def test_a_killed_trial_and_a_replayed_one_have_the_files_of_an_undisturbed_one(server, experiment, tmp_path):
    killed = experiment(LOGS)
    runner = server.runner()
    assert runner.leg(killed.order(2, levels=(2,)))[-1]["outcome"] == "reached"
    runner = server.runner()
    assert runner.leg(killed.order(4, start=2))[-1]["op"] != "left"
    assert (tmp_path / "killed").exists()
    assert runner.exited()
    assert server.runner().leg(killed.order(4, start=2))[-1]["outcome"] == "completed"

    calm = experiment(LOGS)
    assert server.runner().leg(calm.order(4))[-1]["outcome"] == "completed"
    expected = contents(calm)
    assert len(expected) == 4 * (3 + 1 + 4 + 2)
    assert contents(killed) == expected

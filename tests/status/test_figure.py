"""The figure that stays, and the lines of a log."""

import base64
import io
import json

import matplotlib.image
import pytest
from lab.recorded import Recording

from workbench.live.plain import Progress
from workbench.live.show import result
from workbench.status import figure
from workbench.status.board import Board


@pytest.fixture
def recording(tmp_path):
    made = Recording(tmp_path / "store", trials=12, steps=9)
    yield made
    made.series.close()


@pytest.fixture
def board(recording):
    made = Board(recording.store, recording.spec.id)
    yield made
    made.close()


def test_it_shows_in_every_viewer(recording, board):
    recording.all()
    board.look()
    bundle = figure.bundle(board)
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert bundle["text/plain"].startswith("digits@1 completed: 12 trials")
    assert "\n" not in bundle["text/plain"]
    plotly = json.loads(json.dumps(bundle[figure.PLOTLY], allow_nan=False))
    assert len(plotly["data"]) == 12
    assert {"data", "layout", "config"} == set(plotly)


def test_the_best_is_drawn_on_top_and_widest_and_the_stopped_grey_and_thin(recording, board):
    recording.all()
    board.look()
    drawn = list(figure.lines(board))
    assert drawn[-1].best
    assert drawn[-1].width == max(line.width for line in drawn)
    for line in drawn:
        if line.trial["state"] == "stopped" and not line.best:
            assert (line.colour, line.width) == (figure.OUT, 1.0)


def luminance(colour: str) -> float:
    """As WCAG 2 defines it; ``colour`` is #rrggbb."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("page", ["#ffffff", "#111111"])
def test_ink_and_curves_stand_out_against_a_light_and_a_dark_page(page):
    def contrast(colour):
        low, high = sorted((luminance(colour), luminance(page)))
        return (high + 0.05) / (low + 0.05)

    # WCAG 2 asks for 3 to 1 of lines; of text for 4.5 to 1, which no colour has on both pages.
    assert contrast(figure.INK) > 4
    assert min(contrast(colour) for colour in (figure.OUT, *map(figure.mixed, (0.0, 0.3, 0.7, 1.0)))) > 2.9


def test_it_has_no_background_of_its_own(recording, board):
    recording.all()
    board.look()
    bundle = figure.bundle(board)
    pixels = matplotlib.image.imread(io.BytesIO(base64.b64decode(bundle["image/png"])))
    assert (pixels[..., 3] == 0).mean() > 0.5
    layout = bundle[figure.PLOTLY]["layout"]
    assert layout["paper_bgcolor"] == layout["plot_bgcolor"] == figure.CLEAR


def test_names_are_text_and_no_markup(recording, board):
    recording.all()
    recording.series.put_trial(0, configuration={"<b>%{x}": "<script>"}, reason="a <img> %{y}")
    recording.series.flush()
    board.look()
    text = json.dumps(figure.plotly(board))
    assert "<script>" not in text
    assert "<img>" not in text
    assert "a &lt;img&gt; %&#123;y}" in text


def test_a_big_search_stays_small(tmp_path):
    recording = Recording(tmp_path / "big", trials=400, steps=27).all()
    board = Board(recording.store, recording.spec.id)
    while board.look():
        pass
    data = figure.plotly(board)["data"]
    stopped = sum(trial["state"] == "stopped" for trial in recording.trials.values())
    assert stopped > figure.SINGLE
    assert len(data) == 1 + len(recording.trials) - stopped + (
        recording.trials[recording.best[0]]["state"] == "stopped"
    )
    assert sum(len(trace["x"]) for trace in data) < 1.5 * figure.POINTS
    board.close()
    recording.series.close()


def test_points_between_two_gaps_are_dots(recording, board):
    recording.all()
    points = [(0, "val_acc", step, 0, 0.5 if step % 2 else float("nan"), 1.0) for step in range(1, 8)]
    recording.series.add_points([*points, (0, "val_acc", 8, 0, 0.6, 1.0)])
    recording.series.flush()
    board.look()
    trace = next(one for one in figure.plotly(board)["data"] if one["name"] == "t0000")
    assert trace["mode"] == "lines+markers"
    dots = [step for step, size in zip(trace["x"], trace["marker"]["size"], strict=True) if size]
    assert dots == [1, 3, 5]


def test_of_many_stopped_trials_those_with_one_point_are_dots_and_nan_is_a_gap(tmp_path):
    recording = Recording(tmp_path / "big", trials=400, steps=27).all()
    once = [trial for trial, row in recording.trials.items() if row["step"] == 1 and row["state"] == "stopped"]
    recording.series.add_points([(once[0], "val_acc", 1, 0, float("nan"), 1.0)])
    recording.series.flush()
    board = Board(recording.store, recording.spec.id)
    while board.look():
        pass
    merged = json.loads(json.dumps(figure.plotly(board)["data"], allow_nan=False))[0]
    dots = sum(size > 0 for size in merged["marker"]["size"])
    assert dots == len(once) - 1
    board.close()
    recording.series.close()


def test_without_a_report_words_stay(recording, board):
    recording.series.put_trial(0, error={"type": "NameError", "message": "x", "traceback": "line 3\nNameError: <x>"})
    recording.end("failed", "two trials failed in the same way")
    board.look()
    bundle = result(board)
    assert "NameError: <x>" in bundle["text/plain"]
    assert "&lt;x&gt;" in bundle["text/html"]
    assert "two trials failed" in bundle["text/plain"]


def test_a_log_gets_few_whole_lines(recording, board):
    clock, said = [0.0], []
    lines = Progress(board, said.append, every=5.0, clock=lambda: clock[0])
    for _ in range(9):
        recording.turn()
        lines.look()
        clock[0] += 1.0
    assert len(said) == 2
    recording.end()
    lines.look()
    lines.look()
    assert len(said) == 3
    assert said[-1].startswith("digits@1 completed")

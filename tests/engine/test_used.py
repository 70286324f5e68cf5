"""What the trials of one experiment tell of what they use becomes one fact; what they tell differently is marked."""

from workbench.engine.tending.used import MOST_FILES, MOST_NAMES, Used
from workbench.store.series import Series

FILE = {"size": 2, "modified": "2026-01-01", "digest": "d1", "mark": [1, 2]}


def test_all_trials_together_are_one_fact_and_an_engine_that_begins_again_goes_on(tmp_path):
    with Series.open(tmp_path / "series.db") as series:
        used = Used(series)
        first = {"files": {"/a": FILE}, "beyond": 0, "variables": ["A"], "packages": ["numpy"], "modules": {"m": []}}
        assert used.take(first, "one") == {"files": {"/a": FILE}, "beyond": 0}
        series.flush()
    with Series.open(tmp_path / "series.db") as series:
        Used(series).take({"files": {"/b": {}}, "beyond": 3, "variables": ["B"], "packages": [], "made": ["/c"]}, "two")
        series.flush()
        found = series.meta()["used"]
    assert {path: file["host"] for path, file in found["files"].items()} == {"/a": "one", "/b": "two"}
    assert (found["variables"], found["packages"], found["made"]) == (["A", "B"], ["numpy"], ["/c"])
    assert (found["beyond"], found["modules"], found["complete"]) == (3, {"m": []}, True)


def test_a_file_that_two_trials_saw_differently_is_marked_and_one_without_a_digest_is_filled_in(tmp_path):
    with Series.open(tmp_path / "series.db") as series:
        used = Used(series)
        used.take({"files": {"/a": FILE, "/b": {}}, "beyond": 0}, "one")
        used.take({"files": {"/a": {**FILE, "digest": "d2"}, "/b": FILE}, "beyond": 0}, "one")
        used.take({"files": {"/a": FILE, "/b": {**FILE, "mark": [9, 9]}}, "beyond": 0}, "one")
        series.flush()
        found = series.meta()["used"]["files"]
    assert found["/a"] == {**FILE, "host": "one", "mixed": True}
    assert found["/b"] == {**FILE, "host": "one"}


def test_what_one_trial_missed_and_another_makes_is_not_absent_however_many_there_are(tmp_path):
    with Series.open(tmp_path / "series.db") as series:
        used = Used(series)
        for number in range(MOST_NAMES + 5):
            used.take({"files": {}, "absent": [f"/out/{number}", "/never"], "there": ["/a"]}, "one")
            used.take({"files": {}, "made": [f"/out/{number}"], "there": ["/a", "/b"], "unasked": 2}, "two")
        series.flush()
        found = series.meta()["used"]
    assert (found["absent"], found["there"], found["unasked"]) == (["/never"], {"/a": "one", "/b": "two"}, 2)


def test_files_beyond_the_most_are_counted(tmp_path):
    with Series.open(tmp_path / "series.db") as series:
        many = {f"/{number}": FILE for number in range(MOST_FILES + 5)}
        Used(series).take({"files": many, "beyond": 2}, "one")
        series.flush()
        found = series.meta()["used"]
    assert (len(found["files"]), found["beyond"]) == (MOST_FILES, 5)

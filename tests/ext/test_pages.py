"""A trial's page, its log and its files: what the store says, and nothing from outside of it."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest
from tornado.httpclient import HTTPClientError

from workbench.records import Searcher
from workbench.search import Search
from workbench.store.journal import Journal
from workbench.store.series import Series
from workbench_ext.server import files, logs


@pytest.fixture
def spec(written):
    return written.experiment()


async def test_the_page_says_what_is_known_of_a_trial(ask, written, spec):
    with Series.open(written.store.experiment(spec.id).series) as series:
        found = {"objects": ["model"], "names": ["history"], "left_out": [{"name": "it", "reason": "an iterator"}]}
        seen = {"files": {"/d/x.csv": {"size": 4, "digest": "aa"}}, "beyond": 0}
        detail = {"found": found, "environment": {"gpu": 1}, "seen": seen}
        series.put_leg(1, 2, start=3, until=9, began=5.0, left=6.5, detail=detail)
    written.checkpoint(spec, 1, 3)
    page = await ask("experiments", "digits", "trials", "t0001")
    assert page == await ask("experiments", spec.id, "trials", "1")
    assert page["trial"]["label"] == "t0001"
    assert [(leg["attempt"], leg["start"], leg["until"], leg["began_s"]) for leg in page["legs"]] == [
        (1, 0, 3, None),
        (2, 3, 9, 5.0),
    ]
    assert page["found"]["left_out"] == [{"name": "it", "reason": "an iterator"}]
    assert page["environment"] == {"gpu": 1}
    assert page["data"] == {"named": {}, "seen": seen}
    assert page["seeds"] == {"experiment": 0, "trial": 1, "deterministic": "seeded"}


async def test_the_page_names_what_the_user_gave_for_a_trial(ask, written, spec):
    assert (await ask("experiments", "digits", "trials", "1"))["given"] == []
    given = dataclasses.replace(spec, searcher=Searcher(given=({"lr": 0.1}, {"lr": 0.2, "hidden": 64})))
    written.store.experiment(spec.id).spec.write_text(json.dumps(given.to_json()))
    numbers = Search.of(given).plan.given
    with Series.open(written.store.experiment(spec.id).series) as series:
        for number in numbers:
            series.put_trial(number, configuration={}, state="running")
    pages = [(await ask("experiments", "digits", "trials", str(number)))["given"] for number in (1, *numbers)]
    assert pages == [[], ["lr"], ["lr", "hidden"]]


async def test_checkpoints_are_listed_with_what_is_wrong(ask, written, spec):
    written.checkpoint(spec, 1, 3, b"12345")
    damaged = written.checkpoint(spec, 1, 9)
    (damaged / "state.pt").write_bytes(b"")
    sound, broken = (await ask("experiments", "digits", "trials", "1"))["checkpoints"]
    assert (sound["step"], sound["bytes"], sound["sound"], sound["files"]) == (3, 5, True, {"state.pt": 5})
    assert (broken["step"], broken["sound"]) == (9, False)
    assert "state.pt has 0 bytes instead of 7" in broken["why"]


async def test_restarts_are_told_with_their_causes(ask, written, spec):
    with Journal.open(written.store.experiment(spec.id).journal) as journal:
        # Its first attempt has begun.
        journal.append({"kind": "LegLeft", "trial": 1, "outcome": "died", "cause": "worker", "reason": "gone"})
        for attempt, start in ((2, 0), (3, 1), (4, 3), (5, 3)):
            journal.append({"kind": "LegStarted", "trial": 1, "attempt": attempt, "start": start, "until": 9})
            if attempt in (2, 4):
                journal.append({"kind": "LegLeft", "trial": 1, "outcome": "reached", "cause": None, "reason": ""})
    with Series.open(written.store.experiment(spec.id).series) as series:
        series.put_leg(1, 5, start=3, until=9)
    restarts = (await ask("experiments", "digits", "trials", "1"))["restarts"]
    assert [(one["attempt"], one["cause"], one["step"]) for one in restarts] == [(2, "worker", 0), (4, "engine", 3)]


async def test_a_missing_trial_is_404_and_what_is_none_is_400(refused, spec):
    for number in ("t0099", "99", "999999999"):
        assert (await refused("experiments", "digits", "trials", number))[0] == 404, number
    for number in ("x", "t", "-1", "1e3", "t00000000000000000007", "1" * 30):
        assert (await refused("experiments", "digits", "trials", number))[0] == 400, number
        assert refused.field == "trial"


async def test_the_timeline_follows_by_cursor(ask, written, spec):
    first = await ask("experiments", "digits", "timeline")
    assert [leg["label"] for leg in first["legs"]] == ["t0000", "t0001", "t0002"]
    assert (await ask("experiments", "digits", "timeline", after=first["cursor"]))["legs"] == []


# ---------------------------------------------------------------------------------------------------------------------
# Log


async def test_a_log_is_followed_by_whole_lines(ask, written, spec):
    path = written.log(spec, 1, "one\ntwo\nthr")
    first = await ask("experiments", "digits", "trials", "1", "log")
    assert (first["text"], first["line"], first["next"]) == ("one\ntwo\n", "thr", 8)
    path.write_text("one\ntwo\nthree\n")
    second = await ask("experiments", "digits", "trials", "1", "log", offset=first["next"])
    assert (second["offset"], second["text"], second["next"]) == (8, "three\n", 14)
    assert (await ask("experiments", "digits", "trials", "1", "log", offset=14))["text"] == ""


async def test_a_log_that_is_rotated_goes_on_where_it_was(ask, written, spec):
    path = written.log(spec, 1, "one\n")
    at = (await ask("experiments", "digits", "trials", "1", "log"))["next"]
    seen = ""
    for number in range(6):
        path.write_text(f"{path.read_text()}end {number}\n")
        for older in (2, 1, 0):
            part = path.with_name(f"{path.name}.{older}") if older else path
            if part.exists():
                os.replace(part, path.with_name(f"{path.name}.{older + 1}"))
        path.write_text(f"start {number}\n")
        answer = await ask("experiments", "digits", "trials", "1", "log", offset=at)
        assert answer["offset"] == at
        at, seen = answer["next"], seen + answer["text"]
    assert seen == "".join(f"end {number}\nstart {number}\n" for number in range(6))


async def test_the_tail_starts_with_a_whole_line(ask, written, spec):
    written.log(spec, 1, "".join(f"line {number}\n" for number in range(100)), part=1)
    written.log(spec, 1, "newest\n")
    answer = await ask("experiments", "digits", "trials", "1", "log", offset=-1, limit=64)
    assert answer["text"].startswith("line 9")
    assert answer["text"].endswith("line 99\nnewest\n")
    assert answer["next"] == answer["size"] == answer["offset"] + len(answer["text"])


def test_a_character_is_never_cut(written, spec):
    written.log(spec, 1, "é" * 100)
    text, at = "", 0
    while at < 200:
        answer = logs.log(written.store, "digits", 1, at, 65)
        text, at = text + answer["text"] + answer["line"], answer["next"] + len(answer["line"].encode())
    assert text == "é" * 100


async def test_an_offset_beyond_the_end_gives_the_tail(ask, written, spec):
    written.log(spec, 1, "one\n")
    answer = await ask("experiments", "digits", "trials", "1", "log", offset=10**9)
    assert (answer["offset"], answer["text"]) == (0, "one\n")


async def test_a_trial_that_printed_nothing_has_an_empty_log(ask, spec):
    answer = await ask("experiments", "digits", "trials", "1", "log")
    assert answer == {"offset": 0, "next": 0, "size": 0, "text": "", "line": ""}


# ---------------------------------------------------------------------------------------------------------------------
# Files


@pytest.fixture
def kept(written, spec):
    folder = written.store.experiment(spec.id).trial(1).files
    (folder / "more").mkdir(parents=True)
    contents = {
        "samples-000010-10.png": b"\x89PNG",
        "samples-000010-2.png": b"\x89PNG",
        "samples-000010.captions.json": b'["", "two"]',
        "sound-000002.wav": b"RIFF",
        "weights-000001-000003.histogram.json": b"{}",
        "words-000003.table.json": b"{}",
        ".words-000004.table.json.0a1b2c3d.writing": b"{",
        "samples-000002.png": b"\x89PNG",
        "fit-000002.plotly.json": b"{}",
        "page-000001.html": b"<script>alert(1)</script>",
        "drawing-000001.svg": b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        "more/notes.txt": b"text",
        "weights.bin": b"\0\1",
    }
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    (folder / "link").symlink_to(written.store.catalog_path)
    (folder / "out").symlink_to(written.store.root)
    return folder


async def test_files_are_listed_by_title_step_and_number(ask, kept):
    answer = await ask("experiments", "digits", "trials", "1", "files")
    assert [(one["name"], one["title"], one["step"], one["number"], one["kind"]) for one in answer["files"]] == [
        ("drawing-000001.svg", "drawing", 1, None, "image"),
        ("fit-000002.plotly.json", "fit", 2, None, "figure"),
        ("more/notes.txt", "more/notes.txt", None, None, "text"),
        ("page-000001.html", "page", 1, None, "text"),
        ("samples-000002.png", "samples", 2, None, "image"),
        ("samples-000010.captions.json", "samples", 10, None, "captions"),
        ("samples-000010-2.png", "samples", 10, 2, "image"),
        ("samples-000010-10.png", "samples", 10, 10, "image"),
        ("sound-000002.wav", "sound", 2, None, "audio"),
        ("weights-000001-000003.histogram.json", "weights-000001", 3, None, "histogram"),
        ("weights.bin", "weights.bin", None, None, "other"),
        ("words-000003.table.json", "words", 3, None, "table"),
    ]
    assert answer["left_out"] == 0


async def test_of_very_many_files_those_of_the_latest_steps_are_listed(ask, kept, monkeypatch):
    monkeypatch.setattr(files, "MOST_FILES", 7)
    answer = await ask("experiments", "digits", "trials", "1", "files")
    assert answer["left_out"] == 5
    assert [one["step"] for one in answer["files"]] == [None, 10, 10, 10, 3, None, 3]


@pytest.mark.parametrize(
    ("name", "kind", "shown"),
    [
        ("samples-000002.png", "image/png", "inline"),
        ("page-000001.html", "text/plain", "attachment"),
        ("drawing-000001.svg", "image/svg+xml", "attachment"),
        ("weights.bin", "application/octet-stream", "attachment"),
        ("words-000003.table.json", "application/json", "attachment"),
        ("more/notes.txt", "text/plain", "attachment"),
    ],
)
async def test_a_file_comes_as_it_is_and_nothing_in_it_runs(name, kind, shown, jp_fetch, kept):
    response = await jp_fetch("workbench", "api", "experiments", "digits", "trials", "1", "files", *name.split("/"))
    assert response.body == (kept / name).read_bytes()
    assert response.headers["Content-Type"].partition(";")[0] == kind
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Content-Security-Policy"].startswith("sandbox")
    assert response.headers["Content-Disposition"].startswith(shown)


async def test_a_file_that_is_as_it_was_is_not_sent_again(http_server_client, jp_base_url, jp_auth_header, kept):
    address = f"{jp_base_url}workbench/api/experiments/digits/trials/1/files/samples-000002.png"
    first = await http_server_client.fetch(address, headers=jp_auth_header)
    headers = {**jp_auth_header, "If-None-Match": first.headers["Etag"]}
    with pytest.raises(HTTPClientError) as caught:
        await http_server_client.fetch(address, headers=headers)
    assert caught.value.code == 304
    (kept / "samples-000002.png").write_bytes(b"\x89PNG, and more")
    assert (await http_server_client.fetch(address, headers=headers)).body == b"\x89PNG, and more"


@pytest.mark.parametrize("name", ["a.wav", "a.mp3", "a.ogg", "a.flac"])
def test_sounds_have_a_type_that_browsers_play(name):
    assert files.type_of(name).startswith("audio/")


#: Addresses below a trial's files that lead elsewhere, or nowhere.
AWAY = [
    "nothing.png", "..", "../log.txt", "../../t0001/log.txt", "..%2Flog.txt", "%2e%2e/log.txt", "%2Fetc%2Fpasswd",
    "//etc/passwd", "more/../../log.txt", "link", "out/catalog.json", "more", "%00", "a" * 300, ".",
]  # fmt: skip


@pytest.mark.parametrize("part", ["files", "t0001", "trials"])
async def test_files_over_a_link_are_not_given_away(part, ask, refused, kept, tmp_path):
    folder = next(place for place in (kept, *kept.parents) if place.name == part)
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    status, message = await refused("experiments", "digits", "trials", "1", "files", "weights.bin")
    assert status == 404
    assert "keeps no file" in message
    assert (await ask("experiments", "digits", "trials", "1", "files"))["files"] == []


async def test_the_folder_of_all_experiments_may_be_on_another_disk(ask, kept, tmp_path):
    folder = next(place for place in kept.parents if place.name == "experiments")
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    found = await ask("experiments", "digits", "trials", "1", "files")
    assert "weights.bin" in [one["name"] for one in found["files"]]


async def test_no_path_leaves_the_store(http_server_client, jp_base_url, jp_auth_header, written, spec, kept):
    written.log(spec, 1, "secret\n")
    for path in AWAY:
        address = f"{jp_base_url}workbench/api/experiments/digits/trials/1/files/{path}"
        with pytest.raises(HTTPClientError) as caught:
            await http_server_client.fetch(address, headers=jp_auth_header, follow_redirects=False)
        assert caught.value.code in (400, 404), path
        assert "message" in json.loads(caught.value.response.body)

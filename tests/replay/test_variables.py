"""The variables with which something is trained again."""

import pytest

from workbench.records import Training
from workbench.replay.variables import again
from workbench.snapshot.surroundings import variables
from workbench.store.owner import private


@pytest.fixture(autouse=True)
def begun(monkeypatch):
    monkeypatch.setattr(variables, "begun_with", dict)


def training(env, secrets=(), *, is_whole=True):
    return Training(
        "python",
        "/",
        env=env,
        is_whole=is_whole,
        secrets={name: private.digest(name, value) for name, value in secrets},
    )


ME = {"HOME": "/home/me"}


@pytest.mark.parametrize(
    ("recorded", "here", "wanted", "said"),
    [
        # The recorded ones are put back, and nothing of this shell is added.
        (training({**ME, "X": "1"}), {**ME, "X": "2", "Y": "3"}, training({**ME, "X": "1"}), []),
        # Another person's home is not put back.
        (
            training({"HOME": "/home/her", "PATH": "/her", "X": "1"}),
            {**ME, "PATH": "/mine", "X": "2"},
            training({**ME, "PATH": "/mine", "X": "1"}),
            ["HOME and other personal or machine variables have this machine's values"],
        ),
        # Secrets are those of here; another one is named.
        (training(ME, [("HF_TOKEN", "a")]), {**ME, "HF_TOKEN": "a"}, training(ME, [("HF_TOKEN", "a")]), []),
        (
            training(ME, [("HF_TOKEN", "a")]),
            {**ME, "HF_TOKEN": "b"},
            training(ME, [("HF_TOKEN", "b")]),
            ["HF_TOKEN, a secret, has a different value now"],
        ),
        (training(ME, [("HF_TOKEN", "a")]), ME, training(ME), ["HF_TOKEN, a secret, is not set here"]),
        (training(ME), {**ME, "HF_TOKEN": "a"}, training(ME), []),
        # What an earlier version did not record is as it is here.
        (
            training({"LANG": "C"}, is_whole=False),
            {**ME, "LANG": "de", "X": "2", "TERM": "xterm"},
            training({**ME, "LANG": "C", "X": "2"}),
            [],
        ),
    ],
)
def test_variables_are_put_back(recorded, here, wanted, said):
    assert again(recorded, here) == (wanted, said)


def test_an_engine_that_is_asked_for_a_replay_puts_nothing_of_its_own_into_it():
    recorded = training({"X": "1"}, [("HF_TOKEN", "a")])
    assert again(recorded, None) == (recorded, [])

"""What others get of a search whose command line and hyperparameters hold secrets."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from pathlib import Path

import pytest
from running import ended, engine, spec_of, start

from workbench.records import Argument, Program, Scheduler, Spec
from workbench.share.archive import export
from workbench.share.masking import masked_spec
from workbench.share.publish import publish
from workbench.snapshot.secrets.masking import hearing
from workbench.space import Space, choice
from workbench.store import Store

SCRIPT = """
import sys
from workbench import trial
for epoch in trial.steps():
    print("the arguments are", sys.argv[1:])
    trial.report(score=1.0)
"""
SECRETS = ["argument-s3cret", "other-s3cret", "dbpass-s3cret", "choice-s3cret-A", "choice-s3cret-B"]
ARGUMENTS = [
    "--lr",
    "0.1",
    "--password",
    SECRETS[0],
    f"--api-key={SECRETS[1]}",
    "--db",
    f"postgres://me:{SECRETS[2]}@h/x",
    "--max-tokens",
    "100",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Spec]:
    folder = tmp_path_factory.mktemp("masking")
    (folder / "train.py").write_text(SCRIPT)
    store = Store(folder / "store").create()
    space = {"api_key": choice(*SECRETS[3:])}
    spec = spec_of(SCRIPT, folder, space=space, scheduler=Scheduler("all", 1, 1, 3), trials=2, name="secret")
    words = [*map(Argument, ARGUMENTS), Argument("--key", "api_key")]
    program = Program(kind="script", source=SCRIPT, filename=str(folder / "train.py"), arguments=tuple(words))
    spec = dataclasses.replace(spec, program=program)
    with engine(store):
        start(store, spec)
        assert ended(store, spec) == "completed"
    return store, spec


def test_secrets_of_the_command_line_and_of_hyperparameters_are_in_no_file_for_others(
    trained: tuple[Store, Spec], tmp_path: Path
) -> None:
    store, spec = trained
    paths = store.experiment(spec.id)
    rank = paths.trial(0).rank_log(1)
    rank.parent.mkdir(parents=True)
    rank.write_text(f"the arguments are {ARGUMENTS}\n")
    paths.setup.write_text(json.dumps({"failed": f"refused: postgres://me:{SECRETS[2]}@h/x"}))
    told = publish(store, "secret", str(tmp_path / "page"))
    export(store, "secret", tmp_path / "secret.zip", mask=True)
    with zipfile.ZipFile(tmp_path / "secret.zip") as archive:
        archive.extractall(tmp_path / "unpacked")
    for place in (tmp_path / "page", tmp_path / "unpacked"):
        files = [path for path in place.rglob("*") if path.is_file() and path.suffix != ".zip"]
        assert [path for path in files for secret in SECRETS if secret.encode() in path.read_bytes()] == []
        shown = Store(place, readonly=True).read_spec_json(spec.id)
        words = [one["text"] for one in shown["program"]["arguments"]]
        assert words == [
            *("--lr", "0.1", "--password", "***", "--api-key=***", "--db", "postgres://***@h/x"),
            *("--max-tokens", "100", "--key"),
        ]
        # It can still be read: the options are different ones.
        assert len(Space.from_json(shown["space"]).parameters["api_key"].options) == 2
        logs = [*place.rglob("*log.txt"), place / rank.relative_to(store.root)]
        assert all("'--password', '***'" in log.read_text() for log in logs)
        assert (place / paths.setup.relative_to(store.root)).exists()
    assert any("train cell and settings" in line for line in told["said"])


def test_each_secret_of_a_spec_is_told(trained: tuple[Store, Spec]) -> None:
    store, spec = trained
    with hearing() as heard:
        masked_spec(json.loads(store.experiment(spec.id).spec.read_text()))
    assert set(SECRETS) - {one.secret for one in heard} <= {SECRETS[2]}  # this one is told with its user's name

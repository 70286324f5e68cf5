"""A container that trains an experiment again: what it installs is what was there, and what it runs replays."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from dockerfile_parse import DockerfileParser
from running import until

import workbench as wb
from workbench import asked
from workbench.asking import ask
from workbench.cli import main
from workbench.errors import BadInput, Untrusted
from workbench.exporters.containerfile import ARCHIVE, LOCK, SOURCES, lock_of, write_container
from workbench.snapshot.surroundings.environment import distributions
from workbench.store import Store
from workbench.store.owner.lease import read_engine
from workbench.store.owner.trust import mark, trust

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def train(trial, x=wb.uniform(0.0, 1.0)):  # noqa: B008 - this is how a search's function is written
    total = 0.0
    for _ in trial.steps():
        total = 0.9 * total + x
        trial.report(score=total)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> wb.Experiment:
    """A search that has ended, in a store without an engine."""
    store = Store(tmp_path_factory.mktemp("home") / "store").create()
    experiment = wb.Experiment(
        "boxed", train, goal=wb.maximize("score"), scheduler=wb.All(max_steps=3), trials=2, store=store, verify=False
    )
    experiment.start().wait(60)
    ended(store)
    return experiment


def ended(store: Store) -> None:
    ask(store, asked.End())
    until(lambda: (found := read_engine(store)) is None or not found.alive, 30, "the engine's end")


@pytest.mark.timeout(300)
def test_a_container_holds_all_that_the_replay_needs_and_its_command_replays(
    trained: wb.Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--store",
        str(trained.store.root),
        "export",
        "boxed/t0001",
        "--to",
        str(tmp_path / "box" / "Containerfile"),
    ]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    parsed = DockerfileParser(fileobj=io.BytesIO((tmp_path / "box" / "Containerfile").read_bytes()))
    assert parsed.baseimage == f"docker.io/library/python:{sys.version.split()[0]}-slim"
    assert [one["instruction"] for one in parsed.structure if one["instruction"] != "COMMENT"] == [
        *("FROM", "COPY", "RUN", "COPY", "ENV", "COPY", "WORKDIR", "ENV", "CMD")
    ]
    for one in parsed.structure:
        if one["instruction"] == "COPY":
            assert (tmp_path / "box" / one["value"].split()[0]).exists()
    text = (tmp_path / "box" / LOCK).read_text()
    lines = [line for line in text.splitlines() if not line.startswith(("#", "--"))]
    assert len(lines) + len(told["not_restored"]) == len(distributions()) - 1  # Workbench itself lies beside it
    assert f"numpy=={version('numpy')}" in lines
    for path in (tmp_path / "box").rglob("*"):
        if path.is_file() and path.name != ARCHIVE:
            assert str(Path(wb.__file__).parents[2]).encode() not in path.read_bytes()
    # Nothing is fetched: pip reads every line, and finds each installed here at that version.
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--no-index", "-r", LOCK]
    done = subprocess.run(command, cwd=tmp_path / "box", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Would install" not in done.stdout
    # What the container would run, with this Python in its place.
    home = tmp_path / "replayed"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYTHONPATH": str(tmp_path / "box" / SOURCES), "WORKBENCH_HOME": str(home)}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        json.loads(parsed.cmd), cwd=tmp_path / "box", env=environment, capture_output=True, text=True, check=False
    )
    ended(Store(home))
    assert "identical" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
    with pytest.raises(BadInput, match="would be overwritten"):
        trained.best.experiment.export(tmp_path / "box" / "Containerfile")


@pytest.mark.parametrize(
    ("name", "recorded"),
    [
        ("zz\nRUN touch pwned\n#", "1 @ file:///x"),
        ("zz", "1\n--find-links https://files.example/packages"),
        ("zz", "1; import os"),
        ("torch", "1\nRUN x+cpu"),
        ("-r", "1"),
        ("zz", "1 @ https://files.example/a.whl --config-settings=x"),
        ("zz", "1 @ https://files.example/${HOME}.whl"),
        ("zz", "1 @ ext::sh -c whoami#0123456789abcdef"),
        ("zz", "1 @ https://files.example/a.git#HEAD\nevil==1"),
        ("zz", "1 @ https://files.example/a\u2028b.whl"),
        ("zz", "1\n2 @ file:///x"),
    ],
)
def test_what_no_package_has_becomes_a_comment_and_no_line(name: str, recorded: str) -> None:
    lock = lock_of({name: recorded, "numpy": "2.4.6"})
    assert lock.lines == ["numpy==2.4.6"]
    assert not lock.indexes
    assert len(lock.missing) == 1
    assert len(lock.text.splitlines()) == 3
    assert lock.text.splitlines()[-1].startswith("# not restored: ")


def test_a_container_of_another_persons_experiment_is_refused_and_a_strange_python_too(
    trained: wb.Experiment, tmp_path: Path
) -> None:
    store = trained.store
    assert trained.spec.snapshot is not None
    mark(store, trained.id)
    with pytest.raises(Untrusted, match="workbench trust boxed@1"):
        write_container(store, "boxed", tmp_path / "box" / "Containerfile")
    trust(store, trained.id)
    place = store.snapshot(trained.spec.snapshot) / "environment.json"
    recorded = place.read_text()
    environment = json.loads(recorded)
    environment["python"]["version"] = "3.11.7-slim\nRUN touch pwned #"
    place.write_text(json.dumps(environment))
    try:
        with pytest.raises(BadInput, match=r"3\.11\.7-slim\?RUN touch pwned.*expected a version"):
            write_container(store, "boxed", tmp_path / "box" / "Containerfile")
    finally:
        place.write_text(recorded)
    assert not (tmp_path / "box").exists()


def test_each_distribution_comes_from_where_it_came() -> None:
    lock = lock_of(
        {
            "numpy": "2.4.6",
            "torch": "2.13.0+cu126",
            "flash": "1.0+local.3",
            "tool": "0.3 @ https://***@host.example/team/tool.git#" + COMMIT,
            "wheel-of": "1.2 @ https://files.example/wheel_of-1.2-py3-none-any.whl",
            "mine": "0.1 @ file:///home/me/s3cret/mine (editable)",
        }
    )
    assert lock.lines == [
        "flash==1.0  # was 1.0+local.3: no index holds that build",
        "numpy==2.4.6",
        f"tool @ git+https://host.example/team/tool.git@{COMMIT}  # its credentials were left out: it wants some",
        "torch==2.13.0+cu126",
        "wheel-of @ https://files.example/wheel_of-1.2-py3-none-any.whl",
    ]
    assert lock.indexes == ["https://download.pytorch.org/whl/cu126"]
    assert 'PIP_EXTRA_INDEX_URL="https://download.pytorch.org/whl/cu126"' in lock.text
    assert lock.missing.keys() == {"mine"}
    assert lock.needs_git
    assert "s3cret" not in lock.text

import importlib.metadata
import json
import re

import pytest

from workbench.snapshot.secrets import detector  # noqa: F401 - imported late, and the test takes sys.path away
from workbench.snapshot.surroundings import environment as environments
from workbench.snapshot.surroundings.environment import distributions, environment, machine, variables


def test_distributions_are_those_that_metadata_tells():
    told = {
        re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower(): one.version for one in importlib.metadata.distributions()
    }
    found = {name: version.partition(" @ ")[0] for name, version in distributions().items()}
    assert {name: found.get(name) for name in told} == told


def test_where_a_distribution_came_from_is_told(tmp_path, monkeypatch):
    for name, url in {
        "plain-1.0": None,
        "from_git-2.0": {"url": "https://me:secret@host/x.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
        "local-3.0+cpu": {"url": "file:///src/local", "dir_info": {"editable": True}},
    }.items():
        folder = tmp_path / f"{name}.dist-info"
        folder.mkdir()
        if url:
            (folder / "direct_url.json").write_text(json.dumps(url))
    (tmp_path / "old_one-0.1-py3.11.egg-info").mkdir()
    monkeypatch.setattr("sys.path", [str(tmp_path), str(tmp_path / "not there")])
    assert distributions() == {
        "from-git": "2.0 @ https://***@host/x.git#abc",
        "local": "3.0+cpu @ file:///src/local (editable)",
        "old-one": "0.1",
        "plain": "1.0",
    }


def test_an_installation_is_seen_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert distributions() == {}
    (tmp_path / "new-1.0.dist-info").mkdir()
    assert distributions() == {"new": "1.0"}


def test_only_variables_that_matter_are_kept_and_secrets_are_masked(monkeypatch):
    for name, value in {
        "OMP_NUM_THREADS": "2",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "HF_TOKEN": "hf_secret",
        "HF_ENDPOINT": "https://me:pw@mirror",
        "AWS_SECRET_ACCESS_KEY": "very",
        "OPENAI_API_KEY": "sk-",
        "MY_OWN": "words",
        "PYTHONHASHSEED": "0",
    }.items():
        monkeypatch.setenv(name, value)
    found = variables()
    assert found["OMP_NUM_THREADS"] == "2"
    assert found["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert found["PYTHONHASHSEED"] == "0"
    assert found["HF_TOKEN"] == "***"
    assert found["HF_ENDPOINT"] == "https://***@mirror"
    assert not {"AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "MY_OWN"} & found.keys()


def test_the_whole_is_plain_data():
    found = json.loads(json.dumps(environment()))
    assert found["machine"]["usable_cores"] >= 1
    assert found["python"]["version"].count(".") == 2
    assert machine()["memory"] > 1 << 20


def test_torch_is_described_when_it_is_imported():
    torch = pytest.importorskip("torch")
    assert environments.libraries()["torch"]["version"] == torch.__version__
    assert environments.threads()["torch"] == torch.get_num_threads()

"""Which variables travel to training, and how secrets among them are recorded."""

import json
import os
import subprocess
import sys

import pytest

from workbench.snapshot.surroundings import variables
from workbench.snapshot.surroundings.variables import at_hand, holds_secret, recorded, travelling
from workbench.store.owner import private

#: A name, a value, and whether it travels.
TRAVELS = [
    ("X", "1", True),
    ("PATH", "/usr/bin", True),
    ("HOME", "/home/me", True),
    ("LANG", "de_DE.UTF-8", True),
    ("LD_LIBRARY_PATH", "/opt/lib", True),
    ("PYTHONPATH", "/code", True),
    ("VIRTUAL_ENV", "/venv", True),
    ("CUDA_VISIBLE_DEVICES", "1", True),
    ("CUDA_LAUNCH_BLOCKING", "1", True),
    ("KMP_AFFINITY", "compact", True),
    ("MALLOC_ARENA_MAX", "2", True),
    ("SLURM_CPUS_PER_TASK", "4", True),
    ("WORKBENCH_HOME", "/store", True),
    ("with-a.dash and more", "x", True),
    ("HF_HOME", "", True),
    ("JPY_SESSION_NAME", "a.ipynb", False),
    ("JPY_PARENT_PID", "77", False),
    ("JUPYTERHUB_API_TOKEN", "t", False),
    ("JUPYTER_SERVER_ROOT", "/", False),
    ("KERNEL_ID", "k", False),
    *((name, "7", True) for name in ("KERNEL_SIZE", "WINDOW", "PROMPT", "PROMPT_STYLE", "HIST_BINS", "KDE_BANDWIDTH")),
    *((name, "7", True) for name in ("COVERAGE_WEIGHT", "TERM_PENALTY", "LESS_DATA", "RANDOM", "WT_DECAY", "TOX_DATA")),
    *((name, "7", False) for name in ("TERM", "TERM_PROGRAM", "HISTFILE", "LESSOPEN", "PROMPT_COMMAND", "WT_SESSION")),
    ("PYDEVD_USE_FRAME_EVAL", "NO", False),
    ("SSH_CLIENT", "10.0.0.1", False),
    ("SSH_AUTH_SOCK", "/tmp/s", False),
    ("TERM", "xterm", False),
    ("TERM_PROGRAM", "vscode", False),
    ("COLUMNS", "80", False),
    ("SHLVL", "2", False),
    ("PWD", "/", False),
    ("OLDPWD", "/", False),
    ("_", "/usr/bin/env", False),
    ("DISPLAY", ":0", False),
    ("DBUS_SESSION_BUS_ADDRESS", "unix:", False),
    ("XDG_SESSION_ID", "3", False),
    ("XDG_RUNTIME_DIR", "/run/user/0", False),
    ("XDG_CACHE_HOME", "/cache", True),
    ("VSCODE_PID", "1", False),
    ("TMUX_PANE", "%1", False),
    ("STY", "1.pts", False),
    ("WINDOWID", "7", False),
    ("PS1", "$ ", False),
    ("HISTSIZE", "1000", False),
    ("PYTEST_CURRENT_TEST", "x", False),
    ("BASH_FUNC_module%%", "() { :; }", False),
    ("SLURM_JOB_ID", "1234", False),
    ("SLURM_PROCID", "0", False),
    ("LOCAL_RANK", "1", False),
    ("HOSTNAME", "node7", False),
    ("INVOCATION_ID", "abc", False),
    ("WORKBENCH_CLUSTER", "tcp://a:1", False),
    ("WORKBENCH_SPAWNED", "/proc/1/fd/3", False),
    ("DASK_INTERNAL_INHERIT_CONFIG", "x", False),
    ("MPLBACKEND", "module://inline", False),
    ("OMP_NUM_THREADS", "8", False),
    ("PYTHONHASHSEED", "0", False),
    ("CUBLAS_WORKSPACE_CONFIG", ":16:8", False),
]


@pytest.mark.parametrize(("name", "value", "travels"), TRAVELS, ids=[name for name, _, _ in TRAVELS])
def test_a_variable_travels_unless_it_belongs_to_one_process_or_session(name, value, travels):
    assert travelling({name: value}) == ({name: value} if travels else {})


def test_what_a_library_sets_while_it_is_imported_is_no_variable_of_the_notebook(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", sys)
    assert travelling({"KMP_DUPLICATE_LIB_OK": "True"}, {}) == {}
    # A person's own value travels, and one that the process was started with.
    assert travelling({"KMP_DUPLICATE_LIB_OK": "TRUE"}, {}) == {"KMP_DUPLICATE_LIB_OK": "TRUE"}
    assert travelling({"KMP_DUPLICATE_LIB_OK": "True"}, {"KMP_DUPLICATE_LIB_OK": "True"})
    monkeypatch.delitem(sys.modules, "sklearn")
    assert travelling({"KMP_DUPLICATE_LIB_OK": "True"}, {})


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("HF_TOKEN", "hf_x", True),
        ("AWS_SECRET_ACCESS_KEY", "very", True),
        ("DB_PASSWORD", "pw", True),
        ("DATABASE", "postgres://me:pw@host/db", True),
        ("MINE", "ghp_abcdefghijklmnop1234", True),
        ("HF_TOKEN", "", False),
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("PYTHONHASHSEED", "0", False),
        ("DATABASE", "postgres://host/db", False),
        ("X", "1", False),
    ],
)
def test_a_secret_is_known_by_its_name_or_its_look(name, value, secret):
    assert holds_secret(name, value) is secret


def test_of_secrets_only_keyed_hashes_are_recorded(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = recorded({"X": "1", "HF_TOKEN": "hf_very_secret"})
    assert found.env == {"X": "1"}
    assert list(found.secrets) == ["HF_TOKEN"]
    assert "very" not in json.dumps(found.secrets)
    assert recorded({"HF_TOKEN": "hf_very_secret"}).secrets == found.secrets
    assert recorded({"HF_TOKEN": "another"}).secrets != found.secrets
    assert at_hand(found.secrets, {"HF_TOKEN": "hf_very_secret", "X": "2"}) == {"HF_TOKEN": "hf_very_secret"}
    assert at_hand(found.secrets, {"HF_TOKEN": "another"}) == at_hand(found.secrets, {}) == {}
    assert (tmp_path / "workbench" / "key").stat().st_mode & 0o777 == 0o600
    # Another person has another key: the same value is not recognised.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert recorded({"HF_TOKEN": "hf_very_secret"}).secrets != found.secrets


def test_no_key_is_made_where_there_is_no_secret(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert recorded({"X": "1"}).secrets == {}
    assert not (tmp_path / "state").exists()


def test_variables_are_those_of_this_moment(monkeypatch):
    monkeypatch.setenv("SET_IN_A_CELL", "1")
    assert variables.here().env["SET_IN_A_CELL"] == "1"
    monkeypatch.delenv("SET_IN_A_CELL")
    assert "SET_IN_A_CELL" not in variables.here().env


def test_a_value_that_is_no_utf8_is_recorded_and_comes_back():
    code = "import json; from workbench.snapshot.surroundings import variables; print(json.dumps(variables.here().env))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, b"ODD": b"a\xff"}, capture_output=True, check=True
    )
    assert os.fsencode(json.loads(done.stdout)["ODD"]) == b"a\xff"


def test_values_are_kept_for_one_experiment_of_one_store_until_they_are_forgotten(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    store, other = tmp_path / "store", tmp_path / "other"
    store.mkdir()
    other.mkdir()
    private.keep(store, "e1", {"HF_TOKEN": "one"})
    private.keep(store, "e1", {"API_KEY": "two"})
    assert private.kept(store, "e1") == {"HF_TOKEN": "one", "API_KEY": "two"}
    assert private.kept(other, "e1") == private.kept(store, "e2") == {}
    [file] = (tmp_path / "state" / "workbench" / "secrets").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    private.forget(store, "e1")
    assert private.kept(store, "e1") == {}


def test_values_whose_store_is_gone_are_removed(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    gone, store = tmp_path / "gone", tmp_path / "store"
    gone.mkdir()
    store.mkdir()
    private.keep(gone, "e1", {"HF_TOKEN": "one"})
    gone.rmdir()
    private.keep(store, "e1", {"HF_TOKEN": "one"})
    assert private.kept(gone, "e1") == {}
    assert private.kept(store, "e1") == {"HF_TOKEN": "one"}

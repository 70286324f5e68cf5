"""Training's variables and settings are the launching process's, whatever shell the engine was started in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from running import ended, engine, lines, until

from workbench.records import Spec
from workbench.store import Store, private
from workbench.store.series import Series

#: What a person runs. Training writes down what it sees when its set-up begins, in each leg.
LAUNCH = """
import json, os, sys
{before}
import workbench as wb

def train(trial, lr=wb.uniform(0.0, 1.0)):
    import json, os, sys
    {inside}
    with open("{name}.jsonl", "a") as file:
        file.write(json.dumps({{"trial": trial.number, "env": dict(os.environ), **told}}) + "\\n")
    for epoch in trial.steps():
        trial.report(score=lr * epoch)

exp = wb.Experiment("{name}", train, goal=wb.maximize("score"), scheduler=wb.Hyperband(max_steps=3), store=sys.argv[1]
    {options})
exp.start()
{after}
print(exp.id)
"""
#: What the engine's own shell has, and no notebook.
ENGINES = {"ENGINES_OWN": "1", "KMP_DUPLICATE_LIB_OK": "FALSE", "LANG": "C", "BOTH": "engine", "LD_LIBRARY_PATH": "/no"}


@pytest.fixture
def store(tmp_path: Path):
    """A store whose engine was started in a shell of its own."""
    found = Store(tmp_path / "store")
    with engine(found, **ENGINES):
        yield found


def around(**more: str) -> dict[str, str]:
    """The variables of a person's shell."""
    return {**{name: value for name, value in os.environ.items() if name not in ENGINES}, **more}


def launched(
    store: Store,
    *,
    before: str = "",
    inside: str = "told = {}",
    after: str = "exp.wait()",
    options: str = "",
    name: str = "env",
    env: dict | None = None,
) -> tuple[Spec, list[dict]]:
    """Run the script in a shell with the variables ``env``; the spec, and what training saw."""
    folder = store.root.parent
    text = LAUNCH.format(before=before, inside=inside, after=after, options=options, name=name)
    (folder / "launch.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "launch.py", str(store.root)],
        cwd=folder,
        env=env if env is not None else around(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return store.read_spec(done.stdout.split()[-1]), seen(store, name)


def seen(store: Store, name: str = "env") -> list[dict]:
    path = store.root.parent / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_training_has_the_variables_of_the_launch_and_none_of_the_engines(store: Store) -> None:
    env = around(MINE="1", BOTH="mine", OMP_NUM_THREADS="7", TERM="xterm", PYTHONHASHSEED="5", SSH_CLIENT="10.0.0.1")
    spec, legs = launched(
        store,
        before='os.environ["SET_IN_A_CELL"] = "1"; os.environ.pop("HOME", None)',
        inside='os.environ["SET_INSIDE"] = "1"; told = {"hash": hash("a"), "threads": os.environ["OMP_NUM_THREADS"]}',
        env={**env, **{os.fsdecode(b"ODD\\xff"): os.fsdecode(b"\xff")}},
    )
    assert len(legs) > 3
    for leg in legs:
        found = leg["env"]
        assert (found["MINE"], found["BOTH"], found["SET_IN_A_CELL"]) == ("1", "mine", "1")
        assert not {"ENGINES_OWN", "KMP_DUPLICATE_LIB_OK", "LD_LIBRARY_PATH", "TERM", "SSH_CLIENT", "HOME"} & found.keys()
        assert found.get("LANG") == env.get("LANG")
        assert found[os.fsdecode(b"ODD\\xff")] == os.fsdecode(b"\xff")
        assert (leg["threads"], found["PYTHONHASHSEED"]) == ("1", "5")
    # What training sets in its own process stays there: no later leg has it, and no record.
    assert all(leg["env"].keys() == legs[0]["env"].keys() for leg in legs)
    assert len({leg["hash"] for leg in legs}) == 1
    assert spec.training.is_whole
    assert spec.training.env["SET_IN_A_CELL"] == "1"
    assert not {"SET_INSIDE", "ENGINES_OWN", "TERM", "OMP_NUM_THREADS"} & spec.training.env.keys()


def test_two_shells_share_what_is_imported_and_neither_sees_the_others_variables(store: Store) -> None:
    """Variables that only Python code reads are set in the runner; those that are read at load have processes apart."""
    pids = 'told = {"parent": os.getppid()}'
    first = launched(store, inside=pids, name="one", env=around(MINE="1", ONLY_ONE="1"))[1]
    second = launched(store, inside=pids, name="two", env=around(MINE="2"))[1]
    third = launched(store, inside=pids, name="three", env=around(MINE="3", KMP_AFFINITY="compact"))[1]
    assert {leg["env"]["MINE"] for leg in first} == {"1"}
    assert {leg["env"]["MINE"] for leg in second} == {"2"}
    assert not any("ONLY_ONE" in leg["env"] for leg in second)
    forkservers = [{leg["parent"] for leg in legs} for legs in (first, second, third)]
    assert forkservers[1] <= forkservers[0]
    assert not forkservers[2] & forkservers[0]
    assert {leg["env"]["KMP_AFFINITY"] for leg in third} == {"compact"}


def test_an_environment_larger_than_a_program_may_be_started_with_travels_whole(store: Store) -> None:
    many = "os.environ.update({f'MANY_{n}': 'm' * 90_000 for n in range(20)})"
    _, legs = launched(store, before=f'os.environ["LONG"] = "x" * 300_000; {many}', env=around())
    assert {len(leg["env"]["LONG"]) for leg in legs} == {300_000}
    assert {sum(name.startswith("MANY_") for name in leg["env"]) for leg in legs} == {20}


def test_secrets_reach_training_and_nothing_else(store: Store, tmp_path: Path) -> None:
    secret, address = "hf_AbCdEfGhIjKlMnOpQrStUvWx", "postgres://me:open-sesame@db/x"
    spec, legs = launched(
        store,
        env=around(HF_TOKEN=secret, DATABASE=address),
        inside='told = {"token": os.environ.get("HF_TOKEN"), "database": os.environ.get("DATABASE")}',
    )
    assert {(leg["token"], leg["database"]) for leg in legs} == {(secret, address)}
    assert spec.training.secrets.keys() >= {"HF_TOKEN", "DATABASE"}
    for path in store.root.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert secret.encode() not in data, path
            assert b"open-sesame" not in data, path
    assert lines(store, spec, "Lacks") == []
    # They are kept outside of the store, and no longer than they are needed.
    until(lambda: private.kept(store.root, spec.id) == {}, 30, "the secrets to be forgotten")


def test_secrets_that_are_gone_are_named_and_come_back_with_the_next_launch(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    inside = """told = {"token": os.environ.get("HF_TOKEN")}
    import pathlib, time
    while trial.number == 0 and not pathlib.Path("go").exists():
        time.sleep(0.01)"""
    secret = around(HF_TOKEN="hf_AbCdEfGhIjKlMnOpQrStUvWx")
    with engine(store, **ENGINES):
        spec, _ = launched(store, inside=inside, after="exp.pause()", env=secret)
        assert private.kept(store.root, spec.id) == {"HF_TOKEN": secret["HF_TOKEN"]}
    # The machine was started anew, and nothing is kept: an engine goes on with what there is, and says what is missing.
    private.forget(store.root, spec.id)
    (tmp_path / "go").touch()
    command = [sys.executable, "-m", "workbench", "--store", str(store.root)]
    with engine(store, **ENGINES, HF_TOKEN="the engine's"):
        subprocess.run([*command, "resume", spec.label], env=around(), check=True, capture_output=True)
        assert ended(store, spec) == "completed"
    assert lines(store, spec, "Lacks")[0]["names"] == ["HF_TOKEN"]
    assert "the engine's" not in {leg["token"] for leg in seen(store)}
    assert None in {leg["token"] for leg in seen(store)}
    shown = subprocess.run([*command, "show", spec.label], env=around(), check=True, capture_output=True, text=True)
    assert "HF_TOKEN" in shown.stdout
    with Series.read(store.experiment(spec.id).series) as series:
        assert series.meta()["lacks"] == ["HF_TOKEN"]
    (tmp_path / "env.jsonl").unlink()
    with engine(store, **ENGINES):
        subprocess.run([*command, "extend", spec.label, "--trials", "3"], env=secret, check=True, capture_output=True)
        assert ended(store, spec) == "completed"
        until(lambda: seen(store), 60, "a leg of the extension")
        until(lambda: lines(store, spec, "Lacks")[-1]["names"] == [], 60, "the word that nothing is missing")
    assert {leg["token"] for leg in seen(store)} == {secret["HF_TOKEN"]}


SETTINGS = """
import torch, numpy, warnings, decimal
torch.set_default_dtype(torch.float64)
torch.set_num_threads(3)
torch.use_deterministic_algorithms(True, warn_only=True)
numpy.seterr(over="raise")
warnings.simplefilter("error", RuntimeWarning)
decimal.getcontext().prec = 50
"""
LOOK = """import torch, numpy, warnings, decimal
    told = {"dtype": str(torch.get_default_dtype()), "threads": torch.get_num_threads(),
            "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(), "over": numpy.geterr()["over"],
            "prec": decimal.getcontext().prec, "filter": warnings.filters[0][0] if False else
            any(f[0] == "error" and f[2] is RuntimeWarning for f in warnings.filters), "pid": os.getpid()}"""


def test_settings_that_cells_made_hold_in_every_leg(store: Store) -> None:
    spec, legs = launched(store, before=SETTINGS, inside=LOOK)
    told = [{key: value for key, value in leg.items() if key not in ("env", "trial", "pid")} for leg in legs]
    wanted = {"dtype": "torch.float64", "threads": 3, "warn_only": True, "over": "raise", "prec": 50, "filter": True}
    assert told == [wanted] * len(legs)
    assert len({leg["pid"] for leg in legs}) < len(legs)  # runners were used again, and have them still
    assert spec.training.threads == 3
    assert spec.training.settings["torch.set_default_dtype"] == "torch.float64"


def test_settings_hold_where_torch_is_imported_by_the_training_code_alone(store: Store) -> None:
    """The script that launches forgets torch before it says what is to be imported ahead."""
    before = SETTINGS + "import workbench.launch\nworkbench.launch._HEAVY = ('numpy',)"
    _, legs = launched(store, before=before, inside=LOOK)
    assert {(leg["dtype"], leg["threads"], leg["warn_only"]) for leg in legs} == {("torch.float64", 3, True)}


def test_threads_are_as_many_as_were_asked_for(store: Store) -> None:
    inside = 'import torch; told = {"threads": torch.get_num_threads()}'
    cores = len(os.sched_getaffinity(0))
    spec, legs = launched(store, options=f", threads={cores}", inside=inside, env=around(OMP_NUM_THREADS="1"))
    assert {(leg["threads"], leg["env"]["OMP_NUM_THREADS"]) for leg in legs} == {(cores, str(cores))}
    assert spec.training.threads == cores


@pytest.mark.parametrize("before", ["torch.overrides.TorchFunctionMode().__enter__()"])
def test_a_setting_that_cannot_travel_is_refused_before_anything_is_written(store: Store, before: str) -> None:
    with pytest.raises(AssertionError, match="BadSetting: TorchFunctionMode cannot travel"):
        launched(store, before=f"import torch; {before}")
    assert store.experiment_ids() == []

"""Training's variables and settings are the launching process's, whatever shell the engine was started in."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook_kernel import Kernel
from running import ended, engine, lines, until

from workbench.records import Spec
from workbench.store import Store, requests
from workbench.store.owner import private
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
        trial.report(score=lr * epoch + float(os.environ.get("SHIFT", "0")))

exp = wb.Experiment("{name}", train, goal=wb.maximize("score"), scheduler=wb.Hyperband(max_steps=3), store=sys.argv[1]
    {options})
exp.start(again=True)
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
        env={**env, os.fsdecode(b"ODD\\xff"): os.fsdecode(b"\xff")},
    )
    assert len(legs) > 3
    for leg in legs:
        found = leg["env"]
        assert (found["MINE"], found["BOTH"], found["SET_IN_A_CELL"]) == ("1", "mine", "1")
        assert (
            not {"ENGINES_OWN", "KMP_DUPLICATE_LIB_OK", "LD_LIBRARY_PATH", "TERM", "SSH_CLIENT", "HOME"} & found.keys()
        )
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
    # The second run of a first leg's set-up is a runner's child; here its parents are looked at.
    pids = 'told = {"parent": os.getppid()}'
    first = launched(store, inside=pids, name="one", options=", verify=False", env=around(MINE="1", ONLY_ONE="1"))[1]
    second = launched(store, inside=pids, name="two", options=", verify=False", env=around(MINE="2"))[1]
    third = launched(
        store, inside=pids, name="three", options=", verify=False", env=around(MINE="3", KMP_AFFINITY="compact")
    )[1]
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


def test_an_engines_successor_has_the_secrets(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    inside = 'told = {"token": os.environ.get("HF_TOKEN")}'
    secret = around(HF_TOKEN="hf_AbCdEfGhIjKlMnOpQrStUvWx")
    with engine(store, **ENGINES) as first:
        spec, _ = launched(store, inside=inside, after="exp.pause()", env=secret)
        first.kill()
        first.wait()
    with engine(store, **ENGINES):
        command(store, "resume", spec.label, env=around())
        assert ended(store, spec) == "completed"
    assert {leg["token"] for leg in seen(store)} == {secret["HF_TOKEN"]}
    assert lines(store, spec, "Lacks") == []


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
    # As after a reboot, no secret is kept: the engine continues without the secrets, and says which are missing.
    private.forget(store.root, spec.id)
    (tmp_path / "go").touch()
    with engine(store, **ENGINES, HF_TOKEN="the engine's"):
        command(store, "resume", spec.label, env=around())
        assert ended(store, spec) == "completed"
    assert lines(store, spec, "Lacks")[0]["names"] == ["HF_TOKEN"]
    assert "the engine's" not in {leg["token"] for leg in seen(store)}
    assert None in {leg["token"] for leg in seen(store)}
    assert "HF_TOKEN (missing: HF_TOKEN; `workbench resume`" in command(store, "show", spec.label, env=around())
    with Series.read(store.experiment(spec.id).series) as series:
        assert series.meta()["lacks"] == ["HF_TOKEN"]
    (tmp_path / "env.jsonl").unlink()
    with engine(store, **ENGINES):
        command(store, "extend", spec.label, "--trials", "3", env=secret)
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
    inside = 'told = {"threads": torch.get_num_threads()}'
    cores = len(os.sched_getaffinity(0))
    # Torch is imported ahead then, and not by each runner.
    options, env = f", threads={cores}", around(OMP_NUM_THREADS="1")
    spec, legs = launched(store, before="import torch", options=options, inside=inside, env=env)
    assert {(leg["threads"], leg["env"]["OMP_NUM_THREADS"]) for leg in legs} == {(cores, str(cores))}
    assert spec.training.threads == cores


@pytest.mark.parametrize("before", ["torch.overrides.TorchFunctionMode().__enter__()"])
def test_a_setting_that_cannot_travel_is_refused_before_anything_is_written(store: Store, before: str) -> None:
    with pytest.raises(AssertionError, match="BadSetting: TorchFunctionMode cannot be sent"):
        launched(store, before=f"import torch; {before}")
    assert store.experiment_ids() == []


def command(store: Store, *words: str, env: dict, code: int = 0) -> str:
    """What the command line prints in a shell with the variables ``env``."""
    done = subprocess.run(
        [sys.executable, "-m", "workbench", "--store", str(store.root), *words],
        cwd=store.root.parent,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_a_replay_from_another_shell_is_the_same_and_blames_nothing(store: Store) -> None:
    mine = around(SHIFT="2.5", HF_TOKEN="hf_AbCdEfGhIjKlMnOpQrStUvWx")
    inside = 'told = {"token": os.environ.get("HF_TOKEN"), "shift": os.environ.get("SHIFT")}'
    spec, _ = launched(store, before="import numpy; numpy.seterr(all='raise')", inside=inside, env=mine)
    other = {**mine, "SHIFT": "9", "KMP_DUPLICATE_LIB_OK": "TRUE", "OMP_DYNAMIC": "TRUE", "ONLY_HERE": "1"}
    said = command(store, "replay", "env@1/t0000", env=other)
    assert "Note" not in said
    assert "identical" in said
    replayed = store.read_spec(max(store.experiment_ids()))
    assert (replayed.training.env, replayed.training.secrets) == (spec.training.env, spec.training.secrets)
    assert replayed.training.settings["numpy.seterr"]["over"] == "raise"
    last = seen(store)[-1]
    assert (last["shift"], last["token"]) == ("2.5", mine["HF_TOKEN"])
    assert not {"KMP_DUPLICATE_LIB_OK", "ONLY_HERE"} & last["env"].keys()
    assert "nothing that is recorded differs" in command(store, "diff", "env@1/t0000", "env-replay@1/t0000", env=other)
    # The panel asks the engine, whose own variables do not count: what it cannot know is named.
    requests.put(store, {"kind": "replay", "experiment": spec.id, "trial": 0})
    made = until(lambda: (newest := max(store.experiment_ids())) != replayed.id and store.read_spec(newest), 30)
    assert ended(store, made) == "completed"
    assert (made.training.env, made.training.secrets) == (spec.training.env, spec.training.secrets)
    assert lines(store, made, "Lacks")[0]["names"] == ["HF_TOKEN"]
    # A secret of another value, or none, is said by name, and the replay has what is here.
    for token, words in (("another", "has a different value now"), (None, "is not set here")):
        there = {name: value for name, value in other.items() if name != "HF_TOKEN"}
        said = command(store, "replay", "env@1/t0000", env=there | ({"HF_TOKEN": token} if token else {}))
        assert f"HF_TOKEN, a secret, {words}" in said
        assert seen(store)[-1]["token"] == token
    assert "HF_TOKEN removed" in command(store, "diff", "env@1/t0000", "env-replay@4/t0000", env=other)


def test_diff_names_the_variables_and_settings_and_why_puts_them_back(store: Store) -> None:
    first = launched(store, env=around(SHIFT="1", KMP_AFFINITY="compact"))[0]
    second = launched(
        store,
        before="import numpy; numpy.seterr(over='raise')",
        env=around(SHIFT="3", ADDED="1"),
    )[0]
    told = json.loads(command(store, "diff", first.label, second.label, "--json", env=around()))
    [section] = [one for one in told["sections"] if one["kind"] == "environment"]
    items = {item["name"]: (item["a"], item["b"]) for item in section["items"]}
    assert items["SHIFT"] == ("1", "3")
    assert items["ADDED"] == (None, "1")
    assert items["KMP_AFFINITY"] == ("compact", None)
    assert items["numpy.seterr"][0] == "as usual"
    assert section["summary"].startswith("numpy.seterr")
    said = command(store, "why", f"{first.label}/t0000", f"{second.label}/t0000", env=around(SHIFT="77"))
    assert "environment" in said
    assert {leg["env"].get("SHIFT") for leg in seen(store)} == {"1", "3"}


@contextlib.contextmanager
def cluster(folder: Path, env: dict) -> Iterator[str]:
    """The address of Dask's scheduler with one worker, both started in a shell with the variables ``env``."""
    dask = (sys.executable, "-m")
    file = folder / "scheduler.json"
    told = ("--scheduler-file", str(file), "--no-dashboard")
    with contextlib.ExitStack() as ending:
        for words in (("distributed.cli.dask_scheduler", "--port", "0"), ("distributed.cli.dask_worker", "--no-nanny")):
            process = subprocess.Popen([*dask, *words, *told], env=env, stderr=subprocess.DEVNULL, cwd=folder)
            ending.callback(process.wait)
            ending.callback(process.terminate)
            until(file.exists, 60, "the scheduler")
        yield json.loads(file.read_text())["address"]


def test_a_worker_that_was_started_in_another_shell_gives_its_gpu_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    token = around(HF_TOKEN="hf_AbCdEfGhIjKlMnOpQrStUvWx", MINE="1")
    shell = around(WORKERS_OWN="1", CUDA_VISIBLE_DEVICES="7", HF_TOKEN="the worker's", HOSTNAME="node7")
    with cluster(tmp_path, shell) as address, engine(store, **ENGINES, WORKBENCH_CLUSTER=address):
        _, legs = launched(store, env=token)
        for leg in legs:
            found = leg["env"]
            assert (found["MINE"], found["HF_TOKEN"], found["HOSTNAME"]) == ("1", token["HF_TOKEN"], "node7")
            assert found["CUDA_VISIBLE_DEVICES"] == "7"
            assert not {"WORKERS_OWN", *ENGINES} & found.keys() - {"LANG"}
        _, legs = launched(store, env={**token, "CUDA_VISIBLE_DEVICES": ""}, name="cpu")
        assert {leg["env"]["CUDA_VISIBLE_DEVICES"] for leg in legs} == {""}


CELL = """%%train digits --goal max score --steps 1-3 --wait {options}
lr = uniform(0.0, 1.0)
import json, os, warnings
for epoch in trial.steps():
    trial.report(score=lr * epoch)
with open("seen.jsonl", "a") as file:
    filters = any(one[0] == "ignore" and one[2] is Warning for one in warnings.filters)
    file.write(json.dumps({{"x": os.environ.get("X"), "jupyter": sorted(n for n in os.environ if "JPY" in n),
                            "ignored": filters}}) + "\\n")
"""


def test_what_cells_of_a_notebook_have_set_is_trainings(store: Store) -> None:
    folder = store.root.parent
    kernel = Kernel(folder, WORKBENCH_HOME=str(store.root), OMP_NUM_THREADS="6", JPY_SESSION_NAME="x.ipynb")
    try:
        kernel.run('import os, warnings\nos.environ["X"] = "1"\nwarnings.simplefilter("ignore")')
        said = kernel.run(CELL.format(options=""))
        assert "OMP_NUM_THREADS=6 is not passed on: a trial uses 1 thread; set another number with --threads" in said
        told = seen(store, "seen")
        assert told
        assert {(one["x"], tuple(one["jupyter"]), one["ignored"]) for one in told} == {("1", (), True)}
        assert "settings   warnings.filters ignore Warning\n" in command(store, "show", "digits", env=around())
        # A twin is shown as before; what cannot travel is refused, and nothing is written.
        kernel.run("class Mine(UserWarning): pass\nwarnings.simplefilter('error', Mine)")
        with pytest.raises(AssertionError, match="Mine cannot be sent to the processes that train"):
            kernel.run(CELL.format(options="--seed 1"))
        assert len(store.experiment_ids()) == 1
        with pytest.raises(AssertionError, match="--threads 0: expected a whole number from 1 to"):
            kernel.run(CELL.format(options="--threads 0"))
    finally:
        kernel.end()

"""Where the time of a trial's steps goes: real trials are trained again under torch's profiler."""

from __future__ import annotations

import dataclasses
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from running import ended, engine, spec_of, start

from workbench.errors import BadOption, NotFound, TrialFailed, Untrusted
from workbench.records import Argument, Keep, Program, Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store
from workbench.trial.api.trial import LegLeft
from workbench.trial.profile.ordering import profile
from workbench.trial.profile.spans import Shares, Span, divided
from workbench.trial.profile.verdict import verdict
from workbench.trial.profile.window import Window

WAITS = """
import time, torch
from torch.utils.data import DataLoader, Dataset
x = uniform(0.0, 1.0)
class Slow(Dataset):
    def __len__(self):
        return 16
    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.randn(8)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = DataLoader(Slow(), 4)
for epoch in trial.steps():
    for rows in batches:
        optimizer.zero_grad()
        loss = model(rows).pow(2).mean()
        loss.backward()
        optimizer.step()
    trial.report(score=x)
"""

COMPUTES = """
import torch
x = uniform(0.0, 1.0)
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(3)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
rows = torch.randn(1024, 1024)
for epoch in trial.steps():
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(rows).mean()
        loss.backward()
        optimizer.step()
    trial.report(score=x)
"""

MOVES = """
import torch
x = uniform(0.0, 1.0)
rows = torch.randn(4_000_000)
for epoch in trial.steps():
    for _ in range(10):
        sums = rows + 1.0
        sums.mul_(0.5)
        rows = rows * 0.9 + sums
    trial.report(score=x)
"""

COPIES = """
import torch
x = uniform(0.0, 1.0)
rows = torch.randn(4_000_000)
for epoch in trial.steps():
    for _ in range(10):
        rows = rows.to(torch.float64).to(torch.float32)
    trial.report(score=x)
"""

FAILS = """
import torch
x = uniform(0.0, 1.0)
with open("count.txt", "a") as file:
    file.write("x")
for epoch in trial.steps():
    if open("count.txt").read() != "x":
        torch.zeros(2) @ torch.zeros(3)
    trial.report(score=x)
"""

PLAIN = """
x = uniform(0.0, 1.0)
import time
def slow():
    time.sleep(0.05)
def busy():
    return sum(number * number for number in range(200_000))
for epoch in trial.steps():
    slow() if x < 2 else busy()
    trial.report(score=x)
"""

OWN = """
import torch
x = uniform(0.0, 1.0)
rows = torch.randn(512, 512)
for epoch in range(1, 100):
    for _ in range(20):
        rows = (rows @ rows).softmax(1)
    if not trial.report(score=x, step=epoch):
        break
"""

SPAWNED = WAITS.replace("(Slow(), 4)", "(Slow(), 4, num_workers=1, multiprocessing_context='spawn')")

PRINTS = """
import sys, torch
assert sys.argv[1] == "--x"
rows = torch.randn(512, 512) + float(sys.argv[2])
for epoch in range(50):
    for _ in range(20):
        rows = (rows @ rows).softmax(1)
    print(f"epoch {epoch} score={rows.mean().item():.4f}")
"""

CODE = {"waits": WAITS, "computes": COMPUTES, "moves": MOVES, "copies": COPIES, "fails": FAILS, "plain": PLAIN,
        "busy": PLAIN.replace("x < 2", "x > 2"), "own": OWN, "spawned": SPAWNED}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Each program of CODE, trained for four steps."""
    folder = tmp_path_factory.mktemp("home")
    store = Store(folder / "store").create()
    specs = [_spec(source, folder, name) for name, source in CODE.items()]
    file = folder / "prints.py"
    file.write_text(PRINTS)
    script = Program("script", PRINTS, str(file), arguments=(Argument("--x", "x"),), metrics=(r"score=(\S+)",))
    specs.append(dataclasses.replace(_spec(PRINTS, folder, "prints"), program=script))
    with engine(store, workers=2):
        for spec in specs:
            start(store, spec)
        for spec in specs:
            assert ended(store, spec) == "completed"
    return store


def _spec(source: str, folder: Path, name: str, **fields: Any) -> Spec:
    return spec_of(
        source, folder, space={"x": uniform(0.0, 1.0)}, scheduler=Scheduler("all", 1, 4), trials=1, name=name,
        verify=False, keep=Keep.of("all"), **fields,
    )  # fmt: skip


def content(store: Store) -> dict[str, tuple[int, int]]:
    """Size and time of every file of a store."""
    files = (path for path in store.root.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def line_of(told: dict[str, Any]) -> str:
    """The costliest line."""
    text: str = told["lines"][0]["text"]
    return text


# The first one also waits for the searches of this file and for torch: together two minutes on a slow, busy machine.
@pytest.mark.timeout(300)
def test_a_slow_data_set_waits_for_data_and_its_line_is_the_costliest(store: Store, tmp_path: Path) -> None:
    before = content(store)
    told = profile(store, "waits/t0000", folder=tmp_path / "out", slots=1)
    assert content(store) == before
    assert told["trial"] == "waits@1/t0000"
    assert told["device"] == "cpu"
    assert told["steps"] == {"whole": 3, "updates": 12, "before": 1}
    assert told["shares"]["data"] > 0.8
    assert sum(told["shares"].values()) == pytest.approx(1)
    assert told["verdict"]["limit"] == "data"
    assert told["verdict"]["words"].startswith("It waits for data: ")
    assert told["verdict"]["advice"][0].startswith("`batches`: DataLoader(…, num_workers=")
    assert line_of(told) == "time.sleep(0.02)"
    assert told["lines"][0]["file"] == "<waits@1>"
    assert WAITS.splitlines()[told["lines"][0]["number"] - 1].strip() == "time.sleep(0.02)"
    assert told["lines"][0]["share"] > 0.8
    assert told["memory"]["process"] > 50_000_000
    assert told["memory"]["gpu"] is None
    with gzip.open(told["trace"], "rt") as file:
        names = {one.get("name", "") for one in json.load(file)["traceEvents"]}
    assert Path(told["trace"]) == tmp_path / "out" / "waits-1-t0000.trace.json.gz"
    assert any(name.startswith("enumerate(DataLoader)") for name in names)
    assert "aten::addmm" in names


def test_matrices_are_arithmetic(store: Store, tmp_path: Path) -> None:
    told = profile(store, "computes/t0000", folder=tmp_path)
    assert told["verdict"]["limit"] == "arithmetic"
    assert told["shares"]["arithmetic"] > 0.6
    assert told["shares"]["data"] == 0
    assert {one["text"] for one in told["lines"][:2]} == {"loss = model(rows).mean()", "loss.backward()"}


@pytest.mark.parametrize(
    ("name", "part", "words"), [("moves", "memory", "torch.compile"), ("copies", "copying", "cop")]
)
def test_large_elementwise_operations_and_copies_are_limited_by_memory(
    store: Store, tmp_path: Path, name: str, part: str, words: str
) -> None:
    told = profile(store, f"{name}/t0000", folder=tmp_path, steps=2)
    assert told["steps"]["whole"] == 2
    assert told["verdict"]["limit"] == "memory"
    assert told["verdict"]["words"].startswith("It is limited by memory: ")
    assert told["shares"][part] > 0.6
    assert any(words in one for one in told["verdict"]["advice"])


def test_a_loop_that_counts_its_own_steps_is_measured_by_its_reports(store: Store, tmp_path: Path) -> None:
    told = profile(store, "own/t0000", folder=tmp_path, steps=2)
    assert told["steps"] == {"whole": 2, "updates": 0, "before": 1}
    assert line_of(told) == "rows = (rows @ rows).softmax(1)"


def test_a_script_has_its_arguments_and_its_steps_are_what_it_prints(store: Store, tmp_path: Path) -> None:
    told = profile(store, "prints/t0000", folder=tmp_path, steps=2)
    assert told["steps"] == {"whole": 2, "updates": 0, "before": 1}
    assert line_of(told) == "rows = (rows @ rows).softmax(1)"
    assert told["lines"][0]["file"].endswith("prints.py")


def test_workers_that_are_spawned_find_the_data_set_and_the_setting_is_theirs(store: Store, tmp_path: Path) -> None:
    told = profile(store, "spawned/t0000", folder=tmp_path, steps=1)
    assert told["verdict"]["limit"] == "data"
    assert "persistent_workers=True" in told["verdict"]["advice"][0]
    assert line_of(told) == "for rows in batches:"


def test_no_more_steps_are_trained_than_the_trial_has(store: Store, tmp_path: Path) -> None:
    assert profile(store, "moves/t0000", folder=tmp_path, steps=100)["steps"]["whole"] == 3


@pytest.mark.parametrize(
    ("name", "word", "line"),
    [("plain", "It waits for ", "time.sleep(0.05)"), ("busy", "It computes for ", "return sum(")],
)
def test_code_without_torch_has_its_lines_and_no_shares(
    store: Store, tmp_path: Path, name: str, word: str, line: str
) -> None:
    told = profile(store, f"{name}/t0000", folder=tmp_path)
    assert told["shares"] is told["trace"] is told["verdict"]["limit"] is None
    assert told["verdict"]["words"].startswith(word)
    assert line_of(told).startswith(line)
    assert not list(tmp_path.iterdir())


def test_a_trial_that_fails_says_where(store: Store, tmp_path: Path) -> None:
    with pytest.raises(TrialFailed, match=r"t0000 failed before it was measured: RuntimeError: .*\(line 8\)"):
        profile(store, "fails/t0000", folder=tmp_path)


def test_what_cannot_be_profiled_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"names an experiment; expected a trial of it\. For example: waits@1/t0000"):
        profile(store, "waits")
    with pytest.raises(BadOption, match=r"a trial is profiled from its beginning\. Leave out :2"):
        profile(store, "waits/t0000:2")
    with pytest.raises(NotFound):
        profile(store, "waits/t0009")
    with pytest.raises(NotFound):
        profile(store, "none/t0000")
    waiting = _spec(WAITS, tmp_path, "later")
    store.write_spec(waiting)
    with pytest.raises(NotFound, match="later@1 has not started"):
        profile(store, f"{waiting.id}/t0000")


def test_nothing_of_another_user_runs_unasked(store: Store, tmp_path: Path) -> None:
    import workbench as wb

    wb.open("moves", store=store).publish(str(tmp_path / "page"))
    theirs = wb.open(str(tmp_path / "page"))
    with pytest.raises(Untrusted):
        profile(theirs.store, f"{theirs.id}/t0000", folder=tmp_path)


def test_the_command_line_prints_the_same(store: Store, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "workbench", "--store", str(store.root), "profile"]
    command = [*words, "waits/t0000", "--steps", "1"]
    done = subprocess.run([*command, "--output", "out"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("waits@1/t0000: 1 step in ")
    file = tmp_path / "out" / "waits-1-t0000.trace.json.gz"
    for part in ("waiting for data", "It waits for data: ", "- `batches`: DataLoader(…, num_workers=", "<waits@1>:9",
                 "time.sleep(0.02)", str(file)):  # fmt: skip
        assert part in done.stdout
    done = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    assert told["verdict"]["limit"] == "data"
    assert told["steps"]["whole"] == 1
    done = subprocess.run([*words, "fails/t0000"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


# ---------------------------------------------------------------------------------------------------------------------
# Which part is measured


class Clocked:
    """A window whose clock the test sets, and what it did."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, steps: int = 2, is_warm: bool = False) -> None:
        self.now = 0.0
        self.did: list[str] = []
        monkeypatch.setattr("workbench.trial.profile.window.perf_counter", lambda: self.now)
        opens, closes = (lambda: self.did.append("opens")), (lambda: self.did.append("closes"))
        self.window = Window(steps, is_warm=is_warm, opens=opens, closes=closes)

    def until_left(self, *events: tuple[str, float]) -> int:
        """How many of the events (a method of the window, and when) came before the training code was left."""
        for count, (name, now) in enumerate(events):
            self.now = now
            try:
                getattr(self.window, name)()
            except LegLeft:
                return count + 1
        return 0


def test_the_first_step_is_left_out_and_the_training_code_is_left_after_the_last(monkeypatch: Any) -> None:
    one = Clocked(monkeypatch)
    assert one.until_left(("batch", 0), ("step", 1), ("batch", 1), ("update", 2), ("step", 3)) == 0
    assert one.did == ["opens"]
    assert one.until_left(("batch", 3), ("update", 4), ("step", 5), ("update", 6), ("step", 7), ("step", 8)) == 5
    assert one.did == ["opens", "closes"]
    assert (one.window.steps, one.window.updates, one.window.before) == (2, 2, 1)


def test_steps_of_minutes_are_measured_in_part(monkeypatch: Any) -> None:
    one = Clocked(monkeypatch)
    warm = [("step", 0.0), *(("batch", now) for now in (1.0, 2.0, 4.9))]
    assert one.until_left(*warm) == 0
    assert one.did == []
    assert one.until_left(*(("batch", float(now)) for now in range(6, 30))) == 11
    assert one.did == ["opens", "closes"]
    assert (one.window.opened, one.window.closed, one.window.steps) == (6, 16, 0)


def test_a_trial_of_one_step_has_no_warm_up(monkeypatch: Any) -> None:
    one = Clocked(monkeypatch, steps=1, is_warm=True)
    assert one.until_left(("batch", 0), ("step", 1)) == 0
    assert one.did == ["opens"]
    assert one.until_left(("step", 2)) == 1


def test_passes_of_a_set_up_open_nothing(monkeypatch: Any) -> None:
    one = Clocked(monkeypatch)
    assert one.until_left(*(("batch", float(now)) for now in range(60))) == 0
    one.window.close()
    assert one.did == []


# ---------------------------------------------------------------------------------------------------------------------
# From spans to shares, and from shares to words


def cpu(*spans: tuple[str, float, float]) -> list[Span]:
    return [Span(*one) for one in spans]


def gpu(*spans: tuple[str, float, float]) -> list[Span]:
    return [Span(*one, on_gpu=True) for one in spans]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], {"other": 1}),
        # An operation's time is its own; the rest of its caller's time is Python's, unless that is an operation too.
        (cpu(("aten::linear", 0, 6), ("aten::addmm", 1, 5), ("aten::copy_", 2, 3)),
         {"arithmetic": 0.5, "copying": 0.1, "other": 0.4}),
        (cpu(("Optimizer.step#SGD.step", 0, 6), ("aten::add_", 1, 3)), {"memory": 0.2, "other": 0.8}),
        # All that happens in a request for a batch is waiting; all that a copy calls is copying.
        (cpu(("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 5), ("aten::mm", 1, 3)),
         {"data": 0.5, "other": 0.5}),
        (cpu(("aten::to", 0, 4), ("aten::_to_copy", 0, 4), ("aten::add", 1, 2)), {"copying": 0.4, "other": 0.6}),
        # Parts outside of the window do not count.
        (cpu(("aten::mm", -5, 2), ("aten::add", 8, 20)), {"arithmetic": 0.2, "memory": 0.2, "other": 0.6}),
        # On a GPU its kernels count first, each moment once; then waiting.
        (cpu(("enumerate(DataLoader)#x", 0, 6), ("aten::mm", 6, 7))
         + gpu(("sm90_xmma_gemm", 0, 2), ("vectorized_elementwise_kernel", 1, 3), ("Memcpy HtoD", 2, 4)),
         {"arithmetic": 0.2, "memory": 0.1, "copying": 0.1, "data": 0.2, "other": 0.4}),
    ],
)  # fmt: skip
def test_every_moment_counts_once(spans: list[Span], expected: dict[str, float]) -> None:
    found = dataclasses.asdict(divided(spans, 0, 10))
    assert found == pytest.approx({**dict.fromkeys(found, 0.0), **expected}, abs=1e-5)


def test_a_small_operation_costs_its_call() -> None:
    assert divided(cpu(("aten::mm", 0, 1e-5), ("aten::add", 2e-5, 3e-5)), 0, 5e-5) == Shares()
    assert divided(cpu(("aten::mm", 0, 3e-5)), 0, 5e-5).arithmetic == pytest.approx(0.6)


def test_an_empty_window_has_no_shares() -> None:
    with pytest.raises(ValueError, match="is empty"):
        divided([], 1, 1)


@pytest.mark.parametrize(
    ("shares", "on_gpu", "limit", "advice"),
    [
        (Shares(data=0.6, arithmetic=0.4, other=0), False, "data", ["change the loader"]),
        (Shares(data=0.3, arithmetic=0.7, other=0), False, "arithmetic", ["change the loader", "it computes with"]),
        (Shares(data=0.1, arithmetic=0.9, other=0), True, "arithmetic", ["torch.autocast with bfloat16, or"]),
        (Shares(memory=0.9, other=0.1), False, "memory", ["torch.compile(model) joins"]),
        # Copying and elementwise operations are limited by the same.
        (Shares(copying=0.3, memory=0.3, arithmetic=0.4, other=0), True, "memory", ["torch.c", "copies take 30%: D"]),
        (Shares(copying=0.9, other=0.1), False, "memory", ["copies take 90%: leave out"]),
        (Shares(), False, "python", ["larger batches"]),
    ],
)  # fmt: skip
def test_the_largest_part_is_the_limit(shares: Shares, on_gpu: bool, limit: str, advice: list[str]) -> None:
    found = verdict(shares, on_gpu=on_gpu, loader="change the loader")
    assert found.limit == limit
    assert len(found.advice) == len(advice)
    assert all(one.startswith(begin) for one, begin in zip(found.advice, advice, strict=True))

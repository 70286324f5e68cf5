"""Scripts in real runners: they train as they would without Workbench, stop, are killed and resume bit for bit."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from trial.world import SOURCES, Server, points, said

from workbench.records import Argument, Program

TRAIN = """
    import argparse, os, sys
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    from workbench import trial

    def loss_of(model, x, y):
        return ((model(x) - y) ** 2).mean()

    class Config:
        pass

    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--lr", type=float, default=0.1)
        parser.add_argument("--layers", type=int, nargs="+", default=[2])
        parser.add_argument("--amp", action="store_true")
        args = parser.parse_args()
        print("begins as", __name__, os.path.basename(__file__), sys.argv[1:])
        data = torch.arange(32.0).reshape(8, 4) / 32
        loader = DataLoader(TensorDataset(data, data.sum(1, keepdim=True)), 4, shuffle=True)
        width = args.layers[0]
        model = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Dropout(0.3), torch.nn.Linear(width, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
        seen = 0
        for epoch in trial.steps():
            for x, y in loader:
                optimizer.zero_grad()
                loss = loss_of(model, x, y)
                loss.backward()
                optimizer.step()
                seen += len(x)
            trial.report(score=-loss.item(), seen=seen)
        print("after the loop")

    if __name__ == "__main__":
        sys.exit(main())
    """
ARGUMENTS = (Argument("--lr", "lr"), Argument("--layers", "layers"), Argument("--amp", "amp", True))
CONFIGURATION = {"lr": 0.05, "layers": [3, 1], "amp": False}


@pytest.fixture
def script(experiment: Any, tmp_path: Path) -> Any:
    """``script(source, …)``: an experiment whose program is a script's."""

    def make(source: str, arguments: tuple[Argument, ...] = (), **program: Any) -> Any:
        source, path = textwrap.dedent(source), tmp_path / "train.py"
        path.write_text(source)
        steps, goal, verify = program.pop("steps", 6), program.pop("goal", "max score"), program.pop("verify", True)
        made = Program("script", source, str(path), arguments=arguments, **program)
        return experiment(source, program=made, steps=steps, goal=goal, verify=verify)

    return make


def test_it_is_the_main_program_with_its_file_and_its_arguments(server, script):
    runner = server.runner()
    told = runner.leg(script(TRAIN, ARGUMENTS).order(configuration=CONFIGURATION))
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    runner.kill()
    shown = runner.output()
    assert "begins as __main__ train.py ['--lr', '0.05', '--layers', '3', '1']" in shown
    assert "after the loop" in shown


def test_a_killed_one_resumes_bit_for_bit(server, script):
    whole = points(server.runner().leg(script(TRAIN, ARGUMENTS).order(configuration=CONFIGURATION)))
    cell, heard = script(TRAIN, ARGUMENTS), {}
    for start, until in ((0, 1), (1, 3)):
        told = server.runner().leg(cell.order(until, start=start, configuration=CONFIGURATION))
        assert told[-1]["outcome"] == "reached"
        heard |= points(told)
    runner = server.runner()
    runner.connection.send(cell.order(6, start=3, levels=(4,), configuration=CONFIGURATION))
    heard |= points(runner.until("saved", step=4))
    runner.kill()
    told = server.runner().leg(cell.order(6, start=3, levels=(4,), configuration=CONFIGURATION))
    assert told[-1]["outcome"] == "completed"
    assert said(told, "begun")[0]["step"] >= 4
    assert (heard | points(told)) == whole


def test_distributions_in_its_text_are_replaced_by_the_trials_values(server, script):
    source = """
        import workbench as wb
        from workbench import trial
        def twice(x): return 2 * x
        lr = wb.loguniform(1e-4, 1.0, default=0.01)
        kind = wb.choice(twice, float, default=float)
        for step in trial.steps():
            trial.report(score=kind(lr) + step)
        """
    given = {"lr": 0.25, "kind": "twice"}
    cell = script(source, (Argument("--other", "other"),), steps=3)
    told = server.runner().leg(cell.order(1, configuration={**given, "other": 1}))
    told += server.runner().leg(cell.order(3, start=1, configuration={**given, "other": 1}))
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    assert [points(told)["score", step, 0] for step in (1, 2, 3)] == [0.5, 1.5, 2.5]


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        ("sys.exit(0)", "completed"),
        ("sys.exit()", "completed"),
        ("sys.exit(3)", "failed"),
        ("sys.exit('no')", "failed"),
    ],
)
def test_it_ends_as_scripts_end(server, script, end, outcome):
    source = f"""
        import sys
        from workbench import trial
        for step in trial.steps():
            trial.report(score=step)
        {end}
        """
    left = server.runner().leg(script(source).order())[-1]
    assert left["outcome"] == outcome
    assert outcome == "completed" or "its log may say why" in left["error"]["message"]


def test_an_argument_parsers_refusal_is_in_the_log(server, script):
    runner = server.runner()
    left = runner.leg(script(TRAIN, (Argument("--lrr", "lr"),)).order(configuration={"lr": 0.1}))[-1]
    runner.kill()
    assert left["outcome"] == "failed"
    assert "unrecognized arguments: --lrr 0.1" in runner.output()


PARSERS = {
    "click": (
        """
        import click
        @click.command()
        @click.option("--lr", type=float)
        @click.option("--amp/--no-amp", default=False)
        def main(lr, amp):
            train(lr, amp)
        """,
        ("--lr", "--amp"),
    ),
    "typer": (
        """
        import typer
        def train_it(lr: float = 0.0, amp: bool = False):
            train(lr, amp)
        def main():
            typer.run(train_it)
        """,
        ("--lr", "--amp"),
    ),
    "tyro": (
        """
        import dataclasses, tyro
        @dataclasses.dataclass
        class Optimizer:
            lr: float = 0.0  # the learning rate
            betas: tuple[float, float] = (0.9, 0.99)
        @dataclasses.dataclass(frozen=True)
        class Config:
            \"\"\"What is trained.\"\"\"
            optimizer: Optimizer = dataclasses.field(default_factory=Optimizer)
            amp: bool = False
        def main():
            cfg = tyro.cli(Config)
            train(cfg.optimizer.lr, cfg.amp)
        """,
        ("--optimizer.lr", "--amp"),
    ),
    "tyro, a function with subcommands": (
        """
        import dataclasses, tyro
        @dataclasses.dataclass
        class Adam:
            lr: float
            amp: bool = False
        @dataclasses.dataclass
        class Sgd:
            lr: float
            momentum: float = 0.9
            amp: bool = False
        def train_it(seed: int, optimizer: Adam | Sgd) -> None:
            \"\"\"Train it.

            Args:
                seed: not used.
                optimizer: which.
            \"\"\"
            train(optimizer.lr, optimizer.amp)
        def main():
            tyro.cli(train_it, config=(tyro.conf.FlagConversionOff,))
        """,
        ("--optimizer.lr", "--optimizer.amp=", "--seed", "1", "optimizer:sgd"),
    ),
    "hydra": (
        """
        import hydra, os
        from omegaconf import OmegaConf
        OmegaConf.register_new_resolver("session", lambda: str(os.getsid(0)), use_cache=True)
        @hydra.main(version_base=None, config_path="conf", config_name="config")
        def main(cfg):
            print(cfg.here)  # OmegaConf remembers it, and it is another one in each runner
            train(cfg.model.lr, cfg.amp == "yes")
        """,
        ("model.lr=", "+amp="),
    ),
    "by hand": (
        """
        import sys
        lr, amp = 0.0, False
        def main():
            for word in sys.argv[1:]:
                key, value = word[2:].split("=")
                globals()[key] = type(globals()[key])(eval(value))
            train(lr, amp)
        """,
        ("--lr=", "--amp="),
    ),
}


@pytest.mark.parametrize("name", PARSERS)
def test_every_kind_of_argument_parser_works(server, script, tmp_path, name):
    source, (lr, amp, *words) = PARSERS[name]
    head = """
        from workbench import trial
        def train(lr, amp):
            for step in trial.steps():
                trial.report(score=lr * (2 if amp else 1) + step)
        """
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").write_text("model:\n  lr: 0.0\nhere: ${session:}\n")
    whole = textwrap.dedent(head) + textwrap.dedent(source) + 'if __name__ == "__main__":\n    main()\n'
    values = Argument(lr, "lr"), Argument(amp, "amp", is_flag=not amp.endswith("="))
    arguments = (*map(Argument, words), *values)
    given = {"lr": 0.25, "amp": "yes" if name == "hydra" else True}
    cell = script(whole, arguments, steps=3, verify=False)  # nothing that differs is kept
    told = server.runner().leg(cell.order(2, configuration=given))
    assert told[-1]["outcome"] == "reached", told[-1]["error"]["traceback"]
    told += server.runner().leg(cell.order(3, start=2, configuration=given))
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    assert [points(told)["score", step, 0] for step in (1, 2, 3)] == [0.5, 1.5, 2.5]


def test_locals_of_a_library_of_another_folder_are_no_state(script, tmp_path):
    """Such as those of the user (pip install --user), or of the system."""
    installed = tmp_path / "lib" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "launches.py").write_text(
        "import os, types\ndef launched(task):\n    made = types.SimpleNamespace(at=os.urandom(8))\n    task()\n"
    )
    source = """
        from launches import launched
        from workbench import trial
        def main():
            for step in trial.steps():
                trial.report(score=step)
        launched(main)
        """
    cell = script(source, steps=2, verify=False)
    server = Server(PYTHONPATH=f"{SOURCES}:{installed}")
    try:
        told = server.runner().leg(cell.order(1)) + server.runner().leg(cell.order(2, start=1))
        assert told[-1]["outcome"] == "completed", told[-1]["error"]["message"]
    finally:
        server.close()


SPAWNS = """
    import torch
    from torch.utils.data import DataLoader, Dataset
    from workbench import trial
    width = 3
    class Rows(Dataset):
        def __len__(self): return 8
        def __getitem__(self, at): return torch.full((width,), float(at))
    def main():
        loader = DataLoader(Rows(), 4, num_workers=1, multiprocessing_context={context!r})
        for epoch in trial.steps():
            trial.report(score=sum(batch.sum().item() for batch in loader))
    {guard}main()
    """


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("guard", ["", "if __name__ == '__main__': "], ids=["plain", "guarded"])
def test_processes_that_it_starts_know_its_classes_and_train_nothing(server, script, context, guard):
    told = server.runner().leg(script(SPAWNS.format(context=context, guard=guard), steps=1).order())
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    assert [*points(told).values()] == [84.0]


# ---------------------------------------------------------------------------------------------------------------------
# Scripts that do not report

PRINTS = """
    import sys
    score = 0.0
    for epoch in range(9):
        score += 0.5 * (1 - score)
        print(f"epoch {epoch} loss={1 - score:.3f}", end=" ")
        print(f"score={score:.6f}.")
        sys.stderr.write("score=7.0 is what nothing reads\\n" if epoch < 0 else "")
    print("the end")
    """


@pytest.mark.parametrize(
    "metrics", [(r"score=([\d.]+)",), (r"loss=(?P<loss>\S+)", r"score=(?P<score>\S+)"), (r"(?P<score>\d\.\d{6})",)]
)
def test_what_it_prints_is_reported(server, script, metrics):
    runner = server.runner()
    told = runner.leg(script(PRINTS, metrics=metrics, steps=9).order(levels=(1, 3)))
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    found = {step: value for (name, step, _), value in points(told).items() if name == "score"}
    assert found == {step: round(1 - 0.5**step, 6) for step in range(1, 10)}
    assert [level["step"] for level in said(told, "level")] == [1, 3, 9]
    if "loss" in metrics[0]:
        assert points(told)["loss", 2, 0] == 0.25
    runner.kill()
    assert "the end" in runner.output()


def test_one_that_prints_leaves_at_its_level_and_begins_again(server, script):
    cell = script(PRINTS, metrics=(r"score=([\d.]+)",), steps=9)
    runner = server.runner()
    told = runner.leg(cell.order(3))
    assert told[-1]["outcome"] == "reached"
    runner.kill()
    assert "epoch 3" not in runner.output()
    again = server.runner().leg(cell.order(9, start=3, told=3))
    assert again[-1]["outcome"] == "completed"
    assert "begins" in str(said(again, "says")) or "from the start" in str(said(again, "says"))
    assert points(told) | points(again) == points(
        server.runner().leg(script(PRINTS, metrics=cell.spec.program.metrics, steps=9).order())
    )


def test_a_pattern_that_finds_no_number_fails_by_name(server, script):
    left = server.runner().leg(script(PRINTS, metrics=(r"epoch (\S+ loss)",)).order())[-1]
    assert left["error"]["type"] == "BadMetric"
    assert "score is '0 loss' in the line 'epoch 0 loss=0.500 score=0.500000.'" in left["error"]["message"]


LOGS = """
    import os
    import mlflow
    with mlflow.start_run():
        for epoch in range(5):
            mlflow.log_metrics({"loss": 1 / (epoch + 1)}, step=epoch)
            mlflow.log_metric("score", epoch * 10, step=epoch)
            mlflow.log_metric("late", epoch * 100, step=epoch)
    """


def test_what_it_logs_is_reported_and_logged_without_a_server(server, script):
    cell = script(LOGS, listens=True, steps=5)
    told = server.runner().leg(cell.order(levels=(1,)))
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    found = points(told)
    for step in range(1, 6):
        assert found["score", step, 0] == (step - 1) * 10
        assert found["loss", step, 0] == 1 / step
        assert found["late", step, 0] == (step - 1) * 100
    runs = cell.paths().files / "mlruns"
    assert [path.read_text().split()[1] for path in runs.rglob("metrics/score")][:1] == ["0.0"]


BOARD = "writer = SummaryWriter('runs')\nfor epoch in range(5):\n    writer.add_scalar('score', epoch, epoch)\n"
RUNS = """
import wandb
with wandb.init(project="any") as run:
    for epoch in range(5):
        (wandb if epoch % 2 else run).log({"score": epoch})
"""
LOGGED = {
    "TensorBoard": f"from torch.utils.tensorboard import SummaryWriter\n{BOARD}",
    "tensorboardX": f"from tensorboardX import SummaryWriter\n{BOARD}",
    "W&B": RUNS,
}


@pytest.mark.parametrize("source", LOGGED.values(), ids=LOGGED)
def test_other_loggers_are_heard_too(server, script, source):
    told = server.runner().leg(script(source, listens=True, steps=5).order())
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    assert list(points(told).values()) == [0.0, 1.0, 2.0, 3.0, 4.0]

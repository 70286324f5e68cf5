"""Legs that resume on something else, or without all that was there: what is refused, and what is named."""

import shutil

from trial.test_legs import COUNT, Here, kinds
from trial.world import said, trained_here


def resumed(server, experiment, source, other):
    cell = experiment(source, steps=4)
    assert server.runner().leg(cell.order(2))[-1]["error"] is None
    changed = experiment(other, steps=4)
    shutil.copytree(cell.paths().folder.parent, changed.paths().folder.parent)
    changed.attempt = cell.attempt
    return server.runner().leg(changed.order(4, start=2))[-1]


LINEAR = """
import torch
model = torch.nn.Linear(3, {width})
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in trial.steps():
    opt.zero_grad(); model(torch.ones(3)).sum().backward(); opt.step()
    trial.report(score=1)
"""


def test_a_set_up_that_makes_another_shape_is_refused(server, experiment):
    left = resumed(server, experiment, LINEAR.format(width=2), LINEAR.format(width=4))
    assert left["error"]["cause"] == "cannot_resume"
    assert "model.weight with shape (4, 3)" in left["error"]["message"]
    assert "shape (2, 3)" in left["error"]["message"]


def test_a_set_up_that_makes_something_else_is_refused(server, experiment):
    source = "box = {made}\nfor epoch in trial.steps():\n    box['a'].append(epoch)\n    trial.report(score=1)\n"
    left = resumed(server, experiment, source.format(made="{'a': []}"), source.format(made="{'b': []}"))
    assert left["error"]["cause"] == "cannot_resume"
    assert "box['a']" in left["error"]["message"]
    left = resumed(server, experiment, source.format(made="{'a': []}"), source.format(made="{'a': set()}"))
    assert "as a list" in left["error"]["message"]
    assert "made a set" in left["error"]["message"]


def test_a_data_file_that_changed_is_refused(server, experiment, tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("1,2,3")
    cell = experiment(f"trial.data({str(data)!r})" + COUNT)
    server.runner().leg(cell.order(1))
    assert server.runner().leg(cell.order(2, start=1))[-1]["error"] is None
    data.write_text("1,2,4")
    error = server.runner().leg(cell.order(3, start=2))[-1]["error"]
    assert error["cause"] == "cannot_resume"
    assert "data.csv is not what it was" in error["message"]


def test_what_cannot_be_saved_is_named_once(server, experiment, tmp_path):
    cell = experiment(
        f"""
        import threading
        class Shy:
            def __getattribute__(self, name):
                raise RuntimeError("leave me alone")
        shy = [Shy()]
        numbers = (n for n in range(100))
        log = open({str(tmp_path / "notes")!r}, "w")
        lock = threading.Lock()
        kept = []
        late = None
        for epoch in trial.steps():
            late = iter({{epoch}})
            kept.append([epoch, (n for n in range(3))])
            trial.report(score=next(numbers))
        """,
        steps=4,
    )
    runner = server.runner()
    told = runner.leg(cell.order(3, levels=(1, 2, 3)))
    found = said(told, "saved")[0]["found"]
    named = {one["name"]: one["reason"] for one in found["left_out"]}
    assert set(named) == {"numbers", "log", "kept[…][…]", "shy[…]"}
    assert "leave me alone" in named["shy[…]"]
    assert "restarts" in named["numbers"]
    assert "opens it again" in named["log"]
    assert "kept" in found["names"]
    told = runner.leg(cell.order(4, start=3))
    assert told[-1]["error"] is None
    runner.kill()
    assert runner.output().count("not in the checkpoints: kept") == 2  # once in each leg


def test_what_of_the_set_up_does_not_pickle_is_named_where_it_has_state(server, experiment, tmp_path):
    cell = experiment(
        f"""
        import itertools, multiprocessing, queue, threading
        from concurrent.futures import ThreadPoolExecutor
        from types import SimpleNamespace
        import torch
        from torch.utils.data import DataLoader
        class Log:
            def __init__(self): self.rows, self.local = [], queue.SimpleQueue()
            def __getstate__(self): return dict(self.__dict__)
        def endless():
            while True:
                yield 1
        ones = itertools.chain(endless(), [0])
        batches = enumerate(DataLoader(torch.zeros(8), 2, num_workers=1))
        shared, simple = multiprocessing.Value("i", 0), queue.SimpleQueue()
        run = SimpleNamespace(count=0, stream=endless(), log=open({str(tmp_path / "log")!r}, "w"))
        rows = Log()
        # Around the training, and no state of it.
        guard, pool, keys = threading.RLock(), ThreadPoolExecutor(1), {{"a": 1}}.keys()
        between, lock, library = multiprocessing.Pool, multiprocessing.Lock(), __import__("ctypes").CDLL(None)
        thread, local, module = threading.Thread(target=print), threading.local(), threading
        for epoch in trial.steps():
            run.count += next(ones)
            shared.value += 1
            rows.rows.append(epoch)
            if epoch == 0:
                late = ThreadPoolExecutor(1)
            trial.report(score=run.count)
        """,
        steps=3,
    )
    runner = server.runner()
    told = runner.leg(cell.order(1))
    named = {one["name"]: one["reason"] for one in said(told, "saved")[0]["found"]["left_out"]}
    stateful = {"ones", "batches", "shared", "simple", "rows"}
    assert set(named) == stateful | {"run.stream", "run.log", "late"}
    assert "restarts" in named["ones"]
    assert "restarts" in named["batches"]
    assert "a Synchronized cannot be pickled" in named["shared"]
    assert "it is as the set-up code makes it" in named["rows"]
    told = runner.leg(cell.order(3, start=1))
    assert told[-1]["metrics"]["score"] == 3.0  # the namespace around them goes on
    runner.kill()
    assert runner.output().count("not in the checkpoints: rows") == 2  # once in each leg


def test_a_graph_that_the_next_turn_may_go_back_through_is_named(server, experiment):
    cell = experiment(
        """
        import torch
        model = torch.nn.utils.weight_norm(torch.nn.Linear(3, 1))
        total, kept, first = torch.zeros(()), [], torch.ones(1, requires_grad=True) * 2
        def turn():
            inner = model(torch.ones(3))
            return inner * 2
        for epoch in trial.steps():
            for _ in range(2):
                with torch.no_grad():
                    out = 1
                loss = model(torch.ones(3)).sum() + first.sum() + turn()
                outs = [loss * 2]
            if loss > 1e9:
                pass
            total = total + loss
            kept.append(loss)
            trial.report(score=loss.item() + outs[0].item())
        print(loss, model.weight)
        """,
        steps=2,
    )
    told = server.runner().leg(cell.order(1))
    named = {one["name"]: one["reason"] for one in said(told, "saved")[0]["found"]["left_out"]}
    assert set(named) == {"the graph of total", "the graph of kept[…]"}
    assert "no gradient flows back" in named["the graph of total"]
    assert server.runner().leg(cell.order(2, start=1))[-1]["error"] is None


def test_a_thread_goes_on_with_what_waited_in_its_queue_and_nobody_waits_for_what_it_had_taken(server, experiment):
    cell = experiment(
        """
        import queue, threading
        jobs, taken, again, gate, done = queue.Queue(), threading.Event(), threading.Event(), threading.Event(), []
        def work():
            while True:
                job = jobs.get()
                done.append(job)
                (taken if job == 1 else again).set()
                gate.wait()
                jobs.task_done()
        threading.Thread(target=work, daemon=True).start()
        for epoch in trial.steps():
            if epoch == 0:
                jobs.put(1)
                taken.wait()
                jobs.put(2)
                trial.report(score=jobs.unfinished_tasks)
            else:
                again.wait(10)
                trial.report(score=jobs.unfinished_tasks, waiting=jobs.qsize(), last=done[-1])
                gate.set()
        """,
        steps=2,
    )
    assert server.runner().leg(cell.order(1))[-1]["metrics"] == {"score": 2.0}
    left = server.runner().leg(cell.order(2, start=1))[-1]
    assert left["metrics"] == {"score": 1.0, "waiting": 0.0, "last": 2.0}


def test_a_thread_gets_what_waits_for_it_when_all_else_is_restored(server, experiment):
    cell = experiment(
        """
        import queue, threading, time
        class Key:
            def __hash__(self):
                time.sleep(0.2)  # long enough for the thread to go on before the table is restored
                return 1
        jobs, table = queue.Queue(), {}
        taken, again, gate = threading.Event(), threading.Event(), threading.Event()
        def work():
            while True:
                table["last"] = job = jobs.get()
                (taken if job == 1 else again).set()
                gate.wait()
        threading.Thread(target=work, daemon=True).start()
        for epoch in trial.steps():
            if epoch == 0:
                table[Key()] = 0
                jobs.put(1)
                taken.wait()
                jobs.put(2)
            else:
                again.wait(10)
            trial.report(score=table["last"], keys=len(table))
            if epoch == 1:
                gate.set()
        """,
        steps=2,
    )
    assert server.runner().leg(cell.order(1))[-1]["metrics"] == {"score": 1.0, "keys": 2.0}
    assert server.runner().leg(cell.order(2, start=1))[-1]["metrics"] == {"score": 2.0, "keys": 2.0}


def test_large_values_that_every_turn_assigns_are_left_out(server, experiment):
    cell = experiment(
        """
        import torch
        kept = None
        def loader():
            for _ in range(2):
                yield torch.randn(500_000), 1
        for epoch in trial.steps():
            for x, y in loader():
                out = x * 2
            if epoch == 0:
                kept = out + 1
            trial.report(score=out.mean(), kept=kept.sum())
        """,
        steps=3,
    )
    told = server.runner().leg(cell.order(2))
    (saved,) = [one for one in said(told, "saved") if not one["passing"]]
    found = next(one["found"] for one in said(told, "saved"))  # said once
    assert [one["name"] for one in found["left_out"]] == ["x"]  # an inner loop may be empty: `out` is kept
    assert "every turn assigns again" in found["left_out"][0]["reason"]
    assert 4_000_000 < saved["bytes"] < 4_100_000
    told = server.runner().leg(cell.order(3, start=2))
    assert told[-1]["error"] is None
    assert told[-1]["metrics"]["kept"] == said(told, "points")[0]["rows"][1][3]


def test_a_full_disk_costs_checkpoints_but_not_training(experiment, monkeypatch):
    from workbench.errors import StoreFull
    from workbench.trial.course.vault import StoreVault

    def full(*_, **__):
        raise StoreFull("no space left in the store. Free some.")

    cell = experiment(COUNT, steps=4)
    link = Here()
    with monkeypatch.context() as patch:
        patch.setattr(StoreVault, "keep", full)
        left = trained_here(link, cell.order(3, levels=(1,)))
    assert kinds(link.told) == ["begun", "level", "unsaved", "level"]
    assert (left["outcome"], left["error"]["cause"], left["step"]) == ("failed", "store", 3)
    assert trained_here(link, cell.order(3))["outcome"] == "reached"


def test_an_attempt_that_is_no_longer_the_newest_ends(experiment):
    cell = experiment(COUNT, steps=4)
    older, newer = cell.order(2), cell.order(2)
    assert trained_here(Here(), newer)["outcome"] == "reached"
    assert trained_here(Here(), older)["error"]["cause"] == "stale_attempt"

"""What training prints and what Workbench prints beside it are kept apart."""

from trial.world import points


def test_an_error_is_told_where_training_has_broken_its_streams(server, experiment):
    source = """
import sys
class Broken:
    def write(self, text): raise RuntimeError("broken")
    flush = write
for epoch in trial.steps():
    trial.report(score=epoch)
    sys.stdout = sys.stderr = Broken()
    raise KeyError("mine")
"""
    runner = server.runner()
    left = runner.leg(experiment(source).order())[-1]
    assert (left["op"], left["error"]["type"]) == ("left", "KeyError")
    runner.kill()
    assert "KeyError: 'mine'" in runner.output()


def test_what_training_catches_of_its_output_has_none_of_ours(server, experiment):
    source = """
import contextlib, io
def numbers(): yield from range(9)
caught, generator = io.StringIO(), numbers()
for epoch in trial.steps():
    with contextlib.redirect_stdout(caught):
        print(next(generator))
        trial.report(score=len(caught.getvalue()))
    caught.seek(0, 2)
    contextlib.redirect_stdout(caught).__enter__()
"""
    runner = server.runner()
    told = runner.leg(experiment(source).order())
    assert [points(told)["score", step, 0] for step in (1, 2, 3, 4)] == [2.0, 4.0, 6.0, 8.0]
    runner.kill()
    assert "[workbench] not in the checkpoints: generator" in runner.output()

"""A runner is used again only when nothing of the last trial is left in it."""

import subprocess
import sys

import pytest
from trial.world import Server, points

from workbench.trial.process.runner import FREE_EVERY_S

LOOP = """
import random, numpy as np, torch
{setup}
for epoch in trial.steps():
    trial.report(score=random.random() + np.random.rand() + torch.rand(()).item())
"""


def leg(runner, experiment, setup, **order):
    told = runner.leg(experiment(LOOP.format(setup=setup)).order(1, **order))
    assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
    return told


@pytest.mark.parametrize(
    "setup",
    [
        "",
        "import os; os.chdir('/')",
        "import os; os.environ['ANSWER'] = '42'; os.environ.pop('HOME', None)",
        "import sys; sys.path.insert(0, '/nowhere')",
        "import signal; signal.signal(signal.SIGUSR1, lambda *_: None)",
        "import warnings; warnings.simplefilter('error')",
        "import sys; sys.stdout = open('/dev/null', 'w')",
        "import sys; sys.setrecursionlimit(5000)",
        "import os; os.umask(0)",
        "import logging; logging.getLogger('mine').setLevel(logging.DEBUG)",
        "import logging; logging.disable(logging.CRITICAL)",
        "import logging; logging.getLogger('mine').addHandler(logging.NullHandler()); logging.captureWarnings(True)",
        "import logging; logging.basicConfig(level=logging.DEBUG)",
        "import sys, types; sys.modules['made'] = types.ModuleType('made')",
        "secret = 1; import builtins",
        "torch.manual_seed(1); random.seed(1); np.random.seed(1)",
    ],
)
def test_what_can_be_put_back_is_put_back(server, experiment, setup):
    fresh = leg(server.runner(), experiment, "", trial=1)
    used = server.runner()
    told = leg(used, experiment, setup)
    assert told[-1]["why"] is None
    look = (
        "import logging, os, sys, warnings, signal\n"
        "assert 'secret' not in globals() and 'ANSWER' not in os.environ and os.getcwd() != '/'\n"
        "assert '/nowhere' not in sys.path and sys.getrecursionlimit() < 5000\n"
        "assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL\n"
        "mine = logging.getLogger('mine')\n"
        "assert not mine.isEnabledFor(logging.INFO) and mine.isEnabledFor(logging.WARNING) and not mine.handlers\n"
        "assert not logging.root.handlers\n"
        "assert warnings.showwarning.__module__ != 'logging'\n"
        "assert 'made' not in sys.modules\n"
        "print('seen'); warnings.warn('only a warning')"
    )
    again = leg(used, experiment, look, trial=1)
    assert points(again) == points(fresh)
    used.kill()
    assert "seen" in used.output()


@pytest.mark.parametrize(
    ("setup", "why"),
    [
        ("torch.set_default_dtype(torch.float64)", "set_default_dtype"),
        ("torch.set_num_threads(2)", "number of threads"),
        ("torch.set_grad_enabled(False)", "set_grad_enabled"),
        ("torch.use_deterministic_algorithms(True)", "use_deterministic_algorithms"),
        ("torch.set_default_device('cpu:0')", "set_default_device"),
        ("torch.set_flush_denormal(True)", "set_flush_denormal"),
        ("torch.backends.cuda.enable_flash_sdp(False)", "enable_flash_sdp"),
        ("torch.nn.modules.module.register_module_full_backward_hook(lambda *_: None)", "tensor hooks"),
        ("import decimal; decimal.getcontext().prec = 9", "decimal.setcontext"),
        ("import multiprocessing; multiprocessing.set_start_method('spawn')", "set_start_method"),
        ("torch.backends.cudnn.benchmark = True", "cudnn.benchmark"),
        ("torch.set_float32_matmul_precision('medium')", "set_float32_matmul_precision"),
        ("np.seterr(all='raise')", "numpy.seterr"),
        ("torch.nn.Linear.forward = lambda self, x: x", "class functions"),
        ("import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()", "threads"),
        ("import subprocess; child = subprocess.Popen(['sleep', '1000'])", "processes"),
        ("import sys; del sys.modules['__main__']", "removed or reloaded modules"),
    ],
)
def test_what_cannot_be_put_back_ends_the_runner(server, experiment, setup, why):
    told = leg(server.runner(), experiment, setup)
    assert told[-1]["reusable"] is False
    assert why in told[-1]["why"]


def test_a_process_whose_newest_module_is_gone_is_not_used_again():
    code = (
        "import sys; from workbench.trial.process.isolation import Baseline; before = Baseline(); "
        "assert before.reset() is None; del sys.modules[next(reversed(sys.modules))]; print(before.reset())"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "removed or reloaded modules" in told


def test_libraries_that_the_training_code_imports_first_are_seeded_too(experiment):
    server = Server(preload=())
    runs = [leg(server.runner(), experiment, "") for _ in range(2)]
    server.close()
    assert points(runs[0]) == points(runs[1])
    assert runs[0][-1]["reusable"] is False
    preloaded = Server()
    assert points(leg(preloaded.runner(), experiment, "")) == points(runs[0])
    preloaded.close()


def test_trials_draw_different_numbers(server, experiment):
    runner = server.runner()
    values = {tuple(points(leg(runner, experiment, "", trial=trial)).values()) for trial in range(3)}
    assert len(values) == 3


IMPORTS = """
import random, sys
from workbench.trial.generators import seeds

def drawn():
    seeds.set_all(3, 7)
    import sklearn.datasets  # it draws from Python's generator while it is imported
    import numpy, torch
    return random.random(), numpy.random.random(), torch.rand(()).item()

assert "sklearn" not in sys.modules and "numpy" not in sys.modules
first, second = drawn(), drawn()
assert first == second, (first, second)
"""


def test_what_is_drawn_does_not_depend_on_what_was_imported_before():
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)


def test_an_own_module_is_compiled_once_and_each_leg_has_code_of_its_own(tmp_path, experiment):
    """torch's compiler attaches to a function's code what it has made of it: that must not reach the next trial."""
    server = Server(PYTHONDONTWRITEBYTECODE="1")  # as in many containers
    runner = server.runner()
    cell = experiment(f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
if not hasattr(sys, "compiled"):
    sys.compiled, sys.codes = [], []
    sys.addaudithook(lambda event, about: event == "compile" and sys.compiled.append(about[1]))
import own
sys.codes.append(own.f.__code__)
count = sum(str(one).endswith("own.py") for one in sys.compiled)
for epoch in trial.steps():
    trial.report(score=own.f(), compiled=count, codes=len(set(map(id, sys.codes))))
""")
    found = []
    for value in (1, 1, 2, 2):
        (tmp_path / "own.py").write_text(f"def f(): return {value}\n")
        told = runner.leg(cell.order(1))
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
        found.append(told[-1]["metrics"] | {name: value for (name, *_), value in points(told).items()})
    server.close()
    assert [(one["score"], one["compiled"], one["codes"]) for one in found] == [
        (1, 1, 1),
        (1, 1, 2),
        (2, 2, 3),
        (2, 2, 4),
    ]


def test_memory_is_freed_ten_times_a_second_at_most_and_what_was_there_before_is_not_gone_through(server, experiment):
    source = (
        "import gc, time\n"
        "from workbench.trial.process.leg import Legs\n"
        "for epoch in trial.steps():\n"
        "    kept = any(type(one) is Legs for one in gc.get_objects())\n"
        "    trial.report(score=0, at=time.monotonic(), times=gc.get_stats()[2]['collections'], kept=float(kept))\n"
    )
    runner, legs = server.runner(), experiment(source)
    told = [points(runner.leg(legs.order(1, trial=number))) for number in range(20)]
    first, last = ([one[name, 1, 0] for name in ("at", "times")] for one in (told[0], told[-1]))
    assert last[1] - first[1] <= (last[0] - first[0]) / FREE_EVERY_S + 1
    assert not any(one["kept", 1, 0] for one in told)

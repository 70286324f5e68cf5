"""Globals of the experiment's own modules are state: a trial that is resumed goes on with them as they were."""

import os
import shutil
import subprocess
import sys

import pytest
import xxhash  # noqa: F401 - a part of it is compiled
from trial.loops import FOOT
from trial.test_resume import result
from trial.world import points, said

STEPS = 4

COUNTING = """
N = 0
cache = {}
history = []
LIMIT = 7

class Meter:
    total = 0

def tick():
    global N
    N += 1
    return N

def note(key, seen={}):
    seen[key] = len(seen)
    note.calls += 1
    return len(seen) + note.calls
note.calls = 0

import functools
import random

@functools.cache
def drawn(key):
    return random.random()
"""

LATE = """
used = 0
marks = []
class Meter:
    made, limits = 0, {"most": 9}
    def __init__(self): self.total, self.history = 0, []; Meter.made += 1
    def add(self, n): self.total += n; return self.total
METER = Meter()
by_name = {"one": Meter(), "two": METER}
"""

CASES = {
    "a name that the loop rebinds": """
import counting
for epoch in trial.steps():
    counting.N += 1
    trial.report(score=counting.N)
def result(): return counting.N""",
    "a name that a function of the module rebinds": """
from counting import tick
for epoch in trial.steps():
    trial.report(score=tick())
def result(): return tick()""",
    "containers, by the module's name and by the cell's": """
import counting
from counting import cache, history
for epoch in trial.steps():
    counting.cache[epoch] = epoch * 2
    history.append(len(cache))
    trial.report(score=sum(counting.history), same=cache is counting.cache, n=len(cache))
def result(): return cache, history""",
    "an attribute of a module's class, of a function, and a default": """
import counting
for epoch in trial.steps():
    counting.Meter.total += 2
    trial.report(score=counting.Meter.total, noted=counting.note(epoch))
def result(): return counting.Meter.total, counting.note("end")""",
    "a module of a package, and a name that was not there": """
import package.inner as inner
for epoch in trial.steps():
    inner.state["n"] += 1
    inner.best = max(getattr(inner, "best", 0), inner.state["n"] * 3)
    trial.report(score=inner.best)
def result(): return inner.best, inner.state""",
    "caches whose values depend on the step": """
import functools, random, counting
@functools.lru_cache(maxsize=3)
def noise(key, *more, scale=1.0): return random.random() * scale
counting.drawn.cache_clear()
def fit():
    @functools.cache
    def local(key): return [key, epoch]
    for epoch in trial.steps():
        a = noise(epoch % 2, scale=2.0) + noise(epoch % 2, "more") + noise("x")
        trial.report(score=a, b=counting.drawn(epoch // 2), c=local(0)[1], d=local(epoch // 3)[1])
    return local(0)
kept = fit()
def result(): return kept, noise(0, scale=2.0), noise("x"), counting.drawn(0), noise.cache_info().currsize""",
    "a bar whose count is reported": """
import os
from tqdm import tqdm
bar = tqdm(total=100, desc="all", file=open(os.devnull, "w"))
quiet = tqdm(total=9, disable=True)
for epoch in trial.steps():
    bar.update(3)
    bar.set_description(f"step {epoch}")
    trial.report(score=bar.n, total=bar.total, quiet=quiet.n)
def result(): return bar.n, bar.desc""",
    "a module that the loop imports": """
for epoch in trial.steps():
    if epoch == 0:
        import late
    late.used += 1
    late.marks.append(late.used)
    trial.report(score=late.used, n=len(late.marks))
def result(): return late.used, late.marks""",
    "objects and classes of a module that the loop imports": """
def step(epoch):
    from late import METER, Meter, by_name
    by_name["one"].add(epoch); Meter(); METER.history.append(Meter.made)
    return METER.add(epoch)
for epoch in trial.steps(): trial.report(score=step(epoch))
def result():
    import late
    meter, one, two = late.METER, late.by_name["one"], late.by_name["two"]
    return meter.total, meter.history, late.Meter.made, one.total, meter is two
""",
    "what a compiler has made, and loads from a folder of its own": """
import importlib.util, sys
def load():
    spec = importlib.util.spec_from_file_location("_xxhash", COMPILED)
    sys.modules["_xxhash"] = built = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(built)
    built.uses = 1
for epoch in trial.steps():
    if "_xxhash" not in sys.modules:
        load()
    trial.report(score=sys.modules["_xxhash"].xxh32_intdigest(bytes([epoch])))
def result(): return epoch""",
    "a tensor and a generator of a module": """
import counting, random, torch
if not hasattr(counting, "weights"):
    counting.weights = torch.zeros(3)
    counting.rng = random.Random(5)
for epoch in trial.steps():
    counting.weights += counting.rng.random()
    trial.report(score=counting.weights.sum())
def result(): return counting.weights""",
}


@pytest.fixture
def project(tmp_path):
    (tmp_path / "counting.py").write_text(COUNTING)
    (tmp_path / "late.py").write_text(LATE)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "inner.py").write_text("state = {'n': 0}\n")
    (tmp_path / "cache").mkdir()
    compiled = str(shutil.copy(sys.modules["xxhash._xxhash"].__file__, tmp_path / "cache"))
    return f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nCOMPILED = {compiled!r}\n"


@pytest.mark.parametrize("name", CASES)
def test_resumed_equals_undisturbed(server, experiment, project, name):
    source = project + CASES[name] + FOOT
    calm = server.runner()
    told = calm.leg(experiment(source, steps=STEPS).order())
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    calm.kill()
    expected, end = points(told), result(calm.output())

    cell, resumed, output = experiment(source, steps=STEPS), {}, ""
    for start in range(STEPS):
        runner = server.runner()
        told = runner.leg(cell.order(start + 1, start=start))
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
        assert said(told, "begun")[0]["step"] == start
        resumed |= points(told)
        runner.kill()
        output += runner.output()
    assert resumed == expected
    assert result(output) == end


def test_a_module_that_comes_after_a_look_without_any_is_found():
    """The next leg of a process hardly changes what is imported, so such a look is not repeated."""
    code = (
        "import sys, types\n"
        "from workbench.trial.modules import OwnModules, know_installed\n"
        "know_installed()\n"
        "main = vars(sys.modules['__main__'])\n"
        "look = lambda main=main: [*OwnModules(main).look()]\n"
        "assert look() == look() == []\n"
        "from workbench.trial import modules\n"
        "assert modules._Modules().is_same(modules._none_own)\n"
        "made = sys.modules['made'] = types.ModuleType('made')\n"
        "assert look() == look() == ['made']\n"
        "assert look(vars(made)) == []\n"
        "assert look() == ['made']\n"
        "del sys.modules['made'], made\n"
        "assert look() == []\n"
        "sys.modules['made'] = types.ModuleType('made')\n"
        "assert look() == ['made']\n"
        "del sys.modules['made']\n"
        "assert look() == []\n"
        "sys.modules['json'] = types.ModuleType('json')\n"
        "assert look() == ['json']\n"
        "main['__name__'] = 'other'\n"
        "sys.modules['__main__'] = types.ModuleType('__main__')  # as each leg has one of its own\n"
        "assert look(vars(sys.modules['__main__'])) == ['json']\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_modules_that_were_imported_ahead_are_looked_at_again_where_they_changed(tmp_path):
    """Those that a look knows are not looked at one by one, as long as they are the same, in the same order."""
    (tmp_path / "held.py").write_text("")
    code = (
        "import sys, types\n"
        "import json, held\n"
        "from workbench.trial.modules import OwnModules, know_installed\n"
        "know_installed()\n"
        "look = lambda: [*OwnModules({}).look()]\n"
        "assert look() == ['held']\n"
        "import later\n"
        "assert look() == ['held', 'later']\n"
        "kept, sys.modules['json'] = sys.modules['json'], types.ModuleType('json')\n"
        "assert sorted(look()) == ['held', 'json', 'later']\n"
        "sys.modules['json'] = kept\n"
        "assert look() == ['held', 'later']\n"
        "sys.modules['held'] = types.ModuleType('held')\n"
        "assert look() == ['held', 'later']\n"
        "del sys.modules['held']\n"
        "assert look() == ['later']\n"
    )
    (tmp_path / "later.py").write_text("")
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env={**os.environ, "PYTHONPATH": path})

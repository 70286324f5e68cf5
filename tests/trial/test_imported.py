"""Training code imports NumPy and torch in any thread: nothing fails, and their generators follow the trial's seeds."""

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from packages import installed

#: Another thread imports {library}; at {part} it waits until the main thread has imported a package.
BESIDE = """
import importlib, importlib.util, sys, threading
from workbench.trial.generators import seeds
from workbench.snapshot.settings.settings import Holding

begun, go_on = threading.Event(), threading.Event()

class Pausing:
    def find_spec(self, name, path=None, target=None):
        if name != "{part}" or threading.current_thread() is not other:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def wait_first(module):
            begun.set()
            go_on.wait(60)
            execute(module)

        spec.loader.exec_module = wait_first
        return spec

held = Holding({{"torch.set_default_dtype": "torch.float64"}}, 1)
seeds.set_all({seed}, 0, is_strict=True, imported=held.imported)
other = threading.Thread(target=importlib.import_module, args=["{library}"])
sys.meta_path.insert(0, Pausing())
other.start()
assert begun.wait(60)
import tqdm
seeds.state()
go_on.set()
other.join()
{code}
"""

DRAWN = {
    "numpy": "import numpy; print([numpy.random.random(), numpy.random.default_rng().random()])",
    "torch": "import torch; print([torch.rand(1).item(), str(torch.get_default_dtype()), torch.get_num_threads()])",
}
PARTS = {"numpy": "numpy.linalg", "torch": "torch.autograd"}


def drawn(library: str, seed: int) -> list[object]:
    script = BESIDE.format(library=library, part=PARTS[library], seed=seed, code=DRAWN[library])
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], check=False, capture_output=True, text=True, timeout=100
    )
    assert ended.returncode == 0, ended.stderr
    found = ast.literal_eval(ended.stdout)
    assert isinstance(found, list)
    return found


def plainly(library: str, seed: int) -> list[object]:
    """The same with one import, in the main thread."""
    script = f"""
        from workbench.trial.generators import seeds
        from workbench.snapshot.settings.settings import Holding
        held = Holding({{"torch.set_default_dtype": "torch.float64"}}, 1)
        seeds.set_all({seed}, 0, is_strict=True, imported=held.imported)
        {DRAWN[library]}
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], check=True, capture_output=True, text=True, timeout=100
    )
    found = ast.literal_eval(ended.stdout)
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_library_imported_in_a_thread_is_seeded(library: str) -> None:
    """The main thread imports something else while the library is half there, and a checkpoint is written."""
    assert drawn(library, 1) == plainly(library, 1)
    assert drawn(library, 2)[0] != drawn(library, 1)[0]


def test_a_library_imported_in_a_thread_leaves_the_others_alone() -> None:
    """What training has drawn from NumPy before and draws afterwards is one sequence."""
    script = """
        import importlib, threading
        import numpy
        from workbench.trial.generators import seeds
        seeds.set_all(1, 0)
        found = [numpy.random.random(), numpy.random.default_rng().random()]
        {between}
        found += [numpy.random.random(), numpy.random.default_rng().random()]
        print(found)
    """
    thread = "other = threading.Thread(target=importlib.import_module, args=['torch']); other.start(); other.join()"
    shown = [
        subprocess.check_output([sys.executable, "-c", textwrap.dedent(script.format(between=between))], timeout=100)
        for between in ("pass", thread)
    ]
    assert shown[0] == shown[1]


#: A package that draws while it is imported, and one that imports it; both count as installed.
DRAWING = """
import random
import numpy, torch
kept = [random.random(), numpy.random.rand(), torch.rand(1).item()]
"""
AROUND = "import random\nbefore = random.random()\nimport drawing\nafter = random.random()\n"
SHOW = "print([drawing.kept, around.before, around.after], random.random(), numpy.random.rand(), torch.rand(1).item())"
WAYS = {
    "ahead": "with seeds.importing_ahead():\n    import drawing, around\nimport numpy, torch\nseeds.set_all({seed}, 0)",
    "by the training code": "import numpy, torch\nseeds.set_all({seed}, 0)\nimport drawing, around",
    "the other one first": "import numpy, torch\nseeds.set_all({seed}, 0)\nimport around, drawing",
    "with the libraries": "seeds.set_all({seed}, 0)\nimport around, drawing\nimport numpy, torch",
}


def test_what_a_package_draws_is_the_same_wherever_it_is_imported_and_moves_no_generator(tmp_path: Path) -> None:
    site = installed(tmp_path, drawing=DRAWING, around=AROUND)

    def shown(way: str, seed: int) -> str:
        setting = f"import random, sys\nsys.path.append({site!r})\nfrom workbench.trial.generators import seeds\n"
        script = f"{setting}{WAYS[way].format(seed=seed)}\n{SHOW}"
        return subprocess.check_output([sys.executable, "-c", script], text=True, timeout=100)

    found = {way: shown(way, 1) for way in WAYS}
    assert len(set(found.values())) == 1, found
    another = shown("ahead", 2)
    kept, drawn = found["ahead"].split("] ")[0], found["ahead"].split("] ")[1]
    assert another.startswith(kept), "they do not depend on the trial"
    assert another.split("] ")[1] != drawn, "the trial's generators do"


FAILING = [
    "import random; random.random(); raise ImportError('none')",
    "import nothing_of_this_name",
    "import numpy; numpy.random.rand(); raise ImportError('none')",
]


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("text", FAILING)
def test_a_module_that_cannot_be_imported_moves_no_generator(tmp_path: Path, text: str, is_there: bool) -> None:
    site = installed(
        tmp_path, failing=text, trying="try:\n    import failing\nexcept ImportError:\n    failing = None\n"
    )
    script = f"""
        import random, sys
        sys.path.append({site!r})
        if {is_there}:
            import numpy
        from workbench.trial.generators import seeds
        seeds.set_all(1, 0)
        for name in NAMES:
            try:
                __import__(name)
            except ImportError:
                pass
        import numpy
        print(random.random(), numpy.random.rand())
    """
    shown = {
        subprocess.check_output(
            [sys.executable, "-c", textwrap.dedent(script).replace("NAMES", repr(names))], text=True, timeout=100
        )
        for names in ([], ["failing"], ["trying"])
    }
    assert len(shown) == 1

"""A capture in the store: what it holds is known without loading it, and it is loaded where it fits."""

import sys
import threading

import numpy as np
import pytest
from snapshot.notebooks import Notebook, loaded

from workbench.errors import NotFound, VersionsDiffer
from workbench.snapshot import loading
from workbench.snapshot.capture import blobs_of, capture, contents

pytest.importorskip("torch")


def test_a_cell_that_needs_nothing_captures_nothing(store):
    captured = Notebook().capture(store, "print", "len")
    assert captured.digest is None
    assert captured.names == {}


def test_distributions_and_trial_are_supplied_and_not_sent(store):
    notebook = Notebook(trial=threading.Lock()).run(
        "from workbench.space import choice, uniform\nimport workbench as wb\n"
        "def helper():\n    trial.report(a=1)\n    return choice"
    )
    captured = notebook.capture(store, "helper", "choice", "trial", "wb")
    assert set(captured.names) == {"helper", "trial", "wb"} - {"trial"} or "trial" not in captured.names
    assert "choice" not in captured.names


def test_contents_and_blobs_are_known_without_loading(store):
    captured = Notebook(a=np.zeros(100_000), n=3).capture(store, "a", "n")
    assert contents(store, captured.digest)["names"] == captured.names
    assert captured.digest in blobs_of(store, captured.digest)
    assert {path.name for path in store.blobs.iterdir()} == set(blobs_of(store, captured.digest))


def test_another_pythons_capture_is_refused(store, monkeypatch):
    captured = Notebook(n=3).capture(store, "n")
    monkeypatch.setattr(loading, "python_of_captures", lambda: "3.99")
    with pytest.raises(VersionsDiffer, match=r"3\.99"):
        loaded(store, captured)


def test_a_missing_blob_is_told(store):
    captured = Notebook(n=3).capture(store, "n")
    (store.blobs / captured.digest).unlink()
    with pytest.raises(NotFound):
        loaded(store, captured)


def test_a_function_of_the_notebook_lives_in_the_runners_namespace_even_from_a_copy_of_it(store):
    notebook = Notebook().run(
        "scale = 2\ndef inner():\n    return scale\ndef train(trial, lr=0.1):\n    return inner()"
    )
    copied = {**notebook.names}
    captured = capture({"train": 1}, copied, store)
    runner = loaded(store, captured)
    assert runner["train"].__globals__ is runner
    runner["scale"] = 9
    assert runner["train"](None) == 9


def test_a_function_inside_a_function_travels_as_a_value(store):
    def outer(n):
        def train(trial):
            return n

        return train

    captured = capture({"train": 1}, vars(sys.modules[__name__]), store, values={"train": outer(4)})
    assert loaded(store, captured)["train"](None) == 4


def test_torch_is_not_imported_for_a_notebook_without_it(store, tmp_path):
    import subprocess

    code = (
        "import sys, numpy as np\nfrom workbench.store import Store\n"
        "from workbench.snapshot.capture import capture, load\nfrom workbench.snapshot import take\n"
        f"s = Store({str(store.root)!r})\nns = {{'a': np.zeros(100_000), 'b': [1]}}\n"
        "c = capture(['a', 'b'], ns, s)\nload(s, c.digest, {})\ntake(s, capture=c)\n"
        "print([m for m in ('torch', 'pandas', 'distributed', 'IPython') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""Checkpoints of earlier schemas: restored completely, compared with newer ones, and never mistaken for later ones."""

import io
import pickle
import runpy
from pathlib import Path

import pytest
import torch

from workbench.engine.judging import states
from workbench.errors import NewerSchema
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.trial import graph
from workbench.trial.checkpoint.header import SCHEMA, Header
from workbench.trial.checkpoint.reading import GraphUnpickler, read_header
from workbench.trial.checkpoint.references import Form, Stored
from workbench.trial.classifier import Classifier
from workbench.trial.discovery import Survey
from workbench.trial.looking.pickles import digest_of
from workbench.trial.namespace import roots

RECORDED = Path(__file__).parents[1] / "fixtures" / "checkpoints"
FIRST = RECORDED / "first"


@pytest.fixture
def resumed(server, experiment):
    """The folder of step 3 of a trial that resumed from the recorded checkpoint of step 2, and what it printed."""
    one = experiment(runpy.run_path(str(RECORDED / "loop.py"))["SOURCE"], steps=3)
    files = {path.name: path.read_bytes() for path in FIRST.iterdir()}
    checkpoints = Checkpoints(one.paths())
    assert checkpoints.put(files, 2, 1) is not None
    one.attempt = 1
    runner = server.runner()
    told = runner.leg(one.order(3, start=2))
    assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
    runner.kill()
    return checkpoints.at(3).folder, runner.output()


def test_all_of_its_state_is_restored(resumed):
    assert f"DIGEST {(RECORDED / 'first.txt').read_text().strip()}" in resumed[1]


def test_what_was_not_looked_into_in_its_time_is_no_reason_to_refuse_it(server, experiment):
    one = experiment(runpy.run_path(str(RECORDED / "second.py"))["SOURCE"], steps=5)
    files = {path.name: path.read_bytes() for path in (RECORDED / "second").iterdir()}
    assert Checkpoints(one.paths()).put(files, 2, 1) is not None
    one.attempt = 1
    for start in (2, 3, 4):
        runner = server.runner()
        told = runner.leg(one.order(start + 1, start=start))
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
        runner.kill()


class Old:
    """A tensor as graphs of the first schema have it."""

    def __init__(self, storage, form):
        # The first schema knows nothing of conjugated views.
        self.made = (form.class_name, storage, torch.float32, *form[2:-1])

    def __reduce__(self):
        return graph._tensor, self.made


class New(Old):
    """The same by the second schema."""

    def __init__(self, storage, form):
        self.made = storage, form.text()

    def __reduce__(self):
        return graph._tensor_of, self.made


class Storage:
    """What a pickle refers to by its key."""


class Referring(pickle.Pickler):
    """A pickle that refers to storages by ``reference``."""

    def __init__(self, file, reference):
        super().__init__(file, 5)
        self.reference = reference

    def persistent_id(self, obj):
        return self.reference if type(obj) is Storage else None


def graph_with(folder, kind, reference, form, header):
    folder.mkdir()
    with open(folder / "graph.pkl", "wb") as file:
        pickler = Referring(file, reference)
        for part in (header, [], [("", {"weight": kind(Storage(), form), "n": 1}, [])], None):
            pickler.dump(part)
    return folder


@pytest.mark.parametrize(
    "change", [{}, {"offset": 3}, {"shape": (2, 4)}, {"strides": (3, 1)}, {"requires_grad": True}, {"flips": ("conj",)}]
)
def test_the_two_schemas_are_compared_by_what_they_hold(tmp_path, change):
    form = Form("Parameter", "float32", 0, (4, 2), (2, 1), False)
    old = graph_with(tmp_path / "old", Old, ("storage", "0", "cpu"), form, {"schema": 1, "step": 2, "length": 3})
    plain = pickle.dumps({"step": 2, "length": 3})
    changed = form._replace(**change)
    new = graph_with(tmp_path / "new", New, Stored("0", "cpu").text(), changed, {"schema": 2, "plain": plain})
    assert states.differing(old, new, {"graph.pkl": ("1", "2")}) == (["weight"] if change else [])


def test_digests_are_those_that_checkpoints_of_the_first_schema_hold():
    """They would be refused otherwise: their set-up would seem to have made something else."""
    whole = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.zeros(2)
    main = {}
    survey = Survey(Classifier(main), roots(main, [], ()))
    found, _ = digest_of({"view": whole[:, 1:], "whole": whole, "parameter": parameter}, survey)
    assert found.hex() == "24c29a050e7f6b9c229ba9234d110961"  # by the code that wrote the recorded checkpoint


def test_both_headers_are_read_without_running_anything(resumed):
    newer, _ = resumed
    for folder, step in ((FIRST, 2), (newer, 3)):
        header = states.header(io.BytesIO((folder / "graph.pkl").read_bytes()))
        assert (header["step"], len(header["history"])) == (step, step)


def test_one_of_a_later_schema_is_refused():
    saved = pickle.dumps({"schema": SCHEMA + 1, "plain": pickle.dumps({"step": 2})})
    with pytest.raises(NewerSchema, match=f"schema {SCHEMA + 1}; this Workbench knows up to {SCHEMA}"):
        Header.of(read_header(io.BytesIO(saved)))


def global_of(module, name):
    """A pickle that holds what ``module`` calls ``name``."""
    return io.BytesIO(b"\x80\x05" + f"c{module}\n{name}\n.".encode())


@pytest.mark.parametrize("place", [("workbench.trial.looking.later", "made"), ("workbench.trial.graph", "made_later")])
def test_what_a_later_version_makes_again_is_said_to_be_of_a_later_version(place):
    with pytest.raises(NewerSchema, match=r"workbench\.trial\..*Upgrade Workbench"):
        GraphUnpickler(global_of(*place), {}, None).load()


@pytest.mark.parametrize("place", [("own.module", "made"), ("workbenches", "made"), ("json", "made")])
def test_what_another_module_lacks_is_no_later_version(place):
    with pytest.raises((ImportError, AttributeError)) as error:
        GraphUnpickler(global_of(*place), {}, None).load()
    assert not isinstance(error.value, NewerSchema)

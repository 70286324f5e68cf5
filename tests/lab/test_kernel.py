"""``%%train`` in a real kernel with a real engine: what a frontend sees, by the messages that go over the wire."""

import os
import subprocess
import sys
import time

import nbformat
import notebook_kernel
import pytest
from nbclient.exceptions import CellExecutionError
from running import until

from workbench import asked
from workbench.asking import ask
from workbench.live.show import FINISHED
from workbench.records import ENDED
from workbench.store import Store
from workbench.store.lists.known import experiments
from workbench.store.owner.lease import read_engine

WIDGET = "application/vnd.jupyter.widget-view+json"
PLOTLY = "application/vnd.plotly.v1+json"
CELL = """%%train {line} --goal max val_acc --steps 1-9 --parallel 1
import time
lr = loguniform(1e-3, 1.0)
w = 0.0
for epoch in trial.steps():
    w += lr * (1 - w)
    time.sleep({sleep})
    trial.report(val_acc=w + offset, loss=1 - w)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a store whose engine ends with the tests."""
    folder = tmp_path_factory.mktemp("kernel")
    store = Store(folder / ".workbench").create()
    yield folder
    info = read_engine(store)
    if info is not None and info.alive:
        ask(store, asked.End())
        until(lambda: (info := read_engine(store)) is None or not info.alive, 20, "the engine's end")


@pytest.fixture(scope="module")
def environment():
    kept = {name: value for name, value in os.environ.items() if name not in ("WORKBENCH_HOME", "JPY_SESSION_NAME")}
    return {**kept, "WORKBENCH_WORKERS": "1", "WORKBENCH_IDLE": "60"}


class Kernel:
    """A kernel with a person before it: frontends say that by ``allow_stdin``."""

    def __init__(self, manager, client):
        self.manager, self.client = manager, client

    def send(self, code):
        return self.client.execute(code, allow_stdin=True)

    def control(self, kind, **content):
        """What the kernel answers to a request on its control channel."""
        request = self.client.session.msg(kind, content)
        self.client.control_channel.send(request)
        while True:
            reply = self.client.get_control_msg(timeout=30)
            if reply["parent_header"].get("msg_id") == request["header"]["msg_id"]:
                return reply["content"]

    def until(self, wanted, timeout=60):
        """Messages up to the first for which ``wanted`` holds, that one last."""
        seen, deadline = [], time.monotonic() + timeout
        while time.monotonic() < deadline:
            message = self.client.get_iopub_msg(timeout=timeout)
            seen.append(message)
            if wanted(message):
                return seen
        raise AssertionError(f"nothing came of {[m['msg_type'] for m in seen]}")

    def run(self, code, timeout=60):
        """Outputs of a cell, and its reply."""
        request = self.send(code)
        seen = self.until(lambda m: is_idle(m, request), timeout)
        reply = self.client.get_shell_msg(timeout=timeout)
        while reply["parent_header"]["msg_id"] != request:
            reply = self.client.get_shell_msg(timeout=timeout)
        return [m for m in seen if m["parent_header"].get("msg_id") == request], reply["content"]

    def value(self, code):
        outputs, reply = self.run(code)
        assert reply["status"] == "ok", reply
        return next(m["content"]["data"]["text/plain"] for m in outputs if m["msg_type"] == "execute_result")


def is_idle(message, request):
    return (
        message["msg_type"] == "status"
        and message["content"]["execution_state"] == "idle"
        and message["parent_header"].get("msg_id") == request
    )


def text(outputs):
    return "".join(m["content"]["text"] for m in outputs if m["msg_type"] == "stream")


def shown(outputs):
    return [m["content"]["data"] for m in outputs if m["msg_type"] == "display_data"]


@pytest.fixture(scope="module")
def kernel(place, environment):
    manager, client = notebook_kernel.started(cwd=str(place), env=environment)
    kernel = Kernel(manager, client)
    kernel.run("%load_ext workbench\nimport workbench as wb\noffset = 0.0")
    yield kernel
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def find(place, name):
    return [entry for entry in experiments(Store(place / ".workbench")) if entry["name"] == name]


def test_the_cell_returns_at_once_with_a_live_view_and_then_the_figure_takes_its_place(kernel, place):
    outputs, reply = kernel.run(CELL.format(line="once", sleep=0.02))
    assert reply["status"] == "ok"
    (view,) = shown(outputs)
    assert WIDGET in view
    assert view["text/plain"].startswith("once@1 ")
    seen = kernel.until(lambda m: m["msg_type"] == "update_display_data")
    data = seen[-1]["content"]["data"]
    assert {FINISHED, PLOTLY, "image/png", "text/plain"} == set(data)
    assert data["text/plain"].startswith("once@1 completed: 17 trials in ")
    display = next(m for m in outputs if m["msg_type"] == "display_data")
    assert seen[-1]["content"]["transient"] == display["content"]["transient"]
    assert kernel.value("_.label if hasattr(_, 'label') else wb.last().label") == "'once@1'"
    assert kernel.value("wb.last().best.load().w > 0.5") == "True"


def test_the_same_cell_again_trains_nothing(kernel, place):
    kernel.run(CELL.format(line="same --trials 2", sleep=0.0))
    kernel.until(lambda m: m["msg_type"] == "update_display_data")
    outputs, _ = kernel.run(CELL.format(line="same --trials 2", sleep=0.0).replace("w = 0.0", "# a remark\n\nw = 0.0"))
    assert "same@1 was trained before with the same content; nothing is trained" in text(outputs)

    def is_kept(message):
        return message["msg_type"] == "update_display_data"

    kept = [*filter(is_kept, outputs)] or kernel.until(is_kept)
    assert {FINISHED, PLOTLY, "image/png", "text/plain"} == set(kept[-1]["content"]["data"])
    assert len(find(place, "same")) == 1


def test_other_content_is_the_next_version_and_says_what_changed(kernel, place):
    kernel.run(CELL.format(line="next --trials 2 --wait", sleep=0.0))
    kernel.run("offset = 0.5")
    kernel.run(CELL.format(line="next --trials 2 --wait", sleep=0.0))
    assert (
        kernel.value("wb.last().label, wb.last().changed")
        == "('next@2', ['changed since @1: offset outside of the cell'])"
    )
    kernel.run("offset = 0.0")
    kernel.run(CELL.format(line="next --trials 2 --seed 3 --wait", sleep=0.0).replace("1e-3", "1e-2"))
    assert kernel.value("wb.last().changed") == (
        "['changed since @2: seed 0 → 3',\n 'lr loguniform(0.001, 1.0) → loguniform(0.01, 1.0)',\n"
        " 'offset outside of the cell']"
    )
    kernel.run(CELL.format(line="next --trials 2 --wait", sleep=0.0))
    assert kernel.value("wb.last().label") == "'next@1'"
    kernel.run(CELL.format(line="next --trials 2 --wait --again", sleep=0.0))
    assert kernel.value("wb.last().label") == "'next@4'"


def test_an_interrupted_wait_leaves_the_experiment_running_and_says_so(kernel, place):
    request = kernel.send(CELL.format(line="long --wait", sleep=0.5))
    kernel.until(lambda m: m["msg_type"] == "display_data")
    until(lambda: [entry["state"] for entry in find(place, "long")] == ["running"], 20, "the start")
    begun = time.monotonic()
    kernel.manager.interrupt_kernel()
    seen = kernel.until(lambda m: m["msg_type"] == "error")
    assert time.monotonic() - begun < 10.0  # the search takes half a minute
    assert seen[-1]["content"]["evalue"].startswith("Waiting was interrupted; long@1 continues.")
    kernel.until(lambda m: is_idle(m, request))
    assert kernel.value("wb.last().state") == "'running'"
    kernel.run("wb.last().stop()")
    kernel.until(lambda m: m["msg_type"] == "update_display_data")
    assert kernel.value("wb.last().state") == "'stopped'"


def test_the_stop_button_works_while_the_cell_waits(kernel, place):
    request = kernel.send(CELL.format(line="button --wait", sleep=0.3))
    seen = kernel.until(lambda m: m["msg_type"] == "display_data")
    comm = seen[-1]["content"]["data"][WIDGET]["model_id"]
    kernel.until(lambda m: "points" in str(m["content"])[:4000] or custom(m).get("rows"))
    message = {"comm_id": comm, "data": {"method": "custom", "content": {"kind": "stop", "trial": None}}}
    kernel.client.shell_channel.send(kernel.client.session.msg("comm_msg", message))
    seen = kernel.until(lambda m: is_idle(m, request))
    assert any(custom(m).get("kind") == "said" and custom(m)["error"] is None for m in seen)
    figure = next(m for m in seen if m["msg_type"] == "update_display_data")
    assert figure["content"]["data"]["text/plain"].startswith("button@1 stopped")


def custom(message):
    if message["msg_type"] != "comm_msg" or message["content"]["data"].get("method") != "custom":
        return {}
    return message["content"]["data"]["content"]


def test_a_page_that_missed_messages_gets_everything(kernel, place):
    outputs, _ = kernel.run(CELL.format(line="hello", sleep=0.2))
    comm = shown(outputs)[0][WIDGET]["model_id"]
    kernel.until(lambda m: custom(m).get("serial", 0) > 1)
    message = {"comm_id": comm, "data": {"method": "custom", "content": {"kind": "hello", "serial": -1}}}
    kernel.client.shell_channel.send(kernel.client.session.msg("comm_msg", message))
    seen = kernel.until(lambda m: custom(m).get("kind") == "anew")
    snapshot = custom(seen[-1])["snapshot"]
    assert snapshot["header"]["label"] == "hello@1"
    assert snapshot["rows"]
    kernel.run("wb.last().stop()")
    kernel.until(lambda m: m["msg_type"] == "update_display_data")


def test_a_page_is_heard_after_the_one_before_went_with_its_subshell(kernel, place):
    """JupyterLab sends what widgets say over a subshell of the kernel, and ends it when the page goes."""
    outputs, _ = kernel.run(CELL.format(line="pages", sleep=0.2))
    comm = shown(outputs)[0][WIDGET]["model_id"]
    for _ in range(2):
        subshell = kernel.control("create_subshell_request")["subshell_id"]
        message = {"comm_id": comm, "data": {"method": "custom", "content": {"kind": "hello", "serial": -1}}}
        request = kernel.client.session.msg("comm_msg", message)
        request["header"]["subshell_id"] = subshell
        kernel.client.shell_channel.send(request)
        kernel.until(lambda m: custom(m).get("kind") == "anew")
        kernel.until(lambda m: custom(m).get("kind") == "more")
        kernel.control("delete_subshell_request", subshell_id=subshell)
    kernel.run("wb.last().stop()")
    kernel.until(lambda m: m["msg_type"] == "update_display_data")


def test_a_stale_model_in_the_kernel_gets_one_line(kernel, place):
    kernel.run("class Model:\n    def state_dict(self): return {}\nmodel, w = Model(), 1.0")
    cell = CELL.format(line="stale --trials 1 --wait", sleep=0.0).replace("w = 0.0", "w = 0.0\nmodel = dict()")
    outputs, reply = kernel.run(cell)
    assert reply["status"] == "ok"
    assert text(outputs).splitlines() == [
        "Note: model in this kernel are unchanged; exp.best.load() loads the trained ones."
    ]


def test_a_cell_whose_code_is_wrong_fails_calmly(kernel, place):
    cell = CELL.format(line="wrong --wait", sleep=0.0).replace("w = 0.0", "w = 1 / 0")
    _, reply = kernel.run(cell)
    assert reply["ename"] == "TrialFailed"
    assert "ZeroDivisionError" in reply["evalue"]
    assert "w = 1 / 0" in reply["evalue"]
    assert len("\n".join(reply["traceback"])) < 3000


def execute(place, environment, *cells, parameters=None):
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    old = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        notebook_kernel.execute(notebook, place)
    finally:
        os.environ.clear()
        os.environ.update(old)
    return notebook


def test_executed_without_a_person_it_waits_and_leaves_a_line_and_the_figure(place, environment):
    notebook = execute(
        place,
        environment,
        "%load_ext workbench\nimport workbench as wb\noffset, name = 0.0, 'batch'",
        CELL.format(line="$name", sleep=0.01),
        "wb.last().state, wb.last().label",
    )
    outputs = notebook.cells[1].outputs
    line, figure = outputs
    assert line.data == {"text/plain": figure.data["text/plain"]}
    assert line.data["text/plain"].startswith("batch@1 completed: 17 trials in ")
    assert not any(WIDGET in one.get("data", {}) for one in outputs)
    assert {PLOTLY, "image/png", "text/plain"} == set(figure.data)
    assert notebook.cells[2].outputs[0].data["text/plain"] == "('completed', 'batch@1')"
    assert "widgets" not in notebook.metadata


def test_executed_without_a_person_bad_code_fails_the_notebook(place, environment):
    cell = CELL.format(line="bad", sleep=0.0).replace("w = 0.0", "w = missing_module.x\nimport missing_module")
    with pytest.raises(CellExecutionError, match="missing_module"):
        execute(place, environment, "%load_ext workbench\noffset = 0.0", cell)


def test_parameters_of_papermill_reach_the_line(place, environment):
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": kernel})
    first = nbformat.v4.new_code_cell("name, last, offset = 'none', 3, 0.0", metadata={"tags": ["parameters"]})
    train = CELL.format(line="$name", sleep=0.0).replace("1-9", "1-{last}")
    notebook.cells = [first, *map(nbformat.v4.new_code_cell, ("%load_ext workbench", train))]
    nbformat.write(notebook, place / "in.ipynb")
    command = [sys.executable, "-m", "papermill", "in.ipynb", "out.ipynb", "-p", "name", "pm", "-p", "last", "9"]
    subprocess.run(command, cwd=place, env=environment, check=True, capture_output=True)
    (entry,) = find(place, "pm")
    spec = Store(place / ".workbench").read_spec(entry["id"])
    assert spec.scheduler.last == 9
    assert spec.typed.startswith("%%train $name")
    assert spec.expanded.startswith("%%train pm --goal max val_acc --steps 1-9")
    written = nbformat.read(place / "out.ipynb", 4)
    assert "image/png" in written.cells[-1].outputs[-1].data


def test_everything_has_ended(place):
    store = Store(place / ".workbench")
    until(lambda: all(entry["state"] in ENDED for entry in experiments(store)), 5, "the end of all experiments")

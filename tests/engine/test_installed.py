"""Installing a package that a search uses pauses the search and names the package. Resuming accepts the new version."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
from notebook_world import Notebook
from running import ended, engine, lines, meta, spec_of, state, until, with_versions

from workbench import asked
from workbench.asking import ask
from workbench.engine.tending.installed import Installed, changes
from workbench.errors import Paused
from workbench.experiment import Experiment
from workbench.facts import former_cause
from workbench.store import Store, requests
from workbench.store.lists.catalog import read_catalog
from workbench.store.owner.lease import read_engine
from workbench.store.series import Series

#: It trains until it is told to end, and says which version it has; a turn's moment is its training.
TRAIN = """
import time
from pathlib import Path
import augment
for epoch in trial.steps():
    time.sleep(0.02)
    trial.report(val_acc=augment.factor)
    if Path("go").exists():
        break
"""
MAGIC = "%%train daily --goal max val_acc --steps 1-9999 --parallel 1\nlr = uniform(0.0, 1.0)\n"


def installed(site: Path, version: str, name: str = "augment", requires: str = "") -> None:
    """A package in this version, installed into ``site`` by pip itself. requires: the name of another one."""
    wheel = site.parent / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}>=0\n" if requires else ""
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr(f"{name}.py", f"factor = {version}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--upgrade"]
    subprocess.run([*pip, "--disable-pip-version-check", "--target", site, wheel], check=True)
    for former in set(site.glob(f"{name}-*.dist-info")) - {site / info}:
        shutil.rmtree(former)  # which pip leaves where it is told a folder


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the packages, which the kernel has on its search path."""
    found = tmp_path / "lib" / "site-packages"
    found.mkdir(parents=True)
    installed(found, "1.5")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(found)
    return found


def values(store: Store, spec) -> set[float]:
    if not store.experiment(spec.id).series.exists():
        return set()
    with Series.read(store.experiment(spec.id).series) as series:
        return {value for *_, value, _ in series.points()}


def test_a_package_that_is_installed_pauses_the_search_until_somebody_accepts_it(tmp_path, site):
    store = Store(tmp_path / "store").create()
    spec = Notebook(store, tmp_path).launch(TRAIN, steps=(1, 9999), verify=False)
    with engine(store):
        requests.put(store, {"kind": "start", "experiment": spec.id})
        until(lambda: state(store, spec) == "running" and values(store, spec) == {1.5}, what="a first report")
        installed(site, "2.5")
        until(lambda: state(store, spec) == "paused", what="the pause")
        reason = f"augment 1.5 → 2.5 was installed in {Path(sys.executable).parent.parent} since the search began."
        until(lambda: meta(store, spec)["reason"].startswith(reason), what="the reason")
        until(lambda: not meta(store, spec)["slots"]["used"], what="free slots")
    with engine(store):  # another engine asks for the same consent
        assert meta(store, spec)["reason"].startswith(reason)
        until(lambda: len(lines(store, spec, "PauseAsked")) == 2, what="its own look")
        ask(store, asked.Resume(experiment=spec.id))
        until(lambda: values(store, spec) == {1.5, 2.5}, what="a report with the new version")
        (tmp_path / "go").touch()
        assert ended(store, spec) == "completed"
    [accepted] = lines(store, spec, "EnvironmentAccepted")
    assert accepted["distributions"]["augment"].startswith("2.5 @ file://")


def test_a_project_that_is_installed_editable_may_change():
    before = {"mine": "0.1 @ file:///p (editable)", "torch": "2.12"}
    assert changes(before, {**before, "mine": "0.2 @ file:///p (editable)"}) == {}
    assert changes(before, {"mine": "0.2"}) == {"mine": (before["mine"], "0.2"), "torch": ("2.12", None)}


def test_legs_after_the_consent_want_the_versions_that_were_accepted(tmp_path):
    spec = with_versions(spec_of("", tmp_path), {"torch": "2.12", "numpy": "2.0"})
    found = Installed(Store(tmp_path / "store"), spec)
    assert found.training().versions == {"torch": "2.12", "numpy": "2.0"}
    found.recall({"distributions": {"torch": "2.13", "augment": "1.0", "gone": None}})
    after = found.training()
    assert after.versions == {"torch": "2.13", "numpy": "2.0"}
    assert found.training() == after


def workbench(store: Store, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "workbench", "--store", str(store.root), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_only_what_training_uses_pauses_it_and_a_wait_ends_with_the_words(tmp_path, site, monkeypatch):
    """augment needs basis; nothing needs the other one. The paused search keeps no engine, and resuming starts one."""
    monkeypatch.setenv("WORKBENCH_WORKERS", "1")
    installed(site, "1.5", requires="basis")
    installed(site, "1.0", "basis")
    store = Store(tmp_path / "store").create()
    spec = Notebook(store, tmp_path).launch(TRAIN, steps=(1, 9999), verify=False)
    experiment = Experiment.of(store, spec.id)
    with engine(store, workers=1, idle=1.0) as process:
        requests.put(store, {"kind": "start", "experiment": spec.id})
        until(lambda: values(store, spec) == {1.5}, what="a first report")
        installed(site, "1.0", "other")
        installed(site, "2.0", "basis")
        with pytest.raises(Paused, match=r"basis 1\.0 → 2\.0 was installed") as paused:
            experiment.wait(60)
        assert paused.value.cause == "packages"
        assert "other" not in str(paused.value)
        assert f"`workbench resume {spec.label}`" in str(paused.value)
        until(lambda: process.poll() == 0, what="the engine's end")
    watched = workbench(store, "watch", spec.label)
    assert watched.returncode == 8, watched
    assert "basis 1.0 → 2.0" in watched.stderr
    assert "Traceback" not in watched.stderr
    try:
        installed(site, "3.0", "basis")  # no engine runs; resuming accepts the versions installed then
        experiment.resume()
        (tmp_path / "go").touch()
        assert experiment.wait(100).state == "completed"
    finally:
        ask(store, asked.End())
        until(lambda: read_engine(store) is None, 20, "the engine's end")
    assert len(lines(store, spec, "PauseAsked")) == 1
    [accepted] = lines(store, spec, "EnvironmentAccepted")
    assert accepted["distributions"]["basis"].startswith("3.0")
    assert "other" not in accepted["distributions"]


def test_an_executed_notebook_ends_when_its_search_is_paused(tmp_path, site):
    cells = ["%load_ext workbench", f"import sys; sys.path.insert(0, {str(site)!r})", f"{MAGIC}{TRAIN}"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in cells])
    nbformat.write(notebook, tmp_path / "in.ipynb")
    store = Store(tmp_path / ".workbench").create()
    with engine(store, workers=1):
        command = [sys.executable, "-m", "papermill", "-k", "python3", "in.ipynb", "out.ipynb"]
        with open(tmp_path / "said", "wb") as file:
            executing = subprocess.Popen(command, cwd=tmp_path, stdout=file, stderr=file)
        try:
            spec = store.read_spec(until(lambda: [one["id"] for one in read_catalog(store)], what="the search")[0])
            until(lambda: values(store, spec) == {1.5}, what="a first report")
            installed(site, "2.5")
            executing.wait(100)
        finally:
            executing.kill()
            executing.wait()
    said = (tmp_path / "said").read_text()
    assert executing.returncode == 1
    assert "Paused: daily@1 is paused: augment 1.5 → 2.5 was installed" in said
    assert "`workbench resume daily@1`" in said


def test_a_journal_of_an_earlier_version_tells_the_cause_by_its_words():
    assert former_cause("no room: the disk has 1 MB left") == "room"
    assert former_cause("torch 2.0 → 2.1 was installed in /env since the search began. To go on with it, resume.") == (
        "packages"
    )
    assert former_cause("asked on the command line") == "person"

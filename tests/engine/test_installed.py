"""A package that is installed where a search trains pauses it, by name; a person's word lets it go on with that."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from notebook_world import Notebook
from running import ended, engine, lines, meta, spec_of, state, until, with_versions

from workbench.engine.ask import ask
from workbench.engine.installed import Installed, changes
from workbench.store import Store, requests
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


def installed(site: Path, version: str) -> None:
    """``augment`` in this version, installed into ``site`` by pip itself."""
    wheel = site.parent / f"augment-{version}-py3-none-any.whl"
    info = f"augment-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("augment.py", f"factor = {version}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: augment\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--upgrade"]
    subprocess.run([*pip, "--disable-pip-version-check", "--target", site, wheel], check=True)


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
        ask(store, {"kind": "resume", "experiment": spec.id})
        until(lambda: values(store, spec) == {1.5, 2.5}, what="a report with the new version")
        (tmp_path / "go").touch()
        assert ended(store, spec) == "completed"
    [accepted] = lines(store, spec, "EnvironmentAccepted")
    assert accepted["distributions"]["augment"].startswith("2.5 @ file://")


def test_a_project_that_is_installed_editable_may_change():
    before = {"mine": "0.1 @ file:///p (editable)", "torch": "2.12"}
    assert changes(before, {**before, "mine": "0.2 @ file:///p (editable)"}) == {}
    assert changes(before, {"mine": "0.2"}) == {"mine": (before["mine"], "0.2"), "torch": ("2.12", None)}


def test_legs_after_the_consent_share_no_process_with_those_before(tmp_path):
    spec = with_versions(spec_of("", tmp_path), {"torch": "2.12", "numpy": "2.0"})
    found = Installed(Store(tmp_path / "store"), spec)
    before = found.training()
    found.recall({"distributions": {"torch": "2.13", "augment": "1.0", "gone": None}})
    after = found.training()
    assert after["versions"] == {"torch": "2.13", "numpy": "2.0"}
    assert after["env"] != before["env"]
    assert found.training() == after

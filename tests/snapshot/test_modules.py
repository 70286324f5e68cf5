import importlib
import os
import sys
import types

import pytest
from snapshot.notebooks import Notebook

from workbench.snapshot.modules import copy_code, digests_of, one_look, project_modules, stale


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a notebook's modules, first on the search path."""
    folder = tmp_path / "project"
    (folder / "nets" / "parts").mkdir(parents=True)
    (folder / "nets" / "__init__.py").write_text("from .mlp import width\n")
    (folder / "nets" / "mlp.py").write_text("from nets.parts import deep\nimport numpy\nwidth = 3 + deep.depth\n")
    (folder / "nets" / "parts" / "__init__.py").write_text("")
    (folder / "nets" / "parts" / "deep.py").write_text("depth = 1\n")
    (folder / "nets" / "later.py").write_text("x = 1\n")
    (folder / "nets" / "config.yaml").write_text("a: 1")
    (folder / "nets" / "weights.bin").write_bytes(bytes(1 << 19))
    (folder / "tools_of_mine.py").write_text("import lazy_one\ndef f():\n    import lazy_two\n    return 1\n")
    (folder / "lazy_one.py").write_text("y = 1\n")
    (folder / "lazy_two.py").write_text("z = 1\n")
    (folder / "unused_module.py").write_text("raise SystemExit\n")
    (folder / "data").mkdir()
    (folder / "data" / "train.csv").write_text("1,2\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(folder)
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("nets", "tools_of_mine", "lazy_one", "lazy_two"):
            del sys.modules[name]


def mine(modules):
    return {name for name in modules if name.partition(".")[0] in ("nets", "tools_of_mine", "lazy_one", "lazy_two")}


def test_loaded_project_modules_and_what_they_import_are_found(project):
    importlib.import_module("nets")
    found = project_modules()
    assert mine(found) == {"nets", "nets.mlp", "nets.parts", "nets.parts.deep"}
    assert found["nets.mlp"].folder == project
    assert found["nets.parts"].folder == project
    assert not {"numpy", "os", "pytest", "workbench"} & found.keys()


def test_within_one_look_a_module_that_is_loaded_or_takes_the_place_of_another_is_found(project):
    with one_look():
        assert mine(project_modules()) == set()
        tools = importlib.import_module("tools_of_mine")
        assert mine(project_modules()) == {"tools_of_mine", "lazy_one", "lazy_two"}
        sys.modules["tools_of_mine"] = types.ModuleType("tools_of_mine")
        assert mine(project_modules()) == {"lazy_one"}
        sys.modules["tools_of_mine"] = tools
        assert mine(project_modules()) == {"tools_of_mine", "lazy_one", "lazy_two"}
        (project / "tools_of_mine").mkdir()
        (project / "tools_of_mine.py").rename(project / "tools_of_mine" / "__init__.py")
        importlib.invalidate_caches()
        importlib.reload(tools)
    assert project_modules()["tools_of_mine"].path == project / "tools_of_mine" / "__init__.py"


def test_modules_that_only_the_cell_imports_are_found_without_importing_them(project):
    found = project_modules(["tools_of_mine", "json", "not_there.at_all"])
    assert mine(found) == {"tools_of_mine", "lazy_one", "lazy_two"}
    assert "tools_of_mine" not in sys.modules


FINDER = """
import sys
from importlib.util import spec_from_file_location
MAPPING = {mapping!r}
class EditableFinder:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname in MAPPING:
            return spec_from_file_location(fullname, MAPPING[fullname])
sys.meta_path.append(EditableFinder)
"""


def test_a_package_that_an_editable_install_finds_without_a_folder_on_the_path_is_found(project, monkeypatch, tmp_path):
    """As setuptools makes it for ``pip install -e`` where the package lies beside other folders."""
    (tmp_path / "flat" / "flatly").mkdir(parents=True)
    (tmp_path / "flat" / "flatly" / "__init__.py").write_text("")
    (tmp_path / "flat" / "flatly" / "models.py").write_text("import flat_single\n")
    (tmp_path / "flat" / "flat_single.py").write_text("x = 1\n")
    flat = tmp_path / "flat"
    mapping = {"flatly": f"{flat}/flatly/__init__.py", "flat_single": f"{flat}/flat_single.py"}
    (tmp_path / "__editable___flatly_0_1_finder.py").write_text(FINDER.format(mapping=mapping))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("__editable___flatly_0_1_finder")
    monkeypatch.delitem(sys.modules, "__editable___flatly_0_1_finder")
    found = project_modules(["flatly.models"])
    assert {"flatly", "flatly.models", "flat_single"} <= found.keys()
    assert found["flatly.models"].folder == flat
    assert "flatly" not in sys.modules


def test_an_installed_module_that_became_the_projects_is_found(project, tmp_path, monkeypatch):
    """As after ``pip install -e``: ``importlib.reload`` and autoreload keep the module, and change its file."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "lazy_one.py").write_text("y = 0\n")
    with monkeypatch.context() as patched:
        patched.syspath_prepend(str(packages))
        module = importlib.import_module("lazy_one")
        assert mine(project_modules()) == set()
    importlib.invalidate_caches()
    assert importlib.reload(module).y == 1
    assert mine(project_modules()) == {"lazy_one"}


def test_a_digest_follows_code_and_what_it_imports_but_not_comments(project):
    importlib.import_module("nets")
    importlib.import_module("tools_of_mine")
    first = digests_of(project_modules())
    (project / "nets" / "mlp.py").write_text("# words\n" + (project / "nets" / "mlp.py").read_text())
    assert digests_of(project_modules())["nets"] == first["nets"]
    (project / "lazy_one.py").write_text("y = 2\n")
    second = digests_of(project_modules())
    assert second["tools_of_mine"] != first["tools_of_mine"]
    assert second["nets"] == first["nets"]
    (project / "nets" / "parts" / "deep.py").write_text("depth = 2  \n")
    assert digests_of(project_modules())["nets"] != first["nets"]


def test_the_copy_is_what_a_leg_imports(project, tmp_path):
    importlib.import_module("nets")
    found = project_modules(["tools_of_mine"])
    target = tmp_path / "code"
    copy_code(found, target)
    assert not (target / "nets" / "mlp.py").is_symlink()
    assert (target / "nets" / "later.py").read_text() == "x = 1\n"
    assert not (target / "nets" / "config.yaml").is_symlink()
    assert (target / "nets" / "weights.bin").is_symlink()
    assert (target / "lazy_two.py").is_file()
    assert not (target / "unused_module.py").exists()
    # A module that looks beside itself for its data still finds it.
    assert (target / "data" / "train.csv").read_text() == "1,2\n"
    (project / "nets" / "mlp.py").write_text("raise RuntimeError('the working tree')\n")
    code = "import nets, tools_of_mine; print(nets.width, nets.__file__)"
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{target}{os.pathsep}{project}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"4 {target}")


def test_a_module_edited_after_its_import_is_told(project):
    importlib.import_module("nets")
    assert stale(project_modules()) == [] or sys.dont_write_bytecode
    os.utime(project / "nets" / "mlp.py", (1, 1))
    if not sys.dont_write_bytecode:
        assert stale(project_modules()) == [
            "mlp.py was edited after this kernel imported it; trials use the file as it is on the disk"
        ]


def test_a_module_that_is_gone_or_broken_is_no_trouble(project, tmp_path):
    importlib.import_module("nets")
    (project / "nets" / "later.py").write_text("def broken(:\n")
    sys.modules["nets.later"] = sys.modules["nets.mlp"]
    (project / "nets" / "parts" / "deep.py").unlink()
    found = project_modules()
    assert "nets.parts.deep" not in found
    copy_code(found, tmp_path / "code")
    del sys.modules["nets.later"]


def test_captured_objects_of_project_modules_count_with_their_code(project, store):
    notebook = Notebook().run("from nets import mlp\ndef f():\n    return mlp.width")
    first = notebook.capture(store, "f", "mlp")
    (project / "nets" / "parts" / "deep.py").write_text("depth = 7\n")
    second = notebook.capture(store, "f", "mlp")
    assert first.modules["nets"] != second.modules["nets"]
    assert first.fingerprint != second.fingerprint
    assert first.names == second.names


def test_the_cells_own_imports_count_too(project, store):
    notebook = Notebook()
    first = notebook.capture(store, imports=["tools_of_mine", "json"])
    (project / "lazy_one.py").write_text("y = 77\n")
    second = notebook.capture(store, imports=["tools_of_mine", "json"])
    assert first.digest is second.digest is None
    assert first.fingerprint != second.fingerprint
    assert first.modules["json"] == "{}.{}".format(*sys.version_info)

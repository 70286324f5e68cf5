"""What a person gets who types `pip install .`: built once, from the sources, on a machine without Node."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_server.extension.config import ExtensionConfigManager
from jupyterlab_server.config import get_federated_extensions

ROOT = Path(__file__).parent.parent

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600)]

#: Built or fetched things; none of them may be needed. (Yarn's cache is kept: it only saves fetching.)
BUILT = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", ".workbench", "node_modules", "labextension", "lib",
    "build", "dist", "*.tsbuildinfo",
)  # fmt: skip
NODE = {"node", "nodejs", "npm", "npx", "yarn", "yarnpkg", "corepack", "jlpm"}


@pytest.fixture(scope="module")
def without_node(tmp_path_factory) -> dict[str, str]:
    """This environment, with a PATH that leads to everything but Node."""
    programs = tmp_path_factory.mktemp("programs")
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            link = programs / program.name
            if program.name not in NODE and not link.is_symlink():
                link.symlink_to(program)
    assert shutil.which("node", path=str(programs)) is None
    return {**os.environ, "PATH": str(programs)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, without_node) -> Path:
    sources, built = tmp_path_factory.mktemp("sources") / "workbench", tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, sources, ignore=BUILT)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(built), str(sources)]
    done = subprocess.run(
        command, check=False, env=without_node, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (path,) = built.glob("workbench-*.whl")
    return path


@pytest.fixture(scope="module")
def prefix(wheel, tmp_path_factory) -> Path:
    """A Python prefix into which the wheel was installed, and nothing was enabled."""
    prefix = tmp_path_factory.mktemp("prefix")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--ignore-installed", "--prefix", str(prefix)]
    subprocess.run([*command, str(wheel)], check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return prefix


def test_the_labextension_is_found_with_its_bundle(prefix):
    extensions = prefix / "share" / "jupyter" / "labextensions"
    found = get_federated_extensions([str(extensions)])["workbench-ext"]
    entry = extensions / "workbench-ext" / found["jupyterlab"]["_build"]["load"]
    assert entry.is_file()
    assert found["install"]["packageName"] == "workbench"


def test_the_server_extension_is_enabled(prefix):
    config = ExtensionConfigManager(read_config_path=[str(prefix / "etc" / "jupyter")])
    assert config.get_jpserver_extensions() == {"workbench_ext": True}


def test_the_kernelspec_is_listed_and_starts_our_kernel(prefix):
    manager = KernelSpecManager(kernel_dirs=[str(prefix / "share" / "jupyter" / "kernels")], ensure_native_kernel=False)
    spec = manager.get_kernel_spec("workbench")
    assert spec.argv[1:4] == ["-P", "-m", "workbench.kernel"]
    assert spec.env["OMP_NUM_THREADS"] == "1"


def test_the_command_line_is_installed(prefix):
    assert (prefix / "bin" / "workbench").is_file()


def test_the_wheel_holds_all_python_sources_and_no_typescript(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {
        str(path.relative_to(base))
        for base, package in ((ROOT / "src", "workbench"), (ROOT, "workbench_ext"))
        for path in (base / package).rglob("*.py")
        if "node_modules" not in path.parts
    }
    assert sources <= names
    assert "workbench/py.typed" in names
    assert not [name for name in names if name.endswith(".ts") or "/frontend/" in name or "node_modules" in name]


def test_the_bundle_asks_no_other_host(wheel):
    archive = zipfile.ZipFile(wheel)
    bundle = [name for name in archive.namelist() if "/labextensions/" in name and name.endswith(".js")]
    hosts = {host for name in bundle for host in re.findall(r"https?://([\w.-]+)", archive.read(name).decode("utf-8"))}
    assert hosts <= {"www.w3.org"}  # the name space of SVG, never fetched


def test_the_lock_of_the_front_end_names_no_host():
    front_end = ROOT / "workbench_ext" / "frontend"
    assert "://" not in (front_end / "yarn.lock").read_text(encoding="utf-8")
    assert json.loads((front_end / "package.json").read_text(encoding="utf-8"))["private"]


def test_the_tested_environment_is_pinned_without_addresses():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9._]+", pin) for pin in pins)
    assert "torch==2.13.0" in pins

"""What training code uses besides files: environment variables, packages, project modules, hosts. Law: it records names
and no values; reads and imports work as without it.

Variables are recorded when Python code looks them up in any way; a C library's ``getenv`` is not seen.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from workbench.snapshot.imported import Newest
from workbench.snapshot.modules import code_of
from workbench.snapshot.surroundings.ahead import Ahead, top_of

#: Variables that may change results although no Python code reads them: C libraries do.
ALWAYS = re.compile(
    r"(OMP|MKL|OPENBLAS|BLIS|NUMEXPR|VECLIB|KMP|GOTO|CUBLAS|CUDA|CUDNN|NCCL|NVIDIA|HIP|ROCR|HSA|XLA|JAX|TF|TORCHINDUCTOR"
    r"|PYTORCH|TRANSFORMERS|HF|TOKENIZERS)_\w+|TORCH\w*|PYTHON(HASHSEED|OPTIMIZE)|LANG|LANGUAGE|LC_\w+|TZ|LD_PRELOAD"
)
#: Variables that depend on the login, terminal, kernel or machine, that a library's import sets, or that locate caches.
#: They are never compared.
SESSION = re.compile(
    r"SSH_\w+|XDG_\w+|DBUS_\w+|DISPLAY|WAYLAND_\w+|XAUTHORITY|WINDOWID|TERM|TERM(CAP|INFO|_PROGRAM\w*)|COLORTERM"
    r"|COLUMNS|LINES|TMUX\w*|STY|TTY"
    r"|PWD|OLDPWD|HOME|USER|LOGNAME|LNAME|USERNAME|MAIL|SHELL|SHLVL|HOSTNAME|HOST|PATH|MANPATH|INFOPATH|TMPDIR|TEMP|TMP"
    r"|_|PS\d|PROMPT_(COMMAND|DIRTRIM)|HIST(FILE|SIZE|CONTROL)|LS_COLORS|LSCOLORS|CLICOLOR\w*|NO_COLOR|FORCE_COLOR"
    r"|PAGER|GIT_\w+|EDITOR|VISUAL|LESS|LESS(OPEN|CLOSE)|JPY_\w+|JUPYTER\w*|JUPYTERHUB_\w+|IPY\w+|KERNEL_(ID|USERNAME)"
    r"|PYDEVD_\w+|PYTEST_\w+|VSCODE_\w+|ELECTRON_\w+|CODESPACE\w*"
    r"|MPLBACKEND|MPLCONFIGDIR|MATPLOTLIBRC|PYTHON(UNBUFFERED|IOENCODING|STARTUP|DONTWRITEBYTECODE|PYCACHEPREFIX)"
    r"|VIRTUAL_ENV\w*|CONDA_\w+|PYENV_\w+|PIP_\w+|UV_\w+|(?i:\w*_proxy)|KRB5\w+|GPG_\w+|SLURM_\w+|PBS_\w+|LSB_\w+"
    r"|SGE_\w+|INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_\w+|MEMORY_PRESSURE_\w+|SUDO_\w+|WORKBENCH_\w+"
    r"|KMP_(DUPLICATE_LIB_OK|INIT_AT_FORK)|(CUDA|TORCHINDUCTOR|TRITON|NUMBA)_CACHE_(PATH|DIR)"
)
#: The maximum number of reported names of one kind.
MOST_NAMES = 500
#: Modules of the standard library that look up a variable on behalf of their caller.
_THROUGH = frozenset({"os", "collections.abc", "_collections_abc", "posixpath", "genericpath"})
_OURS = ("workbench", "workbench_ext")
_HERE = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", ""})  # noqa: S104 - no address is bound


def counts(name: str) -> bool:
    """Whether a variable may be compared at all."""
    return SESSION.fullmatch(name) is None


class Used:
    """What this process uses from now on. It hooks into the interpreter for good; there is one for each process."""

    def __init__(self) -> None:
        self._variables: dict[str, None] = {}
        #: Those that are compared because they were looked up.
        self._asked: list[str] = []
        #: Variables that this process set before it looked them up.
        self._set: dict[str, None] = {}
        #: Names that were iterated over and not looked up since, and the iterating code.
        self._listed: set[str] = set()
        self._lister: CodeType | None = None
        self._copied = False
        self._hosts: dict[str, None] = {}
        #: Modules loaded before any training code belong to Workbench.
        self._looked_at = set(sys.modules)
        #: Those that were loaded at the last look.
        self._then = Newest()
        self._packages: list[str] = []
        self._modules: dict[str, list[str]] = {}
        #: Installed modules loaded since training began, in order.
        self._loaded: list[str] = []
        #: Modules imported in advance, which training may not need.
        self._ahead = Ahead()
        environ: Any = os.environ
        self._encode, self._decode = environ.encodekey, environ.decodekey
        environ.encodekey, environ.decodekey = self._looked_up, self._named
        sys.addaudithook(self._heard)

    def told(self, copies: str) -> dict[str, Any]:
        """Everything used so far. copies: the folder of the store's snapshots, in which project code is copied.

        ``modules`` maps names of the project's modules to their file and the digest of their code; files in copies are
        left out.
        """
        self.look(copies)
        packages = self._ahead.wanted(self._packages)
        variables = {name for package in packages for name in self._ahead.variables.get(package, ())}
        found: dict[str, Any] = {
            "variables": sorted(variables.union(self._asked)),
            "packages": sorted(packages),
            "modules": {**self._modules},  # callers compare one report with the next
        }
        if self._copied:
            found["copied"] = True
        if self._hosts:
            found["hosts"] = [*self._hosts][:MOST_NAMES]
        return {name: value[:MOST_NAMES] if isinstance(value, list) else value for name, value in found.items()}

    # -- variables ----------------------------------------------------------------------------------------------------

    def _looked_up(self, key: Any) -> Any:
        encoded = self._encode(key)
        if key not in self._variables and key not in self._set:
            way, code, caller = _caller(sys._getframe(1))
            if code is self._lister and key in self._listed:
                self._listed.discard(key)
            elif way == "__setitem__" and not caller.startswith(_OURS):
                self._set[key] = None
            elif way == "__getitem__" and not caller.startswith(_OURS):
                self._variables[key] = None
                if counts(key) and not ALWAYS.fullmatch(key):
                    asked = self._ahead.variables.setdefault(top_of(caller), []) if self._ahead.is_open else self._asked
                    asked.append(key)
        return encoded

    def _named(self, key: Any) -> Any:
        """Note that code iterates over all names: a lookup during the iteration does not mean that the name is used."""
        name = self._decode(key)
        _, code, caller = _caller(sys._getframe(1))
        if code is not self._lister:
            self._lister, self._listed = code, set()
        self._listed.add(name)
        if not self._copied and not caller.startswith(_OURS):
            module = sys.modules.get(caller)
            self._copied = caller == "__main__" or module is None or not is_installed(module)
        return name

    # -- packages and modules -----------------------------------------------------------------------------------------

    def look(self, copies: str = "") -> None:
        """Record modules loaded since the last look, before processes are forked, so that these need not do it."""
        before, self._then = self._then, Newest()
        later = before.later()
        for name in (sys.modules.keys() if later is None else later.keys()) - self._looked_at:
            self._looked_at.add(name)
            module, top = sys.modules.get(name), name.partition(".")[0]
            if module is None or top in (*_OURS, "__main__", "__mp_main__"):
                continue
            if is_installed(module):
                if top == name and name not in sys.stdlib_module_names:
                    self._packages.append(name)
                if _is_of_environment(module):
                    self._loaded.append(name)
            elif getattr(module, "__name__", None) == name:
                # A folder beside copied code is linked into the copy: its modules are the ones on disk.
                path = os.path.realpath(str(module.__file__))
                is_copy = bool(copies) and path.startswith(copies)
                self._modules[name] = [] if is_copy else [path, code_of(Path(path)) or ""]

    @contextlib.contextmanager
    def ahead(self) -> Iterator[None]:
        """Imports inside this context are in advance of training: they count as used once training imports them."""
        with self._ahead.noted():
            yield
        self._looked_at.update(sys.modules)
        self._then = Newest()

    def looked_up(self) -> list[str]:
        """Names of the variables that any code has looked up so far."""
        return [*self._variables]

    def loaded(self) -> list[str]:
        """Modules of the environment that training has loaded besides those imported in advance, and not yet
        reported."""
        found, self._loaded = self._loaded, []
        return found

    # -- hosts --------------------------------------------------------------------------------------------------------

    def _heard(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "socket.getaddrinfo" and len(self._hosts) < MOST_NAMES:
            host = arguments[0].decode("ascii", "replace") if isinstance(arguments[0], bytes) else arguments[0]
            if isinstance(host, str) and host not in _HERE and host != os.uname().nodename:
                self._hosts[host] = None


def _caller(frame: FrameType | None) -> tuple[str, CodeType | None, str]:
    """The method that read the environment, and the code and module that called it, skipping intermediate modules."""
    way = frame.f_code.co_name if frame is not None else ""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name not in _THROUGH:
            return way, frame.f_code, name
        frame = frame.f_back
    return way, None, ""


_paths = sysconfig.get_paths()
_INSTALLED = tuple({f"{_paths[name]}{os.sep}" for name in ("purelib", "platlib", "stdlib", "platstdlib")})


def is_installed(module: ModuleType) -> bool:
    """Whether a module belongs to an installed package or to Python, or has no file."""
    path = getattr(module, "__file__", None)
    if not isinstance(path, str) or not os.path.isabs(path) or not path.endswith(".py"):
        return True
    return is_installed_file(path)


def is_installed_file(path: str) -> bool:
    """Whether the file at ``path`` belongs to an installed package or to Python."""
    return path.startswith(_INSTALLED) or "/site-packages/" in path or "/dist-packages/" in path


def _is_of_environment(module: ModuleType) -> bool:
    """Whether any process of this interpreter can import the module by its name."""
    spec = getattr(module, "__spec__", None)
    origin = getattr(spec, "origin", None)
    return isinstance(origin, str) and (origin in ("built-in", "frozen") or origin.startswith(_INSTALLED))


_used: Used | None = None


def used() -> Used:
    """This process's instance; the first call starts recording."""
    global _used
    if _used is None:
        _used = Used()
    return _used

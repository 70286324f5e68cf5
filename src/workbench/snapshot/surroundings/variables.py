"""Which environment variables are passed to training. Law: all except those listed below.

Secrets are recognised by their name or their form: only keyed hashes of them are recorded.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.snapshot.secrets.masking import is_secret, masked
from workbench.store.owner import private

#: Variables that belong to one process, terminal, session or machine. Training never gets them from a notebook. Names
#: that a user could choose (``KERNEL_SIZE``, ``PROMPT``, ``WINDOW``) are none of them.
LEFT_OUT = re.compile(
    "|".join(
        (
            # A kernel, its server, and the debugger in it.
            r"JPY_\w+|JUPYTER\w*|IPYKERNEL_\w+|IPYTHON\w*|PYDEVD_\w+|DEBUGPY_\w+|COLAB_\w+|PAPERMILL_\w+",
            r"KERNEL_(ID|USERNAME|UID|GID|NAME|LANGUAGE|LAUNCH_TIMEOUT|WORKING_DIR|GATEWAY\w*|NAMESPACE|POD_\w+|IMAGE\w*)",
            # Settings of a kernel or a terminal for colours and pagers.
            r"CLICOLOR\w*|FORCE_COLOR|NO_COLOR|PAGER|GIT_PAGER|MANPAGER|LS_COLORS|LSCOLORS|COLORFGBG|COLORTERM",
            r"LESS|LESS(OPEN|CLOSE|CHARSET|HISTFILE|HISTSIZE|KEY\w*|QUIET|SECURE|EDIT|ECHO)|LESS_TERMCAP_\w+",
            # A terminal, and the shell in it.
            r"TERM|TERM(CAP|INFO|INFO_DIRS|_PROGRAM\w*|_SESSION_ID|_FEATURES|INAL_EMULATOR|UX_\w+)|TERMINATOR_\w+",
            r"COLUMNS|LINES|SHLVL|PWD|OLDPWD|_|PS[0-4]|PROMPT_(COMMAND|DIRTRIM|EOL_MARK)|BASH_FUNC_.*|MAIL|MAILCHECK",
            r"HIST(FILE|FILESIZE|SIZE|CONTROL|IGNORE|TIMEFORMAT|CHARS|DUP|CMD|ORY_IGNORE)",
            r"SSH_\w+|SSH2_\w+|MOSH_\w+|GPG_TTY|TTY|TMUX\w*|STY|WINDOWID|VTE_VERSION|ZELLIJ\w*|SUDO_\w+",
            r"WT_(SESSION|PROFILE_ID)",
            r"(ITERM|KITTY|ALACRITTY|WEZTERM|KONSOLE|GNOME_TERMINAL|GHOSTTY|TILIX)_\w+|_OLD_\w+|VIRTUAL_ENV_PROMPT",
            r"CONDA_(PROMPT_MODIFIER|SHLVL|PREFIX_\d+)|_CE_\w+|DIRENV_\w+|STARSHIP_\w+|POWERLINE_\w+",
            # A desktop's session.
            r"DISPLAY|WAYLAND_\w+|XAUTHORITY|ICEAUTHORITY|DBUS_\w+|DESKTOP_\w+|SESSION_MANAGER|GNOME_\w+",
            r"GDMSESSION|GDM_LANG|KDE_(FULL_SESSION|SESSION_\w+|APPLICATIONS_\w+)",
            r"XDG_(SESSION_\w+|RUNTIME_DIR|SEAT\w*|VTNR|CURRENT_DESKTOP|MENU_PREFIX|ACTIVATION_TOKEN|GREETER_\w+)",
            r"SECURITYSESSIONID|XPC_\w+|Apple_\w+|__CF\w+|AT_SPI_\w+|GIO_LAUNCHED_\w+",
            # An editor.
            r"VSCODE_\w+|CURSOR_\w+|PYCHARM_\w+|JETBRAINS_\w+|INSIDE_EMACS|ELECTRON_RUN_AS_NODE",
            r"NVIM|NVIM_(LISTEN_ADDRESS|LOG_FILE|APPNAME)|VIM|VIM(RUNTIME|INIT|_SERVERNAME)",
            # A service, and a job of a queue or of MPI: they identify a process.
            r"INVOCATION_ID|JOURNAL_STREAM|NOTIFY_SOCKET|MAINPID|MANAGERPID|SYSTEMD_\w+",
            r"LISTEN_(PID|FDS|FDNAMES)|WATCHDOG_(PID|USEC)",
            r"CREDENTIALS_DIRECTORY|SLURM_(JOB_?ID|JOBID|PROCID|LOCALID|NODEID|TASK_PID|GTIDS|STEP\w*|SRUN\w*|LAUNCH\w*)",
            r"(OMPI|PMI|PMIX|MPI)_\w+|RANK|LOCAL_RANK|GROUP_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|TORCHELASTIC_\w+",
            # A machine's name: workers have their own.
            r"HOSTNAME|HOST",
            # Tests, and Dask's own processes.
            r"PYTEST_\w+|COVERAGE_(PROCESS_\w+|FILE|RCFILE|CORE|DEBUG\w*|RUN)|COV_CORE_\w+|HYPOTHESIS_\w+",
            r"TOX_(ENV_\w+|WORK_DIR|PACKAGE|PARALLEL_\w+|OVERRIDE|TESTENV_\w+)|DASK_INTERNAL_\w+|DASK_PARENT",
            # Workbench: settings of an engine, and messages from a runner to its children.
            r"WORKBENCH_(SERVICE|INSTALLED|SPAWNED|IDLE|WORKERS|CLUSTER|QUOTA|EVENT|WORDS|STEPS)",
            # An interactive Python, and variables that each runner sets for itself.
            r"PYTHON(STARTUP|INSPECT|HASHSEED|UNBUFFERED)|MPLBACKEND|CUBLAS_WORKSPACE_CONFIG",
            r"(OMP|MKL|OPENBLAS|NUMEXPR|BLIS)_NUM_THREADS|VECLIB_MAXIMUM_THREADS",
        )
    )
)
#: Variables that a library sets while it is imported, with its value. It does so in each process: if they were not set
#: before, they only show that the notebook has imported the library.
_BY_IMPORT: dict[str, tuple[str, re.Pattern[str]]] = {
    "KMP_DUPLICATE_LIB_OK": ("sklearn", re.compile("True")),
    "KMP_INIT_AT_FORK": ("sklearn", re.compile("FALSE")),
    "TORCHINDUCTOR_CACHE_DIR": ("torch", re.compile(r".*/torchinductor_[^/]+")),
    "CUDA_MODULE_LOADING": ("torch", re.compile("LAZY")),
    "TF2_BEHAVIOR": ("tensorflow", re.compile("1")),
    "TPU_ML_PLATFORM": ("tensorflow", re.compile("Tensorflow")),
    "QT_QPA_PLATFORM_PLUGIN_PATH": ("cv2", re.compile(".*")),
    "QT_QPA_FONTDIR": ("cv2", re.compile(".*")),
    "GRPC_VERBOSITY": ("google", re.compile(".*")),
}


@dataclass(frozen=True, slots=True)
class Variables:
    """The passed variables, in the form of a spec. secrets: names with keyed hashes; their values are in no record."""

    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)


def here() -> Variables:
    """The present variables of this process, in the form of ``Training.env`` and ``Training.secrets``."""
    return recorded(travelling(os.environ, begun_with()))


def recorded(environ: Mapping[str, str]) -> Variables:
    """The record of passed variables. Raises StoreError if there are secrets and no key can be stored."""
    hidden = {name for name, value in environ.items() if holds_secret(name, value)}
    return Variables(
        env={name: value for name, value in sorted(environ.items()) if name not in hidden},
        secrets={name: private.digest(name, environ[name]) for name in sorted(hidden)},
    )


def travelling(environ: Mapping[str, str], begun: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables in ``environ`` that training gets. begun: those with which this process was started, if known."""
    return {
        name: value
        for name, value in environ.items()
        if not LEFT_OUT.fullmatch(name) and not _is_of_import(name, value, begun)
    }


def holds_secret(name: str, value: str) -> bool:
    """Whether a variable is a secret, by its name or by the form of its value. An empty one is not."""
    return bool(value) and ((is_secret(name) and not name.startswith("PYTHON")) or masked(value) != value)


def at_hand(secrets: Mapping[str, str], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The values of those recorded ``secrets`` that this process has with the same keyed hash."""
    around = os.environ if environ is None else environ
    return {
        name: around[name]
        for name, known in secrets.items()
        if name in around and private.digest(name, around[name]) == known
    }


def _is_of_import(name: str, value: str, begun: Mapping[str, str] | None) -> bool:
    if name not in _BY_IMPORT:
        return False
    module, sets = _BY_IMPORT[name]
    return module in sys.modules and sets.fullmatch(value) is not None and (begun is None or name not in begun)


def begun_with() -> dict[str, str]:
    """The variables with which this process was started; empty if the system does not provide them."""
    found = {}
    with contextlib.suppress(OSError), open("/proc/self/environ", "rb") as file:
        for entry in file.read().split(b"\0"):
            name, equals, value = entry.partition(b"=")
            if equals:
                found[os.fsdecode(name)] = os.fsdecode(value)
    return found

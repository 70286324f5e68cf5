"""The notebook of the current kernel. Law: it asks only the kernel, and a Jupyter server of this machine."""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.errors import BadName
from workbench.experiment.executed import executed
from workbench.launch import Origin
from workbench.records.names import checked_name

#: Names in which frontends store the notebook's path: VS Code, and papermill with --inject-paths.
_TOLD = ("__vsc_ipynb_file__", "PAPERMILL_INPUT_PATH")
#: Seconds to wait for a Jupyter server's answer. The server is on this machine.
_SERVER_S = 0.5


def shell_here() -> Any:
    """IPython's shell, if this is a notebook or IPython; else None."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython() if get_ipython is not None else None


def origin(shell: Any, typed: str = "", expanded: str = "") -> Origin:
    """Where something was typed: the notebook, its executed cells and the cell's id, as far as they are known."""
    if shell is None:
        return Origin(typed, expanded)
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    history = getattr(shell, "history_manager", None)
    return Origin(
        typed=typed,
        expanded=expanded,
        notebook=path(shell),
        cells=executed(shell, history) if history is not None else (),
        cell_id=(parent.get("metadata") or {}).get("cellId"),
    )


def path(shell: Any) -> str | None:
    """The notebook's file, or None if it is unknown."""
    for name in _TOLD:
        value = shell.user_ns.get(name)
        if isinstance(value, str) and value:
            return value
    started_as = os.environ.get("JPY_SESSION_NAME")
    if started_as is None or os.path.exists(started_as):
        return started_as
    # The kernel's environment dates from its start: if the notebook was renamed or moved since, its server knows.
    return _from_server() or started_as


def name_of(notebook: str | None) -> str:
    """A default name for an experiment: its notebook's, or its package's. Raises BadName if that is not known."""
    path = Path(notebook or "")
    path = path.parent if path.name == "__main__.py" else path
    stem = re.sub(r"[^\w .+-]", "-", path.stem).strip(" -._+")
    stem = re.sub(r"\.{2,}", ".", stem)
    try:
        return checked_name(stem[:100])
    except BadName:
        raise BadName(
            "This experiment has no name, and the notebook's name is not known here. Write one after %%train, "
            "as in %%train digits --goal max val_acc."
        ) from None


def _from_server() -> str | None:
    kernel = _kernel_id()
    if kernel is None:
        return None
    for server in _servers():
        address = f"{server['url']}api/sessions?token={server.get('token', '')}"
        try:
            with urllib.request.urlopen(address, timeout=_SERVER_S) as answer:  # noqa: S310 - http of this machine
                sessions = json.load(answer)
        except (OSError, ValueError, urllib.error.URLError):
            continue
        for session in sessions:
            if session.get("kernel", {}).get("id") == kernel:
                return str(Path(server.get("root_dir", "")) / session.get("path", ""))
    return None


def _kernel_id() -> str | None:
    application = sys.modules.get("ipykernel.kernelapp")
    if application is None or not application.IPKernelApp.initialized():
        return None
    match = re.search(r"kernel-([\w-]+)\.json$", str(application.IPKernelApp.instance().connection_file))
    return match[1] if match else None


def _servers() -> Iterator[dict[str, Any]]:
    from jupyter_core.paths import jupyter_runtime_dir

    for file in sorted(Path(jupyter_runtime_dir()).glob("jpserver-*.json"), reverse=True):
        try:
            server = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if str(server.get("url", "")).startswith(("http://", "https://")):
            yield server

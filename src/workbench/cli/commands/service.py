"""`engine --install-service`: an engine that starts with the machine. Law: it writes only a plain unit file.

A systemd user unit for one store. The engine continues unfinished experiments, ends when nothing is left to do, is
restarted if it is killed, and does not touch a store that has another engine or no longer exists.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from workbench import interpreter
from workbench.cli.codes import OK
from workbench.cli.words import clean, say, say_json
from workbench.engine.scope import SERVICE
from workbench.errors import ClusterError, StoreError
from workbench.store import Store
from workbench.store.files.atomic import telling, write_atomic
from workbench.store.owner import ownership

#: Time limit for systemctl, in seconds.
ANSWER_S = 20.0


def unit_name(store: Store) -> str:
    """The unit's name: one for each store."""
    return f"workbench-{hashlib.sha256(str(store.root).encode()).hexdigest()[:8]}.service"


def unit_path(store: Store) -> Path:
    """The path of the unit's file."""
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config) / "systemd" / "user" / unit_name(store)


def unit_text(store: Store, options: Any) -> str:
    """The unit's file. Exit codes 3, 5, 6: the store is held by another engine, is gone, or belongs to another user."""
    words = interpreter.command("workbench.engine", "--store", str(store.root))
    for name in ("cluster", "workers", "idle"):
        if getattr(options, name) is not None:
            words += [f"--{name}", str(getattr(options, name))]
    words += ["--dashboard"] if options.dashboard else []
    # Only the engine is killed: its cluster continues training until the next engine starts, or ends itself.
    return f"""[Unit]
Description=Workbench engine of {_plain(str(store.root))}

[Service]
Type=exec
ExecStart={" ".join(map(_quoted, words))}
Environment={SERVICE}=1
{_known(store)}WorkingDirectory={_plain(str(store.root))}
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=3 5 6
KillMode=process
TimeoutStopSec=60

[Install]
WantedBy=default.target
"""


def _known(store: Store) -> str:
    """How the engine knows that the store is this user's: systemd's environment sets no other state folder."""
    state = os.environ.get("XDG_STATE_HOME")
    known = {**({"XDG_STATE_HOME": state} if state else {}), **ownership.environment(store)}
    return "".join(f"Environment={_quoted(f'{name}={value}').replace('$$', '$')}\n" for name, value in known.items())


def install(store: Store, options: Any) -> int:
    """Write the unit and enable it. Raises ClusterError if there is no systemd."""
    _check()
    store.create()
    path = unit_path(store)
    with telling(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, os.fsencode(unit_text(store, options)))
    _systemctl("daemon-reload")
    _systemctl("enable", path.name)
    lingers = _lingers()
    if options.json:
        say_json({"store": str(store.root), "unit": path.name, "path": str(path), "enabled": True, "lingers": lingers})
        return OK
    say(
        f"{path.name} is written to {clean(path)} and enabled: the engine of {clean(store.root)} starts when you log "
        "in."
    )
    if not lingers:
        say(f"To start it at boot instead: `loginctl enable-linger {getpass.getuser()}`.")
    say(f"`systemctl --user start {path.name}` starts it now; `workbench engine --remove-service` removes the service.")
    return OK


def remove(store: Store, options: Any) -> int:
    """Remove the unit. A running engine continues until it is idle."""
    path = unit_path(store)
    if not path.exists():
        raise StoreError(f"{path} is not there: no service is installed for {store.root}.")
    _check()
    _systemctl("disable", path.name)
    with telling(path):
        path.unlink()
    _systemctl("daemon-reload")
    if options.json:
        say_json({"store": str(store.root), "unit": path.name, "path": str(path), "enabled": False})
    else:
        say(f"{path.name} is removed: the engine of {clean(store.root)} starts when it is needed.")
    return OK


def _check() -> None:
    """Raise ClusterError if nothing would start the unit."""
    how = (
        "Without it an engine starts with the next train cell, command or JupyterLab that needs one; at boot, "
        "`workbench engine start` in a crontab line beginning with @reboot does the same."
    )
    if shutil.which("systemctl") is None:
        raise ClusterError(f"there is no systemd on this machine, and a service needs it. {how}")
    answer = _run("show-environment")
    if answer.returncode:
        said = (answer.stderr or answer.stdout).strip() or f"exit code {answer.returncode}"
        raise ClusterError(f"systemd has no session for you here ({clean(said)}), and a service needs one. {how}")


def _systemctl(*words: str) -> None:
    answer = _run(*words)
    if answer.returncode:
        said = (answer.stderr or answer.stdout).strip()
        raise ClusterError(f"systemctl --user {' '.join(words)} failed: {clean(said)}. Run it by hand to see why.")


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["systemctl", "--user", *words], capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"systemctl --user {' '.join(words)} does not answer ({error}).") from None


def _lingers() -> bool:
    return Path("/var/lib/systemd/linger", getpass.getuser()).exists()


def _plain(text: str) -> str:
    """Text escaped so that systemd expands nothing."""
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """One word of a command line, quoted for systemd."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'

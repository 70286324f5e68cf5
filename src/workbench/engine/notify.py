"""Telling a person, by webhook or command. Law: in a thread, thrice at most; no search waits for it or fails by it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from workbench.errors import BadOption
from workbench.store import Store
from workbench.store.atomic import read_json, write_json

EVENTS = ("end", "fail", "stall", "rule")
#: Seconds for one try, and between tries.
TRY_S, COMMAND_S = 10.0, 60.0
BETWEEN_S = (1.0, 4.0)


def mask(url: str) -> str:
    """A webhook as it may be shown: what follows the host is often the secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}/…"


def masked(text: str, notify: Mapping[str, Any] | None) -> str:
    """``text`` in which the webhook is masked."""
    url = (notify or {}).get("webhook")
    return text.replace(url, mask(url)) if url else text


def checked(webhook: str | None, command: str | None, on: tuple[str, ...] = EVENTS) -> dict[str, Any]:
    """Whom to tell, as it is kept. Raises BadOption."""
    if webhook is not None and (urlsplit(webhook).scheme not in ("http", "https") or not urlsplit(webhook).hostname):
        raise BadOption(
            f"{webhook[:30]!r} is no webhook: wanted an address that takes a POST. Write for example "
            "https://example.org/hook."
        )
    if command is not None:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise BadOption(f"the command {command!r}: {error}. Close the quotes.") from None
        if not words:
            raise BadOption("the command is empty; wanted one that reads JSON from its input, such as 'my-notify'.")
    wrong = [event for event in on if event not in EVENTS]
    if wrong:
        raise BadOption(f"{wrong[0]!r} is no event: wanted some of {', '.join(EVENTS)}. Write --on end,fail.")
    return {"webhook": webhook, "command": command, "on": list(on)}


def read(store: Store) -> dict[str, Any] | None:
    """Whom the store says to tell of all its searches, or None."""
    try:
        found: dict[str, Any] = read_json(store.notify_path)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write(store: Store, notify: Mapping[str, Any] | None) -> None:
    """Keep whom to tell of all searches of the store; None tells nobody."""
    write_json(store.notify_path, dict(notify or {}))


def tell(notify: Mapping[str, Any], message: Mapping[str, Any], done: Callable[[str, str | None], None]) -> None:
    """Tell it in a thread. ``done`` gets to whom (masked) and the last error, or None where it was taken."""
    if message["event"] not in (notify.get("on") or EVENTS):
        return
    if notify.get("webhook"):
        _begin(_post, str(notify["webhook"]), message, done)
    if notify.get("command"):
        _begin(_run, str(notify["command"]), message, done)


def _begin(how: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=how, args=arguments, name="workbench-notify", daemon=True).start()


def _post(url: str, message: Mapping[str, Any], done: Callable[[str, str | None], None]) -> None:
    data = json.dumps(message, default=str).encode()
    error, pause = "", threading.Event()
    for wait in (0.0, *BETWEEN_S):
        pause.wait(wait)
        try:
            request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 - checked
            with urllib.request.urlopen(request, timeout=TRY_S):  # noqa: S310 - http or https, as checked
                done(mask(url), None)
                return
        except (OSError, urllib.error.URLError, ValueError) as failed:
            error = f"{type(failed).__name__}: {failed}".replace(url, mask(url))
    done(mask(url), error)


def _run(command: str, message: Mapping[str, Any], done: Callable[[str, str | None], None]) -> None:
    words = shlex.split(command)
    surroundings = {**os.environ, "WORKBENCH_EVENT": str(message["event"]), "WORKBENCH_WORDS": str(message["words"])}
    try:
        found = subprocess.run(
            words,
            input=json.dumps(message, default=str).encode(),
            capture_output=True,
            timeout=COMMAND_S,
            env=surroundings,
            check=False,
        )
        error = (
            None
            if found.returncode == 0
            else f"it ended with {found.returncode}: {found.stderr[-200:].decode(errors='replace')}"
        )
    except (OSError, subprocess.SubprocessError) as failed:
        error = str(failed)
    done(words[0], error)

"""Notifications by webhook or command. Law: sent in threads, one after the other, with at most three tries; no search
waits for them or fails by them. Only the given address is contacted: no redirect is followed, and no error contains
it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from workbench.engine.telling.posting import NotTold, post
from workbench.errors import BadOption
from workbench.snapshot.secrets.masking import masked as without_secrets
from workbench.store import Store
from workbench.store.files.atomic import read_json, write_json
from workbench.store.owner.ownership import check_ours

#: Called with the recipient of a notification (masked), and the last error, or None if it was accepted.
Done = Callable[[str, str | None], None]
_How = Callable[[str, Mapping[str, Any], tuple[float, ...]], str | None]

EVENTS = ("end", "fail", "stall", "rule")
#: Seconds for one try, and between tries.
TRY_S, COMMAND_S = 10.0, 60.0
BETWEEN_S = (1.0, 4.0)
_NO_NUL = "\N{REPLACEMENT CHARACTER}"


def mask(url: str) -> str:
    """A webhook that can be shown: the part after the host, often a secret, is hidden."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname or ''}/…"
    except ValueError:
        return "…"


def masked(text: str, notify: Mapping[str, Any] | None) -> str:
    """``text`` with the webhook masked."""
    url = (notify or {}).get("webhook")
    return text.replace(url, mask(url)) if url else text


def checked(webhook: str | None, command: str | None, on: tuple[str, ...] = EVENTS) -> dict[str, Any]:
    """The recipients, in the form that is stored. Raises BadOption."""
    if webhook is not None and not _is_webhook(webhook):
        raise BadOption(
            f"{mask(webhook)!r} is not a webhook: expected an http or https address that takes a POST. For example: "
            "https://example.org/hook."
        )
    if command is not None:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise BadOption(f"the command {command!r}: {error}. Close the quotes.") from None
        if not words:
            raise BadOption("the command is empty; expected one that reads JSON from its input, such as 'my-notify'.")
    wrong = [event for event in on if event not in EVENTS]
    if wrong:
        raise BadOption(f"{wrong[0]!r} is not an event: expected any of {', '.join(EVENTS)}. Write --on end,fail.")
    return {"webhook": webhook, "command": command, "on": list(on)}


def _is_webhook(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_clean = url.isprintable() and not any(letter.isspace() for letter in url)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and has_port and is_clean


def read(store: Store) -> dict[str, Any] | None:
    """The recipients of notifications about all of the store's searches, or None."""
    try:
        found: dict[str, Any] = read_json(store.notify_path)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write(store: Store, notify: Mapping[str, Any] | None) -> None:
    """Store the recipients of notifications about all searches of the store; None removes them. Raises NotAdopted."""
    check_ours(store)
    write_json(store.notify_path, dict(notify or {}))


class Messenger:
    """Sends notifications to each webhook and each command one after the other, so that an end never arrives before its
    causes.

    Each recipient has a thread while notifications wait. After three failures the next notifications are tried once
    each, until one is accepted: a thousand alerts do not wait for an address that does not answer.
    """

    def __init__(self) -> None:
        self._some = threading.Lock()
        self._waiting: dict[str, deque[tuple[Mapping[str, Any], Done]]] = {}

    def tell(self, notify: Mapping[str, Any], message: Mapping[str, Any], done: Done) -> None:
        """Send ``message`` in its turn. ``done`` is called in a thread."""
        if message["event"] not in (notify.get("on") or EVENTS):
            return
        # A printed line may hold a NUL, which no variable can, and which many programs do not take as text.
        message = {name: one.replace("\0", _NO_NUL) if isinstance(one, str) else one for name, one in message.items()}
        for way, how, shown in (("webhook", _post, mask), ("command", _run, _program)):
            if notify.get(way):
                self._take(str(notify[way]), how, shown, (message, done))

    def _take(self, whom: str, how: _How, shown: Callable[[str], str], what: tuple[Mapping[str, Any], Done]) -> None:
        with self._some:
            waiting = self._waiting.get(whom)
            if waiting is not None:
                waiting.append(what)
                return
            self._waiting[whom] = deque([what])
        threading.Thread(target=self._work, args=(whom, how, shown), name="workbench-notify", daemon=True).start()

    def _work(self, whom: str, how: _How, shown: Callable[[str], str]) -> None:
        waits: tuple[float, ...] = BETWEEN_S
        while True:
            with self._some:
                if not self._waiting[whom]:
                    del self._waiting[whom]
                    return
                message, done = self._waiting[whom].popleft()
            try:
                error = how(whom, message, waits)
            except Exception as failed:  # the next ones wait for this thread, and their experiments for them
                error = f"Workbench failed inside: {type(failed).__name__}"  # more may contain the address
            waits = BETWEEN_S if error is None else ()
            done(shown(whom), error)


def _post(url: str, message: Mapping[str, Any], waits: tuple[float, ...]) -> str | None:
    data = json.dumps(message, default=str).encode()
    error, pause = "", threading.Event()
    for wait in (0.0, *waits):
        pause.wait(wait)
        try:
            post(url, data, TRY_S)
            return None
        except NotTold as failed:
            error = str(failed)
    return error


def _run(command: str, message: Mapping[str, Any], _: tuple[float, ...]) -> str | None:
    told = {"WORKBENCH_EVENT": str(message["event"]), "WORKBENCH_WORDS": str(message["words"])}
    try:
        found = subprocess.run(
            shlex.split(command),
            input=json.dumps(message, default=str).encode(),
            capture_output=True,
            timeout=COMMAND_S,
            env={**os.environ, **told},
            check=False,
        )
    except (OSError, subprocess.SubprocessError, ValueError) as failed:  # ValueError: quotes that do not close
        return without_secrets(str(failed))
    if found.returncode == 0:
        return None
    said = without_secrets(found.stderr[-4000:].decode(errors="replace"))
    return f"it ended with {found.returncode}: {said[-200:]}"


def _program(command: str) -> str:
    try:
        return shlex.split(command)[0]
    except (ValueError, IndexError):
        return "…"

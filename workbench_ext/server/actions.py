"""Requests from the panel. Law: bad input is refused before a request is written; a request is a file, and the answer
is the engine's."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

import workbench.errors as errors
from workbench import asked
from workbench.asked import Request
from workbench.asking import Waiting, sent
from workbench.errors import BadField, BadInput, NotFound, StoreError, StoreReadOnly
from workbench.records import ENDED
from workbench.records.names import trial_label
from workbench.store import Store, requests
from workbench.store.keeping.usage import folder_usage
from workbench.store.lists.catalog import read_entry, resolve
from workbench.store.owner.ownership import check_ours
from workbench_ext.server.base import Refused, bad, refusal
from workbench_ext.server.experiments import is_readonly, series_of

Json = Any

#: Seconds within which a delete can be taken back, by default and at most.
UNDO_S = 10.0
MOST_UNDO_S = 3600.0
#: The reason that the journal gives for the decision.
REASON = "requested in the panel"
_LONGEST_REASON = 500

#: What the panel may ask for, and whether the experiment must be under way for it (True), must have ended (False), or
#: either (None).
ALLOWED: Mapping[type, bool | None] = {
    asked.Stop: True,
    asked.Pause: True,
    asked.Resume: True,
    asked.Delete: False,
    **dict.fromkeys(
        (asked.Rename, asked.Tag, asked.Note, asked.Pin, asked.Unpin, asked.Keep, asked.Gc, asked.Replay, asked.Extend,
         asked.Verify)
    ),
}  # fmt: skip
_KINDS = {word: kind for word, kind in asked.KINDS.items() if kind in ALLOWED}


def checked(store: Store, body: Json) -> tuple[Request, float]:
    """The request in ``body``, with the experiment's id, and the seconds in which a delete can be taken back. Raises
    Refused and WorkbenchError."""
    if not isinstance(body, dict):
        raise Refused(
            HTTPStatus.BAD_REQUEST, 'expected a JSON object such as {"kind": "pause", "experiment": "digits"}.'
        )
    word = body.get("kind")
    kind = _KINDS.get(word) if isinstance(word, str) else None
    if kind is None:
        raise bad("kind", word, f"one of {', '.join(_KINDS)}")
    fields = asked.fields(kind)
    allowed = {"kind", "reason", *fields, *(("undo_s",) if kind is asked.Delete else ())}
    for field in body.keys() - allowed:
        raise bad(str(field), body[field], f"only {', '.join(sorted(allowed))} with {word}")
    reason = body.get("reason", REASON)
    if not isinstance(reason, str):
        raise bad("reason", reason, "a text")
    # A name may be longer than the id that will stand there.
    name = _name(body) if "experiment" in fields else None
    try:
        request = asked.read({**body, "reason": reason[:_LONGEST_REASON], "experiment": ""})
    except BadField as error:
        raise Refused(HTTPStatus.BAD_REQUEST, str(error), error.field) from error
    undo_s = _undo_s(body.get("undo_s", UNDO_S))
    store.check()
    if store.published.exists():
        raise Refused(
            HTTPStatus.FORBIDDEN,
            f"{store.root} is a published copy, in which nothing can be changed. To work with it: "
            f"`workbench import {store.root}`.",
        )
    check_ours(store)
    if is_readonly(store):
        raise StoreReadOnly(f"{store.root} cannot be written, so nothing can be requested here.")
    if name is None:
        return request, undo_s
    named: Any = request
    return replace(named, experiment=_experiment(store, name, request)), undo_s


def _name(body: Mapping[str, Json]) -> str:
    given = body.get("experiment")
    if not isinstance(given, str) or not given or "/" in given:
        raise bad("experiment", given, "an experiment's id, or a name such as digits@2")
    return given


def _undo_s(given: Json) -> float:
    # Not a time: the clock of the browser's machine may be another.
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= MOST_UNDO_S:
        raise bad("undo_s", given, f"seconds, 0 to {MOST_UNDO_S:g}")
    return float(given)


def _experiment(store: Store, given: str, request: Request) -> str:
    """The id of the named experiment. Raises NotFound, and a 409 if its state forbids the request."""
    experiment_id = resolve(store, given).experiment
    number = getattr(request, "trial", None)
    needs = ALLOWED[type(request)]
    state = read_entry(store, experiment_id).get("state", "waiting")
    # An ended trial's checkpoints may be deleted while its experiment continues.
    is_whole = number is None or not isinstance(request, asked.Delete)
    if is_whole and needs is not None and (state in ENDED) is needs:
        words = f"there is nothing to {asked.kind_of(request)}" if needs else "stop it first"
        raise Refused(HTTPStatus.CONFLICT, f"{given} is {state}: {words}.", "experiment")
    if number is not None:
        series = series_of(store, experiment_id)
        if series is None:
            raise NotFound(f"{given} has no trial {trial_label(number)}: it has not started.")
        with series:
            series.trial(number)
    return experiment_id


# ---------------------------------------------------------------------------------------------------------------------


def ask(store: Store, body: Json) -> tuple[Waiting, Json]:
    """Send the request in ``body``. Returns it, and for a request with a delay also the answer to send at once."""
    request, undo_s = checked(store, body)
    if not isinstance(request, asked.Delete):
        return sent(store, request), None
    same = asked.plain(request)
    for other, waiting in requests.peek(store):
        if all(waiting.get(name) == same.get(name) for name in ("kind", "experiment", "trial")):
            message = f"{body['experiment']} is being deleted already."
            raise Refused(HTTPStatus.CONFLICT, message, "experiment", request=other)
    lost = _lost(store, request.experiment, request.trial)
    # The time begins when all has been looked at: on a slow disk it would be over before the user could use it.
    until = (datetime.now(UTC) + timedelta(seconds=undo_s)).isoformat(timespec="milliseconds")
    told = {"state": "waiting", "bytes": lost, "until": until}
    return sent(store, request, not_before=until), told


def _lost(store: Store, experiment_id: str, number: int | None) -> int:
    """Bytes that a delete removes: the experiment's folder, or checkpoints and files of one trial."""
    found = folder_usage(store, experiment_id)
    if number is None:
        return found.folder
    kept = found.trials.get(number)
    return 0 if kept is None else kept.checkpoints + kept.files


def said(line: Mapping[str, Json]) -> Json:
    """The engine's answer to an accepted request. Raises its refusal otherwise."""
    told = {key: value for key, value in line.items() if key not in ("n", "at", "schema", "kind")}
    if line.get("accepted"):
        return told
    message = str(line.get("error") or "the engine refused it")
    kind = getattr(errors, str(line.get("type")), None)
    refused = Refused(HTTPStatus.CONFLICT, message)
    if isinstance(kind, type) and issubclass(kind, BadInput | NotFound | StoreError):
        refused = refusal(kind(message))
    refused.said["request"] = line.get("request")
    raise refused


def state(store: Store, request_id: str) -> Json:
    """A request's state. Raises NotFound if it is unknown."""
    # The answer is written before the request is removed.
    line = Waiting(store.check(), request_id).look()
    waiting = dict(requests.peek(store)).get(request_id) if line is None else None
    if waiting is not None:
        more = {"until": waiting["not_before"]} if "not_before" in waiting else {}
        about = {"kind": waiting.get("kind"), "experiment": waiting.get("experiment")}
        return {"request": request_id, "state": "waiting", **about, **more}
    line = line or Waiting(store, request_id).look()
    if line is None:
        raise NotFound(f"there is no request {request_id[:60]!r}: it was withdrawn, or never made.")
    if line.get("accepted"):
        return {"request": request_id, "state": "accepted", "experiment": line.get("experiment")}
    return {"request": request_id, "state": "refused", "message": str(line.get("error"))}


def withdraw(store: Store, request_id: str) -> Json:
    """Take a request back if the engine has not taken it. Raises NotFound, and a 409 if it has."""
    outcome = requests.withdraw(store.check(), request_id)
    if outcome == "withdrawn":
        return {"request": request_id, "state": "withdrawn"}
    if outcome == "gone" and Waiting(store, request_id).look() is None:
        raise NotFound(f"there is no request {request_id[:60]!r}: it was withdrawn, or never made.")
    raise Refused(HTTPStatus.CONFLICT, "the engine has acted on it already.", request=request_id)


def due(store: Store) -> bool:
    """Whether a request is waiting that an engine should take now."""
    now = time.time()
    return any(_time(request) <= now for _, request in requests.peek(store))


def _time(request: Mapping[str, Json]) -> float:
    try:
        at = datetime.fromisoformat(request["not_before"])
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (KeyError, TypeError, ValueError):
        return 0.0

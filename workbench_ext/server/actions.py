"""Requests from the panel. Law: bad input is refused before a request is written; a request is a file, and the answer
is the engine's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

import workbench.errors as errors
from workbench.asking import Waiting, sent
from workbench.errors import BadInput, NotFound, StoreError, StoreReadOnly
from workbench.records import ENDED, Keep, checked_name, trial_label
from workbench.store import Store, requests
from workbench.store.keeping.usage import experiment_usage
from workbench.store.lists.catalog import read_entry, resolve
from workbench.store.owner.ownership import check_ours
from workbench_ext.server.base import Refused, bad, refusal, trial
from workbench_ext.server.experiments import is_readonly, series_of

Json = Any

#: Seconds within which a delete can be taken back, by default and at most.
UNDO_S = 10.0
MOST_UNDO_S = 3600.0
#: The most tags of an experiment, characters of a tag, and characters of a note: the engine's limits.
MOST_TAGS, LONGEST_TAG, LONGEST_NOTE = 50, 100, 10_000
#: The reason that the journal gives for the decision.
REASON = "requested in the panel"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind of request may contain besides its experiment: fields with their parsers; others are refused.

    experiment: whether it must name one. needs: whether the experiment must be under way (True), must have ended
    (False), or either (None).
    """

    fields: Mapping[str, Callable[[Json], Json]]
    required: tuple[str, ...] = ()
    experiment: bool = True
    needs: bool | None = None


def _name(given: Json) -> str:
    if not isinstance(given, str):
        raise bad("name", given, "a text")
    try:
        return checked_name(given)
    except BadInput as error:
        raise Refused(HTTPStatus.BAD_REQUEST, str(error), "name") from error


def _tags(given: Json) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(tag, str) for tag in given) or len(given) > MOST_TAGS:
        raise bad("tags", given, f"a list of at most {MOST_TAGS} texts")
    tags = sorted({tag.strip() for tag in given} - {""})
    if any(len(tag) > LONGEST_TAG for tag in tags):
        raise bad("tags", max(tags, key=len), f"tags of at most {LONGEST_TAG} characters")
    return tags


def _note(given: Json) -> str:
    if not isinstance(given, str) or len(given) > LONGEST_NOTE:
        raise bad("note", given, f"a text of at most {LONGEST_NOTE} characters")
    return given


def _trial(given: Json) -> int | None:
    return None if given is None else trial(str(given)) if isinstance(given, str) else _whole("trial")(given)


def _whole(field: str) -> Callable[[Json], int | None]:
    def read(given: Json) -> int | None:
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 10**9):
            raise bad(field, given, "a whole number of 0 or more")
        return given

    return read


def _yes(given: Json) -> bool:
    if not isinstance(given, bool):
        raise bad("dry_run", given, "true or false")
    return given


def _seconds(given: Json) -> float | None:
    if given is not None and (isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 1e9):
        raise bad("seconds", given, "a number of seconds, more than 0")
    return given


def _rule(given: Json) -> Json:
    """``best=1,latest=2``, ``all``, or an object with the same fields."""
    try:
        if isinstance(given, dict):
            Keep(**given)
        elif isinstance(given, str):
            Keep.of(given)
        else:
            raise TypeError
    except TypeError:
        raise bad("rule", given, 'an object such as {"latest": 2}, or a text such as latest=2') from None
    except BadInput as error:
        raise Refused(HTTPStatus.BAD_REQUEST, str(error), "rule") from error
    return given


def _not_before(given: Json) -> str:
    try:
        at = datetime.fromisoformat(given)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        at = at.astimezone(UTC)
        wait = (at - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError, OverflowError):
        wait = MOST_UNDO_S + 1
    if wait > MOST_UNDO_S:
        raise bad("not_before", given, f"a time (ISO 8601, UTC) at most {MOST_UNDO_S:g} s from now")
    return at.isoformat(timespec="milliseconds")


_STEP = _whole("step")
KINDS: Mapping[str, Kind] = {
    "stop": Kind({"trial": _trial}, needs=True),
    "pause": Kind({}, needs=True),
    "resume": Kind({}, needs=True),
    "rename": Kind({"name": _name}, ("name",)),
    "tag": Kind({"tags": _tags}, ("tags",)),
    "note": Kind({"note": _note}, ("note",)),
    "pin": Kind({"trial": _trial, "step": _STEP}),
    "unpin": Kind({"trial": _trial, "step": _STEP}),
    "keep": Kind({"rule": _rule}, ("rule",)),
    "gc": Kind({"dry_run": _yes}, experiment=False),
    "delete": Kind({"trial": _trial, "not_before": _not_before}, needs=False),
    "replay": Kind({"trial": _trial}),
    "extend": Kind({"trials": _whole("trials"), "last": _whole("last"), "seconds": _seconds}),
    "verify": Kind({"trial": _trial, "step": _STEP}, ("trial",)),
}


def checked(store: Store, body: Json) -> dict[str, Json]:
    """The request in ``body``, with the experiment's id. Raises Refused and WorkbenchError."""
    if not isinstance(body, dict):
        raise Refused(
            HTTPStatus.BAD_REQUEST, 'expected a JSON object such as {"kind": "pause", "experiment": "digits"}.'
        )
    kind = KINDS.get(body["kind"]) if isinstance(body.get("kind"), str) else None
    if kind is None:
        raise bad("kind", body.get("kind"), f"one of {', '.join(KINDS)}")
    allowed = {"kind", "experiment", "reason", *kind.fields}
    for field in body.keys() - allowed:
        raise bad(str(field), body[field], f"only {', '.join(sorted(allowed))} with {body['kind']}")
    for field in kind.required:
        if field not in body:
            raise Refused(HTTPStatus.BAD_REQUEST, f"{field} is missing: {body['kind']} needs it.", field)
    asked = {field: read(body[field]) for field, read in kind.fields.items() if field in body}
    check_ours(store.check())
    if is_readonly(store):
        raise StoreReadOnly(f"{store.root} cannot be written, so nothing can be requested here.")
    reason = body.get("reason", REASON)
    if not isinstance(reason, str):
        raise bad("reason", reason, "a text")
    asked |= {"kind": body["kind"], "reason": reason[:500]}
    if kind.experiment or body.get("experiment") is not None:
        asked["experiment"] = _experiment(store, body, kind, asked.get("trial"))
    return asked


def _experiment(store: Store, body: Mapping[str, Json], kind: Kind, number: int | None) -> str:
    """The id of the named experiment. Raises NotFound, and a 409 if its state forbids the request."""
    given = body.get("experiment")
    if not isinstance(given, str) or not given or "/" in given:
        raise bad("experiment", given, "an experiment's id, or a name such as digits@2")
    experiment_id = resolve(store, given).experiment
    state = read_entry(store, experiment_id).get("state", "waiting")
    # An ended trial's checkpoints may be deleted while its experiment continues.
    is_whole = number is None or body["kind"] != "delete"
    if is_whole and kind.needs is not None and (state in ENDED) is kind.needs:
        words = f"there is nothing to {body['kind']}" if kind.needs else "stop it first"
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
    asked = checked(store, body)
    told: Json = None
    if asked["kind"] == "delete":
        until = asked.get("not_before") or _not_before((datetime.now(UTC) + timedelta(seconds=UNDO_S)).isoformat())
        asked["not_before"] = until
        what = ("kind", "experiment", "trial")
        for other, request in requests.peek(store):
            if all(request.get(name) == asked.get(name) for name in what):
                message = f"{body['experiment']} is being deleted already."
                raise Refused(HTTPStatus.CONFLICT, message, "experiment", request=other)
        told = {"state": "waiting", "bytes": _lost(store, asked["experiment"], asked.get("trial")), "until": until}
    return sent(store, asked), told


def _lost(store: Store, experiment_id: str, number: int | None) -> int:
    """Bytes that a delete removes: the whole experiment, or checkpoints and files of one trial."""
    found = experiment_usage(store, experiment_id)
    if number is None:
        return found.bytes
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
    waiting = dict(requests.peek(store.check())).get(request_id)
    if waiting is not None:
        more = {"until": waiting["not_before"]} if "not_before" in waiting else {}
        about = {"kind": waiting.get("kind"), "experiment": waiting.get("experiment")}
        return {"request": request_id, "state": "waiting", **about, **more}
    line = Waiting(store, request_id).look()
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

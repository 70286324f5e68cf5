"""The variables with which something is trained again: the recorded ones, with secrets from this process."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from workbench.records import Training
from workbench.snapshot.surroundings import variables
from workbench.store.owner import private

#: Variables about the user and the machine's folders: another user or machine has its own values.
_OWN = re.compile(
    r"HOME|USER|USERNAME|LOGNAME|LNAME|SHELL|PATH|TMPDIR|TEMP|TMP|VIRTUAL_ENV|CONDA_\w+|PYENV_\w+|XDG_\w+|\w*_PROXY|\w*_proxy"
    r"|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|HF_(HOME|HUB_CACHE|DATASETS_CACHE)|TORCH_HOME"
)


def again(training: Training, environ: Mapping[str, str] | None) -> tuple[Training, list[str]]:
    """``training`` with the variables for training again; and their differences from the record, in words.

    environ: the variables of the process in which the user asks. None: the engine asks and does not know the user's
    variables, so secrets stay as recorded, and their values are used if they are still kept.
    """
    if environ is None:
        return training, []
    here = variables.travelling(environ, variables.begun_with())
    if not training.is_whole:  # an earlier version recorded only a few, or the others were confidential
        found = variables.recorded({**here, **training.env})
        return dataclasses.replace(training, env=found.env, secrets=found.secrets, is_whole=True), []
    env, told = dict(training.env), []
    if env.get("HOME") != here.get("HOME"):
        kept = {name: value for name, value in env.items() if not _OWN.fullmatch(name)}
        own = {name: value for name, value in variables.recorded(here).env.items() if _OWN.fullmatch(name)}
        env = {**kept, **own}
        told.append("HOME and other personal or machine variables have this machine's values")
    secrets = {}
    for name, known in training.secrets.items():
        if name not in here:
            told.append(f"{name}, a secret, is not set here")
            continue
        secrets[name] = private.digest(name, here[name])
        if secrets[name] != known:
            told.append(f"{name}, a secret, has a different value now")
    return dataclasses.replace(training, env=dict(sorted(env.items())), secrets=secrets), told

"""Secrets recognised by their form: the plugins of detect-secrets, and our own in the same form. Law: no network, no
file, no setting of the process; the time is linear in the text.

Only a plugin's expressions are used, never ``verify``, which asks the service whether a key is valid. Each is tried at
the occurrences of its heads, on a bounded number of letters: the library applies them to whole lines, where the time of
some grows with the square of the length. Importing this module imports the library, about 0.1 s; :mod:`masking` does so
only for a text that contains a head.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.jwt import JwtTokenDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.telegram_token import TelegramBotTokenDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

from workbench.snapshot.secrets.secret_plugins import (
    OWN,
    AddressDetector,
    NotifyDetector,
    PrivateKeyBlockDetector,
    WebhookDetector,
    expressions,
    heads_of,
)

#: The number of letters that an expression examines from a head on. The rest of a longer key is masked too.
_WINDOW = 512
#: A private key of 16384 bits has about 13,000 letters.
_LONGEST = 24_000
#: A longer run of letters is a picture or a blob.
_BLOB = 4096
#: The rest of a key after the part matched by its expression, and after a JSON web token's first parts.
_TAIL = re.compile(r"[\w-]*(?:\.[\w-]+)*")
_EXACT, _NOTHING = re.compile(r"(?![\w-])"), re.compile("")
#: Our plugins whose matches are complete.
_WHOLE = (AddressDetector, NotifyDetector, PrivateKeyBlockDetector, WebhookDetector)


@dataclass(frozen=True, slots=True)
class Look:
    """One plugin, and how it is used.

    heads: the possible beginnings of its matches, in lower case; empty if they can begin with anything. tail: how the
    key may continue. inside: a match may follow a letter.
    """

    kind: str
    expressions: tuple[re.Pattern[str], ...]
    heads: tuple[str, ...] = ()
    tail: re.Pattern[str] = _TAIL
    inside: bool = False
    needs_digit: bool = True
    window: int = _WINDOW


_GITLAB = (
    *("glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "gr1348941"),
    *("glcbt-", "glimt-", "glptt-", "glagent-", "gloas-"),
)
#: The library's plugins, how their matches begin, and whether a key may be longer than its expression.
_LIBRARY: tuple[tuple[type[RegexBasedDetector], tuple[str, ...], re.Pattern[str]], ...] = (
    (AWSKeyDetector, ("a3t", "abia", "acca", "akia", "asia", "aws"), _EXACT),
    (AzureStorageKeyDetector, ("accountkey=",), re.compile(r"=*")),
    (DiscordBotTokenDetector, (), _TAIL),
    (GitHubTokenDetector, ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _TAIL),
    (GitLabTokenDetector, _GITLAB, _TAIL),
    (JwtTokenDetector, ("eyj",), _TAIL),
    (MailchimpDetector, (), _EXACT),
    (PypiTokenDetector, ("pypi-",), _TAIL),
    (SendGridDetector, ("sg.",), _TAIL),
    (SlackDetector, ("xox", "https://hooks.slack.com/"), _TAIL),
    (SquareOAuthDetector, ("sq0csp-",), _TAIL),
    (StripeDetector, ("sk_live_", "rk_live_"), _TAIL),
    (TelegramBotTokenDetector, (), _EXACT),
    (TwilioKeyDetector, (), _EXACT),
)  # fmt: skip


@functools.cache
def looks() -> tuple[Look, ...]:
    """All looks, the library's and ours."""
    library = [Look(str(plugin.secret_type), expressions(plugin()), heads, tail) for plugin, heads, tail in _LIBRARY]
    own = [
        Look(
            kind=str(plugin.secret_type),
            expressions=expressions(plugin()),
            heads=heads_of(plugin),
            tail=_NOTHING if plugin in _WHOLE else _TAIL,
            inside=plugin in (AddressDetector, NotifyDetector),
            needs_digit=False,
            window=_LONGEST if plugin is PrivateKeyBlockDetector else _WINDOW,
        )
        for plugin in OWN
    ]
    return (*library, *own)


def seen(text: str, lowered: str) -> Iterator[tuple[int, int, str]]:
    """The beginning, end and kind of each secret in ``text``, in any order, possibly with repetitions.

    lowered: ``text`` in lower case, of the same length.
    """
    for look in looks():
        if look.heads:
            for head in look.heads:
                if head in lowered:
                    yield from _at(text, lowered, look, head)
        else:
            for expression in look.expressions:
                for match in expression.finditer(text):
                    if (found := _whole(text, match, look)) is not None:
                        yield found


def _at(text: str, lowered: str, look: Look, head: str) -> Iterator[tuple[int, int, str]]:
    place = lowered.find(head)
    while place >= 0:
        after = place + 1
        if look.inside or _begins(text, place):
            for expression in look.expressions:
                match = expression.match(text, place, min(len(text), place + look.window))
                if match is not None and (found := _whole(text, match, look)) is not None:
                    yield found
                    after = max(after, found[1])
                    break
        place = lowered.find(head, after)


def _begins(text: str, place: int) -> bool:
    """Whether a word begins at ``place``: no letter precedes it, except the ``n`` of an escaped newline."""
    before = text[place - 1 : place]
    return not (before.isalnum() or before in ("_", "-")) or text[max(0, place - 2) : place - 1] == "\\"


def _whole(text: str, match: re.Match[str], look: Look) -> tuple[int, int, str] | None:
    # A short group is a part of an expression, such as `(ghp|gho)`; a long one is the key behind a name.
    group = next((n for n, value in enumerate(match.groups(), 1) if value and (look.inside or len(value) > 11)), 0)
    start, end = match.span(group)
    tail = look.tail.match(text, end)
    if tail is None or not (look.inside or _begins(text, match.start())):
        return None
    end = tail.end()
    if end - start > max(look.window, _BLOB) or (look.needs_digit and not re.search(r"\d", text[start:end])):
        return None
    return start, end, look.kind

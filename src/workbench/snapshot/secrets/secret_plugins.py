"""Plugins for secrets that detect-secrets does not recognise. Law: each match begins with one of the heads, and the
expression examines a bounded number of letters.

``heads``: the beginnings of matches, in lower case; see :mod:`workbench.snapshot.secrets.detector`, the only caller.
"""

from __future__ import annotations

import re
from re import Pattern

from detect_secrets.plugins.base import RegexBasedDetector


class ServiceKeyDetector(RegexBasedDetector):
    """Keys of services by their prefix. Other words begin with ``sk-`` and ``hf_`` too (scikit-learn's styles, names in
    code), so these have stricter rules.
    """

    secret_type = "Service key"
    heads = (
        "sk-", "sk_", "rk_", "pk_", "whsec_", "hf_", "gh", "github_pat_", "glpat-", "akia", "xox", "xapp-", "aiza",
        "ya29.", "npm_", "pypi-", "dckr_pat_", "wandb_v1_", "sg.", "dapi", "lsv2_", "gsk_", "r8_", "shpat_", "dop_v1_",
        "nvapi-",
    )  # fmt: skip
    denylist = (
        re.compile(
            r"""(?x)
            sk- (?: (?:proj|svcacct|admin|ant|or) - [\w-]{12,200} | (?=[a-z]{0,40}[A-Z\d]) [A-Za-z\d]{12,200}
                  | (?=[\w-]{0,60}\d) (?=[\w-]{0,60}[A-Z]) [\w-]{24,200} ) (?![\w-])
          | (?:sk|rk|pk)_(?:live|test)_[A-Za-z\d]{10,200} | whsec_[A-Za-z\d+/]{20,100}
          | hf_ (?: (?=[A-Za-z]{0,60}\d) (?=[a-z\d]{0,60}[A-Z]) [A-Za-z\d]{12,60} | [A-Za-z\d]{30,60} ) (?![\w-])
          | gh[pousr]_[A-Za-z\d]{16,255} | github_pat_\w{20,100} | glpat-[\w-]{16,100}
          | AKIA[A-Z\d]{16} (?![\w-]) | xox[a-z]-[A-Za-z\d-]{10,200} | xoxe\.xox[bp]-[A-Za-z\d-]{10,200}
          | xapp-\d-[A-Za-z\d-]{10,200} | AIza[\w-]{30,60} | ya29\.[\w-]{20,200}
          | npm_[A-Za-z\d]{30,60} | pypi-[\w-]{16,250} | dckr_pat_[\w-]{20,60} | wandb_v1_[\w-]{20,120}
          | SG\.[\w-]{16,30}\.[\w-]{16,60} | dapi[a-f\d]{32} | lsv2_[a-z]{2}_[a-f\d]{32}\w{0,20}
          | gsk_[A-Za-z\d]{32,60} | r8_[A-Za-z\d]{30,60} | shpat_[a-fA-F\d]{32} | dop_v1_[a-f\d]{64}
          | nvapi-[\w-]{30,100}
            """
        ),
    )


class WebhookDetector(RegexBasedDetector):
    """Addresses to which anyone who knows them can post."""

    secret_type = "Webhook"
    heads = ("https://", "http://")
    denylist = (
        re.compile(
            r"""(?xi) https?://(?:
            hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/[\w/-]{8,200}
          | (?:\w{1,20}\.)?discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/\d{5,25}/[\w-]{8,100}
          | [\w-]{1,60}\.webhook\.office\.com/[\w@/-]{16,300} | outlook\.office(?:365)?\.com/webhook/[\w@/-]{16,300}
          | [\w.-]{1,80}\.logic\.azure\.com(?::\d{1,5})?/[\w/]{8,200}[^\s"'<>]{0,300}
          | chat\.googleapis\.com/v\d/spaces/[^\s"'<>]{16,300} | hooks\.zapier\.com/hooks/[\w/]{8,100}
          | api\.telegram\.org/bot[^\s"'/<>]{10,80} | maker\.ifttt\.com/trigger/[\w/-]{10,200}
          | events\.pagerduty\.com/integration/[\w/-]{16,100} | [\w.-]{1,80}/hooks/[\w-]{16,100}
          )"""
        ),
    )


class NotifyDetector(RegexBasedDetector):
    """The address for a search's notifications, whatever the host: ``--notify URL``, ``#| notify: URL``, ``webhook =
    "URL"``."""

    secret_type = "Webhook"
    heads = ("notify", "webhook")
    denylist = (
        re.compile(
            r"""(?i)(?:notify|webhook)(?:_?ur[il])?["']?\]?(?:\s{0,8}[=:]\s{0,8}|(?<=--notify)\s{1,8}"""
            r"""|(?<=--webhook)\s{1,8})["']?(https?://(?![^\s"'<>]{0,300}…)[^\s"'<>\\]{4,1000})"""
        ),
    )


class AddressDetector(RegexBasedDetector):
    """Credentials in an address: ``scheme://user:password@host``. An S3 secret may hold a slash."""

    secret_type = "Credentials in an address"
    heads = ("://",)
    denylist = (re.compile(r"""://([^\s/@'":]{0,256}:(?!\d{1,5}/)[^\s@'"<>]{1,256}|[^\s/@'"]{1,512})@"""),)


class BearerDetector(RegexBasedDetector):
    """The value of an ``Authorization`` header."""

    secret_type = "Bearer token"
    heads = ("bearer", "basic ")
    denylist = (re.compile(r"(?i)(?:bearer\s{1,8}|basic\s)((?=[^\d]{0,80}\d)[\w.~+/-]{12,4000}={0,2})"),)


class SignatureDetector(RegexBasedDetector):
    """The signature of an Azure SAS, and keys in its connection strings."""

    secret_type = "Azure key"
    heads = ("sig=", "accountkey=", "sharedaccesskey=")
    denylist = (re.compile(r"(?i)(?:sig|AccountKey|SharedAccessKey)=([A-Za-z\d%+/=]{20,200})"),)


class PrivateKeyBlockDetector(RegexBasedDetector):
    """A whole private key, of which detect-secrets finds only the first line. Its lines may be in a comment, in a list
    of texts, or be joined by ``\\n``.
    """

    secret_type = "Private Key"
    heads = ("-----begin ", "---- begin ssh2", "putty-user-key-file")
    denylist = (
        re.compile(
            r"(?is)----[- ]BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?[- ]{4,5}(?:(?!-----BEGIN )[^\0]){0,20000}?"
            r"----[- ]END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?[- ]{4,5}"
        ),
        re.compile(r"(?i)PuTTY-User-Key-File-\d:(?:[^\n]{1,200}\n){1,400}?Private-MAC:[^\n]{1,200}"),
        # A truncated key: all lines that look like parts of it.
        re.compile(
            r"(?i)----[- ]BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?[- ]{4,5}"
            r"""(?:(?:\\n|[\s#"'+,]){0,40}[A-Za-z0-9+/=]{16,100}){0,400}"""
        ),
    )


OWN: tuple[type[RegexBasedDetector], ...] = (
    PrivateKeyBlockDetector,
    WebhookDetector,
    NotifyDetector,
    ServiceKeyDetector,
    AddressDetector,
    BearerDetector,
    SignatureDetector,
)


def heads_of(plugin: type[RegexBasedDetector]) -> tuple[str, ...]:
    """The possible beginnings of a plugin's matches, in lower case."""
    heads: tuple[str, ...] = plugin.heads  # type: ignore[attr-defined]
    return heads


def expressions(plugin: RegexBasedDetector) -> tuple[Pattern[str], ...]:
    """The expressions of a plugin, of the library or of this module."""
    return tuple(plugin.denylist)

"""Secrets out of what is written down: arguments, cells, logs, notebooks. Law: text that holds no secret stays as it
is, to the letter.

A secret is known by the name to which it is given, or by its own look: what begins with ``ghp_`` is nothing else.
"""

from __future__ import annotations

import re

MASK = "***"

# Names --------------------------------------------------------------------------------------------------------------

#: Words in a name whose value is nobody's business.
_SECRET_NAME = re.compile(
    r"(?i)key|token(?!i[sz])|secret|passw|passphrase|credential|authorization|(?:^|_)auth(?:$|_)|cookie"
    r"|(?:^|_)pwd?(?:$|_)|private|signature"
)
#: Those of them by which a value is known in any text, prose and other languages included. A tokenizer is no token,
#: and a KeyError tells of a key that is none.
_IN_TEXT = re.compile(
    r"(?i)(?!.*(?:error|exception|warning|interrupt)$).*"
    r"(?:key|token(?!i[sz])|secret|passw|passphrase|credential|pwd|authorization)"
)
#: One of these is in every such name, in small letters.
_WORDS = ("key", "token", "secret", "passw", "passphrase", "credential", "auth", "cookie", "pw", "private", "signature")

# Texts --------------------------------------------------------------------------------------------------------------

_IN_ADDRESS = re.compile(r"(?P<scheme>\b[a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@'\"]+@")
#: What services give out, by how it begins. ``sk-`` and ``hf_`` begin other words too (scikit-learn's styles, names in
#: code), so that more is asked of these.
_SHAPES = re.compile(
    r"""(?x) (?<![\w-]) (?:
        sk- (?: (?:proj|svcacct|admin|ant|or) - [\w-]{12,} | (?=[a-z]*[A-Z\d]) [A-Za-z\d]{12,} )
      | hf_ (?: (?=[A-Za-z]*\d) (?=[a-z\d]*[A-Z]) [A-Za-z\d]{12,} | [A-Za-z\d]{30,} )
      | gh[pousr]_[A-Za-z\d]{16,} | github_pat_\w{20,} | glpat-[\w-]{16,}
      | AKIA[A-Z\d]{16} | xox[a-z]-[A-Za-z\d-]{10,} | AIza[\w-]{30,}
    ) (?![\w-])"""
)
#: How they begin, in small letters.
_BEGINNINGS = ("sk-", "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "akia", "xox", "aiza")
_BEARER = re.compile(r"(?i)(?P<before>\bbearer\s+)(?P<value>[\w.~+/=-]{12,})")
#: One of these is in every text that holds a secret, but credentials in an address.
HEADS = (*_WORDS, *_BEGINNINGS, "bearer")

_QUOTED = (
    r"""(?:\"{3}(?:[^\\]|\\.){0,4000}?\"{3}|'{3}(?:[^\\]|\\.){0,4000}?'{3}"""
    r"""|\\"[^"\\\n]*\\"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
)
#: ``api_key = "…"``, from the name on.
_GIVEN = re.compile(
    rf"""(?ix)
    (?P<name>[\w-]{{1,200}})
    (?P<between>
        \s*:\s*[a-z_][\w.]*(?:\[[^\]\n=]{{0,80}}\]+)?(?:\s*\|\s*[\w.]+)*\s*=(?!=)\s*(?=[rbuf]{{0,2}}["'])  # name: str =
      | (?: \\?['"]\]?\s*:?[=:]\s* | \]?[^\S\n]*(?::(?!=)[^\S\n]*|:?=\s*) ) (?:\(\s*(?=[rbuf]{{0,2}}{_QUOTED}\s*\)))?
      | [^\S\n]+(?=[^\s=:]{{8}})  # --token abcdefgh
    )
    (?: (?P<prefix>[rbuf]{{0,2}})(?P<quoted>{_QUOTED})
      | (?:bearer|basic|token)\s+(?P<sent>[^\s'"\\]+)
      | ["']?(?P<bare>(?:[^\s,;)'"<\\]|\\(?![nrt"'\\]))+) )
    """
)
#: ``os.environ.setdefault("API_KEY", "…")``: what stands before the name, and what follows.
_ASKED = re.compile(r"\b(?:get|getenv|pop|set|setdefault|setenv|putenv)\(\s*[ru]?[\"']$")
_FALLBACK = re.compile(
    rf"(?P<name>[\w-]{{1,200}})[\"']\s*,\s*(?:default\s*=\s*)?(?P<prefix>[rRbBuUfF]{{0,2}})(?P<quoted>{_QUOTED})"
)
#: ``!export API_KEY=…``, ``%env API_KEY …``, ``?api_key=…``: the same.
_SHELL = re.compile(
    r"(?:^|[;&|])[ \t]*(?:!+[ \t]*(?:(?:export|env|setx?)[ \t]+)?|(?:export|env|setx?)[ \t]+)(?:\w+=\S*[ \t]+)*$"
)
_VARIABLE = re.compile(rf"(?P<name>\w+)=(?P<value>{_QUOTED}|[^\s;&|\"']+)")
_ENV = re.compile(r"^[^\S\n]*%(?:set_)?env[^\S\n]+$")
_ENV_VALUE = re.compile(r"(?P<name>\w+)(?:[^\S\n]*=|[^\S\n])[^\S\n]*(?P<value>\S.*)")
_PARAMETER = re.compile(r"(?P<name>[\w-]+)=(?P<value>[^\s&#'\"{$<>\\]{6,})")
#: What a shell's variable may hold that is plainly no secret: a switch, another variable, a number of tokens.
_PLAIN = re.compile(r"(?i)[\"']?(?:true|false|yes|no|on|off|none|null|[${].*)?[\"']?\s*$")
_COUNT = re.compile(r"(?i)\w*(?:key|token)\w*=?[^\S\n]*\d{1,8}\b")
_RUN = re.compile(r"[\w-]*")
#: No name is longer; nor looked at is what stands farther before one.
_NEAR = 100
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
#: A shorter quoted text is none that anybody would keep a secret by: ``pad_token="<pad>"``.
LEAST = 6


def is_secret(name: str) -> bool:
    """Whether a variable of this name holds something that must not be written down."""
    return _SECRET_NAME.search(name) is not None


def masked(text: str) -> str:
    """``text`` with the values of keys, tokens and passwords, and credentials in addresses, replaced by ``***``.

    Where something is, a terminal's colours go as well: they stand between a name and its value.
    """
    if not may_hold(text):
        return text
    if "://" in text:
        text = _IN_ADDRESS.sub(rf"\g<scheme>{MASK}@", text)
    plain = _COLOURS.sub("", text) if "\x1b[" in text else text
    found = _without_secrets(plain)
    return text if found == plain else found


def may_hold(text: str) -> bool:
    """Whether a secret may be in ``text``, by a quick look."""
    lowered = text.lower()
    return "://" in text or any(head in lowered for head in HEADS)


def _without_secrets(text: str) -> str:
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters have no small one of the same length
        lowered = "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)
    text = _without_values(text, lowered)
    if "bearer" in lowered:
        text = _BEARER.sub(lambda match: match["before"] + MASK if _looks_random(match["value"]) else match[0], text)
    return _SHAPES.sub(MASK, text) if any(one in lowered for one in _BEGINNINGS) else text


def _without_values(text: str, lowered: str) -> str:
    """``text`` without what is given to a secret's name. Looked at are the names with such a word, and nothing else: a
    log may be long.
    """
    parts, told, place = [], 0, 0
    for word in _places(lowered):
        if word < place:
            continue
        start = word
        while start > max(place, word - _NEAR) and (text[start - 1].isalnum() or text[start - 1] in "_-"):
            start -= 1
        found = _found(text, start)
        # What follows may be a name itself: `token: password=…`.
        place = _end(text, word)
        if found is not None:
            first, place, shown = found
            parts += [text[told:first], shown]
            told = place
    return "".join(parts) + text[told:] if parts else text


def _places(lowered: str) -> list[int]:
    found = []
    for word in _WORDS:
        place = lowered.find(word)
        while place >= 0:
            found.append(place)
            place = lowered.find(word, place + 1)
    return sorted(found)


def _end(text: str, place: int) -> int:
    match = _RUN.match(text, place)
    return match.end() if match else place


def _found(text: str, start: int) -> tuple[int, int, str] | None:
    """Where the value of the name at ``start`` begins and ends, and what stands there instead; None for no secret."""
    before = text[max(0, start - _NEAR) : start]
    last = before[-1:]
    if last in "\"'" and last and _ASKED.search(before):
        match = _FALLBACK.match(text, start)
        if match is not None and is_secret(match["name"]):
            return _instead(match, "quoted", _shown_text(match["prefix"], match["quoted"]))
    if last in ("?", "&"):
        match = _PARAMETER.match(text, start)
        if match is not None and is_secret(match["name"]):
            return _instead(match, "value", MASK)
    if last in (" ", "\t", "!"):
        line = before[before.rfind("\n") + 1 :]
        for head, variable in ((_ENV, _ENV_VALUE), (_SHELL, _VARIABLE)):
            match = variable.match(text, start) if head.search(line) else None
            if match is not None and is_secret(match["name"]):
                is_plain = _PLAIN.match(match["value"]) or _COUNT.fullmatch(match[0])
                return _instead(match, "value", None if is_plain else MASK)
    match = _GIVEN.match(text, start)
    return None if match is None or not _IN_TEXT.match(match["name"]) else _given(match)


def _given(match: re.Match[str]) -> tuple[int, int, str] | None:
    name, bare = match["name"], match["bare"]
    is_option = name.startswith("--")
    if match["between"].isspace() and not is_option:
        return None  # prose, or `del key other`
    if match["quoted"] is not None:
        return _instead(match, "quoted", _shown_text(match["prefix"], match["quoted"]) if name.strip("-_") else None)
    if bare is None:
        return _instead(match, "sent", MASK)
    # Otherwise a name, a number or a call: `token = tokenizer(x)`, `key=None`.
    return _instead(match, "bare", MASK if is_option or _looks_random(bare) else None)


def _instead(match: re.Match[str], group: str, shown: str | None) -> tuple[int, int, str] | None:
    return None if shown is None else (*match.span(group), shown)


def _shown_text(prefix: str, quoted: str) -> str | None:
    quote = next(one for one in ('"""', "'''", '\\"', '"', "'") if quoted.startswith(one))
    content = quoted[len(quote) : -len(quote)]
    if len(content) < LEAST or ("f" in prefix.lower() and "{" in content):
        return None
    return f"{quote}{MASK}{quote}"


def _looks_random(value: str) -> bool:
    return len(value) >= 12 and bool(re.search(r"\d", value)) and bool(re.fullmatch(r"[\w+/=.-]+", value))

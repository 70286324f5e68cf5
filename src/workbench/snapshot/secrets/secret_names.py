"""Names of secrets, and where a text assigns one of them a value. Law: the time is linear in the text.

Detectors that work on lines of a file cannot handle the content of notebooks: magics, shell lines, options, logs, JSON
in JSON. Each match below is bounded or remembered, so that no letter is examined again and again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MASK = "***"
#: A shorter quoted text is not a secret: ``pad_token="<pad>"``. Passwords may be shorter.
LEAST, LEAST_OF_PASSWORD = 6, 4
#: Every name of a secret contains one of these, in lower case.
WORDS = ("key", "token", "secret", "pass", "credential", "auth", "cookie", "pw", "private", "signature")

#: The names of variables, fields and arguments whose values are secrets.
_SECRET_NAME = re.compile(
    r"(?i)key|token(?!i[sz])|secret|passw|passphrase|credential|authorization|(?:^|_)auth(?:$|_)|cookie"
    r"|(?:^|[_-])(?:pass|pwd?)(?:$|[_-])|private|signature"
)
#: Those that mark a secret in any text, including prose and other languages. A tokenizer is not a token, and a KeyError
#: reports a key that is not a secret.
_IN_TEXT = re.compile(
    r"(?i)(?!.*(?:error|exception|warning|interrupt)$).*"
    r"(?:key|token(?!i[sz])|secret|passw|passphrase|credential|pwd|authorization|(?:^|[_-])(?:pass|pw)(?:$|[_-]))"
)
#: Names that only secrets have.
_SURE_NAME = re.compile(r"(?i)secret|(?:api|access|account|auth|private)[_-]?(?:key|token)|credential|authorization")
_PASSWORD = re.compile(r"(?i)passw|passphrase|(?:^|[_-])(?:pass|pwd?)(?:$|[_-])")

_PREFIX = re.compile(r"[rRbBuUfF]{0,2}")
#: The text between a name and its value: ``name: str =``, ``"name":``, ``name=``, the blanks of ``--name value``.
_BETWEEN = re.compile(
    r"""(?ix)
    (?: \s{0,64}:\s{0,64}[a-z_][\w.]{0,80}(?:\[[^\]\n=]{0,80}\]{1,4})?(?:\s{0,8}\|\s{0,8}[\w.]{1,80}){0,8}\s{0,8}
            =(?!=)\s{0,64}(?=[rbuf]{0,2}["'])
      | \\?['"]\]?\s{0,64}:?[=:]\s{0,64}
      | \]?[^\S\n]{0,64}(?::(?!=)[^\S\n]{0,64}|:?=\s{0,64})
      | (?P<blank>[^\S\n]{1,64})(?=[^\s=:]{8})
    )"""
)
_SENT = re.compile(r"(?i)(?:bearer|basic|token)\s{1,8}(?P<sent>[^\s'\"\\]{1,4000})")
_BARE = re.compile(r"""["']?(?P<bare>(?:[^\s,;)'"<\\]|\\(?![nrt"'\\])){1,200})""")
#: The rest of a truncated value.
_REST = re.compile(r"""(?:[^\s,;)'"<\\]|\\(?![nrt"'\\]))*""")
#: ``os.environ.setdefault("API_KEY", "…")``: the text before the name, and after it.
_ASKED = re.compile(r"\b(?:get|getenv|pop|set|setdefault|setenv|putenv)\(\s{0,64}[ru]?[\"']$")
_COMMA = re.compile(r"[\"']\s{0,64},\s{0,64}(?:default\s{0,8}=\s{0,8})?")
#: ``!export API_KEY=…``, ``%env API_KEY …``, ``?api_key=…``: the same.
_SHELL = re.compile(
    r"(?:^|[;&|])[ \t]*(?:!+[ \t]*(?:(?:export|env|setx?)[ \t]+)?|(?:export|env|setx?)[ \t]+)(?:\w+=\S*[ \t]+)*$"
)
_VARIABLE = re.compile(r"""=(?P<value>"[^"\n]{0,4000}"|'[^'\n]{0,4000}'|[^\s;&|"']+)""")
_ENV = re.compile(r"^[^\S\n]*%(?:set_)?env[^\S\n]+$")
_ENV_VALUE = re.compile(r"(?:[^\S\n]{0,64}=|[^\S\n])[^\S\n]{0,64}(?P<value>\S.*)")
_PARAMETER = re.compile(r"=(?P<value>[^\s&#'\"{$<>\\]{6,})")
#: Values of shell variables that are clearly not secrets: a switch, another variable, a number of tokens.
_PLAIN = re.compile(r"(?i)[\"']?(?:true|false|yes|no|on|off|none|null|[${].*)?[\"']?\s*$")
_COUNTED, _COUNT = re.compile(r"(?i)\w*(?:key|token)\w*"), re.compile(r"\d{1,8}")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_RUN = re.compile(r"[\w-]*")
#: The maximum length of a name, and of the text examined before one.
_NEAR = 100
_LONGEST_NAME = 200
_OPENED = re.compile(r"\"{3}|'{3}|\\\"|\"|'")
#: The rest of a quoted text, including the closing quote. Possessive, so that an unclosed text is scanned only once.
_CLOSED = {
    '"': re.compile(r'(?:[^"\\\n]|\\.)*+"'),
    "'": re.compile(r"(?:[^'\\\n]|\\.)*+'"),
    '\\"': re.compile(r'[^"\\\n]*+\\"'),
    '"""': re.compile(r'(?s)(?:[^"\\]|\\.|"(?!""))*+"""'),
    "'''": re.compile(r"(?s)(?:[^'\\]|\\.|'(?!''))*+'''"),
}


class Given(NamedTuple):
    """A secret value assigned to a name: its position, and its replacement."""

    start: int
    end: int
    shown: str


def is_secret(name: str) -> bool:
    """Whether the value of a variable with this name must not be stored."""
    return _SECRET_NAME.search(name) is not None


def holds_secret(name: str, text: str, *, is_short_told: bool = False) -> bool:
    """Whether a quoted ``text`` assigned to this secret's name is a secret: ``eos_token="<|endoftext|>"`` is not.

    is_short_told: short texts are secrets too.
    """
    shortest = 1 if is_short_told else LEAST_OF_PASSWORD if _PASSWORD.search(name) else LEAST
    return len(text) >= shortest and not (text[0] in "<[" and text[-1] in ">]")


def is_likely(name: str, text: str) -> bool:
    """Whether a text in a captured value is a secret by its name. Such values cannot be published, so the test is
    stricter for names that other values have too: ``token``, ``key``.
    """
    if not is_secret(name) or not holds_secret(name, text) or re.search(r"\s", text):
        return False
    return (
        _SURE_NAME.search(name) is not None
        or _PASSWORD.search(name) is not None
        or ("_" not in text and _looks_random(text))
    )


def may_name(lowered: str) -> bool:
    """Whether a text, in lower case, may contain a secret's name."""
    return any(word in lowered for word in WORDS)


def small(text: str) -> str:
    """``text`` in lower case, with the same length."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters have no lower-case form of the same length
        lowered = "".join(one if len(one := letter.lower()) == 1 else letter for letter in text)
    return lowered


def places(lowered: str) -> list[int]:
    """The positions of the words of :data:`WORDS`, in order."""
    found = []
    for word in WORDS:
        place = lowered.find(word)
        while place >= 0:
            found.append(place)
            place = lowered.find(word, place + 1)
    return sorted(found)


def given(text: str, lowered: str) -> Iterator[Given]:
    """The secret values assigned to names in ``text``, in order."""
    quotes, place = _Quotes(text), 0
    for word in places(lowered):
        if word < place:
            continue
        start = word
        while start > max(place, word - _NEAR) and (text[start - 1].isalnum() or text[start - 1] in "_-"):
            start -= 1
        match = _RUN.match(text, word)
        # The value may itself be a name: `token: password=…`.
        place = match.end() if match else word
        if place - start <= _LONGEST_NAME and (found := _found(text, start, place, quotes)) is not None:
            place = found.end
            yield found


class _Quotes:
    """Quoted texts. An unclosed quote is remembered, so that the rest is not searched again for its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: dict[str, int] = {}

    def at(self, place: int) -> tuple[str, int, int] | None:
        """The prefix, beginning and end of a quoted text; None if there is none."""
        prefix = _PREFIX.match(self._text, place)
        begin = prefix.end() if prefix else place
        opened = _OPENED.match(self._text, begin)
        if opened is None or begin < self._open.get(opened[0], 0):
            return None
        closed = _CLOSED[opened[0]].match(self._text, opened.end())
        if closed is None:
            line = self._text.find("\n", begin) if len(opened[0]) < 3 else -1
            self._open[opened[0]] = line if line >= 0 else len(self._text)
            return None
        return (prefix[0] if prefix else ""), begin, closed.end()


def _found(text: str, start: int, end: int, quotes: _Quotes) -> Given | None:
    """The value of the name at ``start``, if it is a secret."""
    name, before = text[start:end], text[max(0, start - _NEAR) : start]
    last = before[-1:]
    if last in ("'", '"') and is_secret(name) and _ASKED.search(before):
        comma = _COMMA.match(text, end)
        if comma is not None and (quoted := quotes.at(comma.end())) is not None:
            return _quoted(text, name, quoted)
    if last in ("?", "&") and is_secret(name) and (match := _PARAMETER.match(text, end)) is not None:
        return Given(*match.span("value"), MASK)
    if last in (" ", "\t", "!") and is_secret(name):
        line = before[before.rfind("\n") + 1 :]
        for head, variable in ((_ENV, _ENV_VALUE), (_SHELL, _VARIABLE)):
            match = variable.match(text, end) if head.search(line) else None
            if match is not None:
                counts = _COUNTED.fullmatch(name) and _COUNT.fullmatch(match["value"])
                return None if counts or _PLAIN.match(match["value"]) else Given(*match.span("value"), MASK)
    between = _BETWEEN.match(text, end) if _IN_TEXT.match(name) else None
    return None if between is None else _value(text, name, between, quotes)


def _value(text: str, name: str, between: re.Match[str], quotes: _Quotes) -> Given | None:
    place, is_option = between.end(), name.startswith("--")
    if between["blank"] and not is_option:
        return None  # prose, or `del key other`
    if (quoted := quotes.at(place) or _in_brackets(text, place, quotes)) is not None:
        return _quoted(text, name, quoted) if name.strip("-_") else None
    sent = _SENT.match(text, place)
    if sent is not None:
        return Given(*sent.span("sent"), MASK)
    match = _BARE.match(text, place)
    # Otherwise a name, a number or a call: `token = tokenizer(x)`, `key=None`.
    if match is None or not (
        is_option or _looks_random(match["bare"]) or _is_password(name, between[0], match["bare"])
    ):
        return None
    rest = _REST.match(text, match.end())
    return Given(match.start("bare"), rest.end() if rest else match.end(), MASK)


def _in_brackets(text: str, place: int, quotes: _Quotes) -> tuple[str, int, int] | None:
    """The single text between brackets: ``key = ("…")``."""
    if text[place : place + 1] != "(":
        return None
    begin = place + 1
    while text[begin : begin + 1].isspace() and begin - place < 64:
        begin += 1
    found = quotes.at(begin)
    return found if found is not None and text[found[2] : found[2] + 64].lstrip().startswith(")") else None


def _quoted(text: str, name: str, quoted: tuple[str, int, int]) -> Given | None:
    prefix, start, end = quoted
    match = _OPENED.match(text, start)
    quote = match[0] if match else ""
    content = text[start + len(quote) : end - len(quote)]
    if not holds_secret(name, content) or ("f" in prefix.lower() and "{" in content):
        return None
    return Given(start, end, f"{quote}{MASK}{quote}")


def _looks_random(value: str) -> bool:
    return (
        len(value) >= 12
        and bool(re.search(r"\d", value))
        and bool(re.fullmatch(r"[\w+/=.-]+", value))
        and _DOTTED.fullmatch(value) is None  # `token=self.tokens_v2`
    )


def _is_password(name: str, between: str, value: str) -> bool:
    """Whether a bare value is a password: ``PASS=…`` as in a shell's file, or letters and digits after ``password=``.

    In code, the value is a name or a call.
    """
    if _PASSWORD.search(name) is None or len(value) < LEAST_OF_PASSWORD or re.search(r"[(\[{]|^[$%*]", value):
        return False
    if _PLAIN.match(value) or _DOTTED.fullmatch(value) or not re.search(r"[^\d.%+-]", value):
        return False
    if between == "=" and name.isupper():
        return True
    is_long = re.search(r"(?i)passw|passphrase|pwd", name) is not None
    return ("=" in between or is_long) and bool(re.search(r"\d", value)) and bool(re.search(r"[A-Za-z]", value))

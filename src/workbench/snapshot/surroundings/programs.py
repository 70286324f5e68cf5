"""Programs and files in a command line. Law: it examines words and the existence of files, and reads no file.

The files that a program opens cannot be seen without tracing it. The files named in its arguments are the best
approximation.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from typing import Any

#: The maximum number of arguments examined, and the maximum length of one.
_MOST, _LONGEST = 1_000, 4_096
#: Shells whose ``-c`` is followed by a command line.
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "busybox"})
_JOINTS = frozenset({"|", "||", "&", "&&", ";", "(", ")", "{", "}", "!"})
#: Prefixes of a path in one word: ``if=``, ``--input=``, ``@``.
_BEFORE = re.compile(r"^(?:-{0,2}[\w.-]+=|@|\d?<)")


def started(arguments: Any) -> tuple[list[str], list[str]]:
    """Names of the programs that ``arguments`` (a command line, or its words) start, and the words after them."""
    words = _words(arguments)
    if words and os.path.basename(words[0]) in _SHELLS and "-c" in words[1:3]:
        at = words.index("-c")
        return started(words[at + 1]) if len(words) > at + 1 else ([], [])
    programs: list[str] = []
    others: list[str] = []
    is_first = isinstance(arguments, str | bytes)
    if words and not is_first:
        programs, words = [os.path.basename(words[0])], words[1:]
    passes = False
    for word in words:
        if passes:  # where its output goes
            passes = False
        elif word in _JOINTS:
            is_first = True
        elif set(word) <= {">", "&"} and word:
            passes = True
        elif set(word) == {"<"}:
            continue
        elif is_first:
            if not re.match(r"\w+=", word):  # a variable assignment before the program
                programs.append(os.path.basename(word))
                is_first = False
        else:
            others.append(word)
    return programs, others


def files_named(words: Sequence[str], folder: str) -> list[str]:
    """The regular files that ``words`` name, as absolute paths; relative ones are in ``folder``."""
    found: dict[str, None] = {}
    for word in words[:_MOST]:
        for text in {word, _BEFORE.sub("", word)}:
            if 0 < len(text) <= _LONGEST:
                path = os.path.abspath(os.path.join(folder, os.path.expanduser(text)))
                if os.path.isfile(path):
                    found[path] = None
    return list(found)


def _words(arguments: Any) -> list[str]:
    if isinstance(arguments, str | bytes):
        lexer = shlex.shlex(os.fsdecode(arguments), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            return list(lexer)
        except ValueError:  # quotes that are not closed
            return os.fsdecode(arguments).split()
    return [os.fsdecode(word) for word in list(arguments)[:_MOST]]

"""Tab completion in cells. Law: it offers the entries of the tables from which lines are read, and starts nothing.

After ``%%train`` and in ``#|`` comments: the options of a train cell. After ``%workbench``: verbs, their options, and
names of experiments. In a train cell after ``trial.``: what it has. JupyterLab shows a completion's type beside it, so
that is what the word means, in short.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

from workbench.errors import WorkbenchError
from workbench.experiment import grammar

_FIRST = re.compile(r"\s*%%train\s")
_COMMENT = re.compile(r"\s*#\|\s*")
_COMMAND = re.compile(r"\s*%workbench\s+(?P<words>.*)")
_TRIAL = re.compile(r"(?:^|[^\w.])trial\.(?P<name>\w*)$")
#: Arguments of verbs that are the names of experiments.
_NAMES = frozenset({"ref", "a", "b"})
#: Characters of a meaning: a list of completions is narrow.
_LONGEST = 60


@context_matcher()
def matcher(context: CompletionContext) -> Any:
    """What may stand at the cursor, where that is a line of Workbench's."""
    lines = context.full_text.split("\n")
    line = lines[context.cursor_line] if context.cursor_line < len(lines) else ""
    before = line[: context.cursor_position]
    command, trains = _COMMAND.match(before), _FIRST.match(context.full_text)
    fragment = re.split(r"[\s:]", before)[-1]
    if command:
        return _found(_of_command(command["words"]), fragment)
    if trains and _FIRST.match(before):
        return _found(_meant(grammar.completions(_FIRST.sub("", before, count=1))), fragment)
    if trains and (comment := _COMMENT.match(before)):
        return _found(_meant(grammar.completions_comment(before[comment.end() :])), fragment)
    if trains and (member := _TRIAL.search(before)):
        return _found({f".{name}": what for name, what in _members(member["name"]).items()}, f".{member['name']}")
    return {"completions": []}


def _found(words: Mapping[str, str], fragment: str) -> dict[str, Any]:
    return {
        "completions": [SimpleCompletion(text=word, type=_short(meaning)) for word, meaning in words.items()],
        "matched_fragment": fragment,
        "suppress": bool(words),
        "ordered": True,
    }


def _short(meaning: str) -> str:
    first = " ".join(meaning.replace("``", "").split()) or "word"
    return first if len(first) <= _LONGEST else f"{first[: _LONGEST - 1].rstrip()}…"


def _meant(words: Iterable[str]) -> dict[str, str]:
    """Words of a train cell's line, each with its option's help."""
    helps = {option.name: option.help for option in grammar.OPTIONS}
    return {word: helps.get(word.strip("-: "), "") for word in words}


def _of_command(text: str) -> dict[str, str]:
    """Words that may stand at the end of ``text``, which follows ``%workbench``."""
    from workbench.cli.verbs import VERBS, parser_of  # the whole command line: not needed until it is typed

    words = text.split()
    fragment = "" if not words or text[-1:].isspace() else words.pop()
    if not words:
        return {name: verb.help for name, verb in VERBS.items() if name.startswith(fragment)}
    verb = VERBS.get(words[0])
    if verb is None:
        return {}
    if verb.reads_words:
        return _meant(grammar.completions(text.partition(words[0])[2].lstrip()))
    actions = parser_of(words[0], verb)._actions
    if fragment.startswith("-"):
        return {
            option: action.help or ""
            for action in actions
            for option in action.option_strings
            if option.startswith(fragment) and option.startswith("--") and option not in words
        }
    expected = next((one for one in actions if words[-1] in one.option_strings and one.nargs != 0), None)
    expected = expected or next((one for one in actions if not one.option_strings), None)
    if expected is None:
        return {}
    if isinstance(expected.metavar, str) and "|" in expected.metavar and expected.metavar.islower():
        return {word: "" for word in expected.metavar.split("|") if word.startswith(fragment)}
    return _experiments(fragment) if expected.dest in _NAMES and not expected.option_strings else {}


def _experiments(fragment: str) -> dict[str, str]:
    """The experiments of the notebook's store whose label begins with ``fragment``, the newest first, with goals."""
    from workbench.store import Store
    from workbench.store.lists.catalog import read_catalog

    try:
        store = Store.find()
        rows = read_catalog(store) if store.exists else []
    except WorkbenchError:  # the verb itself reports a damaged store
        return {}
    newest = sorted(rows, key=lambda row: str(row.get("created")), reverse=True)
    found = {str(row.get("label") or ""): str(row.get("goal") or "") for row in newest}
    return {label: goal for label, goal in found.items() if label.startswith(fragment)}


def _members(fragment: str) -> dict[str, str]:
    """What ``trial`` has whose name begins with ``fragment``, each with the first line of its docstring."""
    from workbench.trial.api.trial import Trial

    blank = Trial(cast(Any, None), 0, {}, max_steps=1, seed=0, folder=Path())
    names = [name for name in dir(blank) if name.startswith(fragment) and not name.startswith(("_", "workbench_"))]
    return {name: (inspect.getdoc(getattr(Trial, name, None)) or "").partition("\n")[0] for name in names}

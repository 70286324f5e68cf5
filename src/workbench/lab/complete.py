"""Tab completion after ``%%train``. Law: it offers the entries of the grammar's table."""

from __future__ import annotations

import re
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

from workbench.experiment import grammar

_FIRST = re.compile(r"\s*%%train\s")
_COMMENT = re.compile(r"\s*#\|\s*")


@context_matcher()
def matcher(context: CompletionContext) -> Any:
    """Options on the magic's line, and in the leading ``#|`` lines of its cell."""
    lines = context.full_text.split("\n")
    line = lines[context.cursor_line] if context.cursor_line < len(lines) else ""
    before = line[: context.cursor_position]
    if not _FIRST.match(context.full_text):
        return {"completions": []}
    comment = _COMMENT.match(before)
    if _FIRST.match(before):
        words = grammar.completions(_FIRST.sub("", before, count=1))
    elif comment:
        words = grammar.completions_comment(before[comment.end() :])
    else:
        return {"completions": []}
    fragment = re.search(r"[^\s:]*$", before)
    return {
        "completions": [SimpleCompletion(text=word, type="option") for word in words],
        "matched_fragment": fragment.group() if fragment else "",
        "suppress": bool(words),
        "ordered": True,
    }

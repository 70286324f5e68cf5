"""Progress bars: their counts may be reported. Law: a bar of the set-up keeps its count, one of the loop is remade."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.trial.kinds import Fixed, IsLeft, See, Token, is_from

#: The count and texts of a bar, as plain values.
_COUNTED = ("n", "initial", "last_print_n", "total", "desc", "postfix")
#: Attributes through which training code reads a bar's count.
COUNTS = frozenset({"n", "last_print_n", "format_dict"})


class Bar(Fixed):
    """A ``tqdm`` bar: its count is restored; its start time and output stream are those of the new bar."""

    def __init__(self, added: Iterable[str] = ()) -> None:
        """added: attributes of the training code's own class."""
        self._names = dict.fromkeys((*_COUNTED, *sorted(added)))

    def look(self, obj: Any, see: See) -> Token:
        return [(name, see(value, f".{name}")) for name, value in self.content(obj, lambda _: False).items()]

    def content(self, obj: Any, left: IsLeft) -> Any:
        return {name: vars(obj)[name] for name in self._names if name in vars(obj) and not left(vars(obj)[name])}

    def put(self, obj: Any, content: Any) -> None:
        vars(obj).update(content)


BAR = Bar()


def is_bar(obj: Any) -> bool:
    """True for a tqdm bar."""
    return is_from(obj, ("tqdm",)) and "n" in getattr(obj, "__dict__", ())


def counts_by_time(bar: Any) -> bool:
    """True for a bar around an iterable: it updates its count only when it redraws itself."""
    return getattr(bar, "iterable", None) is not None and not getattr(bar, "disable", False)

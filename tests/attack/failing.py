"""An engine in which showing one experiment fails from some moment on: a mistake of ours, where a test wants it."""

from __future__ import annotations

import sys
from typing import Any

from workbench.engine import __main__ as engine
from workbench.engine.shown import Shown

_put_header = Shown.put_header


def _failing(self: Shown, *arguments: Any) -> None:
    if self._spec.name == "broken" and self.steps_done > 0:
        raise ZeroDivisionError("a mistake in the engine")
    _put_header(self, *arguments)


if __name__ == "__main__":
    Shown.put_header = _failing  # type: ignore[method-assign]
    sys.exit(engine.main())

"""`why`: restore one difference after the other. Law: the engine trains; this waits, and writes one notebook."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from workbench.cli.found import store_of
from workbench.cli.verbs import FAILED, OK
from workbench.cli.words import clean, say, say_json, table


def why(options: Any) -> int:
    """Restore data, configuration, code, libraries and seeds one by one, and show the effect of each."""
    from workbench.experiment.why import why as explain

    quiet = (lambda line: None) if options.json else (lambda line: say(clean(line)))
    found = explain(options.a, options.b, env=options.env, store=store_of(options), say=quiet)
    path = found.write(options.output or _name(found.a, found.b))
    if options.json:
        say_json({**found.to_dict(), "notebook": str(path)})
    else:
        head, *rows = [[clean(cell) for cell in row] for row in found.table()]
        say("", *table(head, rows))
        for note in found.notes:
            say(f"Note: {clean(note)}.")
        say(f"{clean(found.words)}.", f"{clean(path)} has the details.")
    return OK if found.explained else FAILED


def _name(a: str, b: str) -> Path:
    words = re.sub(r"[^\w.-]+", "-", f"{b}-and-{a}")
    return Path(f"why-{words}.ipynb")

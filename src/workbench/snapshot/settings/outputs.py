"""Settings that change what people see and no result: matplotlib's style, and loggers that cells set up.

Law: none of them is part of an experiment's content. They are applied in fresh processes alone: loading a trial leaves
those of its process as they are.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

from workbench.records import Json
from workbench.snapshot.settings.libraries import Setting, Table

#: Beginnings of matplotlib's parameters that belong to a process, not to a style.
_OF_PROCESS = ("backend", "interactive", "savefig.directory", "timezone", "tk.", "toolbar", "webagg.")


def _style(matplotlib: Any) -> Json:
    """The parameters that differ from matplotlib's own; a cycle of colours as the text that matplotlib reads."""
    usual = dict.copy(matplotlib.rcParamsDefault)  # as plain items: asking by name may start a backend
    found = {
        name: _plain(value)
        for name, value in dict.items(matplotlib.rcParams)
        if value != usual.get(name) and not name.startswith(_OF_PROCESS)
    }
    return {name: value for name, value in found.items() if value is not None}


def _plain(value: Any) -> Json:
    if type(value).__name__ == "Cycler":
        return repr(value)
    if isinstance(value, list | tuple):
        parts = [_plain(part) for part in value]
        return None if None in parts else parts
    return value if isinstance(value, bool | int | float | str) else None


def _loggers(module: Any) -> Json:
    """The root logger and those under a notebook's names, each with its level and its handlers that print.

    Other loggers, and handlers of those that an imported module has, are made by what training imports; handlers that
    write elsewhere are objects of this process.
    """
    found: dict[str, Json] = {}
    for name, logger in {"root": module.root, **_of_notebook(module)}.items():
        is_own = name == "__main__" or name.partition(".")[0] not in sys.modules
        handlers = [_printing(one) for one in logger.handlers if type(one) is module.StreamHandler and is_own]
        usual = module.WARNING if logger is module.root else module.NOTSET
        if logger.level != usual or handlers or not logger.propagate:
            level = module.getLevelName(logger.level)
            found[name] = {"level": level, "propagate": logger.propagate, "handlers": handlers}
    return found


def _of_notebook(module: Any) -> dict[str, logging.Logger]:
    main = sys.modules.get("__main__")
    if main is None or hasattr(main, "__file__"):  # a script makes its loggers again where it trains
        return {}
    return {one.name: one for one in [*vars(main).values()] if type(one) is module.Logger}


def _printing(handler: logging.StreamHandler[Any]) -> Json:
    form = handler.formatter or logging.Formatter()
    return {
        "stream": "stdout" if getattr(handler.stream, "name", "") in ("stdout", "<stdout>") else "stderr",
        "level": handler.level,
        "format": form._fmt,
        "dates": form.datefmt,
    }


def _set_loggers(module: Any, value: Mapping[str, Any]) -> None:
    for name, made in value.items():
        logger = module.root if name == "root" else module.getLogger(name)
        logger.setLevel(made["level"])
        logger.propagate = made["propagate"]
        if not logger.handlers:
            for one in made["handlers"]:
                handler = module.StreamHandler(getattr(sys, one["stream"]))
                handler.setLevel(one["level"])
                handler.setFormatter(module.Formatter(one["format"], one["dates"]))
                logger.addHandler(handler)


TABLE: Table = {
    "matplotlib": (Setting("matplotlib.rcParams", {}, _style, lambda module, value: module.rcParams.update(value)),),
    "logging": (Setting("logging", {}, _loggers, _set_loggers),),
}
NAMES = frozenset(setting.name for known in TABLE.values() for setting in known)

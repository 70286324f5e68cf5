"""What is done when the extension is loaded, so that the first train cell need not wait for it.

Law: it creates no store, asks nothing, and fails silently: the first train cell does the same, and says what is wrong.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
import weakref
from typing import Any

from workbench.errors import WorkbenchError
from workbench.interpreter import AHEAD
from workbench.lab.keeper import Keeper

_KEEPERS: weakref.WeakKeyDictionary[Any, Keeper] = weakref.WeakKeyDictionary()
#: What a train cell imports in the kernel beyond the magics.
_MODULES = (
    "workbench.live.view",
    "workbench.engine.telling.notify",
    "workbench.experiment.launching",
    "workbench.experiment.versions",
    "workbench.snapshot.secrets.masking",
    "detect_secrets.core.scan",
)


def begin(shell: Any) -> None:
    """Start the engine of this folder's store in the background, if it has one in which something was trained; and
    import, for the workers, what the cells of ``shell`` import."""
    if os.environ.get(AHEAD) == "0":
        return
    threading.Thread(target=_begin, name="workbench-ahead", daemon=True).start()
    if shell not in _KEEPERS:
        _KEEPERS[shell] = keeper = Keeper()
        keeper.watch(shell.events)


def end(shell: Any) -> None:
    """Undo :func:`begin`; an engine goes on."""
    keeper = _KEEPERS.pop(shell, None)
    if keeper is not None:
        keeper.unwatch(shell.events)  # its thread lets go of what it keeps


def _begin() -> None:
    from workbench.asking import ensure_engine, has_no_work, keep_nursery
    from workbench.snapshot.surroundings.environment import distributions
    from workbench.store import Store
    from workbench.store.owner import ownership

    with contextlib.suppress(OSError, WorkbenchError):
        store = Store.find(None)
        keep_nursery(store)
        is_ours = store.exists and ownership.ownership(store).is_ours
        # An engine would continue what is unfinished, which loading an extension does not ask for.
        if is_ours and store.experiment_ids() and has_no_work(store):
            ensure_engine(store, ahead=True)
    for name in _MODULES:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    with contextlib.suppress(OSError):  # the working folder may be gone
        distributions()  # they are kept until a folder of packages changes

"""The process from which a machine's workers are forked. Law: it forks, and does nothing else.

Dask starts each worker as a new process, which imports all of Dask again: half a second of a core for each. Python's
own fork server (``multiprocessing``) imports it once. Here that server is itself a fork, of the cluster's process
before that has begun: so a machine imports Dask once for both, and they share the memory of it. Workers with a GPU are
started by dask-cuda.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.util
from collections.abc import Sequence
from typing import Any

from workbench.cluster.forked import fork
from workbench.store.owner.runtime import temporary

#: What workers import.
_MODULES = ["workbench.cluster.workers.worker", "workbench.cluster.here"]
_METHOD = "forkserver"
#: Command lines, behind the interpreter: its own, and that of the process that removes semaphores which are left over.
_TITLE, _TRACKER = ("multiprocessing.forkserver", _MODULES[0]), ("multiprocessing.resource_tracker",)


def begin() -> None:
    """Fork it from this process, which must not have threads yet. It ends with this process and the workers."""
    multiprocessing.get_context(_METHOD).set_forkserver_preload(_MODULES)
    # Its socket lies in a folder that the next process removes if this one is killed. multiprocessing would make one of
    # its own, and fail to remove it after ours is gone.
    multiprocessing.current_process()._config["tempdir"] = str(temporary("cluster"))  # type: ignore[attr-defined]
    for name in _MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # the collector would write to the pages that both share
    util: Any = multiprocessing.util
    launch, util.spawnv_passfds = util.spawnv_passfds, _fork
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        util.spawnv_passfds = launch  # if it is killed, the next one is a new process: by then there are threads


def _fork(path: str, arguments: Sequence[str], descriptors: Sequence[int]) -> int:
    """Do as ``multiprocessing.util.spawnv_passfds``, without a new Python: its command is executed in a fork."""

    def serve() -> None:
        # Its state is that of this process, which holds its lock.
        multiprocessing.forkserver._forkserver.__init__()  # type: ignore[misc]
        exec(arguments[-1], {})  # noqa: S102 - Python's own words

    title = _TRACKER if _TRACKER[0] in arguments[-1] else _TITLE
    return fork([path, *title], serve, descriptors)


def use() -> None:
    """Make Dask fork its workers from it."""
    import dask
    from distributed import utils

    # Dask would make it import pandas and other modules that it may use.
    vars(utils)["_forkserver_preload_set"] = True
    dask.config.set({"distributed.worker.multiprocessing-method": _METHOD})

"""The process from which a machine's workers are forked. Law: it imports, forks, and does nothing else.

Dask starts each worker as a new process, which imports all of Dask again: half a second of a core for each. Python's
own fork server (``multiprocessing``) imports it once. Workers with a GPU are started by dask-cuda.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver

from workbench.store.owner.runtime import temporary

#: What workers import.
_MODULES = ["workbench.cluster.workers.worker", "workbench.cluster.here"]
_METHOD = "forkserver"


def begin() -> None:
    """Start it. It ends with this process and the workers."""
    multiprocessing.get_context(_METHOD).set_forkserver_preload(_MODULES)
    # Its socket lies in a folder that the next process removes if this one is killed. multiprocessing would make one of
    # its own, and fail to remove it after ours is gone.
    multiprocessing.current_process()._config["tempdir"] = str(temporary("cluster"))  # type: ignore[attr-defined]
    multiprocessing.forkserver.ensure_running()


def use() -> None:
    """Make Dask fork its workers from it."""
    import dask
    from distributed import utils

    # Dask would make it import pandas and other modules that it may use.
    vars(utils)["_forkserver_preload_set"] = True
    dask.config.set({"distributed.worker.multiprocessing-method": _METHOD})

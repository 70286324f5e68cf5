"""The process from which a machine's workers are forked. Law: it forks, and does nothing else.

Dask starts each worker as a new process, which imports all of Dask again: half a second of a core for each. Python's
own fork server (``multiprocessing``) imports it once. Here that server is itself a fork, of the cluster's process
before that has begun: so a machine imports Dask once for both, and they share the memory of it. Workers with a GPU are
started by dask-cuda.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.util
import os
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from workbench.store.owner.runtime import temporary

#: What workers import.
_MODULES = ["workbench.cluster.workers.worker", "workbench.cluster.here"]
_METHOD = "forkserver"
#: Its command line, behind the interpreter.
_TITLE = ("multiprocessing.forkserver", "workbench.cluster.workers.worker")
#: Where ``/proc/self/stat`` says in which part of memory the command line begins and ends, counted behind the name
#: (``man proc_pid_stat``: fields 48 and 49).
_ARGUMENTS = (45, 46)


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
    pid = os.fork()
    if pid != 0:
        return pid
    status = 1
    try:
        _close_all_but({0, 1, 2, *descriptors})
        _entitle([path, *_TITLE])
        # Its state is that of this process, which holds its lock.
        multiprocessing.forkserver._forkserver.__init__()  # type: ignore[misc]
        exec(arguments[-1], {})  # noqa: S102 - Python's own words
        status = 0
    except SystemExit:
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _close_all_but(kept: Iterable[int]) -> None:
    # ``multiprocessing.util.close_all_fds_except`` tries every number up to the limit, which may be a thousand million.
    for one in {int(name) for name in os.listdir("/proc/self/fd")}.difference(kept):
        with contextlib.suppress(OSError):  # of the listing itself
            os.close(one)


def _entitle(words: Sequence[str]) -> None:
    """Have ``ps`` show these words for this process, and not those of the one that it was forked from."""
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = (int(fields[place]) for place in _ARGUMENTS)  # zeros if the system does not say it
    if start < end:
        shown = b"\0".join(os.fsencode(word) for word in words)[: end - start - 1]
        ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)


def use() -> None:
    """Make Dask fork its workers from it."""
    import dask
    from distributed import utils

    # Dask would make it import pandas and other modules that it may use.
    vars(utils)["_forkserver_preload_set"] = True
    dask.config.set({"distributed.worker.multiprocessing-method": _METHOD})

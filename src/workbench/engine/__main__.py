"""`python -m workbench.engine --store FOLDER`: the engine's process. Law: idle, it ends; a second one is refused.

Exit codes: 0 idle or told to end; 3 another engine holds the store; 4 no cluster is available; 5 the store is gone; 6
the store belongs to another user; 1 anything else.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import importlib
import logging
import os
import signal
import sys
import threading
from functools import partial

from workbench.cluster import forked
from workbench.cluster.own import SERVING, Own, end_found
from workbench.engine.scope import ask, leave_group
from workbench.engine.tending import early
from workbench.errors import EngineRunning, NotAdopted, StoreFull
from workbench.store import Store
from workbench.store.owner.lease import EngineLease, read_engine

#: Seconds without an experiment after which the engine ends itself.
IDLE_S = 600.0
#: Seconds to wait for the lock of an engine that is closing.
CLOSING_S = 20.0
#: Signals that end an engine normally.
ENDING = frozenset({signal.SIGTERM, signal.SIGINT})
#: What the cluster and its workers need, and is imported before it is forked.
_CLUSTER = (
    SERVING,
    "workbench.cluster.local",
    "workbench.cluster.workers.worker",
    "workbench.cluster.workers.forking.held",
    "cryptography.hazmat.backends.openssl.backend",
    "importlib_metadata._adapters",
    "multiprocessing.popen_forkserver",
    "multiprocessing.synchronize",
    "tornado.platform.asyncio",
)
#: What each of these processes would find out when it first connects: versions for Dask's handshake, the machine's
#: certificates for tornado, which ours take the place of.
_CALLS = (("distributed.versions", "get_versions"), ("tornado.netutil", "_client_ssl_defaults"))
#: What only the engine needs.
_ENGINE = ("workbench.cluster.dask", "workbench.engine.engine")
#: Exit code of an engine whose store was removed, and of one whose store belongs to another user.
ORPHAN, NOT_ADOPTED = 5, 6


def main(arguments: list[str] | None = None) -> int:
    """Run the engine in this process until it is idle."""
    parser = argparse.ArgumentParser(prog="python -m workbench.engine", description="Run the experiments of one store.")
    parser.add_argument("--store", required=True, help="the store's folder")
    parser.add_argument("--cluster", default=os.environ.get("WORKBENCH_CLUSTER"), help="a Dask scheduler's address")
    parser.add_argument("--workers", type=int, default=_number("WORKBENCH_WORKERS"), help="slots of a local cluster")
    parser.add_argument("--dashboard", action="store_true", default=bool(os.environ.get("WORKBENCH_DASHBOARD")))
    parser.add_argument("--ahead", action="store_true", help="get ready for what was trained last")
    parser.add_argument("--idle", type=float, default=float(os.environ.get("WORKBENCH_IDLE", IDLE_S)))
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    store = Store(options.store)
    try:
        store.create()
    except NotAdopted as error:
        sys.stderr.write(f"{error}\n")
        return NOT_ADOPTED
    # Block signals until the lease can be released: an engine that was told to end must not look like one that died.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    lease: EngineLease | None = None
    try:
        info = read_engine(store)
        wait_s = CLOSING_S if info is not None and info.state == "closing" else 0.0
        lease = EngineLease.acquire(store, address=options.cluster, wait_s=wait_s)
        own = _begun(store, options)
        logging.getLogger("distributed").setLevel(logging.ERROR)
        code = asyncio.run(_run(store, lease, options, own))
    except EngineRunning as error:
        sys.stderr.write(f"{error}\n")
        return 3
    except StoreFull as error:  # it could not take the lease: a caller that waits for an engine starts another one
        if lease is not None:
            raise
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        if lease is not None:
            lease.release()
        raise
    except Exception as error:
        if lease is None or lease.is_ours:
            raise
        logging.getLogger("workbench.engine").error("the store is gone or was replaced: this engine ends (%s)", error)
        code = ORPHAN
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    if code != ORPHAN:
        lease.release()
    return code


def prepare(*names: str) -> None:
    """Import what an engine, its cluster and its workers need, or these modules.

    It starts no thread. What other packages import may be named otherwise in another version of them.
    """
    for name in names or (*_CLUSTER, *_ENGINE):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    for name, function in _CALLS:
        with contextlib.suppress(ModuleNotFoundError, AttributeError):
            getattr(importlib.import_module(name), function)()
    gc.collect()
    gc.freeze()  # the collector would write to the pages that all share


def _begun(store: Store, options: argparse.Namespace) -> Own | None:
    """The store's own cluster, found or begun, or None where the engine attaches to another one; and what begins with
    it. This process has no Python threads yet, since it forks."""
    has_left, own, first = leave_group(), None, None
    if options.cluster is not None:
        end_found(store.root)
    else:
        own = Own(str(store.root), options.workers, dashboard=options.dashboard)
        if not own.was_found:
            first = early.Early(store, options.workers)
            if not forked.can_run(SERVING):  # else this process was forked from a nursery
                if has_left:
                    first.begin()  # before the imports, since it takes longer
                prepare(*_CLUSTER)  # its own modules it imports while the cluster begins
            own.begin()
    threading.Thread(target=_rest, args=(own, first, has_left), name="workbench-begins", daemon=True).start()
    return own


def _rest(own: Own | None, first: early.Early | None, has_left: bool) -> None:
    """What can wait, or needs threads: the scope, if systemd took long; then the first forkserver, which workers look
    for in the same group."""
    if not has_left:
        # With a cluster, under another name: the first request may have been carried out meanwhile, without it.
        ask("engine", *(() if own is None else own.processes), os.getpid())
    if first is not None:
        first.hold()


async def _run(store: Store, lease: EngineLease, options: argparse.Namespace, own: Own | None) -> int:
    # Imported only now: other would-be engines find the lease taken before all this is imported.
    from workbench.cluster.dask import DaskBackend
    from workbench.engine.engine import Engine

    make = partial(DaskBackend, str(store.root), lease.info.proof, address=options.cluster, own=own)
    engine = Engine(store, lease, make, options.idle)
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, engine.end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    await engine.run(ahead=options.ahead)
    if engine.is_orphan:
        return ORPHAN
    return 4 if engine.trouble else 0


def _number(name: str) -> int | None:
    value = os.environ.get(name)
    return int(value) if value else None


if __name__ == "__main__":
    sys.exit(main())

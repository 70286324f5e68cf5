"""`python -m workbench.engine --store FOLDER`: the engine's process. Law: idle, it ends; a second one is refused.

Exit codes: 0 idle or told to end; 3 another engine holds the store; 4 no cluster is available; 5 the store is gone; 6
the store belongs to another user; 1 anything else.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from functools import partial

from workbench.cluster.own import Own, end_found
from workbench.engine.scope import leave_group
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
        # Start the cluster before importing what this process needs: both then import in parallel. Where all is
        # imported already, this process forks it, and has no threads yet.
        if options.cluster is not None:
            own = None
            end_found(store.root)
        else:
            own = Own(str(store.root), options.workers, dashboard=options.dashboard)
        logging.getLogger("distributed").setLevel(logging.ERROR)
        leaving = leave_group(*(() if own is None else own.processes))
        if own is not None and not own.was_found:
            early.begin(store, options.workers, leaving)
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
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    if code != ORPHAN:
        lease.release()
    return code


async def _run(store: Store, lease: EngineLease, options: argparse.Namespace, own: Own | None) -> int:
    # Import only now: other would-be engines find the lease taken before all this is imported.
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

"""`python -m workbench.cluster.local --store FOLDER`: a store's own cluster, in a process of its own.

Law: nothing that starts a thread runs before the process from which the workers are forked is there: it is a fork.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys

from workbench.cluster.workers import nursery

#: Signals that end it normally.
ENDING = (signal.SIGTERM, signal.SIGINT)


def main(arguments: list[str] | None = None) -> int:
    """Run the cluster of one store until it is no longer needed."""
    parser = argparse.ArgumentParser(prog="python -m workbench.cluster.local", description="The cluster of one store.")
    parser.add_argument("--store", required=True, help="the store's folder")
    parser.add_argument("--workers", type=int, help="slots")
    parser.add_argument("--dashboard", action="store_true", help="with Dask's own pages, on loopback")
    parser.add_argument("--grace", type=float, required=True, help="seconds that it lives on without an engine")
    parser.add_argument("--engine", type=int, required=True, help="the process that starts this one")
    options = parser.parse_args(arguments)
    # A starting engine blocks signals, and its child processes inherit that. Until this process can end normally, a
    # signal just ends it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    from workbench.cluster.serving import serve

    nursery.begin()
    serve(options, ENDING)
    return 0


if __name__ == "__main__":
    sys.exit(main())

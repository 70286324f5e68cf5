"""Addresses of schedulers and workers. Law: an unreachable address is refused before anything is started."""

from __future__ import annotations

import functools
import socket

from workbench.errors import BadOption, NoAnswer

#: Seconds within which a Dask scheduler must accept a connection.
CONNECT_S = 3.0


def check_address(address: str) -> None:
    """Raise NoAnswer if nothing accepts connections at ``address``, BadOption if it is not an address."""
    rest = address.rpartition("://")[2]
    host, _, port = rest.partition("/")[0].rpartition(":")
    if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise BadOption(
            f"--cluster {address}: expected a Dask scheduler's address. For example: --cluster tcp://10.0.0.5:8786."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
    except OSError as error:
        raise NoAnswer(
            f"nothing answers at {address} ({error.strerror or error}). Expected the address that `dask scheduler` "
            "prints. Start it, or leave the address out for a cluster on this machine."
        ) from error


@functools.lru_cache(4096)
def machine(worker: str) -> str:
    """The host in a worker's address: ``10.0.0.5`` of ``tls://10.0.0.5:40123``."""
    return worker.partition("://")[2].rpartition(":")[0] or worker

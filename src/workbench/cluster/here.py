"""A cluster of this machine, one worker for each slot. Law: it listens only on loopback, and each peer has its key.

Each cluster gets a certificate and a key of its own, kept in memory. Dask's pages (its HTTP server has no key) are
served only if the user asks for them: only the scheduler's, and on loopback. Its folders lie in one that other users
cannot enter.
"""

from __future__ import annotations

import asyncio
import logging
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import dask
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from distributed import LocalCluster, Scheduler, Security, Worker
from distributed import scheduler as dask_scheduler
from distributed.comm.registry import backends
from distributed.comm.tcp import TLSBackend, TLSListener
from distributed.nanny import WorkerProcess

from workbench.cluster import devices
from workbench.cluster.workers import nursery
from workbench.errors import ClusterError
from workbench.store.owner.runtime import temporary

log = logging.getLogger("workbench.cluster")

LOOPBACK = "127.0.0.1"
#: Tasks that a worker may run for each slot: one trains; the others wait for its slot on the worker, not in Dask's
#: scheduler.
DEPTH = 4
#: Seconds between looks at whether a worker has started; Dask's 50 ms would be a tenth of a first report.
STARTED_S = 0.002
#: Seconds between the heartbeats of workers.
HEARTBEAT_S = 5.0
#: Seconds in which a peer must prove that it has the cluster's key, on a busy machine too.
HANDSHAKE_S = 30.0

#: How long a cluster's certificate is valid, and from how long ago: the clock may be set back.
LASTS, CLOCKS_DIFFER = timedelta(days=3650), timedelta(days=3650)
_ROLES = ("client", "scheduler", "worker")
#: Dask's extensions of scheduler and workers besides futures and events (locks, queues, shuffles, …). One of them,
#: spans, keeps every group of tasks that ever existed, for a page of the dashboard.
_NO_EXTENSIONS: dict[str, type] = {}


class _Listener(TLSListener):
    """Dask's listener, but a peer without the key is dropped after a time limit and without a line in the log."""

    async def _prepare_stream(self, stream: Any, address: str) -> Any:
        try:
            await asyncio.wait_for(stream.wait_for_handshake(), HANDSHAKE_S)
        except (OSError, TimeoutError):  # Dask would wait for ever, and log each refusal
            stream.close()
            return None
        return stream


class _Backend(TLSBackend):
    _listener_class = _Listener


# Workers import this module before they listen.
backends["tls"] = _Backend()


class PagelessScheduler(Scheduler):
    """Dask's scheduler without its HTTP server."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Start none."""


class PagelessWorker(Worker):
    """Dask's worker without its HTTP server, and without looking each second for missing inputs of tasks: Workbench's
    tasks have none."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Start none."""

    def start_periodic_callbacks(self) -> None:
        """Start all others."""
        self.periodic_callbacks.pop("find-missing", None)
        super().start_periodic_callbacks()


def new_security() -> Security:
    """A new key and a certificate signed by it, for all roles in one cluster; both exist in memory only.

    As Dask's ``Security.temporary``, but the key is one of the curve P-256, as strong as RSA with 3072 bits (NIST SP
    800-57 part 1, table 2) and made in less than a millisecond, where Dask's RSA key takes 50 to 150 ms.
    """
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "workbench-cluster")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + LASTS)
        .sign(key, hashes.SHA256())
    )
    shown = certificate.public_bytes(Encoding.PEM).decode()
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    roles = {f"tls_{role}_{part}": value for role in _ROLES for part, value in (("key", secret), ("cert", shown))}
    return Security(tls_ca_file=shown, require_encryption=True, **roles)


async def local_cluster(workers: int | None, security: Security, *, dashboard: bool = False) -> Any:
    """Start a cluster of this machine: a worker for each GPU, or otherwise for each CPU slot. Raises ClusterError.

    ``workbench_slots`` of the returned cluster is the number of slots of each worker.
    """
    dask.config.set({"temporary-directory": str(temporary("dask"))})
    WorkerProcess._init_msg_interval = STARTED_S
    settings: dict[str, Any] = {
        "asynchronous": True,
        "security": security,
        "protocol": "tls",
        "host": LOOPBACK,
        "dashboard_address": f"{LOOPBACK}:0",
        "silence_logs": logging.ERROR,
        "scheduler_kwargs": {"dashboard": dashboard},
        # Seconds between copies of facts about the cluster that Workbench does not read.
        "scheduler_sync_interval": 3600,
        "threads_per_worker": DEPTH,
    }
    if devices.plan(workers).trains_on_gpus:
        from dask_cuda import LocalCUDACluster

        make = LocalCUDACluster
    else:
        nursery.use()
        make = LocalCluster
        slots = workers or len(os.sched_getaffinity(0))
        settings |= {"n_workers": slots, "processes": True, "memory_limit": 0}
    try:
        cluster = make(**settings)
        if not dashboard:
            cluster.scheduler_spec["cls"] = PagelessScheduler
            cluster.scheduler_spec["options"]["extensions"] = _NO_EXTENSIONS
        for spec in (cluster.new_spec, *cluster.worker_spec.values()):
            spec["options"]["worker_class"] = PagelessWorker
            # Half a GB of the GPU's memory for as long as the engine lives; and no worker computes there.
            given = spec["options"].get("preload_argv", ())
            spec["options"]["preload_argv"] = [one for one in given if one != "--create-cuda-context"]
            if not dashboard:
                spec["options"]["extensions"] = _NO_EXTENSIONS
        cluster = await cluster
    except Exception as error:
        if make is LocalCluster:
            raise
        raise ClusterError(
            f"no cluster of this machine's GPUs can be started: {type(error).__name__}: {error}. See that `nvidia-smi` "
            "works, or train on CPU cores with `workbench engine start --workers N`."
        ) from error
    cluster.workbench_slots = 1
    _calm(cluster.scheduler)
    return cluster


def _calm(scheduler: Any) -> None:
    """Let a scheduler of this process rest while nothing happens: by default it wakes some thirty times a second.

    Dask has no setting for this. The connections show which workers are gone; only hanging ones need heartbeats. The
    two stopped timers would end a cluster without work or without workers, which must not happen here.
    """
    vars(dask_scheduler)["heartbeat_interval"] = lambda workers: HEARTBEAT_S + workers / 200
    for name in ("idle-timeout", "no-workers-timeout"):
        scheduler.periodic_callbacks[name].stop()


def dashboard_of(cluster: Any) -> str | None:
    """The address of the cluster's pages for a browser of this machine; None if there are none."""
    server = cluster.scheduler.services.get("dashboard")
    return f"http://{LOOPBACK}:{server.port}/status" if server is not None else None

"""A cluster of this machine, one worker for each slot, with TLS between its parts."""

from __future__ import annotations

import logging
import os
from typing import Any

from distributed import LocalCluster, Security

log = logging.getLogger("workbench.cluster")

#: Tasks a worker may run for each slot: one training; the others wait for its slot on the worker, not at Dask.
DEPTH = 4


async def local_cluster(workers: int | None, security: Security) -> Any:
    """A cluster of this machine, with TLS between its parts: a worker for each GPU, or else for each two CPU slots."""
    gpus = gpu_count()
    settings: dict[str, Any] = {
        "asynchronous": True,
        "security": security,
        "protocol": "tls",
        "dashboard_address": ":0",
        "silence_logs": logging.ERROR,
        "scheduler_kwargs": {"dashboard": False},
    }
    if gpus and workers is None:
        try:
            from dask_cuda import LocalCUDACluster
        except ImportError as error:
            log.warning("%d GPUs, but dask-cuda cannot be used (%s): pip install 'workbench[cuda]'", gpus, error)
        else:
            cluster = await LocalCUDACluster(threads_per_worker=DEPTH, **settings)
            cluster.workbench_slots = 1
            return cluster
    slots = workers or len(os.sched_getaffinity(0))
    cluster = await LocalCluster(n_workers=slots, threads_per_worker=DEPTH, processes=True, memory_limit=0, **settings)
    cluster.workbench_slots = 1
    return cluster


def gpu_count() -> int:
    """How many NVIDIA GPUs this machine has, asked without touching CUDA; 0 where there is no driver."""
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            return int(pynvml.nvmlDeviceGetCount())
        finally:
            pynvml.nvmlShutdown()
    except Exception:  # no package, no driver, no permission: all mean that no GPU can be used
        return 0

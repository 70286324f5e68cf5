"""The variables by which libraries know a rank, and whether the training code uses them itself. Law: code that manages
its own ranks is left alone."""

from __future__ import annotations

import ast
import contextlib
import datetime as dt
import fcntl
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from workbench.errors import BadInput
from workbench.snapshot.imported import loaded

#: What starts ranks of its own or replicates models itself, by full names. `*` ends a prefix.
_OWN = (
    "accelerate.Accelerator",
    "deepspeed.initialize",
    "horovod.*",
    "lightning.Fabric",
    "lightning.Trainer",
    "lightning.fabric.Fabric",
    "lightning.pytorch.Trainer",
    "lightning_fabric.Fabric",
    "pytorch_lightning.Trainer",
    "torch.distributed.fsdp.*",
    "torch.distributed.init_process_group",
    "torch.distributed._composable.*",
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.*",
    "transformers.Seq2SeqTrainer",
    "transformers.Trainer",
    "trl.*Trainer",
)
#: The same as objects: names of classes, by the package that they come from.
_CLASSES = {
    "accelerate": ("Accelerator",),
    "lightning": ("Fabric", "Trainer"),
    "lightning_fabric": ("Fabric",),
    "pytorch_lightning": ("Trainer",),
    "torch": ("DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule"),
    "transformers": ("Trainer",),
}

#: What gloo and NCCL are told by.
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
#: Linux's question for an interface's address (netdevice(7)).
_SIOCGIFADDR = 0x8915
#: A port for questions about ways, to which nothing is sent.
_ANY_PORT = 9


def variables(rank: int, size: int, local_rank: int, local_size: int, address: str, port: int) -> dict[str, str]:
    """The variables of one rank, as ``torchrun`` sets them. Raises BadInput for numbers that are not a rank's.

    local_rank, local_size: the same among the ranks of its machine. address, port: where the first rank listens.
    """
    if not (0 <= rank < size and 0 <= local_rank < local_size <= size):
        raise BadInput(
            f"rank {rank} of {size}, on its machine {local_rank} of {local_size}, is not a rank. Ranks count from 0, "
            "and a machine has at most all of them."
        )
    if not 0 < port < 1 << 16:
        raise BadInput(f"the port {port} is not between 1 and 65535. Use one that is free on {address}.")
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(local_size),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
    }


def interfaces(host: str, here_only: bool) -> dict[str, str]:
    """The variables that say by which network interface gloo and NCCL reach the other ranks.

    host: where the first rank listens. here_only: whether all ranks are on this machine. Without these, gloo listens on
    the address that this machine's own name means, which other machines often do not reach. What a person has set for
    several machines stays.
    """
    if here_only:
        return dict.fromkeys(_INTERFACES, "lo")
    name = _interface_to(host)
    # NCCL takes a name as the start of one, unless "=" is before it.
    found = {"GLOO_SOCKET_IFNAME": name, "NCCL_SOCKET_IFNAME": f"={name}"} if name else {}
    return {name: value for name, value in found.items() if not os.environ.get(name)}


def _interface_to(host: str) -> str | None:
    """The network interface whose address this machine has for ``host``; None if there is no way to it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.connect((host.strip("[]"), _ANY_PORT))  # sends nothing: the kernel only looks up the way
        mine = str(asking.getsockname()[0])
        return next((name for name, address in _addresses(family) if address == mine), None)
    return None


def _addresses(family: int) -> Iterator[tuple[str, str]]:
    """The network interfaces of this machine with their addresses; the training environment may have no psutil."""
    if family == socket.AF_INET6:
        with open("/proc/net/if_inet6", encoding="ascii") as file:
            for address, *_, name in map(str.split, file):
                yield name, socket.inet_ntop(family, bytes.fromhex(address))
        return
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # one without an address
                answer = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                yield name, socket.inet_ntoa(answer[20:24])


def join(init: str, timeout_s: float, store: Any = None) -> Any:
    """Make the process group of all ranks: by NCCL for tensors on GPUs, by gloo for those on the CPU.

    init: where they meet, as ``init_process_group`` takes it. store: of torch, through which they meet instead.
    timeout_s: seconds that a collective may take. Returns a store that the ranks share. Raises BadInput if a variable
    is missing.
    """
    lacking = [name for name in ("RANK", "WORLD_SIZE") if name not in os.environ]
    if lacking:
        raise BadInput(
            f"{', '.join(lacking)} is not set, so this process is not a rank. Set it before the code starts."
        )
    torch = loaded("torch")
    distributed, timeout = torch.distributed, dt.timedelta(seconds=timeout_s)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if store is None:
        store = next(distributed.rendezvous(init, rank, size, timeout=timeout))[0]
        store.set_timeout(timeout)
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
        store=distributed.PrefixStore("group", store),
        rank=rank,
        world_size=size,
        timeout=timeout,
    )
    return distributed.PrefixStore("ranks", store)


def is_one_group(size: int) -> bool:
    """Whether this process is in a process group of ``size`` ranks."""
    torch = loaded("torch")
    there = torch.distributed.is_available() and torch.distributed.is_initialized()
    return bool(there and torch.distributed.get_world_size() == size)


def managed_by(named: Mapping[str, Any]) -> str:
    """What in this process manages ranks already, as shown to the user; empty if nothing does.

    named: the objects that the training code made before its loop, by their names.
    """
    torch = loaded("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return "init_process_group was called"
    state = loaded("accelerate.state")
    if state is not None and state.PartialState._shared_state:
        return "an Accelerator was made"
    for name, one in named.items():
        for cls in type(one).__mro__:
            if cls.__name__ in _CLASSES.get(cls.__module__.partition(".")[0], ()):
                return f"{name} is a {cls.__name__}"
    return ""


def managed_in(source: str) -> str:
    """What in the text of the training code will manage ranks, as shown to the user; empty if nothing does."""
    tree = ast.parse(source)
    meanings = dict(_imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            written = ast.unparse(node)
            top, dot, rest = written.partition(".")
            full = meanings.get(top, "") + dot + rest
            if any(_is(full, one) for one in _OWN):
                return f"line {node.lineno} uses {written}"
    return ""


def _is(full: str, pattern: str) -> bool:
    start, star, end = pattern.partition("*")
    return full == pattern or (bool(star) and full.startswith(start) and full.endswith(end))


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Names that imports bind, and the full names that they mean."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (top, top)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"

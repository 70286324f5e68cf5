"""What listens while a search trains: loopback alone, with a key or a token; and what another local user gets of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed.comm import listen
from notebook_kernel import Kernel
from running import until
from servers import LAB
from users import acting

from workbench.cluster import here
from workbench.store import Store
from workbench.store.owner import runtime
from workbench.store.owner.cluster import read_cluster
from workbench.store.owner.lease import read_engine

#: The ID of an unprivileged user: `nobody` on most systems.
OTHER = 65534
TOKEN = "a-token-of-the-tests"
#: It trains with a loader's workers until the test has looked, and its checkpoints go to a storage.
CELL = """%%train digits --goal min loss --trials 2 --steps 1-2 --storage {storage} --mirror mlflow:{mlruns}
import os, time
import torch
from torch.utils.data import DataLoader
loader = DataLoader(torch.arange(64.0), batch_size=4, num_workers=1, persistent_workers=True)
lr = uniform(0.0, 1.0)
for epoch in trial.steps():
    for batch in loader:
        pass
    trial.report(loss=lr)
    while epoch and not os.path.exists({gate!r}):
        time.sleep(0.05)
"""


@dataclass(frozen=True)
class Listening:
    """A socket on which a process waits for others."""

    pid: int
    command: str
    kind: str
    address: str
    port: int = 0


@dataclass(frozen=True)
class World:
    """A search under way, seen by a notebook and a server."""

    folder: Path
    store: Store
    roots: tuple[int, ...]
    server: int

    @property
    def processes(self) -> set[int]:
        """All processes of ours that live now."""
        found = set(self.roots)
        for root in self.roots:
            with contextlib.suppress(psutil.NoSuchProcess):
                found |= {child.pid for child in psutil.Process(root).children(recursive=True)}
        return found


def listening(pids: set[int]) -> list[Listening]:
    """Every socket on which one of these processes listens, as the kernel lists them."""
    owners: dict[str, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    target = os.readlink(f"/proc/{pid}/fd/{number}")
                    if target.startswith("socket:["):
                        owners[target[8:-1]] = pid
    found = []
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]:
            words = line.split()
            # 0A listens; a datagram socket that is bound and not connected (07) takes what comes.
            if words[9] in owners and words[3] == ("0A" if kind.startswith("tcp") else "07"):
                address, _, port = words[1].partition(":")
                found.append(_listening(owners[words[9]], kind, _address(address), int(port, 16)))
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split(maxsplit=7)
        if words[6] in owners and int(words[3], 16) & 0x10000:
            found.append(_listening(owners[words[6]], "unix", words[7] if len(words) > 7 else ""))
    return found


def _listening(pid: int, kind: str, address: str, port: int = 0) -> Listening:
    command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return Listening(pid, command, kind, address, port)


def _address(text: str) -> str:
    raw = bytes.fromhex(text)
    words = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return socket.inet_ntop(socket.AF_INET if len(words) == 4 else socket.AF_INET6, words)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A kernel whose cell trains, a JupyterLab over the same folder, and all that they have started."""
    folder = tmp_path_factory.mktemp("work")
    home = tmp_path_factory.mktemp("home")
    for name in ("mlruns", "far"):
        (home / name).mkdir()
    gate = home / "go"
    port = free_port()
    options = ("--no-browser", "--ip=127.0.0.1", f"--port={port}", "--allow-root")
    options += (f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}", "--ServerApp.port_retries=0")
    variables = {f"JUPYTER_{name}_DIR": str(home / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    kernel = Kernel(folder, MLFLOW_ALLOW_FILE_STORE="true", **variables)
    with (home / "server.log").open("wb") as log:
        lab = subprocess.Popen(
            [sys.executable, "-c", LAB, *options],
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        cell = CELL.format(storage=(home / "far").as_uri(), mlruns=home / "mlruns", gate=str(gate))
        kernel.run(cell)
        store = Store(folder / ".workbench")
        found = World(folder, store, (kernel.pid, lab.pid), port)
        until(lambda: answers(port), 90, "the server")
        until(lambda: read_cluster(store)["workers"], 90, "the cluster")
        until(lambda: is_training(found), 120, "a loader's worker in a runner, and a mirror")
        yield found
    finally:
        gate.touch()
        family = World(folder, Store(folder / ".workbench"), (kernel.pid, lab.pid), port).processes
        kernel.end()
        lab.terminate()
        lab.wait(20)
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)


def free_port() -> int:
    """A port on which nothing listens now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def answers(port: int) -> bool:
    """Whether the server answers one who has its token."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/workbench/api/cluster", headers={"Authorization": f"token {TOKEN}"}
    )
    with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=5) as reply:
        return reply.status == 200
    return False


def is_training(world: World) -> bool:
    """Whether there are all the processes that the test is about."""
    commands = []
    for pid in world.processes:
        with contextlib.suppress(OSError):
            commands.append(Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace"))
    runners = sum("workbench.trial.process.forkserver" in one for one in commands)
    # A forkserver, its spare, a runner and the loader's worker have one command line.
    return runners >= 4 and any("workbench.exporters.mirrors.following" in one for one in commands)


# ---------------------------------------------------------------------------------------------------------------------


def as_another_user(attack: Callable[[], Any]) -> Any:
    """What ``attack`` gives in a process of another user; of this one, where that cannot be changed."""
    return acting(OTHER if os.geteuid() == 0 else None, attack)


def test_every_socket_is_loopback_or_a_private_file(world: World) -> None:
    found = listening(world.processes)
    assert any("workbench.engine" in one.command or "workbench.cluster" in one.command for one in found)
    assert any("jupyterlab" in one.command for one in found)
    assert not [one for one in found if one.kind.startswith("udp")]
    for one in found:
        if one.kind == "unix":
            assert one.address, f"a socket without a name listens: {one}"
            assert not one.address.startswith("@"), f"an abstract socket has no permissions: {one}"
            assert is_private(Path(one.address)), one
        else:
            assert one.address in ("127.0.0.1", "::1"), one


def is_private(path: Path) -> bool:
    """Whether other users cannot reach ``path``: some folder above it, or it itself, is closed to them."""
    return any(not stat.S_IMODE(one.stat().st_mode) & 0o077 for one in (path, *path.parents))


def test_another_user_gets_nothing_from_any_port(world: World) -> None:
    found = [one for one in listening(world.processes) if one.kind.startswith("tcp")]
    for one in found:
        said = as_another_user(lambda one=one: knocked(one.address, one.port))
        if "jupyterlab" in one.command and one.port == world.server:
            assert said["http"].startswith(("HTTP/1.1 403", "HTTP/1.1 302")), said
        elif "ipykernel" in one.command:
            # Jupyter's own: each message to a kernel carries a keyed digest; who has no key is not heard.
            assert said["http"] == "" or said["http"].startswith("\\xff"), said
        else:
            assert said == {"http": "", "dask": "", "tls": ""}, (one, said)


def knocked(host: str, port: int) -> dict[str, str]:
    """What a port answers to a client without a key: to an HTTP request, to a Dask frame, and over TLS."""
    told = {}
    frame = b"\x02" + b"\0" * 7 + b"\xff" * 16 + b"\x80" * 64
    for name, data in (("http", b"GET /workbench/api/cluster HTTP/1.1\r\nHost: x\r\n\r\n"), ("dask", frame)):
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=5) as sock:
            sock.sendall(data)
            told[name] = "".join(f"\\x{byte:02x}" if byte > 126 else chr(byte) for byte in sock.recv(64))
        told.setdefault(name, "")
    told["tls"] = ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        contextlib.suppress(OSError),
        socket.create_connection((host, port), timeout=5) as plain,
        context.wrap_socket(plain) as sock,
    ):
        sock.sendall(frame)
        told["tls"] = sock.recv(64).hex()
    # A TLS server answers plain data with an alert. It discloses nothing, so it counts as no answer.
    return {name: "" if text.startswith("\x15\x03") else text for name, text in told.items()}


def test_what_a_stranger_sends_costs_the_engine_nothing_that_stays(world: World) -> None:
    info = read_engine(world.store)
    assert info is not None
    ports = [one for one in listening(world.processes) if one.kind == "tcp" and "jupyter" not in one.command]
    ports = [one for one in ports if "ipykernel" not in one.command]
    before = {one.pid: psutil.Process(one.pid).memory_info().rss for one in ports}
    sent = as_another_user(lambda: sum(poured(one.address, one.port) for one in ports))
    assert sent >= 0
    for one in ports:
        process = psutil.Process(one.pid)
        assert process.memory_info().rss - before[one.pid] < 30 << 20, one
        until(lambda process=process: not of_strangers(process), 10, "the end of refused connections")


def poured(host: str, port: int) -> int:
    """Push 30 MB at a port over twenty connections; how much was taken."""
    sent = 0
    for _ in range(20):
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1) as sock:
            sock.settimeout(1)
            for _ in range(24):
                sent += sock.send(b"\xff" * (1 << 16))
    return sent


def of_strangers(process: psutil.Process) -> list[Any]:
    """Connections of ``process`` whose other end does not belong to a process of this user."""
    ours = {
        (one.laddr.ip, one.laddr.port)
        for one in psutil.net_connections("tcp")
        if one.laddr and one.pid is not None and one.status == psutil.CONN_ESTABLISHED
    }
    there = [one for one in process.net_connections("tcp") if one.status == psutil.CONN_ESTABLISHED]
    return [one for one in there if (one.raddr.ip, one.raddr.port) not in ours]


def test_folders_and_keys_are_closed_to_other_users(world: World) -> None:
    places = [runtime.place()]
    for pid in world.processes:
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    target = Path(os.readlink(f"/proc/{pid}/fd/{number}"))
                    if target.is_relative_to(tempfile.gettempdir()) and target.exists():
                        places.append(target)
    assert not any("dask-scratch-space" in path.parts[:3] for path in places), places
    assert any("dask-scratch-space" in path.parts for path in places), "Dask's folders are among what was looked at"
    assert all(is_private(path) for path in places), [path for path in places if not is_private(path)]
    for path in places:
        if path.is_file() and path.stat().st_size < 1 << 20:
            assert b"PRIVATE KEY" not in path.read_bytes() or path.stat().st_mode & 0o077 == 0, path
    names = [str(path) for path in places]
    reached = as_another_user(lambda: [name for name in names if os.access(name, os.R_OK | os.X_OK)])
    assert reached == [] or os.geteuid() != 0


@pytest.mark.parametrize("dashboard", [False, True])
def test_dasks_pages_are_there_only_where_they_are_asked_for_and_on_loopback(dashboard: bool) -> None:
    def family() -> set[int]:
        return {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}

    async def begun() -> tuple[str | None, list[Listening]]:
        before = {*listening(family())}
        cluster = await here.local_cluster(1, here.new_security(), dashboard=dashboard)
        try:
            return here.dashboard_of(cluster), [one for one in listening(family()) if one not in before]
        finally:
            await cluster.close()

    pages, found = asyncio.run(begun())
    assert {one.address for one in found if one.kind == "tcp"} == {"127.0.0.1"}
    plain = [one for one in found if one.kind == "tcp" and f":{one.port}/" in (pages or "")]
    assert (pages is not None, len(plain)) == (dashboard, int(dashboard))
    # Scheduler, nanny and worker listen with TLS, and nothing else does.
    assert len([one for one in found if one.kind == "tcp"]) == 3 + dashboard


def test_a_peer_that_never_shows_a_key_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "HANDSHAKE_S", 0.2)

    async def wait() -> float:
        arguments = here.new_security().get_listen_args("scheduler")
        async with listen("tls://127.0.0.1:0", lambda comm: None, **arguments) as listener:
            host, port = listener.get_host_port()
            begun = time.monotonic()
            reader, writer = await asyncio.open_connection(host, port)
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
            return time.monotonic() - begun

    assert asyncio.run(wait()) < 5

"""`engine status|start|stop|run`. Law: one engine for each store; a second one is refused with the holder's name."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from workbench import interpreter
from workbench.asked import End, plain
from workbench.asking import around_engine, open_log
from workbench.cli.codes import AWAY, OK
from workbench.cli.commands import service
from workbench.cli.found import lines
from workbench.cli.words import age, clean, say, say_json, who
from workbench.cluster.address import check_address
from workbench.cluster.own import end_found, grace_s
from workbench.errors import BadOption, ClusterError, EngineRunning, NoAnswer
from workbench.records import ENDED
from workbench.store import Store, requests
from workbench.store.owner import own_cluster
from workbench.store.owner.cluster import read_cluster
from workbench.store.owner.lease import EngineInfo, read_engine
from workbench.store.owner.ownership import check_ours

#: Seconds within which a started engine holds its lease, and a stopped one has ended.
START_S = 20.0
END_S = 30.0
_LOOK_S = 0.02
#: The engine process's own exit code for a second one.
_HELD = 3


def engine(options: Any) -> int:
    """Show, start, stop or run the engine."""
    store = Store.find(options.store)
    asked = [
        options.action,
        options.install_service and "--install-service",
        options.remove_service and "--remove-service",
    ]
    if len([one for one in asked if one]) != 1:
        raise BadOption(
            f"engine {' '.join(one for one in asked if one)}".strip()
            + ": expected one of status, start, stop, run, --install-service or --remove-service."
        )
    if options.remove_service:
        return service.remove(store, options)
    if options.action in ("status", "stop"):
        for name in ("cluster", "workers", "idle", "dashboard"):
            if getattr(options, name) not in (None, False):
                raise BadOption(f"--{name} applies only to engine start and engine run. Leave it out here.")
        store.check()
    elif options.cluster is not None and options.workers is not None:
        raise BadOption(
            "--cluster and --workers were given; expected only one of them: the slots of a given cluster are fixed."
        )
    elif options.dashboard:
        _check_dashboard(options)
    if options.install_service:
        return service.install(store, options)
    return {"status": _status, "start": _start, "stop": _stop, "run": _run}[options.action](store, options)


def _status(store: Store, options: Any) -> int:
    info = read_engine(store)
    alive = info is not None and info.alive
    under_way = [row["label"] for row in lines(store) if row["state"] not in ENDED]
    cluster = read_cluster(store)
    told = {name: cluster[name] for name in ("held", "dashboard")}
    if options.json:
        trains_on = own_cluster.read(store.root) if not alive else None
        told |= {"store": str(store.root), "engine": _plain(info), "alive": alive, "under_way": under_way}
        say_json({**told, "trains_on_s": None if trains_on is None else trains_on.left_s})
    elif info is None or not alive:
        waiting = f" {len(under_way)} experiments wait for one." if len(under_way) > 1 else ""
        waiting = f" {clean(under_way[0])} waits for one." if len(under_way) == 1 else waiting
        words = own_cluster.trains_on(store.root)
        words = f" {words[0].upper()}{words[1:]}; `workbench engine stop` ends it." if words else ""
        say(f"no engine runs in {clean(store.root)}.{waiting}{words}")
    else:
        say(
            f"{who(info)}, since {clean(info.started)} ({age(info.started)}); last heard from {info.silent_s:.0f} s "
            "ago."
        )
        if info.address:
            say(f"its cluster is at {clean(info.address)}.")
        if told["dashboard"]:
            say(f"Dask's pages are at {clean(told['dashboard'])}.")
        say(f"under way: {', '.join(map(clean, under_way)) or 'nothing'}.")
        for one in told["held"]:
            label = f" ({one['experiment']})" if one["experiment"] else ""
            if one.get("user"):
                say(f"slot {clean(one['slot'])}: {clean(one['user'])}.")
                continue
            process = f", process {one['pid']}" if one["pid"] else ""
            say(f"slot {clean(one['slot'])}: {clean(one['store'] + label)}{process}, {age(one['since'])}.")
    return OK if alive else AWAY


def _plain(info: EngineInfo | None) -> dict[str, Any] | None:
    if info is None:
        return None
    names = ("host", "pid", "state", "started", "heartbeat", "protocol", "address", "alive")
    return {name: getattr(info, name) for name in names}


def _refuse_second(store: Store) -> None:
    info = read_engine(store)
    if info is not None and info.alive and info.state == "running":
        raise EngineRunning(
            f"{who(info)}, since {info.started}, and {store.root} has one engine. "
            "Use that one, or end it with `workbench engine stop`; or name another store with --store."
        )


def _command(store: Store, options: Any) -> list[str]:
    words = interpreter.command("workbench.engine", "--store", str(store.root))
    for name in ("cluster", "workers", "idle"):
        value = getattr(options, name)
        if value is not None:
            words += [f"--{name}", str(value)]
    return [*words, *(["--dashboard"] if options.dashboard else [])]


def _check_dashboard(options: Any) -> None:
    """Refuse ``--dashboard`` if Dask's pages are not available."""
    if options.cluster is not None:
        raise BadOption(
            "--dashboard and --cluster were given; expected --dashboard for a cluster of this machine. For another "
            "cluster, enable them in its own scheduler."
        )
    if importlib.util.find_spec("bokeh") is None:
        raise BadOption(f"--dashboard needs bokeh, which draws Dask's pages. {sys.executable} -m pip install bokeh")


def _prepare(store: Store, options: Any) -> None:
    check_ours(store)
    _refuse_second(store)
    for name, read, wanted in (("WORKBENCH_WORKERS", int, "a whole number"), ("WORKBENCH_IDLE", float, "seconds")):
        value = os.environ.get(name)
        try:
            read(value or 0)
        except ValueError:
            raise BadOption(f"{name}={value}: expected {wanted}. Change it, or unset it.") from None
    grace_s()
    address = options.cluster or os.environ.get("WORKBENCH_CLUSTER")
    if address:
        check_address(address)
    store.create()


def _start(store: Store, options: Any) -> int:
    _prepare(store, options)
    with open_log(store) as log:
        where = log.tell()
        process = subprocess.Popen(
            _command(store, options), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=store.root,
            start_new_session=True, env=around_engine(store),
        )  # fmt: skip
    until = time.monotonic() + START_S
    while True:
        info = read_engine(store)
        if info is not None and info.alive and info.pid == process.pid:
            process.returncode = 0  # it runs independently; this process never waits for it
            break
        code = process.poll()
        if code == _HELD:
            _refuse_second(store)
            raise EngineRunning(f"another engine works in {store.root}; it is closing. Try again in a moment.")
        if code is not None:
            raise ClusterError(f"the engine ended at once (exit code {code}): {_tail(store.engine_log, where)}")
        if time.monotonic() > until:
            process.terminate()
            process.wait()
            raise ClusterError(f"the engine did not start within {START_S:g} s. Look at {store.engine_log}.")
        time.sleep(_LOOK_S)
    if options.json:
        say_json({"store": str(store.root), "engine": _plain(info), "alive": True})
    else:
        say(f"{who(info)}; its log is {clean(store.engine_log)}.")
    return OK


def _stop(store: Store, options: Any) -> int:
    info = read_engine(store)
    if info is None or not info.alive:
        left = end_found(store.root)
        words = "no engine runs" if left is None else "no engine runs; the training that the last one left has ended"
        return _stopped(store, options, words, None)
    request = requests.put(store, plain(End()))
    until = time.monotonic() + END_S
    while (now := read_engine(store)) is not None and now.alive and now.pid == info.pid:
        if time.monotonic() > until:
            requests.remove(store, request)
            raise NoAnswer(
                f"{who(info)} and has not ended within {END_S:g} s. Look at {store.engine_log}; "
                f"`kill {info.pid}` on {info.host} ends it, and nothing that was acknowledged is lost."
            )
        time.sleep(_LOOK_S)
    requests.remove(store, request)  # it died before it took the request; the next engine must not act on it
    return _stopped(store, options, "the engine has ended", info)


def _stopped(store: Store, options: Any, words: str, info: EngineInfo | None) -> int:
    under_way = [row["label"] for row in lines(store) if row["state"] not in ENDED]
    if options.json:
        say_json({"store": str(store.root), "ended": _plain(info), "alive": False, "under_way": under_way})
        return OK
    goes_on = f"; {', '.join(map(clean, under_way))} will continue with the next one" if under_way else ""
    say(f"{words}{goes_on}.")
    return OK


def _run(store: Store, options: Any) -> int:
    """Run the engine in this process: it ends with the process, and Ctrl-C shuts it down cleanly."""
    if _has_loop():
        raise BadOption("engine run blocks until it ends. In a notebook write %workbench engine start.")
    _prepare(store, options)
    say(f"running the engine of {clean(store.root)}; Ctrl-C ends it.")
    # Replace this process: workers are started with the options of the engine's command line.
    os.chdir(store.root)
    words = _command(store, options)
    os.execve(words[0], words, around_engine(store))


def _has_loop() -> bool:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _tail(path: Path, where: int) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(where)
            text = file.read().decode("utf-8", "replace").strip()
    except OSError:
        text = ""
    return clean(text.splitlines()[-1]) if text else f"it printed nothing; look at {path}."

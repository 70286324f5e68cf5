"""One run of a peer: its process is started, watched, and ended with all that it started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import reading, work
from benchmarks.processes import worker_of

ROOT = Path(__file__).parents[2]
#: Steps that all trials together have trained, and steps of the one that is killed, before it is: both workers train.
BEFORE_KILL, AT_KILL = 60, (10, 16)
#: Seconds that a peer gets to end in order.
END_S = 10.0


class Failed(Exception):
    """A peer gave no figure; the text says why."""


@dataclass(frozen=True, slots=True)
class Run:
    """launched: when the interpreter was started, by this machine's clock."""

    lines: reading.Lines
    launched: float
    versions: dict[str, str]


def ran(python: str, module: str, measurement: str, trials: int, limit_s: float) -> Run:
    """Run a peer to its end. Raises Failed."""
    with _started(python, module, measurement, trials) as (process, folder, launched):
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"it took more than {limit_s:g} s") from None
        if code:
            raise Failed(_why(folder))
        lines = work.lines(folder)
        # A process that was measured may have been started by the peer's own.
        elsewhere = [one["at"] for one in lines if one["kind"] == "launched"]
        return Run(lines, elsewhere[-1] if elsewhere else launched, _versions(folder))


def ran_and_killed(python: str, module: str, measurement: str, trials: int, limit_s: float) -> reading.Values:
    """Run a peer, kill what trains one of its trials, and see it train again. Raises Failed.

    ``recovery-worker`` kills the Dask worker above the process that trains.
    """
    with _started(python, module, measurement, trials) as (process, folder, launched):
        while (victim := _victim(work.lines(folder))) is None:
            if process.poll() is not None:
                raise Failed(_why(folder))
            if time.time() > launched + limit_s:
                raise Failed(f"no trial was half trained within {limit_s:g} s")
            time.sleep(0.005)
        trial, pid = victim
        time.sleep(work.RECOVERY_STEP_S / 2)  # within a step; the moment right after a report would be a special one
        killed = time.time()
        os.kill(worker_of(pid) if measurement == "recovery-worker" else pid, signal.SIGKILL)
        while (found := reading.recovery(work.lines(folder), trial, killed, pid)) is None:
            if time.time() > killed + limit_s:
                raise Failed(f"the killed trial was not trained again within {limit_s:g} s")
            time.sleep(0.02)
        return found


def _victim(lines: reading.Lines) -> tuple[int, int] | None:
    reports = [one for one in lines if one["kind"] == "report"]
    if len(reports) < BEFORE_KILL or not AT_KILL[0] <= reports[-1]["step"] <= AT_KILL[1]:
        return None
    return reports[-1]["trial"], reports[-1]["pid"]


@contextlib.contextmanager
def _started(
    python: str, module: str, measurement: str, trials: int
) -> Iterator[tuple[subprocess.Popen[bytes], Path, float]]:
    if not Path(python).exists():
        raise Failed(f"{Path(python).parents[1].name} is missing: `make bench-peers` installs it")
    surroundings = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    with tempfile.TemporaryDirectory(prefix="peers-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        command = [python, "-m", f"benchmarks.peers.{module}", measurement, name, str(trials)]
        with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:
            launched = time.time()
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=folder,  # some tools write there
                start_new_session=True,
                env=surroundings,
            )
        try:
            yield process, folder, launched
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
    with contextlib.suppress(ProcessLookupError):  # its children, if it left any
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _why(folder: Path) -> str:
    lines = (folder / "stderr").read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it ended with an error and said nothing"


def _versions(folder: Path) -> dict[str, str]:
    lines = [line for line in (folder / "stdout").read_text(errors="replace").splitlines() if line.startswith("{")]
    return dict(json.loads(lines[-1])["versions"]) if lines else {}

"""Papermill's engine ``workbench``: it executes a notebook as papermill does, keeps it in the store, and indexes it.

``papermill --engine workbench in.ipynb out.ipynb -p lr 0.01`` finds it by its entry point. Law: the output notebook is
the same as with papermill's own engine; the copy in the store holds no secret.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine
from papermill.log import logger
from traitlets.config import Config

from workbench.replay.notebook import INJECTED, NotebookCell, key_of, own_cells, without_secrets
from workbench.snapshot.notebook import masked_notebook
from workbench.snapshot.secrets.masking import MASK, is_secret, masked
from workbench.store import Store, new_id
from workbench.store.files.atomic import write_atomic
from workbench.store.lists import notebooks
from workbench.store.lists.notebooks import NotebookRun
from workbench.store.owner import runtime

#: Variables of Workbench's processes that a kernel must not inherit: it draws into the notebook.
_NOT_THEIRS = ("MPLBACKEND", "JPY_SESSION_NAME")
#: Seconds between two savings to the store during the execution.
_SAVE_S = 2.0
#: Words of a kernel's command line by which it is IPython's, which listens at files as well as at ports.
_IPYTHON = {"ipykernel", "ipykernel_launcher", "workbench.kernel"}
#: Bytes of a socket's path that the system allows, less the number that Jupyter adds.
_LONGEST = 104
#: Shorter secrets are not searched for in a notebook's outputs: they would match everywhere.
_LEAST = 6


class Engine(NBClientEngine):
    """The engine as papermill loads it."""

    @classmethod
    def nb_kernel_name(cls, nb: Any, name: str | None = None) -> str:
        """The notebook's kernel, by default Python's."""
        return str(name or nb.metadata.get("kernelspec", {}).get("name") or "python3")

    @classmethod
    def nb_language(cls, nb: Any, language: str | None = None) -> str:
        """The notebook's language, by default Python."""
        told = nb.metadata.get("language_info", {}).get("name") or nb.metadata.get("kernelspec", {}).get("language")
        return str(language or told or "python")

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: Any,
        kernel_name: str,
        *,
        start_timeout: int = 60,
        execution_timeout: int | None = None,
        input_path: Any = None,
        store: Store | None = None,
        run: NotebookRun | None = None,
        **options: Any,
    ) -> None:
        """Execute the notebook. store, run: given by ``workbench replay``; when papermill calls, both are determined
        here."""
        told = nb_man.nb.metadata.papermill
        given = dict(told.get("parameters") or {})
        if run is None:
            source = told.get("input_path")
            run = NotebookRun(
                id=new_id(),
                key=key_of(own_cells(nb_man.nb.cells), kernel_name, os.getcwd(), given),
                path=os.path.abspath(source) if isinstance(source, str) and source not in ("", "-") else "",
                parameters=without_secrets(given),
                asked="papermill",
                output=os.path.abspath(nb_man.output_path) if nb_man.output_path else None,
            )
        else:
            told["input_path"] = run.path
        store = store or Store.to_train(cwd=Path(run.path).parent if run.path else None)
        begun, run = time.monotonic(), dataclasses.replace(run, started=_now())
        with notebooks.executing(store, run) as kept:
            keep = _Keeper(nb_man, kept, given)
            error: BaseException | None = None
            try:
                # As in papermill's own engine, except that the kernel gets an environment and private sockets.
                with _sockets(kernel_name) as config:
                    client = PapermillNotebookClient(
                        nb_man,
                        kernel_name=kernel_name,
                        startup_timeout=start_timeout,
                        timeout=execution_timeout,
                        log=logger,
                        config=config,
                        **options,
                    )
                    client.execute(env=_surroundings(store, run))
            except BaseException as raised:
                error = raised
                raise
            finally:
                keep()
                notebooks.write(store, _ended(run, nb_man.nb, error, time.monotonic() - begun, given))


class _Keeper:
    """Saves the notebook to the store when papermill saves it, at most every two seconds, and at its end."""

    def __init__(self, manager: Any, kept: Path, given: dict[str, Any]) -> None:
        self._manager, self._kept, self._save = manager, kept, manager.save
        self._given = given
        self._saved_at = 0.0
        manager.save = self._saved

    def _saved(self, **fields: Any) -> None:
        self._save(**fields)
        if time.monotonic() - self._saved_at > _SAVE_S or all(_has_ended(cell) for cell in self._manager.nb.cells):
            self()

    def __call__(self) -> None:
        node = copy.deepcopy(self._manager.nb)
        node.metadata.papermill["parameters"] = without_secrets(self._given)
        for cell in node.cells:
            if INJECTED in NotebookCell.of(cell).tags:
                cell["source"] = without(cell["source"], self._given)
        text = without(nbformat.writes(node), self._given, _in_json)
        data = masked_notebook(text.encode(errors="surrogatepass"))
        write_atomic(self._kept, data, fsync=False)
        self._saved_at = time.monotonic()


def without(text: str, given: Mapping[str, Any], written: Callable[[str], str] = str) -> str:
    """``text`` with the secrets among the values ``given`` masked. written: how a value is written in the text."""
    for name, value in given.items():
        if is_secret(name) and isinstance(value, str) and len(value) >= _LEAST:
            text = text.replace(written(value), MASK)
    return text


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _has_ended(cell: Any) -> bool:
    return cell.metadata.get("papermill", {}).get("status") in ("completed", "failed")


@contextlib.contextmanager
def _sockets(kernel_name: str) -> Iterator[Config]:
    """Settings with which IPython's kernel listens at files that only this user can open. Of ports, another process may
    take the one that was free before the kernel listens there. Other kernels listen at ports."""
    spec = KernelSpecManager().get_kernel_spec(kernel_name)
    if not _IPYTHON & {*spec.argv} or "kernel_provisioner" in spec.metadata:
        yield Config()
        return
    folder = runtime.temporary("kernel")
    try:
        path = str(folder / "socket")
        fits = len(os.fsencode(path)) <= _LONGEST
        yield Config(KernelManager={"transport": "ipc", "ip": path} if fits else {})
    finally:
        runtime.remove(folder)


def _surroundings(store: Store, run: NotebookRun) -> dict[str, str]:
    """The kernel's environment: its train cells use the same store, and know the notebook's file."""
    found = {name: value for name, value in os.environ.items() if name not in _NOT_THEIRS}
    found["WORKBENCH_HOME"] = str(store.root)
    if run.path:
        found["JPY_SESSION_NAME"] = run.path
    return found


def _ended(
    run: NotebookRun, node: Any, error: BaseException | None, seconds: float, given: Mapping[str, Any]
) -> NotebookRun:
    """``run`` with its outcome: papermill marks the cell that raised; if the kernel died, ``error`` says so.

    given: its parameters; the secrets among them are masked.
    """
    number, words = None, None
    code = [cell for cell in node.cells if cell.cell_type == "code" and INJECTED not in NotebookCell.of(cell).tags]
    for place, cell in enumerate(code, 1):
        if cell.metadata.get("papermill", {}).get("exception"):
            number, words = place, _said(cell)
    if error is not None:
        words = f"{type(error).__name__}: {error}".strip()
    state: notebooks.State = "completed"
    if words is not None:
        state = "interrupted" if isinstance(error, KeyboardInterrupt | SystemExit) else "failed"
    outputs = [output for cell in code for output in cell.get("outputs", ())]
    trained = [(output.get("metadata", {}).get("workbench") or {}).get("experiment") for output in outputs]
    return dataclasses.replace(
        run,
        state=state,
        ended=_now(),
        seconds=round(seconds, 3),
        cell=number,
        error=None if words is None else masked(without(words, given)),
        trained=tuple(one for one in trained if one),
    )


def _said(cell: Any) -> str:
    for output in cell.get("outputs", ()):
        if output.output_type == "error":
            return f"{output.ename}: {output.evalue}".strip().rstrip(":")
    return "it raised"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")

"""The open notebook is kept when a cell of it is executed: its texts masked, nothing else, and found again."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import threading
from datetime import UTC, datetime, timedelta

import nbformat

from workbench.snapshot import take
from workbench.store import Store
from workbench.store.lists import documents
from workbench_ext.server import documents as documents_server

NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}, "papermill": {"token": "x"}},
    "cells": [
        {"cell_type": "markdown", "id": "aaaa", "metadata": {}, "source": ["# Title\n", "<script>alert(1)</script>"]},
        {
            "cell_type": "code",
            "id": "bbbb",
            "metadata": {"tags": ["parameters"], "trusted": True},
            "source": "password = 'hunter22222'",
            "outputs": [{"output_type": "stream", "name": "stdout", "text": "hunter22222"}],
            "execution_count": 3,
        },
        {"cell_type": "code", "id": "cccc", "metadata": {}, "source": "%%train digits", "outputs": [],
         "execution_count": None},
    ],
}  # fmt: skip
BODY = {"path": "a.ipynb", "cell_id": "cccc", "source": "%%train digits", "content": NOTEBOOK, "unsaved": True}


async def test_a_document_is_kept_without_secrets_and_outputs(send, store):
    code, answer = await send("documents", **BODY)
    assert code == 200
    [kept] = documents.documents(store)
    assert (kept.id, kept.cell_id, kept.unsaved) == (answer["kept"], "cccc", True)
    assert kept.path == str(store.root.parent / "a.ipynb")
    assert kept.source == hashlib.sha256(b"%%train digits").hexdigest()
    data = store.get_blob(kept.blob)
    assert b"hunter" not in data
    assert b"papermill" not in data
    notebook = nbformat.from_dict(json.loads(data))
    nbformat.validate(notebook)
    assert [cell.source for cell in notebook.cells][1:] == ["password = '***'", "%%train digits"]
    assert notebook.cells[1].metadata == {"tags": ["parameters"]}
    again = (await send("documents", **BODY))[1]["kept"]
    assert again != answer["kept"]
    assert len({one.blob for one in documents.documents(store)}) == 1, "the same bytes are kept once"


async def test_it_is_kept_in_the_store_of_the_notebooks_folder(send, jp_root_dir, monkeypatch):
    monkeypatch.delenv("WORKBENCH_HOME", raising=False)
    (jp_root_dir / "sub").mkdir()
    assert (await send("documents", **{**BODY, "path": "RTC:sub/a.ipynb"}))[0] == 200
    assert len(list(documents.documents(Store.find(cwd=jp_root_dir / "sub")))) == 1


async def test_the_loop_answers_while_a_large_notebook_is_masked(send, monkeypatch):
    threads: set[int] = set()
    masked = documents_server.masked_cell

    def noted(source):
        threads.add(threading.get_ident())
        return masked(source)

    monkeypatch.setattr(documents_server, "masked_cell", noted)
    beats = 0

    async def beat():
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    text = "print('the token of epoch', key, 'passes')\n" * 30_000
    cells = [{**NOTEBOOK["cells"][1], "source": text, "id": f"a{n}"} for n in range(2)]
    beating = asyncio.create_task(beat())
    code, _ = await send("documents", **{**BODY, "content": {**NOTEBOOK, "cells": cells}})
    beating.cancel()
    assert code == 200
    assert threading.get_ident() not in threads
    assert beats > 10, "the loop waited"


#: Fields that are refused.
BAD = [
    ("path", "../a.ipynb"),
    ("path", "/../../etc/a.ipynb"),
    ("path", "nowhere/a.ipynb"),
    ("path", "a\0b"),
    ("path", ""),
    ("path", 3),
    ("cell_id", None),
    ("source", ["x"]),
    ("unsaved", "yes"),
    ("content", []),
    ("content", {}),
    ("content", {**NOTEBOOK, "nbformat": 3}),
    ("content", {**NOTEBOOK, "cells": [{"cell_type": "code"}]}),
    ("content", {**NOTEBOOK, "cells": [{"cell_type": "code", "source": [1], "metadata": {}}]}),
    ("content", {**NOTEBOOK, "cells": [{"cell_type": "script", "source": "x", "metadata": {}}]}),
    ("content", {**NOTEBOOK, "cells": "x"}),
    ("content", {**NOTEBOOK, "metadata": "x"}),
]


async def test_what_is_no_document_is_refused_with_its_field(send, store):
    for field, value in BAD:
        code, answer = await send("documents", **{**BODY, field: value})
        assert (code, answer["field"]) == (400, field), value
    assert not store.documents.exists()


async def test_a_document_that_is_too_large_is_413(send, store, monkeypatch):
    monkeypatch.setattr(documents_server, "MOST", 1000)
    code, answer = await send("documents", **{**BODY, "source": "x" * 1001})
    assert code == 413
    assert "at most 1000" in answer["message"]


async def test_a_link_does_not_lead_out(send, store, tmp_path):
    (store.root.parent / "out").symlink_to(tmp_path)
    assert (await send("documents", **{**BODY, "path": "out/../../a.ipynb"}))[0] == 400
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (store.root.parent / "away").symlink_to(outside)
    code, _ = await send("documents", **{**BODY, "path": "away/a.ipynb"})
    assert code == (200 if outside.is_relative_to(store.root.parent) else 400)


async def test_the_experiment_finds_the_document_it_was_started_from(ask, send, written, tmp_path):
    path = str(written.store.root.parent / "a.ipynb")
    await send("documents", **{**BODY, "source": "another text of the same cell"})
    await send("documents", **BODY)
    await send("documents", **{**BODY, "unsaved": False, "source": "typed on while the cell waited"})
    await send("documents", **{**BODY, "cell_id": "dddd"})
    frozen = take(written.store, cells=["", "x = 1", "%%train digits"], cell_id="cccc", folder=tmp_path)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    spec = written.experiment(created=now)
    place = written.store.experiment(spec.id).spec
    place.write_text(json.dumps({**json.loads(place.read_text()), "snapshot": frozen.digest, "notebook": path}))
    told = (await ask("experiments", "digits", "snapshot"))["document"]
    assert told["unsaved"] is True, "the one whose cell had the executed text, though a newer one is there"
    notebook = await ask("experiments", "digits", "notebook", which="document")
    assert [cell["source"] for cell in notebook["cells"]][2] == "%%train digits"
    for one in documents.documents(written.store):
        (written.store.documents / f"{one.id}.json").write_text("[")
    assert (await ask("experiments", "digits", "snapshot"))["document"] is None


def test_documents_of_which_nothing_was_made_go_after_a_day(store):
    old = (datetime.now(UTC) - timedelta(days=2)).isoformat()
    kept = [documents.keep(store, store.root / name, "c", "", False, b"{}") for name in ("a", "b", "c")]
    for one in kept[:2]:
        data = {"schema": 1, **dataclasses.asdict(one), "at": old}
        (store.documents / f"{one.id}.json").write_text(json.dumps(data))
    made = (datetime.now(UTC) - timedelta(days=2) + timedelta(hours=3)).isoformat()
    assert documents.prune(store, [(str(store.root / "b"), made)]) == [kept[0].id]
    assert {one.id for one in documents.documents(store)} == {kept[1].id, kept[2].id}

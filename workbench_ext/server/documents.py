"""The open notebook that a page sends when a train cell is executed. Law: texts are masked and outputs removed before
anything is written."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import nbformat
from jupyter_server.auth.decorator import authorized
from tornado import web

from workbench.snapshot.secrets.literals import masked_cell
from workbench.snapshot.secrets.masking import masked
from workbench.store import Store
from workbench.store.lists.catalog import read_catalog
from workbench.store.lists.documents import keep, prune
from workbench_ext.server.asking import body_of
from workbench_ext.server.base import Handler, Refused, bad
from workbench_ext.server.stores import notebook_below

Json = Any

#: The most bytes of a request: a notebook's text is far smaller, and outputs need not be sent.
MOST = 32 << 20
#: Metadata of a notebook and of a cell that say how to read its text.
_ABOUT, _ABOUT_CELL = ("kernelspec", "language_info"), ("tags", "name", "jupyter", "collapsed")

_WANTED: Mapping[type, str] = {str: "a text", dict: "a notebook", bool: "true or false"}


class Documents(Handler):
    """Keep the open document for the snapshot of the experiment that is being started."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        body = body_of(self, MOST)

        def keep_it() -> Json:
            answer = kept(self.stores.root, body)
            self.stores.beside(body["path"])  # the store may have just been created
            return answer

        await self.say(await self.aside(keep_it))


def kept(root: Path, body: Json) -> Json:
    """Keep the document in ``body``, in the store of the notebook's folder. Returns its id. Raises Refused."""
    wanted: dict[str, type] = {"path": str, "cell_id": str, "source": str, "content": dict, "unsaved": bool}
    if not isinstance(body, dict):
        raise Refused(HTTPStatus.BAD_REQUEST, f"expected a JSON object with {', '.join(wanted)}.")
    for field, kind in wanted.items():
        if not isinstance(body.get(field), kind):
            raise bad(field, body.get(field), _WANTED[kind])
    path = notebook_below(root, body["path"])
    content = plain(body["content"])
    store = Store.to_train(cwd=path.parent).create()
    source = hashlib.sha256(body["source"].encode(errors="surrogatepass")).hexdigest()
    prune(store, [(str(row["notebook"]), row["created"]) for row in read_catalog(store) if row.get("notebook")])
    data = json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
    return {"kept": keep(store, path, body["cell_id"][:200], source, body["unsaved"], data).id}


def plain(content: Mapping[str, Json]) -> Json:
    """The notebook without outputs, its texts masked as in a snapshot. Raises Refused if it is not a notebook."""
    try:
        cells = [_cell(cell) for cell in content["cells"]]
        about = _some(content["metadata"], _ABOUT)
        numbers = {key: content[key] for key in ("nbformat", "nbformat_minor")}
        notebook = {"cells": cells, "metadata": about, **numbers}
        if numbers["nbformat"] != 4:
            raise ValueError("it is not of version 4")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a cell without an id, as in older notebooks
            nbformat.validate(notebook)
    except (KeyError, TypeError, ValueError, AttributeError, nbformat.ValidationError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"content is not a notebook ({str(error)[:200]}).", "content") from error
    return notebook


def _cell(cell: Mapping[str, Json]) -> Json:
    source = cell["source"]
    text = "".join(source) if isinstance(source, list) else source
    text = masked_cell(text) if cell["cell_type"] == "code" else masked(text)
    about = _some(cell["metadata"], _ABOUT_CELL)
    made = {"cell_type": cell["cell_type"], "source": text, "metadata": about}
    if "id" in cell:
        made["id"] = cell["id"]
    if cell["cell_type"] == "code":
        made |= {"outputs": [], "execution_count": None}
    elif "attachments" in cell:
        made["attachments"] = cell["attachments"]
    return made


def _some(metadata: Json, keys: tuple[str, ...]) -> dict[str, Json]:
    if not isinstance(metadata, dict):
        raise TypeError("its metadata is not a JSON object")
    return {key: metadata[key] for key in keys if key in metadata}

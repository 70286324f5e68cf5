"""The addresses that answer from a store. Law: each reads its query, and sends the results of another module."""

from __future__ import annotations

import asyncio
import functools
import json
import os
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import yaml
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import JupyterHandler
from tornado import web

from workbench_ext.server import files
from workbench_ext.server.base import Handler, Refused, to_json, trial
from workbench_ext.server.readings import Reading
from workbench_ext.server.stores import described, described_or_why

#: Bytes of a trial's file that are read at once.
_BLOCK = 1 << 20


class Reads(Handler):
    """Answers with the result of one reading of :mod:`workbench_ext.server.readings`."""

    def initialize(self, reading: Reading) -> None:
        """reading: from the route table."""
        self._reading = reading

    @web.authenticated
    @authorized
    async def get(self, *parts: str) -> None:
        await self.answer(self._reading(self, *parts))


class Stores(Handler):
    """The stores that this server shows."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        def read() -> bytes:
            return to_json({"stores": [described_or_why(known, self.log) for known in self.stores.listed()]})

        await self.say(await self.aside(read))


class StoreOf(Handler):
    """The store next to a notebook, or the one that holds an experiment."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        path, name = self.get_query_argument("path", None), self.get_query_argument("experiment", None)
        if path is None and name is None:
            raise Refused(HTTPStatus.BAD_REQUEST, "expected path, experiment, or both.", "path")

        def read() -> bytes:
            known = self.stores.beside(str(path)) if name is None else self.stores.holding(name, path)
            return to_json({"store": None if known is None else described(known)})

        await self.say(await self.aside(read))


class File(Handler):
    """A file that a trial kept. Nothing in it runs: it has no origin, and browsers must not guess its type."""

    @property
    def content_security_policy(self) -> str:
        return "sandbox; default-src 'none'"

    @web.authenticated
    @authorized
    async def get(self, experiment: str, number: str, path: str) -> None:
        name = path.rpartition("/")[2]
        kind = files.type_of(name)
        with await self.read(files.opened, experiment, trial(number), path) as file:
            self.set_header("Content-Type", kind)
            self.set_header("X-Content-Type-Options", "nosniff")
            self.set_header("Cache-Control", "private, no-cache")
            status = os.fstat(file.fileno())
            self.set_header("Etag", f'"{status.st_mtime_ns:x}-{status.st_size:x}"')
            if self.check_etag_header():  # a slider shows the same pictures again and again
                self.set_status(HTTPStatus.NOT_MODIFIED)
                await self.finish(set_content_type=kind)
                return
            inline = "inline" if kind in files.INLINE else "attachment"
            self.set_header("Content-Disposition", f"{inline}; filename*=UTF-8''{quote(os.fsencode(name))}")
            while block := await asyncio.to_thread(file.read, _BLOCK):
                self.write(block)
                await self.flush()
        await self.finish(set_content_type=kind)


class OpenAPI(Handler):
    """The description of the API, for programs."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        await self.say(await asyncio.to_thread(description))


@functools.cache
def description() -> bytes:
    """The OpenAPI description as JSON; its file is YAML, which is easier to read."""
    text = Path(__file__).with_name("openapi.yaml").read_text(encoding="utf-8")
    return json.dumps(yaml.safe_load(text)).encode()


class Nothing(Handler):
    """Every other address under ``api/``: a 404 in JSON."""

    @web.authenticated
    async def get(self) -> None:
        raise Refused(HTTPStatus.NOT_FOUND, f"Nothing is at {self.request.path}.")

    post = put = patch = delete = get


class Plotly(JupyterHandler, web.StaticFileHandler):
    """Plotly's own plotly.min.js, once for all live views, so that no page asks the internet for it."""

    def initialize(self) -> None:  # type: ignore[override]
        spec = find_spec("plotly")
        assert spec is not None
        assert spec.origin is not None
        super().initialize(path=str(Path(spec.origin).parent / "package_data"))

    @web.authenticated
    async def get(self, include_body: bool = True) -> None:  # type: ignore[override]
        await super().get("plotly.min.js", include_body)

    @web.authenticated
    async def head(self) -> None:  # type: ignore[override]
        await super().get("plotly.min.js", include_body=False)

    def set_extra_headers(self, path: str) -> None:
        """Cached for a day by the user's browser, but by no proxy: the address needs a login."""
        self.set_header("Cache-Control", "private, max-age=86400")

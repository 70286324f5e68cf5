"""All addresses of the extension. Law: a table; nothing else decides what answers at an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_server.utils import url_path_join
from tornado.web import RequestHandler

from workbench_ext.server import asking, documents, handlers, owning, queue, readings
from workbench_ext.server.readings import Reading
from workbench_ext.server.stores import Stores
from workbench_ext.server.watching import listed

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

#: One part of an address: an experiment's id, or its name (``digits@2``).
_PART = r"([^/]+)"

#: What answers at each address: a handler, or a reading with which :class:`~workbench_ext.server.handlers.Reads`
#: answers.
ROUTES: tuple[tuple[str, type[RequestHandler] | Reading], ...] = (
    ("api/health", readings.health),
    ("api/stores", handlers.Stores),
    ("api/stores/of", handlers.StoreOf),
    ("api/experiments", listed.Experiments),
    (f"api/experiments/{_PART}", readings.experiment),
    (f"api/experiments/{_PART}/trials", readings.trials),
    (f"api/experiments/{_PART}/points", readings.points),
    (f"api/experiments/{_PART}/metrics", readings.metrics),
    (f"api/experiments/{_PART}/measures", readings.measures),
    (f"api/experiments/{_PART}/curves", readings.curves),
    (f"api/experiments/{_PART}/timeline", readings.timeline),
    (f"api/experiments/{_PART}/importance", readings.importance),
    (f"api/experiments/{_PART}/snapshot", readings.snapshot),
    (f"api/experiments/{_PART}/notebook", readings.notebook),
    (f"api/experiments/{_PART}/trials/{_PART}", readings.page),
    (f"api/experiments/{_PART}/trials/{_PART}/log", readings.log),
    (f"api/experiments/{_PART}/trials/{_PART}/files", readings.files),
    (f"api/experiments/{_PART}/trials/{_PART}/files/(.+)", handlers.File),
    (f"api/experiments/{_PART}/ladder", readings.ladder),
    ("api/cluster", readings.cluster),
    ("api/queue", queue.Queue),
    (f"api/slots/{_PART}", queue.Slot),
    ("api/openapi.json", handlers.OpenAPI),
    ("api/compare", readings.compare),
    ("api/store", readings.disk),
    ("api/ownership", owning.Ownership),
    ("api/documents", documents.Documents),
    ("api/requests", asking.Requests),
    (f"api/requests/{_PART}", asking.Request),
    ("api/.*", handlers.Nothing),
    ("static/plotly.min.js", handlers.Plotly),
)


def _behind(one: type[RequestHandler] | Reading) -> tuple[type[RequestHandler], dict[str, Reading]]:
    return (one, {}) if isinstance(one, type) else (handlers.Reads, {"reading": one})


def add_routes(server_app: ServerApp, stores: Stores) -> None:
    """Answer at ``<base_url>workbench/…`` from ``stores``."""
    web_app = server_app.web_app
    web_app.settings["workbench_stores"] = stores
    prefix = web_app.settings["base_url"]
    rules = [(url_path_join(prefix, "workbench", route), *_behind(one)) for route, one in ROUTES]
    web_app.add_handlers(".*$", rules)  # type: ignore[no-untyped-call]  # jupyter_server gives it no types

"""Every address the extension answers at. Law: a table, and nothing else decides where a handler lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_server.utils import url_path_join

from workbench_ext.server import asking, documents, handlers, owning
from workbench_ext.server.stores import Stores

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

#: One part of an address: an experiment's id, or what a person calls it (``digits@2``).
_PART = r"([^/]+)"

ROUTES = (
    ("api/health", handlers.Health),
    ("api/stores", handlers.Stores),
    ("api/stores/of", handlers.StoreOf),
    ("api/experiments", handlers.Experiments),
    (f"api/experiments/{_PART}", handlers.Experiment),
    (f"api/experiments/{_PART}/trials", handlers.Trials),
    (f"api/experiments/{_PART}/points", handlers.Points),
    (f"api/experiments/{_PART}/metrics", handlers.Metrics),
    (f"api/experiments/{_PART}/curves", handlers.Curves),
    (f"api/experiments/{_PART}/timeline", handlers.Timeline),
    (f"api/experiments/{_PART}/importance", handlers.Importance),
    (f"api/experiments/{_PART}/snapshot", handlers.Snapshot),
    (f"api/experiments/{_PART}/notebook", handlers.Notebook),
    (f"api/experiments/{_PART}/trials/{_PART}", handlers.Trial),
    (f"api/experiments/{_PART}/trials/{_PART}/log", handlers.Log),
    (f"api/experiments/{_PART}/trials/{_PART}/files/(.+)", handlers.File),
    (f"api/experiments/{_PART}/ladder", handlers.Ladder),
    ("api/cluster", handlers.Cluster),
    ("api/openapi.json", handlers.OpenAPI),
    ("api/compare", handlers.Compare),
    ("api/store", handlers.Disk),
    ("api/ownership", owning.Ownership),
    ("api/documents", documents.Documents),
    ("api/requests", asking.Requests),
    (f"api/requests/{_PART}", asking.Request),
    ("api/.*", handlers.Nothing),
    ("static/plotly.min.js", handlers.Plotly),
)


def add_routes(server_app: ServerApp, stores: Stores) -> None:
    """Answer at ``<base_url>workbench/…`` from ``stores``."""
    web_app = server_app.web_app
    web_app.settings["workbench_stores"] = stores
    prefix = web_app.settings["base_url"]
    rules = [(url_path_join(prefix, "workbench", route), handler) for route, handler in ROUTES]
    web_app.add_handlers(".*$", rules)  # type: ignore[no-untyped-call]  # jupyter_server gives it no types

"""Every address the extension answers at. Law: a table, and nothing else decides where a handler lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_server.utils import url_path_join

from workbench_ext.server import handlers

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

#: One part of an address: an experiment's id, or what a person calls it (``digits@2``).
_PART = r"([^/]+)"

ROUTES = (
    ("api/health", handlers.Health),
    ("api/experiments", handlers.Experiments),
    (f"api/experiments/{_PART}", handlers.Experiment),
    (f"api/experiments/{_PART}/trials", handlers.Trials),
    (f"api/experiments/{_PART}/points", handlers.Points),
    ("api/.*", handlers.Nothing),
    ("static/plotly.min.js", handlers.Plotly),
)


def add_routes(server_app: ServerApp) -> None:
    """Answer at ``<base_url>workbench/…`` from the store beside the server's root folder."""
    web_app = server_app.web_app
    web_app.settings.setdefault("workbench_root", server_app.root_dir)
    prefix = web_app.settings["base_url"]
    web_app.add_handlers(".*$", [(url_path_join(prefix, "workbench", route), handler) for route, handler in ROUTES])

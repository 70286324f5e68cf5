"""JupyterLab's face: a server extension, and the panel under ``frontend/``.

Law: reads stores and writes requests; needs no kernel, and loads neither Dask nor torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "workbench-ext"}]


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "workbench_ext"}]


def _load_jupyter_server_extension(server_app: ServerApp) -> None:
    # Imported here: JupyterLab asks for the paths above in processes that serve nothing.
    from workbench_ext.server.routes import add_routes
    from workbench_ext.server.watching.keeper import Workbench

    server_app.web_app.settings["workbench"] = keeper = Workbench(server_app)
    add_routes(server_app, keeper.stores)
    keeper.start()
    server_app.log.info("Workbench's experiments are served under %sworkbench/", server_app.base_url)

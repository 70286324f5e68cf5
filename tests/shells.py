"""A real IPython shell with Workbench's magics, for tests that type cells."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from IPython.core.async_helpers import get_asyncio_loop
from IPython.core.interactiveshell import InteractiveShell
from IPython.testing.globalipapp import start_ipython


@contextlib.contextmanager
def shell() -> Iterator[InteractiveShell]:
    """A new shell without colours; one at a time."""
    InteractiveShell.clear_instance()
    found = start_ipython() or InteractiveShell.instance()
    found.colors = "nocolor"
    found.run_line_magic("load_ext", "workbench")
    try:
        yield found
    finally:
        found.run_line_magic("unload_ext", "workbench")
        get_asyncio_loop().close()

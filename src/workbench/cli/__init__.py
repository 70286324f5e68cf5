"""The command line, and ``%workbench`` in a cell. Law: it reads the store and writes requests; it never trains.

Importing it is fast: it imports neither Dask nor torch nor pandas, and each verb's module only when it is used.
"""

import io
import os
import sys

from workbench.cli.verbs import main
from workbench.interpreter import spare_grammar

__all__ = ["command", "main"]


def command() -> int:
    """:func:`main` in a process of its own."""
    spare_grammar()
    _open_streams()
    return main()


def _open_streams() -> None:
    """Open standard streams that are closed, as some services leave them, and let the output accept every letter."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        # It stays open. Otherwise the next file that is opened, perhaps one of the store, would get what is printed.
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        if getattr(sys, name) is None:  # Python found it closed
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # texts of users have letters that a terminal may lack

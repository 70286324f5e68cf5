"""The command line, and ``%workbench`` in a cell. Law: it reads the store and writes requests; it never trains.

Importing it is fast: it imports neither Dask nor torch nor pandas, and each verb's module only when it is used.
"""

from workbench.cli.verbs import main
from workbench.interpreter import spare_grammar

__all__ = ["command", "main"]


def command() -> int:
    """:func:`main` in a process of its own."""
    spare_grammar()
    return main()

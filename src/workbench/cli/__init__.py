"""The command line, and ``%workbench`` in a cell. Law: it reads the store and writes requests; it never trains.

Importing it is quick: neither Dask nor torch nor pandas is touched, and each verb's module is imported when it is used.
"""

from workbench.cli.verbs import main

__all__ = ["main"]

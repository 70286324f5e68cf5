"""The store: every file that Workbench keeps. Law: each file has one writer, and what is acknowledged is on the disk.

Importing this package needs the standard library only, since runners use it in the training code's own environment;
:mod:`workbench.store.lists.catalog` needs TinyDB.
"""

from workbench.store.layout import ExperimentPaths, Store, TrialPaths, new_id

__all__ = ["ExperimentPaths", "Store", "TrialPaths", "new_id"]

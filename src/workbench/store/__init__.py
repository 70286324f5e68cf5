"""The store: every file that Workbench keeps. Law: each file has one writer, and acknowledged data is on disk.

Importing this package needs only the standard library, since runners use it in the training environment;
:mod:`workbench.store.lists.catalog` needs TinyDB.
"""

from workbench.store.ids import new_id
from workbench.store.layout import ExperimentPaths, Store, TrialPaths

__all__ = ["ExperimentPaths", "Store", "TrialPaths", "new_id"]

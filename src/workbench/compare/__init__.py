"""What differs between two trials or two experiments, and from which step on they part. Law: it reads the store and its
snapshots, loads nothing that was captured, and writes nothing.
"""

from workbench.compare.comparison import compare
from workbench.compare.history import history

__all__ = ["compare", "history"]

"""Experiments for use elsewhere: one file that another store can import, a published folder, plain tables."""

from workbench.share.archive import export, take_in
from workbench.share.publish import publish
from workbench.share.tables import write_table

__all__ = ["export", "publish", "take_in", "write_table"]

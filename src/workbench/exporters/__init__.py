"""Exporters to other programs, each an entry point of ``workbench.exporters``. Law: no other part of Workbench imports
this package, so that it can become a distribution of its own.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.exporter import Exporter, Mirroring
    from workbench.exporters import containerfile, mirrors, model

    _each: tuple[Exporter, Exporter, Mirroring] = (model, containerfile, mirrors)

"""Media that training code logs by step: pictures, sounds, histograms and tables.

Law: each is written when it is logged, under its name and step, with the same bytes if that step is trained again.
"""

from __future__ import annotations

from workbench.trial.media.values import Audio, Histogram, Image, Table

__all__ = ["Audio", "Histogram", "Image", "Table"]

"""The names around a loop that a framework runs: the cell's, those of the functions that called the framework, and the
globals of the experiment's own modules. Law: as in a plain loop they are state; the framework's own frames are not.
"""

from __future__ import annotations

import types

from workbench.trial.course.place import Place
from workbench.trial.course.reads import Frames, Reads
from workbench.trial.discovery import Names, Survey
from workbench.trial.modules import OwnModules, import_late, late_roots, module_roots
from workbench.trial.namespace import frames_around, is_users, roots


class Around:
    """Make it where the framework starts to train."""

    def __init__(self, place: Place, frame: types.FrameType | None) -> None:
        """frame: any in the framework's loop."""
        self.main = place.main
        while frame is not None and frame.f_locals is not place.main and not is_users(frame, place.main):
            frame = frame.f_back
        self._frame = frame
        self._modules = OwnModules(place.main) if place.modules else None
        #: The experiment's own modules, by name.
        self.own = self._modules.look() if self._modules is not None else {}
        self.roots = [*roots(self.main, frames_around(frame, self.main, place.top), place.hidden)]
        self.roots += module_roots(self.own)
        self._reads: Reads | None = None
        self._frames: Frames = {}

    def surveyed(self, base: Survey) -> None:
        """``base`` is what there was when training started."""
        self._reads = Reads(self.main, base)
        self._frames = self._reads.frames_of(self._frame)

    def late(self) -> list[Names]:
        """Modules imported since then, as roots."""
        return late_roots(self._modules.look(), self._labels()) if self._modules is not None else []

    def imported(self, labels: list[str]) -> list[Names]:
        """Import those of these modules that were imported after training started. Raises CannotResume."""
        return import_late(labels, self._labels()) if self._modules is not None else []

    def may_read(self, root: Names, name: str) -> bool:
        """Whether training, or the code after it, may read what a name holds now."""
        assert self._reads is not None
        return root not in self.roots or self._reads.may_read(root, name, self._frames)

    def mentions(self) -> set[str]:
        """Names and attributes that the training code mentions."""
        assert self._reads is not None
        return self._reads.mentions(self._frame)

    def _labels(self) -> set[str]:
        return {root.label for root in self.roots}

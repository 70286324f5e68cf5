"""What the training code reads, by its text and the position of its loop. Law: in doubt a name is read."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from workbench.snapshot.reach import functions_in
from workbench.snapshot.reading.names import global_names
from workbench.trial.classifier import FUNCTION
from workbench.trial.course.liveness import carried_over
from workbench.trial.discovery import Names, Survey

#: The frames of the loop, by the frame that their root names; None for the cell's own namespace.
Frames = Mapping[types.FrameType | None, types.FrameType]


class Reads:
    """What the code with the namespace ``main`` reads. base: the survey when its set-up was done."""

    def __init__(self, main: dict[str, Any], base: Survey) -> None:
        self._main, self._base = main, base
        self._globals: frozenset[str] | None = None
        self._is_whole = True
        self._mentions: dict[types.CodeType | None, set[str]] = {}

    def globals(self) -> frozenset[str]:
        """Names of the cell's namespace read by functions which the set-up found: the cell's, and captured ones."""
        if self._globals is None:
            names = {name for one in self.functions() for name in global_names(one.__code__)}
            # If a function cannot be inspected, every name counts as read.
            self._globals = frozenset(names if self._is_whole else names.union(self._main))
        return self._globals

    def mentions(self, loop: types.FrameType | None) -> set[str]:
        """Names and attributes that the training code mentions, in its functions and around the frame ``loop``."""
        key = loop.f_code if loop is not None else None
        if key not in self._mentions:
            self._mentions[key] = {name for code in self._codes(loop) for name in code.co_names}
        return self._mentions[key]

    def texts(self, loop: types.FrameType | None) -> frozenset[str]:
        """The texts that the training code contains, in its functions and around the frame ``loop``."""
        return frozenset(one for code in self._codes(loop) for one in code.co_consts if isinstance(one, str))

    def _codes(self, loop: types.FrameType | None) -> list[types.CodeType]:
        codes = [one.__code__ for one in self.functions()]
        codes += [frame.f_code for frame in self.frames_of(loop).values()]
        for code in codes:
            codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        return codes

    def frames_of(self, loop: types.FrameType | None) -> Frames:
        """The frames from ``loop`` upwards."""
        frames: dict[types.FrameType | None, types.FrameType] = {}
        frame = loop
        while frame is not None:
            frames[None if frame.f_locals is self._main else frame] = frame
            frame = frame.f_back
        return frames

    def may_read(self, root: Names, name: str, frames: Frames) -> bool:
        """Whether the next turn may read the value that this turn left in ``name``."""
        stands = None if root.is_module else frames.get(root.frame)
        return stands is None or bool(carried_over(stands, [name], self.globals() if root.frame is None else ()))

    def functions(self) -> list[Any]:
        """The functions of the training code."""
        seen: set[int] = set()
        functions: list[Any] = []
        for value in list(self._main.values()):
            try:
                functions += functions_in(value, self._main, seen)
            except Exception:  # a class of another library that raises here
                self._is_whole = False
        # A hook or a callback is found on the object that holds it.
        for entry in self._base.entries.values():
            if entry.how is FUNCTION:
                function = entry.ref()
                if function is not None and function.__globals__ is self._main:
                    functions.append(function)
        return functions

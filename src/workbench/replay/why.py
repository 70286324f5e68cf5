"""Why two trials differ: hybrids of both, which restore one difference after the other.

Law: a hybrid is made of recorded parts of the two trials; nothing is guessed. A note names what cannot be restored, and
the rest is restored anyway.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.compare.bests import chosen, selection
from workbench.compare.comparison import differences
from workbench.compare.section import Section
from workbench.compare.sides import Side
from workbench.errors import BadOption, VersionsDiffer, WorkbenchError
from workbench.records import Json, Program
from workbench.replay.again import Prepared, Recorded, composed, recorded
from workbench.replay.data import Files, is_changed, moved, not_kept
from workbench.replay.place import Place, place
from workbench.replay.variables import again
from workbench.store import Store
from workbench.store.lists.catalog import Reference

#: The order in which differences are restored, and the sections of a comparison that belong to each. Options of the
#: magic line are restored through their effects, and an architecture follows from the code and the configuration.
ORDER: dict[str, tuple[str, ...]] = {
    "data": ("data",),
    "configuration": ("configuration", "settings"),
    "code": ("code",),
    "libraries": ("libraries", "hardware"),
    "environment": ("environment",),
    "seeds": ("seeds",),
}


#: The fields of a training environment that are its variables and settings.
_AROUND = ("env", "secrets", "settings", "threads", "is_whole")


@dataclass(slots=True)
class Step:
    """One difference that is restored: its name, its text, its sections of the comparison, and what could not be
    restored."""

    name: str
    words: str
    sections: list[Section] = field(default_factory=list)
    could_not: list[str] = field(default_factory=list)


class Hybrids:
    """Two trials of one store, and the hybrids between them: ``b`` with more and more parts of ``a``.

    env: ``same`` or ``rebuild``, for the libraries. Raises NotFound, and BadOption if both are the same trial.
    """

    def __init__(self, store: Store, a: str | Reference, b: str | Reference, env: str = "same") -> None:
        self.store, self.env = store, env
        self.a, self.b = recorded(store, a), recorded(store, b)
        if (self.a.spec.id, self.a.trial) == (self.b.spec.id, self.b.trial):
            raise BadOption(f"{self.a.reference} was named twice; expected two trials that differ.")
        if self.a.spec.goal != self.b.spec.goal:
            raise BadOption(
                f"{self.a.reference} has the goal {self.a.spec.goal}, {self.b.reference} {self.b.spec.goal}: there is "
                "no metric to explain. Expected two trials of one goal."
            )
        sides = [Side(store, one.reference) for one in (self.a, self.b)]
        try:
            self._one, self._other = sides[0].captured, sides[1].captured
            self.sections: list[Section] = [one for one in differences(*sides) if one.causes and one.items]
            luck = selection(sides[0], sides[1], chosen(sides[0]), chosen(sides[1]))
        finally:
            for side in sides:
                side.close()
        self._there = place(store, self.b.spec, self.b.snapshot)
        #: The variables and settings of both, as far as they are available here; for ``a`` also what is not.
        self._second, self._first = self._there.training, again(self.a.spec.training, os.environ)
        self._back: list[str] = []
        #: Notes for the user before anything is restored.
        self.notes: tuple[str, ...] = (luck,) if luck else ()

    def steps(self) -> Iterator[Step]:
        """The differences, in the order in which they are restored. No hybrid is made yet."""
        for name, kinds in ORDER.items():
            sections = [section for section in self.sections if section.kind in kinds]
            if sections:
                yield Step(name, " · ".join(section.summary for section in sections), sections)

    def put_back(self, step: Step) -> Prepared:
        """The hybrid in which ``step`` and all earlier steps are restored. Only its snapshot is written; an environment
        is built if ``step`` needs it."""
        getattr(self, f"_{step.name}")(step)
        self._back.append(step.name)
        return self._composed(self._back)

    def again(self) -> Prepared | None:
        """``b`` itself, to be trained again if its environment or its data have changed; else None."""
        if self._there.how == "same" and not is_changed(self.store, _files(self.b)):
            return None
        return self._composed([])

    # -- restoring ----------------------------------------------------------------------------------------------------

    def _data(self, step: Step) -> None:
        wanted, disk = _files(self.a), _files(self.b)
        for item in step.sections[0].items:
            if item.name in self._one or item.name in self._other:
                if item.name not in self._one:
                    step.could_not.append(f"{item.name} did not exist; it stays until the code is restored")
                continue
            self._file(step, item.name, wanted, disk)

    def _file(self, step: Step, name: str, wanted: Files, disk: Files) -> None:
        key = next((path for path in (*wanted, *disk) if path == name or path.endswith(f"/{name}")), None)
        if key is None or key not in wanted:
            step.could_not.append(f"{name} was read by one side only; it changes with the code")
            return
        if is_changed(self.store, {key: wanted[key]}):
            then = str(wanted[key].get("digest"))
            step.could_not.append(f"{not_kept(name, wanted[key])} (digest {then[:12]})")

    def _configuration(self, step: Step) -> None:
        missing = self.a.configuration.keys() - self.b.configuration.keys()
        if missing:
            step.could_not.append(
                f"{', '.join(sorted(missing))}: the other code does not have them; they change with the code"
            )

    def _code(self, step: Step) -> None:
        """From now on the program, captured names and copied modules are those of ``a``."""

    def _libraries(self, step: Step) -> None:
        try:
            self._there = self._place_of_a()
        except WorkbenchError as error:
            step.could_not.append(str(error))
            return
        if self._there.differs:
            advice = "" if self.env == "rebuild" else "; --env rebuild builds the recorded ones"
            step.could_not.append(f"{', '.join(self._there.differs[:6])}{advice}")

    def _environment(self, step: Step) -> None:
        """The variables, settings and threads of ``a``; its secrets as this process has them."""
        step.could_not += self._first[1]

    def _place_of_a(self) -> Place:
        """Where ``a`` can be trained. Building takes minutes, so nothing is built if its libraries are installed
        here."""
        try:
            here = place(self.store, self.a.spec, self.a.snapshot)
        except VersionsDiffer:
            if self.env == "same":
                raise
        else:
            if self.env == "same" or not here.is_buildable:
                return here
        return place(self.store, self.a.spec, self.a.snapshot, self.env)

    def _seeds(self, step: Step) -> None:
        """The seeds of ``a``."""

    # -- the hybrid ---------------------------------------------------------------------------------------------------

    def _composed(self, back: list[str]) -> Prepared:
        has_code = "code" in back
        base = self.a if has_code else self.b
        settings = (self.a if "configuration" in back else self.b).spec
        spec = dataclasses.replace(
            base.spec,
            name=self.a.spec.name,
            program=self.a.spec.program if has_code else self._program(back),
            max_steps=settings.length,
            strategy=settings.strategy,
            deterministic=settings.deterministic,
            slots=settings.slots,
            slots_least=settings.slots_least,
            packs=settings.packs,
        )
        origin = Recorded(
            self.store,
            base.reference,
            spec,
            self._values(back),
            min(self.a.steps, spec.length),
            base.snapshot,
            self._read(base, self.a if "data" in back else self.b),
            (self.a if "configuration" in back else self.b).sizes,
        )
        seeds = self.a.spec.seeds_of(self.a.trial) if "seeds" in back else self.b.spec.seeds_of(self.b.trial)
        around = self._first[0] if "environment" in back else self._second
        training = dataclasses.replace(
            self._there.training,
            cwd=base.spec.training.cwd,
            hash_seed=(self.a if "seeds" in back else self.b).spec.training.hash_seed,
            **{name: getattr(around, name) for name in _AROUND},
        )
        where = dataclasses.replace(self._there, training=training)
        told: dict[str, Json] = {
            "a": str(self.a.reference),
            "b": str(self.b.reference),
            "of": [[one.spec.id, one.trial] for one in (self.a, self.b)],
            "back": [*back],
        }
        return composed(origin, "why", [seeds], where, puts_back=told)

    @staticmethod
    def _read(base: Recorded, side: Recorded) -> dict[str, Mapping[str, Any]]:
        """The files for the hybrid to read, as ``side`` read them; other files as recorded for the trial whose code it
        has."""
        return {**base.seen, **moved(side.seen, side.spec.training.cwd, base.spec.training.cwd)}

    def _values(self, back: list[str]) -> dict[str, Any]:
        if "code" in back:  # configurations were restored before, or were the same
            return self.a.configuration
        if "configuration" not in back:
            return self.b.configuration
        return {name: self.a.configuration.get(name, value) for name, value in self.b.configuration.items()}

    def _program(self, back: list[str]) -> Program:
        """The code of ``b``, with data or values of ``a`` in place of its own."""
        kinds = {kind for kind, name in (("data", "data"), ("value", "configuration")) if name in back}
        names = tuple(
            name
            for name, captured in self._one.items()
            if captured.kind in kinds and name in self._other and self._other[name].digest != captured.digest
        )
        program, capture = self.b.spec.program, self.a.spec.program.capture
        if not names or capture is None:
            return program
        return dataclasses.replace(program, overlays=(*program.overlays, (capture, names)))


def _files(one: Recorded) -> dict[str, Any]:
    """What is known of one side's files, by path; what the trial was seen to read is known best."""
    folder = one.spec.training.cwd
    named = {
        os.path.join(folder, str(file["path"])): file for file in (one.snapshot.get("data") or {}).get("files") or ()
    }
    return {**named, **one.seen}

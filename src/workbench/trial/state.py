"""What a checkpoint contains of a trial's state, and how it is restored.

    tensors.safetensors   torch's changed storages, and the state dicts of the objects found: plain bytes and JSON
    tensors-….bin         a large storage, named by its bytes: linked from the checkpoint before, if it has it
    graph.pkl             header (step, history of reports, shapes), the state of the global random generators, then
                          everything else that changed since the set-up

Law: what the set-up code makes again is not saved; what cannot be restored exactly is refused, never guessed.
"""

from __future__ import annotations

import io
import pickle
import re
import time
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from workbench.errors import CannotResume
from workbench.snapshot.imported import loaded
from workbench.store.keeping.checkpoints import Folder
from workbench.trial import graph, inexact, iterators, torch_kinds
from workbench.trial.checkpoint import reading, tensors
from workbench.trial.checkpoint.captured import Captured, gathered
from workbench.trial.checkpoint.header import Header, opened
from workbench.trial.classifier import ARRAY, Classifier, has_state_dict
from workbench.trial.course.liveness import assigned_first
from workbench.trial.course.made import Made, Making, added, differing
from workbench.trial.course.reads import Frames, Reads
from workbench.trial.discovery import Names, Survey
from workbench.trial.generators import seeds
from workbench.trial.kinds import SCALARS, module_of
from workbench.trial.looking import digests, phases, sets, written
from workbench.trial.looking.collector import uncollected
from workbench.trial.looking.found import Found
from workbench.trial.modules import OwnModules, import_late, late_roots, module_roots
from workbench.trial.namespace import frame_roots, loop_frame, roots

#: From this size in bytes on, a value is left out if every turn assigns it before reading it.
LARGE = 1 << 20
#: If surveying the state takes more seconds, the user is told what makes it slow.
SLOW_S = 0.5
GRAPH_LOST = "it cannot be saved: after a resume no gradient flows back through it"


class State:
    """The state of one leg: surveyed when the set-up code is done, saved and restored relative to that."""

    def __init__(
        self,
        main: dict[str, Any],
        frames: list[types.FrameType],
        *,
        hidden: Iterable[str] = (),
        tracked: Mapping[str, Any] | None = None,
        resumes: str = "",
        modules: bool = False,
        way: int | None = None,
        missed: Mapping[str, str] | None = None,
    ) -> None:
        """modules: the experiment's own modules are state too; in a process that is not a runner they are not. way: of
        looking at objects, that of the checkpoint with which it is compared, if it is. missed: what was lost before."""
        self._main = main
        #: Names that are saved even if unchanged, because the set-up does not make them again.
        self.kept: list[str] = []
        #: Names of plain values that are saved as well, because it is not known whether the set-up makes them again.
        self.plain: list[str] = []
        #: Whether its checkpoints are compared with those of another trial.
        self.compares = False
        #: The experiment's own modules, if they are state.
        self._own = OwnModules(main) if modules else None
        own = self._own.first() if self._own is not None else {}
        digests.look(digests.NEWEST if way is None else way)
        #: Settings and variables; like modules, they are a runner's only.
        self._phases = phases.Phases() if modules else None
        self._classifier = Classifier(main, own)
        #: How exactly the trial resumes, in words.
        self.resumes = resumes
        self._roots = roots(main, frames, hidden)
        if tracked:
            self._roots.append(_tracked(tracked))
        self._roots += module_roots(own)
        torch_kinds.wait_for_gpus()
        begun = time.perf_counter()
        self._base = Survey(self._classifier, self._roots)
        self._making = Making(self._base)
        #: What made surveying the state slow, if it was: a name, and the number of Python objects that it reaches.
        self.heavy: tuple[str, int] | None = None
        #: Seconds that the survey took: most of the time that training waits for a checkpoint.
        self.survey_s = time.perf_counter() - begun
        self._reads = Reads(main, self._base)
        #: The code around the loop, innermost first. It stays known when the loop is over: a trial may become longer.
        self._loop: list[types.CodeType] = []
        self._before = inexact.before(self._base)
        #: What this leg, or one before it, lost by resuming: reasons by name.
        self.lost: dict[str, str] = dict(missed or {})
        self._missed = missed or {}
        self._shapes = _shapes(self.objects())
        #: The options that the set-up gave each optimizer, by its path: a mapping for each of its groups.
        self.options = self._options()
        #: The contents of the state, as of the last survey.
        self.found = self._found(self._base, [])

    def settle(self) -> None:
        """The state is restored, or need not be: release what only the set-up needed."""
        self._base.release()

    @property
    def base(self) -> Survey:
        """The survey of what the set-up made."""
        return self._base

    @property
    def roots(self) -> list[Names]:
        """The roots of the state: the cell's names, and the locals of the functions around the loop."""
        return self._roots

    def capture(
        self,
        header: Header,
        frame: types.FrameType | None = None,
        frames: Sequence[types.FrameType] = (),
        *,
        aside: bool = False,
    ) -> Captured:
        """Capture the current state.

        frame: where the loop waits for its next turn. Large values that every turn assigns again are left out.
        frames: functions that the loop has called, whose locals are state as well.
        ``aside``: copy what training changes, because training continues while the checkpoint is written.
        """
        torch_kinds.wait_for_gpus()
        with uncollected():
            return self._capture(header, frame, frames, aside=aside)

    def _capture(
        self, header: Header, frame: types.FrameType | None, frames: Sequence[types.FrameType], *, aside: bool
    ) -> Captured:
        begun = time.perf_counter()
        below = frame_roots(frames, self._roots)
        if header.inside is not None:
            header.inside["below"] = [root.label for root in below]
        loop = loop_frame(frame, self._main)
        skipped = self._skip(loop, [*self._roots, *below])
        late = self._late()
        survey = Survey(self._classifier, [*self._roots, *late, *below], self._base)
        header.shapes, header.options, header.way = self._shapes, self.options, digests.way()
        whole = self.compares or bool(self.plain)
        header.made = self._making.of(survey, self.plain, whole=whole).to_plain()
        stream, lasting = io.BytesIO(), _with_workers(survey)
        plain, others = header.parts()
        plain["random"] = pickle.dumps(seeds.state(), graph.PICKLE_PROTOCOL)
        changed, unsaved = self._phases.changed(partial(self._reads.texts, loop)) if self._phases else ({}, [])
        plain |= changed
        plain["handles"] = torch_kinds.handles()
        plain["modules"] = [root.label for root in survey.roots if root.is_module]
        others["workers"] = [
            (self._base.path(number), type(one).__name__, iterators.workers_of(one)) for number, one in lasting
        ]
        pickler = graph.write_graph(stream, survey, others, plain)
        around = self._reads.frames_of(loop)  # once: Python makes a dictionary of each frame's locals for it
        reads = partial(self._may_read, frames=around)
        survey.unsaved_names += [*unsaved, *self._graphs(survey, around)]
        survey.unsaved_names += self._orders(survey, pickler.sets, loop, around)
        self.lost |= dict.fromkeys(iterators.different, iterators.DIFFERENT)
        missed = inexact.lost(survey, self._before, reads, partial(self._reads.mentions, loop), lasting)
        # Last, because only writing the rest shows what does not pickle.
        pickle.dump({**self.lost, **dict(missed)}, stream)
        survey.unsaved_names += skipped
        self.found = self._found(
            survey, [root.named(name) for root in survey.roots for name in survey.changed_names(root)[0]]
        )
        if self.heavy is None and time.perf_counter() - begun > SLOW_S:
            self.heavy = survey.heaviest()
        captured = Captured(stream.getbuffer(), *gathered(pickler.new_storages, self.objects()), self.found)
        if aside:
            captured.storages = {key: tensors.copied(storage) for key, storage in captured.storages.items()}
        self._base.forget(survey)
        return captured

    def restore(self, folder: Folder, frames: Sequence[types.FrameType] | None = None) -> Header:
        """Restore the checkpoint in ``folder`` into what the set-up code made. Raises CannotResume.

        frames: functions that the loop has called, for a checkpoint inside a turn; None if none is called yet.
        """
        with opened(folder) as file:
            saved = reading.read_header(file)
            header = Header.of(saved)
            self._check_shapes(header)
            storages = tensors.storages_in(folder)
            objects = {self._base.path(number): obj for number, obj in self._base.objects.items()}
            if frames is None:
                for path, cls, *where in saved.get("workers", ()):
                    loader = reading.found(objects, path, cls)
                    if loader._iterator is None:
                        # It draws a seed for its workers, as an uninterrupted trial did long ago: draw it now,
                        # before all generators and samplers are restored.
                        iter(loader)
                    if where and where[0] is not None:
                        iterators.put_workers(loader, where[0])
            for path, key in saved["storages"]:
                storage = reading.found(objects, path, "UntypedStorage")
                self._classifier.storages.put(storage, storages[key])
                self._hold_changed(storage)
            file.seek(0)
            graph.make_in(self._main)
            try:
                later = (header.inside or {}).get("below", []) if frames is None else []
                every = [*self._roots, *frame_roots(frames or (), self._roots)]
                modules = saved.get("modules", ())
                if self._own is not None:
                    every += import_late(modules, {root.label for root in every})
                applied = reading.apply_graph(
                    file, self._classifier, every, objects, tensors.Placed(storages), frozenset(later), tuple(modules)
                )
                for obj, _, _ in applied:
                    if self._classifier.how(obj) is ARRAY:
                        self._hold_changed(obj)
                self.lost = reading.read_lost(file) | dict(self._missed) | written.lacking()
                self.found.inexact = _named(self.lost)
            finally:
                graph.make_in(None)
        torch_kinds.wait_for_gpus()
        if self._phases is not None and (header.inside is None or frames is not None):
            # Before the turn comes there, settings that a ``with`` block in it makes do not hold yet.
            phases.put(saved, self._phases.folder)
        torch_kinds.put_handles(saved.get("handles", 0))
        seeds.put(pickle.loads(saved["random"]))
        reading.wake(applied)
        return header

    def differs(self, but: Any = None) -> frozenset[int | tuple[str, str]]:
        """The objects, by number, and the names, each with its root, that differ now from what the set-up made.

        What no checkpoint can hold does not count. but: without this one, and what it was the first to refer to.
        """
        torch_kinds.wait_for_gpus()
        with uncollected():
            survey = Survey(self._classifier, [*self._roots, *self._late()], self._base)

        def is_below(number: int, other: int) -> bool:
            while number > 0 and number != other:
                number = survey.entries[number].parent
            return number > 0

        names = {
            (root.label, name)
            for root in survey.roots
            for name in survey.changed_names(root)[0]
            if but is None or not (root.values()[name] is but or survey.is_left(root.values()[name]))
        }
        without = survey.numbers.get(id(but), 0)
        return frozenset({*names, *(one for one in (*survey.changed, *survey.replaced) if not is_below(one, without))})

    def called(self, differing: Iterable[int | tuple[str, str]]) -> list[str]:
        """What :meth:`differs` found, as a user would write it."""
        return sorted(self._base.path(one) if isinstance(one, int) else "".join(one) for one in differing)

    def given_anew(self, frame: types.FrameType | None) -> list[str]:
        """Names that the next turn of the loop, which waits in ``frame``, assigns before it reads them."""
        loop = loop_frame(frame, self._main)
        frames = self._reads.frames_of(loop)
        if loop is None:
            return []
        return [
            f"{root.label}{name}"
            for root in self._roots
            for name in root.values()
            if not self._reads.may_read(root, name, frames)
        ]

    def differing(self, header: Header) -> list[str]:
        """Names for which this set-up made something else than the trial's first one. Deletes names that it added.

        Call it after the checkpoint of ``header`` was restored: its contents and what is gone do not count.
        """
        if header.made is None:
            return []
        before = Made.from_plain(header.made)
        if not differing(before, self._base):
            return []
        kept = set()
        for root, name in added(before, self._base):
            if name in root.restored:  # the set-up of the leg before did without it, and its checkpoint has it
                kept.add(f"{root.label}{name}")
            else:
                root.set({}, [name])
        found = differing(before, self._base, Survey(self._classifier, self._roots, self._base))
        return [name for name in found if name not in kept]

    def _late(self) -> list[Names]:
        """Modules imported since the set-up, as roots."""
        if self._own is None:
            return []
        return late_roots(self._own.look(), {root.label for root in self._roots})

    def _hold_changed(self, buffer: Any) -> None:
        """Save restored objects from now on: no survey reads all bytes of a large buffer."""
        number = self._base.numbers.get(id(buffer))
        if number is not None:
            self._base.entries[number].signature = b""

    def made(self, kind: type) -> list[tuple[str, Any]]:
        """The objects of a class that the set-up made, each with its path."""
        base = self._base
        # By type: an object's own ``isinstance`` hook may raise.
        return [(base.path(number), one) for number, one in base.objects.items() if issubclass(type(one), kind)]

    def _options(self) -> dict[str, list[dict[str, Any]]]:
        torch = loaded("torch")
        if torch is None:
            return {}
        return {
            path: [
                {key: value for key, value in group.items() if key != "params" and _is_plain(value)}
                for group in one.param_groups
            ]
            for path, one in self.made(torch.optim.Optimizer)
        }

    def other(self, configuration: Mapping[str, Any]) -> list[tuple[Names, dict[str, Any]]]:
        """Names of a configuration whose plain values have changed, by the namespace that has them."""
        found = []
        for root in self._roots:
            if root.is_module:
                continue
            values = root.values()
            names = {
                name: values[name]
                for name, value in configuration.items()
                if name in values and type(values[name]) in SCALARS and values[name] != value
            }
            if names:
                found.append((root, names))
        return found

    def names(self) -> dict[str, Any]:
        """The values of the training code's names; those of its functions hide the namespace's."""
        return {
            name: value
            for root in self._roots
            if root.label != "tracked:" and not root.is_module
            for name, value in root.values().items()
        }

    def _skip(self, frame: types.FrameType | None, roots: list[Names]) -> list[tuple[str, str]]:
        """Have the roots skip large values that the next turn assigns before it reads them."""
        skipped: list[tuple[str, str]] = []
        for root in roots:
            root.skipped = set()
            if frame is None or root.is_module or root.frame is not (None if frame.f_locals is self._main else frame):
                continue
            sizes = {name: _size(value) for name, value in root.values().items()}
            large = [name for name, size in sizes.items() if size > LARGE]
            if large:
                root.skipped = assigned_first(frame, large, self._reads.globals() if root.frame is None else ())
                skipped += [
                    (name, f"{sizes[name] / 1e6:.0f} MB that every turn assigns again") for name in sorted(root.skipped)
                ]
        return skipped

    def _graphs(self, survey: Survey, frames: Frames) -> list[tuple[str, str]]:
        """Tensors that the next turn may read with their graph: path and reason. frames: of the loop and around it."""
        return [
            (f"the graph of {_listed(path)}", GRAPH_LOST)
            for path, root, name in (survey.graphs() if frames else ())
            if self._reads.may_read(root, name, frames)
        ]

    def _orders(
        self, survey: Survey, pickled: Iterable[Any], loop: types.FrameType | None, frames: Frames
    ) -> Iterator[tuple[str, str]]:
        """Sets that the next turn may read in another order: name and reason."""
        if loop is not None and loop.f_code not in self._loop[:1]:
            held = {None if root.is_module else root.frame for root in survey.roots}
            self._loop = [frame.f_code for key, frame in frames.items() if key in held]
        owners, reads = inexact.Owners(survey), partial(self._may_read, frames=frames)
        for number in sets.reordered(survey, pickled, self._reads.functions, self._loop):
            if owners.read(number, reads)[0]:
                yield f"the order of {_listed(survey.path(number))}", sets.LOST

    def _may_read(self, root: Names, name: str, frames: Frames) -> bool:
        """Whether the next turn, or the code after the loop, may read the value that this turn left in ``name``."""
        after = None if root.is_module else frames.get(root.frame)
        return self._reads.may_read(root, name, frames) or inexact.read_afterwards(after, name)

    # -- parts -------------------------------------------------------------------------------------------------------

    def objects(self) -> dict[str, Any]:
        """Objects with a state of their own (modules, optimizers, schedulers, loaders), by name."""
        return {
            root.named(name): value
            for root in self._roots
            for name, value in root.values().items()
            if has_state_dict(value)
        }

    def _found(self, survey: Survey, names: list[str]) -> Found:
        for number in survey.changed:
            name = survey.name(number)
            if name not in names:
                names.append(name)
        objects = list(self.objects())
        left: dict[str, str] = {}
        for number, reason in survey.unsaved:
            if not inexact.is_own_iterator(survey, number):
                left.setdefault(_listed(survey.path(number)), reason)
        for key, reason in survey.left.items():
            if reason and not inexact.is_own_iterator(survey, survey.numbers[key]):
                left.setdefault(_listed(survey.path(survey.numbers[key])), reason)
        left.update(survey.unsaved_names)
        skipped = {path for path in left if path in names}
        return Found(
            objects,
            [name for name in names if name not in skipped and name not in objects],
            [{"name": name, "reason": reason} for name, reason in left.items()],
            self.resumes,
            self.kept,
            _named(self.lost),
        )

    def _check_shapes(self, header: Header) -> None:
        for path, shape in header.shapes.items():
            made = self._shapes.get(path)
            if made is not None and made != tuple(shape):
                raise CannotResume(
                    f"the set-up code made {path} with shape {made}; the checkpoint at step {header.step} was taken "
                    f"with shape {tuple(shape)}. Set-up must make the same shapes each time: does it read a file that "
                    "changed?"
                )


def _with_workers(survey: Survey) -> list[tuple[int, Any]]:
    """The set-up's loaders with persistent workers that have started, with their numbers."""
    data = loaded("torch.utils.data")
    if data is None:
        return []
    size = (survey.base or survey).size
    return [
        (number, one)
        for number, one in survey.objects.items()
        if number < size
        and issubclass(type(one), data.DataLoader)
        and one.persistent_workers
        and getattr(one, "_iterator", None) is not None
    ]


def _named(lost: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "reason": reason} for name, reason in lost.items()]


def _is_plain(value: Any) -> bool:
    return type(value) in SCALARS or (type(value) is tuple and all(type(part) in SCALARS for part in value))


def _listed(path: str) -> str:
    """The path as the trial's page lists it: all items of a list become one line."""
    return re.sub(r"\[\d+\]", "[…]", path)


def _size(value: Any) -> int:
    """Bytes of a tensor or array, and of those in a list, tuple or dict."""
    if type(value) in (list, tuple, dict):  # a subclass may iterate in its own way
        parts = value.values() if type(value) is dict else value
        return sum(_bytes(part) for part in parts) if len(parts) <= 64 else 0
    return _bytes(value)


def _bytes(value: Any) -> int:
    if module_of(type(value)).partition(".")[0] not in ("torch", "numpy"):
        return 0
    try:
        size = getattr(value, "nbytes", 0)
    except RuntimeError:  # a sparse tensor does not have it
        return 0
    return size if isinstance(size, int) else 0


def _shapes(objects: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    torch = loaded("torch")
    shapes: dict[str, tuple[int, ...]] = {}
    if torch is None:
        return shapes
    for name, value in objects.items():
        if isinstance(value, torch.nn.Module):
            for key, part in (*value.named_parameters(), *value.named_buffers()):
                if torch_kinds.is_tensor_class(type(part)) and torch_kinds.is_strided(part):
                    shapes[f"{name}.{key}"] = tuple(part.shape)
    return shapes


def _tracked(tracked: Mapping[str, Any]) -> Any:
    def put(changed: dict[str, Any], gone: list[str]) -> None:
        """Restore tracked objects in place; their names are the trial's, not the cell's."""

    return Names("tracked:", lambda: dict(tracked), put)

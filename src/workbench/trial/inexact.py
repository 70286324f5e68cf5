"""What a leg that resumes from a checkpoint loses. Law: only what moved since the set-up and the next turn reads again.

State that cannot be saved is often no loss: a generator that each turn makes again, one that the loop never touched,
a file that is only written. Running threads and processes of the training code are named in any case,
since what they do is not seen. Losses are stored with the checkpoint, and reported by each leg that resumes from it.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from workbench.snapshot.imported import loaded
from workbench.trial import bars
from workbench.trial.classifier import (
    BIT_GENERATOR,
    EVENT_LOOP,
    FILE,
    GENERATOR,
    NUMPY_RANDOM,
    OPAQUE,
    PYTHON_RANDOM,
    TORCH_GENERATOR,
    Classifier,
)
from workbench.trial.classifier import lost as loses
from workbench.trial.course import boosters, liveness
from workbench.trial.discovery import Names, Survey
from workbench.trial.generators import kept
from workbench.trial.looking import databases, of_process
from workbench.trial.looking.of_process import OfProcess
from workbench.trial.looking.standard import Added, OwnRandom
from workbench.trial.streams import keeps_something

#: A name, and why its value is not restored.
Lost = tuple[str, str]
#: ``reads(root, name)``: whether the next turn may read the value that this turn left in the name.
Reads = Callable[[Names, str], bool]

IN_WORKERS = "its data set draws from generators of its own in workers that outlive a pass: they restart"
KEPT_IN_WORKERS = (
    "its data set keeps a position or a count in workers that outlive a pass: they restart; "
    "without persistent_workers each pass starts them with what training has"
)
CHANGED_FOR_WORKERS = (
    "its data set has changed since the set-up, and workers that outlive a pass restart with the set-up's"
)
STARTED = "the loop made it, and its workers outlive a pass: they start again, and draw another seed"
BY_TIME = "a bar around an iterable brings its count up to date from time to time only"
OF_THE_LOOP = "a bar that the loop has made cannot be saved"
ADDED = "its class adds attributes to one that cannot be saved: make it before the loop"
SHARES = (
    "it shares memory with another array, and an array of its class is saved as a copy: after a resume what is written "
    "into one is not in the other"
)
COMPRESSED = (
    "a compressed file that is written over several steps cannot be continued: after a resume it lacks what earlier "
    "steps wrote, or cannot be read; write a plain file, or open it in each step"
)
OF_THREAD = "a thread of the training code runs beside the loop, and threads cannot be saved: it starts again"
OF_TASKS = "tasks of asyncio wait in it beside the loop, and tasks cannot be saved: they start again, or are gone"
OF_PROCESS = "a process that runs beside the loop keeps what it has, and processes cannot be saved: it starts again"

#: Classes of files that compress, by their modules.
_COMPRESSING = {"gzip": "GzipFile", "bz2": "BZ2File", "lzma": "LZMAFile"}
_RANDOM = (PYTHON_RANDOM, NUMPY_RANDOM, BIT_GENERATOR, TORCH_GENERATOR)


@dataclass(frozen=True, slots=True)
class Before:
    """What there was when the set-up was done."""

    #: The position of each iterator and each bar, by its number.
    places: dict[int, Any]
    process: OfProcess
    #: The generators that packages had made by then, when they first needed them.
    kept: frozenset[str]


def before(survey: Survey) -> Before:
    """What there is when the set-up, which made ``survey``, is done."""
    places = {
        number: _place(survey.objects[number])
        for number, one in survey.entries.items()
        if one.how is GENERATOR or isinstance(one.how, bars.Bar)
    }
    return Before(places, OfProcess.now(), kept.late())


def lost(
    survey: Survey,
    before: Before,
    reads: Reads,
    mentioned: Callable[[], set[str]],
    lasting: list[tuple[int, Any]],
) -> list[Lost]:
    """What a checkpoint of this moment lacks and the next turn needs, each with its reason.

    before: what there was when the set-up was done. mentioned: the names and attributes in the training code.
    lasting: loaders with persistent workers, with their numbers.
    """
    found: dict[str, str] = {}
    owners = Owners(survey)

    def add(number: int, reason: str) -> None:
        root, name = owners.read(number, reads)
        if root:
            found.setdefault(root.named(name), reason)

    for number, reason in survey.unsaved:
        if _has_moved(survey, number, before.places):
            add(number, _why(survey, number, reason))
    for key, reason in survey.left.items():
        number = survey.numbers[key]
        how = survey.entries[number].how
        if isinstance(how, bars.Bar) and bars.COUNTS & mentioned():
            add(number, OF_THE_LOOP)
        elif isinstance(how, Added):
            add(number, ADDED)
        elif how is GENERATOR and not is_own_iterator(survey, number):
            add(number, reason)
        elif how is GENERATOR and survey.entries[number].parent >= survey.size:
            add(number, STARTED)
        elif (how is OPAQUE and loses(survey.objects[number], Exception())) or (
            how is FILE and _is_lost(survey, number)
        ):
            # Of a name, or in an object of the set-up, it goes back to what the set-up made.
            add(number, _why(survey, number, reason))
    for number in survey.pickled():
        if _shares_memory(survey, number):
            add(number, SHARES)
    for number in before.places:
        obj = survey.objects.get(number)
        if bars.is_bar(obj) and bars.counts_by_time(obj) and bars.COUNTS & mentioned():
            add(number, BY_TIME)
    for booster, reason in boosters.drawing():
        if id(booster) in survey.numbers:
            add(survey.numbers[id(booster)], reason)
    for number in _with_own_generators(survey, lasting):
        add(number, IN_WORKERS)
    for number, one in lasting:
        if keeps_something(one.dataset):
            add(number, KEPT_IN_WORKERS)
        elif _has_changed(survey, survey.numbers.get(id(one.dataset))):
            add(number, CHANGED_FOR_WORKERS)
    for thread in _threads_beside(survey.classifier):
        place = survey.numbers.get(id(thread))
        found.setdefault(thread.name if place is None else survey.name(place), OF_THREAD)
    for process in _processes_beside(survey):
        found.setdefault(survey.name(survey.numbers[id(process)]), OF_PROCESS)
    for number in _with_tasks(survey):
        found.setdefault(survey.name(number), OF_TASKS)
    for label in sorted(kept.late() - before.kept):
        found.setdefault(label, kept.LATE)
    for label, one, is_alike in kept.replaced():
        if not is_alike or id(one) in survey.numbers:  # a name of training's leads to the same one
            found.setdefault(label, kept.REPLACED)
    for name, reason in (*survey.unsaved_names, *_of_process(survey, owners, before.process, reads)):
        found.setdefault(name, reason)
    return list(found.items())


def _shares_memory(survey: Survey, number: int) -> bool:
    """Whether an array of a subclass of NumPy's, which is saved as a copy, lies in the memory of another object."""
    numpy = loaded("numpy")
    obj = survey.objects[number]
    if numpy is None or not isinstance(obj, numpy.ndarray) or id(obj.base) not in survey.numbers:
        return False
    return number >= survey.size or number in survey.replaced or number in survey.changed


def _of_process(survey: Survey, owners: Owners, before: OfProcess, reads: Reads) -> Iterator[Lost]:
    for log in of_process.logs(before):
        yield log, of_process.LOG
    for path, obj in of_process.folders():
        number = survey.numbers.get(id(obj))
        places = [
            (root, name)
            for root in survey.roots
            for name, value in root.values().items()
            if type(value) is str and value == path
        ]
        if number is not None:
            places += owners.of(number)
        names = [root.named(name) for root, name in places if reads(root, name)]
        # Last, because it looks at each file in there.
        if names and of_process.is_written(before, path):
            yield from ((name, of_process.FOLDER) for name in names)
    if of_process.keeps_converted():
        yield "torch.autocast", of_process.AUTOCAST


class Owners:
    """The names that lead to the objects of a survey. Names of what is passed on are many: the set-up's, those of the
    functions that take it, of the object that keeps it. The loop may read any one of them."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._again: dict[int, list[tuple[int, str]]] | None = None

    def read(self, number: int, reads: Reads) -> tuple[Names, str] | tuple[None, str]:
        """The first of them that the next turn may read."""
        return next((one for one in self.of(number) if reads(*one)), (None, ""))

    def of(self, number: int) -> Iterator[tuple[Names, str]]:
        """The roots and the names in them that lead to the object, the one that did first before the others."""
        roots, first = self._survey.roots, self._first(number)
        found, seen, waiting = {first}, {number}, [number]
        yield roots[-1 - first[0]], first[1]
        for one in waiting:
            for above, name in self._ways(one):
                if above >= 0 and above not in seen:
                    seen.add(above)
                    waiting.append(above)
                elif above < 0 and (above, name) not in found:
                    found.add((above, name))
                    yield roots[-1 - above], name

    def _first(self, number: int) -> tuple[int, str]:
        entry = self._survey.led_to(number)
        return entry.parent, self._survey.named.get(entry.number, "")

    def _ways(self, number: int) -> Iterator[tuple[int, str]]:
        if self._again is None:  # most objects that matter are read by the name that leads to them first
            self._again = {}
            for below, above, name in self._survey.again:
                self._again.setdefault(below, []).append((above, name))
        yield self._survey.entries[number].parent, self._survey.named.get(number, "")
        yield from self._again.get(number, ())


def read_afterwards(frame: types.FrameType | None, name: str) -> bool:
    """Whether code after the loop of ``frame`` may read the value that this turn left in ``name``."""
    if frame is None:
        return False
    return liveness.read_without_assigning(frame.f_code, name, liveness.instruction_of(frame))


def _place(obj: Any) -> Any:
    """A value that shows whether an iterator has moved; None if there is none."""
    if isinstance(obj, types.GeneratorType):
        state = inspect.getgeneratorstate(obj)
        return state if state in (inspect.GEN_CREATED, inspect.GEN_CLOSED) else None
    return getattr(obj, "_num_yielded", None)


def _has_moved(survey: Survey, number: int, before: dict[int, Any]) -> bool:
    how, obj = survey.entries[number].how, survey.objects[number]
    if how is GENERATOR:
        place = _place(obj)
        known = number in before and before[number] is not None and before[number] == place
        return not known and not is_own_iterator(survey, number)
    return how is not FILE or _is_lost(survey, number)


def _is_lost(survey: Survey, number: int) -> bool:
    """Whether a resume loses something of an open file or connection. Writing continues where a file is opened again;
    reading restarts."""
    obj = survey.objects[number]
    sqlite3 = loaded("sqlite3")
    if sqlite3 is not None and isinstance(obj, sqlite3.Connection):
        try:
            # What its file does not have yet; without a file, or in a container, which loses it, all of it.
            in_container = number >= survey.size and survey.entries[number].parent >= 0
            return bool(obj.in_transaction) or in_container or not databases.has_file(obj)
        except sqlite3.ProgrammingError:  # it is closed
            return False
    return hasattr(obj, "readable") and not obj.closed and (obj.readable() or _is_compressed(obj))


def _is_compressed(obj: Any) -> bool:
    """Whether a file is open that compresses what is written into it: its end depends on all that came before."""
    inner = getattr(obj, "buffer", obj)
    inner = getattr(inner, "raw", inner)
    modules = [(loaded(name), cls) for name, cls in _COMPRESSING.items()]
    compresses = any(module is not None and isinstance(inner, getattr(module, cls)) for module, cls in modules)
    return compresses and not inner.closed and inner.writable()


def _why(survey: Survey, number: int, reason: str) -> str:
    is_file = survey.entries[number].how is FILE
    return COMPRESSED if is_file and _is_compressed(survey.objects[number]) else reason


def is_own_iterator(survey: Survey, number: int) -> bool:
    """True for the iterator inside a loader with persistent workers: it restarts with each pass."""
    holder = survey.objects.get(survey.entries[number].parent)
    return holder is not None and getattr(holder, "_iterator", None) is survey.objects[number]


def _threads_beside(classifier: Classifier) -> list[threading.Thread]:
    """Running threads of functions that are the training code's: what these do meanwhile is in no checkpoint."""
    others = [one for one in threading.enumerate() if one is not threading.current_thread()]
    return [one for one in others if classifier.is_own(inspect.unwrap(_function_of(one)))]


def _processes_beside(survey: Survey) -> list[Any]:
    """Running processes of ``multiprocessing`` that names of the training code lead to: servers, environments of
    reinforcement learning, managers. Those of pools and loaders, which work on what they are sent, do not count."""
    multiprocessing = loaded("multiprocessing")
    if multiprocessing is None:
        return []
    return [one for one in multiprocessing.active_children() if id(one) in survey.numbers]


def _with_tasks(survey: Survey) -> Iterator[int]:
    """Event loops in which tasks are not done yet, besides the one in which the training code itself runs."""
    asyncio = loaded("asyncio")
    for number, entry in survey.entries.items() if asyncio is not None else ():
        if entry.how is EVENT_LOOP:
            one = survey.objects[number]
            # Not by `get_loop`, which makes one where there is none yet.
            one = getattr(one, "_loop", None) if isinstance(one, asyncio.Runner) else one
            if one is not None and asyncio.all_tasks(one) - {asyncio.current_task(one)}:
                yield number


def _function_of(thread: threading.Thread) -> Any:
    target: Any = thread.function if isinstance(thread, threading.Timer) else getattr(thread, "_target", None)
    target = target or type(thread).run
    while isinstance(target, functools.partial):
        target = target.func
    target = getattr(target, "__func__", target)
    return target if isinstance(target, types.FunctionType) else vars(type(target)).get("__call__")


def _has_changed(survey: Survey, number: int | None) -> bool:
    """Whether the object, or one below it, has changed since the set-up. The bytes of tensors do not count: workers see
    those that are shared."""
    for below in survey.changed if number is not None else ():
        above = -1 if survey.entries[below].how is survey.classifier.storages else below
        while above >= 0:
            if above == number:
                return True
            above = survey.entries[above].parent
    return False


def _with_own_generators(survey: Survey, lasting: list[tuple[int, Any]]) -> list[int]:
    """Loaders whose dataset holds random generators: each persistent worker has copies of those."""
    datasets = {survey.numbers.get(id(one.dataset)): number for number, one in lasting}
    if not datasets:
        return []
    found: dict[int, None] = {}
    for number, entry in survey.entries.items():
        if entry.how in _RANDOM or isinstance(entry.how, OwnRandom):
            above = number
            while above >= 0:
                if above in datasets:
                    found[datasets[above]] = None
                above = survey.entries[above].parent
    return list(found)

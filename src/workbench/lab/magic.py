"""``%%train`` and ``%workbench``. Law: the kernel stays free; the cell's text is launched, never run in the kernel."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import dataclasses
import itertools
import re
from collections.abc import Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand

from workbench.errors import BadInput, WorkbenchError
from workbench.experiment import executed, grammar
from workbench.experiment.notebook import name_of, origin
from workbench.lab import expanding, hidden
from workbench.live.show import Shown, face, follow, say, show_result
from workbench.snapshot.settings.settings import taken
from workbench.status.waiting import interrupted

if TYPE_CHECKING:
    from workbench.compare.same import Standing
    from workbench.experiment import Experiment
    from workbench.store import Store

_MAGIC = re.compile(r"%%train(?:[ \t]+(?P<line>.*?))?[ \t]*\n?", re.DOTALL)
_HELP = f"""Search over this cell's hyperparameters, live.

    %%train NAME --goal max METRIC --steps FIRST-LAST [options]
    lr = loguniform(1e-4, 1)            # a top-level distribution is a hyperparameter:
    hidden = choice(32, 64, 128)        # uniform, loguniform, randint, quniform, choice
    ...                                 # ordinary training code
    for epoch in trial.steps():         # knows where to start, end and save
        ...
        trial.report(val_acc=accuracy)  # the goal's metric, once a step

The cell returns at once with a live view; the kernel stays free. Its value is the experiment, also wb.last().
Running the same cell again shows the same experiment; a changed cell is its next version. Without NAME it is called
as the notebook. Options may stand in leading comments too: #| goal: max val_acc

{grammar.help_text()}

Afterwards: exp = wb.last(); exp.best; exp.trials; exp.best.load().model; exp.stop(). Names from other cells are sent
along as they were at Shift-Enter; `%workbench --help` shows the command line.
"""


@magics_class
class WorkbenchMagics(Magics):
    """The magics. If the kernel has an event loop, ``%%train`` is awaited instead (see :func:`awaited`)."""

    @no_var_expand
    @cell_magic
    def train(self, line: str, cell: str) -> None:
        # Called as a function, inside another magic, or with autoawait off: there is no loop to wait on.
        with taken():  # it may be launched from a separate thread
            _run(self.awaiting(line, cell))

    async def awaiting(self, line: str, cell: str) -> None:
        """The train cell, awaited: launch, show, and with ``--wait`` wait without blocking the kernel's loop."""
        if {"--help", "-h"}.intersection(itertools.takewhile(lambda word: word != "--", line.split())):
            print(_HELP)  # noqa: T201 - it was asked for
            return
        experiment: Experiment | None = None
        try:
            prepared = _prepared(self.shell, line, cell)
            if prepared is None:
                return
            experiment, options, found = prepared
            await _shown(self.shell, experiment, options, found)
        except WorkbenchError as error:
            raise _calm(error, line, cell) from None
        except (asyncio.CancelledError, KeyboardInterrupt):
            if experiment is None:
                raise
            raise interrupted(experiment.label) from None

    train.__doc__ = _HELP

    @line_magic
    def workbench(self, line: str) -> None:
        """The command line in a cell: ``%workbench ls``, ``%workbench show digits``; ``--help`` lists all."""
        import shlex

        from workbench.cli import main

        code = main(shlex.split(line))
        if code:
            raise _calm(BadInput(f"%workbench {line} ended with code {code}."), "", "")


# ---------------------------------------------------------------------------------------------------------------------
# The cell as an await, so that waiting never holds the kernel's loop


def awaited(lines: list[str]) -> list[str]:
    """IPython's input transformer: a train cell becomes one ``await``."""
    first = next((k for k, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return lines
    match = _MAGIC.fullmatch(lines[first])
    if match is None:  # another cell, or %%train?
        return lines
    line, body = match["line"] or "", "".join(lines[first + 1 :])
    return [f"await get_ipython().magics_manager.registry['WorkbenchMagics'].awaiting({line!r}, {body!r})\n"]


#: IPython also tries transformers while the user is typing; this one is for whole cells only.
awaited.has_side_effects = True  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------------------------------------------------
# From the line to the experiment


def _prepared(shell: Any, line: str, cell: str) -> tuple[Experiment, grammar.Options, Standing | None] | None:
    """The experiment of this cell and, if it existed already, how it compares with the present; None if nothing is
    trained.
    """
    from workbench.engine.telling.notify import masked
    from workbench.experiment.launching import experiment_of, settings_of
    from workbench.launch import draft, expecting
    from workbench.snapshot.reading.cell import read_cell
    from workbench.snapshot.reading.script import read_script
    from workbench.store import Store
    from workbench.store.keeping.remote import shown

    expanded = expanding.expanded(line, shell.user_ns)
    options = grammar.parse(expanded, cell)
    if not (options.plan or options.attempt):
        expecting()
    namespace = shell.user_ns
    notify = options.notify
    line, expanded = masked(line, notify), masked(expanded, notify)  # a webhook's address is a secret
    if options.storage:  # and so may be the storage's URL
        line, expanded, cell = (
            text.replace(options.storage, shown(options.storage)) for text in (line, expanded, cell)
        )
    if options.script is not None:
        read = read_script(options.script, options.words, options.metrics)
    else:
        # The magic's line stays as a comment, so that line numbers match the cell, in tracebacks too.
        read = read_cell(f"# %%train {line}".rstrip() + "\n" + cell, namespace)
    store, parent = Store.find(options.store), None
    if options.parent is not None:
        options, parent = _forked(store.check(), options)
    else:
        store = Store.to_train(options.store)
    settings = settings_of(read, options)
    if options.plan:
        from workbench.launch import measured
        from workbench.settled import planned

        name = options.name or name_of(read.file or origin(shell).notebook)
        say(str(planned(read.space, settings, measured(store, name))))
        return None
    where = origin(shell, f"%%train {line}".rstrip(), f"%%train {expanded}".rstrip())
    cells = [{**one, "source": masked(one["source"], notify)} for one in where.cells]
    if options.storage:
        cells = [{**one, "source": one["source"].replace(options.storage, shown(options.storage))} for one in cells]
    where = dataclasses.replace(where, cells=cells)
    name = options.name or name_of(read.file or where.notebook)
    made = draft(read, namespace, name, settings, store, where, parent)
    if options.attempt:
        from workbench.experiment.attempt import attempt

        attempt(made, say)
        return None
    beside = [note for note in made.beside if note == made.unsent or note not in _told]
    _told.update(beside)
    for note in (*beside, *made.capture.notes, *made.around.notes):
        say(f"Note: {note}.")
    unlike = hidden.line(shell, store, where.notebook, {*read.needs, *made.capture.names})
    if unlike:
        say(f"Note: {unlike}.")
    assigned = read.assigned if read.kind == "cell" else frozenset()
    stale = _stale(assigned - {one.name for one in read.hyperparameters}, namespace)
    if stale:
        say(f"Note: {' and '.join(stale)} in this kernel are unchanged; exp.best.load() loads the trained ones.")
    experiment, is_new = experiment_of(made, options)
    return experiment, options, None if is_new else made.standing


#: Notes about the store that this kernel has already shown: they apply to every cell.
_told: set[str] = set()


def _forked(store: Store, options: grammar.Options) -> tuple[grammar.Options, Any]:
    """The options of a fork, with the parent's values for options not written; and what its spec keeps of the
    parent."""
    from workbench.replay.fork import checked_steps, length_of, parent_of

    assert options.parent is not None
    spec, parent = parent_of(store, options.parent)
    steps = checked_steps(parent, options.steps, length_of(store, spec))
    return dataclasses.replace(options, steps=steps, goal=options.goal or spec.goal), parent


async def _shown(shell: Any, experiment: Experiment, options: grammar.Options, found: Standing | None) -> None:
    """Show the experiment, start it, and wait for its end if asked to."""
    _give(shell, experiment)
    looker = face(shell)
    if experiment.is_ended:
        say(_before(experiment, found))
        if looker == "live":
            Shown(experiment)  # its table and buttons, as after the run itself
        else:
            await asyncio.to_thread(show_result, experiment)
        return
    if looker != "live" and experiment.changed:
        say(f"{experiment.label}: {', '.join(experiment.changed)}")
    shown = Shown(experiment) if looker == "live" else None
    await asyncio.to_thread(experiment.start, cluster=options.cluster)
    if looker == "terminal" and not options.wait:
        say(f"{experiment.label} is started. wb.last().watch() follows it.")
    elif shown is None:
        await follow(experiment, looker)
        if looker in ("batch", "log"):
            await asyncio.to_thread(show_result, experiment)
        experiment.check()
    elif options.wait:
        await shown.until_end()
        experiment.check()


def _before(experiment: Experiment, found: Standing | None) -> str:
    """The line for an experiment that ended earlier."""
    how = {"failed": "failed", "stopped": "was stopped"}.get(experiment.state, "was trained")
    line = f"{experiment.label} {how} before with the same content; nothing is trained. Use --again to retrain."
    if found is not None and found.differences:
        line = f"{experiment.label} {how} before; changed since: {found.differs}. --same shows it anyway."
    return f"{line} ({found.not_checked})" if found is not None and found.unchecked else line


def _give(shell: Any, experiment: Experiment) -> None:
    """Make the experiment the cell's value (``_`` and ``Out[n]``), without displaying it a second time."""
    hook = shell.displayhook
    hook.update_user_ns(experiment)
    hook.fill_exec_result(experiment)


def _stale(names: Iterable[str], namespace: Mapping[str, Any]) -> list[str]:
    """Names of models, optimizers and the like that exist in the kernel and that the cell will assign in the runner."""
    return sorted(
        name
        for name in names
        if name in namespace
        and not isinstance(namespace[name], type)
        and callable(getattr(namespace[name], "state_dict", None))
    )


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run ``coroutine`` to its end from synchronous code, even if a loop is already running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(coroutine)
        return
    with concurrent.futures.ThreadPoolExecutor(1, "workbench-train") as pool:
        loop = asyncio.new_event_loop()
        task = loop.create_task(coroutine)
        # Copy the context, so that output goes to the calling cell.
        future = pool.submit(contextvars.copy_context().run, loop.run_until_complete, task)
        try:
            while not future.done():
                try:
                    future.result()
                except KeyboardInterrupt:
                    if not future.done():
                        loop.call_soon_threadsafe(task.cancel)  # and wait for its output
            future.result()
        finally:
            concurrent.futures.wait([future])
            loop.close()


# ---------------------------------------------------------------------------------------------------------------------
# Errors, calmly


def _calm(error: BaseException, line: str, cell: str) -> BaseException:
    """``error`` with its line of the cell instead of a traceback through Workbench."""
    words = [f"{type(error).__name__}: {error}"]
    number = getattr(error, "line", None)
    lines = [f"%%train {line}".rstrip(), *cell.splitlines()]
    if isinstance(number, int) and 1 <= number <= len(lines):
        # Typed control characters must not take effect again.
        lines = ["".join(one if one.isprintable() or one == "\t" else "�" for one in text) for text in lines]
        shown = range(max(1, number - 1), min(len(lines), number + 1) + 1)
        words = [f"{'---->' if k == number else '     '} {k:3} {lines[k - 1]}" for k in shown] + ["", *words]
    error._render_traceback_ = lambda: words  # type: ignore[attr-defined]
    return error


# ---------------------------------------------------------------------------------------------------------------------
# Registering


def register(shell: Any) -> None:
    """Register the magics, the awaiting of train cells, and the completion of their options with ``shell``."""
    from workbench.lab import ahead
    from workbench.lab.complete import matcher

    ahead.begin(shell)
    executed.watch(shell)
    shell.register_magics(WorkbenchMagics)
    transforms = shell.input_transformers_cleanup
    if awaited not in transforms:
        transforms.append(awaited)
    if getattr(shell, "Completer", None) is not None and matcher not in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.append(matcher)


def unregister(shell: Any) -> None:
    """Undo :func:`register`."""
    from workbench.lab import ahead
    from workbench.lab.complete import matcher

    ahead.end(shell)
    executed.unwatch(shell)
    if awaited in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(awaited)
    if getattr(shell, "Completer", None) is not None and matcher in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(matcher)

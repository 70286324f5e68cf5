"""The verbs of ``workbench``. Law: one table of verbs; an error is one line, not a traceback."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.cli import parsers
from workbench.cli.codes import BAD, EXIT_CODES, INTERRUPTED, OK, code_of
from workbench.cli.options import Parser
from workbench.cli.values import nearest
from workbench.errors import BadOption, WorkbenchError


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: its help, its function, and its arguments."""

    help: str
    #: module:function
    runs: str
    options: Callable[[Parser], None]
    epilog: str = ""
    #: Whether its function reads the words itself: they are those of a train cell.
    reads_words: bool = False


VERBS: dict[str, Verb] = {
    "ls": Verb("experiments, the newest first", "lists:ls", parsers.ls),
    "show": Verb("one experiment, or one trial of it", "look:show", parsers.show),
    "watch": Verb("follow an experiment until it ends", "watch:watch", parsers.watch,
                  "Ctrl-C ends the watching only: the experiment continues."),
    "run": Verb("search over a script's own arguments, and follow it until it ends", "scripts:run", parsers.run,
                reads_words=True),
    "try": Verb("train two steps of a script here; under the debugger with --pdb", "scripts:attempt", parsers.try_,
                reads_words=True),
    "plan": Verb("what a search will do, without starting it", "look:plan", parsers.plan,
                 "Give an experiment, or --steps and the rest."),
    "stop": Verb("stop an experiment, or one trial of it", "orders:stop", parsers.stop),
    "pause": Verb("checkpoint and pause running trials, or one of them", "orders:pause", parsers.hold),
    "resume": Verb("continue a paused experiment, or a paused or stopped trial of it", "orders:resume", parsers.hold),
    "fork": Verb("continue from a trial's checkpoint with other hyperparameters", "checks:fork", parsers.fork,
                 "Steps continue to count. To change code, use a cell: %%train NAME --from digits@2/t0007:27."),
    "notify": Verb("notify when a search of this store ends, fails, stalls, or matches a rule", "tells:notify",
                   parsers.notify, "Without options it shows the settings. For one search: %%train --notify URL."),
    "verify": Verb("train a trial again, and see whether resuming gave the same bits", "checks:verify", parsers.verify,
                   "It uses a slot that no trial needs, and does not change the trial."),
    "extend": Verb("extend a search that runs or has ended: more trials, steps or time", "orders:extend",
                   parsers.extend, "Earlier decisions stay. To continue a paused search, use `resume`."),
    "logs": Verb("what a trial printed", "logs:logs", parsers.logs),
    "best": Verb("the best trial, its configuration and checkpoint", "look:best", parsers.best),
    "diff": Verb("what differs between two trials or experiments", "compared:diff", parsers.diff,
                 "The most likely causes come first."),
    "history": Verb("the versions of an experiment: what each changed and gained", "compared:history", parsers.history),
    "replay": Verb("train a trial again, or execute a notebook again with parameters", "again:replay", parsers.replay,
                   "Exits with 0 if the trial is reproduced, bit for bit or within the tolerance, and "
                   "if every notebook completes; else with 1."),
    "repeat": Verb("train a trial's configuration with other seeds: mean and interval", "again:repeat", parsers.repeat),
    "why": Verb("restore one difference after the other, and train again", "compared:why", parsers.why,
                "Exits with 0 if the last row equals the baseline bit for bit, else with 1."),
    "slice": Verb("write the minimal notebook that makes a trial: the cells it needs, in order", "slicing:sliced",
                  parsers.slice_, "It analyses the executed cells, and includes each that may matter."),
    "keep": Verb("which checkpoints of an experiment are kept", "cleaning:keep", parsers.keep,
                 "Without RULE it is shown. A change applies from then on."),
    "pin": Verb("protect a checkpoint, a trial or an experiment from deletion", "cleaning:pin", parsers.pin),
    "unpin": Verb("remove a pin", "cleaning:pin", parsers.pin),
    "delete": Verb("delete an experiment, or checkpoints and files of a trial", "cleaning:delete", parsers.delete),
    "quota": Verb("how much disk space the store may use", "cleaning:quota", parsers.quota,
                  "Without SIZE it is shown. Before it is exceeded, running experiments clean up or pause."),
    "gc": Verb("delete checkpoints not kept by any rule, and unreferenced data", "cleaning:gc", parsers.gc),
    "publish": Verb("a read-only copy and a page for others", "carry:publish", parsers.publish,
                    "Secrets are masked. wb.open(DEST) shows and loads it; `workbench import DEST` imports it."),
    "export": Verb("write a file for another store, a table, or a trained model", "exports:export", parsers.export),
    "import": Verb("import what export or publish wrote", "carry:take_in", parsers.import_,
                   "None of its code is executed until you trust it."),
    "trust": Verb("allow an imported experiment to be loaded and trained", "carry:trust", parsers.trust),
    "adopt": Verb("make a store yours, so that its contents may run", "adopting:adopting",
                  parsers.adopt,
                  "It lists the contents and asks. Unfinished experiments stay paused until you resume them."),
    "doctor": Verb("look for problems: store, engine, cluster, versions, GPUs", "doctor:doctor", parsers.doctor,
                   "With --mend the engine rebuilds lost or damaged series."),
    "engine": Verb("the process that runs this store's experiments", "engines:engine", parsers.engine),
    "queue": Verb("who trains in which slot of this machine, what it uses, and who waits", "machine.queue:queue",
                  parsers.queue, "It shows all of your stores that train on this machine, and needs no store."),
    "usage": Verb("slot-hours of the last day, by experiment and outcome", "machine.usage:usage", parsers.usage,
                  "It counts all of your stores on this machine, and needs no store; --store counts one."),
    "profile": Verb("whether a trial waits for data, memory or arithmetic, and its costly lines",
                    "machine.profile:profile", parsers.profile,
                    "It trains some steps of the trial again, outside of its search, and changes nothing there."),
    "drain": Verb("take a slot of this machine out of use", "machine.drain:drain", parsers.drain,
                  "Its trial saves and leaves, and continues in another slot. It waits until the slot is free. Where "
                  "users share the machine, its administrator does that for all, another user for the own trials."),
    "share-machine": Verb("let the users of this machine share its slots; for its administrator",
                          "machine.share:share", parsers.share_machine,
                          "Until then, only searches of one user share. Run it again after a change of cores or GPUs."),
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# The door


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code. It prints to the current ``sys.stdout``."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _silence()
        return OK
    except SystemExit as end:  # argparse, after --help
        return end.code if isinstance(end.code, int) else BAD
    except (WorkbenchError, OSError) as error:
        _complain(error)
        return code_of(error)


def _run(words: list[str]) -> int:
    store: str | None = None
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in ("-h", "--help"):
            _say(help_text())
            return OK
        if word == "--version":
            from importlib.metadata import version

            _say(f"workbench {version('workbench')}\n")
            return OK
        if word == "--store" and words:
            store = words.pop(0)
        elif word.startswith("--store="):
            store = word.partition("=")[2]
        elif word == "--store":
            raise BadOption("workbench: --store needs a folder. For example: workbench --store .workbench ls.")
        else:
            own = ("--help", "--version", "--store")
            after = next((w for w in words if w in VERBS), None)
            advice = (
                f" Options of {after} follow it: workbench {after} {word}."
                if after and not difflib.get_close_matches(word, own, cutoff=0.75)
                else nearest(word, own)
            )
            raise BadOption(f"workbench: {_shown(word)} is not an option.{advice} workbench --help lists them.")
    if not words:
        _say(help_text())
        return OK
    name = words.pop(0)
    verb = VERBS.get(name)
    if verb is None:
        advice = nearest(name, VERBS) or f" The verbs are {', '.join(VERBS)}."
        raise BadOption(f"workbench: {_shown(name)} is not a verb.{advice}")
    if verb.reads_words and not {"-h", "--help"} & set(words[: words.index("--") if "--" in words else None]):
        options = argparse.Namespace(verb=name, words=words, store=None)
    else:
        options = _parsed(name, verb, words)
    options.store = options.store or store
    module, _, function = verb.runs.partition(":")
    run: Callable[[Any], int] = getattr(importlib.import_module(f"workbench.cli.commands.{module}"), function)
    return run(options)


def _parsed(name: str, verb: Verb, words: list[str]) -> argparse.Namespace:
    parser = parser_of(name, verb)
    # Intermixed: `export REF --model onnx FILE` and `fork REF --steps 54 lr=0.1` have arguments behind an option.
    options, unknown = parser.parse_known_intermixed_args(words)
    if unknown:
        word = unknown[0]
        if word.startswith("-"):
            known = [option for action in parser._actions for option in action.option_strings]
            raise BadOption(
                f"{parser.prog}: {_shown(word)} is not an option.{nearest(word.partition('=')[0], known)} "
                f"{parser.prog} --help lists them."
            )
        raise BadOption(
            f"{parser.prog}: {_shown(word)} is an unexpected argument. {parser.prog} --help shows what is allowed."
        )
    options.verb = name
    return options


def parser_of(name: str, verb: Verb) -> Parser:
    """The parser of one verb."""
    text = " ".join(part for part in (verb.epilog, "Exit codes: workbench --help.") if part)
    parser = Parser(f"workbench {name}", description=f"{verb.help}.".capitalize(), epilog=text, allow_abbrev=False)
    if not verb.reads_words:
        parser.add_argument(
            "--store", metavar="FOLDER", help="the store (WORKBENCH_HOME, else .workbench in this folder)"
        )
    verb.options(parser)
    return parser


def help_text() -> str:
    """All verbs and exit codes."""
    lines = ["usage: workbench [--store FOLDER] VERB …", "", "verbs (workbench VERB --help says more):"]
    lines += [f"  {name:8} {verb.help}" for name, verb in VERBS.items()]
    lines += [
        "",
        "An experiment is digits (its newest version), digits@2 or an id; a trial is digits@2/t0007.",
        "The store is --store, else WORKBENCH_HOME, else .workbench in this folder.",
        "",
        "exit codes:",
    ]
    lines += [f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items()]
    return "\n".join(lines) + "\n"


def _shown(word: str) -> str:
    from workbench.cli.words import clean, cut

    return cut(clean(word), 60)


def _say(text: str) -> None:
    sys.stdout.write(text)


def _complain(error: BaseException) -> None:
    from workbench.cli.words import clean

    text = " ".join(clean(part) for part in str(error).splitlines()) or type(error).__name__
    sys.stderr.write(f"{text}\n")


def _silence() -> None:
    """The reader of our output has closed it (``| head``): prevent an error when Python flushes at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)

"""The verbs of ``workbench``. Law: one table of verbs; an error is one line, not a traceback."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from workbench.cli.values import among, nearest, seconds, share, steps, whole
from workbench.errors import (
    BadInput,
    BadOption,
    ClusterError,
    EngineRunning,
    NotAdopted,
    NotFound,
    Paused,
    StoreError,
    TrialError,
    WorkbenchError,
)

OK, FAILED, BAD, MISSING, AWAY, STORE, STOPPED, UNSURE, PAUSED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 7, 8, 130

#: What each exit code means, for help and docs.
EXIT_CODES = {
    OK: "done",
    FAILED: "the experiment failed (watch), a trial differs (verify, replay), a notebook failed (replay), or doctor "
    "found a problem",
    BAD: "bad input: an unknown verb or option, or an invalid value",
    MISSING: "not found: no such store, experiment, trial, log or result",
    AWAY: "the engine or the cluster is not available, or another engine holds the store",
    STORE: "trouble with the store: full, read-only, damaged, not yours, or of a later Workbench",
    STOPPED: "the experiment was stopped (watch)",
    UNSURE: "it could not be determined (verify)",
    PAUSED: "the awaited experiment is paused until it is resumed",
    INTERRUPTED: "interrupted; the experiment continues",
}

#: The exit code for each error class; the first match counts.
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (BadInput, BAD),
    (NotFound, MISSING),
    (EngineRunning, AWAY),
    (ClusterError, AWAY),
    (StoreError, STORE),
    (Paused, PAUSED),
    (NotAdopted, STORE),
    (TrialError, FAILED),
    (WorkbenchError, FAILED),
    (OSError, STORE),
)


class Parser(argparse.ArgumentParser):
    """argparse, except that it raises BadOption instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise BadOption with the message."""
        message = re.sub(r"argument (\S+): ignored explicit argument (.*)", r"\1 takes no value: \2 was given", message)
        stop = "" if message.endswith("?") else "."
        raise BadOption(f"{self.prog}: {message}{stop} {self.prog} --help shows what is allowed.")


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: its help, its function, and its arguments."""

    help: str
    #: module:function
    runs: str
    options: Callable[[Parser], None]
    epilog: str = ""


def _ref(parser: Parser, shown: str, meaning: str) -> None:
    parser.add_argument("ref", metavar=shown, help=meaning)


def _json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


STATES = ("waiting", "running", "paused", "stopping", "completed", "stopped", "failed")
_EXPERIMENT = "digits (its newest version), digits@2, or an id"
_EITHER = f"an experiment ({_EXPERIMENT}), or a trial of it: digits@2/t0007"


def _ls(parser: Parser) -> None:
    parser.add_argument("text", nargs="?", help="only those with this text in their name, note or notebook")
    parser.add_argument("--state", type=among(STATES), action="append", metavar="STATE", help=", ".join(STATES))
    parser.add_argument("--tag", action="append", help="only those with this tag")
    parser.add_argument("--last", type=whole(1), metavar="N", help="only the newest N")
    parser.add_argument("--notebooks", action="store_true", help="executed notebooks instead of experiments")
    _json(parser)


def _show(parser: Parser) -> None:
    _ref(parser, "REF", f"{_EITHER}; digits@2/t0007:27 is that trial at step 27")
    parser.add_argument("--all", action="store_true", help="every trial, not only the best twenty")
    _json(parser)


def _watch(parser: Parser) -> None:
    _ref(parser, "REF", _EXPERIMENT)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line, one for each change")


def _plan(parser: Parser) -> None:
    parser.add_argument("ref", metavar="REF", nargs="?", help=f"an experiment that exists: {_EXPERIMENT}")
    parser.add_argument("--steps", type=steps, metavar="FIRST-LAST", help="steps of the first and the last rung")
    parser.add_argument("--scheduler", type=among(("hyperband", "asha", "median", "all")), metavar="KIND",
                        help="hyperband (default), asha, median, all")  # fmt: skip
    parser.add_argument("--eta", type=whole(2), metavar="N", help="one in N continues at each rung (3)")
    parser.add_argument("--table", type=among(("algorithm1", "table1")), metavar="NAME",
                        help="Hyperband's start sizes: algorithm1 (default), table1")  # fmt: skip
    parser.add_argument("--mode", type=among(("promote", "stop")), metavar="MODE", help="ASHA: promote (default), stop")
    parser.add_argument("--brackets", type=among(("aggressive", "standard", "conservative")), metavar="SET",
                        help="ASHA: aggressive (default), standard, conservative")  # fmt: skip
    parser.add_argument("--trials", type=whole(1), metavar="N", help="how many configurations")
    _json(parser)


def _stop(parser: Parser) -> None:
    _ref(parser, "REF", _EITHER)
    parser.add_argument("--reason", help="the reason, recorded with the decision")
    _json(parser)


def _hold(parser: Parser) -> None:
    _ref(parser, "REF", _EXPERIMENT)
    parser.add_argument("--reason", help="the reason, recorded with the decision")
    _json(parser)


def _extend(parser: Parser) -> None:
    from workbench.amounts import duration

    _ref(parser, "REF", _EXPERIMENT)
    parser.add_argument("--trials", type=whole(1), metavar="N", help="number of additional trials")
    parser.add_argument("--steps", type=whole(1), metavar="LAST", help="steps of a whole trial from then on")
    parser.add_argument("--for", dest="seconds", type=duration, metavar="TIME", help="additional time: 2h, 1h30m")
    parser.add_argument("--reason", help="the reason, recorded with the decision")
    _json(parser)


def _delete(parser: Parser) -> None:
    _ref(parser, "REF", _EITHER)
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    _json(parser)


def _keep(parser: Parser) -> None:
    _ref(parser, "REF", _EXPERIMENT)
    parser.add_argument("rule", nargs="?", metavar="RULE", help="experiment=1,best=1,latest=1,stopped=0: the best of "
                        "the experiment; best and latest of each trial; 1: of stopped ones too; or all")  # fmt: skip
    _json(parser)


def _pin(parser: Parser) -> None:
    _ref(parser, "REF", f"{_EITHER}, or one checkpoint of that: digits@2/t0007:27")
    _json(parser)


def _quota(parser: Parser) -> None:
    parser.add_argument("size", nargs="?", metavar="SIZE", help="such as 50GB; off for none")
    _json(parser)


def _doctor(parser: Parser) -> None:
    parser.add_argument("--mend", action="store_true", help="restore lost curves from journals and checkpoints")
    _json(parser)


def _gc(parser: Parser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only show what would be deleted")
    _json(parser)


def _logs(parser: Parser) -> None:
    _ref(parser, "REF/tNNNN", "a trial: digits@2/t0007")
    parser.add_argument("--follow", "-f", action="store_true", help="follow the log until the trial ends")
    parser.add_argument("--tail", "-n", type=whole(0), metavar="N", help="only the last N lines")


def _fork(parser: Parser) -> None:
    _ref(parser, "REF/tNNNN[:STEP]", "a trial, and the step of its checkpoint (its newest): digits@2/t0007:27")
    parser.add_argument("changes", nargs="*", metavar="NAME=VALUE", help="changed hyperparameters: lr=0.001")
    parser.add_argument("--name", help="name of the new experiment (its parent's name and -fork)")
    parser.add_argument("--steps", type=whole(1), metavar="LAST", help="steps of the whole trial (its parent's)")
    _json(parser)


def _notify(parser: Parser) -> None:
    parser.add_argument("--webhook", metavar="URL", help="an address that takes a POST of JSON")
    parser.add_argument("--command", metavar="COMMAND", help="a command that reads the JSON from its input")
    parser.add_argument("--on", metavar="EVENTS", help="some of end,fail,stall,rule (all)")
    parser.add_argument("--off", action="store_true", help="turn notifications off")
    parser.add_argument("--try", dest="attempt", action="store_true", help="send a message now")
    _json(parser)


def _verify(parser: Parser) -> None:
    _ref(parser, "REF/tNNNN", "a trial: digits@2/t0007; digits@2/t0007:27 checks it up to step 27")
    _json(parser)


def _best(parser: Parser) -> None:
    _ref(parser, "REF", _EXPERIMENT)
    _json(parser)


def _diff(parser: Parser) -> None:
    parser.add_argument("a", metavar="A", help=f"{_EITHER}; digits@2/t0007:27 is that trial at step 27")
    parser.add_argument("b", metavar="B", help="the same; changes are shown from A to B")
    _json(parser)


def _history(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="an experiment's name")
    _json(parser)


def _replay(parser: Parser) -> None:
    parser.add_argument("ref", metavar="REF|NOTEBOOK.ipynb", nargs="?", help=f"{_EITHER}; of an experiment its best "
                        "trial; or a notebook, which is executed")  # fmt: skip
    parser.add_argument("--all", action="store_true", help="the best trial of every experiment that has ended")
    parser.add_argument("--since", metavar="DAY", help="with --all: only those created since, such as 2026-11-01")
    parser.add_argument("--env", default="same", metavar="same|rebuild|PYTHON",
                        help="as it is now (default), built from the recorded versions, or an interpreter")  # fmt: skip
    parser.add_argument("--tolerance", type=share, metavar="X", help="tolerated relative difference (1e-4)")
    parser.add_argument("--trust", action="store_true", help="of what was published (DEST#t0007): its code may run")
    from workbench.cli.commands.notebooks import add_options

    add_options(parser)
    _json(parser)


def _repeat(parser: Parser) -> None:
    _ref(parser, "REF", f"{_EITHER}; of an experiment its best trial")
    parser.add_argument("--seeds", type=whole(1), default=5, metavar="N", help="how many other seeds (5)")
    _json(parser)


def _why(parser: Parser) -> None:
    parser.add_argument("a", metavar="A", help=f"the baseline: {_EITHER}; of an experiment its best trial")
    parser.add_argument("b", metavar="B", help="the trial whose result differs")
    parser.add_argument("--env", type=among(("same", "rebuild")), default="same", metavar="same|rebuild",
                        help="rebuild: restore libraries by building the recorded environment")  # fmt: skip
    parser.add_argument("--output", metavar="FILE", help="the notebook to write (why-….ipynb)")
    _json(parser)


def _publish(parser: Parser) -> None:
    _ref(parser, "EXPERIMENT", _EXPERIMENT)
    parser.add_argument(
        "destination", metavar="DEST", help="an empty or new folder, or a URL such as s3://bucket/digits"
    )
    parser.add_argument(
        "--no-checkpoints", action="store_true", help="only results: smaller, and nothing can be loaded"
    )
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask where secrets were found and masked")
    _json(parser)


def _export(parser: Parser) -> None:
    from workbench.cli.commands.exports import arguments

    arguments(parser)


def _import(parser: Parser) -> None:
    parser.add_argument("source", metavar="FILE", help="what export wrote, or a folder that publish wrote")
    parser.add_argument("--name", help="its name in this store (its own name)")
    parser.add_argument("--trust", action="store_true", help="trust it: loading and training it run its code")
    _json(parser)


def _trust(parser: Parser) -> None:
    _ref(parser, "EXPERIMENT", _EXPERIMENT)


def _adopt(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="the store, or the folder in which .workbench lies")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    _json(parser)


def _engine(parser: Parser) -> None:
    parser.add_argument("action", type=among(("status", "start", "stop", "run")), metavar="status|start|stop|run",
                        nargs="?", help="run: in the foreground, until Ctrl-C")  # fmt: skip
    parser.add_argument("--install-service", action="store_true", help="start it with the machine (systemd)")
    parser.add_argument("--remove-service", action="store_true", help="remove that service")
    parser.add_argument("--cluster", metavar="ADDRESS", help="start, run: a Dask scheduler's, such as tcp://host:8786")
    parser.add_argument("--workers", type=whole(1), metavar="N", help="start, run: slots of a cluster on this machine")
    parser.add_argument(
        "--dashboard",
        action="store_true",
        help="start, run: Dask's dashboard of that cluster, visible to every user of this machine",
    )
    parser.add_argument("--idle", type=seconds, metavar="SECONDS", help="start, run: end after this time without work")
    _json(parser)


def _slice(parser: Parser) -> None:
    _ref(parser, "TRIAL", _EITHER)
    parser.add_argument("--output", "-o", metavar="FILE", help="the notebook to write (here: digits@2-t0007.ipynb)")
    parser.add_argument("--force", action="store_true", help="overwrite it where it exists")
    _json(parser)


VERBS: dict[str, Verb] = {
    "ls": Verb("experiments, the newest first", "lists:ls", _ls),
    "show": Verb("one experiment, or one trial of it", "look:show", _show),
    "watch": Verb("follow an experiment until it ends", "watch:watch", _watch,
                  "Ctrl-C ends the watching only: the experiment continues."),
    "plan": Verb("what a search will do, without starting it", "look:plan", _plan,
                 "Give an experiment, or --steps and the rest."),
    "stop": Verb("stop an experiment, or one trial of it", "orders:stop", _stop),
    "pause": Verb("checkpoint running trials, and start no new ones", "orders:pause", _hold),
    "resume": Verb("continue a paused experiment", "orders:resume", _hold),
    "fork": Verb("continue from a trial's checkpoint with other hyperparameters", "checks:fork", _fork,
                 "Steps continue to count. To change code, use a cell: %%train NAME --from digits@2/t0007:27."),
    "notify": Verb("notify when a search of this store ends, fails, stalls, or matches a rule", "tells:notify",
                   _notify, "Without options it shows the settings. For one search: %%train --notify URL."),
    "verify": Verb("train a trial again, and see whether resuming gave the same bits", "checks:verify", _verify,
                   "It uses a slot that no trial needs, and does not change the trial."),
    "extend": Verb("extend a search that runs or has ended: more trials, steps or time", "orders:extend", _extend,
                   "Earlier decisions stay. To continue a paused search, use `resume`."),
    "logs": Verb("what a trial printed", "logs:logs", _logs),
    "best": Verb("the best trial, its configuration and checkpoint", "look:best", _best),
    "diff": Verb("what differs between two trials or experiments", "compared:diff", _diff,
                 "The most likely causes come first."),
    "history": Verb("the versions of an experiment: what each changed and gained", "compared:history", _history),
    "replay": Verb("train a trial again, or execute a notebook again with parameters", "again:replay", _replay,
                   "Exits with 0 if the trial is reproduced, bit for bit or within the tolerance, and "
                   "if every notebook completes; else with 1."),
    "repeat": Verb("train a trial's configuration with other seeds: mean and interval", "again:repeat", _repeat),
    "why": Verb("restore one difference after the other, and train again", "why:why", _why,
                "Exits with 0 if the last row equals the baseline bit for bit, else with 1."),
    "slice": Verb("write the minimal notebook that makes a trial: the cells it needs, in order", "slicing:sliced",
                  _slice, "It analyses the executed cells, and includes each that may matter."),
    "keep": Verb("which checkpoints of an experiment are kept", "cleaning:keep", _keep,
                 "Without RULE it is shown. A change applies from then on."),
    "pin": Verb("protect a checkpoint, a trial or an experiment from deletion", "cleaning:pin", _pin),
    "unpin": Verb("remove a pin", "cleaning:pin", _pin),
    "delete": Verb("delete an experiment, or checkpoints and files of a trial", "cleaning:delete", _delete),
    "quota": Verb("how much disk space the store may use", "cleaning:quota", _quota,
                  "Without SIZE it is shown. Before it is exceeded, running experiments clean up or pause."),
    "gc": Verb("delete checkpoints not kept by any rule, and unreferenced data", "cleaning:gc", _gc),
    "publish": Verb("a read-only copy and a page for others", "carry:publish", _publish,
                    "Secrets are masked. wb.open(DEST) shows and loads it; `workbench import DEST` imports it."),
    "export": Verb("write a file for another store, a table, or a trained model", "exports:export", _export),
    "import": Verb("import what export or publish wrote", "carry:take_in", _import,
                   "None of its code is executed until you trust it."),
    "trust": Verb("allow an imported experiment to be loaded and trained", "carry:trust", _trust),
    "adopt": Verb("make a store yours, so that its contents may run", "adopting:adopting",
                  _adopt, "It lists the contents and asks. Unfinished experiments stay paused until you resume them."),
    "doctor": Verb("look for problems: store, engine, cluster, versions, GPUs", "doctor:doctor", _doctor,
                   "With --mend the engine rebuilds lost or damaged series."),
    "engine": Verb("the process that runs this store's experiments", "engines:engine", _engine),
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
        return next(code for kind, code in _CODES if isinstance(error, kind))


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
    options = _parsed(name, verb, words)
    options.store = options.store or store
    module, _, function = verb.runs.partition(":")
    run: Callable[[Any], int] = getattr(importlib.import_module(f"workbench.cli.commands.{module}"), function)
    return run(options)


def _parsed(name: str, verb: Verb, words: list[str]) -> argparse.Namespace:
    parser = parser_of(name, verb)
    options, unknown = parser.parse_known_args(words)
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
    parser.add_argument("--store", metavar="FOLDER", help="the store (WORKBENCH_HOME, else .workbench in this folder)")
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

"""What may be typed behind ``workbench``. Law: one table of verbs; a mistake is told in a line, not a traceback."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from workbench.errors import (
    BadInput,
    BadOption,
    ClusterError,
    EngineRunning,
    NotFound,
    StoreError,
    TrialError,
    WorkbenchError,
)

OK, FAILED, BAD, MISSING, AWAY, STORE, STOPPED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130

#: What each exit code means, as help and docs say it.
EXIT_CODES = {
    OK: "done",
    FAILED: "the experiment failed (watch), or doctor found a problem",
    BAD: "bad input: an unknown verb or option, or a value that makes no sense",
    MISSING: "not found: no such store, experiment, trial, log or result",
    AWAY: "the engine or the cluster is not available, or another engine holds the store",
    STORE: "trouble with the store: full, read-only, damaged, or of a later Workbench",
    STOPPED: "the experiment was stopped (watch)",
    INTERRUPTED: "interrupted; the experiment goes on",
}

#: Which code an error ends with; the first that fits.
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (BadInput, BAD),
    (NotFound, MISSING),
    (EngineRunning, AWAY),
    (ClusterError, AWAY),
    (StoreError, STORE),
    (TrialError, FAILED),
    (WorkbenchError, FAILED),
    (OSError, STORE),
)


class Parser(argparse.ArgumentParser):
    """argparse, except that a mistake is raised as BadOption instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Refuse what was typed."""
        message = re.sub(r"argument (\S+): ignored explicit argument (.*)", r"\1 takes no value: \2 was given", message)
        stop = "" if message.endswith("?") else "."
        raise BadOption(f"{self.prog}: {message}{stop} {self.prog} --help shows what may stand there.")


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: what help says, where its function is, and what may stand behind it."""

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
    _json(parser)


def _show(parser: Parser) -> None:
    _ref(parser, "REF", f"{_EITHER}; digits@2/t0007:27 is that trial at step 27")
    parser.add_argument("--all", action="store_true", help="every trial, not only the best twenty")
    _json(parser)


def _watch(parser: Parser) -> None:
    _ref(parser, "REF", _EXPERIMENT)
    parser.add_argument("--json", action="store_true", help="print one JSON object a line, one for each change")


def _plan(parser: Parser) -> None:
    parser.add_argument("ref", metavar="REF", nargs="?", help=f"an experiment that exists: {_EXPERIMENT}")
    parser.add_argument("--steps", type=steps, metavar="FIRST-LAST", help="steps of the first and the last rung")
    parser.add_argument("--scheduler", type=among(("hyperband", "asha", "median", "all")), metavar="KIND",
                        help="hyperband (default), asha, median, all")  # fmt: skip
    parser.add_argument("--eta", type=whole(2), metavar="N", help="one in N goes on at each rung (3)")
    parser.add_argument("--table", type=among(("algorithm1", "table1")), metavar="NAME",
                        help="Hyperband's start sizes: algorithm1 (default), table1")  # fmt: skip
    parser.add_argument("--mode", type=among(("promote", "stop")), metavar="MODE", help="ASHA: promote (default), stop")
    parser.add_argument("--brackets", type=among(("aggressive", "standard", "conservative")), metavar="SET",
                        help="ASHA: aggressive (default), standard, conservative")  # fmt: skip
    parser.add_argument("--trials", type=whole(1), metavar="N", help="how many configurations")
    _json(parser)


def _stop(parser: Parser) -> None:
    _ref(parser, "REF", _EITHER)
    parser.add_argument("--reason", help="why; it is written beside the decision")
    _json(parser)


def _hold(parser: Parser) -> None:
    _ref(parser, "REF", _EXPERIMENT)
    parser.add_argument("--reason", help="why; it is written beside the decision")
    _json(parser)


def _logs(parser: Parser) -> None:
    _ref(parser, "REF/tNNNN", "a trial: digits@2/t0007")
    parser.add_argument("--follow", "-f", action="store_true", help="go on until the trial ends")
    parser.add_argument("--tail", "-n", type=whole(0), metavar="N", help="only the last N lines")


def _best(parser: Parser) -> None:
    _ref(parser, "REF", _EXPERIMENT)
    _json(parser)


def _engine(parser: Parser) -> None:
    parser.add_argument("action", type=among(("status", "start", "stop", "run")), metavar="status|start|stop|run",
                        help="run: in the foreground, until Ctrl-C")  # fmt: skip
    parser.add_argument("--cluster", metavar="ADDRESS", help="start, run: a Dask scheduler's, such as tcp://host:8786")
    parser.add_argument("--workers", type=whole(1), metavar="N", help="start, run: slots of a cluster on this machine")
    parser.add_argument("--idle", type=seconds, metavar="SECONDS", help="start, run: end after so long without work")
    _json(parser)


VERBS: dict[str, Verb] = {
    "ls": Verb("experiments, the newest first", "look:ls", _ls),
    "show": Verb("one experiment, or one trial of it", "look:show", _show),
    "watch": Verb("follow an experiment until it ends", "watch:watch", _watch,
                  "Ctrl-C ends the watching only: the experiment goes on."),
    "plan": Verb("what a search will do, without starting it", "look:plan", _plan,
                 "Give an experiment, or --steps and the rest."),
    "stop": Verb("stop an experiment, or one trial of it", "orders:stop", _stop),
    "pause": Verb("checkpoint what trains, and start nothing new", "orders:pause", _hold),
    "resume": Verb("go on with a paused experiment", "orders:resume", _hold),
    "logs": Verb("what a trial printed", "logs:logs", _logs),
    "best": Verb("the best trial, its configuration and checkpoint", "look:best", _best),
    "doctor": Verb("look for trouble: store, engine, cluster, versions, GPUs", "doctor:doctor", _json),
    "engine": Verb("the process that runs this store's experiments", "engines:engine", _engine),
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Words that become values


def nearest(word: str, known: Iterable[str]) -> str:
    """`` Did you mean …?`` where something known is near to ``word``, else nothing."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    starts = [name for name in names if len(word.lstrip("-")) > 1 and name.startswith(word)]
    return f" Did you mean {(near or starts)[0]}?" if near or starts else ""


def among(choices: Sequence[str]) -> Callable[[str], str]:
    """One of these words; the nearest is named where it is none."""

    def read(text: str) -> str:
        if text in choices:
            return text
        wanted = f"wanted {', '.join(choices[:-1])} or {choices[-1]}"
        raise argparse.ArgumentTypeError(f"{text!r} was given, {wanted}.{nearest(text, choices)}".rstrip("."))

    return read


def whole(least: int) -> Callable[[str], int]:
    """A whole number of at least ``least``."""

    def read(text: str) -> int:
        if not (text.isascii() and text.lstrip("+-").isdigit() and len(text) < 19 and int(text) >= least):
            raise argparse.ArgumentTypeError(f"{text!r} was given, wanted a whole number of {least} or more")
        return int(text)

    return read


def seconds(text: str) -> float:
    """A span in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} was given, wanted seconds, such as 600")
    return value


def steps(text: str) -> tuple[int, int]:
    """First and last rung, as in ``1-27``; a single number is the last."""
    first, dash, last = text.rpartition("-")
    try:
        read = whole(1)
        found = (read(first) if dash else 1, read(last))
        if found[0] > found[1]:
            raise argparse.ArgumentTypeError("")
    except argparse.ArgumentTypeError:
        wanted = "the steps of the first and the last rung, 1 ≤ first ≤ last, such as 1-27"
        raise argparse.ArgumentTypeError(f"{text!r} was given, wanted {wanted}") from None
    return found


# ---------------------------------------------------------------------------------------------------------------------
# The door


def main(argv: list[str] | None = None) -> int:
    """Carry out one command line and give its exit code. It prints to the ``sys.stdout`` of the moment."""
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
            raise BadOption("workbench: --store lacks its folder. Write for example workbench --store .workbench ls.")
        else:
            own = ("--help", "--version", "--store")
            after = next((w for w in words if w in VERBS), None)
            advice = (
                f" Options of {after} stand behind it: workbench {after} {word}."
                if after and not difflib.get_close_matches(word, own, cutoff=0.75)
                else nearest(word, own)
            )
            raise BadOption(f"workbench: {_shown(word)} is no option.{advice} workbench --help shows what there is.")
    if not words:
        _say(help_text())
        return OK
    name = words.pop(0)
    verb = VERBS.get(name)
    if verb is None:
        advice = nearest(name, VERBS) or f" The verbs are {', '.join(VERBS)}."
        raise BadOption(f"workbench: {_shown(name)} is no verb.{advice}")
    options = _parsed(name, verb, words)
    options.store = options.store or store
    module, _, function = verb.runs.partition(":")
    run: Callable[[Any], int] = getattr(importlib.import_module(f"workbench.cli.{module}"), function)
    return run(options)


def _parsed(name: str, verb: Verb, words: list[str]) -> argparse.Namespace:
    parser = parser_of(name, verb)
    options, unknown = parser.parse_known_args(words)
    if unknown:
        word = unknown[0]
        if word.startswith("-"):
            known = [option for action in parser._actions for option in action.option_strings]
            raise BadOption(
                f"{parser.prog}: {_shown(word)} is no option.{nearest(word.partition('=')[0], known)} "
                f"{parser.prog} --help shows what there is."
            )
        raise BadOption(f"{parser.prog}: {_shown(word)} is too much. {parser.prog} --help shows what may stand there.")
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
    """The reader of our output is gone (``| head``); what Python flushes at its end must not complain."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)

"""The options of each verb. Law: argparse alone; what a verb's options need of its room is imported when
they are read."""

from __future__ import annotations

import argparse
from functools import partial

from workbench.cli.options import Parser, json, ref
from workbench.cli.values import among, days, seconds, share, steps, whole

STATES = ("waiting", "running", "paused", "stopping", "completed", "stopped", "failed")
_EXPERIMENT = "digits (its newest version), digits@2, or an id"
_EITHER = f"an experiment ({_EXPERIMENT}), or a trial of it: digits@2/t0007"


def ls(parser: Parser) -> None:
    parser.add_argument("text", nargs="?", help="only those with this text in their name, note or notebook")
    parser.add_argument("--state", type=among(STATES), action="append", metavar="STATE", help=", ".join(STATES))
    parser.add_argument("--tag", action="append", help="only those with this tag")
    parser.add_argument("--last", type=whole(1), metavar="N", help="only the newest N")
    parser.add_argument("--notebooks", action="store_true", help="executed notebooks instead of experiments")
    json(parser)


def show(parser: Parser) -> None:
    ref(parser, "REF", f"{_EITHER}; digits@2/t0007:27 is that trial at step 27")
    parser.add_argument("--all", action="store_true", help="every trial, not only the best twenty")
    json(parser)


def watch(parser: Parser) -> None:
    ref(parser, "REF", _EXPERIMENT)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line, one for each change")


def plan(parser: Parser) -> None:
    from workbench.amounts import duration

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
    parser.add_argument("--seeds", type=whole(1), metavar="N", help="trains each configuration with so many seeds (1)")
    parser.add_argument("--setup-time", type=partial(duration, option="setup-time", example="2m"), metavar="TIME",
                        help="how long a set-up takes, for the plan's time (measured, if REF has trained)")  # fmt: skip
    parser.add_argument("--step-time", type=partial(duration, option="step-time", example="30s"), metavar="TIME",
                        help="how long a step takes; given with --setup-time")  # fmt: skip
    json(parser)


def stop(parser: Parser) -> None:
    ref(parser, "REF", _EITHER)
    parser.add_argument("--reason", help="the reason, recorded with the decision")
    json(parser)


def hold(parser: Parser) -> None:
    ref(parser, "REF", _EITHER)
    parser.add_argument("--reason", help="the reason, recorded with the decision")
    json(parser)


def extend(parser: Parser) -> None:
    from workbench.amounts import duration

    ref(parser, "REF", _EXPERIMENT)
    parser.add_argument("--trials", type=whole(1), metavar="N", help="number of additional trials")
    parser.add_argument("--steps", type=whole(1), metavar="LAST", help="steps of a whole trial from then on")
    parser.add_argument("--for", dest="seconds", type=duration, metavar="TIME", help="additional time: 2h, 1h30m")
    parser.add_argument("--reason", help="the reason, recorded with the decision")
    json(parser)


def delete(parser: Parser) -> None:
    ref(parser, "REF", _EITHER)
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    json(parser)


def keep(parser: Parser) -> None:
    ref(parser, "REF", _EXPERIMENT)
    parser.add_argument("rule", nargs="?", metavar="RULE", help="experiment=1,best=1,latest=1,stopped=0: the best of "
                        "the experiment; best and latest of each trial; 1: of stopped ones too; or all")  # fmt: skip
    json(parser)


def pin(parser: Parser) -> None:
    ref(parser, "REF", f"{_EITHER}, or one checkpoint of that: digits@2/t0007:27")
    json(parser)


def quota(parser: Parser) -> None:
    parser.add_argument("size", nargs="?", metavar="SIZE", help="such as 50GB; off for none")
    json(parser)


def doctor(parser: Parser) -> None:
    parser.add_argument("--mend", action="store_true", help="restore lost curves from journals and checkpoints")
    json(parser)


def gc(parser: Parser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only show what would be deleted")
    json(parser)


def logs(parser: Parser) -> None:
    ref(parser, "REF/tNNNN", "a trial: digits@2/t0007")
    parser.add_argument("--follow", "-f", action="store_true", help="follow the log until the trial ends")
    parser.add_argument("--tail", "-n", type=whole(0), metavar="N", help="only the last N lines")


def fork(parser: Parser) -> None:
    ref(parser, "REF/tNNNN[:STEP]", "a trial, and the step of its checkpoint (its newest): digits@2/t0007:27")
    parser.add_argument("changes", nargs="*", metavar="NAME=VALUE", help="changed hyperparameters: lr=0.001")
    parser.add_argument("--name", help="name of the new experiment (its parent's name and -fork)")
    parser.add_argument("--steps", type=whole(1), metavar="LAST", help="steps of the whole trial (its parent's)")
    json(parser)


def notify(parser: Parser) -> None:
    parser.add_argument("--webhook", metavar="URL", help="an address that takes a POST of JSON")
    parser.add_argument("--command", metavar="COMMAND", help="a command that reads the JSON from its input")
    parser.add_argument("--on", metavar="EVENTS", help="some of end,fail,stall,rule (all)")
    parser.add_argument("--off", action="store_true", help="turn notifications off")
    parser.add_argument("--try", dest="attempt", action="store_true", help="send a message now")
    json(parser)


def verify(parser: Parser) -> None:
    ref(parser, "REF/tNNNN", "a trial: digits@2/t0007; digits@2/t0007:27 checks it up to step 27")
    json(parser)


def best(parser: Parser) -> None:
    ref(parser, "REF", _EXPERIMENT)
    json(parser)


def diff(parser: Parser) -> None:
    parser.add_argument("a", metavar="A", help=f"{_EITHER}; digits@2/t0007:27 is that trial at step 27")
    parser.add_argument("b", metavar="B", help="the same; changes are shown from A to B")
    json(parser)


def history(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="an experiment's name")
    json(parser)


def replay(parser: Parser) -> None:
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
    json(parser)


def repeat(parser: Parser) -> None:
    ref(parser, "REF", f"{_EITHER}; of an experiment its best trial")
    parser.add_argument("--seeds", type=whole(1), default=5, metavar="N", help="how many other seeds (5)")
    json(parser)


def why(parser: Parser) -> None:
    parser.add_argument("a", metavar="A", help=f"the baseline: {_EITHER}; of an experiment its best trial")
    parser.add_argument("b", metavar="B", help="the trial whose result differs")
    parser.add_argument("--env", type=among(("same", "rebuild")), default="same", metavar="same|rebuild",
                        help="rebuild: restore libraries by building the recorded environment")  # fmt: skip
    parser.add_argument("--output", metavar="FILE", help="the notebook to write (why-….ipynb)")
    parser.add_argument("--force", action="store_true", help="overwrite the FILE of --output where it exists")
    json(parser)


def publish(parser: Parser) -> None:
    ref(parser, "EXPERIMENT", _EXPERIMENT)
    parser.add_argument(
        "destination", metavar="DEST", help="an empty or new folder, or a URL such as s3://bucket/digits"
    )
    parser.add_argument(
        "--no-checkpoints", action="store_true", help="only results: smaller, and nothing can be loaded"
    )
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask where secrets were found and masked")
    json(parser)


def export(parser: Parser) -> None:
    from workbench.cli.commands.exports import arguments

    arguments(parser)


def import_(parser: Parser) -> None:
    parser.add_argument("source", metavar="FILE", help="what export wrote, or a folder that publish wrote")
    parser.add_argument("--name", help="its name in this store (its own name)")
    parser.add_argument("--trust", action="store_true", help="trust it: loading and training it run its code")
    json(parser)


def trust(parser: Parser) -> None:
    ref(parser, "EXPERIMENT", _EXPERIMENT)


def adopt(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="the store, or the folder in which .workbench lies")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    json(parser)


def engine(parser: Parser) -> None:
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
    json(parser)


def profile(parser: Parser) -> None:
    from workbench.cli.commands.machine.profile import arguments

    arguments(parser)


def queue(parser: Parser) -> None:
    json(parser)


def usage(parser: Parser) -> None:
    parser.add_argument("--days", type=days, default=1.0, metavar="N", help="of the last N days (1)")
    json(parser)


def drain(parser: Parser) -> None:
    parser.add_argument("slot", metavar="SLOT", help="its name in `workbench queue`, such as cpu0")
    parser.add_argument("--undo", action="store_true", help="use it again")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until it is free")
    json(parser)


def share_machine(parser: Parser) -> None:
    parser.add_argument("folder", metavar="FOLDER", nargs="?", help="another folder than /var/lib/workbench")
    of_mig = "a slot that is not found by itself, such as gpu-MIG-UUID (repeat for more)"
    parser.add_argument("--slot", metavar="NAME", action="append", default=[], help=of_mig)
    json(parser)


def slice_(parser: Parser) -> None:
    ref(parser, "TRIAL", _EITHER)
    parser.add_argument("--output", "-o", metavar="FILE", help="the notebook to write (here: digits@2-t0007.ipynb)")
    parser.add_argument("--force", action="store_true", help="overwrite it where it exists")
    json(parser)


def run(parser: Parser) -> None:
    _script(parser)
    parser.add_argument("--detach", action="store_true", help="start it, and do not wait")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line, one for each change")


def try_(parser: Parser) -> None:
    _script(parser)
    parser.add_argument("--pdb", action="store_true", help="where the script raises, start the debugger")


def _script(parser: Parser) -> None:
    from workbench.experiment import grammar

    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = f"{parser.prog} train.py --goal max val_acc --steps 1-27 [options] -- --lr 'loguniform(1e-4, 1)' …"
    parser.epilog = f"""Options, as of %%train:
{grammar.help_text(apart=("script", "wait", "from", "try"))}

After -- come the script's own arguments. A distribution makes a hyperparameter:
  --lr 'loguniform(1e-4, 1)'   --opt 'choice(adam, sgd)'   --layers 'choice([64, 64], [128])'
  --amp 'flag()'               model.lr='uniform(0, 1)'    --momentum 'uniform(0, 1, when=opt == sgd)'
None leaves an argument out, so that the script's own default counts: --clip 'choice(None, 1.0)'.

{parser.epilog}"""
    parser.add_argument(
        "script", metavar="SCRIPT", help="a Python file, or -m package.module; it runs as it does without Workbench"
    )
    parser.add_argument("words", nargs="*", metavar="-- ARGUMENTS", help="the script's own, with distributions")

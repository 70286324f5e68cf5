"""The options of ``%%train``, of ``#|`` lines and of ``workbench run``. Law: one table; parsing, help and completion
all read it."""

from __future__ import annotations

import dataclasses
import difflib
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from workbench.amounts import duration, keep_data, save_every, wrong
from workbench.choices import AUTO, SLOTS, Choices, is_slots, slots_of
from workbench.errors import BadName, BadOption
from workbench.given import Rows, read
from workbench.records import Goal, Keep, Scheduler, Searcher
from workbench.records.names import checked_name
from workbench.snapshot.reading.arguments import split_arguments
from workbench.snapshot.reading.cell import Cell

_METRIC = re.compile(r"[^\W\d][\w./-]{0,99}")
_COMMENT = re.compile(r"\s*#\|\s*(.*?)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Choices):
    """The user's options, parsed and checked. None if not written and the default depends on the cell."""

    name: str | None = None
    goal: Goal | None = None
    steps: tuple[int, int] | None = None
    scheduler: Literal["hyperband", "asha", "median", "all"] | None = None
    eta: int = 3
    table: Literal["algorithm1", "table1"] = "algorithm1"
    mode: Literal["stop", "promote"] = "promote"
    brackets: Literal["aggressive", "standard", "conservative"] = "aggressive"
    searcher: Literal["random", "grid", "sobol"] = "random"
    first: Rows | None = None
    configurations: Rows | None = None
    parent: str | None = None
    webhook: str | None = None
    command: str | None = None
    store: str | None = None
    cluster: str | None = None
    plan: bool = False
    attempt: bool = False
    wait: bool = False
    again: bool = False
    same: bool = False
    #: A script's file, or ``-m`` and a module's name; its arguments, and patterns of the lines by which it says its
    #: metrics.
    script: str | None = None
    words: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    #: The fewest slots of one trial, where ``slots`` is the most; and whether as many trials share one as fit.
    slots_least: int | None = None
    packs: bool = False
    #: Names of the fields that were written, on the line or in a comment.
    written: frozenset[str] = frozenset()

    def scheduler_for(self, kind: Literal["hyperband", "asha", "median", "all"]) -> Scheduler:
        """The geometry as written, for a scheduler of ``kind``. ``steps`` must have been written."""
        assert self.steps is not None
        first, last = self.steps
        return Scheduler(
            kind=kind, first=first, last=last, eta=self.eta, table=self.table, mode=self.mode, brackets=self.brackets
        )

    def scheduler_of(self, cell: Cell) -> Scheduler | None:
        """The scheduler as written, or the default for ``cell``; None if ``steps`` were not written."""
        if self.steps is None:
            return None
        if cell.resumes or self.scheduler is not None:
            return self.scheduler_for(self.scheduler or "hyperband")
        # Each promotion would train it again from the start: it is trained on until it is stopped.
        mode = self.mode if "mode" in self.written else "stop"
        return dataclasses.replace(self.scheduler_for("asha"), mode=mode)

    @property
    def notify(self) -> dict[str, Any] | None:
        """The notification settings, checked; None if not written."""
        from workbench.engine.telling.notify import checked

        return checked(self.webhook, self.command) if self.webhook or self.command else None

    @property
    def searcher_record(self) -> Searcher:
        """The searcher's record."""
        return Searcher(self.searcher)


@dataclass(frozen=True, slots=True)
class Option:
    """One option: how it is written, what it means, and how its words become a value.

    words: how many words follow; 0 for a flag. choices: the words that may follow, for completion and refusal. is_json:
    JSON may follow, which needs no quotes in a comment.
    """

    name: str
    field: str
    shown: str
    help: str
    words: int = 1
    read: Callable[..., Any] | None = None
    choices: tuple[str, ...] = ()
    #: A flag's value, or the value of an option written without its optional word.
    bare: Any = None
    is_json: bool = False


def _goal(*words: str) -> Goal:
    mode, metric = words
    if mode in ("maximize", "minimize", "maximise", "minimise"):
        mode = mode[:3]
    if mode not in ("max", "min") or not _METRIC.fullmatch(metric):
        raise wrong("goal", " ".join(words), "max or min, and the name of a reported metric", "max val_acc")
    return Goal(metric, "max" if mode == "max" else "min")


def _steps(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(?:(\d{1,12})-)?(\d{1,12})", text)
    first, last = (int(match[1] or 1), int(match[2])) if match else (0, 0)
    if not 1 <= first <= last:
        # The nearest valid range: 1-9 for 0-9 and for 9-1.
        low, high = sorted((max(first, 1), last)) if last else (1, 27)
        raise wrong("steps", text, "the steps of the first and the last rung, 1 ≤ first ≤ last", f"{low}-{high}")
    return first, last


def _whole(option: str, least: int, example: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,18}", text) or int(text) < least:
            digits = ", with 18 digits or fewer" if len(text) > 18 else ""
            raise wrong(option, text, f"a whole number of {least} or more{digits}", example)
        return int(text)

    return read


def _slots(text: str) -> dict[str, Any]:
    if text == AUTO or (re.search(r"\d", text) and "-" in text[1:]):
        return slots_of(text)
    part = re.fullmatch(r"1/(\d{1,6})", text)
    try:
        slots = 1 / int(part[1]) if part else float(text)
    except (ValueError, ZeroDivisionError):
        slots = 0.0
    if not is_slots(slots):
        raise wrong("slots", text, SLOTS, "0.25" if 0 < slots < 1 else "4")
    return {"slots": slots}


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise wrong("weight", text, "a number above 0", "2") from None


def _threads(text: str) -> int:
    from workbench.snapshot.surroundings.around import checked_threads

    return checked_threads(int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else text)


def _keep(text: str) -> Keep:
    try:
        return Keep.of(text)
    except BadOption:
        wanted = "experiment, best, latest and stopped, each with a whole number, or all"
        raise wrong("keep", text, wanted, "best=1,latest=1,stopped=1") from None


def _text(option: str, example: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not text.strip() or any(ord(letter) < 32 for letter in text):
            raise wrong(option, repr(text), "text without control characters", example)
        return text

    return read


def _on(option: str) -> Callable[[str], bool]:
    def read(text: str) -> bool:
        if text not in ("on", "off"):
            raise wrong(option, text, "on or off", "off")
        return text == "on"

    return read


def _alerts(text: str) -> tuple[str, ...]:
    from workbench.engine.telling.alerts import rules

    return tuple(rule.text for rule in rules(part for part in text.split(";") if part.strip()))


def _pattern(text: str) -> tuple[str, ...]:
    return (text,)


def _mirrors(text: str) -> tuple[Any, ...]:
    from workbench.exporter import mirrored

    return mirrored([text])


#: Every option, in the order in which help shows them.
OPTIONS: tuple[Option, ...] = (
    Option("goal", "goal", "max|min METRIC", "the metric that ranks trials, and whether to maximise or minimise it",
           words=2, read=_goal, choices=("max", "min")),
    Option("steps", "steps", "FIRST-LAST", "steps of the first and the last rung, in the loop's own unit (epochs); "
           "LAST is a trial's whole length", read=_steps),
    Option("scheduler", "scheduler", "hyperband|asha|median|all", "the rule that stops weak trials early "
           "(hyperband; all trains every trial to the end)", choices=("hyperband", "asha", "median", "all")),
    Option("eta", "eta", "N", "one in N continues at each rung (3)", read=_whole("eta", 2, "3")),
    Option("table", "table", "algorithm1|table1", "Hyperband's start sizes: the paper's Algorithm 1 (default) or its "
           "printed Table 1", choices=("algorithm1", "table1")),
    Option("mode", "mode", "promote|stop", "ASHA pauses at rungs and promotes (default), or trains on until stopped",
           choices=("promote", "stop")),
    Option("brackets", "brackets", "aggressive|standard|conservative", "ASHA's set of brackets",
           choices=("aggressive", "standard", "conservative")),
    Option("searcher", "searcher", "random|grid|sobol", "who proposes configurations (random)",
           choices=("random", "grid", "sobol")),
    Option("first", "first", "JSON|TABLE", "tries these configurations first: '{\"lr\": 0.1}', a list, or a .json, "
           ".jsonl or .csv file; the searcher proposes what they leave out", read=partial(read, option="first"),
           is_json=True),
    Option("configurations", "configurations", "JSON|TABLE", "trains exactly these configurations, written as for "
           "--first", read=partial(read, option="configurations"), is_json=True),
    Option("trials", "trials", "N", "how many configurations; Hyperband computes it",
           read=_whole("trials", 1, "100")),
    Option("seeds", "seeds_each", "N", "trains each configuration with so many seeds; means are compared (1)",
           read=_whole("seeds", 1, "3")),
    Option("parallel", "parallel", "N", "slots used at most", read=_whole("parallel", 1, "4")),
    Option("weight", "weight", "N", "share of slots that several experiments need, relative to the others' (1)",
           read=_weight),
    Option("priority", "priority", "N", "comes before experiments of lower priority, which make room (0)",
           read=_whole("priority", -100, "1")),
    Option("for", "limit_s", "TIME", "stop after this time: 8h, 30m, 1h30m", read=duration),
    Option("slots", "slots", "N|LEAST-MOST|auto",
           "slots of one trial: cores or GPUs (1); 2-8: as many as are free; 0.25: four trials in each; auto: measured",
           read=_slots),
    Option("strategy", "strategy", "replicate|fsdp", "slots have model copies or parts", choices=("replicate", "fsdp")),
    Option("threads", "threads", "N", "threads of one trial (1, or what a cell set with torch.set_num_threads)",
           read=_threads),
    Option("seed", "seed", "N", "seed of configurations and training (0)", read=_whole("seed", 0, "0")),
    Option("deterministic", "deterministic", "off|seeded|strict", "seeded (default) seeds everything, off nothing; "
           "strict also refuses algorithms that differ from run to run, and gives every leg a fresh process (what it "
           "costs: docs/performance.md)", choices=("off", "seeded", "strict"), bare="strict"),
    Option("save-every", "save_every", "STEPS|TIME", "checkpoints between levels: every 5 steps, every 10m (as often "
           "as they cost under a hundredth of the time)", read=save_every),
    Option("verify", "verify", "on|off", "check the first promotion against an undisturbed turn (on)",
           read=_on("verify"), choices=("on", "off")),
    Option("hang", "hang_s", "TIME", "a trial that reports nothing for so long counts as hung and is trained again "
           "(learned from how long steps take)", read=partial(duration, option="hang", example="30m")),
    Option("setup-limit", "setup_limit_s", "TIME", "a trial whose first step has not started after this time fails (no "
           "limit)", read=partial(duration, option="setup-limit", example="10m")),
    Option("keep", "keep", "RULE", "checkpoints that stay (experiment=1,best=1,latest=1,stopped=0): of the best "
           "trials, of each trial, of stopped trials too; or all", read=_keep),
    Option("from", "parent", "REF/tNNNN[:STEP]", "begin at a trial's checkpoint, such as digits@2/t0007:27 (a fork)",
           read=_text("from", "digits@2/t0007:27")),
    Option("notify", "webhook", "URL", "notify this webhook (a POST of JSON) of its end, stalls and alerts",
           read=_text("notify", "https://example.org/hook")),
    Option("notify-command", "command", "COMMAND", "the same with a command, which reads the JSON from its input",
           read=_text("notify-command", "my-notify")),
    Option("alert", "alerts", "RULES", "'loss is nan', 'no improvement in 10 steps', 'log ~ \"PATTERN\"'; several "
           "with ; between", read=_alerts),
    Option("script", "script", "FILE", "trains this script, or -m MODULE; its arguments follow --, or are the cell",
           read=_text("script", "train.py")),
    Option("metric", "metrics", "REGEX", "script: a pattern of the lines by which it prints its metrics",
           read=_pattern),
    Option("plan", "plan", "", "print what would be trained, and start nothing", words=0, bare=True),
    Option("try", "attempt", "", "train two steps of one trial in this kernel", words=0, bare=True),
    Option("wait", "wait", "", "keep the cell running until the experiment ends", words=0, bare=True),
    Option("again", "again", "", "train again, although this content was trained before", words=0, bare=True),
    Option("same", "same", "", "show what was trained before with this content, even if files, packages, variables or "
           "settings have changed", words=0, bare=True),
    Option("storage", "storage", "URL", "copies every level's checkpoint to a folder or a URL that fsspec knows, and "
           "takes it from there where the disk was lost (WORKBENCH_STORAGE)",
           read=_text("storage", "s3://bucket/workbench")),
    Option("mirror", "mirror", "WHERE", "shows each trial as a run of mlflow, tensorboard or wandb while it trains; "
           "mlflow:http://host:5000, tensorboard:runs, wandb:project; several with a comma", read=_mirrors),
    Option("keep-data", "keep_data", "SIZE|off", "files up to this size that training reads are kept, so that replay "
           "and why can put them back (50MB)", read=keep_data),
    Option("name", "name", "NAME", "the experiment's name (the notebook's, or the script's)", read=checked_name),
    Option("store", "store", "FOLDER", "where experiments are kept (.workbench beside the notebook)",
           read=_text("store", "/data/workbench")),
    Option("cluster", "cluster", "ADDRESS", "a Dask cluster's address (a local cluster)",
           read=_text("cluster", "tls://host:8786")),
)  # fmt: skip
_BY_NAME = {option.name: option for option in OPTIONS}


def parse(line: str, cell: str = "") -> Options:
    """The options in the magic's ``line`` and in the leading ``#|`` comments of ``cell``; the line wins over comments.

    Raises BadOption, which suggests the nearest option if one is unknown.
    """
    values: dict[str, Any] = {}
    for number, text in comments(cell):
        try:
            values.update(_read_comment(text, values))
        except (BadOption, BadName) as error:
            error.line = number
            raise
    values.update(_read_words(_split(line)))
    if "script" in values:
        values["words"] = (*values.get("words", ()), *split_arguments(_without_comments(cell)))
    elif "words" in values or "metrics" in values:
        given = "--metric" if "metrics" in values else "--"
        raise BadOption(f"{given} is for scripts. Expected --script with its file; for example: --script train.py.")
    return _made(values)


def parse_script(words: Sequence[str]) -> Options:
    """The options of ``workbench run``: the one word that belongs to no option is the script, and what follows ``--``
    are its arguments. Raises BadOption."""
    values = _read_words(list(words), alone="script")
    if "script" not in values:
        raise BadOption("workbench run: no script was given. For example: workbench run train.py --goal max val_acc.")
    return _made(values)


def _made(values: dict[str, Any]) -> Options:
    written = frozenset(values)
    return Options(**{**values, **values.get("slots", {})}, written=written)


def comments(cell: str) -> Iterable[tuple[int, str]]:
    """The leading ``#|`` lines of a cell's body without their mark, each with its line number; the magic's own line is
    line 1."""
    for number, line in enumerate(cell.splitlines(), 2):
        match = _COMMENT.fullmatch(line)
        if match:
            yield number, match[1]
        elif line.strip():
            return


def _without_comments(cell: str) -> str:
    return "\n".join(line for line in cell.splitlines() if not _COMMENT.fullmatch(line))


def _split(line: str) -> list[str]:
    if " -- " in f"{line} ":
        line, _, arguments = f"{line} ".partition(" -- ")
        return [*_split(line), "--", *split_arguments(arguments)]
    try:
        return shlex.split(line)
    except ValueError as error:
        raise BadOption(
            f"%%train {line}: {str(error).lower()}. Expected quotes in pairs; close the open one."
        ) from None


def _read_comment(text: str, values: Mapping[str, Any]) -> dict[str, Any]:
    name, _, rest = text.partition(":")
    name, rest = name.strip().removeprefix("--"), rest.strip()
    option = _known(name, "#| ", values)
    if name == "name":
        return {"name": checked_name(rest)}
    if option.words == 0:
        if rest.lower() not in ("", "true", "yes", "false", "no"):
            raise BadOption(f"#| {text}: expected true or false. Write #| {name}: true, or leave the line out.")
        return {} if rest.lower() in ("false", "no") else {option.field: option.bare}
    words = [rest] if option.is_json and rest.startswith(("{", "[")) else _split(rest)
    value, used = _value(option, words)
    if used < len(words):
        raise BadOption(
            f"#| {text}: {' '.join(words[used:])!r} is an unexpected argument. Write #| {name}: {option.shown}."
        )
    return {option.field: (*values.get("metrics", ()), *value) if option.field == "metrics" else value}


def _read_words(words: list[str], alone: Literal["name", "script"] = "name") -> dict[str, Any]:
    """alone: what a word is that belongs to no option."""
    values: dict[str, Any] = {}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            values["words"] = tuple(words[at:])
            break
        if word == "-m" and alone == "script":
            word, words = "--script", ["", *words[at - 1 :]]
            at = 1
        if not word.startswith("-") or word == "-":
            if alone == "script" and alone in values:
                raise BadOption(
                    f"workbench run was given two scripts, {values['script']!r} and {word!r}; expected one. Arguments "
                    f"of the script follow --, as in workbench run {values['script']} -- {word}."
                )
            if alone in values:
                raise BadOption(
                    f"%%train was given two names, {values['name']!r} and {word!r}; expected one. "
                    f'Put quotes around a name with spaces, as in %%train "{values["name"]} {word}".'
                )
            values[alone] = checked_name(word) if alone == "name" else word
            continue
        name, equals, rest = word.lstrip("-").partition("=")
        option = _known(name, "--", values)
        if option.words == 0:
            if equals:
                raise BadOption(f"{word}: --{name} takes no value. Write --{name}.")
            values[option.field] = option.bare
            continue
        value, used = _value(option, ([rest] if equals else []) + words[at:])
        values[option.field] = (*values.get("metrics", ()), *value) if option.field == "metrics" else value
        at += used - bool(equals)
    return values


def _value(option: Option, words: list[str]) -> tuple[Any, int]:
    """The option's value from the words that follow it, and how many of them it used."""
    if option.field == "script" and words[:1] == ["-m"]:
        name, used = _value(option, words[1:])
        return f"-m {name}", used + 1
    if option.bare is not None and (not words or words[0] not in option.choices):
        return option.bare, 0
    taken = words[: option.words]
    if len(taken) < option.words or any(word.startswith("--") for word in taken):
        raise BadOption(f"--{option.name} needs a value. Write --{option.name} {option.shown}.")
    if option.read is not None:
        return option.read(*taken), option.words
    if taken[0] not in option.choices:
        near = difflib.get_close_matches(taken[0], option.choices, n=1, cutoff=0.5)
        write = near[0] if near else option.choices[0]
        raise wrong(option.name, taken[0], " or ".join((", ".join(option.choices[:-1]), option.choices[-1])), write)
    return taken[0], 1


def _known(name: str, mark: str, values: Mapping[str, Any]) -> Option:
    """The option, which is not one of ``values`` yet. mark: what stands before it."""
    if (option := _BY_NAME.get(name)) is not None:
        if option.field in values and option.field != "metrics":
            raise BadOption(f"{mark}{name} was given twice; expected once. Leave one out.")
        return option
    near = difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=0.5)
    starts = [known for known in _BY_NAME if name and known.startswith(name)]
    nearest = next(iter(near or starts), None)
    after = ": " if mark == "#| " else " "
    advice = (
        f"Did you mean {mark}{nearest}{after if _BY_NAME[nearest].words else ''}{_BY_NAME[nearest].shown}".rstrip()
        + "?"
        if nearest
        else f"The options are {', '.join('--' + known for known in _BY_NAME)}."
    )
    raise BadOption(f"{mark}{name} is not an option of %%train. {advice}")


# ---------------------------------------------------------------------------------------------------------------------
# Help and completion


def help_text(apart: Collection[str] = ()) -> str:
    """The options but those ``apart``, two columns, as ``%%train?`` shows them."""
    import textwrap

    width = 34
    lines = []
    for option in (one for one in OPTIONS if one.name not in apart):
        head = f"  --{option.name} {option.shown}".rstrip()
        body = textwrap.wrap(option.help, 116 - width)
        if len(head) > width - 2:
            lines.append(head)
            head = ""
        lines += [f"{head if k == 0 else '':{width}}{text}" for k, text in enumerate(body)]
    return "\n".join(lines)


def completions(line: str) -> list[str]:
    """Words that may stand at the end of ``line`` (the text after ``%%train``, up to the cursor)."""
    words = line.split()
    fragment = "" if not words or line[-1:].isspace() else words.pop()
    before = next((word for word in reversed(words) if word.startswith("--")), None)
    since = len(words) - 1 - max((k for k, word in enumerate(words) if word.startswith("--")), default=len(words))
    option = _BY_NAME.get(before[2:]) if before else None
    if option is not None and option.choices and since == 0:
        return [word for word in option.choices if word.startswith(fragment)]
    if option is not None and option.words > since and option.bare is None:
        return []  # any value may follow here
    used = {word[2:].partition("=")[0] for word in words if word.startswith("--")}
    return [f"--{known.name}" for known in OPTIONS if known.name not in used and f"--{known.name}".startswith(fragment)]


def completions_comment(text: str) -> list[str]:
    """Words that may stand at the end of a ``#|`` line (the text after the mark, up to the cursor)."""
    name, colon, rest = text.partition(":")
    if not colon:
        return [f"{option.name}: " for option in OPTIONS if option.name.startswith(name.strip())]
    option = _BY_NAME.get(name.strip())
    words = rest.split()
    if option is None or len(words) > 1 or (words and rest[-1:].isspace()):
        return []
    return [word for word in option.choices if word.startswith(words[0] if words else "")]

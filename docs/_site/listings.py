"""Directives that list what the code defines, so that the guide cannot differ from it.

``{train-options}``: every option of ``%%train``. ``{verbs}``: every verb of ``workbench``, one short row each.
``{verb-options}``: the options of every verb. ``{environment}``: every environment variable.
"""

from __future__ import annotations

import argparse
import html
from collections.abc import Iterable
from typing import Any

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from workbench.cli.verbs import VERBS, parser_of
from workbench.experiment.grammar import OPTIONS

Row = tuple[str, str]


def escaped(text: str) -> str:
    """Text for a cell of a Markdown table, in which nothing is marked up."""
    return html.escape(text, quote=False).translate({ord(one): f"\\{one}" for one in "|*_`[]~$"})


def table(head: Row, rows: Iterable[Row]) -> list[str]:
    """A Markdown table of two columns; the first one is code."""
    return [
        f"| {head[0]} | {head[1]} |",
        "|---|---|",
        *(f"| `{code.replace('|', chr(92) + '|')}` | {escaped(words)} |" for code, words in rows),
        "",
    ]


class Listing(SphinxDirective):
    """A directive whose content is Markdown that :meth:`lines` makes."""

    def lines(self) -> list[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(self.lines()), allow_section_headings=True)


class TrainOptions(Listing):
    """Every option of ``%%train``, in the order of its help."""

    def lines(self) -> list[str]:
        return table(("option", "what it does"), ((f"--{one.name} {one.shown}".rstrip(), one.help) for one in OPTIONS))


class Verbs(Listing):
    """Every verb of ``workbench``."""

    def lines(self) -> list[str]:
        return table(("verb", "what it does"), ((f"workbench {name}", verb.help) for name, verb in VERBS.items()))


class VerbOptions(Listing):
    """A section for each verb, with its arguments and options."""

    def lines(self) -> list[str]:
        found: list[str] = []
        for name, verb in VERBS.items():
            found += [f"## {name}", "", escaped(f"{verb.help[0].upper()}{verb.help[1:]}. {verb.epilog}".strip()), ""]
            if verb.reads_words:
                found += ["The script, its arguments after `--`, and the [options of `%%train`](train.md).", ""]
            else:
                found += table(("argument", "what it is"), map(written, arguments(parser_of(name, verb))))
        return found


def arguments(parser: argparse.ArgumentParser) -> list[Any]:
    """The arguments of a verb, and of the verbs below it."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [one for inner in action.choices.values() for one in arguments(inner)]
        elif action.help is not argparse.SUPPRESS and not isinstance(action, argparse._HelpAction):
            found.append(action)
    return found


def written(action: Any) -> Row:
    """How an argument is written, and its help."""
    name = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    shown = " ".join(name) if isinstance(name, tuple) else str(name)
    if not action.option_strings:
        return shown if action.nargs not in ("?", "*") else f"[{shown}]", action.help or ""
    return f"{', '.join(action.option_strings)}{'' if action.nargs == 0 else f' {shown}'}", action.help or ""


#: The variables, and what each means. tests/guide compares the names with those that the code reads.
ENVIRONMENT: dict[str, str] = {
    "WORKBENCH_HOME": "the store's folder; the default is .workbench in the notebook's or the current folder",
    "WORKBENCH_STORES": "more stores for JupyterLab's panel, separated by :",
    "WORKBENCH_ADOPT": "stores that this process may run although you have not adopted them; absolute paths, with :",
    "WORKBENCH_CLUSTER": "the address of a Dask scheduler for engines that start; the default is a local cluster",
    "WORKBENCH_WORKERS": "the number of slots of a local cluster; the default is one for each GPU, else for each core",
    "WORKBENCH_IDLE": "seconds after which an engine without work ends (600)",
    "WORKBENCH_GRACE": "seconds for which trials train on after their engine was killed (60)",
    "WORKBENCH_AHEAD": "0: the extension and `workbench run` hold no process that is ready to become an engine",
    "WORKBENCH_DASHBOARD": "1: Dask's dashboard on this machine's loopback; it needs bokeh",
    "WORKBENCH_MACHINE": "the folder by which users of this machine share its slots (/var/lib/workbench); off: none",
    "WORKBENCH_QUOTA": "how much disk space a store may use, such as 50GB",
    "WORKBENCH_STORAGE": "a folder or URL to which checkpoints are copied, as --storage",
    "WORKBENCH_STEPS": "steps of a script or a cell outside of Workbench (10)",
}


class Environment(Listing):
    """Every environment variable that a person may set."""

    def lines(self) -> list[str]:
        return table(("variable", "what it means"), ENVIRONMENT.items())


def relink(app: Sphinx, docname: str, source: list[str]) -> None:
    """Lead links to the notebooks to their executed copies."""
    if "/" not in docname:
        source[0] = source[0].replace("](../notebooks/", "](notebooks/")


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx's door."""
    app.add_directive("train-options", TrainOptions)
    app.add_directive("verbs", Verbs)
    app.add_directive("verb-options", VerbOptions)
    app.add_directive("environment", Environment)
    app.add_lexer("mermaid", TextLexer)
    app.connect("source-read", relink)
    return {"parallel_read_safe": True}

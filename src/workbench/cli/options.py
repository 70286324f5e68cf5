"""What the options of all verbs are made of. Law: argparse alone."""

from __future__ import annotations

import argparse
import re
from typing import NoReturn

from workbench.errors import BadOption


class Parser(argparse.ArgumentParser):
    """argparse, except that it raises BadOption instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise BadOption with the message."""
        message = re.sub(r"argument (\S+): ignored explicit argument (.*)", r"\1 takes no value: \2 was given", message)
        stop = "" if message.endswith("?") else "."
        raise BadOption(f"{self.prog}: {message}{stop} {self.prog} --help shows what is allowed.")


def ref(parser: Parser, shown: str, meaning: str) -> None:
    """The experiment or trial that a verb is about. shown: its name in the usage line."""
    parser.add_argument("ref", metavar=shown, help=meaning)


def json(parser: Parser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON")

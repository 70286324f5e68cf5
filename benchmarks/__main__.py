"""``python -m benchmarks NAME [--json]``: run one benchmark and print what it measured.

A benchmark is a module of this package with ``measure(options) -> dict``; ``arguments(parser)``, where it has options
of its own; and ``lines(measured)``, where it prints a text of its own. Modules without ``measure`` are what benchmarks
share.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import json
import pkgutil
import platform
import sys
from typing import Any

import benchmarks
import workbench


def main(arguments: list[str] | None = None) -> int:
    """Run the named benchmark; 0 if it measured, 2 if there is no such benchmark."""
    names = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name != "__main__")
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("name", help=f"one of {', '.join(names)}")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    given = sys.argv[1:] if arguments is None else arguments
    name = next((argument for argument in given if not argument.startswith("-")), "")
    module = importlib.import_module(f"benchmarks.{name}") if name in names else None
    if module is None or not hasattr(module, "measure"):
        parser.parse_args(given)  # --help, or no name at all
        print(f"{name}: no such benchmark; wanted one of {', '.join(names)}", file=sys.stderr)
        return 2
    if hasattr(module, "arguments"):
        module.arguments(parser)
    options = parser.parse_args(given)
    # As an installed package is. A checkout where no bytecode is written is compiled again by each process.
    compileall.compile_dir(workbench.__path__[0], quiet=2)
    measured: dict[str, Any] = module.measure(options)
    measured = {"benchmark": name, "python": platform.python_version(), "machine": platform.machine(), **measured}
    if options.json:
        print(json.dumps(measured))
    else:
        for line in module.lines(measured) if hasattr(module, "lines") else _lines(measured):
            print(line)
    return 0


def _lines(measured: dict[str, Any], indent: str = "") -> list[str]:
    lines = []
    for key, value in measured.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}:", *_lines(value, indent + "  ")]
        else:
            lines.append(f"{indent}{key}: {f'{value:.4g}' if isinstance(value, float) else value}")
    return lines


if __name__ == "__main__":
    raise SystemExit(main())

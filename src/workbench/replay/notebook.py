"""A notebook that will be executed with parameters. Law: it is read and checked here; nothing is executed.

Later the text that was read here is executed, even if the file changes meanwhile.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench.errors import BadInput, BadOption, NotFound
from workbench.records import Json

#: Tags with a meaning in papermill: default values, and the values that it inserts after them.
PARAMETERS, INJECTED = "parameters", "injected-parameters"
#: A cell that asks the engine for trials itself. A notebook that waits for them must hold no slot that they may need.
_ASKS = re.compile(r"\s*%%train\b|^(?!\s*#).*\bExperiment\s*\(", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Task:
    """One requested execution: key, parameters, and their text (unique within a batch)."""

    key: str
    parameters: dict[str, Json]
    label: str


@dataclass(frozen=True, slots=True)
class NotebookCell:
    """One cell of the file: its kind, text and tags."""

    kind: str
    source: str
    tags: tuple[str, ...]

    @classmethod
    def of(cls, cell: Mapping[str, Any]) -> NotebookCell:
        """A cell of nbformat 4; its text may be a list of lines, as in files."""
        source, tags = cell["source"], cell.get("metadata", {}).get("tags")
        text = source if isinstance(source, str) else "".join(source)
        return cls(str(cell["cell_type"]), text, tuple(tags) if isinstance(tags, list | tuple) else ())


class SourceNotebook:
    """The notebook at ``path`` as it is now. Raises NotFound if there is none, BadInput if the file is not a
    notebook."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(Path(path).expanduser()))
        try:
            self.text = self.path.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"there is no notebook {path}. Name the file, such as train.ipynb.") from None
        except IsADirectoryError:
            raise BadInput(f"{path} is a folder; expected a notebook, such as train.ipynb.") from None
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{path} cannot be read ({error}); expected a notebook of Jupyter.") from None
        try:
            data = json.loads(self.text)
            if data.get("nbformat") != 4:
                import nbformat  # takes a second to import, so only for older notebooks

                data = nbformat.reads(self.text, as_version=4)
            #: Its cells, without those that an earlier execution inserted.
            self.all_cells = own_cells(data["cells"])
            #: The name of its kernel.
            self.kernel = str(data["metadata"].get("kernelspec", {}).get("name") or "python3")
        except Exception as error:
            said = (str(error).splitlines() or [type(error).__name__])[0]
            raise BadInput(f"{path} is not a notebook of Jupyter ({said}). Save it again in JupyterLab.") from None

    @property
    def cells(self) -> list[NotebookCell]:
        """Its code cells."""
        return [cell for cell in self.all_cells if cell.kind == "code"]

    @property
    def folder(self) -> Path:
        """The folder in which it is executed: next to its data, as in JupyterLab."""
        return self.path.parent

    @property
    def trains(self) -> bool:
        """Whether a cell asks the engine for trials."""
        return any(_ASKS.search(cell.source) for cell in self.cells)

    @cached_property
    def parameters(self) -> dict[str, str] | None:
        """The names that the cell tagged ``parameters`` assigns, each with the source text of its default.

        None if no cell has that tag.
        """
        found = next((cell for cell in self.cells if PARAMETERS in cell.tags), None)
        return None if found is None else assigned(found.source)

    def check(self, names: Sequence[str]) -> list[str]:
        """Refuse unknown parameters (BadOption) and a kernel that is not installed (NotFound). Returns notes for the
        user."""
        self._check_kernel()
        for name in names:
            if not name.isidentifier():
                raise BadOption(f"{name!r} is not a parameter: expected a name of Python, such as lr.")
        if not names:
            return []
        if self.parameters is None:
            return self._untagged(names)
        for name in names:
            if name not in self.parameters:
                taken = ", ".join(f"{one} ({value})" for one, value in self.parameters.items()) or "none"
                raise BadOption(
                    f"{self.path.name} has no parameter {name}; its cell tagged 'parameters' assigns {taken}. "
                    "Take one of these, or assign it there."
                )
        return []

    def _untagged(self, names: Sequence[str]) -> list[str]:
        for number, cell in enumerate(self.cells, 1):
            for name in names:
                if name in assigned(cell.source):
                    raise BadOption(
                        f"{self.path.name} has no cell tagged 'parameters', and its code cell {number} assigns {name}: "
                        "the value that you gave would be overwritten. Tag that cell 'parameters' (property "
                        "inspector, Cell Tags)."
                    )
        return [f"{self.path.name} has no cell tagged 'parameters': the values are set before its first cell"]

    def _check_kernel(self) -> None:
        from jupyter_client.kernelspec import KernelSpecManager

        known = KernelSpecManager().find_kernel_specs()
        if self.kernel not in known:
            raise NotFound(
                f"{self.path.name} needs the kernel {self.kernel}, which is not installed here. There is "
                f"{', '.join(sorted(known)) or 'none'}; choose one of them in JupyterLab and save the notebook."
            )

    def key(self, parameters: Mapping[str, Json]) -> str:
        """The identity of an execution: cells, kernel, folder and parameters."""
        return key_of(self.all_cells, self.kernel, self.folder, parameters)

    def tasks(self, rows: Sequence[Mapping[str, Json]]) -> list[Task]:
        """An execution for each row of parameters; equal rows give one."""
        found: dict[str, Task] = {}
        labels: set[str] = set()
        for row in rows:
            key = self.key(row)
            if key in found:
                continue
            label = words = shown(row)
            while label in labels:  # only hidden values may differ
                label = f"{words} ({len(found) + 1})"
            labels.add(label)
            found[key] = Task(key, dict(row), label)
        return list(found.values())


def own_cells(cells: Iterable[Mapping[str, Any]]) -> list[NotebookCell]:
    """The cells of a notebook without the values that papermill inserted."""
    return [cell for cell in map(NotebookCell.of, cells) if INJECTED not in cell.tags]


def key_of(cells: Iterable[NotebookCell], kernel: str, folder: Path | str, parameters: Mapping[str, Json]) -> str:
    """The fingerprint of an execution, from the notebook's own code cells. Outputs and Markdown do not count."""
    code = [cell.source for cell in cells if cell.kind == "code"]
    whole = [1, code, kernel, str(folder), dict(parameters)]
    return hashlib.sha256(json.dumps(whole, sort_keys=True, default=repr).encode(errors="surrogatepass")).hexdigest()


def assigned(source: str) -> dict[str, str]:
    """Names that a cell assigns at its top level, each with the text of its value; empty if the cell is not valid
    Python."""
    try:
        tree, text = ast.parse(source), source
    except (SyntaxError, ValueError):
        try:
            from IPython.core.inputtransformer2 import TransformerManager

            text = TransformerManager().transform_cell(source)
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            return {}
    found: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        else:
            continue
        names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
        found |= dict.fromkeys(names, ast.get_source_segment(text, value) or "")
    return found


def shown(parameters: Mapping[str, Json]) -> str:
    """Parameters on one line, without the values of secrets."""
    from workbench.store.lists.notebooks import label_of

    return label_of(without_secrets(parameters))


def without_secrets(parameters: Mapping[str, Json]) -> dict[str, Json]:
    """``parameters`` with values of secrets masked."""
    from workbench.snapshot.secrets.masking import MASK, is_secret, masked

    return {
        name: (MASK if is_secret(name) else masked(value)) if isinstance(value, str) else value
        for name, value in parameters.items()
    }

"""Execute the notebooks and keep them with their outputs in docs/notebooks/, for the guide: `make notebooks`.

They take some minutes, so `make docs` shows the kept ones. tests/guide fails if their cells are not those of
notebooks/.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import papermill

ROOT = Path(__file__).resolve().parents[2]
SOURCES, KEPT = ROOT / "notebooks", ROOT / "docs" / "notebooks"
#: Outputs of these types stay. Live views need a kernel, and nothing in a page may come from elsewhere.
SHOWN = ("image/png", "text/html", "text/plain")


def main(names: list[str]) -> None:
    """Execute the notebooks ``names``, all by default, one after the other."""
    KEPT.mkdir(exist_ok=True)
    for path in sorted(SOURCES.glob("*.ipynb")):
        if not names or path.stem in names:
            print(f"{path.name} …", flush=True)
            nbformat.write(still(executed(path)), KEPT / path.name)


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook at ``path``, executed in a new folder with a store of its own."""
    with tempfile.TemporaryDirectory(prefix="workbench-guide-") as name:
        folder = Path(name)
        os.environ["WORKBENCH_HOME"] = str(folder / ".workbench")
        out = folder / path.name
        quiet = ["--IPKernelApp.log_level=ERROR"]
        try:
            papermill.execute_notebook(
                path, out, cwd=folder, kernel_name="python3", progress_bar=False, extra_arguments=quiet
            )
        finally:
            stop = [sys.executable, "-m", "workbench", "engine", "stop", "--store", folder / ".workbench"]
            subprocess.run(stop, check=False, capture_output=True, stdin=subprocess.DEVNULL)
        text = out.read_text(encoding="utf-8").replace(name, "/home/me/digits")
        return nbformat.reads(text, as_version=4)


def still(book: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook without times of execution and without outputs that only a kernel can show."""
    book.metadata = {"kernelspec": book.metadata.get("kernelspec", {}), "language_info": {"name": "python"}}
    for number, cell in enumerate(book.cells):
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if shown(output)]
        # Links lead from notebooks/ to docs/, and the kept ones lie in docs/notebooks/.
        cell.source = cell.source.replace("](../docs/", "](../")
        cell.setdefault("id", f"cell-{number}")
    return book


def shown(output: nbformat.NotebookNode) -> bool:
    """Whether a page can show this output; leaves it only its types that a page can show."""
    if "data" in output:
        output.data = {kind: data for kind, data in output.data.items() if kind in SHOWN}
        output.metadata = {}
        return bool(output.data)
    return True


if __name__ == "__main__":
    main(sys.argv[1:])

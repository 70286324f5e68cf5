"""Run the quickstart unattended, as `make demo` does, and print the results: `python notebooks/demo.py [FOLDER]`.

Store, figure and executed notebook go into a separate folder (a new one under build/demo), so that the same cell in
JupyterLab still starts a search to watch.
"""

from __future__ import annotations

import base64
import logging
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import papermill

HERE = Path(__file__).resolve().parent
OF_PAPERMILL = re.compile(r"(Executing|Ending) (Cell|notebook)|(In|Out)put Notebook|Working directory|\s*$")


def main(folder: Path) -> int:
    """Exit code 0 when the search ended and the model was loaded and evaluated."""
    show_what_cells_print()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["WORKBENCH_HOME"] = str(folder / ".workbench")
    executed = folder / "quickstart.ipynb"
    try:
        papermill.execute_notebook(
            HERE / "quickstart.ipynb",
            executed,
            cwd=HERE,
            kernel_name="python3",
            log_output=True,
            progress_bar=False,
            extra_arguments=["--IPKernelApp.log_level=ERROR"],  # its warning about the transport on this machine
        )
    except papermill.PapermillExecutionError as error:
        print(error, file=sys.stderr)
        print(f"The notebook as far as it ran: {shown(executed)}", file=sys.stderr)
        return 1

    import workbench as wb  # after WORKBENCH_HOME is set

    exp = wb.open("digits")
    configuration = ", ".join(f"{name}={number(value)}" for name, value in exp.best.configuration.items())
    print()
    print(f"Best validation accuracy: {exp.best.value:.4f}")
    print(f"Best trial: {exp.label}/{exp.best.label} ({configuration})")
    print(f"Figure: {shown(figure(executed))}")
    print(f"Notebook: {shown(executed)}")
    print("Next: `make lab`, run the cell that begins with %%train, and watch the same search live.")
    return 0


def show_what_cells_print() -> None:
    """Print the cells' output from papermill's log, without its own lines about each cell."""
    shown = logging.StreamHandler(sys.stdout)
    shown.addFilter(lambda record: not OF_PAPERMILL.match(record.getMessage()))
    logger = logging.getLogger("papermill")
    logger.addHandler(shown)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def figure(executed: Path) -> Path:
    """The search's static figure, taken out of the executed notebook."""
    for cell in nbformat.read(executed, as_version=4).cells:
        if "%%train" not in cell.source:
            continue
        for output in cell.get("outputs", ()):
            picture = output.get("data", {}).get("image/png")
            if picture:
                path = executed.with_name("digits.png")
                path.write_bytes(base64.b64decode(picture))
                return path
    raise LookupError(f"The train cell left no figure in {executed}.")


def number(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def shown(path: Path) -> str:
    """A path as one would type it here."""
    return os.path.relpath(path)


if __name__ == "__main__":
    new = HERE.parent / "build" / "demo" / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    sys.exit(main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else new))

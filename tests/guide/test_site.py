"""The guide is built without a warning, its pages load nothing from elsewhere, and its lists are those of the code."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from guide.pages import DOCS, ROOT


class Assets(HTMLParser):
    """What a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        about = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.found.append(about.get("src") or "")
        if tag == "link" and about.get("rel") not in ("canonical", "next", "prev"):
            self.found.append(about.get("href") or "")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_guide_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    words = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-d",
        tmp_path / "trees",
        DOCS,
        tmp_path / "out",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = sorted((tmp_path / "out").rglob("*.html"))
    assert len(pages) > 80
    for page in pages:
        assets = Assets()
        assets.feed(page.read_text(encoding="utf-8"))
        assert not [one for one in assets.found if re.match(r"(https?:)?//", one)], page
    assert "--save-every" in (tmp_path / "out" / "reference" / "train.html").read_text()


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_of_the_guide_has_the_cells_of_the_notebook(path: Path):
    kept = nbformat.read(DOCS / "notebooks" / path.name, as_version=4)
    now = nbformat.read(path, as_version=4)
    sources = [[cell.source.replace("](../docs/", "](../") for cell in book.cells] for book in (now, kept)]
    assert sources[0] == sources[1], "run `make notebooks`"


def test_every_variable_that_the_code_reads_is_listed():
    listing = (DOCS / "_site" / "listings.py").read_text(encoding="utf-8")
    listed = set(re.findall(r'^    "(WORKBENCH_[A-Z]+)":', listing, flags=re.MULTILINE))
    #: Set by Workbench itself for processes that it starts.
    inner = {"WORKBENCH_SPAWNED", "WORKBENCH_SERVICE", "WORKBENCH_EVENT", "WORKBENCH_WORDS"}
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "workbench_ext" / "server").rglob("*.py")]
    read = {name for path in sources for name in re.findall(r"\"(WORKBENCH_[A-Z]+)\"", path.read_text("utf-8"))}
    assert listed == read - inner

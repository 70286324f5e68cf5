"""The guide: `make docs` builds it into build/docs. Nothing is fetched, by the build or by its pages."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_site"))

project = "Workbench"
author = "the Workbench contributors"
copyright = author  # noqa: A001 - Sphinx's name
version = release = installed("workbench")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "listings",
]
exclude_patterns = ["_site", "**/.ipynb_checkpoints", "Thumbs.db"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}

# The notebooks keep their outputs (`make notebooks` executes them).
nb_execution_mode = "off"
# Live views need a kernel; their scripts would come from another host.
nb_ipywidgets_js: dict[str, object] = {}
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 4

# Options are shown as they are typed.
smartquotes = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
add_module_names = False

html_theme = "furo"
html_title = f"Workbench {release}"
html_static_path = ["_site/static"]
html_css_files = ["guide.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "tango", "github-dark"
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

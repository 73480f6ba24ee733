"""The documentation: MyST pages, of which those with code are executed when they are built."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import fbar

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import page_kernels  # noqa: E402, which is found by now

project = "fbar"
author = "The fbar authors"
copyright = "The fbar authors"
version = release = fbar.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "command_help",
    "methods_by_name",
    "public_names",
    "reference_text",
    "stored_outputs",
    "target_kinds",
]
exclude_patterns = ["_build"]

# ---------------------------------------------------------------- pages

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
copybutton_exclude = ".linenos, .gp, .go"

nb_execution_mode = "force"
nb_execution_in_temp = True  # a page that writes files leaves none behind
nb_execution_raise_on_error = True
nb_execution_timeout = page_kernels.TIMEOUT
nb_merge_streams = True

page_kernels.prepare()

# ---------------------------------------------------------------- reference

default_role = "py:obj"  # `Name` in a docstring
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
autosummary_generate = False  # each name stands on the page of its group
nitpicky = True  # `Name` in a docstring leads somewhere
nitpick_ignore_regex = [
    ("py:class", ".*"),  # types in signatures, many of other packages
    ("py:obj", r"concurrent\..*"),
]
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_attr_annotations = False  # types stand in the signature
autodoc_type_aliases = {name: name for name in ("FloatArray", "IntArray", "BoolArray", "npt.ArrayLike", "npt.NDArray")}

# ---------------------------------------------------------------- looks

# Formulas are drawn by a script of ours, so that pages opened from disk need no network.
_mathjax = find_spec("sphinx-mathjax-offline")
if _mathjax is None or _mathjax.origin is None:
    raise SystemExit("the pages need sphinx-mathjax-offline: pip install 'fbar[docs]'")
mathjax_path = "tex-svg.js"

html_theme = "pydata_sphinx_theme"
html_title = "fbar"
html_static_path = ["_static", str(Path(_mathjax.origin).parent / "static" / "mathjax" / mathjax_path)]
html_css_files = ["fbar.css"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars: dict[str, list[str]] = {name: [] for name in ("index", "tutorial", "comparison", "citing")}
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

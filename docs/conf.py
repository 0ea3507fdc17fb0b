"""How the documentation is built.

``python -m sphinx -W --keep-going -b html docs docs/_build/html``

Nothing is fetched: formulas are MathML, and no other project's index is asked for.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]
# Examples that start worker processes need the package there too.
os.environ["PYTHONPATH"] = os.pathsep.join(
    part for part in (str(HERE.parent), os.environ.get("PYTHONPATH", "")) if part
)

import matplotlib  # noqa: E402

import skdirdp  # noqa: E402

matplotlib.use("agg")

project = "skdirdp"
author = "the skdirdp developers"
copyright = f"2026, {author}"
version = release = skdirdp.__version__

# Several classes have an attribute of one name, and a bare name in a list means the own one.
suppress_warnings = ["ref.python"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "fitted_names",
    "mathml",
    "results_page",
    "source_links",
]
exclude_patterns = ["_build", "_ext", "examples", "**.ipynb_checkpoints"]
templates_path = ["_templates"]
default_role = "py:obj"

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_title = f"skdirdp {release}"
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "skdirdp"},
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "article_header_start": [],
}
# Pages without siblings have nothing to show there.
ALONE = ("index", "quickstart", "choosing", "guarantees", "theory", "sampling", "faq", "glossary")
html_sidebars = {page: [] for page in ALONE}


sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "gallery_settings.ORDER",
    "reset_modules": ("matplotlib", "gallery_settings.raise_leak_warnings"),
    "abort_on_example_error": True,
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("skdirdp",),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 600,
    "remove_config_comments": True,
    "image_scrapers": ("matplotlib",),
}

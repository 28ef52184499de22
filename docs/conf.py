"""The documentation's settings: ``make docs`` builds it, without a network and without warnings."""

import importlib
import inspect
import warnings

import coverwalk

project = "coverwalk"
author = "the coverwalk authors"
copyright = author
release = version = coverwalk.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # MathJax in the pages themselves: they need no network
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "recipes", "auto_examples/*.ipynb", "auto_examples/*.py", "auto_examples/**/*.md5"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

templates_path = ["_templates"]
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say what they mean
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "download_all_examples": False,
}
warnings.filterwarnings("ignore", message=".*non-interactive.*")  # the gallery draws to files


def own_methods(module: str, name: str) -> list[str]:
    """Public methods of a class that are defined in coverwalk: those of other libraries have pages there."""
    thing = importlib.import_module(module)
    for part in name.split("."):
        thing = getattr(thing, part)
    functions = {n: inspect.unwrap(getattr(getattr(thing, n), "__func__", getattr(thing, n))) for n in dir(thing)}
    return [
        n
        for n, f in functions.items()
        if n[0] != "_" and inspect.isfunction(f) and f.__module__.startswith("coverwalk")
    ]


autosummary_context = {"own_methods": own_methods}
suppress_warnings = ["config.cache"]  # the function above is no value to keep

html_theme = "pydata_sphinx_theme"
html_title = "coverwalk"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_theme_options = {
    "header_links_before_dropdown": 6,  # the API is the fourth: one click from every page
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False
toc_object_entries_show_parents = "hide"

"""Sphinx configuration."""

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

import _gallery
import _generate
import _papers

import sksstruct

_generate.write(Path(__file__).parent)
_papers.write(Path(__file__).parent)

project = "sksstruct"
author = "The sksstruct developers"
copyright = "2026, the sksstruct developers"
version = release = sksstruct.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    # formulas without a network
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
]
exclude_patterns = ["_build", "auto_examples/*.ipynb"]
html_theme = "pydata_sphinx_theme"
html_title = "sksstruct"
# from "Get started" to "API"; the other pages are below "More"
html_theme_options = {"header_links_before_dropdown": 6}
html_show_sourcelink = False
# A button copies what is typed, without prompts and output; output has no button.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_selector = ":not(.sphx-glr-script-out) > div.highlight > pre"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# Pages without pages below them: a list of those would be an empty sidebar.
_ALONE = ("choose", "citing", "faq", "genindex", "glossary", "papers", "promises")
_ALONE += ("security", "versions", "whats_new")
html_sidebars = {page: [] for page in _ALONE}
# "fit()" instead of "ChainCRF.fit()" beside a page, where there is little room
toc_object_entries_show_parents = "hide"
default_role = "py:obj"

# The address of the published site, which has a folder for each version. Without it, as
# in continuous integration, the build needs no network.
if site := os.environ.get("SKSSTRUCT_SITE", "").rstrip("/"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }
    html_baseurl = f"{site}/{version}/"
    html_theme_options |= {
        # the reader's browser fetches it
        "switcher": {"json_url": f"{site}/switcher.json", "version_match": version},
        "check_switcher": False,
        "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    }

autosummary_generate = True
# without a list of attributes, which would be the parameters again
templates_path = ["_templates"]
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
# What a class page says after the list of its methods.
autodoc_default_options = {
    "members": True,
    "inherited-members": "CallbackSupportMixin, BaseEstimator, Pipeline, tuple, "
    "Sequence",
    # Made by scikit-learn, with references into its own documentation.
    "exclude-members": "get_metadata_routing, set_output, "
    + ", ".join(
        f"set_{method}_request"
        for method in ("fit", "partial_fit", "predict", "predict_proba", "score")
    ),
}
autodoc_typehints = "none"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": "plot_",
    "ignore_pattern": _gallery.left_out(),
    "within_subsection_order": "_gallery.position",
    "minigallery_sort_order": "_gallery.position",
    # every page of the API shows the examples that use its object
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("sksstruct",),
    "show_memory": False,
    # sharp on a phone
    "image_srcset": ["2x"],
    "parallel": 2,
    "write_computation_times": False,
    "abort_on_example_error": True,
}
# Figures of pages that are not examples: code of tutorials, which is shown, and scripts
# beside the page, which say that they are not; the build runs both.
plot_include_source = True
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 130)]
plot_apply_rcparams = True
plot_rcparams = {
    # readable on a phone
    "figure.figsize": (6, 3.7),
    "font.size": 13,
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "legend.fontsize": "small",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
}
suppress_warnings = ["config.cache"]


def _draw_tables_again(app, env, added, changed, removed):
    """Pages with figures of tables: the directive does not know what a script reads."""
    drawn = Path(app.doctreedir).parent / "plot_directive" / "benchmarks"
    shutil.rmtree(drawn, ignore_errors=True)
    return [page for page in env.found_docs if page.startswith("benchmarks/")]


def setup(app):
    """Called by Sphinx when it has loaded the extensions."""
    # It adds files to the site and reads nothing, but does not say so.
    app.extensions["sphinx-mathjax-offline"].parallel_read_safe = True
    app.connect("env-get-outdated", _draw_tables_again)

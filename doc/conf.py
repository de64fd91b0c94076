"""Sphinx configuration."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

import _generate
import _papers

import sksstruct
from sksstruct.datasets._fetch import get_data_home

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
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    # Figures of pages: the examples that draw them run in the build.
    "matplotlib.sphinxext.plot_directive",
]
plot_include_source = True
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 110)]
exclude_patterns = ["_build", "auto_examples/*.ipynb"]
html_theme = "pydata_sphinx_theme"
html_title = "sksstruct"
html_theme_options = {"header_links_before_dropdown": 5}
html_show_sourcelink = False
default_role = "py:obj"

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
    # Modules that examples import, and examples whose data are not there.
    "ignore_pattern": r"(_features\.py$)"
    + "".join(
        f"|({example})"
        for example, file in (
            ("plot_horses", "weizmann_horses64.npz"),
            ("plot_word_alignment", "matching/hansards_test.tsv.gz"),
            ("plot_keypoints", "matching/cmu_house_hotel.npz"),
        )
        if not (get_data_home() / file).is_file()
    ),
    "show_memory": False,
    "parallel": 2,
    "write_computation_times": False,
    "abort_on_example_error": True,
}
suppress_warnings = ["config.cache"]


def setup(app):
    """Called by Sphinx when it has loaded the extensions."""
    # It adds files to the site and reads nothing, but does not say so.
    app.extensions["sphinx-mathjax-offline"].parallel_read_safe = True

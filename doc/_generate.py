"""Pages that follow from the package: the API, and tables of what has a name.

What is registered is in the documentation: nothing here has to be changed for a new
solver, model or oracle. `write` is called by ``conf.py`` before Sphinx looks for pages.
"""

import importlib
import inspect
import re
from dataclasses import is_dataclass
from pathlib import Path

import sksstruct.inference
from sksstruct.inference.map import MAP_SOLVERS
from sksstruct.models import MODELS, StructuredModel
from sksstruct.solvers import SOLVERS

# Sections of the API page: title, module, and names that stay out.
_API = (
    # factor graphs have a section of their own
    ("Estimators", "sksstruct", ("__version__", "FactorGraph")),
    ("Models and score functions", "sksstruct.models", ()),
    ("Solvers", "sksstruct.solvers", ()),
    ("Losses", "sksstruct.losses", ()),
    ("Plots", "sksstruct.plotting", ()),
    ("Features", "sksstruct.feature_extraction", ()),
    ("Metrics", "sksstruct.metrics", ()),
    ("Data sets", "sksstruct.datasets", ()),
    ("In place of python-crfsuite", "sksstruct.crfsuite", ("CRFSUITE_VERSION",)),
    ("Clusters", "sksstruct.dask", ()),
    ("Inference", "sksstruct.inference", ()),
    ("Factor graphs", "sksstruct.factor_graphs", ()),
    ("MAP solvers", "sksstruct.inference.map", ()),
    ("Projections", "sksstruct.projections", ()),
    (
        "Utilities",
        "sksstruct.utils",
        (
            "packed.PackedSequences",
            "packed.PackedLabels",
            "estimator_checks.check_ragged_estimator",
        ),
    ),
)


def write(folder):
    """Write the API page and the tables below a folder.

    Parameters
    ----------
    folder : Path
        Where the documentation's sources are.
    """
    tables = folder / "generated" / "tables"
    tables.mkdir(parents=True, exist_ok=True)
    _update(folder / "api.rst", _api())
    for name, text in (
        ("solvers", _solvers()),
        ("models", _models()),
        ("oracles", _oracles()),
        ("map_solvers", _map_solvers()),
    ):
        _update(tables / f"{name}.inc", text)
    changes = folder.parent / "CHANGELOG.md"
    _update(tables / "changes.inc", _changes(changes.read_text(encoding="utf-8")))


def _update(path, text):
    # an unchanged page is not built again
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _changes(text):
    """The list of changes, which is in Markdown: headings, items and code."""
    _, *versions = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    lines = []
    for version, items in zip(versions[::2], versions[1::2], strict=True):
        code = re.sub(r"`+([^`]+)`+", r"``\1``", items.strip())
        lines += [version, "-" * len(version), "", code, ""]
    return "\n".join(lines)


def _api():
    lines = ["API", "===", ""]
    for title, module, names in _API:
        public = getattr(importlib.import_module(module), "__all__", None)
        if public is not None:
            names = [name for name in public if name not in names]
        lines += [title, "-" * len(title), "", f".. currentmodule:: {module}", ""]
        # signatures do not fit on a phone
        lines += [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
        lines += [f"   {name}" for name in names] + [""]
    return "\n".join(lines)


def _summary(documented):
    """First paragraph of a docstring, less a signature that Cython put there."""
    paragraphs = inspect.getdoc(documented).split("\n\n")
    first = paragraphs[0]
    if first.startswith(documented.__name__ + "("):
        first = paragraphs[1]
    return " ".join(first.split())


def _table(header, rows, style="described"):
    lines = [".. list-table::", "   :header-rows: 1", f"   :class: {style}", ""]
    for row in [header, *rows]:
        lines += [f"   {'-' if k else '* -'} {cell}" for k, cell in enumerate(row)]
    return "\n".join(line.replace("   - ", "     - ", 1) for line in lines) + "\n"


def _by_class(makers):
    """Names of each class that a registry makes objects of."""
    names = {}
    for name, maker in makers.items():
        names.setdefault(getattr(maker, "func", maker), []).append(name)
    return names


def _solvers():
    rows = [
        (
            f":class:`~sksstruct.solvers.{cls.__name__}`",
            ", ".join(names),
            " or ".join(cls.required_oracles),
            " and ".join(cls.losses),
            _summary(cls),
        )
        for cls, names in _by_class(SOLVERS.makers).items()
    ]
    return _table(("solver", "names", "oracle", "losses", "description"), rows)


def _models():
    names = {cls: name for name, cls in MODELS.items()}
    rows = [
        (
            f":class:`~sksstruct.models.{name}`",
            names.get(cls, ""),
            _summary(cls),
            _probabilities(cls),
        )
        for name in sksstruct.models.__all__
        if inspect.isclass(cls := getattr(sksstruct.models, name))
        and issubclass(cls, StructuredModel)
    ]
    header = "model", "name", "outputs", 'with ``loss="log"``'
    return _table(header, rows)


def _probabilities(cls):
    """The method that returns the probabilities of a model."""
    defined = cls._predict_marginals is not StructuredModel._predict_marginals
    if not getattr(cls, "_marginals_of", defined):
        return ""
    return "``predict_proba``" if cls.is_flat else "``predict_marginals``"


def _oracles():
    rows = [
        (f":obj:`~sksstruct.inference.{name}`", _summary(oracle))
        for name in sksstruct.inference.__all__
        # and not what oracles return
        if not is_dataclass(oracle := getattr(sksstruct.inference, name))
    ]
    return _table(("oracle", "description"), rows)


def _map_solvers():
    rows = [
        (
            f":class:`~sksstruct.inference.map.{cls.__name__}`",
            ", ".join(names),
            _summary(cls),
        )
        for cls, names in _by_class(MAP_SOLVERS).items()
    ]
    return _table(("solver", "names", "description"), rows)


if __name__ == "__main__":
    write(Path(__file__).parent)

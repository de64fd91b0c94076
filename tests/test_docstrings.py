"""Public docstrings are numpydoc, and their examples run."""

import doctest
import importlib
import inspect
import pkgutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from numpydoc.validate import validate

import sksstruct

# Not asked for: extended summaries, "See Also" everywhere, "Examples" of methods, names
# and descriptions of single returned values, and rules of layout.
IGNORED = {
    "GL01", "GL02", "GL03", "GL07", "GL08", "SA01", "SA04", "EX01", "ES01", "SS03",
    "SS05", "SS06", "RT02", "RT03", "RT05", "PR05", "PR06", "PR08", "PR09", "YD01",
}  # fmt: skip
PUBLIC = (
    "sksstruct",
    "sksstruct.solvers",
    "sksstruct.inference",
    "sksstruct.inference.map",
    "sksstruct.factor_graphs",
    "sksstruct.losses",
    "sksstruct.models",
    "sksstruct.plotting",
    "sksstruct.projections",
    "sksstruct.feature_extraction",
    "sksstruct.metrics",
    "sksstruct.crfsuite",
    "sksstruct.datasets",
    "sksstruct.utils.packed",
    "sksstruct.utils.estimator_checks",
    *(["sksstruct.dask"] if find_spec("distributed") else []),
)
# Public names without an example, and why.
WITHOUT_EXAMPLE = {
    "sksstruct.crfsuite.ModelInfo": "Tagger.info returns it",
    "sksstruct.crfsuite.TrainingLog": "Trainer.train makes it",
    "sksstruct.dask.DaskExecutor": "the estimators of sksstruct.dask make it",
    "sksstruct.inference.map.MAPSolver": "doc/developers/map_solver.rst has one",
    "sksstruct.solvers.SolverResult": "solvers return it to estimators",
}
# Their examples print nothing where all is well.
SILENT = {"sksstruct.utils.estimator_checks.check_ragged_estimator"}
# Their examples are skipped, as users download the data; `test_examples_with_data` runs
# them where the data are.
WITH_DATA = {
    "sksstruct.datasets.fetch_conll2000",
    "sksstruct.datasets.fetch_ocr_letters",
    "sksstruct.datasets.load_cmu_house",
    "sksstruct.datasets.load_hansards",
    "sksstruct.datasets.load_multilabel",
    "sksstruct.datasets.load_weizmann_horses",
}


def public_objects():
    for module_name in PUBLIC:
        module = importlib.import_module(module_name)
        names = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_")
            and getattr(value, "__module__", None) == module_name
        ]
        for name in names:
            value = getattr(module, name)
            if not callable(value) or "scorer" in name:
                continue
            yield f"{module_name}.{name}"
            if inspect.isclass(value):
                for method, function in vars(value).items():
                    if not method.startswith("_") and inspect.isfunction(function):
                        yield f"{module_name}.{name}.{method}"


def classes_and_functions():
    """Public classes and functions by name, factories of scorers included."""
    for module_name in PUBLIC:
        module = importlib.import_module(module_name)
        names = getattr(module, "__all__", None) or [
            name.rpartition(".")[2]
            for name in public_objects()
            if name.rpartition(".")[0] == module_name
        ]
        for name in names:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                yield f"{module_name}.{name}", value


def examples_of(value):
    """The examples of a docstring that have an output."""
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(value) or "")
    return [example for example in examples if example.want]


def test_every_public_name_has_an_example():
    without, skipped = set(), set()
    for name, value in classes_and_functions():
        examples = examples_of(value)
        if not examples or "Examples\n--------\n" not in inspect.getdoc(value):
            without.add(name)
        elif all(doctest.SKIP in example.options for example in examples):
            skipped.add(name)
    if find_spec("distributed") is None:
        without.add("sksstruct.dask.DaskExecutor")
    assert without == set(WITHOUT_EXAMPLE) | SILENT
    assert skipped == WITH_DATA


@pytest.mark.parametrize("name", sorted(WITH_DATA))
def test_examples_with_data(name, data_home, monkeypatch):
    monkeypatch.setenv("SKSSTRUCT_DATA", str(data_home))
    value = dict(classes_and_functions())[name]
    (test,) = doctest.DocTestFinder(recurse=False).find(value, name)
    for example in test.examples:
        example.options.pop(doctest.SKIP, None)
    assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize("name", sorted(set(public_objects())))
def test_numpydoc(name):
    errors = [error for error in validate(name)["errors"] if error[0] not in IGNORED]
    assert not errors, errors


def bad_headings(text):
    """Headings of sections without a blank line before them, or a rule of their length.

    numpydoc would take such a section for a part of the one before.
    """
    lines = [line.strip() for line in text.splitlines()]
    return [
        title
        for before, title, rule in zip(lines, lines[1:], lines[2:], strict=False)
        if len(rule) > 2
        and set(rule) == {"-"}
        and (len(title) != len(rule) or (before and not before.endswith('"""')))
    ]


def test_bad_headings_are_found():
    good = "Sum.\n\n    Returns\n    -------\n    total : float\n"
    assert not bad_headings(good)
    assert bad_headings(good.replace("\n\n", "\n")) == ["Returns"]
    assert bad_headings(good.replace("Returns", "Result")) == ["Result"]


def test_headings_in_sources():
    """In compiled and private functions, too."""
    folder = Path(sksstruct.__file__).parent
    paths = [*folder.rglob("*.py"), *folder.rglob("*.pyx"), *folder.rglob("*.pxd")]
    found = {path: bad_headings(path.read_text(encoding="utf-8")) for path in paths}
    assert not {path: titles for path, titles in found.items() if titles}


def test_shared_texts_are_filled_in():
    """By `fill_doc`, in inherited methods and class methods, too."""
    for _, value in classes_and_functions():
        for part in (value, *(getattr(value, name, None) for name in dir(value))):
            text = getattr(part, "__doc__", None)
            if isinstance(text, str):
                assert "%(" not in text, (value, part)
                assert not bad_headings(text), (value, part)


def test_parameters_and_docstrings_agree():
    """Every constructor parameter is documented, and no other."""
    from numpydoc.docscrape import NumpyDocString

    classes = [
        value
        for module in PUBLIC
        for value in vars(importlib.import_module(module)).values()
        if inspect.isclass(value)
        and hasattr(value, "get_params")
        and value.__module__.startswith("sksstruct.")
    ]
    assert len(set(classes)) > 15
    for cls in set(classes):
        documented = {
            name.strip()
            for parameter in NumpyDocString(inspect.cleandoc(cls.__doc__))["Parameters"]
            for name in parameter.name.split(",")
        }
        signature = inspect.signature(cls)
        assert documented == set(signature.parameters), cls
        # what `help` and the documentation print
        assert "Annotated" not in str(signature), cls


def modules():
    for info in pkgutil.walk_packages(sksstruct.__path__, "sksstruct."):
        if not info.name.endswith("_cyutility"):
            yield info.name


# What examples need besides the hard dependencies.
NEEDED = {
    "sksstruct.inference.map.cp_sat": "ortools",
    "sksstruct.inference.map.toulbar2": "pytoulbar2",
    "sksstruct.models.scores.jax_score": "jax",
    "sksstruct.models.scores.torch_score": "torch",
}


@pytest.mark.parametrize("name", ["sksstruct", *modules()])
def test_examples_in_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    monkeypatch.setenv("MPLBACKEND", "Agg")
    if name.startswith("sksstruct.plotting."):
        pytest.importorskip("matplotlib")
    elif name in NEEDED:
        pytest.importorskip(NEEDED[name])
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0

"""Names and modules of the packages whose ``__init__`` imports little."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import sksstruct

LAZY = ["sksstruct"] + [
    f"sksstruct.{name}"
    for name in ("datasets", "feature_extraction", "inference", "projections")
]
HEAVY = {"scipy", "joblib", "sklearn", "matplotlib", "pandas"}


def run(code):
    """Run code in a new process, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(sksstruct.__file__).parents[1],
    )
    return done.stdout.strip()


@pytest.mark.parametrize("package", LAZY)
def test_names_are_those_that_type_checkers_read(package):
    module = import_module(package)
    tree = ast.parse(Path(module.__file__).read_text())
    declared = {}
    for block in ast.walk(tree):
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for line in block.body:
                for alias in line.names:
                    declared[alias.name] = line.module
    for name in set(module.__all__) - {"__version__"}:
        value = getattr(module, name)
        assert value is getattr(import_module(declared[name]), name)
        assert name in vars(module)
    modules = {name for name, home in declared.items() if home == package}
    assert set(declared) - modules == set(module.__all__) - {"__version__"}
    if package == "sksstruct":
        folders = Path(module.__file__).parent.glob("[a-z]*/__init__.py")
        assert modules == {path.parent.name for path in folders}
        assert modules <= set(dir(module))
    assert set(module.__all__) <= set(dir(module))


def test_everything_is_reached_by_attribute():
    code = (
        "import sksstruct, sys\n"
        f"assert not {HEAVY | {'numpy'}} & set(sys.modules)\n"
        "assert sksstruct.metrics.chunk_f1_score\n"
        "assert sksstruct.inference.map.MAP_SOLVERS\n"
        "assert sksstruct.utils.packed.PackedSequences\n"
        "assert sksstruct.utils.estimator_checks\n"
        "from sksstruct import *\n"
        "print(ChainCRF is sksstruct.estimators.ChainCRF)"
    )
    assert run(code) == "True"


def test_what_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'sksstruct' has no attribute 'Nothing'"):
        getattr(sksstruct, "Nothing")  # noqa: B009
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from sksstruct import Nothing")


def test_a_dependency_that_is_missing():
    """The module is listed; its import says what to install."""
    code = (
        "import sys; sys.modules['distributed'] = None\n"
        "import sksstruct\n"
        "assert 'dask' in dir(sksstruct) and not hasattr(sksstruct, 'dask')\n"
        "try:\n    from sksstruct import dask\n"
        "except ImportError as error:\n    print(error)"
    )
    assert "pip install 'sksstruct[dask]'" in run(code)

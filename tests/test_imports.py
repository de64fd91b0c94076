"""Imports go down only, in no circle: estimators -> solvers, models -> ... -> utils."""

import re
import subprocess
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest

import sksstruct

ROOT = Path(sksstruct.__file__).parent
MAY_IMPORT = {
    "estimators": {
        "estimators",
        "factor_graphs",
        "feature_extraction",
        "inference",
        "losses",
        "models",
        "solvers",
        "utils",
    },
    # above all others
    "dask": {
        "dask",
        "estimators",
        "feature_extraction",
        "models",
        "solvers",
        "utils",
    },
    # also above: names of other packages, for the same models
    "crfsuite": {
        "crfsuite",
        "estimators",
        "feature_extraction",
        "inference",
        "metrics",
        "utils",
    },
    "commands": {
        "commands",
        "crfsuite",
        "datasets",
        "estimators",
        "feature_extraction",
        "inference",
        "metrics",
        "utils",
    },
    "losses": {"losses", "utils"},
    # The abstract bound models are all that a solver knows of models, and what is built
    # on them by type; and minimum cuts, which one solver makes with scores of its own,
    # of inference.
    "solvers": {
        "inference.cuts",
        "losses",
        "solvers",
        "models.protocols",
        "models.roles",
        "projections",
        "utils",
    },
    "models": {
        "factor_graphs",
        "models",
        "inference",
        "losses",
        "projections",
        "utils",
    },
    "inference": {"factor_graphs", "inference", "projections", "utils"},
    "factor_graphs": {"factor_graphs", "utils"},
    "projections": {"projections", "utils"},
    "utils": {"utils"},
    "metrics": {"metrics", "utils"},
    "datasets": {"datasets", "factor_graphs", "utils"},
    "feature_extraction": {"feature_extraction", "utils"},
    "plotting": {"metrics", "plotting", "utils"},
}
# estimator_checks is for estimators, and names one in its example only.
IMPORT = re.compile(r"^\s*(?:from\s+sksstruct\.([\w.]+)\s+c?import|"
                    r"c?import\s+sksstruct\.([\w.]+)|"
                    r"from\s+sksstruct\s+c?import\s+(\w+))", re.MULTILINE)  # fmt: skip
# What only type checkers read, up to the next line that is not indented.
ONLY_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:(?:[ ].*)?\n)+", re.MULTILINE)
SOURCES = [p for suffix in ("py", "pyx", "pxd") for p in ROOT.rglob(f"*.{suffix}")]


def imported(source):
    """Modules of the library that a source imports when it runs."""
    for match in IMPORT.finditer(ONLY_TYPES.sub("", source)):
        yield match[1] or match[2] or match[3]


def floor(path):
    return path.relative_to(ROOT).parts[0]


def test_every_folder_has_its_floor():
    folders = {p.name for p in ROOT.iterdir() if (p / "__init__.py").is_file()}
    assert folders == set(MAY_IMPORT)


@pytest.mark.parametrize(
    "path",
    [p for p in SOURCES if p.parent != ROOT],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_imports_go_down(path):
    allowed = MAY_IMPORT[floor(path)]
    for name in imported(path.read_text()):
        assert any(
            name == floor_name or name.startswith(floor_name + ".")
            for floor_name in allowed
        ), f"{path.name} imports sksstruct.{name}"


def test_the_rule_sees_violations():
    source = (
        "from sksstruct.models.chain cimport X\n    import sksstruct.estimators.y\n"
        "from sksstruct import solvers\n"
        "if TYPE_CHECKING:\n    import a\n\n    from sksstruct.models import z\n"
        "else:\n    from sksstruct import losses\n"
    )
    found = list(imported(source))
    assert found == ["models.chain", "estimators.y", "solvers", "losses"]


def modules_of(sources):
    """For each module those that it names, also in functions and for types alone."""
    graph = defaultdict(set)
    for path, source in sources.items():
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        # a kernel imports its own declarations
        graph[name] |= {m[1] or m[2] or m[3] for m in IMPORT.finditer(source)} - {name}
    return graph


def test_there_is_no_circle_of_modules():
    sources = {path.relative_to(ROOT): path.read_text() for path in SOURCES}
    graph = modules_of(sources)
    assert "models" in graph["estimators.chain_crf"]
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(
    "back",
    ["    from sksstruct.a.x import f", "if TYPE_CHECKING:\n    import sksstruct.a.x"],
)
def test_hidden_circles_are_seen(back):
    sources = {
        "a/x.py": "from sksstruct.a import y",
        "a/__init__.py": "",
        "a/y.pyx": back,
    }
    sources["a/__init__.py"] = "from sksstruct.a.y import g"
    with pytest.raises(CycleError, match=r"a\.x"):
        graph = modules_of({Path(path): text for path, text in sources.items()})
        TopologicalSorter(graph).prepare()


@pytest.mark.slow
def test_nothing_heavy_is_imported():
    """A fresh interpreter imports all packages; nothing heavy comes with them.

    Any of them imports the estimators, and so most of the others, first.
    """
    names = [name for name in MAY_IMPORT if name != "dask" or find_spec("distributed")]
    code = (
        "import importlib, sys\n"
        f"for name in {names}:\n"
        "    importlib.import_module(f'sksstruct.{name}')\n"
        "    heavy = {'matplotlib', 'hypothesis', 'pytest'} & set(sys.modules)\n"
        "    assert not heavy, (name, heavy)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT.parent)


def test_compiled_classes_know_their_module():
    """Pickles and skops find extension types by their module."""
    from sksstruct.models.chain._chain import BoundChain
    from sksstruct.models.chain._workspace import ChainWorkspace
    from sksstruct.models.protocols._bound_model import BoundModel, Workspace
    from sksstruct.solvers.frank_wolfe._bcfw import BCFWKernel
    from sksstruct.solvers.frank_wolfe._sampling import SumTree

    for cls in (BoundModel, Workspace, BoundChain, ChainWorkspace, BCFWKernel, SumTree):
        assert cls.__module__.startswith("sksstruct."), cls


# Kernels whose set-up has not moved to Python yet, by folder: nothing is to be added.
WITH_NUMPY = {
    "feature_extraction": "_collect _hashed _phrases _rows",
    "inference/assignment": "_paths",
    "inference/chains": "_ordered_table _pair_index _second_order",
    "inference/map/gdmm": "_edge_search _toplists",
    "inference/map/local_search": "_buckets _elimination",
    "inference/map/sum_product": "_forests",
    "inference/search": "_best_first",
    "models/binary": "_binary _coordinates",
    "models/chain": (
        "_chain _entropy_dual _factors _means _pair_features _smooth "
        "_sparse _sparse_training"
    ),
    "models/matching": "_matching",
    "models/multiclass": "_multiclass",
    "models/multilabel": "_expected_f1",
    "models/protocols": (
        "_bound_model _cliques _entropy_dual _factors _topk_hinge _weights"
    ),
    "models/tables": "_blocks _columns _feature_rows _smooth _structure _table",
    "solvers/dual_decomposition": "_clique_state _feasible _multipliers",
    "solvers/frank_wolfe": "_sampling",
}


def test_kernels_leave_numpy_to_python():
    kernels = sorted(ROOT.rglob("*.pyx"))
    if not kernels:
        pytest.skip("not a source checkout")
    found = {
        path.relative_to(ROOT).with_suffix("").as_posix()
        for path in kernels
        if "import numpy" in path.read_text()
    }
    assert found == {
        f"{folder}/{name}"
        for folder, names in WITH_NUMPY.items()
        for name in names.split()
    }

"""Parameters without scikit-learn read as those of estimators do."""

import subprocess
import sys
from numbers import Real
from pathlib import Path

import numpy as np
import pytest
from sklearn import clone
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

import sksstruct
from sksstruct import LPMAPPredictor
from sksstruct.inference.map import (
    MAPGDMM,
    TRWS,
    BeliefPropagation,
    HiGHS,
    MAPBinaryGDMM,
)
from sksstruct.utils._parameters import Number, random_source

CHANGED = [
    TRWS(max_iter=3, search=False), MAPGDMM(rho=0.5), HiGHS(relaxed=True),
    MAPBinaryGDMM(activations=2), BeliefPropagation("trw", damping=0.5),
]  # fmt: skip


@pytest.mark.parametrize("solver", CHANGED, ids=repr)
def test_same_as_scikit_learn(solver):
    params = solver.get_params()
    assert list(params) == sorted(params)
    copy = clone(solver)
    assert copy is not solver
    assert copy.get_params() == params
    assert repr(copy) == repr(solver)
    assert type(solver)().set_params(**params).get_params() == params
    # the text is that of an estimator with the same parameters
    twin = type(type(solver).__name__, (type(solver), BaseEstimator), {})
    text = BaseEstimator.__repr__(twin(**params))
    assert text == repr(solver)
    with pytest.raises(ValueError, match=r"Invalid parameter 'n' .*max_iter"):
        solver.set_params(n=1)


def test_nested_parameters():
    predictor = LPMAPPredictor(solver=TRWS())
    assert predictor.get_params()["solver__max_iter"] == 1000
    predictor.set_params(solver__max_iter=7)
    assert clone(predictor).solver.max_iter == 7
    assert "TRWS(max_iter=7)" in repr(predictor)
    assert "TRWS" in predictor._repr_html_()


@pytest.mark.parametrize(
    ("solver", "text"),
    [
        (TRWS(max_iter=0), r"'max_iter' parameter of TRWS must be an int in the range"),
        (TRWS(max_iter=2.0), "'max_iter'.*must be an int"),
        (TRWS(tol=np.nan), "'tol'"),
        (TRWS(search="yes"), "'search'"),
        (MAPGDMM(rho=0.0), "'rho'.*must be a str among {'auto'} or a float"),
        (MAPGDMM(rho="none"), "'rho'"),
        (MAPGDMM(rho=np.ones(2)), "'rho'"),
        (BeliefPropagation("none"), "'kind'"),
        (BeliefPropagation(damping=1.0), "'damping'"),
    ],
)
def test_errors_are_those_of_scikit_learn(solver, text):
    with pytest.raises(ValueError, match=text):
        solver.check()


def test_what_is_allowed():
    TRWS(max_iter=np.int32(3), tol=0, search=np.bool_(True)).check()
    MAPGDMM(rho=np.float32(0.5)).check()
    assert Number(Real, 0).accepts(np.inf)
    assert not Number(Real, 0, 1).accepts(1)


def test_random_source():
    generator = np.random.RandomState(3)
    assert random_source(generator) is generator
    assert random_source(None) is check_random_state(None)
    draws = [seed(3).randint(1000, size=5) for seed in (random_source,) * 2]
    assert (draws[0] == check_random_state(3).randint(1000, size=5)).all()
    assert (draws[0] == draws[1]).all()
    with pytest.raises(ValueError, match="cannot be used to seed"):
        random_source("a")


@pytest.mark.parametrize("more", [[], ["--tol", "0.1", "--solver", "trws"]])
def test_map_starts_without_scikit_learn(tmp_path, more):
    path = tmp_path / "a.wcsp"
    path.write_text("s 2 2 1 9\n2 2\n2 0 1 0 1\n0 0 3\n")
    code = (
        "import sys\n"
        "from sksstruct.commands import main\n"
        f"assert main(['map', {str(path)!r}, *{more}]) == 0\n"
        "heavy = {'scipy', 'joblib', 'sklearn', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    root = Path(sksstruct.__file__).parents[1]
    run = [sys.executable, "-c", code]
    subprocess.run(run, check=True, cwd=root, capture_output=True)

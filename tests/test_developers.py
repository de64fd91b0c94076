"""The worked examples of the developers' pages: built from the pages, and used."""

import importlib
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import sksstruct
from sksstruct import ChainCRF, LPMAPPredictor, SSVMClassifier
from sksstruct.datasets import make_chain
from sksstruct.factor_graphs import FactorGraph
from sksstruct.losses import Hinge, SmoothedHinge
from sksstruct.models import check_model
from sksstruct.solvers import SOLVERS

PAGES = Path(__file__).parents[1] / "doc" / "developers"
INCLUDED = re.compile(r"^\.\. literalinclude:: (?!\.\./)(\S+)$", re.MULTILINE)


def included(page):
    """Files that a page shows."""
    return INCLUDED.findall((PAGES / f"{page}.rst").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Import a module of the package that the pages show, and nothing else."""
    folder = tmp_path_factory.mktemp("developers")
    (folder / "afternoon").mkdir()
    (folder / "afternoon" / "__init__.py").touch()
    for page in ("oracle", "model", "solver", "map_solver"):
        for name in included(page):
            (folder / name).write_bytes((PAGES / name).read_bytes())
    # sksstruct may stand in the folder of the tests without being installed
    path = str(Path(sksstruct.__file__).parents[1])
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=folder,
        # optimized, it would be no quicker here
        env={**os.environ, "PYTHONPATH": path, "CFLAGS": "-O0 -g0"},
        check=True,
    )
    sys.path.insert(0, str(folder))
    yield lambda name: importlib.import_module(f"afternoon.{name}")
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.split(".")[0] == "afternoon"]:
        del sys.modules[name]


def intervals(n_sequences, seed=0):
    """Sequences with an interval where the first feature is larger."""
    rng = np.random.RandomState(seed)
    X, y = [], []
    for _ in range(n_sequences):
        n_positions = rng.randint(1, 9)
        start = rng.randint(n_positions)
        stop = rng.randint(start + 1, n_positions + 1)
        x = rng.normal(size=(n_positions, 3))
        x[start:stop, 0] += 2.0
        X.append(x)
        y.append((start, stop))
    return X, y


def test_pages_show_files():
    for page in ("oracle", "model", "solver", "map_solver"):
        assert included(page)
    shown = {name for page in PAGES.glob("*.rst") for name in included(page.stem)}
    files = {f"afternoon/{path.name}" for path in (PAGES / "afternoon").iterdir()}
    assert shown == (files | {"setup.py"}) - {"afternoon/__init__.py"}


@pytest.mark.slow
def test_oracle(build):
    best_interval = build("_interval").best_interval
    rng = np.random.RandomState(0)
    for _ in range(300):
        # integers tie
        scores = rng.randint(-3, 4, size=rng.randint(1, 9)).astype(float)
        n = len(scores)
        every = {
            (a, b): scores[a:b].sum() for a in range(n) for b in range(a + 1, n + 1)
        }
        interval, score = best_interval(scores)
        assert score == every[interval] == max(every.values())
    with pytest.raises(ValueError, match="finite numbers"):
        best_interval([np.nan])


@pytest.mark.slow
def test_model(build):
    model = build("interval").IntervalModel()
    X, y = intervals(40)
    check_model(model, X, y)
    auto = SSVMClassifier(model, alpha=0.1, tol=1e-3, random_state=0).fit(X, y)
    for name in SOLVERS.names("max", losses=("hinge",)):
        peer = SSVMClassifier(model, alpha=0.1, tol=0.01, solver=name, random_state=0)
        peer.fit(X, y)
        assert auto.objective_ - auto.dual_gap_ <= peer.objective_ + 1e-9
        assert peer.objective_ - peer.dual_gap_ <= auto.objective_ + 1e-9
    X_test, y_test = intervals(200, seed=1)
    exact = (np.array(auto.predict(X_test)) == y_test).all(axis=1)
    assert exact.mean() > 0.4
    with pytest.raises(ValueError, match=r"y\[1\] must be an interval of"):
        auto.fit(X, [y[0], (5, 2), *y[2:]])


@pytest.mark.slow
def test_model_oracles(build):
    """Losses, solvers and methods that come with the oracles of the structure."""
    model = build("interval").IntervalModel()
    X, y = intervals(25)
    for loss, oracle in (("log", "exp"), (SmoothedHinge("l2", k=4), "topk")):
        fits = [
            SSVMClassifier(
                model, alpha=0.1, loss=loss, solver=name, tol=0.01, random_state=0
            ).fit(X, y)
            for name in SOLVERS.names(oracle, losses=("smooth",))
        ]
        values = [fit.objective_ for fit in fits]
        assert len(fits) > 4
        assert max(values) - min(values) <= 0.02 * min(values)
    fitted = SSVMClassifier(model, alpha=0.01, loss="log", random_state=0).fit(X, y)
    for x in X:
        labelings = list(model.labelings(x))
        scores = x @ fitted.coef_[0] + fitted.intercept_[0]
        scores = np.array([scores[a:b].sum() for a, b in labelings])
        order = np.argsort(-scores, kind="stable")[:3]
        assert fitted.predict_topk([x], 3)[0][0] == [labelings[k] for k in order]
        share = np.exp(scores - scores.max())
        share /= share.sum()
        want = [
            sum(p for p, (a, b) in zip(share, labelings, strict=True) if a <= t < b)
            for t in range(len(x))
        ]
        np.testing.assert_allclose(fitted.predict_marginals([x])[0], want, rtol=1e-9)


@pytest.mark.slow
def test_solver(build):
    solver = build("pegasos").Pegasos(max_iter=300, tol=0.02)
    data = make_chain(n_sequences=30, random_state=0)
    tagger = ChainCRF(1.0, solver=solver, random_state=0).fit(data.X, data.y)
    peer = ChainCRF(1.0, tol=1e-6, random_state=0).fit(data.X, data.y)
    assert tagger.dual_gap_ <= 0.02 * tagger.history_["primal"][0]
    distance = tagger.objective_ - peer.objective_
    assert -1e-5 <= distance <= tagger.dual_gap_ + 1e-9
    # the same on any other model with a max oracle
    model = build("interval").IntervalModel()
    other = SSVMClassifier(model, alpha=1.0, solver=solver).fit(*intervals(30))
    assert other.dual_gap_ <= 0.02 * other.history_["primal"][0]


def test_loss():
    rare = runpy.run_path(str(PAGES / "afternoon" / "rare.py"))["RareLabels"]
    data = make_chain(n_sequences=30, random_state=0)
    tagger = ChainCRF(1.0, loss=Hinge(rare()), random_state=0)
    tagger.set_params(loss__cost__power=0.7).fit(data.X, data.y)
    labels, counts = np.unique(np.concatenate(list(data.y)), return_counts=True)
    costs = rare(0.7).label_costs(labels, counts)
    assert counts @ costs == pytest.approx(counts.sum())
    weights = dict(zip(labels.tolist(), costs.tolist(), strict=True))
    same = ChainCRF(1.0, class_weight=weights, random_state=0).fit(data.X, data.y)
    assert tagger.objective_ == pytest.approx(same.objective_, rel=1e-9)
    # structures that do not have what it needs say so
    with pytest.raises(ValueError, match="needs one label for each position"):
        SSVMClassifier("matching", loss=Hinge(rare())).fit(data.X, data.y)


@pytest.mark.slow
def test_map_solver(build):
    rng = np.random.RandomState(0)
    edges = [(v, v + 1) for v in range(7)] + [(0, 4), (2, 6)]
    graphs = [
        FactorGraph(list(rng.normal(size=(8, 3))), edges, rng.normal(size=(3, 3)))
        for _ in range(5)
    ]
    found = LPMAPPredictor(build("icm").ICM(), random_state=0)
    best = LPMAPPredictor("branch_and_bound")
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        found.predict(graphs)
    best.predict(graphs)
    np.testing.assert_allclose(found.scores_, best.scores_)
    # the best states and the best entries, each by itself
    bounds = [
        sum(graph.unary(v).max() for v in range(8)) + 9 * graph.tables[0].dense().max()
        for graph in graphs
    ]
    np.testing.assert_allclose(found.bounds_, bounds)

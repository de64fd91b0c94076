"""A time limit cuts passes; what is left is a model, and a start for the next run.

No test waits for a limit: the clock that kernels read says that it is over.
"""

import itertools
import time

import numpy as np
import pytest

from sksstruct import ChainCRF, MultilabelPairwise
from sksstruct.datasets import make_chain
from sksstruct.estimators._train import prepare
from sksstruct.solvers import LBFGS, SDCA, SOLVERS
from sksstruct.utils import _clock
from sksstruct.utils.progress import Status

CHAINS = [
    *(("hinge", name) for name in ("bcfw", "ssg", "fw", "bmrm", "cutting_plane")),
    *(("hinge", name) for name in ("casimir", "svrg", "gdmm", "soft_bcfw")),
    ("hinge", "continuation"),
    *(("log", name) for name in ("sdca", "lbfgs", "sgd", "svrg", "casimir")),
]
SETS = [("hinge", "dcd"), ("log", "newton"), ("structured_hinge", "bca")]


def problem(loss, name, **parameters):
    """A training problem that takes passes of many steps."""
    if (loss, name) in SETS:
        rng = np.random.RandomState(0)
        X = rng.standard_normal((400, 5))
        y = (X[:, :4] + rng.standard_normal((400, 4)) > 0).astype(int)
        if loss == "structured_hinge":
            parameters |= {"interaction_scaling": 1.0, "inference": "lp"}
        else:
            parameters["interaction_scaling"] = 0.0
        estimator = MultilabelPairwise(1e-2, loss=loss, target="subset", **parameters)
        return prepare(estimator.set_params(solver=name), X, y)
    data = make_chain(400, n_classes=3, random_state=0)
    estimator = ChainCRF(1e-2, loss=loss, solver=name, **parameters)
    return prepare(estimator, data.X, data.y)


@pytest.fixture
def over(monkeypatch):
    """Let the time be over at some numbers of the looks at the clock."""
    # sweeps over few examples look too
    monkeypatch.setattr("sksstruct.utils.parallel.LITTLE", 0)

    def set_numbers(late):
        count = itertools.count()

        def perf_counter():
            return np.inf if late(next(count)) else time.perf_counter()

        monkeypatch.setattr(_clock, "perf_counter", perf_counter)
        return count

    return set_numbers


def solve(problem, state=None, limit=1e6):
    return problem.solver.solve(
        problem.model,
        problem.solver_alpha,
        random_state=0,
        max_seconds=limit,
        dual_state=state,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "name"), CHAINS + SETS)
def test_cut_in_a_pass(over, loss, name):
    """The certificate is true, and a run that starts from the result comes further."""
    count = over(lambda k: False)
    best = solve(problem(loss, name, tol=1e-3, max_iter=60))
    looks = next(count)
    assert looks > 4, "nothing looked at the clock"
    cut = 0
    for number in (looks // 8, looks // 2, 7 * looks // 8):
        one = problem(loss, name, tol=1e-3, max_iter=60)
        # one look tells a kernel to stop, and the next one tells it why it has
        over(lambda k, number=number: number <= k < number + 2)
        result = solve(one)
        # trials before the first pass end, and passes begin
        cut += result.status is Status.TIME_LIMIT
        assert np.isfinite(result.weights).all()
        assert result.objective >= best.objective - best.dual_gap - 1e-9
        if result.dual_gap < np.inf:
            assert result.objective - result.dual_gap <= best.objective + 1e-9
        over(lambda k: False)
        if one.solver.accepts(result.dual_state, one.model):
            again = solve(one, result.dual_state)
            assert again.objective <= best.objective + best.dual_gap + again.target
    assert cut


@pytest.mark.parametrize(("loss", "name"), CHAINS + SETS)
def test_no_time_at_all(over, loss, name):
    """Where the time is over before the first sweep, there are weights and no bound."""
    one = problem(loss, name, tol=1e-3)
    over(lambda k: True)
    result = solve(one)
    assert result.status is Status.TIME_LIMIT
    assert np.isfinite(result.weights).all()
    assert result.n_iter == 0


@pytest.mark.slow
def test_same_bits_where_no_limit_strikes():
    for loss, name in CHAINS + SETS:
        runs = [
            solve(problem(loss, name, max_iter=3, tol=0.0), limit=limit)
            for limit in (None, 1e6)
        ]
        np.testing.assert_array_equal(runs[0].weights, runs[1].weights)


def test_a_model_without_certificate_can_be_used(over):
    """As where a sweep takes longer than the limit: visits count, and no gap."""
    data = make_chain(400, n_classes=3, random_state=0)
    tagger = ChainCRF(1e-2, loss="log", solver=SDCA(), random_state=0, max_seconds=1e6)
    # visits of the pass, but no sweep before or after it
    over(lambda k: k < 17 or k > 300)
    tagger.set_params(warm_start=True).fit(data.X, data.y)
    assert tagger.objective_ == tagger.dual_gap_ == np.inf
    assert tagger.score(data.X, data.y) > 0.8
    over(lambda k: False)
    tagger.fit(data.X, data.y)
    assert tagger.dual_gap_ <= tagger.solver_.tol * tagger.objective_


@pytest.mark.slow
def test_flat_objective():
    """If alpha is small, the gap stays large when the objective no longer falls."""
    rng = np.random.RandomState(0)
    y = rng.randint(4, size=(5, 300))
    X = rng.standard_normal((4, 20))[y] + 2 * rng.standard_normal((5, 300, 20))
    X[:, :, ::2] *= 0.03
    runs = []
    for tol in (1e-2, 1e-5):
        tagger = ChainCRF(1e-6, loss="log", solver=LBFGS(tol=tol))
        runs.append(prepare(tagger, list(X), list(y)))
    rough, fine = (solve(each) for each in runs)
    assert rough.status is Status.FLAT
    assert rough.dual_gap > rough.target
    assert rough.n_iter < fine.n_iter
    assert rough.objective <= (1 + 1e-2) * fine.objective
    assert rough.objective - rough.dual_gap <= fine.objective


def test_every_solver_is_tried():
    tried = {name for _, name in CHAINS + SETS}
    # the first is casimir; the others look at the clock between steps
    others = {"casimir_constant", "prox_linear", "pragam", "partitioned"}
    assert tried | others == set(SOLVERS.makers)

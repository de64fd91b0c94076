"""What every solver owes to the estimators that use it."""

import inspect
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info, threadpool_limits

from sksstruct import (
    ChainCRF,
    LinearSSVC,
    MultilabelPairwise,
    SegmentCRF,
    SSVMClassifier,
    solvers,
)
from sksstruct.datasets import load_digit_strings, make_chain, make_segments
from sksstruct.losses import SmoothedHinge
from sksstruct.models.binary._binary import BoundBinary
from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.polytope_dual import ChainDual
from sksstruct.solvers import BMRM, LBFGS, SSG, SVRG, Casimir, FrankWolfe, Pragam
from sksstruct.solvers.bundle._simplex_qp import maximize_on_simplex
from sksstruct.solvers.bundle.bmrm import Bundle
from sksstruct.solvers.core.base import Solver
from sksstruct.solvers.stochastic._epochs import Epochs
from sksstruct.utils.estimator_checks import CHECKS
from sksstruct.utils.packed import PackedSequences

HINGE = (
    "fw",
    "ssg",
    "bmrm",
    "cutting_plane",
    "pragam",
    "casimir",
    "casimir_constant",
    "svrg",
)
SMOOTH = ("svrg", "casimir", "casimir_constant")
EVERY = [(name, "hinge") for name in HINGE] + [(name, "log") for name in SMOOTH]


@pytest.fixture
def data():
    return make_chain(30, n_classes=3, random_state=0)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "estimator",
    [
        ChainCRF(solver="cutting_plane"),
        ChainCRF(solver=BMRM(500)),
        ChainCRF(0.01, loss="log", solver="svrg"),
    ],
    ids=str,
)
def test_estimator_checks(check, estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


@pytest.mark.parametrize(("name", "loss"), EVERY)
def test_same_bits_for_any_number_of_threads(data, name, loss):
    fits = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for n_jobs in (None, 1, 3):
            model = ChainCRF(
                0.1,
                loss=loss,
                solver=name,
                max_iter=15,
                n_jobs=n_jobs,
                random_state=0,
            )
            fits.append(model.fit(data.X, data.y))
    for other in fits[1:]:
        np.testing.assert_array_equal(other.coef_, fits[0].coef_)
        np.testing.assert_array_equal(other.transitions_, fits[0].transitions_)


@pytest.mark.usefixtures("callbacks")
@pytest.mark.parametrize(("name", "loss"), EVERY)
def test_trace_and_callbacks(data, name, loss):
    model = ChainCRF(0.1, loss=loss, solver=name, max_iter=8, tol=0, random_state=0)
    seen = []

    class Watch:
        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if context.task_name == "pass":
                seen.append(fitted_estimator)

        def teardown(self, estimator, context):
            pass

    if name == "casimir_constant" and loss == "hinge":
        model.set_params(tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="did not converge in 8 passes"):
        model.set_callbacks(Watch()).fit(data.X, data.y)
    history = model.history_
    assert history["pass"][-1] == model.n_iter_ == 8
    assert history["oracle_calls"][-1] >= 30
    for column in ("pass", "oracle_calls", "seconds"):
        assert (np.diff(history[column]) >= 0).all()
    assert (np.diff(history["primal"]) <= 0).all()
    assert (np.diff(history["dual"]) >= 0).all()
    assert (history["primal"] >= history["dual"]).all()
    assert history["gap"][-1] == model.dual_gap_
    assert model.objective_ == history["primal"][-1]
    assert len(seen) >= 8 and all(m is not None for m in seen[:8])


def every_estimator():
    """Estimators that train in passes, and data for them."""
    chains, segments = (
        make(40, random_state=0) for make in (make_chain, make_segments)
    )
    X, y = make_classification(200, n_informative=5, flip_y=0.2, random_state=0)
    Y = np.column_stack([y, X[:, 0] > 0, X[:, 1] > y])
    return {
        "ChainCRF": (ChainCRF(random_state=0), chains.X, chains.y),
        "SegmentCRF": (SegmentCRF(random_state=0), segments.X, segments.y),
        "LinearSSVC": (LinearSSVC(1e-3, random_state=0), X, y),
        "SSVMClassifier": (SSVMClassifier(alpha=1e-3, random_state=0), X, y),
        "MultilabelPairwise": (MultilabelPairwise(1e-3, random_state=0), X, Y),
    }


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", every_estimator())
def test_scores_on_other_data(name, callbacks):
    """As the guide says, for every estimator; and a time limit ends the training."""
    model, X, y = every_estimator()[name]
    half = len(y) // 2
    monitor = callbacks.ScoringMonitor(
        scoring={"test": lambda each, *_: each.score(X[half:], y[half:])}
    )
    model.set_params(max_iter=10).set_callbacks(monitor).fit(X[:half], y[:half])
    scores = monitor.get_logs().data_as_pandas["test"].to_numpy()
    assert len(scores) >= model.n_iter_ >= 1
    assert scores[-1] == pytest.approx(model.score(X[half:], y[half:]))
    assert scores[-1] != pytest.approx(model.score(X[:half], y[:half]))
    late = clone(model).set_params(max_seconds=1e-9, tol=0.0, max_iter=50)
    assert late.fit(X, y).n_iter_ < 3


@pytest.mark.slow
@pytest.mark.parametrize(("name", "loss"), EVERY)
def test_weights_and_constraints(data, name, loss):
    """Example weights act as repetitions; forbidden transitions hold in training."""
    tol = 5e-4
    kwargs = {"loss": loss, "solver": name, "tol": tol, "random_state": 0}
    forbidden = [(0, 1)]
    y = [[2 if (a, b) == (0, 1) else b for a, b in _pairs(row)] for row in data.y]
    weight = np.ones(30)
    weight[:3] = 2.0
    weight[3] = 0.0
    keep = [0, 0, 1, 1, 2, 2, *range(4, 30)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one = ChainCRF(1.0, forbidden_transitions=forbidden, **kwargs)
        one.fit(data.X, y, sample_weight=weight)
        two = ChainCRF(1.0, forbidden_transitions=forbidden, **kwargs)
        two.fit([data.X[i] for i in keep], [y[i] for i in keep])
        auto = ChainCRF(
            1.0, loss=loss, forbidden_transitions=forbidden, tol=1e-6, random_state=0
        )
        auto.fit(data.X, y, sample_weight=weight)
    # a fixed smoothing takes its time, and ends at max_iter
    rel = 1e-2 if name == "casimir_constant" else 4e-3
    assert one.objective_ == pytest.approx(two.objective_, rel=rel)
    assert one.objective_ == pytest.approx(auto.objective_, rel=rel)


def _pairs(row):
    """Each label with the one before it, after replacements made so far."""
    before = None
    for label in row:
        label = 2 if (before, label) == (0, 1) else label
        yield before, label
        before = label


@pytest.mark.parametrize("name", SMOOTH)
def test_weights_that_do_not_exist_stay_zero(data, name):
    from sksstruct.feature_extraction import SequenceVectorizer

    rng = np.random.RandomState(0)
    X = [[{f"f{rng.randint(12)}": 1.0, "b": 2.0} for _ in row] for row in data.y]
    X = SequenceVectorizer().fit_transform(X)
    kwargs = {"loss": "log", "all_possible_states": False, "tol": 1e-6}
    kwargs["all_possible_transitions"] = False
    model = ChainCRF(0.05, solver=name, random_state=0, **kwargs).fit(X, data.y)
    best = ChainCRF(0.05, **kwargs).fit(X, data.y)
    assert model.objective_ == pytest.approx(best.objective_, rel=1e-5)
    np.testing.assert_array_equal(model.coef_ == 0, best.coef_ == 0)
    assert (model.coef_ == 0).any()


@pytest.mark.parametrize("name", ["svrg", "casimir", "cutting_plane"])
def test_warm_start(data, name):
    loss = "log" if name == "svrg" else "hinge"
    model = ChainCRF(0.1, loss=loss, solver=name, warm_start=True, random_state=0)
    first = model.fit(data.X, data.y)
    passes, objective = first.n_iter_, first.objective_
    model.fit(data.X, data.y)
    assert model.objective_ <= objective * (1 + 1e-12)
    # Casimir smoothes again from the start, which takes it away from the optimum
    assert model.n_iter_ <= (passes / 2 if name != "casimir" else 2 * passes)


def test_every_step_rule_of_subgradients(data):
    best = ChainCRF(1.0, tol=1e-7, random_state=0).fit(data.X, data.y).objective_
    for kwargs in (
        {},
        {"sampling": "uniform"},
        {"averaging": False},
        {"step_size": "constant_then_decay"},
        {"step_size": "constant_then_decay", "eta0": 0.5, "t0": 10, "averaging": False},
    ):
        solver = SSG(4000, 1e-3, check_every=20, **kwargs)
        model = ChainCRF(1.0, solver=solver, random_state=0).fit(data.X, data.y)
        assert model.objective_ == pytest.approx(best, rel=2e-2)
        certified = kwargs.get("sampling", "p") == "p" and not kwargs.get("step_size")
        assert np.isfinite(model.dual_gap_) == certified
        assert model.objective_ - best <= model.dual_gap_ + 1e-6


def test_steps_that_begin_far_above_do_not_end_early():
    """Averages that come down through the objective at w = 0 are still under way."""
    data = make_chain(30, n_classes=3, noise=1.0, random_state=1)
    for averaging in (True, False):
        solver = SSG(
            3000, step_size="constant_then_decay", averaging=averaging, check_every=5
        )
        tagger = ChainCRF(0.01, loss_normalization="sequence", random_state=0)
        best = clone(tagger).set_params(tol=1e-6).fit(data.X, data.y)
        model = tagger.set_params(solver=solver).fit(data.X, data.y)
        assert model.objective_ <= 2 * best.objective_


def test_flat_starts():
    """The l2-smoothed hinge is exactly zero where all is separated by a margin."""
    X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
    for solver in ("svrg", "casimir"):
        for seed in range(3):
            model = ChainCRF(
                0.01, loss=SmoothedHinge("l2"), solver=solver, random_state=seed
            )
            best = ChainCRF(0.01, loss=SmoothedHinge("l2"), tol=1e-5).fit(X, y)
            assert model.fit(X, y).objective_ <= 1.05 * best.objective_


@pytest.mark.parametrize("alpha", [0.1, 0.001])
@pytest.mark.parametrize("rate", ["auto", 5.0])
def test_accuracy_of_steps_is_not_sought_for_ever(data, alpha, rate):
    solver = Casimir(3, inner="accuracy", learning_rate=rate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ChainCRF(alpha, solver=solver, random_state=0).fit(data.X, data.y)
    assert model.objective_ < 1.0


@pytest.mark.parametrize("schedule", ["constant", "adaptive"])
@pytest.mark.parametrize(
    ("alpha", "kappa"), [(0.1, "alpha"), (0.1, None), (3.0, None), (0.0, None)]
)
@pytest.mark.parametrize("inner", ["budget", "accuracy"])
@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_steps_as_printed(data, monkeypatch, schedule, alpha, kappa, inner, loss):
    """1 / (L + lambda + kappa), L being A / mu: Propositions 29-32, Section 7.3.1."""
    found, lipschitz = {}, 30.0

    def epoch(self, visits, rate, ridge, linear=None, anchored=True):
        # <linear, .> tells one proximal point step from the other
        found[float(linear @ linear)] = rate, ridge
        plain(self, visits, rate, ridge, linear, anchored)

    plain = Epochs.epoch
    monkeypatch.setattr(Epochs, "epoch", epoch)
    solver = Casimir(
        5, 0.0, schedule=schedule, mu=0.1, kappa=kappa, inner=inner, lipschitz=lipschitz
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ChainCRF(alpha, loss=loss, solver=solver, random_state=0).fit(data.X, data.y)
    n, k, adaptive = len(data.X), np.arange(1, 6), schedule == "adaptive"
    first = lipschitz / (n + 1)  # Propositions 31 and 32
    if alpha:
        share = lipschitz / n
        larger = not adaptive and kappa is None and share > 4 * alpha
        first = share - alpha if larger else alpha  # Propositions 29 and 30
    kappas = first * (k if adaptive and alpha == 0 else k**0)
    L = lipschitz * np.ones(5)
    if adaptive and loss == "hinge":
        q = alpha / (alpha + first)
        L /= (1 - q**0.5 / 2) ** ((k - 1) / 2) if alpha else 1 / k
    rates, ridges = np.transpose(list(found.values()))
    # without regularization a step may be accurate enough where it begins
    steps = len(found)
    assert steps == 5 or (inner == "accuracy" and alpha == 0)
    np.testing.assert_allclose(ridges, (alpha + kappas)[:steps])
    np.testing.assert_allclose(rates, (1 / (L + alpha + kappas))[:steps])


def test_a_given_constant_reaches_the_gap(data):
    """With the fixed smoothing of Proposition 29, to the optimum of the hinge."""
    best = ChainCRF(0.1, tol=1e-7, random_state=0).fit(data.X, data.y)
    solver = Casimir(500, 0.02, schedule="constant", k=30, lipschitz=1000.0)
    model = ChainCRF(0.1, solver=solver, random_state=0).fit(data.X, data.y)
    assert model.dual_gap_ <= 0.02 * model.history_["primal"][0]
    gap = model.objective_ - best.objective_
    assert -best.dual_gap_ <= gap <= model.dual_gap_


@pytest.mark.parametrize("smoothing", ["l2", "entropy"])
def test_svrg_on_the_hinge(data, smoothing):
    """Section 7.2 of Pillutla et al. (2018): the hinge, through a fixed smoothing."""
    best = ChainCRF(0.1, solver="bcfw", tol=1e-7, random_state=0).fit(data.X, data.y)
    above = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for mu in (None, 0.02, 1.0):
            solver = SVRG(100, k=30, smoothing=smoothing, mu=mu)
            model = ChainCRF(0.1, solver=solver, random_state=0).fit(data.X, data.y)
            above[mu] = model.objective_ - best.objective_
            assert -best.dual_gap_ <= above[mu] <= model.dual_gap_
            reached = model.dual_gap_ <= solver.tol * model.history_["primal"][0]
            assert reached == (mu != 1.0)
    # a smoothing that is not small stays away from the optimum
    assert above[1.0] > 10 * max(above[None], above[0.02])


@pytest.mark.parametrize(
    ("alpha", "options", "match"),
    [
        (0.1, {"lipschitz": 1.0, "learning_rate": 0.1}, "set one of them"),
        (0.1, {"lipschitz": 0.0}, "'lipschitz' parameter"),
        (0.0, {"kappa": "alpha"}, "needs alpha > 0"),
    ],
)
def test_constants_that_cannot_be(data, alpha, options, match):
    model = ChainCRF(alpha, solver=Casimir(**options), random_state=0)
    with pytest.raises(ValueError, match=match):
        model.fit(data.X, data.y)


def test_the_last_pass_counts(data):
    for max_iter in (1, 2, 3):
        solver = Casimir(max_iter, tol=0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = ChainCRF(0.01, loss="log", solver=solver, random_state=0)
            model.fit(data.X, data.y)
        assert model.coef_.any()
        assert model.objective_ < model.history_["primal"][0]


@pytest.mark.parametrize("schedule", ["adaptive", "constant"])
def test_accuracy_where_k_labelings_are_not_enough(schedule):
    """Gradients that jump cannot get as small as the accuracy wants."""
    strings = load_digit_strings(n_train=20)
    solver = Casimir(3, inner="accuracy", schedule=schedule, k=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ChainCRF(0.01, solver=solver, random_state=0)
        model.fit(strings.X_train, strings.y_train)
    assert model.objective_ < model.history_["primal"][0]


def test_smoothing_does_not_vanish(data):
    solver = Casimir(400, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ChainCRF(10.0, solver=solver, random_state=0).fit(data.X, data.y)
    best = ChainCRF(10.0, tol=1e-8, random_state=0).fit(data.X, data.y)
    assert model.objective_ == pytest.approx(best.objective_, rel=1e-4)


def test_warm_start_says_who_cannot(data):
    model = ChainCRF(0.1, solver="ssg", warm_start=True, random_state=0)
    model.fit(data.X, data.y)
    with pytest.warns(UserWarning, match="SSG cannot continue"):
        model.fit(data.X, data.y)


def test_frank_wolfe_with_bounds(data):
    bounds = {"transitions": (None, 0.0), "coef": (-0.5, 1.0)}
    model = ChainCRF(0.1, solver=FrankWolfe(20_000, 1e-3, bounds=bounds))
    model.fit(data.X, data.y)
    peer = ChainCRF(
        0.1, solver=solvers.BCFW(bounds=bounds, tol=1e-4), random_state=0
    ).fit(data.X, data.y)
    assert (model.transitions_ <= 0).all() and (
        np.abs(model.coef_ - 0.25) <= 0.75
    ).all()
    assert (model.transitions_ == 0).any()
    assert model.objective_ == pytest.approx(peer.objective_, abs=2e-3)


def test_dropped_planes_change_nothing(data):
    few = ChainCRF(0.05, solver=BMRM(3000, 1e-6, drop_after=5)).fit(data.X, data.y)
    every = ChainCRF(0.05, solver=BMRM(3000, 1e-6, drop_after=None))
    every.fit(data.X, data.y)
    assert few.objective_ == pytest.approx(every.objective_, rel=1e-5)


def test_planes_are_dropped_after_so_many_passes_in_a_row():
    """The first plane is needed, then not, then needed, then not."""
    bundle = Bundle(1.0, zero=False, drop_after=2)
    for slope, offset in ((1.0, 0.0), (-1.0, 4.0), (-5.0, 13.0), (1.0, 3.0)):
        bundle.add(np.array([slope]), offset)
    # the second one has not been needed twice
    assert bundle.offsets.tolist() == [0.0, 13.0, 3.0]


@pytest.mark.parametrize(
    "solver",
    [FrankWolfe(5), BMRM(5), SSG(5)],
    ids=lambda solver: type(solver).__name__,
)
def test_linear_term_of_the_dual(solver):
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(20, 3)), rng.randint(2, size=20)
    model = BoundBinary(X, y, np.full(20, 1 / 20), False)
    result = solver.solve(model, 0.1, random_state=0)
    dual = result.objective - result.dual_gap
    square = result.weights @ result.weights
    assert square > 0.01
    assert result.dual_loss - 0.1 / 2 * square == pytest.approx(dual, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("seed", range(40))
def test_simplex_quadratic_programs(seed, scale):
    """The conditions of optimality, with planes that depend on each other, and with
    curvatures far from the size of the linear term."""
    rng = np.random.RandomState(seed)
    n = rng.randint(1, 12)
    A = np.round(rng.normal(size=(rng.randint(1, 6), n)), rng.randint(0, 4))
    if n > 2:
        A[:, 1] = A[:, 0]
    b = np.round(rng.normal(size=n), 2)
    start = rng.dirichlet(np.ones(n)) * (rng.uniform(size=n) < 0.5)
    start = start / start.sum() if start.sum() else np.eye(n)[0]
    gram = scale * A.T @ A
    x = maximize_on_simplex(gram, b, start)
    assert (x >= 0).all() and x.sum() == pytest.approx(1.0)
    slope = b - gram @ x
    assert slope.max() - x @ slope <= 1e-9 * max(1.0, scale)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "alpha"),
    [(1e-3, 1e-4), (1e-3, 1.0), (1.0, 0.01), (100.0, 1e-4), (100.0, 1.0)],
)
def test_bundles_reach_what_cutting_planes_do(scale, alpha):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 6))
    y = (X[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int)
    kwargs = {"tol": 1e-6, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one = LinearSSVC(alpha, solver="bmrm", max_iter=2000, **kwargs).fit(
            scale * X, y
        )
        two = LinearSSVC(alpha, solver="cutting_plane", max_iter=30, **kwargs).fit(
            scale * X, y
        )
    best = min(one.objective_, two.objective_)
    assert one.objective_ - best <= 1e-4
    assert one.dual_gap_ <= 1e-3


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("lipschitz", [None, 1.0])
def test_casimir_overflows_with_an_error(lipschitz):
    for scale in (1e200, 1e300):
        solver = Casimir(lipschitz=lipschitz)
        with pytest.raises(ValueError, match="broke down"):
            ChainCRF(0.02, solver=solver).fit([scale * np.eye(3)], [[0, 1, 0]])


@pytest.mark.parametrize("solver", ["pragam", "bmrm", "bcfw", "ssg", "cutting_plane"])
def test_overflow_is_an_error_or_a_true_certificate(solver):
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(20, 3)), rng.randint(2, size=20)
    scales = (1e150, 0.01), (1.0, 1e-310), (1.0, 5e-324), (1e160, 0.01), (1e300, 0.01)
    for scale, alpha in scales:
        model = LinearSSVC(alpha, solver=solver, max_iter=5, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model.fit(scale * X, y)
            except ValueError as error:
                assert "broke down" in str(error)
            else:
                assert np.isfinite(model.objective_ + model.coef_.sum())


def test_interrupt_of_the_first_projection_of_pragam(monkeypatch):
    def interrupted(self, x):
        raise KeyboardInterrupt

    data = make_chain(5, random_state=0)
    X, y = data.X, data.y
    monkeypatch.setattr(ChainDual, "project", interrupted)
    # what takes long is not done again for the answer
    slopes, calls = ChainDual.slopes, []
    monkeypatch.setattr(
        ChainDual, "slopes", lambda self, w: calls.append(w) or slopes(self, w)
    )
    model = ChainCRF(0.1, solver="pragam")
    with pytest.raises(KeyboardInterrupt, match="after 0 passes; the tagger can"):
        model.fit(X, y)
    assert len(model.predict(X)) == 5
    # of weights zero: each position costs its share, and nothing is known below
    assert model.objective_ == pytest.approx(1.0, rel=0.5)
    assert model.dual_gap_ == model.objective_
    assert len(calls) == 1


def test_pragam_without_a_tolerance():
    """Where nothing moves any more but rounding errors, iterations end."""
    rng = np.random.default_rng(824)
    n, d = int(rng.choice([2, 5, 20, 60])), int(rng.choice([1, 3, 8]))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.choice([-3, 0, 0, 2, 5])
    y = rng.integers(0, 2, n)
    y[0], y[-1] = 0, 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearSSVC(1.0, solver=Pragam(400, tol=0.0)).fit(X, y)
    assert model.dual_gap_ < 1e-6


@pytest.mark.parametrize(
    ("loss", "solver", "match"),
    [
        ("hinge", "lbfgs", "LBFGS needs a gradient"),
        ("log", "bmrm", "BMRM minimizes the structured hinge"),
        ("log", Pragam(), "through its projection oracle"),
        ("log", "ssg", "through its max oracle"),
    ],
)
def test_what_does_not_fit_is_refused(data, loss, solver, match):
    with pytest.raises(ValueError, match=match):
        ChainCRF(loss=loss, solver=solver).fit(data.X, data.y)


def test_missing_oracles_are_named():
    X, y = np.eye(3), np.array([0, 1, 1])
    for name, oracle in (
        ("bmrm", "max"),
        ("lbfgs", "exp or topk"),
        ("gdmm", "factors"),
    ):
        classifier = LinearSSVC(solver=name, penalize_intercept=False)
        with pytest.raises(
            ValueError, match=f"the oracle {oracle}; this problem has p"
        ):
            classifier.fit(X, y)


def test_unknown_labels_need_lbfgs(data):
    y = [[None, *row[1:]] if len(row) > 1 else list(row) for row in data.y]
    for name in SMOOTH:
        with pytest.raises(ValueError, match="solver='lbfgs'"):
            ChainCRF(loss="log", solver=name).fit(data.X, y)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in solvers.__all__
        if name not in ("SOLVERS", "SolverResult", "resolve_solver")
    ],
)
def test_parameters(name):
    """Constructors only assign; bad values are named before any work."""
    cls = getattr(solvers, name)
    solver = cls()
    clone(solver).check()
    for parameter in inspect.signature(cls).parameters:
        assert parameter in cls._parameter_constraints
        with pytest.raises((ValueError, TypeError), match=parameter):
            cls(**{parameter: object()}).check()


SIZED = {
    "ssg": SSG(1),
    "bmrm": BMRM(3),
    "fw": FrankWolfe(2),
    "cutting_plane": solvers.CuttingPlane(2),
    "bcfw": solvers.BCFW(max_iter=1),
    "auto": solvers.resolve_solver("auto", max_iter=1, tol=0.0),
    "casimir": Casimir(1, learning_rate=0.02),
    "svrg": SVRG(1, learning_rate=0.02, epoch_size=1.0),
    "lbfgs": solvers.LBFGS(2),
}


@pytest.fixture(scope="module")
def large():
    """Random data of about a fourth of the size of CoNLL-2000's training set."""
    rng = np.random.RandomState(0)
    sizes = rng.randint(1, 48, size=2200)
    n, d = int(sizes.sum()), 20_000
    indices = np.sort(rng.randint(d, size=(n, 12)), axis=1).astype(np.int32)
    values = sparse.csr_array(
        (np.ones(12 * n), indices.ravel(), np.arange(n + 1) * 12), shape=(n, d)
    )
    values.sum_duplicates()
    labels = rng.randint(22, size=n).astype(np.int32)
    return PackedSequences.from_lengths(values, sizes), labels


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZED)
def test_memory(large, name):
    """Nothing of size examples x weights, which would be 8 GB."""
    packed, labels = large
    solver = SIZED[name]
    features = packed.values.data.nbytes + packed.values.indices.nbytes
    model = BoundChain(packed, 22, labels)
    weights = 8 * model.n_weights
    tracemalloc.start()
    try:
        if "hinge" not in solver.losses:
            model.surrogate = SmoothedHinge("entropy", 0.1)
        solver.solve(model, 0.01, random_state=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # vectors of weights, node means of all positions, and a copy of the features
    nodes = 8 * 24 * len(labels)
    pairs = 8 * 24 * 22 * len(packed) if name in ("svrg", "casimir") else 0
    # scipy's workspace depends on its version
    vectors = 3 * solver.memory + 20 if name == "lbfgs" else 16
    assert peak <= vectors * weights + 3 * nodes + pairs + 3 * features


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_threads_of_blas(data, monkeypatch, n_jobs):
    """Solvers keep BLAS to one thread, and only meanwhile: its sums depend on them."""
    before = blas_threads()
    if not before:
        pytest.skip("no BLAS whose threads can be counted")
    seen = []
    solve = LBFGS._solve

    def spy(self, *arguments):
        seen.extend(blas_threads())
        return solve(self, *arguments)

    monkeypatch.setattr(LBFGS, "_solve", spy)
    tagger = ChainCRF(0.1, loss="log", solver="lbfgs", n_jobs=n_jobs)
    with threadpool_limits(3, user_api="blas"):
        tagger.fit(data.X, data.y)
        assert blas_threads() == [3] * len(before)
    assert seen == [1] * len(before)


def test_concurrent_fits_share_one_limit_of_threads(data, monkeypatch):
    """The fit that ends first leaves the limit to the other."""
    before = blas_threads()
    if not before:
        pytest.skip("no BLAS whose threads can be counted")
    first_is_inside, second_is_inside, second_may_end = Event(), Event(), Event()
    seen = []
    solve = LBFGS._solve

    def spy(self, model, alpha, options):
        if self.memory == 5:
            first_is_inside.set()
            assert second_is_inside.wait(60)
        else:
            second_is_inside.set()
            assert second_may_end.wait(60)
        seen.append(blas_threads())
        return solve(self, model, alpha, options)

    monkeypatch.setattr(LBFGS, "_solve", spy)

    def fit(memory):
        solver = LBFGS(memory=memory)
        return ChainCRF(0.1, loss="log", solver=solver).fit(data.X, data.y)

    with threadpool_limits(3, user_api="blas"), ThreadPoolExecutor(2) as pool:
        first = pool.submit(fit, 5)
        assert first_is_inside.wait(60)
        second = pool.submit(fit, 6)
        # the fit that began first ends first
        first.result(60)
        seen.append(blas_threads())
        second_may_end.set()
        second.result(60)
        assert blas_threads() == [3] * len(before)
    assert seen == [[1] * len(before)] * 3
    assert blas_threads() == before


@pytest.mark.parametrize("name", sorted(set(solvers.__all__) - {"SOLVERS"}))
def test_the_first_parameters(name):
    """Without their names only max_iter and tol."""
    cls = getattr(solvers, name)
    if not (inspect.isclass(cls) and issubclass(cls, Solver)):
        return
    kinds = [
        (each.name, each.kind is each.KEYWORD_ONLY)
        for each in inspect.signature(cls).parameters.values()
    ]
    assert kinds[:2] == [("max_iter", False), ("tol", False)]
    assert all(by_keyword for _, by_keyword in kinds[2:])


def blas_threads():
    return [
        each["num_threads"] for each in threadpool_info() if "blas" in each["user_api"]
    ]

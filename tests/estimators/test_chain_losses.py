"""Likelihood and smoothed hinge: objective, gradient and optimum."""

import warnings
from functools import partial

import numpy as np
import pytest
from reference import Chain, flat_weights, smooth_objective
from scipy import sparse
from scipy.optimize import approx_fprime, minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sksstruct import ChainCRF
from sksstruct.losses import SmoothedHinge
from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.chain.data import TrainingData, existing_weights
from sksstruct.models.roles import smooth_loss
from sksstruct.solvers import BCFW, LBFGS, SOLVERS
from sksstruct.utils.estimator_checks import CHECKS
from sksstruct.utils.packed import PackedSequences

LOSSES = {
    "log": ("entropy", 1.0, 1),
    "entropy": ("entropy", 0.3, 1),
    "l2": ("l2", 0.7, 4),
    "l2, all labelings": ("l2", 0.7, 1000),
}


def problem(seed=0, n=6, n_labels=3, dtype=np.float64):
    rng = np.random.RandomState(seed)
    X = [rng.normal(size=(rng.randint(1, 5), 4)).astype(dtype) for _ in range(n)]
    y = [rng.randint(n_labels, size=len(x)) for x in X]
    y[0][0], y[1][0], y[2][0] = 0, 1, 2
    return X, y


def bound(X, y, loss, augmented, known=None, **kwargs):
    data = TrainingData.read(X, y, None)
    costs = np.full(len(data.classes), float(augmented))
    packed = data.packed if kwargs.pop("dense", True) else data.packed.compact()
    if kwargs.pop("mixed", False):
        parts = packed.values[:, :1], sparse.csr_array(packed.values[:, 1:])
        parts = [PackedSequences(part, packed.offsets) for part in parts]
        packed = PackedSequences.hstack(parts)
        assert packed.is_mixed
    model = BoundChain(packed, len(data.classes), data.labels, None, costs, **kwargs)
    if known is not None:
        model.unknown = ~np.concatenate(known)
    return smooth_loss(model, SmoothedHinge(*loss)), model, data


def flat_gradient(model, gradient):
    return np.concatenate([np.ravel(b) for b in model.views(gradient).values()])


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("form", ["float64", "float32", "csr", "csr32", "mixed"])
def test_value_and_gradient(name, form):
    loss = LOSSES[name]
    dtype = np.float32 if "32" in form else np.float64
    X, y = problem(dtype=dtype)
    if "csr" in form:
        for x in X:
            x[:, 1:] *= np.abs(x[:, 1:]) > 1.2
    smooth, model, _ = bound(
        X, y, loss, name != "log", dense="csr" not in form, mixed=form == "mixed"
    )
    assert model.views(np.zeros(model.n_weights))["coef"].shape == (3, 4)
    given, w = flat_weights(model, np.random.RandomState(1))
    gradient = np.full(model.n_weights, np.nan)
    value = smooth.value_and_gradient(given, gradient)
    chain = Chain(X, y, 3, length=None)

    def reference(w):
        return smooth_objective(chain, w, loss, augmented=name != "log")

    assert value == pytest.approx(reference(w), rel=1e-6 if "32" in form else 1e-12)
    np.testing.assert_allclose(
        flat_gradient(model, gradient),
        approx_fprime(w, reference, 1e-6),
        atol=2e-5,
    )
    padding = gradient.reshape(-1, model.ld)[:, 3:]
    assert not padding.any()


def test_topk_says_where_it_is_exact():
    """Exact, by its own word, where the value is that with all labelings."""
    X, y = problem(n=30)
    everything, model, _ = bound(X, y, ("l2", 0.8, 1000), True)
    given, w = flat_weights(model, np.random.RandomState(3))
    everything.value_and_gradient(given, np.empty(model.n_weights))
    chain = Chain(X, y, 3, length=None)
    seen = set()
    for k in (1, 2, 4):
        smooth, _, _ = bound(X, y, ("l2", 0.8, k), True)
        smooth.value_and_gradient(given, np.empty(model.n_weights))
        for i in range(len(X)):
            chain.p = np.eye(len(X))[i]
            full = smooth_objective(chain, w, ("l2", 0.8, 10**6), augmented=True)
            some = smooth_objective(chain, w, ("l2", 0.8, k), augmented=True)
            assert bool(smooth.exact[i]) == (abs(full - some) < 1e-12)
            seen.add(bool(smooth.exact[i]))
    assert everything.exact.all()
    assert seen == {True, False}


def test_likelihood_of_observed_labels():
    X, y = problem(n=8)
    rng = np.random.RandomState(4)
    known = [rng.rand(len(row)) < 0.5 for row in y]
    for row in known:
        row[rng.randint(len(row))] = True
    assert not np.concatenate(known).all()
    smooth, model, _ = bound(X, y, LOSSES["log"], False, known)
    given, w = flat_weights(model, np.random.RandomState(1))
    gradient = np.empty(model.n_weights)
    value = smooth.value_and_gradient(given, gradient)
    chain = Chain(X, y, 3)

    def reference(w):
        return smooth_objective(chain, w, LOSSES["log"], augmented=False, known=known)

    assert value == pytest.approx(reference(w), rel=1e-12)
    np.testing.assert_allclose(
        flat_gradient(model, gradient), approx_fprime(w, reference, 1e-6), atol=2e-5
    )


def test_extreme_scores_do_not_lose_digits():
    """Scores of thousands, where exponentials underflow, against enumeration."""
    X, y = problem()
    smooth, model, _ = bound(X, y, LOSSES["log"], False)
    given, w = flat_weights(model, np.random.RandomState(1))
    for scale in (100.0, 3000.0):
        given, w = given * scale, w * scale
        value = smooth.value_and_gradient(given, np.empty(model.n_weights))
        expected = smooth_objective(Chain(X, y, 3), w, LOSSES["log"], augmented=False)
        assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["log", SmoothedHinge("entropy", 0.5)])
@pytest.mark.parametrize("intercept", [True, False])
def test_optimum(loss, intercept):
    X, y = problem(n=5)
    solver = LBFGS(tol=1e-8)
    model = ChainCRF(
        0.05, loss=loss, solver=solver, fit_intercept=intercept, boundary=intercept
    ).fit(X, y)
    chain = Chain(X, y, 3, intercept=intercept, boundary=intercept)
    values = LOSSES["log"] if loss == "log" else ("entropy", 0.5, 1)

    def reference(w):
        # weights of what does not exist stay out of the scores
        scores = w.copy()
        if not intercept:
            scores[3 * 4 : 3 * 4 + 9] = 0.0
        value = smooth_objective(chain, scores, values, augmented=loss != "log")
        return value + 0.025 * (w @ w)

    fitted = chain.flatten(model)
    assert model.objective_ == pytest.approx(reference(fitted), rel=1e-9)
    # it is convex: what is no minimum is left for a lower value
    best = minimize(reference, fitted, options={"gtol": 1e-7})
    assert model.objective_ == pytest.approx(best.fun, rel=1e-6)
    assert 0 <= model.dual_gap_ <= 1e-8 * model.objective_
    assert model.objective_ - best.fun <= model.dual_gap_ + 1e-9
    assert model.n_iter_ == model.history_["pass"][-1]


def test_gap_bounds_the_distance_to_the_optimum_all_the_way():
    X, y = problem(n=20)
    best = ChainCRF(0.05, loss="log", tol=1e-10).fit(X, y).objective_
    history = ChainCRF(0.05, loss="log", tol=1e-6).fit(X, y).history_
    assert (history["primal"] - best <= history["gap"] + 1e-12).all()
    assert (history["dual"] <= best + 1e-12).all()
    assert (np.diff(history["primal"]) <= 0).all()


def test_smoothed_hinge_approaches_the_hinge():
    X, y = problem(n=20)
    hinge = ChainCRF(0.1, tol=1e-5, random_state=0).fit(X, y)
    for strength in (0.5, 0.05):
        loss = SmoothedHinge("l2", strength, k=30)
        smooth = ChainCRF(0.1, loss=loss, tol=1e-5).fit(X, y)
        assert smooth.topk_exact_ == 1.0
        slack = hinge.dual_gap_ + smooth.dual_gap_
        difference = smooth.objective_ - hinge.objective_
        assert -slack <= difference <= strength / 2 + slack


def test_too_few_labelings_leave_no_certificate():
    X, y = problem(n=20)
    loss = SmoothedHinge("l2", 50.0, k=2)
    model = ChainCRF(1.0, loss=loss).fit(X, y)
    assert model.topk_exact_ < 1.0
    assert model.dual_gap_ == np.inf and (model.history_["gap"][-1:] == np.inf).all()
    # the dual point is one all the same
    assert model.history_["dual"].max() <= model.objective_ + 1e-9


def test_l2_starts_from_the_solution_with_entropy():
    """At w = 0 the k best labelings of long sequences say nothing."""
    rng = np.random.RandomState(0)
    y = [rng.randint(5, size=12) for _ in range(30)]
    X = [np.eye(5)[row] + 0.3 * rng.normal(size=(12, 5)) for row in y]
    model = ChainCRF(0.01, loss=SmoothedHinge("l2", 0.3)).fit(X, y)
    assert model.score(X, y) > 0.98
    hinge = ChainCRF(0.01, random_state=0).fit(X, y)
    assert model.objective_ <= hinge.objective_ + 0.15 + 1e-3
    with pytest.warns(ConvergenceWarning, match="in 2 passes"):
        short = ChainCRF(0.01, loss=SmoothedHinge("l2", 0.3), max_iter=2).fit(X, y)
    assert short.n_iter_ == 2 and short.dual_gap_ == np.inf
    assert short.topk_exact_ > 0.0


@pytest.mark.parametrize(
    "loss", ["log", "smoothed_hinge", SmoothedHinge("l2")], ids=str
)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check, loss):
    check(ChainCRF(loss=loss, alpha=0.1))


class TestSolver:
    def test_interrupt_leaves_a_usable_model(self):
        X, y = problem(n=20)

        class Breaks(LBFGS):
            def solve(self, *args, callback=None, **kwargs):
                def stop(n_iter, weights):
                    raise KeyboardInterrupt

                return super().solve(*args, callback=stop, **kwargs)

        model = ChainCRF(0.01, loss="log", solver=Breaks(tol=1e-9))
        with pytest.raises(KeyboardInterrupt, match="can be used"):
            model.fit(X, y)
        assert len(model.predict(X)) == 20
        assert np.isfinite(model.objective_)

    def test_interrupt_of_the_start_of_l2(self):
        X, y = problem(n=20)

        def stop(*args):
            raise KeyboardInterrupt

        model = ChainCRF(0.01, loss=SmoothedHinge("l2"))
        solve = LBFGS.solve

        def broken(self, *args, **kwargs):
            return solve(self, *args, **(kwargs | {"callback": stop}))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LBFGS, "solve", broken)
            with pytest.raises(KeyboardInterrupt, match="can be used"):
                model.fit(X, y)
        assert model.dual_gap_ == np.inf and len(model.predict(X)) == 20

    def test_max_iter_warns_with_gap_tolerance_and_remedy(self):
        X, y = problem(n=20)
        with pytest.warns(ConvergenceWarning, match=r"gap.*tolerance.*max_iter"):
            model = ChainCRF(1e-3, loss="log", max_iter=2).fit(X, y)
        assert model.n_iter_ == 2

    def test_warm_start(self):
        X, y = problem(n=20)
        model = ChainCRF(0.01, loss="log", warm_start=True, tol=1e-6).fit(X, y)
        first = model.n_iter_
        model.set_params(alpha=0.011).fit(X, y)
        cold = ChainCRF(0.011, loss="log", tol=1e-6).fit(X, y)
        assert model.n_iter_ < min(first, cold.n_iter_)
        assert model.objective_ == pytest.approx(cold.objective_, rel=1e-5)

    @pytest.mark.parametrize(
        "change",
        [
            {"fit_intercept": False, "boundary": False},
            {"all_possible_transitions": False},
            {"all_possible_states": False},
            {"forbidden_transitions": [(0, 0)]},
            {"loss": SmoothedHinge("entropy", 0.3)},
            {"loss": "hinge"},
        ],
        ids=str,
    )
    def test_warm_start_of_another_problem(self, change):
        """The optimum of what is asked for now, whatever was before."""
        X, y = problem(n=20)
        X = [x * (np.abs(x) > 0.8) for x in X]
        X = [x for x, row in zip(X, y, strict=True) if "0, 0" not in str(row.tolist())]
        y = [row for row in y if "0, 0" not in str(row.tolist())]
        model = ChainCRF(0.05, loss="log", warm_start=True, tol=1e-6, random_state=0)
        model.fit(X, y).set_params(**change)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.fit(X, y)
        cold = clone(model).set_params(warm_start=False).fit(X, y)
        slack = model.dual_gap_ + cold.dual_gap_ + 1e-9
        assert abs(model.objective_ - cold.objective_) <= slack
        assert slack < 1e-4
        if "fit_intercept" in change:
            assert not model.intercept_.any() and not model.start_.any()

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.slow
    def test_hinge_duals_must_still_be_allowed(self):
        rng = np.random.RandomState(0)
        y = [np.array([0, 1, 0, 1, 2]), np.array([1, 2, 1])] * 5
        X = [rng.normal(size=(len(row), 4)) for row in y]
        rules = [(0, 0), (None, 2)]
        model = ChainCRF(0.05, warm_start=True, tol=2e-4, random_state=0).fit(X, y)
        other = clone(model).set_params(solver="casimir", tol=0.01).fit(X, y)
        for fitted in (model, other):
            fitted.set_params(forbidden_transitions=rules)
            with pytest.warns(UserWarning, match="fewer forbidden transitions"):
                fitted.fit(X, y)
        cold = clone(model).set_params(warm_start=False).fit(X, y)
        assert abs(cold.objective_ - model.objective_) <= 4e-4
        # the other way round they fit
        model.set_params(forbidden_transitions=rules[:1]).fit(X, y)
        assert model.dual_gap_ <= 2e-4

    def test_parameters_can_be_searched(self):
        X, y = problem(n=20)
        grid = {"solver__memory": [3, 10], "loss": ["log", SmoothedHinge()]}
        search = GridSearchCV(ChainCRF(0.1, loss="log", solver=LBFGS()), grid, cv=2)
        search.fit(X, y)
        search = GridSearchCV(
            ChainCRF(0.1, loss=SmoothedHinge()), {"loss__mu": [0.1, 1.0]}, cv=2
        ).fit(X, y)
        assert search.best_params_["loss__mu"] in (0.1, 1.0)

    def test_too_large_features(self):
        X, y = problem(n=5)
        with pytest.raises(ValueError, match=r"finite|too large"):
            ChainCRF(1e-300, loss="log").fit([1e200 * x for x in X], y)

    @pytest.mark.parametrize("threads", [2, 3])
    def test_threads_do_not_change_bits(self, threads):
        X, y = problem(n=50)
        for loss in ("log", "smoothed_hinge", SmoothedHinge("l2")):
            for data in (X, [x * (np.abs(x) > 1.2) for x in X]):
                one = ChainCRF(0.1, loss=loss, random_state=0).fit(data, y)
                many = ChainCRF(0.1, loss=loss, n_jobs=threads, random_state=0)
                many.fit(data, y)
                np.testing.assert_array_equal(one.coef_, many.coef_)
                np.testing.assert_array_equal(one.transitions_, many.transitions_)


class TestObservedWeights:
    def test_only_what_was_seen_together_has_a_weight(self):
        X, y = problem(n=4)
        X = [x * (np.abs(x) > 0.8) for x in X]
        model = ChainCRF(
            0.1,
            loss="log",
            tol=1e-6,
            all_possible_states=False,
            all_possible_transitions=False,
        ).fit(X, y)
        states = np.zeros((3, 4), dtype=bool)
        pairs = np.zeros((3, 3), dtype=bool)
        for x, row in zip(X, y, strict=True):
            for t, label in enumerate(row):
                states[label] |= x[t] != 0
            pairs[row[:-1], row[1:]] = True
        assert not states.all() and not pairs.all()
        assert not model.coef_[~states].any() and model.coef_[states].all()
        assert not model.transitions_[~pairs].any() and model.transitions_[pairs].all()

    @pytest.mark.slow
    def test_optimum_of_the_smaller_model(self):
        X, y = problem(n=4)
        X = [x * (np.abs(x) > 0.8) for x in X]
        data = TrainingData.read(X, y, None)
        _, model, _ = bound(X, y, LOSSES["log"], False)
        support = existing_weights(model, data, False, False)
        flags = np.zeros(model.n_weights)
        flags[support] = 1.0
        exists = flat_gradient(model, flags) > 0
        chain = Chain(X, y, 3)

        def reference(z):
            w = np.zeros(len(exists))
            w[exists] = z
            value = smooth_objective(chain, w, LOSSES["log"], augmented=False)
            return value + 0.05 * (w @ w)

        best = minimize(reference, np.zeros(exists.sum()), options={"gtol": 1e-7}).fun
        fitted = ChainCRF(
            0.1,
            loss="log",
            tol=1e-8,
            all_possible_states=False,
            all_possible_transitions=False,
        ).fit(X, y)
        assert fitted.objective_ == pytest.approx(best, rel=1e-6)


def test_stored_zeros_are_seen():
    """As in CRFsuite; every feature is stored with every label here."""
    X, y = problem(n=6)
    X = [x * (np.abs(x) > 0.8) for x in X]
    stored = []
    for x in X:
        matrix = sparse.csr_array(np.ones_like(x))
        matrix.data[:] = x.ravel()
        stored.append(matrix)
    one, two, three = (
        ChainCRF(0.1, loss="log", all_possible_states=possible, random_state=0)
        for possible in (True, False, False)
    )
    every = one.fit(X, y).coef_
    np.testing.assert_allclose(two.fit(stored, y).coef_, every)
    # dense rows and other sparse rows do not have these weights
    only = [sparse.csr_array(x) for x in X]
    np.testing.assert_allclose(two.fit(only, y).coef_, three.fit(X, y).coef_)
    assert not two.coef_.all() and every.all()


class TestUnobserved:
    @pytest.fixture
    def data(self):
        rng = np.random.RandomState(0)
        y = [rng.randint(3, size=rng.randint(3, 9)) for _ in range(60)]
        X = [np.eye(3)[row] + 0.4 * rng.normal(size=(len(row), 3)) for row in y]
        partial = []
        for row in y:
            hidden = rng.rand(len(row)) < 0.4
            hidden[rng.randint(len(row))] = False
            partial.append(
                [None if h else int(c) for h, c in zip(hidden, row, strict=True)]
            )
        return X, y, partial

    @pytest.mark.parametrize("loss", ["hinge", "log", "smoothed_hinge"])
    def test_unknown_labels(self, data, loss):
        X, y, partial = data
        model = ChainCRF(0.01, loss=loss, random_state=0).fit(X, partial)
        assert model.score(X, y) > 0.9
        assert model.dual_gap_ == np.inf
        assert model.classes_.tolist() == [0, 1, 2]

    def test_hinge_is_trained_on_its_own_completion(self, data):
        X, _, partial = data
        model = ChainCRF(0.01, random_state=0, tol=1e-4).fit(X, partial)
        completed = model.predict(X, known=partial)
        for row, known in zip(completed, partial, strict=True):
            assert all(k is None or k == c for c, k in zip(row, known, strict=True))
        # the objective: positions that were not observed cost nothing
        chain = Chain(X, completed, 3)
        w = chain.flatten(model)
        total = 0.005 * (w @ w)
        for i, known in enumerate(partial):
            mask = np.array([k is not None for k in known])
            unary, pairwise = chain.potentials(i, w)
            labels = completed[i]
            true = unary[np.arange(len(labels)), labels].sum()
            true += pairwise[labels[:-1], labels[1:]].sum()
            length = np.mean([sum(k is not None for k in row) for row in partial])
            unary = unary + mask[:, None] / length
            unary[np.arange(len(labels)), labels] -= mask / length
            best = unary[0]
            for row in unary[1:]:
                best = (best[:, None] + pairwise).max(axis=0) + row
            total += (best.max() - true) / len(X)
        assert model.objective_ == pytest.approx(total, rel=1e-9)

    @pytest.mark.parametrize("loss", ["hinge", "log"])
    def test_sample_weight_of_zero_is_removal(self, data, loss):
        X, _, partial = data
        weight = np.ones(len(X))
        weight[:5] = 0.0
        model = ChainCRF(0.01, loss=loss, random_state=0)
        model.fit(X, partial, sample_weight=weight)
        other = clone(model).fit(X[5:], partial[5:])
        np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-9)

    def test_class_weight_counts_what_is_known(self, data):
        X, _, known_in_part = data
        known = [label for row in known_in_part for label in row if label is not None]
        counts = np.bincount(known)
        weights = {k: len(known) / 3 / counts[k] for k in range(3)}
        make = partial(ChainCRF, 0.01, solver=BCFW.as_published(), random_state=0)
        balanced, given = make(class_weight="balanced"), make(class_weight=weights)
        np.testing.assert_allclose(
            balanced.fit(X, known_in_part).coef_,
            given.fit(X, known_in_part).coef_,
            atol=1e-9,
        )

    def test_no_false_convergence(self):
        """The likelihood of observed labels is not convex: no bound from elsewhere."""
        rng = np.random.RandomState(20)
        X = [rng.normal(size=(20, 2)) * 3 for _ in range(5)]
        y = [[None] * 20 for _ in X]
        for i, row in enumerate(y):
            row[10] = i % 2
        model = ChainCRF(0.01, loss="log", tol=1e-6, warm_start=True).fit(X, y)
        first = model.objective_
        model.fit(X, y)
        assert first == pytest.approx(model.objective_, rel=1e-3)
        assert (model.history_["gap"] == np.inf).all()
        assert model.dual_loss_ == -np.inf

    def test_errors_count_all_sequences(self):
        """Also those of weight zero."""
        X, rules = [np.ones((3, 1))] * 3, [(0, 1), (0, 0), (1, 1)]
        y = [[1, 0, 1], [1, 0, None], [0, None, 1]]
        for loss in ("log", "hinge"):
            model = ChainCRF(loss=loss, forbidden_transitions=rules[1:])
            with pytest.raises(ValueError, match=r"y\[2\]"):
                model.fit(X, y, sample_weight=[0, 1, 1])

    def test_interrupts_and_stops_between_rounds(self, data, callbacks):
        X, _, partial = data

        class Stops(BCFW):
            def solve(self, *args, callback=None, **kwargs):
                result = super().solve(*args, callback=callback, **kwargs)
                result.status = "interrupted"
                return result

        model = ChainCRF(solver=Stops(), random_state=0)
        with pytest.raises(KeyboardInterrupt, match="can be used"):
            model.fit(X, partial)
        assert len(model.predict(X)) == len(X)

        class Once(callbacks.ScoringMonitor):
            def on_fit_task_end(self, *args, **kwargs):
                super().on_fit_task_end(*args, **kwargs)
                return True

        # also where the pass that it stops at is the last one
        names = set(SOLVERS.names("max", losses=("hinge",))) - {"partitioned"}
        for solver in sorted(names):
            for tol in (3e-3, 0.9):
                model = ChainCRF(1.0, solver=solver, tol=tol, random_state=0)
                model.set_callbacks(Once(scoring={"a": lambda e, X, y: 1.0}))
                assert model.fit(X, partial).n_iter_ == 1

    def test_blocks_cannot_be_completed(self, data):
        X, _, partial = data
        with pytest.raises(ValueError, match="Partitioned cannot complete missing"):
            ChainCRF(solver="partitioned").fit(X, partial)

    def test_rounds_that_do_not_settle_are_told(self, data, monkeypatch):
        from sksstruct.solvers.core import procedures

        X, _, partial = data
        monkeypatch.setattr(procedures, "MAX_ROUNDS", 1)
        X = [x + 3 * np.sin(17 * x) for x in X]
        with pytest.warns(ConvergenceWarning, match="missing labels still changed"):
            ChainCRF(0.01, random_state=0).fit(X, partial)

    def test_a_sequence_without_any_label_is_an_error(self, data):
        X, _, partial = data
        partial[3] = [None] * len(partial[3])
        with pytest.raises(ValueError, match=r"y\[3\] has a missing label"):
            ChainCRF(loss="log").fit(X, partial)

    def test_callbacks_and_packed_input(self, data, callbacks):
        X, _, partial = data
        packed = PackedSequences.from_lengths(np.concatenate(X), [len(x) for x in X])
        model = ChainCRF(0.01, random_state=0)
        seen = []
        model.set_callbacks(
            callbacks.ScoringMonitor(
                scoring={"a": lambda e, X, y: seen.append(1) or 1.0}
            )
        )
        np.testing.assert_array_equal(
            model.fit(packed, partial).coef_,
            ChainCRF(0.01, random_state=0).fit(X, partial).coef_,
        )
        assert len(seen) >= model.n_iter_ > 1


class TestFromEntropy:
    """Training with an l2-smoothed loss begins with the entropy."""

    @staticmethod
    def data():
        # the k best labelings are all that get a share: there is a gap
        rng = np.random.default_rng(0)
        y = [rng.integers(0, 3, rng.integers(2, 8)) for _ in range(60)]
        return [np.eye(3)[k] + 0.8 * rng.normal(size=(len(k), 3)) for k in y], y

    def test_the_end_of_the_first_stage_is_no_convergence(self):
        X, y = self.data()
        tagger = ChainCRF(0.01, loss=SmoothedHinge("l2"), solver="lbfgs")
        warned = 0
        for max_iter in range(1, 21):
            tagger.set_params(max_iter=max_iter)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ConvergenceWarning)
                tagger.fit(X, y)
            warned += bool(caught)
            assert bool(caught) == (tagger.dual_gap_ > 0.01 * tagger.objective_)
        assert 5 < warned < 20

    def test_interrupts_between_the_stages(self, monkeypatch):
        X, y = self.data()
        solve = LBFGS._solve
        calls = []

        def interrupted(self, *args):
            calls.append(1)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return solve(self, *args)

        monkeypatch.setattr(LBFGS, "_solve", interrupted)
        tagger = ChainCRF(0.01, loss=SmoothedHinge("l2"), solver="lbfgs")
        with pytest.raises(KeyboardInterrupt, match="can be used"):
            tagger.fit(X, y)
        assert np.isinf(tagger.dual_gap_) and tagger.score(X, y) > 0.5

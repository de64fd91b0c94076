"""Features on pairs of labels: oracles, gradients, optima, and the estimator."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import (
    PairChain,
    best_by_tie_rule,
    enumerate_chain,
    flat_weights,
    in_order,
    smooth_objective,
)
from scipy import sparse
from scipy.optimize import approx_fprime
from scipy.special import softmax
from sklearn.base import clone

from sksstruct import ChainCRF, make_tagger
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.losses import SmoothedHinge
from sksstruct.models import ELUScore
from sksstruct.models.chain.chain import ChainModel
from sksstruct.models.chain.data import TrainingData
from sksstruct.models.chain.fitted import FittedChain
from sksstruct.models.chain.pair_support import PairSupport
from sksstruct.models.roles import smooth_loss
from sksstruct.solvers import BCFW, LBFGS
from sksstruct.utils.estimator_checks import CHECKS
from sksstruct.utils.packed import PackedSequences

LOSSES = {
    "log": ("entropy", 1.0, 1),
    "entropy": ("entropy", 0.3, 1),
    "l2": ("l2", 0.7, 4),
    "l2, all labelings": ("l2", 0.7, 1000),
}
COLUMNS = [0, 2]


def problem(seed=0, n=6, dtype=np.float64):
    """Sparse features, one position among the sequences, three labels."""
    rng = np.random.RandomState(seed)
    sizes = [1, *rng.randint(2, 5, size=n - 1)]
    X = [rng.normal(size=(size, 4)).astype(dtype) for size in sizes]
    for x in X:
        x[:, 1:] *= np.abs(x[:, 1:]) > 0.7
    y = [rng.randint(3, size=size) for size in sizes]
    y[1][0], y[2][0], y[3][0] = 0, 1, 2
    return X, y


def bound(X, y, name, known=None, **options):
    """The smooth loss of a chain with features on pairs, and its model."""
    loss = "log" if name == "log" else SmoothedHinge(*LOSSES[name])
    spec = ChainModel(loss=loss, transition_features=COLUMNS, **options)
    spec.check()
    if known is not None:
        y = [
            [label if seen else None for label, seen in zip(*rows, strict=True)]
            for rows in zip(y, known, strict=True)
        ]
    model = spec._bind(spec._read(X, y, None, None))
    return smooth_loss(model, SmoothedHinge(*LOSSES[name])), model, spec


class TestGradient:
    """Values against enumeration, gradients against finite differences."""

    def check(self, smooth, model, chain, rel=1e-12, **options):
        given, w = flat_weights(model, np.random.RandomState(1))
        gradient = np.full(model.n_weights, np.nan)
        value = smooth.value_and_gradient(given, gradient)

        def reference(w):
            return smooth_objective(chain, w, **options)

        assert value == pytest.approx(reference(w), rel=rel)
        found = [np.ravel(block) for block in model.views(gradient).values()]
        np.testing.assert_allclose(
            np.concatenate(found), approx_fprime(w, reference, 1e-6), atol=2e-5
        )
        # what no weight stands for
        for block in model.views(gradient).values():
            block[...] = 0.0
        assert not gradient.any()
        threads = np.empty(model.n_weights)
        assert smooth.value_and_gradient(given, threads, n_jobs=2) == value

    @pytest.mark.parametrize("name", LOSSES)
    @pytest.mark.parametrize("form", ["dense", "csr", "csr32"])
    def test_of_every_loss(self, name, form):
        X, y = problem(dtype=np.float32 if form == "csr32" else np.float64)
        given = X if form == "dense" else [sparse.csr_array(x) for x in X]
        smooth, model, _ = bound(given, y, name)
        chain = PairChain(X, y, 3, COLUMNS)
        rel = 1e-6 if form == "csr32" else 1e-12
        self.check(
            smooth, model, chain, rel, loss=LOSSES[name], augmented=name != "log"
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("name", LOSSES)
    def test_with_forbidden_transitions(self, name):
        X, y = problem(n=9)
        forbidden = (1, 1)
        keep = [
            i
            for i, row in enumerate(y)
            if forbidden not in zip(row[:-1], row[1:], strict=True)
        ]
        X, y = [X[i] for i in keep], [y[i] for i in keep]
        smooth, model, _ = bound(X, y, name, forbidden_transitions=[forbidden])

        def allowed(labelings):
            ones = labelings == 1
            return ~(ones[:, :-1] & ones[:, 1:]).any(axis=1)

        chain = PairChain(X, y, 3, COLUMNS)
        options = {"augmented": name != "log", "allowed": allowed}
        self.check(smooth, model, chain, loss=LOSSES[name], **options)

    def test_of_observed_labels(self):
        X, y = problem(n=8)
        rng = np.random.RandomState(4)
        known = [rng.rand(len(row)) < 0.6 for row in y]
        for row in known:
            row[rng.randint(len(row))] = True
        assert not np.concatenate(known).all()
        smooth, model, spec = bound(X, y, "log", known)
        chain = PairChain(X, y, 3, COLUMNS)
        seen = {
            (j, y[i][t - 1], y[i][t])
            for i, row in enumerate(known)
            for t in range(1, len(row))
            for j in COLUMNS
            if row[t - 1] and row[t] and X[i][t, j]
        }
        assert len(seen) < len(chain.triples)
        chain.triples = sorted(seen)
        assert spec.pairs_.n_weights == len(seen)
        self.check(
            smooth, model, chain, loss=LOSSES["log"], augmented=False, known=known
        )

    def test_of_extreme_scores(self):
        """Scores of thousands, where exponentials underflow."""
        X, y = problem()
        smooth, model, _ = bound(X, y, "log")
        given, w = flat_weights(model, np.random.RandomState(1))
        chain = PairChain(X, y, 3, COLUMNS)
        for scale in (100.0, 3000.0):
            given, w = given * scale, w * scale
            value = smooth.value_and_gradient(given, np.empty(model.n_weights))
            expected = smooth_objective(chain, w, LOSSES["log"], augmented=False)
            assert value == pytest.approx(expected, rel=1e-12)


@st.composite
def fitted_chains(draw):
    """A sequence, weights with ties, and constraints."""
    size, n_labels, n_features = (draw(st.integers(1, n)) for n in (4, 3, 3))
    rng = np.random.RandomState(draw(st.integers(0, 10**6)))
    X = rng.randint(-1, 2, size=(size, n_features)).astype(float)
    vector, table = (n_labels,), (n_labels, n_labels)
    shapes = [(n_labels, n_features), vector, vector, vector, table]
    shapes.append((n_features, n_labels**2))
    weights = [rng.randint(-2, 3, size=shape).astype(float) for shape in shapes]
    weights[-1] *= rng.uniform(size=weights[-1].shape) < draw(st.sampled_from([0.3, 1]))
    forbidden = draw(
        st.lists(st.tuples(*2 * [st.integers(0, n_labels - 1)]), max_size=2)
    )
    excluded = None
    if draw(st.booleans()):
        excluded = [[rng.choice(n_labels, size=1) for _ in range(size)]]
    return X, weights, forbidden, excluded


@pytest.mark.slow
@settings(max_examples=150)
@given(chain=fitted_chains())
def test_oracles_equal_enumeration(chain):
    """Max, top-K and marginals: with ties, single positions and labels, and -inf."""
    X, weights, forbidden, excluded = chain
    coef, bias, start, end, transitions, pairs = weights
    n_labels, size = len(coef), len(X)
    unary = X @ coef.T + bias
    unary[0] += start
    unary[-1] += end
    tables = transitions + (X[1:] @ pairs).reshape(-1, n_labels, n_labels)
    for a, b in forbidden:
        tables[:, a, b] = -np.inf
    for t in range(size if excluded else 0):
        unary[t, excluded[0][t]] = -np.inf
    labelings, scores = enumerate_chain(unary, tables)
    classes = np.arange(n_labels)
    to_decode, fitted = (
        FittedChain(
            PackedSequences(X, [0, size]),
            classes,
            *weights[:-1],
            forbidden,
            excluded=excluded,
            dense=dense,
            transition_coef=sparse.csr_array(pairs),
        )
        for dense in (False, True)
    )
    if not np.isfinite(scores).any():
        for method in (fitted.decode, fitted.marginals, lambda: fitted.topk(3)):
            with pytest.raises(ValueError, match="leave no labeling"):
                method()
        return
    for chain in (to_decode, fitted):
        labels, value = chain.decode()
        np.testing.assert_array_equal(labels, best_by_tie_rule(labelings, scores))
        assert value[0] == scores.max()
    rows, values = fitted.topk(7)
    expected, best = in_order(labelings, scores)
    np.testing.assert_array_equal(values[0], best[:7])
    np.testing.assert_array_equal(rows[0], expected[:7])
    shares = softmax(scores)
    nodes = np.array(
        [[shares[labelings[:, t] == k].sum() for k in classes] for t in range(size)]
    )
    np.testing.assert_allclose(fitted.marginals(), nodes, atol=1e-12)


class TestFrankWolfe:
    def test_line_search_knows_the_norm_of_a_change(self):
        """One step on one example, in NumPy: its length depends on |A'd|^2."""
        rng = np.random.RandomState(3)
        X, y, alpha = [rng.normal(size=(6, 4))], [rng.randint(3, size=6)], 0.7
        y[0][:3] = 0, 1, 2
        chain = PairChain(X, y, 3, COLUMNS)
        zeros = np.zeros(len(chain.feature_map(0, y[0])))
        # at w = 0 the labels that come first among those that are wrong
        worst = np.where(y[0] == 0, 1, 0)
        psi = chain.feature_map(0, y[0]) - chain.feature_map(0, worst)
        step = min(1.0, chain.hinge(0, zeros) * alpha / (psi @ psi))
        assert step < 1.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = ChainCRF(
                alpha,
                solver=BCFW.as_published(
                    sampling="permutation", step="fw", averaging=False, max_iter=1
                ),
                transition_features=COLUMNS,
                random_state=0,
            ).fit(X, y)
        np.testing.assert_allclose(
            chain.flatten(model), step / alpha * psi, rtol=1e-9, atol=1e-12
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("length", [5, 60])
    @pytest.mark.parametrize(
        "options",
        [
            {"step": "pairwise", "cache": True, "inner_steps": 10},
            {"step": "away", "inner_steps": 3},
            {"step": "pairwise", "averaging": False},
            {"step": "fw"},
        ],
        ids=str,
    )
    def test_certificate_is_that_of_numpy(self, options, length):
        """Also where sequences are too long for a Gram matrix."""
        rng = np.random.RandomState(0)
        X = [(rng.normal(size=(length, 3))).round(1) for _ in range(3)]
        y = [rng.randint(3, size=length) for _ in range(3)]
        alpha, chain = 5.0, PairChain(X, y, 3, [1])
        model = ChainCRF(
            alpha,
            solver=BCFW.as_published(**options, max_iter=9000, tol=0.02),
            transition_features=[1],
            random_state=0,
        ).fit(X, y)
        w = chain.flatten(model)
        assert model.objective_ == pytest.approx(chain.primal(w, alpha), abs=1e-9)
        dual = model.dual_loss_ - alpha / 2 * (w @ w)
        assert model.objective_ - model.dual_gap_ == pytest.approx(dual, abs=1e-9)
        assert -1e-9 <= model.dual_gap_ <= 0.02

    @pytest.mark.slow
    @pytest.mark.parametrize("limits", [(None, 0.0), (-0.02, 0.03)])
    def test_bounds(self, limits):
        X, y = problem(n=8)
        chain, alpha = PairChain(X, y, 3, COLUMNS), 0.3
        model = ChainCRF(
            alpha,
            solver=BCFW(bounds={"transition_coef": limits}, max_iter=9000, tol=1e-3),
            transition_features=COLUMNS,
            random_state=0,
        ).fit(X, y)
        free = [(None, None)] * (3 * 4 + 9 + 9)
        best = chain.optimum(alpha, free + [limits] * len(chain.triples))
        assert -1e-6 <= model.objective_ - best <= model.dual_gap_ + 1e-6
        assert model.dual_gap_ <= 1e-3
        data = model.transition_coef_.data
        assert (data <= limits[1]).all() and (data == limits[1]).any()


def switches(n, seed=0):
    """Labels that stay or change as a flag says: no emission knows which label."""
    rng = np.random.RandomState(seed)
    X, y = [], []
    for _ in range(n):
        x = np.zeros((8, 4))
        flags = rng.randint(2, size=8)
        labels = (rng.randint(2) + np.cumsum(np.append(0, flags[1:]))) % 2
        x[np.arange(8), flags] = 1.0
        x[0, 2 + labels[0]] = 1.0
        X.append(x)
        y.append(labels)
    return X, y


@pytest.mark.parametrize("loss", ["hinge", "log", "smoothed_hinge"])
def test_where_transitions_depend_on_the_observations(loss):
    (X, y), (X_test, y_test) = switches(60), switches(60, seed=1)
    plain = ChainCRF(0.01, loss=loss, random_state=0)
    paired = clone(plain).set_params(transition_features=[0, 1])
    assert plain.fit(X, y).score(X_test, y_test) < 0.8
    assert paired.fit(X, y).score(X_test, y_test) == 1.0
    # a flag of 0 never goes with a change, nor 1 with the same label again
    assert set(paired.pair_features_) == {
        ("x0", 0, 0), ("x0", 1, 1), ("x1", 0, 1), ("x1", 1, 0)
    }  # fmt: skip


class TestWeightsThatExist:
    def test_only_of_what_was_seen_together(self):
        X = [np.array([[1.0, 1.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 2.0]])]
        y = [["a", "b"], ["b", "b"]]
        model = ChainCRF(loss="log", transition_features=[0, 1]).fit(X, y)
        # the first position has no pair, and a zero is not seen
        assert set(model.pair_features_) == {("x0", "a", "b"), ("x1", "b", "b")}
        assert model.transition_coef_.shape == (2, 4)
        assert (model.transition_coef_.data != 0).all()

    def test_stored_zeros_were_not_seen(self):
        data = np.array([1.0, 0.0]), np.array([0, 0]), np.array([0, 1, 2])
        X = [sparse.csr_array(data, shape=(2, 1))]
        assert X[0].nnz == 2
        model = ChainCRF(transition_features=[0]).fit(X, [["a", "b"]])
        assert model.transition_coef_.nnz == 0
        assert len(model.predict(X)[0]) == 2

    @pytest.mark.parametrize("loss", ["hinge", "log", "smoothed_hinge"])
    def test_single_positions_have_none(self, loss):
        X, y = [[[1.0]], [[-1.0]]], [["a"], ["b"]]
        model = ChainCRF(0.1, loss=loss, transition_features=[0]).fit(X, y)
        assert model.transition_coef_.shape == (1, 4)
        assert model.transition_coef_.nnz == 0 and model.score(X, y) == 1.0

    @pytest.mark.parametrize("option", ["all_possible_states", "boundary"])
    def test_with_few_other_weights(self, option):
        X, y = problem(n=8)
        options = {option: False, "loss": "log", "transition_features": COLUMNS}
        model = ChainCRF(0.1, solver=LBFGS(tol=1e-9), **options).fit(X, y)
        chain = PairChain(X, y, 3, COLUMNS, boundary=option != "boundary")
        w = chain.flatten(model)
        exact = smooth_objective(chain, w, LOSSES["log"], augmented=False)
        assert model.objective_ == pytest.approx(exact + 0.05 * (w @ w), rel=1e-9)
        assert model.dual_gap_ <= 1e-8

    def test_support_as_table_and_back(self):
        X, y = problem()
        data = TrainingData.read(X, y, None)
        support = PairSupport.seen(data, np.array(COLUMNS))
        weights = np.arange(support.n_weights) - 3.0  # a zero among them
        coef = support.coef(weights)
        assert coef.nnz == support.n_weights
        np.testing.assert_array_equal(PairSupport.stored(coef).keys, support.keys)
        chain = PairChain(X, y, 3, COLUMNS)
        dense = coef.toarray().reshape(4, 3, 3)
        assert [dense[triple] for triple in chain.triples] == weights.tolist()


class TestChoice:
    """What transition_features takes."""

    X = [[{"B:x": 1.0, "w": 2.0}, {"B:x": 1.0, "B:y": 1.0}, {"w": 1.0, "B:y": 2.0}]]
    y = [["a", "b", "a"]]

    @pytest.mark.parametrize(
        ("given", "columns"),
        [
            ("B:", [0, 2]),
            ("B:y", [2]),
            (["B:y", "w", "w"], [1, 2]),
            (np.array(["B:x"]), [0]),
            ([2, 0], [0, 2]),
            (np.array([False, True, False]), [1]),
            ([], []),
        ],
    )
    def test_columns(self, given, columns):
        pipeline = make_tagger(transition_features=given).fit(self.X, self.y)
        model = pipeline[-1]
        assert pipeline.pair_features_ == model.pair_features_
        assert model.feature_names_in_.tolist() == ["B:x", "w", "B:y"]
        stored = np.flatnonzero(np.diff(model.transition_coef_.indptr))
        np.testing.assert_array_equal(stored, columns)
        assert pipeline.predict(self.X)[0].tolist() == self.y[0]

    @pytest.mark.parametrize(
        ("given", "error", "message"),
        [
            ("C:", ValueError, "no feature of X begins with 'C:'"),
            (["B:x", "nothing"], ValueError, "has 'nothing', which X has no feature"),
            ([0, 3], ValueError, "has the column 3, but X has 3 features"),
            ([-1], ValueError, "has the column -1"),
            ([True, False], ValueError, "a mask of 2 columns, but X has 3"),
            ([[0]], ValueError, "must be one-dimensional"),
            ([1.5], TypeError, "must hold names of features, column indices"),
            (3, ValueError, "transition_features"),
        ],
    )
    def test_wrong(self, given, error, message):
        X = SequenceVectorizer().fit_transform(self.X)
        with pytest.raises(error, match=message):
            ChainCRF(transition_features=given).fit(X, self.y)

    @pytest.mark.parametrize("given", ["B:", ["w"]])
    def test_names_of_features_without_names(self, given):
        with pytest.raises(ValueError, match=r"those of X have\s+no names"):
            ChainCRF(transition_features=given).fit([[[1.0], [2.0]]], [["a", "b"]])

    def test_prefix_is_no_other_word_of_the_name(self):
        X = SequenceVectorizer().fit_transform([[["aB:", "B:a"], ["aB:", "B:a"]]])
        model = ChainCRF(transition_features="B:").fit(X, [["a", "b"]])
        assert set(model.pair_features_) == {("B:a", "a", "b")}


@pytest.mark.parametrize("solver", ["gdmm", "soft_bcfw"])
def test_solvers_with_factors_are_refused(solver):
    X, y = problem()
    with pytest.raises(ValueError, match="factors") as caught:
        ChainCRF(solver=solver, transition_features=COLUMNS).fit(X, y)
    assert "without transition_features" in "".join(caught.value.__notes__)


def test_pragam_with_sequences_of_one_position():
    """They have no transitions: alone they leave no table of pairs at all."""
    X, y = [[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 1.0]]], [["a"], ["b"], ["b"]]
    common = {"transition_features": [0], "tol": 1e-6}
    found, peer = (
        ChainCRF(0.1, solver=solver, max_iter=5000, **common).fit(X, y)
        for solver in ("pragam", "bmrm")
    )
    assert found.objective_ == pytest.approx(peer.objective_, rel=1e-4)
    assert found.transition_coef_.nnz == 0


def test_score_functions_are_refused():
    X, y = problem()
    model = ChainCRF(score_function=ELUScore(2), transition_features=COLUMNS)
    with pytest.raises(ValueError, match="transition_features cannot be used with"):
        model.fit(X, y)


@pytest.mark.parametrize("loss", ["hinge", "log"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check, loss):
    check(ChainCRF(0.1, loss=loss, transition_features=[0]))


def test_pickle_keeps_predictions():
    X, y = problem(n=8)
    model = ChainCRF(0.1, loss="log", transition_features=COLUMNS).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    for one, other in zip(model.predict_proba(X), again.predict_proba(X), strict=True):
        np.testing.assert_array_equal(one, other)
    assert again.pair_features_ == model.pair_features_


def test_no_pair_features_without_the_parameter():
    X, y = problem()
    model = ChainCRF().fit(X, y)
    assert not hasattr(model, "transition_coef_")
    with pytest.raises(AttributeError, match="without transition_features"):
        model.pair_features_  # noqa: B018


class TestWarmStart:
    @pytest.mark.parametrize(
        "options",
        [
            {"loss": "hinge"},
            {"loss": "log"},
            {"loss": "smoothed_hinge"},
            {"loss": "log", "solver": "lbfgs"},
            {"loss": "hinge", "solver": "casimir"},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("other", [None, [1], [2, 3]], ids=str)
    @pytest.mark.filterwarnings("ignore:warm_start")
    def test_with_other_features(self, options, other):
        """The optimum of what is asked for now, whatever was before."""
        X, y = problem(n=12)
        model = ChainCRF(
            1.0, **options, tol=1e-3, warm_start=True, random_state=0,
            transition_features=COLUMNS,
        )  # fmt: skip
        model.fit(X, y).set_params(transition_features=other).fit(X, y)
        cold = clone(model).set_params(warm_start=False).fit(X, y)
        gaps = model.dual_gap_ + cold.dual_gap_
        assert gaps <= 1e-2 and abs(model.objective_ - cold.objective_) <= gaps
        assert hasattr(model, "transition_coef_") == (other is not None)

    @pytest.mark.slow
    @pytest.mark.parametrize("loss", ["log", "smoothed_hinge"])
    def test_with_other_values(self, loss):
        """The distributions that were kept are those of other features."""
        X, y = problem(n=12)
        model = ChainCRF(
            0.1, loss=loss, solver="sdca", tol=1e-4, warm_start=True, random_state=0,
            transition_features=COLUMNS,
        ).fit(X, y)  # fmt: skip
        X = [2.0 * x for x in X]
        with pytest.warns(UserWarning, match="warm_start"):
            model.fit(X, y)
        cold = clone(model).set_params(warm_start=False).fit(X, y)
        assert model.objective_ == cold.objective_

    @pytest.mark.parametrize("loss", ["hinge", "log", "smoothed_hinge"])
    def test_saves_passes(self, loss):
        X, y = problem(n=20)
        model = ChainCRF(
            0.01, loss=loss, tol=1e-3, warm_start=True, random_state=0,
            transition_features=COLUMNS,
        ).fit(X, y)  # fmt: skip
        cold = clone(model).set_params(alpha=0.0101, warm_start=False).fit(X, y)
        assert model.set_params(alpha=0.0101).fit(X, y).n_iter_ < cold.n_iter_


class TestStream:
    solver = BCFW.as_published(sampling="permutation", averaging=False)

    def test_pairs_come_with_the_batches(self):
        rng = np.random.RandomState(0)
        first = [rng.normal(size=(5, 2)) * [1, 0] for _ in range(6)]
        second = [rng.normal(size=(5, 2)) * [0, 1] for _ in range(3)]
        y = [rng.randint(3, size=5) for _ in range(9)]
        model = ChainCRF(
            0.1, solver=self.solver, transition_features=[0, 1], random_state=0
        )
        model.partial_fit(first, y[:6], classes=[0, 1, 2])
        before = model.transition_coef_
        assert before.nnz and set(before.tocoo().row) == {0}
        model.partial_fit(second, y[6:])
        after = model.transition_coef_
        assert set(after.tocoo().row) == {0, 1}
        # the sequences of the second batch do not have the first feature
        np.testing.assert_allclose(
            after[[0]].toarray(), before[[0]].toarray() * 6 / 9, rtol=1e-12
        )
        chain = PairChain(second, y[6:], 3, [1])
        assert after[[1]].nnz == len(chain.triples) and after[[1]].toarray().any()

    @pytest.mark.parametrize("averaging", [True, False])
    def test_many_batches_learn(self, averaging):
        X, y = switches(200)
        solver = BCFW.as_published(sampling="permutation", averaging=averaging)
        model = ChainCRF(
            0.01, solver=solver, transition_features=[0, 1], random_state=0
        )
        for start in range(0, 200, 10):
            batch = slice(start, start + 10)
            model.partial_fit(X[batch], y[batch], classes=[0, 1])
        # without the features it is little more than a half
        assert model.score(*switches(60, seed=1)) > 0.9

    def test_goes_on_from_fits_with_and_without(self):
        X, y = switches(60)
        options = {"solver": "bcfw", "random_state": 0}
        model = ChainCRF(0.01, transition_features=[0, 1], **options).fit(X, y)
        seen = set(model.pair_features_)
        # weights that were fitted do not disappear with the parameter
        model.set_params(transition_features=None).partial_fit(X[:5], y[:5])
        assert set(model.pair_features_) == seen and model.score(X, y) > 0.95
        plain = ChainCRF(0.01, **options).fit(X, y)
        plain.set_params(transition_features=[0, 1]).partial_fit(X[:5], y[:5])
        assert set(plain.pair_features_) == seen


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge"])
def test_labels_are_completed(loss):
    X, y = switches(60)
    rng = np.random.RandomState(0)
    y = [[k if rng.uniform() < 0.8 else None for k in row] for row in y]
    model = ChainCRF(0.01, loss=loss, transition_features=[0, 1], random_state=0)
    model.fit(X, [row if any(k is not None for k in row) else [0] * 8 for row in y])
    X_test, y_test = switches(60, seed=1)
    assert model.score(X_test, y_test) > 0.95


@pytest.mark.parametrize("loss", ["hinge", "log", "smoothed_hinge"])
def test_forbidden_transitions_hold_in_prediction(loss):
    X, y = switches(60)
    model = ChainCRF(
        0.01, loss=loss, tol=0.02, transition_features=[0, 1], random_state=0
    )
    model.fit(X, y)
    assert any((np.diff(row) < 0).any() for row in model.predict(X))
    for row in model.predict(X, forbidden_transitions=[(1, 0)]):
        assert (np.diff(row) >= 0).all()
    rising = [np.sort(row) for row in y]
    model.set_params(forbidden_transitions=[(1, 0)]).fit(X, rising)
    for row in model.predict(switches(60, seed=1)[0]):
        assert (np.diff(row) >= 0).all()

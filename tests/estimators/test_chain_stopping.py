"""When training of a tagger ends, besides the tolerance."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sksstruct import (
    ChainCRF,
    LinearSSVC,
    MultilabelPairwise,
    SegmentCRF,
    SSVMClassifier,
    crfsuite_parameters,
)
from sksstruct.datasets import make_chain, make_segments
from sksstruct.estimators._train import tolerance
from sksstruct.utils.packed import PackedSequences


@pytest.fixture(scope="module")
def data():
    return make_chain(60, n_classes=3, noise=1.0, random_state=0)


class TestEarlyStopping:
    @pytest.mark.parametrize("loss", ["hinge", "log"])
    def test_it_stops_when_the_score_no_longer_rises(self, data, loss):
        tagger = ChainCRF(
            1e-4, loss=loss, tol=0.0, early_stopping=True, n_iter_no_change=4,
            validation_fraction=0.25, random_state=0,
        ).fit(data.X, data.y)  # fmt: skip
        scores = tagger.validation_scores_
        assert tagger.n_iter_ == len(scores) < tagger.max_iter
        assert scores[-4:].max() <= scores[:-4].max()
        # and not before
        for end in range(5, len(scores)):
            assert scores[end - 4 : end].max() > scores[: end - 4].max()
        assert tagger.n_seen_ == 45

    def test_data_in_every_form(self, data):
        lists = ChainCRF(early_stopping=True, random_state=0).fit(data.X, data.y)
        lengths = [len(x) for x in data.X]
        packed = PackedSequences.from_lengths(np.vstack(data.X), lengths)
        other = clone(lists).fit(packed, data.y)
        np.testing.assert_array_equal(lists.coef_, other.coef_)
        equal = np.zeros((20, 3, 2)) + np.arange(3)[:, None]
        one = clone(lists).fit(equal, np.tile([0, 1, 2], (20, 1)))
        assert one.n_seen_ == 18
        weight = np.full(60, 0.5)
        assert clone(lists).fit(data.X, data.y, weight).n_seen_ == 27

    def test_what_is_set_aside(self, data):
        """No sequence that says nothing, and none whose label is found nowhere else."""
        X = [*data.X[:20], np.zeros((0, data.X[0].shape[1])), data.X[20]]
        y = [*data.y[:20], [], np.full(len(data.X[20]), 7)]
        weight = np.append(np.ones(20), [1.0, 1.0])
        weight[:5] = 0.0
        for seed in range(10):
            tagger = ChainCRF(
                early_stopping=True, validation_fraction=0.3, random_state=seed
            ).fit(X, y, weight)
            assert 7 in tagger.classes_

    def test_errors_name_the_sequence(self, data):
        X = list(data.X)
        X[17] = np.full_like(X[17], np.nan)
        with pytest.raises(ValueError, match=r"X\[17\]"):
            ChainCRF(early_stopping=True).fit(X, data.y)
        blank = [*data.y]
        blank[17] = [None] * len(blank[17])
        with pytest.raises(ValueError, match=r"y\[17\] has a missing label"):
            ChainCRF(early_stopping=True).fit(data.X, blank)

    def test_not_on_mini_batches(self, data):
        with pytest.raises(ValueError, match="early_stopping"):
            ChainCRF(early_stopping=True).partial_fit(data.X, data.y, [0, 1, 2])
        with pytest.raises(ValueError, match="l1_ratio"):
            ChainCRF(l1_ratio=0.5).partial_fit(data.X, data.y, [0, 1, 2])
        tagger = ChainCRF(loss="log").fit(data.X, data.y).set_params(loss="hinge")
        with pytest.raises(ValueError, match="loss='log'"):
            tagger.partial_fit(data.X, data.y)

    def test_nothing_remains_without_it(self, data):
        tagger = ChainCRF(early_stopping=True, random_state=0).fit(data.X, data.y)
        tagger.set_params(early_stopping=False).fit(data.X, data.y)
        assert not hasattr(tagger, "validation_scores_")

    @pytest.mark.parametrize(
        "bad", [{"validation_fraction": 1.0}, {"n_iter_no_change": 0}]
    )
    def test_bad_values(self, data, bad):
        with pytest.raises(ValueError, match=next(iter(bad))):
            ChainCRF(early_stopping=True, **bad).fit(data.X, data.y)


@pytest.mark.parametrize("loss", ["hinge", "log"])
@pytest.mark.parametrize("solver", ["auto", "casimir"])
def test_time_limit(data, loss, solver):
    tagger = ChainCRF(1e-6, loss=loss, solver=solver, tol=0.0, max_seconds=1e-9)
    with pytest.warns(ConvergenceWarning, match="ended by max_seconds after 1 pass"):
        tagger.fit(data.X, data.y)
    assert tagger.n_iter_ == 1
    assert np.isfinite(tagger.objective_)
    # and for labels that are completed in rounds
    partial = [[*row[:-1], None] if len(row) > 1 else row for row in data.y]
    assert tagger.set_params(loss="hinge").fit(data.X, partial).n_iter_ == 1


@pytest.mark.parametrize(
    "estimator",
    [
        SSVMClassifier(),
        SSVMClassifier(loss="log", solver="lbfgs"),
        LinearSSVC(),
        MultilabelPairwise(),
        MultilabelPairwise(loss="structured_hinge", solver="bca"),
    ],
    ids=repr,
)
def test_time_limit_of_classifiers(estimator):
    rng = np.random.RandomState(0)
    X, y = rng.standard_normal((40, 3)), np.arange(40) % 2
    if isinstance(estimator, MultilabelPairwise):
        # with pairs that are worth a trial
        y = np.column_stack([y, 1 - y])
    estimator = clone(estimator).set_params(max_seconds=1e-9, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # that it is far from trained, and none of other kinds
        warnings.filterwarnings("ignore", "training was ended by max_seconds")
        estimator.fit(X, y)
    assert estimator.n_iter_ == 1
    if isinstance(estimator, MultilabelPairwise):
        # no time for a trial with pairs
        assert estimator.interaction_scaling_ == 0.0
    with pytest.raises(ValueError, match="max_seconds"):
        estimator.set_params(max_seconds=0.0).fit(X, y)


class TestAlpha:
    def test_auto(self, data):
        weight = np.full(60, 0.5)
        square = np.vstack(data.X).var(axis=0).sum()
        log = ChainCRF(loss="log", random_state=0).fit(data.X, data.y)
        assert log.alpha_ == pytest.approx(0.0015 * square / 60)
        log.fit(data.X, data.y, weight)
        assert log.alpha_ == pytest.approx(0.0015 * square / 30)
        assert ChainCRF(0.5).fit(data.X, data.y).alpha_ == 0.5

    def test_auto_follows_the_number_and_the_length_of_sequences(self, data):
        usual = 0.002 * np.vstack(data.X).var(axis=0).sum()
        length = np.mean([len(x) for x in data.X])
        few = pytest.approx(usual * 50 * length / 60)
        hinge = ChainCRF().fit(data.X, data.y)
        assert hinge.alpha_ == few
        weight = np.full(60, 0.5)
        assert hinge.fit(data.X, data.y, weight).alpha_ / 2 == few
        assert ChainCRF(loss_normalization=None).fit(
            data.X, data.y
        ).alpha_ == pytest.approx(usual)  # fmt: skip
        many = ChainCRF(max_iter=1)
        with pytest.warns(ConvergenceWarning):
            many.fit(data.X * 60, data.y * 60)
        assert many.alpha_ == pytest.approx(usual)
        batch = ChainCRF().partial_fit(data.X, data.y, classes=[0, 1, 2])
        assert batch.alpha_ == few
        # of all mini-batches so far
        assert 2 * batch.partial_fit(data.X, data.y).alpha_ == few

    def test_sequences_that_are_cut_have_the_same_optimum(self):
        """Weights per position are the same; only the ends and the loss differ."""
        data = make_segments(12, random_state=0)
        X = [x[:160] for x in data.X]
        y = [labels[:160] for labels in data.y]
        cut = [part for x in X for part in np.split(x, 4)]
        labels = [part for each in y for part in np.split(each, 4)]
        options = {"boundary": False, "tol": 1e-4, "random_state": 0}
        long, short = (
            ChainCRF(**options).fit(*each) for each in ((X, y), (cut, labels))
        )
        assert long.alpha_ / short.alpha_ == pytest.approx(16.0)
        np.testing.assert_allclose(
            4.0 * long.coef_, short.coef_, rtol=0.3, atol=0.1 * abs(short.coef_).max()
        )

    @pytest.mark.parametrize("loss, tol", [("hinge", 3e-3), ("log", 1e-2)])
    def test_tolerance_follows_the_loss(self, data, loss, tol):
        tagger = ChainCRF(loss=loss, random_state=0).fit(data.X, data.y)
        assert tagger.solver_.tol == tol
        assert tagger.set_params(tol=0.5).fit(data.X, data.y).solver_.tol == 0.5
        X, y = np.vstack(data.X), np.concatenate(data.y)
        classifier = SSVMClassifier(loss=loss, random_state=0).fit(X, y)
        assert classifier.solver_.tol == tol

    @pytest.mark.parametrize("alpha", ["mean", -1.0, np.inf, np.nan])
    def test_bad_values(self, data, alpha):
        with pytest.raises(ValueError, match="alpha"):
            ChainCRF(alpha).fit(data.X, data.y)


class TestCRFsuiteParameters:
    def test_objective(self, data):
        """c1 |w|_1 + c2 |w|^2 + the sum of the losses, divided by n."""
        parameters = crfsuite_parameters(60, c1=0.3, c2=0.2)
        parameters |= {"tol": 1e-6, "random_state": 0}
        tagger = ChainCRF(**parameters).fit(data.X, data.y)
        losses = 0.0
        for x, row in zip(data.X, data.y, strict=True):
            best, scores = tagger.predict_topk([x], 10**6)
            true = scores[0][(best[0] == row).all(axis=1)]
            # labelings that the model cannot tell apart are among them
            losses += np.logaddexp.reduce(scores[0]) - true[0] if len(true) else 0.0
        blocks = tagger.coef_, tagger.transitions_
        w = np.concatenate([block.ravel() for block in blocks])
        total = losses + 0.3 * np.abs(w).sum() + 0.2 * w @ w
        assert tagger.objective_ * 60 == pytest.approx(total, rel=1e-6)
        assert not tagger.intercept_.any()
        assert not tagger.start_.any()

    def test_other_algorithms(self):
        assert crfsuite_parameters(10, algorithm="pa", max_iterations=5) == {
            "fit_intercept": False,
            "boundary": False,
            "max_iter": 5,
        }

    @pytest.mark.parametrize(
        "bad",
        [{"c1": -1.0}, {"c2": -1.0}, {"algorithm": "sgd"}, {"max_iterations": 0}],
    )
    def test_bad_values(self, bad):
        with pytest.raises(ValueError, match=next(iter(bad))):
            crfsuite_parameters(10, **bad)
        with pytest.raises(ValueError, match="n_sequences"):
            crfsuite_parameters(0)

    def test_no_squared_norm(self):
        """L-BFGS needs none of it."""
        free = crfsuite_parameters(10, c2=0.0)
        assert (free["alpha"], free["l1_ratio"], free["solver"]) == (0.0, 0.0, "lbfgs")
        sparse = crfsuite_parameters(10, c1=0.5, c2=0.0)
        assert (sparse["alpha"], sparse["l1_ratio"]) == (0.05, 1.0)
        assert sparse["solver"] == "lbfgs"
        assert sparse == crfsuite_parameters(10, c1=0.5, c2=1e-20)

    def test_penalties_that_round_to_none(self):
        with pytest.raises(ValueError, match="c1=5e-324 and c2=5e-324 are too small"):
            crfsuite_parameters(1000, c1=5e-324, c2=5e-324)


@pytest.mark.parametrize("alpha", [0.0, 5e-324])
def test_a_share_of_no_penalty(data, alpha):
    """A message about l1_ratio would mislead where nothing is left of the penalty."""
    common = {"loss": "log", "max_iter": 2}
    plain = ChainCRF(0.0, **common)
    given = ChainCRF(alpha, l1_ratio=0.3, **common)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        plain.fit(data.X, data.y)
        if alpha:
            with pytest.raises(ValueError, match="1 / alpha, are too large"):
                given.fit(data.X, data.y)
            return
        given.fit(data.X, data.y)
    np.testing.assert_array_equal(given.coef_, plain.coef_)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_the_smallest_weights_of_sequences(data, class_weight):
    """Shares of the sequences count, whatever their unit."""
    given = np.arange(len(data.X)) % 3
    common = {"class_weight": class_weight, "random_state": 0}
    unit, tiny = (
        ChainCRF(0.1, **common).fit(data.X, data.y, sample_weight=given * size)
        for size in (1.0, 5e-324)
    )
    np.testing.assert_allclose(tiny.coef_, unit.coef_, rtol=1e-9, atol=1e-12)


class TestRareLabels:
    """Always the same label would be near the optimum where others are rare."""

    @staticmethod
    def data(share):
        rng = np.random.RandomState(0)
        words, y = rng.randint(40, size=(400, 20)), np.zeros((400, 20), dtype=int)
        where = rng.choice(8000, int(share * 8000), replace=False)
        y.flat[where], words.flat[where] = 1, rng.randint(35, 45, size=len(where))
        return list(np.eye(45)[words]), y

    @pytest.mark.parametrize("kind", [ChainCRF, SegmentCRF])
    def test_tolerance(self, kind):
        X, y = self.data(0.001)
        if kind is SegmentCRF:
            y = np.array(["O", "B-x"])[y]
        tagger = kind(random_state=0).fit(X, list(y))
        assert tagger.solver_.tol == pytest.approx(1e-4)
        assert tagger.dual_gap_ <= 1e-4
        assert kind(tol=0.02).fit(X, list(y)).solver_.tol == 0.02
        X, y = self.data(0.05)
        assert ChainCRF().fit(X, list(y)).solver_.tol == 3e-3

    def test_in_parts(self):
        X, y = self.data(0.001)
        spec = ChainCRF()._model()
        spec.check()
        halves = slice(200), slice(200, None)
        facts = [spec._facts(X[k], y[k], None, i) for i, k in enumerate(halves)]
        spec._learn_facts(facts[0].merge(facts[1]))
        assert tolerance(ChainCRF(), spec) == pytest.approx(1e-4)

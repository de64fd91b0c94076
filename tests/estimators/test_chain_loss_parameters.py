"""Parameters of the losses of chains: what they are divided by, and former names."""

import warnings

import numpy as np
import pytest
from reference import Chain
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF
from sksstruct.datasets import make_chain
from sksstruct.losses import SmoothedHinge
from sksstruct.solvers import BCFW


@pytest.fixture
def data():
    return make_chain(40, random_state=0)


class TestLossNormalization:
    @pytest.mark.parametrize("solver", ["auto", "bmrm", "gdmm"])
    @pytest.mark.parametrize("normalization", ["mean", "sequence", None])
    def test_objective_equals_numpy(self, data, normalization, solver):
        weight = np.random.RandomState(0).randint(1, 4, size=40)
        model = ChainCRF(
            0.3, loss_normalization=normalization, solver=solver, random_state=0
        )
        model.fit(data.X, data.y, sample_weight=weight)
        p = weight / weight.sum()
        length = {"mean": p @ [len(x) for x in data.X], "sequence": None, None: 1.0}
        reference = Chain(data.X, data.y, 3, p=p, length=length[normalization])
        if sparse.issparse(model.transitions_):
            model.transitions_ = model.transitions_.toarray()
        w = reference.flatten(model)
        assert model.objective_ == pytest.approx(reference.primal(w, 0.3), abs=1e-9)
        peer = ChainCRF(0.3, loss_normalization=normalization, tol=1e-6)
        peer.fit(data.X, data.y, sample_weight=weight)
        assert -1e-5 <= model.objective_ - peer.objective_ <= model.dual_gap_ + 1e-9

    @pytest.mark.parametrize("how", ["fit", "partial_fit", "unknown", "smooth"])
    def test_it_is_a_scale_of_alpha(self, data, how):
        """Weights are m times as large with losses L, not L / m, and alpha / m."""
        X, y = data.X, [row.tolist() for row in data.y]
        if how == "unknown":
            y = [[None, *row[1:]] if len(row) > 1 else row for row in y]
        m = sum(label is not None for row in y for label in row) / len(y)
        weights = []
        for normalization, alpha in (("mean", 0.1), (None, 0.1 / m)):
            model = ChainCRF(
                alpha,
                loss_normalization=normalization,
                solver=BCFW.as_published(sampling="permutation", max_iter=3, tol=0.0),
                random_state=0,
            )
            if how == "smooth":
                scale = 1.0 if normalization else m
                model.set_params(loss=SmoothedHinge(mu=0.3 * scale))
                model.set_params(solver="auto", tol=1e-8)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                if how == "partial_fit":
                    for _ in range(2):
                        model.partial_fit(X, y, classes=[0, 1, 2])
                else:
                    model.fit(X, y)
            weights.append(model.coef_)
        tolerance = 1e-3 if how == "smooth" else 1e-9
        np.testing.assert_allclose(
            weights[1], m * weights[0], rtol=tolerance, atol=tolerance
        )

    def test_sequences_of_equal_length(self):
        rng = np.random.RandomState(0)
        X, y = rng.normal(size=(20, 5, 3)), rng.randint(3, size=(20, 5))
        one, other = (
            ChainCRF(0.1, loss_normalization=value, random_state=0).fit(X, y)
            for value in ("mean", "sequence")
        )
        np.testing.assert_array_equal(one.coef_, other.coef_)

    def test_a_stream_has_the_mean_of_all_its_sequences(self, data):
        model = ChainCRF(0.1, loss_normalization="mean", random_state=0)
        after_fit = ChainCRF(0.1, random_state=0).fit(data.X[:5], data.y[:5])
        after_fit.set_params(loss_normalization="mean")
        model.partial_fit(data.X[:5], data.y[:5], classes=[0, 1, 2])
        mean = np.mean([len(x) for x in data.X])
        for tagger in (model, after_fit):
            tagger.partial_fit(data.X[5:], data.y[5:])
            assert tagger._stream["mean_length"] == pytest.approx(mean)

    def test_bad_value(self, data):
        with pytest.raises(ValueError, match="loss_normalization"):
            ChainCRF(loss_normalization="length").fit(data.X, data.y)

"""L-BFGS by gradients of blocks: the optimum and certificate of the local one."""

import numpy as np
import pytest
from scipy import sparse

from sksstruct import ChainCRF, SSVMClassifier
from sksstruct.datasets import make_chain
from sksstruct.losses import SmoothedHinge
from sksstruct.solvers import LBFGS, Partitioned
from sksstruct.solvers.partitioned.executors import Serial
from sksstruct.utils.packed import PackedSequences


@pytest.fixture(scope="module")
def data():
    found = make_chain(
        23, n_features=4, n_classes=3, max_length=6, noise=1.0, random_state=3
    )
    return found.X, found.y


def blocks(n_blocks=5, **parameters):
    return Partitioned(
        solver=LBFGS(), blocks=n_blocks, **{"max_iter": 200, **parameters}
    )


def fit(data, solver, weight=None, **parameters):
    parameters = {"alpha": 0.05, "loss": "log", **parameters}
    return ChainCRF(solver=solver, **parameters).fit(*data, sample_weight=weight)


def weights(tagger):
    names = ("coef_", "intercept_", "start_", "end_", "transitions_")
    return np.concatenate([getattr(tagger, name).ravel() for name in names])


def assert_same_bits(found, expected):
    assert np.array_equal(weights(found), weights(expected))
    for name in ("primal", "dual", "oracle_calls"):
        np.testing.assert_array_equal(found.history_[name], expected.history_[name])


@pytest.mark.parametrize("n_blocks", [1, 7, 100])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"loss": "smoothed_hinge"},
        {"loss": SmoothedHinge("l2", 0.5)},
        {"all_possible_states": False, "all_possible_transitions": False},
        {"alpha": 0.0},
    ],
    ids=str,
)
def test_the_optimum_and_its_certificate_are_the_local_ones(data, parameters, n_blocks):
    weight = np.random.RandomState(0).uniform(0, 2, len(data[0]))
    weight[4] = 0.0
    expected = fit(data, LBFGS(tol=1e-5), weight, **parameters)
    found = fit(data, blocks(n_blocks, tol=1e-5), weight, **parameters)
    # the same steps but for rounding errors
    assert found.n_iter_ == expected.n_iter_ > 3
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    assert found.dual_gap_ == pytest.approx(expected.dual_gap_, rel=1e-4)
    np.testing.assert_allclose(weights(found), weights(expected), atol=1e-6)
    assert ((weights(found) == 0.0) == (weights(expected) == 0.0)).all()


def test_labels_that_are_not_known(data):
    X, y = data
    y = [np.array(row, dtype=object) for row in y]
    for row in y[::3]:
        row[0] = None
    y = [row if (row != None).any() else [0] * len(row) for row in y]  # noqa: E711
    expected, found = (
        fit((X, y), each) for each in (LBFGS(tol=1e-5), blocks(tol=1e-5))
    )
    assert found.dual_gap_ == expected.dual_gap_ == np.inf
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-6)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_classes(make):
    rng = np.random.RandomState(0)
    X, y = make(rng.normal(size=(40, 3))), rng.randint(3, size=40)
    estimator = SSVMClassifier(
        "multiclass", alpha=0.1, loss=SmoothedHinge("entropy", 0.1)
    )
    expected = estimator.set_params(solver=LBFGS(tol=1e-6)).fit(X, y).objective_
    found = estimator.set_params(solver=blocks(3, tol=1e-6)).fit(X, y).objective_
    assert found == pytest.approx(expected, rel=1e-9)


class Losing(Serial):
    """Loses blocks at random, before a call or after it."""

    loses_blocks = True

    def __init__(self):
        super().__init__()
        self.rng, self.n_lost = np.random.RandomState(0), 0

    def call(self, method, *common, blocks=None, each=None, total=None):
        numbers = [
            number
            for number in (range(self.n_blocks) if blocks is None else blocks)
            if self.blocks[number] is not None and self.rng.uniform() > 0.1
        ]
        values = super().call(method, *common, blocks=numbers, each=each, total=total)
        for number in range(self.n_blocks):
            if self.rng.uniform() < 0.1:
                self.blocks[number] = None
                self.n_lost += 1
        return values


def test_bits_do_not_depend_on_threads_or_losses(data):
    expected, losing = fit(data, blocks(executor=Serial())), Losing()
    for found in (
        fit(data, blocks(), n_jobs=2),
        fit(data, blocks(), n_jobs=3),
        fit(data, blocks(executor=losing)),
    ):
        assert_same_bits(found, expected)
    assert losing.n_lost


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_features_on_disk_are_not_kept(data, sparse_rows, tmp_path, monkeypatch):
    X, y = data
    values = np.concatenate(X)
    packed = PackedSequences.from_lengths(
        sparse.csr_array(values) if sparse_rows else values, [len(row) for row in X]
    )
    packed.save(tmp_path / "data", y)
    mapped = PackedSequences.open(tmp_path / "data", labels=True)
    assert mapped[0].is_mapped and mapped[0][3:9].is_mapped and not packed.is_mapped
    made, smooth_loss = [], LBFGS.smooth_loss
    monkeypatch.setattr(
        LBFGS, "smooth_loss", lambda *given: made.append(1) or smooth_loss(*given)
    )
    expected = fit((packed, y), blocks())
    n_made = len(made)
    found = fit(mapped, blocks(), n_jobs=2)
    assert_same_bits(found, expected)
    n_sweeps = found.history_["oracle_calls"][-1] // len(y)
    assert n_made == 5 and len(made) - n_made == 5 * n_sweeps


# ---- checkpoints, warm starts, interrupts ----


def short(folder, max_iter=20, **parameters):
    return blocks(3, max_iter=max_iter, tol=0.0, checkpoint=folder, **parameters)


@pytest.mark.filterwarnings("ignore:training did not converge")
def test_a_run_goes_on_with_the_same_bits(data, tmp_path):
    expected = fit(data, short(None, 14))
    fit(data, short(tmp_path, 5))
    n_sweeps, slope = [], Serial.call

    class Counting(Serial):
        def call(self, *arguments, **named):
            n_sweeps.append(1)
            return slope(self, *arguments, **named)

    found = fit(data, short(tmp_path, 14, resume=True, executor=Counting()))
    assert_same_bits(found, expected)
    # one of them tells other data
    n_all = expected.history_["oracle_calls"][-1] // len(data[0])
    assert len(n_sweeps) <= n_all - 4
    # all over
    assert_same_bits(fit(data, short(tmp_path, 14, resume=True)), expected)


@pytest.mark.filterwarnings("ignore:training did not converge")
def test_checkpoints_that_are_no_use(data, tmp_path):
    with pytest.raises(ValueError, match="there is no checkpoint in"):
        fit(data, short(tmp_path, resume=True))
    fit(data, short(tmp_path, 5))
    again, (X, y) = short(tmp_path, resume=True), data
    for other in ({"alpha": 0.1}, {"loss": "smoothed_hinge"}):
        with pytest.raises(ValueError, match="belongs to another run"):
            fit(data, again, **other)
    # other states, of passes
    with pytest.raises(ValueError, match="belongs to another run"):
        fit(
            data,
            Partitioned(blocks=3, checkpoint=tmp_path, resume=True),
            random_state=0,
        )
    for other in (
        ([x + 0.5 for x in X], y),
        (X, [(row + 1) % 3 for row in y]),
        (X, y, np.linspace(0.5, 1.5, len(X))),
    ):
        with pytest.raises(ValueError, match="belongs to other examples"):
            fit(other[:2], again, *other[2:])
    written = (tmp_path / "sweep-1.npz").read_bytes()
    (tmp_path / "sweep-1.npz").write_bytes(written[:-10])
    with pytest.raises(ValueError, match="not what was written"):
        fit(data, again)
    (tmp_path / "sweep-1.npz").unlink()
    with pytest.raises(ValueError, match=r"sweep-1.* is missing"):
        fit(data, again)


@pytest.mark.filterwarnings("ignore:training did not converge")
def test_a_warm_start_goes_on_from_the_weights(data):
    tagger = ChainCRF(0.05, loss="log", solver=blocks(), warm_start=True).fit(*data)
    first = tagger.n_iter_
    tagger.set_params(alpha=0.06).fit(*data)
    assert 0 < tagger.n_iter_ < first


def test_an_interrupt_leaves_a_tagger(data):
    class Interrupting(Serial):
        n_calls = 0

        def call(self, *arguments, **named):
            self.n_calls += 1
            if self.n_calls == 4:
                raise KeyboardInterrupt
            return super().call(*arguments, **named)

    tagger = ChainCRF(0.05, loss="log", solver=blocks(executor=Interrupting()))
    with pytest.raises(KeyboardInterrupt, match="can be used"):
        tagger.fit(*data)
    assert 0.0 < tagger.dual_gap_ < np.inf and len(tagger.predict(data[0])) == 23


def test_it_is_for_losses_with_a_gradient(data):
    with pytest.raises(ValueError, match="LBFGS needs a gradient"):
        fit(data, blocks(), loss="hinge")


@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
def test_an_l1_penalty(data, l1_ratio):
    found, expected = (
        fit(data, solver, l1_ratio=l1_ratio) for solver in (blocks(), LBFGS())
    )
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    np.testing.assert_allclose(weights(found), weights(expected), atol=1e-6)
    assert 0.0 < (weights(found) == 0.0).mean() < 1.0

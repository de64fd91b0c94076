"""Scores by JAX and PyTorch beside the same network in NumPy."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from sksstruct import ChainCRF
from sksstruct.models import ELUScore, JAXScore, TorchScore

N_HIDDEN = 5


def jax_init(key, n_features, n_labels):
    import jax

    keys = jax.random.split(key)
    first = jax.random.normal(keys[0], (n_features, N_HIDDEN))
    second = jax.random.normal(keys[1], (N_HIDDEN, n_labels))
    # lists keep the order that `ELUScore` has
    return [first, first[0] * 0, second, second[0] * 0]


def jax_apply(parameters, X):
    import jax

    first, bias, second, last = parameters
    return jax.nn.elu(X @ first + bias) @ second + last


def jax_sums(parameters, X, offsets):
    """Scores of a row that depend on the row before it in its example."""
    import jax.numpy as jnp

    first = jnp.zeros(len(X), bool).at[offsets].set(True, mode="drop")
    before = jnp.where(first[:, None], 0.0, jnp.roll(X, 1, axis=0))
    return jax_apply(parameters, X + 2.0 * before)


def torch_module(n_features, n_labels):
    from torch import nn

    return nn.Sequential(
        nn.Linear(n_features, N_HIDDEN), nn.ELU(), nn.Linear(N_HIDDEN, n_labels)
    )


def torch_sums(n_features, n_labels):
    import torch

    class Sums(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch_module(n_features, n_labels)

        def forward(self, X, offsets):
            before = torch.roll(X, 1, 0)
            before = before.index_fill(0, offsets[:-1], 0.0)
            return self.layers(X + 2.0 * before)

    return Sums()


def elu_order(name, w, n_features, n_labels):
    """Parameters in the order of `ELUScore`: PyTorch's matrices are transposed."""
    if name == "jax":
        return w
    h = N_HIDDEN
    ends = np.cumsum([n_features * h, h, h * n_labels])
    first, bias, second, last = np.split(w, ends)
    first, second = first.reshape(h, -1).T, second.reshape(n_labels, h).T
    return np.concatenate([first.ravel(), bias, second.ravel(), last])


@pytest.fixture(params=["jax", "jax64", "torch"])
def network(request):
    """Name, score function, one with sums, and the size of rounding errors."""
    name = request.param[:3] if request.param != "torch" else "torch"
    module = pytest.importorskip(name)
    if name == "torch":
        yield name, TorchScore(torch_module), TorchScore(torch_sums, True), 1e-12
        return
    before = module.config.jax_enable_x64
    module.config.update("jax_enable_x64", request.param == "jax64")
    precision = 1e-12 if request.param == "jax64" else 1e-4
    yield (
        name,
        JAXScore(jax_init, jax_apply),
        JAXScore(jax_init, jax_sums, True),
        (precision),
    )
    module.config.update("jax_enable_x64", before)


@pytest.mark.slow
def test_same_as_in_numpy(network):
    name, score, _, precision = network
    elu, (d, k) = ELUScore(N_HIDDEN), (3, 2)

    def close(a, b):
        assert a.dtype == np.float64
        np.testing.assert_allclose(a, b, rtol=precision, atol=10 * precision)

    # compiled for 48 rows, and for 8
    shapes = ((45, sparse.csr_array), (46, np.asarray), (48, np.asarray))
    for n_rows, form in (*shapes, (8, np.asarray)):
        rng = np.random.RandomState(n_rows)
        X = form(rng.normal(size=(n_rows, d)))
        w = score.initialize(d, k, rng)
        w = w + 0.3 * rng.normal(size=w.shape)
        given = elu_order(name, w, d, k)
        direction, cotangent = rng.normal(size=w.shape), rng.normal(size=(n_rows, k))
        scores, jvp, vjp = score.linearize(w, X, k)
        close(scores, elu.value(given, X, k))
        moves = elu_order(name, direction, d, k)
        close(jvp(direction), elu.jvp(given, X, k, moves))
        product = elu.vjp(given, X, k, cotangent)
        close(elu_order(name, vjp(cotangent), d, k), product)
        np.testing.assert_array_equal(score.value(w, X, k), scores)
        np.testing.assert_array_equal(score.jvp(w, X, k, direction), jvp(direction))
        np.testing.assert_array_equal(score.vjp(w, X, k, cotangent), vjp(cotangent))


@pytest.mark.slow
def test_finite_differences_with_offsets(network):
    _, _, score, precision = network
    rng = np.random.RandomState(0)
    # compiled once, for eight rows and less
    X, offsets = rng.normal(size=(6, 3)), np.array([0, 3, 4, 6])
    w = score.initialize(3, 2, rng)
    direction, cotangent = rng.normal(size=w.shape), rng.normal(size=(6, 2))
    h = max(precision**0.5, 1e-5)
    up = score.value(w + h * direction, X, 2, offsets=offsets)
    down = score.value(w - h * direction, X, 2, offsets=offsets)
    product = score.jvp(w, X, 2, direction, offsets=offsets)
    np.testing.assert_allclose(product, (up - down) / (2 * h), atol=30 * precision**0.5)
    gradient = score.vjp(w, X, 2, cotangent, offsets=offsets)
    assert gradient @ direction == pytest.approx((cotangent * product).sum(), rel=1e-3)
    # examples do not see each other
    alone = score.value(w, X[3:4], 2, offsets=np.array([0, 1]))
    together = score.value(w, X, 2, offsets=offsets)
    np.testing.assert_allclose(together[3:4], alone, atol=precision)
    apart = score.value(w, X, 2, offsets=np.arange(7))
    assert np.abs(apart - together)[[1, 2, 5]].max() > 0.01


def sequences(n, seed, share=0.0):
    """Labels that depend on the signs of rows plus a share of the rows before."""
    rng = np.random.RandomState(seed)
    X = [rng.normal(size=(rng.randint(2, 6), 2)) for _ in range(n)]
    sums = [x + share * np.vstack([np.zeros(2), x[:-1]]) for x in X]
    return X, [np.where(x[:, 0] * x[:, 1] > 0, "same", "other") for x in sums]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "with_sums"),
    [("jax", False), ("jax64", True), ("torch", False), ("torch", True)],
    indirect=["network"],
)
def test_training(network, with_sums):
    score, share, loss = network[1], 0.0, "hinge"
    if with_sums:
        score, share, loss = network[2], 2.0, "log"
    X, y = sequences(12, 0, share)
    model = ChainCRF(
        1e-3, loss=loss, score_function=score, random_state=0, tol=0.1
    ).fit(X, y)
    assert (np.diff(model.history_["primal"]) <= 1e-12).all()
    assert model.score(X, y) > 0.75
    # what is fitted travels, and the parameter is left as it was
    other = pickle.loads(pickle.dumps(model))
    for a, b in zip(other.predict(X), model.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)
    assert set(vars(score)) == set(score.get_params())
    assert clone(score).get_params() == score.get_params()


def test_a_module_is_a_start():
    torch = pytest.importorskip("torch")
    module = torch_module(3, 2)
    w = TorchScore(module).initialize(3, 2, np.random.RandomState(0))
    first = module[0].weight.detach().numpy()
    np.testing.assert_array_equal(w[: first.size], first.ravel())
    scores = module(torch.ones(1, 3)).detach().numpy()
    value = TorchScore(module).value(w, np.ones((1, 3)), 2)
    np.testing.assert_allclose(value, scores, rtol=1e-6)
    # single precision still: what is trained is a copy
    assert module[0].weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("score", "library"), [(JAXScore(1, 2), "jax"), (TorchScore(None), "torch")]
)
def test_what_is_no_function_is_refused(score, library):
    X, y = sequences(4, 0)
    with pytest.raises(ValueError, match="must be a callable"):
        ChainCRF(score_function=score).fit(X, y)


@pytest.mark.parametrize(
    ("score", "library"),
    [(JAXScore(jax_init, jax_apply), "jax"), (TorchScore(torch_module), "torch")],
)
def test_what_is_missing_is_named(score, library, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, library, None)
    X, y = sequences(4, 0)
    with pytest.raises(ImportError, match=f"(?i)needs (py)?{library}"):
        ChainCRF(score_function=score).fit(X, y)

"""The solver against an independent optimum, and its state against NumPy."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import Chain
from scipy import sparse

from sksstruct import ChainCRF, ssvm_path
from sksstruct.datasets import make_chain
from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.protocols._weights import Weights
from sksstruct.solvers import BCFW, Partitioned
from sksstruct.solvers.frank_wolfe.exported import export
from sksstruct.utils.packed import PackedSequences

OPTIONS = [
    {"sampling": a, "step": b, "cache": c, "averaging": d, "inner_steps": e}
    for a, b, c, d, e in product(
        ("gap", "uniform", "permutation"),
        ("fw", "pairwise", "away"),
        (False, True),
        (False, True, "suffix"),
        (1, 4),
    )
]


def problem(
    seed=0,
    n=4,
    n_features=2,
    n_labels=2,
    length=3,
    form="dense",
    weighted=False,
    **kwargs,
):
    data = make_chain(
        n,
        n_features=n_features,
        n_classes=n_labels,
        max_length=length,
        random_state=seed,
        noise=1.5,
    )
    X, y = data.X, data.y
    rng = np.random.RandomState(seed)
    p = rng.uniform(0.5, 1.5, size=n) if weighted else np.ones(n)
    p = p / p.sum()
    dtype = np.float32 if "32" in form else np.float64
    stacked = np.vstack(X).astype(dtype)
    X = np.split(stacked, np.cumsum([len(x) for x in X])[:-1])
    values = sparse.csr_array(stacked) if form.startswith("csr") else stacked
    packed = PackedSequences.from_lengths(values, [len(x) for x in X])
    costs = kwargs.pop("costs", None)
    labels = np.concatenate(y).astype(np.int32)
    model = BoundChain(packed, n_labels, labels, p, costs, **kwargs)
    names = {"fit_intercept": "intercept", "boundary": "boundary"}
    reference = Chain(
        X,
        y,
        n_labels,
        p,
        costs,
        **{names[key]: v for key, v in kwargs.items()},
        length=None,
    )
    return model, reference


def flatten(model, weights):
    blocks = model.views(weights)
    names = ("coef", "intercept", "start", "end", "transitions")
    return np.concatenate([np.ravel(blocks[name]) for name in names])


def mixture(model, state):
    """Per example: list of (labeling, weight), or mean parameters, from the export."""
    keys, values = state["keys"], state["values"]
    at_key = at_value = 0
    for i, count in enumerate(state["counts"]):
        width = 1 if state["means"] else model.sizes[i]
        k = keys[at_key : at_key + count * width].reshape(count, width)
        yield k, values[at_value : at_value + count]
        at_key, at_value = at_key + count * width, at_value + count


def dual_point(model, reference, state, alpha):
    """v and the linear term of the dual, formed from the dual variables in NumPy."""
    v, linear = 0.0, 0.0
    for i, (keys, weights) in enumerate(mixture(model, state)):
        size, k, ld = int(model.sizes[i]), reference.n_labels, model.ld
        y_true = reference.feature_map(i, reference.y[i])
        if not state["means"]:
            mean = sum(
                a * reference.feature_map(i, row)
                for row, a in zip(keys, weights, strict=True)
            )
            loss = sum(
                a * reference.loss(i, row) for row, a in zip(keys, weights, strict=True)
            )
        else:
            table = np.zeros((size + k) * ld)
            table[keys[:, 0]] = weights
            nodes = table[: size * ld].reshape(size, ld)[:, :k]
            edges = table[size * ld :].reshape(k, ld)[:, :k]
            np.testing.assert_allclose(nodes.sum(axis=1), 1.0)
            np.testing.assert_allclose(edges.sum(), size - 1, atol=1e-12)
            mean = np.concatenate(
                [
                    (nodes.T @ reference.X[i]).ravel(),
                    nodes.sum(axis=0) * reference.intercept,
                    nodes[0] * reference.boundary,
                    nodes[-1] * reference.boundary,
                    edges.ravel(),
                ]
            )
            y = reference.y[i]
            right = nodes[np.arange(size), y]
            loss = (reference.costs[y] * (1 - right)).sum() / size
        v = v + reference.p[i] / alpha * (y_true - mean)
        linear += reference.p[i] * loss
    return v, linear


@pytest.fixture(scope="module")
def optimum():
    return problem(seed=3)[1].optimum(0.1)


@pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda o: "-".join(map(str, o.values()))
)
def test_any_combination_reaches_the_optimum(options, optimum):
    model, _ = problem(seed=3)
    alpha = 0.1
    # Plain steps and the average of all iterates are sublinear.
    tol = 4e-3 if options["step"] == "fw" else 3e-4
    if options["averaging"] is True:
        tol = 1e-2
    solver = BCFW.as_published(**options, tol=tol, max_iter=3000)
    result = solver.solve(model, alpha, random_state=0)
    assert 0 <= result.dual_gap <= tol * 1.0001
    assert optimum - 1e-7 <= result.objective <= optimum + result.dual_gap + 1e-7
    assert result.status == "converged"


@pytest.mark.parametrize("alpha", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("passes", [0, 2, "auto"])
def test_cached_passes_and_alphas(alpha, passes):
    model, reference = problem(seed=5, n_labels=3)
    solver = BCFW.as_published(
        sampling="permutation",
        step="pairwise",
        cache=True,
        averaging="suffix",
        cache_factor=np.inf,
        inner_steps=10,
        cached_passes=passes,
        tol=1e-6,
        max_iter=5000,
        check_every=1,
    )
    result = solver.solve(model, alpha, random_state=0)
    assert result.objective == pytest.approx(reference.optimum(alpha), abs=2e-6)


@pytest.mark.parametrize("averaging", [False, True, "suffix"])
@pytest.mark.parametrize("step", ["fw", "pairwise", "away"])
@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("inner_steps", [1, 5])
@pytest.mark.parametrize("form", ["dense", "csr", "dense32", "csr32"])
def test_state_equals_numpy(averaging, step, cache, inner_steps, form):
    """Weights, primal and dual agree with a recomputation from the dual variables."""
    model, reference = problem(
        seed=7,
        n=6,
        n_labels=5,
        n_features=7,
        length=6,
        form=form,
        weighted=True,
        costs=np.array([1.0, 2.0, 0.5, 1.0, 3.0]),
    )
    alpha = 0.05
    solver = BCFW.as_published(
        step=step, cache=cache, averaging=averaging, max_iter=7, tol=0, check_every=3,
        inner_steps=inner_steps,
    )  # fmt: skip
    result = solver.solve(model, alpha, random_state=1)
    v, linear = dual_point(model, reference, result.dual_state, alpha)
    w = flatten(model, result.weights)
    if not averaging:
        np.testing.assert_allclose(w, v, atol=1e-10)
    assert result.objective == pytest.approx(reference.primal(w, alpha), abs=1e-9)
    history = result.history
    dual = result.dual_loss - alpha / 2 * (w @ w)
    assert history["dual"][-1] == pytest.approx(dual, abs=1e-9)
    assert result.dual_gap == pytest.approx(result.objective - dual, abs=1e-9)
    if not averaging:
        assert result.dual_loss == pytest.approx(linear, abs=1e-10)


def test_average_is_the_weighted_mean_of_the_iterates():
    """Lazy averaging against the plain recursion of the paper."""
    model, _ = problem(seed=2, n=3, n_labels=3)
    weights = Weights(model.n_weights, average=True)
    kernel = BCFW.as_published(step="fw")._kernel(model, weights, 0.1)
    mean = np.zeros_like(weights.w)
    rng = np.random.RandomState(0)
    for k in range(20):
        kernel.visit_in_order(np.array([rng.randint(3)]))
        mean = k / (k + 2) * mean + 2 / (k + 2) * weights.w
    lazy = weights.v - weights.u / (kernel.iterate * (kernel.iterate + 1) / 2)
    np.testing.assert_allclose(lazy, mean, atol=1e-12)


@pytest.mark.parametrize("step", ["fw", "pairwise", "away"])
@pytest.mark.parametrize("inner_steps", [1, 3])
@pytest.mark.parametrize(
    "size",
    [{"length": 5}, {"length": 120, "n_features": 1}],
    ids=["with Gram matrices", "without"],
)
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_every_visit_gains_what_it_says(step, inner_steps, size, form):
    """The dual rises by the recorded gain, and never falls."""
    model, _ = problem(seed=4, n=5, n_labels=4, form=form, **size)
    alpha = 0.02
    weights = Weights(model.n_weights)
    solver = BCFW.as_published(step=step, inner_steps=inner_steps)
    kernel = solver._kernel(model, weights, alpha)

    def dual():
        return kernel.loss - alpha / 2 * (weights.w @ weights.w)

    for k in range(60):
        before, kernel.gain = dual(), 0.0
        kernel.visit_in_order(np.array([k % 5]))
        assert kernel.gain >= 0
        assert dual() - before == pytest.approx(kernel.gain, abs=1e-12)


def test_line_search_is_exact():
    """No other point on the segment to the oracle's corner has a higher dual."""
    model, reference = problem(seed=6, n=3, n_labels=3, length=4)
    alpha = 0.05
    kernel = BCFW.as_published(step="fw")._kernel(
        model, Weights(model.n_weights), alpha
    )
    kernel.visit_in_order(np.array([0, 1, 2, 0]))
    state = export(kernel)
    before, linear = dual_point(model, reference, state, alpha)
    i = 1
    kernel.visit_in_order(np.array([i]))
    after, linear_after = dual_point(model, reference, export(kernel), alpha)
    value = linear_after - alpha / 2 * (after @ after)
    # The corner, by enumeration at the weights before the visit.
    labelings = list(product(range(3), repeat=len(reference.y[i])))
    corner = max(
        labelings,
        key=lambda y: reference.loss(i, y) + before @ reference.feature_map(i, y),
    )
    keys, weights = list(mixture(model, state))[i]
    single = {**state, "keys": keys[:, 0], "values": weights}
    mean, loss = dual_point_of(model, reference, i, single)
    shift = reference.p[i] / alpha * (mean - reference.feature_map(i, corner))
    rise = reference.p[i] * (reference.loss(i, corner) - loss)
    for g in np.linspace(0, 1, 101):
        v = before + g * shift
        assert linear + g * rise - alpha / 2 * (v @ v) <= value + 1e-12


@pytest.mark.parametrize("cache", [False, True])
def test_decreasing_steps_are_those_of_the_published_algorithm(cache):
    """Algorithm 1 without line 7, over all labelings: gamma = 2n / (k + 2n)."""
    model, reference = problem(seed=6, n=3, length=4, weighted=True)
    alpha, n = 0.05, 3
    weights = Weights(model.n_weights)
    solver = BCFW.as_published(step_size="decreasing", cache=cache, inner_steps=5)
    kernel = solver._kernel(model, weights, alpha)
    size = len(reference.feature_map(0, reference.y[0]))
    blocks, losses = np.zeros((n, size)), np.zeros(n)
    for k, i in enumerate([0, 2, 1, 1, 0, 2, 2, 1, 0, 0, 1, 2]):
        w, truth = blocks.sum(axis=0), reference.feature_map(i, reference.y[i])
        corner = max(
            product(range(2), repeat=len(reference.y[i])),
            key=lambda y: reference.loss(i, y) + w @ reference.feature_map(i, y),
        )
        gamma = 2 * n / (k + 2 * n)
        shift = reference.p[i] / alpha * (truth - reference.feature_map(i, corner))
        blocks[i] += gamma * (shift - blocks[i])
        losses[i] += gamma * (reference.p[i] * reference.loss(i, corner) - losses[i])
        kernel.visit_in_order(np.array([i]))
        w = flatten(model, weights.w)
        np.testing.assert_allclose(w, blocks.sum(axis=0), atol=1e-10)
        assert kernel.loss == pytest.approx(losses.sum(), abs=1e-12)


@pytest.mark.parametrize("options", [{}, {"cache": True}, {"sampling": "uniform"}])
def test_decreasing_steps_reach_the_optimum(options):
    model, _ = problem(seed=3)
    optimum = BCFW(tol=1e-6).solve(model, 0.1, random_state=0).objective
    options = {"sampling": "permutation", **options, "step_size": "decreasing"}
    solver = BCFW.as_published(**options, tol=5e-3, max_iter=3000)
    result = solver.solve(model, 0.1, random_state=0)
    assert result.status == "converged"
    assert optimum - 1e-5 <= result.objective <= optimum + result.dual_gap + 1e-9
    # the first step of an example goes all the way, and the dual falls with it
    first = BCFW.as_published(**{**options, "max_iter": 1, "check_every": 1})
    history = first.solve(model, 1e-3, random_state=0).history
    assert history["dual"][0] < 0.0


def test_decreasing_steps_are_for_plain_steps_over_all_examples():
    model, _ = problem()
    with pytest.raises(ValueError, match="needs step='fw', got step='pairwise'"):
        BCFW(step_size="decreasing").solve(model, 0.1)
    solver = BCFW.as_published(step_size="decreasing")
    with pytest.raises(ValueError, match="mini-batches"):
        solver.solve_stream(model, 0.1, np.zeros(4), np.zeros(4), 0.0)
    with pytest.raises(ValueError, match="needs step_size='line_search'"):
        Partitioned(solver=solver).check()
    data = make_chain(4, random_state=0)
    with pytest.raises(ValueError, match="the path needs step_size='line_search'"):
        ssvm_path(ChainCRF(solver=solver), data.X, data.y)


def dual_point_of(model, reference, i, state):
    size, k, ld = int(model.sizes[i]), reference.n_labels, model.ld
    table = np.zeros((size + k) * ld)
    table[state["keys"]] = state["values"]
    nodes = table[: size * ld].reshape(size, ld)[:, :k]
    edges = table[size * ld :].reshape(k, ld)[:, :k]
    mean = np.concatenate(
        [
            (nodes.T @ reference.X[i]).ravel(),
            nodes.sum(axis=0),
            nodes[0],
            nodes[-1],
            edges.ravel(),
        ]
    )
    y = reference.y[i]
    return mean, (1 - nodes[np.arange(size), y]).sum() / size


@pytest.mark.parametrize("form", ["dense", "csr", "csr32"])
@pytest.mark.parametrize("step", ["fw", "pairwise"])
def test_sequences_too_long_for_a_gram_matrix(form, step):
    """The other way to |A'd|^2 gives the same certificate and agrees with NumPy."""
    model, reference = problem(
        seed=8, n=3, n_features=1, n_labels=3, length=120, form=form
    )
    assert max(model.sizes) > 60  # 8 T^2 bytes exceed four times the features
    solver = BCFW.as_published(
        step=step, inner_steps=5, averaging=False, max_iter=30, tol=0
    )
    result = solver.solve(model, 0.05, random_state=0)
    v, _ = dual_point(model, reference, result.dual_state, 0.05)
    np.testing.assert_allclose(flatten(model, result.weights), v, atol=1e-10)
    assert (np.diff(result.history["dual"]) >= -1e-12).all()


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("boundary", [False, True])
def test_optional_blocks(fit_intercept, boundary):
    model, reference = problem(seed=9, fit_intercept=fit_intercept, boundary=boundary)
    solver = BCFW.as_published(
        step="pairwise", tol=1e-6, max_iter=5000, averaging=False
    )
    result = solver.solve(model, 0.1, random_state=0)
    assert result.objective == pytest.approx(reference.optimum(0.1), abs=2e-6)
    blocks = model.views(result.weights)
    assert blocks["intercept"].any() == fit_intercept
    assert blocks["start"].any() == boundary


class TestBounds:
    def bounds_of(self, reference, low, high):
        """The same bounds for the reference: transitions only."""
        k, d = reference.n_labels, reference.n_features
        free = [(None, None)] * (k * (d + 3))
        return free + [(low, high)] * (k * k)

    @pytest.mark.parametrize("step", ["fw", "pairwise", "away"])
    @pytest.mark.parametrize("averaging", [False, True])
    @pytest.mark.parametrize("limits", [(0.0, None), (-0.1, 0.1), (0.2, 0.3)])
    def test_optimum(self, step, averaging, limits):
        model, reference = problem(seed=3, n_features=2)
        solver = BCFW.as_published(
            sampling="permutation",
            step=step,
            averaging=averaging,
            bounds={"transitions": limits},
            tol=1e-3,
            max_iter=20_000,
            check_every=50,
        )
        result = solver.solve(model, 0.1, random_state=0)
        transitions = model.views(result.weights)["transitions"]
        low, high = limits
        assert transitions.min() >= (-np.inf if low is None else low)
        assert transitions.max() <= (np.inf if high is None else high)
        optimum = reference.optimum(0.1, self.bounds_of(reference, *limits))
        assert optimum - 1e-7 <= result.objective
        assert result.objective <= optimum + result.dual_gap + 1e-7
        assert result.dual_gap <= 1e-3 * reference.primal(
            np.clip(
                np.zeros(len(flatten(model, result.weights))),
                *zip(
                    *[
                        (-np.inf if a is None else a, np.inf if b is None else b)
                        for a, b in self.bounds_of(reference, *limits)
                    ],
                    strict=True,
                ),
            ),
            0.1,
        )

    def test_arrays_of_the_block_shape(self):
        model, _ = problem()
        low = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
        solver = BCFW.as_published(
            bounds={"transitions": (low, None)}, max_iter=20, tol=0
        )
        result = solver.solve(model, 0.1, random_state=0)
        assert (model.views(result.weights)["transitions"] >= low).all()

    @pytest.mark.parametrize(
        ("bounds", "message"),
        [
            ({"edges": (0, 1)}, "no block 'edges'"),
            ({"transitions": 0.0}, "must be a pair"),
            ({"transitions": (1.0, 0.0)}, "lower must not exceed upper"),
            ({"transitions": ("a", None)}, "must be numbers or arrays of shape"),
            ({"coef": (np.zeros(7), None)}, "must be numbers or arrays of shape"),
            ({"coef": (np.nan, None)}, "lower must not exceed upper"),
        ],
    )
    def test_bad_bounds(self, bounds, message):
        model, _ = problem()
        with pytest.raises(ValueError, match=message):
            BCFW.as_published(bounds=bounds).solve(model, 0.1)


def test_inner_steps_go_further_on_the_same_oracle_calls():
    duals = []
    for inner_steps in (1, 10):
        model, _ = problem(seed=1, n=20, n_labels=4, length=6)
        solver = BCFW.as_published(
            sampling="permutation", step="pairwise", averaging=False, max_iter=15,
            tol=0, inner_steps=inner_steps,
        )  # fmt: skip
        duals.append(solver.solve(model, 0.01, random_state=0).history["dual"][-1])
    assert duals[1] > 1.05 * duals[0]


def test_known_passes_raise_the_dual_without_oracle_calls():
    duals = []
    for cached_passes in (0, 3):
        model, _ = problem(seed=1, n=20, n_labels=4, length=6)
        solver = BCFW.as_published(
            sampling="permutation", step="pairwise", cache=True, averaging=False,
            max_iter=5, tol=0, cache_factor=np.inf, cached_passes=cached_passes,
        )  # fmt: skip
        history = solver.solve(model, 0.01, random_state=0).history
        assert history["oracle_calls"][-1] == 20 * (5 + 2)
        duals.append(history["dual"][-1])
    assert duals[1] > 1.2 * duals[0]


def test_cache_saves_oracle_calls():
    data = make_chain(60, n_classes=5, max_length=8, noise=3.0, random_state=0)
    packed = PackedSequences.from_lengths(np.vstack(data.X), list(map(len, data.y)))
    labels = np.concatenate(data.y).astype(np.int32)
    calls = []
    for cache in (False, True):
        model = BoundChain(packed, 5, labels)
        solver = BCFW.as_published(
            sampling="permutation", cache=cache, averaging=False, max_iter=40, tol=0
        )
        history = solver.solve(model, 0.01, random_state=0).history
        calls.append(history["oracle_calls"][-1])
    assert calls[1] < 0.7 * calls[0]


def test_gap_sampling_prefers_large_gaps():
    """An easy example is visited less often: its estimate is zero after a check."""
    model, _ = problem(seed=1, n=2, n_labels=2)
    solver = BCFW.as_published(sampling="gap", step="pairwise")
    kernel = solver._kernel(model, Weights(model.n_weights), 0.1)
    kernel.visit_in_order(np.array([0, 1]))
    kernel.set_gaps(np.array([0.0, 1.0]))
    before = np.array(kernel.gaps_)
    assert kernel.visit_by_gap(np.array([0.3])) == 1
    assert kernel.gaps_[0] == before[0] and kernel.gaps_[1] != before[1]


def test_trace_columns():
    model, _ = problem(seed=1, n=10)
    history = (
        BCFW.as_published(sampling="permutation", max_iter=25, tol=0)
        .solve(model, 0.01)
        .history
    )
    assert list(history) == ["pass", "oracle_calls", "seconds", "primal", "dual", "gap"]
    assert history["pass"].tolist() == [10, 20, 25]
    assert len({len(column) for column in history.values()}) == 1
    assert (np.diff(history["oracle_calls"]) > 0).all()
    assert (np.diff(history["seconds"]) >= 0).all()
    np.testing.assert_allclose(history["primal"] - history["dual"], history["gap"])


def test_auto_checks_when_the_gap_should_reach_the_tolerance():
    model, _ = problem(seed=1, n=10, n_labels=3)
    solver = BCFW.as_published(
        sampling="permutation",
        step="pairwise",
        averaging=False,
        check_every="auto",
        tol=1e-4,
    )
    history = solver.solve(model, 0.1, random_state=0).history
    assert history["gap"][-1] <= 1e-4 < history["gap"][-2]
    assert history["pass"][0] == 2 and np.diff(history["pass"]).max() <= 10
    # few checks, and little more work than with a check after every pass
    assert len(history["pass"]) < 0.6 * history["pass"][-1]


def test_check_every_does_not_change_the_iterates():
    results = []
    for every in (1, 7, "auto"):
        model, _ = problem(seed=1, n=10)
        solver = BCFW.as_published(
            sampling="permutation", check_every=every, max_iter=14, tol=0
        )
        results.append(solver.solve(model, 0.01, random_state=3))
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].weights, other.weights)


def test_callback_stops():
    model, _ = problem(seed=1, n=10)
    seen = []

    def callback(n_passes, weights):
        seen.append((n_passes, weights().copy()))
        return n_passes == 3

    result = BCFW.as_published(max_iter=50, tol=0).solve(model, 0.01, callback=callback)
    assert result.status == "callback" and result.n_iter == 3
    np.testing.assert_array_equal(seen[-1][1], result.weights)


@pytest.mark.parametrize(("scale", "error"), [(1e-8, 1e-6), (1e3, 1e-6), (1e5, 0.05)])
@pytest.mark.parametrize("inner_steps", [1, 10])
def test_weights_follow_the_duals_at_any_scale(scale, error, inner_steps):
    """Small changes of the duals are changes, however large the features.

    At the largest scale all weight but 1e-12 is on one labeling: little is exact.
    """
    data = make_chain(6, n_classes=3, random_state=0)
    X = [scale * x for x in data.X]
    packed = PackedSequences.from_lengths(np.vstack(X), [len(x) for x in X])
    model = BoundChain(packed, 3, np.concatenate(data.y).astype(np.int32))
    reference = Chain(X, data.y, 3, length=None)
    solver = BCFW.as_published(
        sampling="permutation", step="pairwise", averaging=False, max_iter=30, tol=0,
        inner_steps=inner_steps,
    )  # fmt: skip
    result = solver.solve(model, 0.01, random_state=0)
    v, _ = dual_point(model, reference, result.dual_state, 0.01)
    w = flatten(model, result.weights)
    np.testing.assert_allclose(w, v, atol=error * np.abs(v).max())


def test_breakdown_is_an_error():
    """No certificate is returned that rounding errors have made up."""
    data = make_chain(50, random_state=0)
    X = [np.column_stack([x, np.full(len(x), 1.6e9)]) for x in data.X]
    packed = PackedSequences.from_lengths(np.vstack(X), [len(x) for x in X])
    for scale in (1.0, 1e150):
        scaled = PackedSequences(scale * packed.values, packed.offsets)
        model = BoundChain(scaled, 3, np.concatenate(data.y).astype(np.int32))
        with np.errstate(all="ignore"), pytest.raises(ValueError, match="broke down"):
            BCFW.as_published(max_iter=100, tol=0).solve(model, 0.01, random_state=0)


@pytest.mark.parametrize("options", OPTIONS[::5], ids=str)
def test_breakdown_of_every_kind_of_step(options):
    """1 / alpha overflows: an error, or no progress; never a place out of bounds."""
    model, _ = problem(seed=1, n=40, n_labels=3, n_features=10, length=10)
    solver = BCFW.as_published(**options, max_iter=20, tol=0)
    with np.errstate(all="ignore"):
        try:
            result = solver.solve(model, 1e-320, random_state=0)
        except ValueError as error:
            assert "broke down" in str(error)
        else:
            assert result.objective == pytest.approx(1.0)
            assert result.dual_gap == pytest.approx(1.0)


def test_cache_factor_inf_calls_the_oracle_on_every_visit():
    model, _ = problem(seed=1, n=10)
    solver = BCFW.as_published(
        sampling="permutation", step="pairwise", cache=True, averaging=False,
        cache_factor=np.inf, max_iter=100, tol=0, check_every=100,
    )  # fmt: skip
    history = solver.solve(model, 0.1, random_state=0).history
    assert history["oracle_calls"][-1] == 10 * (100 + 2)  # and two checks


def test_dual_state_restarts_where_it_was():
    for step in ("fw", "pairwise"):
        model, _ = problem(seed=1, n=10)
        solver = BCFW.as_published(
            sampling="permutation", step=step, averaging=False, max_iter=20, tol=0
        )
        first = solver.solve(model, 0.01, random_state=0)
        again = BCFW.as_published(
            sampling="permutation", step=step, averaging=False, max_iter=1, tol=0
        )
        second = again.solve(model, 0.01, dual_state=first.dual_state, random_state=0)
        assert second.history["dual"][0] >= first.history["dual"][-1] - 1e-12
        with pytest.raises(ValueError, match="of the same examples, labels and loss"):
            other, _ = problem(seed=2, n=10)
            again.solve(other, 0.01, dual_state=first.dual_state)


@pytest.mark.parametrize(
    "parameters",
    [
        {"sampling": "random"},
        {"step": "newton"},
        {"step_size": "best"},
        {"cache": "yes"},
        {"averaging": "prefix"},
        {"check_every": 0},
        {"max_iter": 0},
        {"tol": -1.0},
        {"tol": np.nan},
        {"cache_factor": -0.1},
        {"inner_steps": 0},
        {"max_cached": 0},
        {"cached_passes": -1},
        {"cached_passes": 2},
        {"bounds": [0, 1]},
    ],
    ids=str,
)
def test_bad_parameters(parameters):
    model, _ = problem()
    with pytest.raises(ValueError, match=next(iter(parameters))):
        BCFW.as_published(**parameters).solve(model, 0.1)


@settings(max_examples=40)
@given(
    st.integers(0, 10**6), st.sampled_from(OPTIONS), st.sampled_from([1e-3, 1e-1, 10])
)
def test_weak_duality_holds_everywhere(seed, options, alpha):
    """Every row of the trace brackets the optimum (Osokin et al., section 2.3)."""
    model, _ = problem(seed=seed, n=3, n_labels=2)
    options = {**options, "check_every": 1, "max_iter": 6, "tol": 0}
    history = BCFW.as_published(**options).solve(model, alpha, random_state=0).history
    assert history["dual"].max() <= history["primal"].min() + 1e-9
    assert (history["gap"] >= 0).all()


@pytest.mark.parametrize("solver", ["bcfw", BCFW(), BCFW(1000, 3e-3)])
def test_the_default_by_every_name(solver):
    data = make_chain(20, random_state=0)
    default = ChainCRF(alpha=0.1, random_state=0).fit(data.X, data.y)
    named = ChainCRF(alpha=0.1, solver=solver, random_state=0).fit(data.X, data.y)
    assert named.solver_.get_params() == default.solver_.get_params()
    np.testing.assert_array_equal(named.coef_, default.coef_)
    assert default.solver_.step == "pairwise"
    assert BCFW.as_published(tol=0.1).get_params() == BCFW(
        tol=0.1, sampling="gap", step="fw", cache=False, averaging=True, check_every=10,
        cache_factor=0.25, max_cached=20, inner_steps=1, cached_passes=0,
    ).get_params()  # fmt: skip


def test_no_cached_passes_without_a_cache():
    """The default of one parameter does not forbid a value of another."""
    model, _ = problem()
    result = BCFW(cache=False, max_iter=3, tol=0.0).solve(model, 0.1, random_state=0)
    other = BCFW(cache=False, cached_passes=0, max_iter=3, tol=0.0)
    same = other.solve(model, 0.1, random_state=0)
    np.testing.assert_array_equal(result.weights, same.weights)

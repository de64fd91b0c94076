"""Costs of pairs of neighboring labels, compared with the enumeration of labelings."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone

from sksstruct import ChainCRF
from sksstruct.losses import Boundaries, Hamming, Hinge, NeighborLoss, SmoothedHinge
from sksstruct.metrics import iter_chunks
from sksstruct.models.chain.chain import ChainModel
from sksstruct.models.roles import smooth_loss
from sksstruct.projections import project_simplex
from sksstruct.solvers import BCFW, Casimir

LABELS = ["B-X", "I-X", "B-Y", "O"]
SIZES = 1, 2, 3, 4, 3, 1
# powers of two: sums are exact, and labelings tie
COST = Boundaries(0.5, class_weight={"O": 0.25})


def data(seed=0, labels=LABELS):
    rng = np.random.RandomState(seed)
    X = [rng.randint(-1, 2, size=(n, 3)) / 2.0 for n in SIZES]
    # no I-X after a label that it cannot follow
    y = [["B-X"], ["B-X", "I-X"], ["O", "B-Y", "O"], ["B-X", "I-X", "I-X", "B-X"]]
    y += [["B-Y", "B-Y", "O"], ["O"]]
    return X, [[label if label in labels else "O" for label in row] for row in y]


def boundaries(labels):
    """Where chunks begin and end between two positions, by the metrics' reading."""
    chunks = [(start, stop) for _, start, stop in iter_chunks(labels)]
    begins = {("begin", start) for start, _ in chunks if start}
    return begins | {("end", stop) for _, stop in chunks if stop < len(labels)}


def loss_of(observed, labels, cost, known=None):
    known = np.ones(len(labels), dtype=bool) if known is None else known
    weights = cost.class_weight or {}
    total = sum(
        weights.get(a, 1.0)
        for a, b, seen in zip(observed, labels, known, strict=True)
        if a != b and seen
    )
    wrong = boundaries(observed) ^ boundaries(labels)
    return total + cost.boundary * sum(known[t - 1] and known[t] for _, t in wrong)


def bound(X, y, weight=None, seed=0, **options):
    """A bound chain with weights of small fractions, and these as named views."""
    spec = ChainModel(loss=Hinge(options.pop("cost", COST)), **options)
    spec.check()
    model = spec._bind(spec._read(X, y, weight, None))
    w = np.random.RandomState(seed).randint(-2, 3, size=model.n_weights) / 4.0
    kept = np.zeros_like(w)
    for name, view in model.views(kept).items():
        # weights that are not trained stay zero
        if model.boundary or name not in ("start", "end", "intercept"):
            view[...] = model.views(w)[name]
    return spec, model, kept, model.views(kept)


def score_of(x, y, views, spec):
    """The score of a labeling, as the head of `_chain.pyx` has it."""
    total = sum(
        x[t] @ views["coef"][k] + views["intercept"][k] for t, k in enumerate(y)
    )
    total += views["start"][y[0]] + views["end"][y[-1]]
    for t in range(1, len(y)):
        total += views["transitions"][y[t - 1], y[t]]
        if "transition_coef" in views:
            coef = spec.pairs_.coef(views["transition_coef"]).toarray()
            total += x[t] @ coef[:, y[t - 1] * len(spec.classes_) + y[t]]
        if "triples" in views and t > 1:
            coef = spec.triples_.coef(views["triples"]).toarray()
            total += coef[y[t - 2], y[t - 1] * len(spec.classes_) + y[t]]
    return total


def allowed(spec, labels):
    pairs = [(None, labels[0]), (labels[-1], None), *itertools.pairwise(labels)]
    return not set(pairs) & set(spec.forbidden_)


OPTIONS = {
    "plain": {},
    "own length": {"loss_normalization": "sequence"},
    "no division": {"loss_normalization": None},
    "triples": {"order": 2, "all_possible_triples": True},
    "features on pairs": {"transition_features": [0, 2]},
    "scheme": {"forbidden_transitions": "BIO"},
    "no ends": {"boundary": False, "fit_intercept": False},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_oracles_agree_with_enumeration(name):
    options = OPTIONS[name]
    X, y = data()
    spec, model, w, views = bound(X, y, **options)
    names, workspace = spec.classes_.tolist(), model.workspace(w)
    hinge, losses = np.empty((2, len(X)))
    found = np.empty(sum(SIZES), dtype=np.int32)
    model.decode_all(workspace, 0, len(X), found, hinge, losses)
    assert model.oracles == ("max", "topk", "exp")
    for i, (x, observed) in enumerate(zip(X, y, strict=True)):
        lengths = {"mean": np.mean(SIZES), "sequence": len(x), None: 1.0}
        length = lengths[spec.loss_normalization]
        values, seen = [], {}
        for labels in itertools.product(range(len(names)), repeat=len(x)):
            texts = [names[k] for k in labels]
            if allowed(spec, texts):
                loss = loss_of(observed, texts, COST) / length
                seen[labels] = loss
                values.append(loss + score_of(x, labels, views, spec))
        own = score_of(x, [names.index(label) for label in observed], views, spec)
        assert hinge[i] == pytest.approx(max(values) - own, abs=1e-12)
        best = tuple(found[model.starts[i] : model.starts[i + 1]].tolist())
        assert losses[i] == pytest.approx(seen[best], abs=1e-12)
        assert seen[best] + score_of(x, best, views, spec) == pytest.approx(max(values))
        rows, scores = model.topk(workspace, i, 6)
        assert scores == pytest.approx(sorted(values, reverse=True)[:6], abs=1e-12)
        assert len(set(map(tuple, rows.tolist()))) == len(rows) == min(6, len(values))
        for row, score in zip(rows.tolist(), scores, strict=True):
            assert seen[tuple(row)] + score_of(x, row, views, spec) == (
                pytest.approx(score, abs=1e-12)
            )


def objective(tagger, X, y, alpha, cost, weight):
    """The objective at fitted weights, from all labelings."""
    views = {
        name: getattr(tagger, f"{name}_")
        for name in ("coef", "intercept", "start", "end", "transitions")
    }
    names, total = tagger.classes_.tolist(), 0.0
    length = np.average([len(x) for x in X], weights=weight)
    for x, observed, p in zip(X, y, weight / weight.sum(), strict=True):
        own = score_of(x, [names.index(label) for label in observed], views, None)
        values = [
            loss_of(observed, [names[k] for k in labels], cost) / length
            + score_of(x, labels, views, None)
            for labels in itertools.product(range(len(names)), repeat=len(x))
        ]
        total += p * (max(values) - own)
    return total + alpha / 2 * sum((view**2).sum() for view in views.values())


SOLVERS = ["bcfw", "fw", "bmrm", "cutting_plane", BCFW(step="away"), Casimir()]


@pytest.mark.filterwarnings("ignore:training did not converge")
@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_solvers_of_the_hinge(solver):
    X, y = data()
    X = [x + 0.1 for x in X]
    weight = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
    tagger = ChainCRF(
        alpha=0.05, loss=Hinge(COST), solver=clone(solver, safe=False), tol=1e-5,
        max_iter=3000, random_state=0,
    )  # fmt: skip
    tagger.fit(X, y, sample_weight=weight)
    exact = objective(tagger, X, y, 0.05, COST, weight)
    assert tagger.objective_ == pytest.approx(exact, rel=1e-9)
    best = ChainCRF(alpha=0.05, loss=Hinge(COST), tol=1e-8, random_state=0)
    best.fit(X, y, sample_weight=weight)
    # its certificate holds for the optimum
    assert best.objective_ - 1e-7 <= exact
    assert exact - tagger.dual_gap_ <= best.objective_ + 1e-9
    assert tagger.dual_gap_ < 0.02
    # not what the Hamming loss alone gives
    other = clone(best).set_params(loss=Hinge(Hamming({"O": 0.25})))
    other.fit(X, y, sample_weight=weight)
    assert best.objective_ > other.objective_ + 0.01


def smoothed(values, kind, mu):
    """The smoothed maximum, and the distribution of the labelings."""
    if kind == "entropy":
        shares = np.exp((values - values.max()) / mu)
        top = values.max() + mu * np.log(shares.sum())
        shares /= shares.sum()
        return top, shares
    shares = project_simplex(values / mu)
    return shares @ values + mu / 2 * (1.0 - shares @ shares), shares


@pytest.mark.parametrize("kind", ["entropy", "l2"])
@pytest.mark.parametrize("name", OPTIONS)
def test_smooth_losses_agree_with_enumeration(name, kind):
    options = OPTIONS[name]
    X, y = data()
    spec, model, w, _ = bound(X, y, np.arange(1.0, 7.0), **options)
    names, mu = spec.classes_.tolist(), 0.5
    loss = smooth_loss(model, SmoothedHinge(kind, mu, 5000))
    gradient = np.empty(model.n_weights)
    value = loss.value_and_gradient(w, gradient)
    total, expected, wanted = 0.0, 0.0, np.zeros(model.n_weights)
    mean = np.average(SIZES, weights=np.arange(1.0, 7.0))
    for i, (x, observed) in enumerate(zip(X, y, strict=True)):
        lengths = {"mean": mean, "sequence": len(x), None: 1.0}
        length = lengths[spec.loss_normalization]
        rows, losses = [], []
        own = features_of(model, i, [names.index(label) for label in observed])
        for labels in itertools.product(range(len(names)), repeat=len(x)):
            texts = [names[k] for k in labels]
            if allowed(spec, texts):
                rows.append(features_of(model, i, labels) - own)
                losses.append(loss_of(observed, texts, COST) / length)
        rows, losses = np.array(rows), np.array(losses)
        top, shares = smoothed(losses + rows @ w, kind, mu)
        total += model.example_weights[i] * top
        wanted += model.example_weights[i] * (shares @ rows)
        expected += model.example_weights[i] * (shares @ losses)
    assert value == pytest.approx(total, abs=1e-12)
    np.testing.assert_allclose(gradient, wanted, atol=1e-12)
    assert loss.expected_loss == pytest.approx(expected, abs=1e-12)


def features_of(model, i, labels):
    """Joint features of a labeling: what the model's linear map gives back."""
    labelings = np.array(model.labels)
    labelings[model.starts[i] : model.starts[i + 1]] = labels
    out = np.zeros(model.n_weights)
    model.add_difference(model.workspace(out), labelings.astype(np.int32), -1.0, out)
    return out / model.example_weights[i]


@pytest.mark.parametrize("solver", ["lbfgs", "sgd", "svrg", "casimir"])
def test_smoothed_by_the_entropy(solver):
    X, y = data()
    loss = SmoothedHinge(mu=0.05, cost=COST)
    tagger = ChainCRF(
        alpha=0.05, loss=loss, solver=solver, tol=1e-3, max_iter=3000, random_state=0
    ).fit(X, y)
    best = ChainCRF(alpha=0.05, loss=loss, solver="lbfgs", tol=1e-7).fit(X, y)
    assert tagger.objective_ - tagger.dual_gap_ <= best.objective_ + 1e-7
    assert best.objective_ <= tagger.objective_ + 1e-7
    # stochastic steps take many passes to a small one
    assert tagger.dual_gap_ <= (0.05 if solver == "sgd" else 2e-3)


def test_smoothed_by_the_best_labelings():
    X, y = data()
    loss = SmoothedHinge(smoothing="l2", mu=0.01, k=20, cost=COST)
    tagger = ChainCRF(alpha=0.05, loss=loss, random_state=0).fit(X, y)
    hinge = ChainCRF(alpha=0.05, loss=Hinge(COST), tol=1e-6, random_state=0).fit(X, y)
    assert 0.0 <= tagger.objective_ - hinge.objective_ + 1e-3 <= 0.01
    assert 0.0 < tagger.topk_exact_ <= 1.0


def test_without_a_cost_of_boundaries_it_is_the_hamming_loss():
    X, y = data()
    plain = ChainCRF(alpha=0.05, tol=1e-7, random_state=0)
    same = clone(plain).set_params(loss=Hinge(Boundaries(0.0))).fit(X, y)
    plain.fit(X, y)
    assert same.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    weights = {"O": 3.0, "B-X": 0.5}
    weighted = clone(plain).set_params(class_weight=weights).fit(X, y)
    same = clone(plain).set_params(loss=Hinge(Hamming(weights))).fit(X, y)
    assert np.array_equal(weighted.coef_, same.coef_)


@pytest.mark.parametrize("option", ["missing", "partitioned", "stream"])
def test_other_ways_of_training(option):
    X, y = data()
    tagger = ChainCRF(alpha=0.05, loss=Hinge(Boundaries(1.0)), random_state=0)
    if option == "missing":
        y[3][1], y[2][0] = None, {"O", "B-Y"}
        tagger.fit(X, y)
    elif option == "partitioned":
        tagger.set_params(solver="partitioned", tol=1e-4).fit(X, y)
        alone = clone(tagger).set_params(solver="bcfw").fit(X, y)
        assert tagger.objective_ == pytest.approx(alone.objective_, rel=1e-3)
    else:
        for _ in range(60):
            tagger.partial_fit(X, y, classes=LABELS)
        other = clone(tagger).set_params(loss="hinge")
        for _ in range(60):
            other.partial_fit(X, y, classes=LABELS)
        assert not np.allclose(tagger.transitions_, other.transitions_, atol=1e-3)
    assert np.isfinite(tagger.coef_).all()
    found = list(tagger.predict(X[3:4])[0])
    assert [found[0], *found[2:]] == ["B-X", "I-X", "B-X"]


def test_boundaries_next_to_missing_labels_cost_nothing():
    X, y = data()
    known = [np.ones(n, dtype=bool) for n in SIZES]
    known[3][1] = known[2][0] = False
    given = [
        [a if seen else None for a, seen in zip(*row, strict=True)]
        for row in zip(y, known, strict=True)
    ]
    spec = ChainModel(loss=Hinge(COST), loss_normalization=None)
    spec.check()
    rounds = spec._bind(spec._read(X, given, None, None))
    names = spec.classes_.tolist()
    numbers = np.array([names.index(a) for row in y for a in row], dtype=np.int32)
    model = rounds.with_labels(numbers)
    w = np.random.RandomState(0).randint(-2, 3, size=model.n_weights) / 4.0
    hinge, losses = np.empty((2, len(X)))
    found = np.empty(sum(SIZES), dtype=np.int32)
    model.decode_all(model.workspace(w), 0, len(X), found, hinge, losses)
    for i, observed in enumerate(y):
        labels = [names[k] for k in found[model.starts[i] : model.starts[i + 1]]]
        assert losses[i] == pytest.approx(loss_of(observed, labels, COST, known[i]))
    assert (losses > 0.0).sum() > 2


def test_warm_starts_and_files(tmp_path):
    X, y = data()
    tagger = ChainCRF(alpha=0.05, loss=Hinge(COST), warm_start=True, random_state=0)
    first = tagger.fit(X, y).objective_
    assert tagger.fit(X, y).objective_ <= first + 1e-9
    # labelings of the Hamming loss have other keys
    with pytest.warns(UserWarning, match="training starts from zero"):
        tagger.set_params(loss="hinge").fit(X, y)


class Broken(NeighborLoss):
    def __init__(self, what=None):
        self.what = what

    def pair_costs(self, classes):
        n = len(classes)
        groups, tables = np.zeros((n, n), dtype=int), np.zeros((1, n, n))
        if self.what == "shape":
            groups = groups[:1]
        elif self.what == "group":
            groups[0, 0] = 1
        elif self.what == "negative":
            tables[0, 0, 0] = -1.0
        else:
            tables[0, 0, 1] = 1.0
        return groups, tables


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("shape", r"groups of shape \(4, 4\)"),
        ("group", "groups must be from 0 to 0"),
        ("negative", "finite and not negative"),
        ("observed", r"the observed pair \('B-X', 'B-Y'\) must cost 0"),
    ],
)
def test_costs_that_are_none(what, message):
    with pytest.raises(ValueError, match=f"Broken.pair_costs.*{message}"):
        ChainCRF(loss=Hinge(Broken(what))).fit(*data())


def test_runs_of_equal_labels_are_segments():
    groups, tables = Boundaries(2.0).pair_costs(np.array(["a", "b"]))
    assert groups.tolist() == [[0, 3], [3, 0]]
    assert tables[0].tolist() == [[0.0, 4.0], [4.0, 0.0]]
    assert tables[3].tolist() == [[4.0, 0.0], [0.0, 4.0]]

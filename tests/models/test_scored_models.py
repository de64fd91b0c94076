"""Score functions in the place of the first block of weights, for every model."""

import pickle

import numpy as np
import pytest
from problems import LinearScore, problems
from sklearn.base import clone
from sklearn.datasets import load_digits

from sksstruct import SSVMClassifier
from sksstruct.estimators._train import prepare
from sksstruct.models import (
    CandidatesModel,
    ELUScore,
    MulticlassModel,
    RelaxedGraphModel,
)
from sksstruct.models.roles import nonlinear_loss
from sksstruct.models.scores import scored
from sksstruct.solvers import SGD, ProxLinear

PROBLEMS = {name: rest for name, *rest in problems()}
# where sums over all outputs are known
LIKELY = [
    name
    for name, (model, *_) in PROBLEMS.items()
    if "tree, edge" in name or name == "multiclass"
]


def without_costs(model):
    """The model without costs of errors, which the likelihood does not have."""
    names = {"costs", "class_weight"} & set(model.get_params())
    return clone(model).set_params(**dict.fromkeys(names))


@pytest.fixture(params=[1, 3], ids=["one part", "three parts"])
def parts(request, monkeypatch):
    """Number of the parts that examples are dealt to."""
    monkeypatch.setattr(scored, "FINE", (1000, 1000, request.param))
    return request.param


def bound(name, loss):
    """A problem with a score function, the smoothing it needs, and weights."""
    model, X, y, _ = PROBLEMS[name]
    model = without_costs(model) if loss == "log" else model
    weight = np.linspace(1.0, 2.0, len(X))
    classifier = SSVMClassifier(model, loss=loss, score_function=ELUScore(3))
    problem = prepare(classifier, X, y, weight).model
    rng = np.random.RandomState(1)
    nonlinear_loss(problem, "auto", 1000)
    if problem.nonsmooth:
        problem.set_smoothing(0.7)
    w = problem.initial_weights(rng)
    # biases of zero would put rows of zeros where the second derivative jumps
    w[: problem.n_parameters] += 0.1 * rng.normal(size=problem.n_parameters)
    box = problem.box()
    if box is not None:
        # away from the bounds, which the oracles need
        w = np.clip(w, *box) + 0.3 * (box[0] == 0.0)
    return problem, w


@pytest.mark.parametrize(
    ("name", "loss"),
    [(name, "hinge") for name in PROBLEMS] + [(name, "log") for name in LIKELY],
)
def test_gradients_by_finite_differences(name, loss, parts):
    problem, w = bound(name, loss)
    assert problem.n_parts == min(parts, problem.n_examples)
    problem.linearize(w)
    rng = np.random.RandomState(2)
    gradient = problem.value_and_gradient(w)[1]
    total = sum(
        share * problem.true_gradient(b, w)[1] for b, share in enumerate(problem.shares)
    )
    # at the center the model has the gradient of the loss itself
    np.testing.assert_allclose(total, gradient, atol=1e-12)
    at = w + 0.05 * rng.normal(size=w.shape) * (gradient != 0)
    problem.linearize(w)
    before = problem.value_and_gradient(w)[1]
    change = sum(
        share * problem.part_gradient(b, at) for b, share in enumerate(problem.shares)
    )
    gradient = problem.value_and_gradient(at)[1]
    np.testing.assert_allclose(before + change, gradient, atol=1e-11)

    def true_value(w):
        looks = [problem.true_gradient(b, w)[0] for b in range(problem.n_parts)]
        return float(problem.shares @ looks)

    h = 1e-5
    for _ in range(3):
        direction = rng.normal(size=w.shape) * (before != 0)
        up = problem.value_and_gradient(at + h * direction)[0]
        down = problem.value_and_gradient(at - h * direction)[0]
        slope = gradient @ direction
        assert slope == pytest.approx((up - down) / (2 * h), abs=1e-6)
    slope = total @ direction
    up, down = true_value(w + h * direction), true_value(w - h * direction)
    assert slope == pytest.approx((up - down) / (2 * h), abs=1e-6)
    if loss == "log":
        assert true_value(w) == pytest.approx(problem.value(w))
    else:
        problem.set_smoothing(1e-7)
        assert true_value(w) == pytest.approx(problem.value(w), abs=1e-5)


def score_of(feature, model, blocks, x, y):
    """Score of an output, from its joint feature map."""
    return sum(
        float((part * blocks[name]).sum())
        for name, part in feature(model, x, y).items()
        if name != "intercept_"
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:training did not converge")
@pytest.mark.parametrize("name", PROBLEMS)
def test_linear_scores_reach_the_optimum(name):
    model, X, y, feature = PROBLEMS[name]
    model = clone(model)
    if "fit_intercept" in model.get_params():
        model.set_params(fit_intercept=False)
    linear = SSVMClassifier(model, alpha=0.1, tol=1e-5, random_state=0).fit(X, y)
    scores = clone(linear).set_params(
        score_function=LinearScore(), solver=ProxLinear(60, 1e-5)
    )
    scores.fit(X, y)
    least = linear.objective_ - linear.dual_gap_
    assert scores.objective_ >= least - 1e-9
    assert scores.objective_ <= linear.objective_ * 1.01
    # the objective and the predictions, by enumeration
    blocks = {k: v for k, v in vars(scores).items() if k.endswith("coef_")}
    blocks.update({k: getattr(scores, k, None) for k in ("linear_", "quadratic_")})
    n_columns = linear.coef_.reshape(-1, linear.coef_.shape[-1]).shape[0]
    blocks["coef_"] = scores.score_parameters_.reshape(-1, n_columns).T
    if linear.coef_.ndim == 1:
        blocks["coef_"] = blocks["coef_"][0]
    total = scores.weights_ @ scores.weights_ * 0.05
    best = scores.decision_function(X) if not model.is_flat else None
    fitted = scores.model_
    for i, (x, target) in enumerate(zip(X, y, strict=True)):
        values = [
            (score_of(feature, fitted, blocks, x, z), fitted.loss(target, z))
            for z in fitted.labelings(x)
        ]
        if best is not None:
            assert best[i] == pytest.approx(max(value for value, _ in values))
        observed = min(loss for _, loss in values)
        assert observed == 0.0
        true = max(value for value, loss in values if loss == 0.0)
        total += (max(map(sum, values)) - true) / len(X)
    if "boxes" not in name and "matching" not in name:
        # where one output alone costs nothing
        assert scores.objective_ == pytest.approx(total)


@pytest.mark.parametrize(
    ("name", "loss"),
    [(name, "hinge") for name in PROBLEMS] + [(name, "log") for name in LIKELY],
)
@pytest.mark.parametrize(
    "solver", [ProxLinear(8), ProxLinear(4, inner="casimir"), SGD(6)], ids=str
)
@pytest.mark.filterwarnings("ignore:training did not converge")
@pytest.mark.filterwarnings("ignore:all predicted matchings are empty")
def test_networks_lower_the_objective(name, loss, solver):
    model, X, y, _ = PROBLEMS[name]
    model = without_costs(model) if loss == "log" else model
    classifier = SSVMClassifier(
        model,
        alpha=0.05,
        loss=loss,
        solver=solver,
        score_function=ELUScore(4),
        random_state=0,
    ).fit(X, y)
    values = classifier.history_["primal"]
    assert (np.diff(values) <= 1e-12).all() and values[-1] < 0.9 * values[0]
    # the box of the oracles holds
    for attribute in ("edge_coef_", "quadratic_"):
        if model.bounds() and hasattr(classifier, attribute):
            assert getattr(classifier, attribute).min() >= 0.0
    other = pickle.loads(pickle.dumps(classifier))
    if model.is_flat:
        scores = classifier.decision_function(X), other.decision_function(X)
    else:
        scores = classifier.predict_topk(X[:2], 2)[1], other.predict_topk(X[:2], 2)[1]
        best = [each[0] for each in scores[0]]
        np.testing.assert_allclose(best, classifier.decision_function(X[:2]))
    for a, b in zip(*scores, strict=True):
        np.testing.assert_array_equal(a, b)
    if loss == "log" and not model.is_flat:
        for rows in classifier.predict_marginals(X):
            np.testing.assert_allclose(rows.sum(axis=1), 1.0)


@pytest.mark.filterwarnings("ignore:training did not converge")
def test_a_network_learns_digits():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    train, test = slice(0, 1000), slice(1000, None)
    # close to the optimum, whatever the order of the visits: 0.932
    linear = SSVMClassifier(alpha=1e-3, loss="log", tol=1e-4, random_state=0)
    linear.fit(X[train], y[train])
    network = clone(linear).set_params(
        alpha=1e-4, score_function=ELUScore(32), max_iter=20, tol=0.03, random_state=0
    )
    network.fit(X[train], y[train])
    # 0.936; a sample is 0.00125
    assert network.score(X[test], y[test]) > linear.score(X[test], y[test]) - 0.005
    probabilities = network.predict_proba(X[test])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    best = network.classes_[probabilities.argmax(axis=1)]
    np.testing.assert_array_equal(best, network.predict(X[test]))


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"model": RelaxedGraphModel()}, "RelaxedGraphModel does not"),
        ({"score_function": ELUScore(0)}, "n_hidden"),
        ({"score_function": "elu"}, "score_function"),
        ({"solver": "bcfw"}, "linear in the weights"),
        ({"solver": "lbfgs", "loss": "log"}, "linear in the weights"),
        ({"model": "matching", "loss": "log"}, "needs sums over all outputs"),
    ],
)
def test_what_does_not_fit_is_refused(parameters, match):
    name = (
        "multiclass" if "model" not in parameters else "full tree, edge features: False"
    )
    if parameters.get("model") == "matching":
        name = "matching"
    _, X, y, _ = PROBLEMS[name]
    given = {"model": MulticlassModel(), "score_function": ELUScore(2), **parameters}
    with pytest.raises(ValueError, match=match):
        SSVMClassifier(**given).fit(X, y)


def test_there_is_no_joint_feature_map():
    X, y = [[[0.0], [1.0]], [[0.9], [0.1], [0.2]]], [1, 0]
    classifier = SSVMClassifier(
        CandidatesModel(), score_function=ELUScore(2), tol=0.1, random_state=0
    ).fit(X, y)
    model, w = classifier.model_, classifier.weights_
    assert [model.decode(x, w) for x in X] == classifier.predict(X)
    assert model.loss_augmented_decode(X[0], 1, 0 * w) == 0
    with pytest.raises(ValueError, match="joint feature map needs linear scores"):
        model.joint_feature(X[0], 1)

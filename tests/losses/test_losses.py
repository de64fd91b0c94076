"""Surrogates and task losses as parameters: names, objects, and what does not fit."""

import pickle
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import sksstruct
from sksstruct import ChainCRF, MultilabelPairwise, SegmentCRF, SSVMClassifier
from sksstruct.losses import (
    COSTS,
    LABEL_LOSSES,
    LOSSES,
    Boundaries,
    Hamming,
    Hinge,
    LabelHinge,
    LabelLogistic,
    LabelLossName,
    LabelSquaredHinge,
    LogLikelihood,
    LossName,
    SmoothedHinge,
    WrongSegments,
)
from sksstruct.models import ELUScore, GraphModel, SegmentModel
from sksstruct.utils.estimator_checks import check_ragged_estimator

RNG = np.random.RandomState(0)
X = [RNG.standard_normal((n, 2)) for n in (3, 1, 4, 2, 5, 3)]
Y = [
    ["O", "B", "I"],
    ["O"],
    ["B", "B", "O", "O"],
    ["O", "B"],
    list("OBIIO"),
    list("BIO"),
]
FLAT, CLASSES = RNG.standard_normal((30, 3)), RNG.randint(3, size=30)
GRAPHS = [(x, [(t, t + 1) for t in range(len(x) - 1)]) for x in X]
SETS = (RNG.uniform(size=(30, 3)) < 0.4).astype(int)

# what a name stands for, as an object
SAME = {
    "hinge": [Hinge(), Hinge(cost="hamming"), Hinge(Hamming())],
    "log": [LogLikelihood()],
    "smoothed_hinge": [
        SmoothedHinge("auto"),
        SmoothedHinge(),
        SmoothedHinge(cost="hamming"),
    ],
}


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("kind", ["chain", "segments", "graph", "classes"])
def test_names_stand_for_objects(name, kind):
    make, data = {
        "chain": (ChainCRF, (X, Y)),
        "segments": (SegmentCRF, (X, Y)),
        "graph": (lambda **kw: SSVMClassifier("graph", **kw), (GRAPHS, Y)),
        "classes": (SSVMClassifier, (FLAT, CLASSES)),
    }[kind]
    named = make(alpha=0.1, loss=name, random_state=0).fit(*data)
    for loss in SAME[name]:
        if kind == "classes" and loss.cost is not None:
            continue
        other = make(alpha=0.1, loss=loss, random_state=0).fit(*data)
        assert other.objective_ == named.objective_
        probabilities = hasattr(other, "predict_marginals")
        assert probabilities == hasattr(named, "predict_marginals")


LABELS = [LabelHinge(), LabelSquaredHinge(), LabelLogistic(), Hinge()]


@pytest.mark.parametrize(
    ("name", "loss"), zip(LABEL_LOSSES.makers, LABELS, strict=True)
)
def test_losses_of_labels(name, loss):
    named = MultilabelPairwise(loss=name, random_state=0).fit(FLAT, SETS)
    other = clone(named).set_params(loss=loss).fit(FLAT, SETS)
    assert np.array_equal(named.coef_, other.coef_)
    assert named.alpha_ == other.alpha_
    assert hasattr(other, "predict_proba") == (name == "log")


# What may do so: the registry's own file, and the option of the command line.
COMPARED = re.compile(r"\bloss(?:_name)? [!=]= [\"']|\.smoothing [!=]= [\"']")


def test_no_loss_is_compared_with_a_string():
    assert COMPARED.search('if self.loss == "log":')
    root = Path(sksstruct.__file__).parent
    sources = [p for kind in ("py", "pyx") for p in root.rglob(f"*.{kind}")]
    found = [p.name for p in sources if COMPARED.search(p.read_text())]
    assert set(found) <= {"_smoothed.py", "tagging.py"}


def test_registries():
    assert set(get_args(LossName)) == set(LOSSES.makers)
    assert set(get_args(LabelLossName)) == set(LABEL_LOSSES.makers)
    assert LOSSES.names() == ["hinge", "log", "smoothed_hinge"]
    assert COSTS.names() == ["boundaries", "hamming", "segments"]
    for registry in (LOSSES, COSTS):
        for name in registry.names():
            loss = registry.resolve(name)
            loss.check()
            assert registry.resolve(loss) is loss
            assert repr(clone(loss)) == repr(loss)
            assert len(repr(loss)) < 40
    assert {LOSSES.resolve(name).name for name in LOSSES.names()} == set(LOSSES.makers)


WRONG = {
    "unknown name": ({"loss": "hing"}, ValueError, "'loss' parameter.*'hinge'.*'hing'"),
    "a task loss": ({"loss": Boundaries()}, TypeError, "Surrogate.*Boundaries"),
    "a loss of labels": ({"loss": LabelHinge()}, TypeError, "Surrogate.*LabelHinge"),
    "unknown cost": ({"loss": Hinge("x")}, ValueError, "'cost' parameter.*boundaries"),
    "no cost": ({"loss": Hinge(3)}, ValueError, "'cost' parameter of Hinge"),
    "negative": ({"loss": Hinge(Boundaries(-1.0))}, ValueError, "'boundary' parameter"),
    "segments": ({"loss": Hinge("segments")}, ValueError, "needs segments.*ChainModel"),
    "two": (
        {"loss": Hinge(Hamming()), "class_weight": {"O": 2.0}},
        ValueError,
        "class_weight of ChainModel and cost=Hamming.*give one",
    ),
    "likelihood": (
        {"loss": LogLikelihood(), "class_weight": {"O": 2.0}},
        ValueError,
        "does not have",
    ),
    "scores": (
        {"loss": Hinge("boundaries"), "score_function": ELUScore(2)},
        ValueError,
        "score_function",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_said_before_any_work(name):
    params, kind, message = WRONG[name]
    with pytest.raises(kind, match=message):
        ChainCRF(**params).fit(None, None)


def test_the_likelihood_has_no_task_loss():
    with pytest.raises(TypeError, match="cost"):
        LogLikelihood(cost="hamming")


@pytest.mark.parametrize("solver", ["pragam", "gdmm", "soft_bcfw", "lbfgs", "sdca"])
def test_solvers_that_know_costs_of_single_labels_only(solver):
    tagger = ChainCRF(alpha=0.1, loss=Hinge("boundaries"), solver=solver)
    with pytest.raises(ValueError, match=r"pairs of neighboring labels|hinge"):
        tagger.fit(X, Y)


@pytest.mark.parametrize(
    ("model", "cost", "message"),
    [
        ("multiclass", "hamming", "MulticlassModel has a loss of its own"),
        ("matching", "hamming", "MatchingModel has a loss of its own"),
        (
            "graph",
            "boundaries",
            "needs neighboring positions.*GraphModel has one label",
        ),
        ("graph", "segments", "needs segments"),
        (SegmentModel(), "boundaries", "SegmentModel has one label.*and segments"),
        (SegmentModel(class_weight="balanced"), "hamming", "class_weight of Segment"),
        (GraphModel(class_weight="balanced"), "hamming", "class_weight of GraphModel"),
    ],
)
def test_what_structures_take(model, cost, message):
    with pytest.raises(ValueError, match=message):
        SSVMClassifier(model, loss=Hinge(cost)).fit(None, None)


def test_labels_in_sets_have_their_own_loss():
    with pytest.raises(ValueError, match="MultilabelModel has a loss of its own"):
        MultilabelPairwise(loss=Hinge("hamming")).fit(FLAT, SETS)
    with pytest.raises(TypeError, match=r"'loss' parameter.*LabelLoss.*LogLikelihood"):
        MultilabelPairwise(loss=LogLikelihood()).fit(FLAT, SETS)


def test_costs_of_other_structures():
    weights = {"O": 3.0}
    old = SSVMClassifier(GraphModel(class_weight=weights), alpha=0.1, random_state=0)
    new = SSVMClassifier(
        "graph", alpha=0.1, loss=Hinge(Hamming(weights)), random_state=0
    )
    assert old.fit(GRAPHS, Y).objective_ == new.fit(GRAPHS, Y).objective_
    assert old.score(GRAPHS, Y) == new.score(GRAPHS, Y)
    old = SegmentCRF(alpha=0.1, loss_unit="segment", random_state=0).fit(X, Y)
    new = SegmentCRF(alpha=0.1, loss=Hinge(WrongSegments()), random_state=0).fit(X, Y)
    assert old.objective_ == new.objective_
    assert old.score(X, Y) == new.score(X, Y)


def test_parameters_of_a_loss_are_searched():
    tagger = ChainCRF(0.1, loss=Hinge(Boundaries()), random_state=0, tol=0.01)
    assert tagger.get_params()["loss__cost__boundary"] == 0.5
    assert "boundary=2" in repr(tagger.set_params(loss__cost__boundary=2.0))
    grid = {"loss__cost": ["hamming", "boundaries", Boundaries(2.0)]}
    search = GridSearchCV(tagger, grid, cv=2).fit(X, Y)
    assert search.best_params_["loss__cost"] in grid["loss__cost"]
    search = GridSearchCV(tagger, {"loss__cost__boundary": [0.0, 4.0]}, cv=2).fit(X, Y)
    assert search.cv_results_["param_loss__cost__boundary"].tolist() == [0.0, 4.0]
    # the parameter is not the object that fits
    assert tagger.loss.cost.boundary == 2.0


def test_fitted_taggers_with_a_loss_travel(tmp_path):
    tagger = ChainCRF(0.1, loss=Hinge("boundaries"), random_state=0).fit(X, Y)
    again = pickle.loads(pickle.dumps(tagger))
    assert [list(row) for row in again.predict(X)] == [
        list(r) for r in tagger.predict(X)
    ]
    with pytest.raises(ValueError, match="loss is Hinge"):
        tagger.to_json(tmp_path / "tagger.json")
    tagger.set_params(loss="hinge").to_json(tmp_path / "tagger.json")
    again = ChainCRF.from_json(tmp_path / "tagger.json")
    assert np.array_equal(again.coef_, tagger.coef_)
    assert again._loss == "hinge"


def test_losses_of_earlier_versions():
    loss = SmoothedHinge(mu=0.3)
    del vars(loss)["cost"]
    loss = pickle.loads(pickle.dumps(loss))
    assert loss.cost is None
    assert clone(loss).mu == 0.3


def test_a_tagger_with_costs_of_neighbors_is_an_estimator():
    check_ragged_estimator(ChainCRF(1.0, loss=Hinge("boundaries"), random_state=0))


def test_costs_by_label_of_segments():
    """A task loss, and the parameter of the model, are the same costs."""
    rng = np.random.RandomState(0)
    X = [rng.normal(size=(6, 2)) for _ in range(10)]
    y = [[(0, 2, "B"), (3, 6, "I")] if x[0, 0] > 0 else [(1, 4, "I")] for x in X]
    given = SSVMClassifier(SegmentModel(), loss=Hinge(cost=Hamming({"B": 2.0})))
    own = SSVMClassifier(SegmentModel(class_weight={"B": 2.0}))
    fits = [
        each.set_params(alpha=0.1, random_state=0).fit(X, y) for each in (given, own)
    ]
    np.testing.assert_array_equal(fits[0].weights_, fits[1].weights_)
    plain = SSVMClassifier(SegmentModel(), alpha=0.1, random_state=0).fit(X, y)
    assert (plain.weights_ != fits[0].weights_).any()

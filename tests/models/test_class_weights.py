"""Costs of labels, in models whose loss is a sum over positions or nodes."""

import numpy as np
import pytest

from sksstruct import SegmentCRF, SSVMClassifier
from sksstruct.models import GraphModel, RelaxedGraphModel, SegmentModel, check_model

# Outputs, and how many known positions are outside, if there is an outside, or have
# each label.
FORMS = {
    "tags": (
        [
            ["O", "B-a", "I-a", "O"],
            ["B-b", "O", "B-a"],
            ["O", "O", None, "B-a", "B-b"],
        ],
        [5, 4, 2],
    ),
    "segments": (
        [[(1, 3, "a")], [(0, 1, "b"), (2, 3, "a")], [(3, 4, "a"), (4, 5, "b")]],
        [6, 4, 2],
    ),
    "labels": (
        [list("baab"), list("cba"), ["b", "b", {"a", "b"}, "a", "c"]],
        [4, 5, 2],
    ),
}


def sequences(seed=0):
    rng = np.random.RandomState(seed)
    return [rng.normal(size=(n, 2)) for n in (4, 3, 5)]


@pytest.mark.parametrize("form", FORMS)
def test_balanced_labels_of_segments_cost_the_same_in_all(form):
    X, (y, counts) = sequences(), FORMS[form]
    spec = SegmentModel(class_weight="balanced", max_length=3)
    spec._read(X, y, None, None)
    np.testing.assert_allclose(spec.costs_ * counts, sum(counts) / 3.0)
    # the same from parts, and from weights
    parts = SegmentModel(class_weight="balanced", max_length=3)
    facts = [parts._facts(X[k : k + 1], y[k : k + 1], None, k) for k in range(len(X))]
    parts._learn_facts(facts[0].merge(facts[1]).merge(facts[2]))
    np.testing.assert_allclose(parts.costs_, spec.costs_)
    twice = SegmentModel(class_weight="balanced", max_length=3)
    twice._read(X[:2] + X, y[:2] + y, None, None)
    spec._read(X, y, [2.0, 2.0, 1.0], None)
    np.testing.assert_allclose(spec.costs_, twice.costs_)


@pytest.mark.parametrize("roles", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_oracles_of_segments_add_what_the_loss_is(form, roles):
    X, y = sequences(), FORMS[form][0]
    y = [
        [("O" if form == "tags" else "b") if k is None or isinstance(k, set) else k
         for k in row]
        for row in y
    ]  # fmt: skip
    costs = {"b": 3.0, **({"c": 0.25} if form == "labels" else {"O": 0.25})}
    model = SegmentModel(
        class_weight=costs,
        roles=roles,
        loss_normalization=None,
        max_length="auto" if form == "labels" else 3,
    )
    check_model(model, X, y, enumerate_outputs=True, random_state=0)
    model.prepare(X, y)
    names = ["a", "b", "c"] if form == "labels" else ["O", "a", "b"]
    assert model.costs_.tolist() == [costs.get(name, 1.0) for name in names]
    # what is wrong at every position costs what its true labels do
    true = y[1]
    wrong = {"tags": ["O", "B-a", "O"], "labels": list("abc")}
    wrong = wrong.get(form, [(1, 2, "a")])
    labels = {"labels": ["c", "b", "a"]}.get(form, ["b", "O", "a"])
    total = sum(costs.get(label, 1.0) for label in labels)
    if form == "labels":
        # the one in the middle is right
        total -= costs["b"]
    assert model.loss(true, wrong) == pytest.approx(total)
    w = np.zeros(model.n_weights_)
    found = model.loss_augmented_decode(X[1], true, w)
    assert model.loss(true, found) == pytest.approx(
        sum(costs.get(label, 1.0) for label in labels)
    )


@pytest.mark.parametrize("normalize", [False, True])
def test_relaxed_graphs_have_the_costs_of_forests(normalize):
    rng = np.random.RandomState(0)
    X = [(rng.normal(size=(n, 2)), [(k - 1, k) for k in range(1, n)]) for n in (3, 4)]
    y = [["a", "b", "a"], ["c", "a", "a", "b"]]
    for class_weight in ("balanced", {"a": 0.5, "b": 2.0}):
        options = {"class_weight": class_weight, "normalize": normalize}
        fits = [
            SSVMClassifier(model(**options), alpha=0.1, tol=1e-4, random_state=0)
            for model in (GraphModel, RelaxedGraphModel)
        ]
        for classifier in fits:
            classifier.fit(X, y)
        models = [classifier.model_ for classifier in fits]
        np.testing.assert_array_equal(models[0].costs_, models[1].costs_)
        assert len(set(models[0].costs_)) > 1
        for row in y:
            other = ["b" if k == "a" else "a" for k in row]
            losses = [model.loss(row, other) for model in models]
            assert losses[0] == pytest.approx(losses[1])
        # relaxations of trees are tight, so that the problem is the same
        values = [classifier.objective_ for classifier in fits]
        assert values[0] == pytest.approx(values[1], rel=1e-3)
        by_oracle = SSVMClassifier(
            models[1], alpha=0.1, tol=1e-4, solver="bcfw", random_state=0
        ).fit(X, y)
        assert by_oracle.objective_ == pytest.approx(values[0], rel=1e-3)
        # labels that training has not seen cost as others do
        assert models[1].loss(["z"], ["a"]) == 1.0


def test_rare_labels_are_found_more_often():
    rng = np.random.RandomState(0)
    y = [["B-a" if u < 0.1 else "O" for u in rng.rand(12)] for _ in range(40)]
    X = [
        np.array([[k != "O"] for k in row]) + 0.7 * rng.normal(size=(12, 1))
        for row in y
    ]
    found = []
    for class_weight in (None, "balanced", {"O": 0.1}):
        options = {"max_length": 1, "tol": 0.3, "random_state": 0}
        tagger = SegmentCRF(1e-4, class_weight=class_weight, **options).fit(X, y)
        found.append(sum(list(row).count("B-a") for row in tagger.predict(X)))
    assert found[1] > 2 * found[0] and found[2] > 2 * found[0]


def test_class_weights_of_segments_that_cannot_be():
    X, y = sequences(), FORMS["segments"][0]
    for options, match in (
        ({"loss_unit": "segment"}, "it needs loss_unit='position'"),
        ({"loss": "log"}, "class_weight of SegmentModel is the cost of an error"),
        ({"class_weight": {"z": 1.0}}, "class_weight names 'z', .* these are 'O', 'a'"),
        (
            {"class_weight": {"a": -1.0}},
            r"class_weight\['a'\] must be finite .*, got -1.0",
        ),
    ):
        options = {"class_weight": "balanced", **options}
        with pytest.raises(ValueError, match=match):
            SegmentCRF(**options).fit(X, y)
    with pytest.raises(ValueError, match="'balanced' needs all labels at once"):
        SegmentCRF(class_weight="balanced", max_length=2).partial_fit(X, y, ["a", "b"])
    with pytest.raises(ValueError, match=r"SegmentModel\(class_weight=...\)"):
        SSVMClassifier(SegmentModel(), class_weight="balanced").fit(X, y)


def test_mini_batches_keep_the_costs():
    X, y = sequences(), FORMS["segments"][0]
    tagger = SegmentCRF(class_weight={"b": 2.0}, max_length=2, random_state=0)
    for k in range(3):
        tagger.partial_fit(X[k : k + 1], y[k : k + 1], ["a", "b"])
        assert tagger.model_.costs_.tolist() == [1.0, 1.0, 2.0]

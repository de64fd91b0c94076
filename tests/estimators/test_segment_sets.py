"""Tags of which only a part was observed, in the training data of segments."""

import numpy as np
import pytest
from scipy import sparse

from sksstruct import SegmentCRF, SSVMClassifier
from sksstruct.models import SegmentModel
from sksstruct.models.roles import smooth_loss
from sksstruct.utils.packed import PackedLabels

LETTERS = {"BIO": "BIIB", "IOBES": "BIES", "BILOU": "BILU"}
KINDS = "ab"


def sentences(n, seed=0, longest=5):
    """Features, and segments "a" and "b" of one to three positions."""
    rng = np.random.RandomState(seed)
    X, y = [], []
    for _ in range(n):
        size = rng.randint(2, longest + 1)
        x, segments, t = rng.normal(size=(size, 3)), [], 0
        while t < size:
            stop, kind = min(t + rng.randint(1, 4), size), rng.randint(3)
            if kind:
                segments.append((t, stop, KINDS[kind - 1]))
                x[t:stop, kind] += 2.0
            t = stop
        X.append(x)
        y.append(segments)
    return X, y


def tags_of(X, y, scheme="BIO"):
    begin, inside, end, single = LETTERS[scheme]
    out = []
    for x, segments in zip(X, y, strict=True):
        tags = ["O"] * len(x)
        for start, stop, label in segments:
            middle = [begin, *[inside] * (stop - start - 2), end]
            letters = single if stop - start == 1 else middle
            tags[start:stop] = [f"{letter}-{label}" for letter in letters]
        out.append(tags)
    return out


def vague(y, seed=0, share=0.3):
    """Some tags are missing, and some are in a set with another one."""
    rng = np.random.RandomState(seed)
    every = sorted({tag for row in y for tag in row})
    out = []
    for row in y:
        some = [
            None if u < share / 2 else {tag, rng.choice(every)} if u < share else tag
            for tag, u in zip(row, rng.rand(len(row)), strict=True)
        ]
        out.append(some if any(some) else row)
    return out


def allows(known, tag):
    return known is None or tag == known or (isinstance(known, set) and tag in known)


def negative_log_likelihood(model, w, x, row):
    """-log of the probability of the outputs that agree with a row."""
    outputs = [list(each) for each in model.labelings(x)]
    scores = np.array([model.joint_feature(x, each) @ w for each in outputs])
    agree = np.array([all(map(allows, row, each)) for each in outputs])
    return np.logaddexp.reduce(scores) - np.logaddexp.reduce(scores[agree])


@pytest.mark.slow
@pytest.mark.parametrize("scheme", LETTERS)
def test_likelihood_by_enumeration(scheme):
    X, y = sentences(12, longest=4)
    rows = vague(tags_of(X, y, scheme))
    model = SegmentModel(max_length=3)
    fitted = SSVMClassifier(model, loss="log", alpha=0.1).fit(X, rows)
    model, w = fitted.model_, fitted.weights_
    assert model.classes_.tolist() == list(KINDS)
    losses = [
        negative_log_likelihood(model, w, *each) for each in zip(X, rows, strict=True)
    ]
    expected = np.mean(losses) + 0.05 * w @ w
    assert fitted.objective_ == pytest.approx(expected, rel=1e-9)
    assert fitted.dual_gap_ == np.inf


@pytest.mark.parametrize("form", ["tags", "labels"])
def test_gradient(form):
    """By differences, at weights that are no solution."""
    X, y = sentences(12)
    rows = tags_of(X, y)
    if form == "labels":
        rows = [[tag[-1] for tag in row] for row in rows]
    model, rows = SegmentModel(max_length=6), vague(rows)
    classifier = SSVMClassifier(model, loss="log")
    X = [(x, [(0, 2)], sparse.csr_array(x[:1])) for x in X]
    bound = model._bind(model._read(X, rows, None, classifier))
    classifier._set_loss(model, bound)
    loss = smooth_loss(bound, bound.surrogate)
    rng, gradient = np.random.RandomState(0), np.empty(bound.n_weights)
    w = 0.3 * rng.normal(size=bound.n_weights)
    # the padding is in no view
    kept = np.concatenate([v.ravel() for v in bound.views(np.arange(len(w))).values()])
    loss.value_and_gradient(w, gradient)
    for k in rng.permutation(kept.astype(int))[:25]:
        values = []
        for step in (1e-5, -1e-5):
            near = w.copy()
            near[k] += step
            values.append(loss.value_and_gradient(near, np.empty_like(w)))
        slope = (values[0] - values[1]) / 2e-5
        assert slope == pytest.approx(gradient[k], rel=1e-5, abs=1e-8)


def test_what_was_observed_as_a_whole_is_not_completed():
    X, y = sentences(12)
    y = tags_of(X, y)
    y[1::2] = vague(y)[1::2]
    model = SegmentModel(max_length=3)
    bound = model._bind(model._read(X, y, None, None))
    w = np.random.RandomState(0).normal(size=bound.n_weights)
    completed = model._shown_all(None, bound.completion.complete(w), bound.starts)
    for known, row in zip(y, completed, strict=True):
        assert all(map(allows, known, row))


LOSSES = ["hinge", "log", "smoothed_hinge"]


@pytest.mark.parametrize("loss", LOSSES)
def test_between_known_and_missing(loss):
    X, y = sentences(25)
    y = tags_of(X, y)
    options = {"alpha": 0.05, "loss": loss, "max_length": 3, "random_state": 0}
    fits = [
        SegmentCRF(**options).fit(X, rows).weights_
        for rows in (y, [[{tag} for tag in row] for row in y])
    ]
    np.testing.assert_array_equal(*fits)
    tags = sorted({tag for row in y for tag in row})
    every = [[set(tags) if t % 3 == 1 else k for t, k in enumerate(row)] for row in y]
    missing = [[None if isinstance(k, set) else k for k in row] for row in every]
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in X])])
    codes = [-1 if k is None else tags.index(k) for row in missing for k in row]
    packed = PackedLabels(codes, offsets, tags)
    fits = [
        SegmentCRF(**options).fit(X, rows).weights_ for rows in (every, missing, packed)
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fits[0], fit)


@pytest.mark.parametrize("loss", LOSSES)
def test_sets_tell_more_than_nothing(loss):
    """Three tags in four are missing, or one wrong tag is not excluded."""
    (X, y), (test, true) = sentences(40, longest=8), sentences(200, seed=1)
    rng = np.random.RandomState(3)
    X, test = (
        [np.hstack([x, rng.normal(size=(len(x), 6))]) for x in each]
        for each in (X, test)
    )
    y, true = tags_of(X, y), tags_of(test, true)
    every = sorted({tag for row in y for tag in row})
    sets = [
        [{k, rng.choice(every)} if t % 4 else k for t, k in enumerate(row)] for row in y
    ]
    nothing = [[None if t % 4 else k for t, k in enumerate(row)] for row in y]
    tagger = SegmentCRF(loss=loss, max_length=3, random_state=0)
    scores = [tagger.fit(X, each).score(test, true) for each in (y, sets, nothing)]
    assert scores[1] > scores[2] + 0.02 and scores[1] > scores[0] - 0.08


@pytest.mark.slow
def test_hinge_agrees_with_what_is_known():
    """Outputs are completed so that they agree, and predictions learn it."""
    X, y = sentences(30)
    rows = vague(tags_of(X, y))
    fitted = SegmentCRF(1e-4, max_length=3, random_state=0).fit(X, rows)
    found = fitted.predict(X)
    agree = [all(map(allows, row, tags)) for row, tags in zip(rows, found, strict=True)]
    # two in three where all tags are known
    assert np.mean(agree) > 0.7
    assert fitted.dual_gap_ == np.inf


@pytest.mark.parametrize(
    ("scheme", "row", "longest"),
    [
        # a segment goes on: something was before it
        ("BIO", [None, "I-a", "O"], 2),
        ("BIO", ["B-a", None, "I-a"], 2),
        ("BIO", ["O", "B-a", {"I-a", "O"}], 1),
        ("IOBES", ["B-a", None, "E-a"], 3),
        ("IOBES", ["B-a", None, None, "S-a"], 2),
        ("BILOU", [None, "I-a", None], 3),
    ],
)
def test_auto_length_is_what_is_known(scheme, row, longest):
    begin, _, end, single = LETTERS[scheme]
    other = [f"{single}-b", "O", f"{begin}-b", f"{end}-b"]
    X = [np.zeros((len(row), 1)), np.zeros((4, 1))]
    fitted = SegmentCRF(0.1, loss="log").fit(X, [row, other])
    assert fitted.model_.scheme_ == scheme
    assert fitted.model_.longest_.tolist() == [1, longest, 2]


@pytest.mark.parametrize(
    ("row", "longest"),
    [
        # what is not known goes on, and is of the first label where none is before it
        ([None, None, "a", "b"], [3, 1]),
        ([None, "b", None, "a", None, None], [3, 3]),
        (["b", None, None, "a"], [1, 3]),
        ([None, {"a", "b"}, None, "a", "b", "b"], [1, 2]),
    ],
)
def test_auto_length_of_labels_is_of_runs(row, longest):
    rows = [[], row, ["a", "b"]]
    X = [np.zeros((len(each), 1)) for each in rows]
    fitted = SegmentCRF(0.1, loss="log").fit(X, rows)
    assert fitted.model_.longest_.tolist() == longest


@pytest.mark.parametrize("form", ["tags", "labels"])
def test_labels_of_sets_only(form):
    rows = [["B-a", {"B-b", "O"}], ["O", {"B-c", "B-a"}]]
    if form == "labels":
        rows = [["a", {"b", "d"}], ["d", {"c", "a"}]]
    X = [np.zeros((2, 1))] * 2
    fitted = SegmentCRF(0.1, loss="log").fit(X, rows)
    assert fitted.classes_.tolist() == list("abc" if form == "tags" else "abcd")
    assert (fitted.model_.longest_ == 1).all()


def test_weights_of_zero_and_empty_sequences():
    X, y = sentences(20)
    y = vague(tags_of(X, y))
    options = {"alpha": 0.05, "loss": "log", "max_length": 3}
    plain = SegmentCRF(**options).fit(X, y)
    weight = np.r_[1.0, 0.0, np.ones(20)]
    more = [X[0][:0], X[0], *X], [[], [{"O", "B-c"}, *y[0][1:]], *y]
    found = SegmentCRF(**options).fit(*more, weight)
    np.testing.assert_allclose(found.weights_, plain.weights_, atol=1e-9)


BAD = {
    r"y\[2\] has the set set\(\)": {"y": ["O", set()]},
    r"y\[2\] has the set .*None": {"y": ["O", {"O", None}]},
    r"y\[2\] has a missing label: None, at every": {"y": [None, None]},
    r"y\[2\]: no segmentation agrees": {"y": [None, "I-a"], "max_length": 1},
    "known tags need roles=True": {"y": [None, "I-a"], "roles": False},
    r"solver='lbfgs'": {"y": [None, "I-a"], "loss": "log", "solver": "sdca"},
}


@pytest.mark.parametrize("text", BAD)
def test_bad_data(text):
    params = dict(BAD[text])
    y = [[], ["B-a", "O"], params.pop("y"), ["O", "B-a"]]
    params = {"max_length": 2, **params}
    X = [np.ones((len(row), 1)) for row in y]
    with pytest.raises(ValueError, match=text):
        SegmentCRF(**params).fit(X, y)


@pytest.mark.parametrize("loss", ["log", "hinge"])
def test_lengths_are_not_cut_at_labels_that_are_not_known(loss):
    rng = np.random.RandomState(0)
    X, y, partial = [], [], []
    for _ in range(30):
        labels = np.repeat(rng.permutation(3), 4)
        X.append(np.eye(3)[labels] + 0.3 * rng.standard_normal((12, 3)))
        y.append([int(label) for label in labels])
        partial.append([x if t % 2 else None for t, x in enumerate(y[-1])])
    tagger = SegmentCRF(loss=loss, random_state=0).fit(X, partial)
    assert tagger.score(X, y) > 0.95

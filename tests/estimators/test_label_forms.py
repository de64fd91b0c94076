"""MultilabelPairwise: labels as sets, in data frames, with names."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline

from sksstruct import MultilabelPairwise
from sksstruct.models.multilabel.forms import read_labels

NAMES = np.array(["sea", "air", "land"])
# columns of the sorted names
SORTED = [1, 2, 0]
classifier = MultilabelPairwise(0.01, interaction_scaling=0.0, random_state=0)


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, 4))
    Y = (X[:, :3] + 0.3 * rng.standard_normal((60, 3)) > 0.2).astype(int)
    Y[:2] = [1, 0, 0], [0, 0, 0]
    return X, Y


def sets_of(Y, names=NAMES):
    return [set(names[row == 1].tolist()) for row in Y]


def test_sets_are_an_indicator(data):
    X, Y = data
    expected = clone(classifier).fit(X, Y[:, SORTED])
    sets = sets_of(Y)
    column = np.empty(len(sets), dtype=object)
    column[:] = [frozenset(labels) for labels in sets]
    for y in (sets, tuple(sets), [sorted(labels) for labels in sets], column):
        fitted = clone(classifier).fit(X, y)
        assert fitted.classes_.tolist() == ["air", "land", "sea"]
        np.testing.assert_array_equal(fitted.coef_, expected.coef_)
        predicted = fitted.predict(X)
        assert predicted.shape == (len(X),)
        indicator = [[name in row for name in fitted.classes_] for row in predicted]
        np.testing.assert_array_equal(indicator, expected.predict(X))
        # in the order of the labels
        assert all(list(row) == sorted(row) for row in predicted)
        assert {type(label) for row in predicted for label in row} == {str}
        for form in (y, Y[:, SORTED], sparse.csr_array(Y[:, SORTED])):
            assert fitted.score(X, form) == expected.score(X, Y[:, SORTED])
        assert 0.3 < fitted.score(X, y) < 1.0
        weight = np.arange(len(X))
        assert fitted.score(X, y, weight) == pytest.approx(
            expected.score(X, Y[:, SORTED], weight)
        )


def test_labels_that_are_numbers(data):
    X, Y = data
    fitted = clone(classifier).fit(X, sets_of(Y, np.array([30, 7, 11])))
    assert fitted.classes_.tolist() == [7, 11, 30]
    assert {type(label) for row in fitted.predict(X) for label in row} == {int}
    pairs = [{("x", int(k)) for k in np.flatnonzero(row)} for row in Y]
    fitted.fit(X, pairs)
    assert fitted.classes_.tolist() == [("x", 0), ("x", 1), ("x", 2)]
    assert fitted.score(X, pairs) > 0.3
    # nothing is left of them
    assert fitted.fit(X, Y).predict(X).shape == Y.shape
    assert fitted.classes_.tolist() == [0, 1, 2]
    # numbers of columns are labels, too
    assert fitted.score(X, sets_of(Y, np.arange(3))) == fitted.score(X, Y)


def test_one_label(data):
    X, Y = data
    sets = sets_of(Y[:, :1], NAMES[:1])
    fitted = clone(classifier).fit(X, sets)
    assert set(fitted.predict(X)) == {(), ("sea",)}
    assert fitted.score(X, sets) == clone(classifier).fit(X, Y[:, :1]).score(
        X, Y[:, :1]
    )


def test_what_lists_are():
    """Lists of numbers of equal length are an indicator; sets never are."""
    for y in ([[0, 1], [1, 0]], [(0.0, 1.0), (1.0, 1.0)], [[3, 4], [5, 6]], ["a", "b"]):
        assert read_labels(y) == (y, None, False)
    for y, labels in (
        ([[0, 1], [1]], [0, 1]),
        ([{0, 1}, {1, 0}], [0, 1]),
        ([["a", "b"], ["b", "c"]], ["a", "b", "c"]),
        ([["b"], ["a"]], ["a", "b"]),
        ([("a", "a"), ()], ["a"]),
        ([np.array([2, 5]), np.array([5])], [2, 5]),
    ):
        Y, names, in_sets = read_labels(y)
        assert in_sets
        assert names.tolist() == labels
        expected = [[label in list(row) for label in labels] for row in y]
        np.testing.assert_array_equal(Y.toarray(), expected)


def test_unclear_labels(data):
    X, Y = data
    sets = sets_of(Y)
    for entry, match in (
        ("sea", r"y\[3\] is 'sea', but other entries .* empty set"),
        (None, r"y\[3\] is None.*empty set"),
        ({None}, "the label None"),
        ({float("nan")}, "the label nan"),
        ({7}, "all strings or all numbers"),
        ([["sea"]], "must be hashable"),
    ):
        with pytest.raises(ValueError, match=match):
            clone(classifier).fit(X, [*sets[:3], entry, *sets[4:]])
    with pytest.raises(ValueError, match="no label: all of its sets are empty"):
        clone(classifier).fit(X, [set()] * len(X))
    with pytest.raises(ValueError, match="equally many must be sets"):
        clone(classifier).fit(X, (Y + 1).tolist())
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clone(classifier).fit(X, sets[:-1])
    with pytest.raises(ValueError, match="label 'land' must be a dict with the keys"):
        clone(classifier).set_params(class_weight=[{}, {2: 1.0}, {}]).fit(X, sets)


@pytest.mark.parametrize(
    ("strings", "separator"),
    [
        (["red,blue", "red", "", "blue"], ","),
        (["red;blue", "red", "red", "red"], ";"),
        (["red|blue", "blue|green", "red|blue", "blue|green"], "|"),
        (["red blue", "blue", "green", "blue"], " "),
    ],
)
@pytest.mark.parametrize("form", [list, np.array, lambda y: np.array(y, dtype=object)])
def test_labels_that_were_joined(data, strings, separator, form):
    """The error says what to write, and that makes sets."""
    X, _ = data
    with pytest.raises(ValueError, match="is several labels in one") as caught:
        clone(classifier).fit(X[:4], form(strings))
    code = str(caught.value).rpartition(", as ")[2]
    assert f"split({separator!r})" in code
    sets = eval(code, {"y": strings})  # the code that the error shows
    assert {"red", "blue"} in sets
    assert set(clone(classifier).fit(X[:4], sets).classes_) == set().union(*sets)


def test_names_of_classes_are_not_joined_labels(data):
    X, Y = data
    for names in (["spam", "not spam"], ["a,b", "c"], ["1", "2"]):
        y = np.array(names)[Y[:, 0]]
        assert set(clone(classifier).fit(X, y).predict(X)) == set(names)
    with pytest.raises(ValueError, match=r"MultiLabelBinarizer makes it$"):
        clone(classifier).fit(X[:4], ["a", "b", "c", "d"])


def test_labels_that_training_did_not_have(data):
    X, Y = data
    sets = sets_of(Y)
    fitted = clone(classifier).fit(X, sets)
    known = fitted.score(X, sets)
    right = np.array(
        [set(a) == b for a, b in zip(fitted.predict(X), sets, strict=True)]
    )
    assert known == right.mean()
    i = int(np.flatnonzero(right)[0])
    more = [*sets[:i], sets[i] | {"space"}, *sets[i + 1 :]]
    with pytest.warns(UserWarning, match=r"1 label.*not in training, such as 'space'"):
        assert fitted.score(X, more) == pytest.approx(known - 1 / len(X))
    numbers = sets_of(Y, np.arange(3))
    with pytest.warns(UserWarning, match=r"3 label.*not in training, such as 0"):
        both = zip(fitted.predict(X), numbers, strict=True)
        assert fitted.score(X, numbers) == np.mean(
            [a == () == tuple(b) for a, b in both]
        )
    assert fitted.score(X, [set()] * len(X)) == np.mean(
        [row == () for row in fitted.predict(X)]
    )
    with pytest.raises(ValueError, match="inconsistent numbers"):
        fitted.score(X, sets[:-1])
    single = clone(classifier).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="in training y was 1-D"):
        single.score(X, sets)


def test_score_takes_what_fit_takes(data):
    pandas = pytest.importorskip("pandas")
    X, Y = data
    fitted = clone(classifier).fit(X, Y)
    known = fitted.score(X, Y)
    for kind in ("Int64", "boolean", "float32"):
        assert fitted.score(X, pandas.DataFrame(Y).astype(kind)) == known
    assert fitted.score(X, sparse.csc_array(Y)) == known
    for one in (Y[:, :1], sparse.csr_array(Y[:, :1]), Y[:, 0].astype(bool)):
        single = clone(classifier).fit(X, one)
        assert single.score(X, one) > 0.5
    words = pandas.DataFrame({"red": np.where(Y[:, 0] == 1, "yes", "no")})
    single = clone(classifier).fit(X, words)
    assert single.score(X, words) > 0.5
    with pytest.raises(ValueError, match="each of 3 labels, got 2 columns"):
        fitted.score(X, Y[:, :2])


def test_data_frames(data):
    pandas = pytest.importorskip("pandas")
    X, Y = data
    expected = clone(classifier).fit(X, Y)
    for values in (Y, Y.astype(bool), Y.astype(float)):
        y = pandas.DataFrame(values, columns=NAMES)
        fitted = clone(classifier).fit(X, y)
        # the names stay with their columns
        assert fitted.classes_.tolist() == NAMES.tolist()
        np.testing.assert_array_equal(fitted.predict(X), expected.predict(X))
        assert isinstance(fitted.predict(X), np.ndarray)
        assert fitted.score(X, y) == fitted.score(X, Y) == expected.score(X, Y)
        with pytest.raises(ValueError, match="labels of training in their order"):
            fitted.score(X, y[["air", "sea", "land"]])
        # a classifier of an array has no names to compare
        assert expected.score(X, y) == expected.score(X, Y)
        assert fitted.score(X, sets_of(Y)) == expected.score(X, Y)
    with pytest.raises(ValueError, match="two columns 'a'"):
        clone(classifier).fit(X, pandas.DataFrame(Y, columns=["a", "b", "a"]))
    plain = clone(classifier).fit(X, pandas.DataFrame(Y))
    assert plain.classes_.tolist() == [0, 1, 2]
    series = pandas.Series(sets_of(Y), index=range(100, 160))
    fitted = clone(classifier).fit(X, series)
    assert fitted.classes_.tolist() == sorted(NAMES)
    assert fitted.score(X, series) == expected.score(X, Y)
    with pytest.raises(ValueError, match=r"y\[0\] is nan.*empty set"):
        clone(classifier).fit(X, series.where(np.arange(60) > 0))


def test_labels_are_saved(data):
    X, Y = data
    fitted = clone(classifier).fit(X, sets_of(Y))
    copies = [pickle.loads(pickle.dumps(fitted))]
    skops = pytest.importorskip("skops.io")
    written = skops.dumps(fitted)
    unknown = skops.get_untrusted_types(data=written)
    assert all(name.startswith("sksstruct.") for name in unknown)
    copies.append(skops.loads(written, trusted=unknown))
    for copy in copies:
        assert copy.predict(X).tolist() == fitted.predict(X).tolist()
        assert copy.score(X, sets_of(Y)) == fitted.score(X, sets_of(Y))
        assert copy.classes_.tolist() == fitted.classes_.tolist()
    with pytest.raises(NotFittedError):
        clone(fitted).predict(X)


@pytest.mark.slow
def test_searches_over_sets(data):
    X, Y = data
    sets = sets_of(Y)
    grid = {"alpha": [1e-2, 10.0]}
    found = GridSearchCV(classifier, grid, cv=3).fit(X, sets)
    expected = GridSearchCV(classifier, grid, cv=KFold(3)).fit(X, Y[:, SORTED])
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_array_equal(
            found.cv_results_[name], expected.cv_results_[name]
        )
    assert found.best_params_ == {"alpha": 1e-2}
    # scikit-learn counts the labels of lists only with a splitter
    lists = [sorted(labels) for labels in sets]
    again = GridSearchCV(classifier, grid, cv=KFold(3)).fit(X, lists)
    assert again.best_score_ == found.best_score_
    predicted = cross_val_predict(classifier, X, sets, cv=3)
    right = [set(a) == b for a, b in zip(predicted, sets, strict=True)]
    assert np.mean(right) == pytest.approx(found.best_score_)


def test_tags_of_texts():
    texts = ["red apple", "green pear", "red rose", "green grass", "sky", "red sea"] * 4
    tags = [{"red", "fruit"}, {"fruit"}, {"red"}, [], (), {"red"}] * 4
    pipeline = make_pipeline(TfidfVectorizer(), MultilabelPairwise(random_state=0))
    pipeline.fit(texts, tags)
    assert pipeline.predict(["apple", "sky"]).tolist() == [("fruit", "red"), ()]
    assert pipeline.score(texts, tags) == 1.0
    labels, _ = pipeline[-1].predict_topk(pipeline[:-1].transform(["pear"]), 1)
    assert labels.tolist() == [["fruit"]]


def test_parts_are_indicators(data):
    X, Y = data
    model = MultilabelPairwise(
        loss="structured_hinge", interaction_scaling=1.0
    )._model()
    with pytest.raises(ValueError, match=r"with parts.*MultiLabelBinarizer\(classes"):
        model._facts(X, sets_of(Y), None, 0)

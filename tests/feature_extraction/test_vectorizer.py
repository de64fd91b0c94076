import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sksstruct import ChainCRF, make_tagger
from sksstruct.feature_extraction import (
    ArcVectorizer,
    ColumnFeatures,
    GazetteerFeatures,
    RowTransformer,
    SequenceHasher,
    SequenceVectorizer,
    SeriesFeatures,
    WordVectors,
    affix_features,
    morphology_features,
    shape_features,
    window_features,
)
from sksstruct.utils.packed import PackedSequences

X = [
    [{"w": "the", "size": 3.0}, {"w": "cat", "cap": True}],
    [{"w": "the", "w=the": 1}],
    [{}],
]


def test_agrees_with_scikit_learn():
    ours = SequenceVectorizer().fit(X)
    theirs = DictVectorizer(sparse=False).fit([row for s in X for row in s])
    columns = [theirs.vocabulary_[name] for name in ours.get_feature_names_out()]
    for sequence, rows in zip(X, ours.transform(X), strict=True):
        np.testing.assert_array_equal(
            rows.toarray(), theirs.transform(sequence)[:, columns]
        )


def test_strings_are_indicators_and_add_up():
    vectorizer = SequenceVectorizer()
    packed = vectorizer.fit_transform([[["a", "b", "a"], ["b"]], [["c"]]])
    assert vectorizer.feature_names_ == ["a", "b", "c"]
    np.testing.assert_array_equal(
        packed.values.toarray(), [[2, 1, 0], [0, 1, 0], [0, 0, 1]]
    )
    assert packed.offsets.tolist() == [0, 2, 3]
    assert packed.feature_names.tolist() == ["a", "b", "c"]


def test_unseen_features_are_left_out_and_not_learned():
    vectorizer = SequenceVectorizer().fit([[["a"]]])
    assert vectorizer.transform([[["z", "a"]], [[{"q": "v"}, "z"][0:0]]])[0].nnz == 1
    assert vectorizer.transform([[{"w": "x", "a": 2.0}]])[0].toarray() == [[2.0]]
    assert vectorizer.vocabulary_ == {"a": 0}


def test_min_count():
    vectorizer = SequenceVectorizer(min_count=2)
    packed = vectorizer.fit_transform([[["a", "b"], ["b"]], [["b", "c"]]])
    assert vectorizer.vocabulary_ == {"b": 0}
    np.testing.assert_array_equal(packed.values.toarray(), [[1], [1], [1]])
    np.testing.assert_array_equal(
        vectorizer.transform([[["a", "b"]]])[0].toarray(), [[1]]
    )
    # positions count, not values; those where the value is zero do not
    rows = [[["a", "a"]], [{"b": 5.0, "up": False}, {"b": True, "up": False}]]
    assert SequenceVectorizer(min_count=2).fit(rows).feature_names_ == ["b"]
    assert SequenceVectorizer().fit(rows).feature_names_ == ["a", "b", "up"]
    with pytest.raises(ValueError, match="min_count=5"):
        SequenceVectorizer(min_count=5).fit([[["a"]]])


def test_dtype_and_separator():
    vectorizer = SequenceVectorizer(dtype=np.float32, separator=":")
    packed = vectorizer.fit_transform([[{"a": "b"}]])
    assert packed.values.dtype == np.float32
    assert vectorizer.feature_names_ == ["a:b"]


def test_transformer_contract():
    vectorizer = SequenceVectorizer(min_count=3)
    assert clone(vectorizer).min_count == 3
    with pytest.raises(NotFittedError):
        vectorizer.transform(X)
    vectorizer = SequenceVectorizer()
    assert vectorizer.fit(X) is vectorizer
    first = vectorizer.transform(X).values.toarray()
    vectorizer.fit(X[:1]).fit(X)
    np.testing.assert_array_equal(vectorizer.transform(X).values.toarray(), first)


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ("abc", TypeError, "X is a single str"),
        ([{"a": 1}], TypeError, r"X\[0\] is a single dict"),
        (["ab"], TypeError, r"X\[0\] is a single str"),
        ([[{"a": 1}, "ab"]], TypeError, r"X\[0\] has a single str at position 1"),
        (
            [[{"a": np.nan}]],
            ValueError,
            r"X\[0\] contains NaN or infinity at position 0",
        ),
        ([[{"a": -np.inf}]], ValueError, r"X\[0\] contains NaN"),
        ([[{"a": [1]}]], TypeError, r"X\[0\] has a feature that is not .* 'a='"),
        ([[{"a": b"b"}]], TypeError, r"X\[0\] has a value that is neither"),
        ([[{"a": {1: 2}}]], TypeError, r"X\[0\] has a feature name that is not"),
        ([[{"a": {"b": None}}]], TypeError, r"has a value that is neither .*: 'a=b'"),
        ([[{1: {}}]], TypeError, r"X\[0\] has a feature name that is not a string"),
        ([[{1: []}]], TypeError, r"X\[0\] has a feature name that is not a string"),
        ([["a"], [{"a": [["b"]]}]], TypeError, r"X\[0\] has a single str"),
        ([[["a"]], [[], {"a": [["b"]]}]], TypeError, r"X\[1\] .* at position 1 below"),
        ([[{"a": None}]], TypeError, r"X\[0\] has a value that is neither"),
        ([[{1: 1.0}]], TypeError, r"X\[0\] has a feature name that is not a string"),
        ([[{1: "v"}]], TypeError, r"X\[0\] has a feature name that is not a string"),
        ([[[1]]], TypeError, r"X\[0\] has a feature that is not a string"),
        ([[[]]], ValueError, "X has no features"),
        (None, TypeError, "X is a single NoneType"),
        ([None], TypeError, r"X\[0\] is a single NoneType"),
        ([[3]], TypeError, r"X\[0\] has a single int at position 0"),
        ([[{"a": 10**400}]], ValueError, r"X\[0\] contains NaN or infinity"),
    ],
    ids=str,
)
def test_errors(bad, error, message):
    with pytest.raises(error, match=message):
        SequenceVectorizer().fit(bad)


def test_names_follow_a_second_fit():
    vectorizer = SequenceVectorizer().fit([[["a"]]])
    assert vectorizer.fit_transform([[["b"]]]).feature_names.tolist() == ["b"]
    assert vectorizer.transform([[["b"]]]).feature_names.tolist() == ["b"]


def test_numpy_strings_and_pandas_output():
    from sklearn import config_context

    with config_context(transform_output="pandas"):
        packed = SequenceVectorizer().fit_transform([[{"w": np.str_("he")}]])
    assert packed.feature_names.tolist() == ["w=he"]


def test_many_features_grow_the_buffers():
    rows = [
        [f"f{k}" for k in range(start, start + 700)] for start in range(0, 7000, 700)
    ]
    vectorizer = SequenceVectorizer()
    packed = vectorizer.fit_transform([rows])
    assert packed.n_features == 7000 and packed.values.nnz == 7000
    np.testing.assert_array_equal(packed.values.indices, np.arange(7000))


def test_window_features_skip_what_leaves_the_sequence():
    features = window_features(
        {"w": ["a", "b", "c"], "t": ["X", "Y", "Z"]},
        [[("w", -1)], [("w", 0), ("t", 1)]],
        boundary=False,
    )
    assert features == [["w[0]|t[1]=a|Y"], ["w[-1]=a", "w[0]|t[1]=b|Z"], ["w[-1]=b"]]
    assert window_features({"w": []}, [[("w", 0)]]) == []
    with pytest.raises(ValueError, match="has the column 'x'"):
        window_features({"w": ["a"]}, [[("x", 0)]])
    with pytest.raises(ValueError, match="must have the same length"):
        window_features({"w": ["a"], "t": []}, [[("w", 0)]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shape_features(None), "tokens must be a list of strings, got None"),
        (lambda: shape_features("word"), "tokens must be a list of strings"),
        (lambda: shape_features(["a", 3]), r"tokens\[1\] must be a string, got 3"),
        (lambda: affix_features([None]), r"tokens\[0\] must be a string, got None"),
        (lambda: morphology_features([3]), r"column\[0\] must be a string, got 3"),
        (lambda: window_features(["a"], [[("w", 0)]]), "columns must be a dict"),
        (lambda: window_features({"w": [1]}, [[("w", 0)]]), r"columns\['w'\]\[0\]"),
        (lambda: window_features({"w": "ab"}, [[("w", 0)]]), r"columns\['w'\] must be"),
        (lambda: window_features({"w": ["a"]}, [("w", 0)]), r"templates\[0\] must be"),
        (lambda: window_features({"w": ["a"]}, [[]]), r"templates\[0\] must be"),
        (lambda: window_features({"w": ["a"]}, [[("w", 0.5)]]), r"templates\[0\] must"),
    ],
)
def test_helpers_refuse_what_is_not_text(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_affixes_shapes_and_morphology():
    assert morphology_features(["_", "Case=Acc|Number=Plur"], name="feats") == [
        [],
        ["feats:Case=Acc", "feats:Number=Plur"],
    ]
    assert affix_features(["ab"], lengths=[1, 2, 3]) == [
        ["w:prefix=a", "w:suffix=b", "w:prefix=ab", "w:suffix=ab"]
    ]
    assert shape_features(["Ab1-2", ""]) == [["w:shape=Xx9-9"], ["w:shape="]]


WORDS = [[{"w": w} for w in row] for row in ("abc", "", "ba")]
VECTORS = {"a": [1.0, 0.0], "b": [0.5, 2.0], "c": [0.0, 0.0]}


def vectors(X):
    rows = [np.array([VECTORS[p["w"]] for p in row], dtype=np.float32) for row in X]
    return [row.reshape(-1, 2) for row in rows]


@pytest.mark.parametrize("words", [SequenceVectorizer(), SequenceHasher(n_features=8)])
@pytest.mark.parametrize("turned", [False, True])
def test_union_with_dense_vectors(words, turned):
    parts = [("words", words), ("vectors", FunctionTransformer(vectors))]
    union = FeatureUnion(parts[::-1] if turned else parts)
    packed = union.fit_transform(WORDS)
    both = [words.transform(WORDS).values.toarray(), np.concatenate(vectors(WORDS))]
    expected = np.hstack(both[::-1] if turned else both)
    np.testing.assert_array_equal(packed.values.toarray(), expected)
    assert packed.offsets.tolist() == [0, 3, 3, 5]
    again = union.transform(WORDS)
    np.testing.assert_array_equal(again.values.toarray(), expected)
    # what is made in each call of a tagger has the names of training
    assert again.feature_names is packed.feature_names
    if isinstance(words, SequenceVectorizer):
        names = ["w=a", "w=b", "w=c"]
        names = ["x0", "x1", *names] if turned else [*names, "x3", "x4"]
        assert packed.feature_names.tolist() == names
    y = [list(row) for row in ("ABC", "", "BA")]
    tagger = make_tagger(union, random_state=0).fit(WORDS, y)
    tagger = pickle.loads(pickle.dumps(tagger))
    assert [row.tolist() for row in tagger.predict(WORDS)] == y


def test_what_cannot_be_joined():
    packed = SequenceVectorizer().fit_transform(WORDS)
    for wrong, message in (
        (vectors(WORDS)[:2], "part 1 of X has 2 sequences, part 0 has 3"),
        (vectors(WORDS[::-1]), "part 1 of X has 2 positions in sequence 0, part 0 has"),
        ([["a"]] * 3, r"part 1 of X\[0\]"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            np.concatenate([packed, wrong], axis=1)
    # without a vectorizer, and with two
    joined = np.concatenate([packed, packed], 1)
    assert joined.n_features == 6 and joined.values[0, 3] == 1.0
    dense = PackedSequences(np.eye(2), [0, 1, 2])
    joined = np.concatenate([dense, dense], axis=1)
    assert joined.values.tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]
    assert joined.feature_names is None and not joined.is_sparse
    # other functions take it for the sequence that it is
    assert np.shape(dense) == (2, 1, 2) and np.concatenate(dense).shape == (2, 2)


def test_names_that_several_parts_have():
    parts = [SequenceVectorizer(), SequenceVectorizer(), FunctionTransformer(vectors)]
    union = FeatureUnion([(f"p{k}", part) for k, part in enumerate(parts)])
    packed = union.fit_transform(WORDS)
    names = ["w=a", "w=b", "w=c"]
    expected = [*names, *(f"1__{name}" for name in names), "x6", "x7"]
    assert packed.feature_names == expected
    y = [list(row) for row in ("ABC", "", "BA")]
    tagger = make_tagger(union, random_state=0).fit(WORDS, y)
    assert len(tagger[-1].state_features_) == tagger[-1].coef_.size


def test_changes_of_rows_are_seen():
    """Rows that were made for kernels are those that users see and change."""
    y = [list(row) for row in ("ABC", "", "BA")]
    vectorizer = SequenceVectorizer().fit(WORDS)
    tagger = ChainCRF(random_state=0).fit(vectorizer.transform(WORDS), y)
    for change in (
        lambda rows: setattr(rows, "data", 9.0 * rows.data),
        lambda rows: rows.data.__setitem__(slice(None), 0.0) or rows.eliminate_zeros(),
    ):
        packed = vectorizer.transform(WORDS)
        change(packed.values)
        same = PackedSequences(packed.values.copy(), packed.offsets)
        for a, b in zip(
            tagger.decision_function(packed), tagger.decision_function(same),
            strict=True,
        ):  # fmt: skip
            np.testing.assert_array_equal(a, b)
    packed.values.data = np.full(len(packed.values.data), np.nan)
    packed = vectorizer.transform(WORDS)
    packed.values.data = np.full_like(packed.values.data, np.nan)
    with pytest.raises(ValueError, match="NaN"):
        tagger.predict(packed)


@pytest.mark.parametrize(
    "steps",
    [
        [SequenceVectorizer()],
        [SequenceHasher()],
        [ColumnFeatures(), SequenceVectorizer()],
        [SeriesFeatures()],
        [WordVectors({"a": [1.0]})],
        [GazetteerFeatures(), SequenceVectorizer()],
        [RowTransformer(StandardScaler())],
        [ArcVectorizer()],
    ],
    ids=lambda steps: type(steps[0]).__name__,
)
def test_set_output_of_all_transformers(steps):
    """A pipeline can be told the default, and no step makes data frames."""
    tagger = make_tagger(*steps)
    assert tagger.set_output(transform="default").set_output() is tagger
    with pytest.raises(ValueError, match="no data frame, got transform='polars'"):
        tagger.set_output(transform="polars")


def test_the_error_of_set_output_makes_a_data_frame():
    pandas = pytest.importorskip("pandas")
    vectorizer = SequenceVectorizer()
    rows = vectorizer.fit_transform([[{"w": "a"}, {"w": "b", "z": 2.0}], [{"w": "b"}]])
    with pytest.raises(ValueError, match="SequenceVectorizer returns") as caught:
        vectorizer.set_output(transform="pandas")
    code = str(caught.value).partition("use ")[2]
    frame = eval(code, {"pandas": pandas, "X": rows, "vectorizer": vectorizer})
    assert frame.columns.tolist() == ["w=a", "w=b", "z"]
    assert frame.to_numpy().tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 2.0]]

"""Features of data in parts: hashes, and vocabularies that are merged."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.feature_extraction import FeatureHasher
from sklearn.pipeline import make_pipeline

from sksstruct import ChainCRF
from sksstruct.feature_extraction import SequenceHasher, SequenceVectorizer

X = [
    [{"w": "thé", "size": 3.0}, {"w": "cat", "cap": True, "w=cat": 1}],
    [{"w": ["a", "bc", "def", "ghij"], "sub": {"x": "\U0001f600", "y": -2.5}}, {}],
    [{"": 1.0, "a" * 99: "b" * 5, "zero": 0.0}],
]


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("n_features", [2, 7, 2**20, 2**31 - 1])
def test_columns_are_those_of_scikit_learn(n_features, signed):
    vectorizer = SequenceVectorizer().fit(X)
    names = vectorizer.get_feature_names_out()
    packed = vectorizer.transform(X).values
    rows = [
        [(names[j], v) for j, v in zip(row.indices, row.data, strict=True)]
        for row in (packed[[i]] for i in range(packed.shape[0]))
    ]
    theirs = FeatureHasher(n_features, input_type="pair", alternate_sign=signed)
    hasher = SequenceHasher(n_features=n_features, alternate_sign=signed)
    ours = hasher.fit().transform(X)
    assert (abs(ours.values - theirs.transform(rows)) > 1e-12).nnz == 0
    assert ours.offsets.tolist() == [0, 2, 4, 5]
    columns, signs = hasher.places(names.tolist())
    expected = theirs.transform([[(name, 1.0)] for name in names])
    np.testing.assert_array_equal(columns, expected.indices)
    np.testing.assert_array_equal(signs, expected.data)


@settings(max_examples=100)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=12), max_size=6))
def test_any_text_hashes_as_in_scikit_learn(strings):
    ours = SequenceHasher(n_features=1000).transform([[strings]]).values
    theirs = FeatureHasher(1000, input_type="string").transform([strings])
    assert (abs(ours - theirs) > 0).nnz == 0


def test_hashed_features_in_a_pipeline():
    tokens = [[[word] for word in row.split()] for row in ("a b c", "b a", "c c a b")]
    y = [["X" if word in "ab" else "Y" for (word,) in row] for row in tokens]
    hasher = SequenceHasher(n_features=64, dtype=np.float32)
    tagger = make_pipeline(clone(hasher), ChainCRF(alpha=0.01, random_state=0))
    tagger.fit(tokens, y)
    assert [row.tolist() for row in tagger.predict(tokens)] == y
    columns, signs = hasher.places(["a", "c"])
    weights = tagger[-1].coef_[:, columns] * signs
    # of label Y, where there are two labels
    assert weights[1, 0] < 0 < weights[1, 1]
    again = pickle.loads(pickle.dumps(tagger))
    assert [row.tolist() for row in again.predict(tokens)] == y
    assert tagger[0].transform(tokens).values.dtype == np.float32


def test_errors_of_the_hasher():
    with pytest.raises(TypeError, match="X is a single str"):
        SequenceHasher().transform("ab")
    with pytest.raises(ValueError, match="n_features"):
        SequenceHasher(n_features=0).fit()
    with pytest.raises(ValueError, match="dtype must be"):
        SequenceHasher(dtype=int).transform(X)
    with pytest.raises(TypeError, match=r"names\[1\] must be a string, got 3"):
        SequenceHasher().places(["a", 3])


words = st.lists(st.lists(st.lists(st.sampled_from("abcdefgh")), max_size=3))


@pytest.mark.slow
@settings(max_examples=100)
@given(words, st.integers(1, 4), st.lists(st.integers(0, 8), max_size=3), st.booleans())
def test_merged_vocabularies_are_those_of_all_data(X, min_count, cuts, in_pairs):
    bounds = [0, *sorted(min(cut, len(X)) for cut in cuts), len(X)]
    chunks = [X[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    chunks = [chunk for chunk in chunks if any(any(row) for row in chunk)]
    if not chunks:
        return
    parts = [SequenceVectorizer().fit(chunk) for chunk in chunks]
    while in_pairs and len(parts) > 1:
        pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
        parts = [SequenceVectorizer().merge(pair) for pair in pairs]
    whole, merged = (SequenceVectorizer(min_count=min_count) for _ in range(2))
    try:
        expected = whole.fit_transform(X)
    except ValueError as error:
        with pytest.raises(ValueError, match="no feature occurs"):
            merged.merge(parts)
        assert "no feature occurs" in str(error)
        return
    merged.merge(parts)
    assert list(merged.vocabulary_.items()) == list(whole.vocabulary_.items())
    np.testing.assert_array_equal(merged.counts_, whole.counts_)
    assert (abs(merged.transform(X).values - expected.values) > 0).nnz == 0


def test_parts_that_cannot_be_merged():
    part = SequenceVectorizer(min_count=2).fit([[["a"], ["a"]]])
    with pytest.raises(ValueError, match=r"parts\[0\] has min_count=2"):
        SequenceVectorizer().merge([part])
    with pytest.raises(ValueError, match="the separator ':' of the whole"):
        whole = SequenceVectorizer(separator=":")
        whole.merge([SequenceVectorizer().fit([[["a"]]])])
    with pytest.raises(ValueError, match="parts is empty"):
        SequenceVectorizer().merge([])

"""Word vectors of tokens, the files they are in, and how they meet other features."""

import gzip
import pickle
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline

from sksstruct import make_tagger
from sksstruct.feature_extraction import (
    ColumnFeatures,
    SequenceVectorizer,
    WordVectors,
    read_word_vectors,
)

WORDS = ["the", "cat", "Bonn", "a b"]
TABLE = np.array([[0.0, 2.0], [1.0, 0.0], [1.0, 0.5], [-4.0, 1e-3]], dtype=np.float32)
VECTORS = dict(zip(WORDS, TABLE.tolist(), strict=True))
X = [["The", "cat"], [], ["Bonn", "bonn", "?"]]
ROWS = np.array([[0, 2], [1, 0], [1, 0.5], [0, 0], [0, 0]])
LINES = [" ".join([word, *map(str, row)]) for word, row in VECTORS.items()]


def keyed_vectors():
    """What gensim's KeyedVectors have."""
    return SimpleNamespace(
        vectors=TABLE,
        index_to_key=WORDS,
        key_to_index={w: k for k, w in enumerate(WORDS)},
    )


def written(tmp_path, lines, name="v.txt", encoding="utf-8"):
    path = tmp_path / name
    opener = gzip.open if name.endswith(".gz") else open
    with opener(path, "wb") as file:
        file.write("".join(f"{line}\n" for line in lines).encode(encoding))
    return path


@pytest.mark.parametrize("form", ["mapping", "tuple", "gensim", "file", "gzip"])
def test_every_form_gives_the_same_rows(form, tmp_path):
    vectors = {
        "mapping": lambda: VECTORS,
        "tuple": lambda: (np.array(WORDS), TABLE.astype(float)),
        "gensim": keyed_vectors,
        "file": lambda: str(written(tmp_path, ["4 2", *LINES])),
        "gzip": lambda: written(tmp_path, LINES, "v.txt.gz"),
    }[form]()
    transformer = WordVectors(vectors, norm=None)
    packed = transformer.fit_transform(X)
    np.testing.assert_array_equal(packed.values, ROWS)
    assert packed.values.dtype == np.float32 and packed.offsets.tolist() == [0, 2, 2, 5]
    assert transformer.coverage_ == 0.6 and transformer.scale_ == 1.0
    # the file, and gensim, need not be there
    again = pickle.loads(pickle.dumps(transformer))
    np.testing.assert_array_equal(again.transform(X).values, ROWS)
    assert again.vocabulary_ == transformer.vocabulary_
    if form in ("file", "gzip"):
        assert again.vectors == vectors
    else:
        np.testing.assert_array_equal(clone(again).fit_transform(X).values, ROWS)


def test_large_tables_are_not_copied(tmp_path):
    transformer = WordVectors((WORDS, TABLE)).fit(X)
    assert transformer.vectors_ is TABLE and clone(transformer).vectors[1] is TABLE
    many = [f"w{k}" for k in range(3000)], np.zeros((3000, 20), dtype=np.float32)
    many[1][0] = 1.0
    transformer = WordVectors(many).fit([["w0"]])
    joblib.dump(transformer, tmp_path / "v.joblib")
    assert (tmp_path / "v.joblib").stat().st_size < 1.3 * many[1].nbytes
    again = joblib.load(tmp_path / "v.joblib", mmap_mode="r")
    assert again.transform([["w0"]])[0].tolist() == [[np.float32(20**-0.5)] * 20]


@pytest.mark.parametrize("window", [(-1, 0, 1), [2], (0, -5)])
@pytest.mark.parametrize("unknown", ["zeros", "mean"])
def test_window_and_unknown_words(window, unknown):
    transformer = WordVectors(VECTORS, norm=None, window=window, unknown=unknown)
    packed = transformer.fit_transform(X)
    names = transformer.get_feature_names_out().tolist()
    assert packed.feature_names == names and names[0] == f"vector[{window[0]}][0]"
    rows = ROWS.copy()
    # "bonn" and "?"
    rows[3:] = TABLE.mean(axis=0) if unknown == "mean" else 0.0
    for first, stop in ((0, 2), (2, 5)):
        for t in range(first, stop):
            for k, offset in enumerate(window):
                there = first <= t + offset < stop
                expected = rows[t + offset] if there else np.zeros(2)
                found = packed.values[t, 2 * k : 2 * k + 2]
                np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_scaling_and_normalization():
    transformer = WordVectors(VECTORS, norm=3.0).fit(X)
    known = transformer.transform(X).values[:3].astype(float)
    assert (known**2).sum(axis=1).mean() == pytest.approx(9.0)
    assert transformer.set_params(norm=None).fit(X).scale_ == 1.0
    # what is never seen in fit has no say
    assert WordVectors(VECTORS).fit([["cat"]]).scale_ == 1.0
    assert WordVectors({"a": [0.0]}).fit([["a"]]).scale_ == 1.0
    assert WordVectors(VECTORS, normalize=None).fit(X).coverage_ == 0.4
    capital = WordVectors(VECTORS, normalize=str.capitalize).fit(X)
    # the word as it is comes first
    assert capital.coverage_ == 0.6 and capital._places(["cat", "bonn"]).tolist() == [
        1,
        2,
    ]


def test_columns():
    dicts = [[{"tag": "D", "w": w} for w in sentence] for sentence in X]
    tuples = [(sentence, ["D"] * len(sentence)) for sentence in X]
    for data, column in ((dicts, "w"), (dicts, 1), (tuples, 0)):
        transformer = WordVectors(VECTORS, column=column, norm=None)
        np.testing.assert_array_equal(transformer.fit_transform(data).values, ROWS)
    for data, column, message in (
        (dicts, "word", r"X\[0\]\[0\] has no column 'word'"),
        (dicts, 2, r"X\[0\]\[0\] has 2 columns"),
        (tuples, 2, r"X\[0\] has 2 columns, .* column=2"),
        (tuples, "w", r"X\[0\] has 2 columns, .* column='w'"),
        ([["cat"], [3]], 0, r"X\[1\]\[0\] must be a string, got 3"),
        ([[["w=cat"]]], 0, r"X\[0\]\[0\] must be a string, got \['w=cat'\]"),
        (["cat"], 0, r"X\[0\] must be a list of strings, got 'cat'"),
        ("cat", 0, "X is a single str"),
        ([[{"w": 1.0}]], "w", r"X\[0\]\['w'\]\[0\] must be a string, got 1.0"),
        ([["?"], []], 0, "none of the 1 tokens of X has a vector"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            WordVectors(VECTORS, column=column).fit(data)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"vectors": {}}, "vectors is empty"),
        ({"vectors": {"a": [1.0], "b": [1.0, 2.0]}}, "of the same length"),
        ({"vectors": {"a": [1.0], "b": [np.inf]}}, "vector of 'b' is not finite"),
        ({"vectors": {"a": ["x"]}}, "must be numbers"),
        ({"vectors": {1: [1.0]}}, "word 0 must be a string, got 1"),
        ({"vectors": (["a"], TABLE)}, r"1 words and an array of shape \(4, 2\)"),
        ({"vectors": (["a", "a"], TABLE[:2])}, "the word 'a' twice"),
        ({"vectors": TABLE}, "got a ndarray"),
        ({"window": []}, "window must be a list"),
        ({"window": [0.5]}, "window must be a list"),
        ({"window": [1, 1]}, "an offset twice"),
        ({"norm": 0.0}, "'norm' parameter"),
        ({"unknown": "random"}, "'unknown' parameter"),
        ({"column": -1}, "'column' parameter"),
        ({"normalize": "upper"}, "'normalize' parameter"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises((TypeError, ValueError), match=message):
        WordVectors(**{"vectors": VECTORS, **parameters}).fit(X)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "line 1: expected a word and its numbers"),
        (["4 2"], "has no vectors"),
        (["5 2", *LINES], "line 1: the line states 5 words, and the file has 4"),
        ([*LINES, "dog 1.0"], "line 5: expected a word and 2 numbers, got 'dog 1.0'"),
        ([*LINES[:2], "", *LINES[2:]], "line 3: expected a word and 2 numbers"),
        (["4 3", *LINES], "line 2: expected a word and 3 numbers"),
        ([*LINES, "dog 1.0 x"], "line 5: could not convert string 'x' to float32"),
        ([*LINES, "dog 1.0  2.0"], "line 5: could not convert string '' to float32"),
        ([*LINES, "dog 1_0 2.0"], "line 5: could not convert string '1_0'"),
        ([*LINES, "dog 1.0 1e39"], "line 5: a number is not finite"),
        (["5 2", *LINES, "cat 1 1"], "line 6: an earlier line has the word 'cat'"),
        ([*LINES, " 1.0 2.0"], "line 5: expected a word"),
    ],
)
def test_files_in_any_other_format(lines, message, tmp_path):
    with pytest.raises(ValueError, match=r"v.txt(, | )" + message):
        read_word_vectors(written(tmp_path, lines))


def test_files(tmp_path):
    # word2vec ends lines with a space; words may have any other white space
    words = ["a", "b\u00a0c", "\u2028", "\x85", "d e"]
    path = written(tmp_path, ["5 3", *(f"{word} 1 -2.5 3e-2 " for word in words)])
    found, vectors = read_word_vectors(path)
    assert found == words and vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, np.float32([[1, -2.5, 3e-2]] * 5))
    # more lines than are converted together
    rows = np.random.RandomState(0).standard_normal((2345, 4)).astype(np.float32)
    lines = [" ".join([f"w{k}", *map(str, row)]) for k, row in enumerate(rows)]
    np.testing.assert_array_equal(read_word_vectors(written(tmp_path, lines))[1], rows)
    lines[2100] = lines[2100].replace(" ", " x", 1)
    with pytest.raises(ValueError, match="line 2101: could not"):
        read_word_vectors(written(tmp_path, lines))
    with pytest.raises(ValueError, match="not UTF-8"):
        read_word_vectors(written(tmp_path, ["\u00e9 1 2"], encoding="latin-1"))
    path = written(tmp_path, LINES * 1, "v.gz")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="truncated or damaged"):
        read_word_vectors(path)


def test_a_tagger_with_words_and_vectors(tmp_path):
    rng = np.random.RandomState(0)
    kinds = {f"{kind}{k}": kind for kind in "nv" for k in range(40)}
    vectors = {
        word: rng.standard_normal(3) + 2.0 * np.array([kind == "n", kind == "v", 0])
        for word, kind in kinds.items()
    }
    names = list(kinds)
    sentences = [rng.choice(names, 6).tolist() for _ in range(30)]
    labels = [[kinds[word] for word in words] for words in sentences]
    words = make_pipeline(ColumnFeatures("U0:%x[0,0]"), SequenceVectorizer())
    parts = [("vectors", WordVectors(vectors)), ("words", words)]
    tagger = make_tagger(FeatureUnion(parts), random_state=0)
    grid = GridSearchCV(tagger, {"featureunion__vectors__norm": [1e-3, 1.0]}, cv=3)
    best = grid.fit(sentences[:10], labels[:10]).best_estimator_
    assert best.predict(sentences[10:])[0].shape == (6,)
    assert best.score(sentences[10:], labels[10:]) > 0.9
    rows = best[0].transform(sentences)
    assert rows.is_mixed and rows.values.dense.dtype == np.float32
    columns = best[0].get_feature_names_out()
    assert len(columns) == best[-1].coef_.shape[1]
    assert columns[0] == "vectors__vector[0][0]" and columns[3].startswith("words__U0:")
    assert ("vector[0][0]", "n") in best.state_features_
    joblib.dump(best, tmp_path / "tagger.joblib")
    again = joblib.load(tmp_path / "tagger.joblib")
    assert again.predict([["n1", "v2"]])[0].tolist() == ["n", "v"]
    # a new word, and no sentence but an empty one
    assert again.predict([["?"], []])[1].shape == (0,)

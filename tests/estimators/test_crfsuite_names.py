"""Attributes in files for CRFsuite have the names that python-crfsuite forms."""

import json
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.pipeline import FeatureUnion

from sksstruct import ChainCRF, Tagger, crfsuite_parameters, make_tagger
from sksstruct.feature_extraction import (
    ColumnFeatures,
    SequenceVectorizer,
)
from sksstruct.utils.packed import PackedSequences

pycrfsuite = pytest.importorskip("pycrfsuite")

# without the marks of first and last positions, which no item has
SAME = {**crfsuite_parameters(20), "tol": 0.1, "random_state": 0}


def labels_of(X):
    return [["AB"[t % 2] for t in range(len(row))] for row in X]


def assert_same(tagger, X, path):
    """CRFsuite, with the items as they are, and what is read say what a tagger says."""
    tagger.to_crfsuite(path)
    peer, read = pycrfsuite.Tagger(), Tagger.from_crfsuite(path)
    peer.open(str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected, again = tagger.predict_marginals(X), read.predict_marginals(X)
    for row, of_row, of_read in zip(X, expected, again, strict=True):
        peer.set(row)
        for t, marginals in enumerate(of_row):
            assert of_read[t] == pytest.approx(marginals, abs=1e-9)
            found = {label: peer.marginal(label, t) for label in marginals}
            assert found == pytest.approx(marginals, abs=1e-9)


NAME = st.text("ab", min_size=1, max_size=2)
# values have all separators, names have none
VALUE = st.text("ab=:_", max_size=4)
ITEM = st.recursive(
    VALUE
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats(-2, 2)
    | st.lists(VALUE, max_size=3)
    | st.sets(VALUE, max_size=3),
    lambda below: st.dictionaries(NAME, below, max_size=3),
    max_leaves=5,
)
POSITION = st.dictionaries(NAME, ITEM, max_size=5)
SEQUENCES = st.lists(st.lists(POSITION, min_size=1, max_size=4), min_size=1, max_size=4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(SEQUENCES, st.sampled_from(["=", ":", "_", "::", "漢", "==", ""]))
def test_random_items(tmp_path, X, separator):
    X = [*X, [{"bias": 1.0, "w": "a"}] * 2]
    vectorizer = SequenceVectorizer(separator=separator)
    tagger = make_tagger(vectorizer, **SAME).fit(X, labels_of(X))
    packed = vectorizer.fit_transform(X)
    names = packed.feature_names.spelled()
    attributes = {
        name for row in X for item in pycrfsuite.ItemSequence(row).items()
        for name in item
    }  # fmt: skip
    assert attributes <= {name for spelled in names for name in spelled}
    try:
        tagger.to_crfsuite(tmp_path / "model")
    except ValueError as error:
        # two features that are one for CRFsuite
        assert "are one attribute for CRFsuite" in str(error)
        assert separator != ":"
        return
    assert_same(tagger, X, tmp_path / "model")


NESTED = [
    [
        {"w": "a=b", "d": {"k": {"m": 2.0}, "l": ["x", "y"], "e": {"s": "t"}}},
        {"w": "c"},
    ],
    [{"w": "c", "flag": True, "set": {"p"}}, {"w": "=", "n": 0.5}],
] * 10


@pytest.mark.parametrize("separator", ["=", ":", "", "::", "a"])
def test_names(separator, tmp_path):
    vectorizer = SequenceVectorizer(separator=separator)
    tagger = make_tagger(vectorizer, **SAME).fit(NESTED, labels_of(NESTED))
    assert_same(tagger, NESTED, tmp_path / "model")
    if separator in (":", "=", "::"):
        # no name more than CRFsuite has
        expected = {
            name for row in NESTED for item in pycrfsuite.ItemSequence(row).items()
            for name in item
        }  # fmt: skip
        found = [x for row in vectorizer._names.spelled() for x in row]
        assert sorted(found) == sorted(expected)


def test_strings_of_lists_keep_their_names(tmp_path):
    X = [[[f"w=a{k % 3}", "w:b=c"], ["title", "w=:="]] for k in range(20)]
    tagger = make_tagger(**SAME).fit(X, labels_of(X))
    assert_same(tagger, X, tmp_path / "model")
    read = Tagger.from_crfsuite(tmp_path / "model")
    attributes = {name for row in X for item in row for name in item}
    assert {name for name, _ in read.state_features_} <= attributes


@pytest.mark.parametrize(
    "plain", [["w=a", "w=b"], {"w=a": 1.0, "w=b": True}, [*"ab", "w=b"]]
)
@pytest.mark.parametrize("first", [True, False])
def test_a_feature_in_two_forms(plain, first, tmp_path):
    """Both of its attributes have its weights."""
    dicts, others = [{"w": "a"}, {"w": "b"}, {"w": ["a"]}], [plain, {"w": "b"}]
    X = 10 * ([dicts, others] if first else [others, dicts])
    tagger = make_tagger(**SAME).fit(X, labels_of(X))
    assert_same(tagger, X, tmp_path / "model")
    merged = SequenceVectorizer().merge(
        [SequenceVectorizer().fit([row]) for row in (X[0], X[1])]
    )
    assert merged._names.spelled() == tagger[0]._names.spelled()


def test_names_below_names_and_names_with_the_separator(tmp_path):
    for row in (
        [{"d": {"k": "x"}}, {"d=k": "x"}],
        [{"d=k": "x"}, {"d": {"k": "x"}}],
        [{"d=k": ["x", "y"], "w": {"d=k": {"e": ["x"]}}}, {"w": {"d": {"k=e": "x"}}}],
    ):
        X = [row, row[::-1]] * 10
        tagger = make_tagger(**SAME).fit(X, labels_of(X))
        assert_same(tagger, X, tmp_path / "model")


def test_two_features_that_are_one_for_crfsuite(tmp_path):
    X = [[{"w": "a"}, {"w:a": 1.0}]] * 5
    tagger = make_tagger(**SAME).fit(X, labels_of(X))
    message = "'w=a' and 'w:a' are one attribute for CRFsuite, 'w:a'"
    with pytest.raises(ValueError, match=message):
        tagger.to_crfsuite(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def copies(tagger, path):
    """The tagger in all forms in which it may be kept."""
    yield pickle.loads(pickle.dumps(tagger))
    tagger.to_json(path)
    yield Tagger.from_json(path)
    vectorizer = SequenceVectorizer(separator=tagger[0].separator)
    vectorizer.__setstate__(tagger[0].__getstate__())
    yield Tagger([("v", vectorizer), ("c", tagger[1])])
    yield pickle.loads(pickle.dumps(tagger)).prune(0.0)


def test_names_outlive_files_and_pruning(tmp_path):
    tagger = make_tagger(**SAME).fit(NESTED, labels_of(NESTED))
    for kept in copies(tagger, tmp_path / "json"):
        assert_same(kept, NESTED, tmp_path / "model")
    # a chain has its names with it
    tagger[1].to_json(tmp_path / "json")
    tagger.to_crfsuite(tmp_path / "model")
    for chain in (tagger[1], ChainCRF.from_json(tmp_path / "json")):
        chain.to_crfsuite(tmp_path / "chain")
        assert (tmp_path / "chain").read_bytes() == (tmp_path / "model").read_bytes()
    # rows that come from a disk have names only, which the vectorizer explains
    rows = tagger[0].transform(NESTED)
    rows = PackedSequences(rows.values, rows.offsets, rows.feature_names.tolist())
    chain = ChainCRF(**SAME).fit(rows, labels_of(NESTED))
    assert_same(Tagger([("v", tagger[0]), ("c", chain)]), NESTED, tmp_path / "model")


@pytest.mark.parametrize("spellings", [3, [["a"]], [["a", 1]], ["ab"], {"a": "b"}])
def test_damaged_spellings(spellings, tmp_path):
    make_tagger(**SAME).fit(NESTED, labels_of(NESTED)).to_json(tmp_path / "json")
    document = json.loads((tmp_path / "json").read_text())
    document["steps"][0]["fitted"]["spellings"] = spellings
    (tmp_path / "json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="spellings must be pairs of strings"):
        Tagger.from_json(tmp_path / "json")


def test_longer_pipelines(tmp_path):
    X = [(["a", "b=", "c"],), (["b", "a"],)] * 10
    y = [["A", "B", "A"], ["B", "A"]] * 10
    tagger = make_tagger(ColumnFeatures(), SequenceVectorizer(), **SAME).fit(X, y)
    rows = tagger[0].transform(X)
    tagger.to_crfsuite(tmp_path / "model")
    peer = pycrfsuite.Tagger()
    peer.open(str(tmp_path / "model"))
    assert [peer.tag(row) for row in rows] == list(map(list, tagger.predict(X)))
    # as attributes of lists, which have one name each
    attributes = peer.info().attributes
    assert set(attributes) <= {x for row in rows for item in row for x in item}
    # dicts beside features that have other names
    union = FeatureUnion([("a", SequenceVectorizer()), ("b", _Rows())])
    tagger = make_tagger(union, **SAME).fit(NESTED, labels_of(NESTED))
    tagger.to_crfsuite(tmp_path / "model")
    read = Tagger.from_crfsuite(tmp_path / "model")
    names = {name for name, _ in read.state_features_}
    assert {"w:a=b", "x=1"} <= names and not names & {"w=a=b", "x:1"}


class _Rows(SequenceVectorizer):
    """Features whose names nobody joined."""

    def fit_transform(self, X, y=None):
        rows, ends = np.ones((sum(map(len, X)), 2)), np.cumsum([0, *map(len, X)])
        return PackedSequences(rows, ends, ["x=1", "y"])

    transform = fit_transform


# ---- reading ----


@pytest.mark.parametrize("parameters", [{}, {"forbidden_transitions": [("B", None)]}])
def test_what_is_read_is_what_was_written(parameters, tmp_path):
    X = [[*row, {"w": "c"}] for row in NESTED]
    y = labels_of(X)
    tagger = make_tagger(loss="log", random_state=0, **parameters).fit(X, y)
    tagger.to_crfsuite(tmp_path / "model")
    read = Tagger.from_crfsuite(tmp_path / "model", first="__BOS__", last="__EOS__")
    for row, other in zip(
        tagger.predict_marginals(X), read.predict_marginals(X), strict=True
    ):
        for marginals, found in zip(row, other, strict=True):
            assert found == pytest.approx(marginals, abs=1e-9)
    # and so is what is written again
    assert read[-1].boundary
    read.to_crfsuite(tmp_path / "again")
    first, second = (
        Tagger.from_crfsuite(tmp_path / name) for name in ("model", "again")
    )
    assert first.state_features_ == pytest.approx(second.state_features_)


def words(n, seed=0):
    rng = np.random.default_rng(seed)
    return [
        [{"w": f"a{rng.integers(200)}", "bias": 1.0} for _ in range(8)]
        for _ in range(n)
    ]


@pytest.mark.parametrize("as_lists", [False, True])
@pytest.mark.parametrize(("written", "read"), [("=", ":"), (":", "=")])
def test_items_with_other_names(written, read, as_lists, tmp_path):
    X = words(40)
    strings = [[[f"w{written}{item['w']}"] for item in row] for row in X]
    make_tagger(**SAME).fit(strings, labels_of(X)).to_crfsuite(tmp_path / "model")
    tagger = Tagger.from_crfsuite(tmp_path / "model", separator=read)
    if as_lists:
        X = [[[f"w{read}{item['w']}"] for item in row] for row in X]
    message = f"'w{read}a.*', and the model 'w{written}a"
    for some in (X, X[:1], [X[0][:1]]):
        with pytest.warns(UserWarning, match=message) as caught:
            tagger.predict(some)
        assert len(caught) == 1
    right = Tagger.from_crfsuite(tmp_path / "model", separator=written)
    right.predict(words(3))
    pickled = pickle.loads(pickle.dumps(tagger))
    with pytest.warns(UserWarning, match="only 0 of"):
        pickled.predict([X[0][:1]])


def test_items_of_another_model(tmp_path):
    X = words(40)
    tagger = make_tagger(**SAME).fit(X, labels_of(X))
    tagger.to_crfsuite(tmp_path / "model")
    read = Tagger.from_crfsuite(tmp_path / "model")
    with pytest.warns(UserWarning, match="only 0 of 30 attributes of X are known"):
        read.predict([[{"other": f"{k}"} for k in range(30)]])
    # unknown words are in order, and so is a tagger that was fitted here
    new = [[{"w": f"new{k}", "bias": 1.0} for k in range(9)]]
    read.predict([*new, *words(2, seed=1)])
    read.predict([[{"w": "new"}], [], [{}]])
    tagger.predict([[{"other": f"{k}"} for k in range(30)]])

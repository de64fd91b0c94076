"""What `SequenceVectorizer` makes of features, against a reference in plain Python."""

import copy
import pickle
import sys
from collections import OrderedDict, UserDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

from sksstruct import ChainCRF
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.feature_extraction._vocabulary import Vocabulary

# one, two and four bytes a character, strings that are long, and parts of each other
EDGE = "x" * 63
TEXT = st.sampled_from(
    ["", "a", "b", "ab", "=", "a=b", "é", "漢", "a漢", "😀", "\x00", "a\x00", EDGE]
    + [EDGE + end for end in ("x", "y", "xx", "xy", "漢", "x漢")]
    + [text * 70 for text in ("xy", "é", "漢")]
) | st.text(max_size=4)
VALUE = st.recursive(
    st.integers(-3, 3).map(float) | st.booleans() | TEXT | st.lists(TEXT, max_size=3),
    lambda below: st.dictionaries(TEXT, below, max_size=3),
    max_leaves=5,
)
POSITION = st.dictionaries(TEXT, VALUE, max_size=5) | st.lists(TEXT, max_size=60)
SEQUENCES = st.lists(st.lists(POSITION, max_size=4), max_size=4)


def pairs(features, separator, prefix=""):
    """Names and values of the features of a position."""
    if not isinstance(features, dict):
        return [(prefix + text, 1.0) for text in features]
    found = []
    for name, item in features.items():
        if isinstance(item, str):
            found.append((prefix + name + separator + item, 1.0))
        elif isinstance(item, dict | list):
            found += pairs(item, separator, prefix + name + separator)
        else:
            found.append((prefix + name, float(item)))
    return found


def reference(X, separator):
    """Names in order of appearance, and the rows as dicts."""
    rows = [pairs(position, separator) for sequence in X for position in sequence]
    names = list(dict.fromkeys(name for row in rows for name, _ in row))
    sums = []
    for row in rows:
        sums.append({})
        for name, value in row:
            sums[-1][name] = sums[-1].get(name, 0.0) + value
    return names, sums


def check_rows(packed, names, rows):
    assert packed.values.shape == (len(rows), len(names))
    assert packed.values.has_canonical_format
    for k, row in enumerate(rows):
        cells = slice(*packed.values.indptr[k : k + 2])
        columns = packed.values.indices[cells]
        assert (np.diff(columns) > 0).all()
        found = dict(
            zip([names[j] for j in columns], packed.values.data[cells], strict=True)
        )
        assert found == {name: v for name, v in row.items() if name in names}


@pytest.mark.slow
@settings(max_examples=60)
@given(SEQUENCES, SEQUENCES, st.sampled_from(["=", ":", "", "漢"]))
def test_agrees_with_the_reference(X, X_new, separator):
    names, rows = reference(X, separator)
    vectorizer = SequenceVectorizer(separator=separator)
    if not names:
        with pytest.raises(ValueError, match="no features"):
            vectorizer.fit(X)
        return
    packed = vectorizer.fit_transform(X)
    assert vectorizer.feature_names_ == names
    assert vectorizer.vocabulary_ == {name: j for j, name in enumerate(names)}
    check_rows(packed, names, rows)
    assert packed.lengths.tolist() == [len(sequence) for sequence in X]
    check_rows(vectorizer.transform(X), names, rows)
    check_rows(vectorizer.transform(X_new), names, reference(X_new, separator)[1])
    assert vectorizer.feature_names_ == names


def test_nested_values_as_in_crfsuite():
    crfsuite = pytest.importorskip("pycrfsuite")
    position = {
        "w": ["a", "b"],
        "d": {"a": 2.0, "b": {"c": "x", "e": ["y", "z"]}, "f": True, "g": {}},
        "s": "t",
        "n": 0.5,
        "empty": [],
    }
    packed = SequenceVectorizer(separator=":").fit_transform([[position]])
    ours = dict(zip(packed.feature_names, packed.values.toarray()[0], strict=True))
    assert ours == crfsuite.ItemSequence([position]).items()[0]


def test_kinds_of_containers():
    X = [[{"w": ("a", "b"), "v": {"c", "a", "b"}, "u": frozenset("d")}], [{"q", "p"}]]
    expected = ["w=a", "w=b", "v=a", "v=b", "v=c", "u=d", "p", "q"]
    assert SequenceVectorizer().fit(X).feature_names_ == expected
    X = [(UserDict({"a": UserDict(b="c")}), OrderedDict(a={"b": 2}), ("x", "y"))]
    vectorizer = SequenceVectorizer()
    packed = vectorizer.fit_transform(tuple(X))
    assert vectorizer.feature_names_ == ["a=b=c", "a=b", "x", "y"]
    assert packed.values.toarray().tolist() == [
        [1, 0, 0, 0],
        [0, 2, 0, 0],
        [0, 0, 1, 1],
    ]
    generators = ((iter(position) for position in s) for s in [["a"], ["b"]])
    assert SequenceVectorizer().fit(generators).feature_names_ == ["a", "b"]


def test_dict_that_holds_itself():
    features = {}
    features["a"] = features
    with pytest.raises(RecursionError):
        SequenceVectorizer().fit([[features]])


@pytest.mark.parametrize("size", [47, 48, 49, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_any_size_are_sorted_and_merged(size, dtype):
    rng = np.random.RandomState(size)
    names = [f"f{k}" for k in range(size)]
    vectorizer = SequenceVectorizer(dtype=dtype).fit([[names]])
    values = rng.randint(1, 9, size=size).astype(float)
    order = rng.permutation(size)
    row = dict(zip([names[j] for j in order], values[order], strict=True))
    packed = vectorizer.transform([[row, [names[j] for j in order] * 2]])
    assert packed.values.dtype == dtype
    np.testing.assert_array_equal(packed.values.toarray(), [values, np.full(size, 2.0)])


class Volatile(UserDict):
    """Makes its strings when they are asked for, and drops them at once."""

    def items(self):
        for k in range(40):
            yield f"n{k}", f"value {k}"


def test_strings_that_do_not_outlive_the_call():
    X = [[Volatile() for _ in range(30)], [(f"f{k}" for k in range(700))]]
    vectorizer = SequenceVectorizer()
    first = vectorizer.fit_transform(X)
    assert vectorizer.feature_names_[:40] == [f"n{k}=value {k}" for k in range(40)]
    X[1] = [(f"f{k}" for k in range(700))]
    again = vectorizer.transform(X)
    np.testing.assert_array_equal(first.values.toarray(), again.values.toarray())


@pytest.mark.skipif(
    not hasattr(sys, "getrefcount"), reason="needs counts of references"
)
def test_no_reference_is_lost_or_kept():
    seen, unseen = "".join(["se", "en"]), "".join(["un", "seen"])
    position = {"w": seen, "v": unseen, unseen: 1.0}
    vectorizer = SequenceVectorizer().fit([[{"w": seen}]])
    before = sys.getrefcount(seen), sys.getrefcount(unseen)
    for X in ([[position, [seen, unseen] * 400]], [[[unseen, seen]]] * 3):
        vectorizer.transform(X)
    for bad in ([seen, unseen, 3], {"w": unseen, "v": seen, "u": None}):
        with pytest.raises(TypeError):
            vectorizer.transform([[bad]])
    del X, bad
    assert (sys.getrefcount(seen), sys.getrefcount(unseen)) == before


def test_vocabulary_grows():
    names = [f"{k:x}" for k in range(5000)]
    vocabulary = Vocabulary(names)
    assert len(vocabulary) == 5000 and vocabulary.names == names


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, "pickle"])
def test_copies_transform_as_well(duplicate):
    if duplicate == "pickle":

        def duplicate(x):
            return pickle.loads(pickle.dumps(x))

    vectorizer = SequenceVectorizer().fit([[["a", "b"]]])
    twin = duplicate(vectorizer)
    assert twin.transform([[["b"]]]).values.toarray().tolist() == [[0, 1]]
    assert twin.feature_names_ == ["a", "b"]


def test_transform_uses_the_vocabulary_of_the_last_fit():
    vectorizer = SequenceVectorizer().fit([[["a", "b"]]])
    table = vectorizer._table
    # a fit that fails changes nothing
    with pytest.raises(TypeError):
        vectorizer.fit([[["c"]], [3]])
    assert vectorizer._table is table
    assert vectorizer.transform([[["b", "c"]]]).values.toarray().tolist() == [[0, 1]]
    vectorizer.fit([[["c"]]])
    assert vectorizer.transform([[["b", "c"]]]).values.toarray().tolist() == [[1]]


class Record:
    """Callback that keeps the tasks it hears of, and asks to stop."""

    def __init__(self):
        self.tasks = []

    def setup(self, estimator, context):
        self.tasks.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.tasks.append(("begin", context.task_name, context.max_subtasks))

    def on_fit_task_end(self, estimator, context):
        self.tasks.append(("end", context.task_name))
        return True

    def teardown(self, estimator, context):
        self.tasks.append("teardown")


@pytest.mark.usefixtures("callbacks")
@pytest.mark.parametrize("sized", [True, False])
def test_callbacks_hear_of_blocks(sized):
    X = [[["a"]], [["b"]]] * 600
    record = Record()
    vectorizer = SequenceVectorizer().set_callbacks(record)
    packed = vectorizer.fit_transform(X if sized else iter(X))
    assert len(packed) == 1200
    assert record.tasks == [
        "setup",
        ("begin", "fit", 2 if sized else None),
        ("begin", "block", 0),
        ("end", "block"),
        ("begin", "block", 0),
        ("end", "block"),
        ("end", "fit"),
        "teardown",
    ]


def test_callbacks_of_a_pipeline(capsys, callbacks):
    X, y = [[{"w": "a"}, {"w": "b"}], [{"w": "b"}]], [["A", "B"], ["B"]]
    tagger = make_pipeline(SequenceVectorizer(), ChainCRF())
    tagger.set_callbacks(callbacks.ProgressBar()).fit(X, y)
    assert "SequenceVectorizer" in capsys.readouterr().out
    assert [row.tolist() for row in tagger.predict(X)] == y

"""The drop-in for python-crfsuite: items, tagging, and what it imports."""

import itertools
import subprocess
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import sksstruct
from sksstruct.crfsuite import ItemSequence, Tagger
from sksstruct.estimators._crfsuite_format import CRFsuiteModel, read_model, write_model
from sksstruct.estimators.tagger import Tagger as Pipeline

WORDS = ["a", "be", "w:ü", "w:a longer attribute", "x" * 40]


def written(path, n_labels=3, n_attributes=60, seed=0):
    """A model with weights of all sizes, and missing ones."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(n_attributes, n_labels))
    states[rng.random(states.shape) < 0.3] = 0.0
    pairs = rng.normal(size=(n_labels, n_labels))
    pairs[0, -1] = 0.0
    names = [*WORDS, *(f"n{'y' * (k % 30)}:{k}" for k in range(n_attributes))]
    write_model(
        path,
        CRFsuiteModel(
            [f"L{k}" for k in range(n_labels)],
            names[:n_attributes],
            sparse.csr_array(states),
            sparse.csr_array(pairs),
        ),
    )
    return names[:n_attributes]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("crfsuite") / "model"
    written(path)
    return path


def sentences(names, n=20, seed=0):
    rng = np.random.default_rng(seed)
    return [
        [
            {
                **{name: float(rng.normal()) for name in rng.choice(names, 4)},
                "w": "ü",
                "unknown": True,
                b"n": {"yy": ["a", "2"]},
            }
            for _ in range(rng.integers(1, 6))
        ]
        for _ in range(n)
    ]


def enumerated(path, sentence):
    """Scores of all labelings, by a reader of the file of its own."""
    model = read_model(path)
    states, pairs = model.states.toarray(), model.transitions.toarray()
    places = {name: k for k, name in enumerate(model.attributes)}
    unary = np.zeros((len(sentence), len(model.labels)))
    for t, pairs_of_item in enumerate(ItemSequence(sentence)._pairs()):
        for name, value in pairs_of_item:
            if name in places:
                unary[t] += value * states[places[name]]
    scores = {}
    for labels in itertools.product(range(len(model.labels)), repeat=len(sentence)):
        score = sum(unary[t, label] for t, label in enumerate(labels))
        score += sum(pairs[a, b] for a, b in itertools.pairwise(labels))
        scores[tuple(model.labels[label] for label in labels)] = score
    return scores


@pytest.mark.parametrize("n_labels", [1, 3, 5])
def test_answers_are_those_of_all_labelings(n_labels, tmp_path):
    path = tmp_path / "model"
    names = written(path, n_labels)
    tagger = Tagger()
    with tagger.open(path):
        for sentence in sentences(names, 8):
            scores = enumerated(path, sentence)
            total = np.logaddexp.reduce(list(scores.values()))
            best = max(scores, key=scores.get)
            assert tuple(tagger.tag(sentence)) == best
            for labels in (best, list(scores)[-1]):
                expected = np.exp(scores[tuple(labels)] - total)
                assert tagger.probability(labels) == pytest.approx(expected, rel=1e-9)
            for t, row in enumerate(tagger.marginals()):
                for label, probability in row.items():
                    parts = [s for y, s in scores.items() if y[t] == label]
                    expected = np.exp(np.logaddexp.reduce(parts) - total)
                    assert probability == pytest.approx(expected, rel=1e-9)
                    assert tagger.marginal(label, t) == probability


def test_large_weights_are_summed_in_log_space(tmp_path):
    path = tmp_path / "model"
    model = CRFsuiteModel(
        ["a", "b"],
        ["x"],
        sparse.csr_array([[900.0, -900.0]]),
        sparse.csr_array([[-1e30, 800.0], [800.0, -1e30]]),
    )
    write_model(path, model)
    tagger = Tagger()
    with tagger.open(path):
        assert tagger.tag([["x"], ["x"], ["x"]]) == ["a", "b", "a"]
        assert tagger.probability(["a", "b", "a"]) == pytest.approx(1.0)
        assert tagger.marginal("b", 1) == pytest.approx(1.0)


# what all readers of items understand
TEXT = st.text("ab:ü\U0001f600", max_size=14)
VALUE = st.one_of(st.booleans(), st.floats(-2, 2), st.integers(-3, 3), TEXT)
VALUE = st.one_of(VALUE, TEXT.map(str.encode))
NESTED = st.recursive(
    st.one_of(VALUE, st.lists(TEXT, max_size=3), st.sets(TEXT, max_size=1)),
    lambda below: st.dictionaries(TEXT, below, max_size=3),
    max_leaves=4,
)
ITEMS = st.lists(
    st.one_of(st.dictionaries(TEXT, NESTED, max_size=4), st.lists(TEXT, max_size=4)),
    max_size=4,
)


@given(ITEMS)
def test_items_are_those_of_python_crfsuite(sentence):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    found, expected = ItemSequence(sentence), pycrfsuite.ItemSequence(sentence)
    assert found.items() == expected.items()
    assert len(found) == len(expected) and repr(found) == repr(expected)
    assert ItemSequence(found).items() == found.items()


@pytest.mark.parametrize("n_labels", [2, 9])
def test_answers_are_those_of_python_crfsuite(n_labels, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    path = tmp_path / "model"
    names = written(path, n_labels, 500)
    tagger, peer = Tagger(), pycrfsuite.Tagger()
    tagger.open(path), peer.open(str(path))
    assert tagger.labels() == peer.labels()
    for sentence in sentences(names, 40):
        # a bool as it is, attributes twice, bytes, and what iterates
        sentence = [*sentence, ["a", "a", b"be"], {"w": b"\xc3\xbc"}, {"a": 1}.keys()]
        assert tagger.tag(sentence) == peer.tag(sentence)
        assert tagger.tag(iter(sentence)) == tagger.tag(ItemSequence(sentence))
        labels = tagger.tag()
        expected = peer.probability(labels)
        assert tagger.probability(labels) == pytest.approx(expected, rel=1e-9)
        for t in range(len(sentence)):
            for label in tagger.labels():
                assert tagger.marginal(label, t) == pytest.approx(
                    peer.marginal(label, t), rel=1e-9, abs=1e-300
                )
    assert (tagger.tag([]), tagger.probability([])) == ([], 0.0)
    assert (peer.tag([]), peer.probability([])) == ([], 0.0)
    info, other = tagger.info(), peer.info()
    assert (info.header, info.labels) == (other.header, other.labels)
    assert info.attributes == other.attributes
    for name in ("transitions", "state_features"):
        assert getattr(info, name) == pytest.approx(getattr(other, name), abs=1e-6)
    tagger.dump(tmp_path / "ours"), peer.dump(str(tmp_path / "theirs"))
    ours, theirs = (tmp_path / name for name in ("ours", "theirs"))
    assert ours.read_text() == theirs.read_text()


def test_answers_are_those_of_the_pipeline(path):
    tagger, pipeline = Tagger(), Pipeline.from_crfsuite(path)
    tagger.open(path)
    X = [[{**item, "n": {"yy": ["a", "2"]}} for item in s] for s in sentences(WORDS)]
    for sentence in X:
        for item in sentence:
            del item[b"n"]
    predicted = pipeline.predict(X)
    assert [tagger.tag(s) for s in X] == [labels.tolist() for labels in predicted]


def test_a_closed_tagger(path):
    tagger = Tagger()
    calls = [
        tagger.labels, tagger.tag, lambda: tagger.tag([["a"]]), tagger.marginals,
        lambda: tagger.set([]), lambda: tagger.marginal("L0", 0),
        lambda: tagger.probability(["L0"]),
    ]  # fmt: skip
    for _ in range(2):
        for call in calls:
            with pytest.raises(ValueError, match="not opened"):
                call()
        for call in (tagger.info, tagger.dump):
            with pytest.raises(RuntimeError, match="not opened"):
                call()
        with tagger.open_inmemory(path.read_bytes()) as opened:
            assert opened is tagger and tagger.tag() == []


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("foo", "xseq is a single str"),
        ({"a": 1}, "xseq is a single dict"),
        (["foo"], r"xseq\[0\] is a single str"),
        ([[], [{"a": 1.0}]], r"xseq\[1\] has a name that is no string: {'a'"),
        ([{1: 2.0}], r"xseq\[0\] has a name that is no string: 1"),
        ([{"a": float("nan")}], r"xseq\[0\] contains NaN or infinity: 'a'"),
        ([{"a": {"b": float("inf")}}], r"xseq\[0\] contains NaN or infinity: 'b'"),
        ([{"\ud800": 1.0}], "surrogates"),
    ],
)
def test_items_that_are_refused(sentence, message, path):
    tagger = Tagger()
    tagger.open(path)
    with pytest.raises(ValueError, match=message):
        tagger.tag(sentence)
    with pytest.raises(ValueError, match=message):
        ItemSequence(sentence)


def test_other_mistakes(path):
    tagger = Tagger()
    tagger.open(path)
    tagger.set([["a"]])
    for call, message in (
        (lambda: tagger.probability(["L0", "L0"]), "2 labels, and the sentence 1"),
        (lambda: tagger.probability(["new"]), r"yseq\[0\] has the label 'new'"),
        (lambda: tagger.marginal("new", 0), "y='new'"),
        (lambda: tagger.marginal("L0", 1), r"pos must be in \[0, 1\), got 1"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    item = {}
    item["a"] = item
    with pytest.raises(RecursionError):
        tagger.tag([item])
    with pytest.raises(TypeError):
        tagger.tag([{"a": None}])


def test_every_damaged_byte_is_an_error_or_harmless(path):
    """A file is read in parts: nothing outside of it is, whatever the bytes say."""
    data, names = path.read_bytes(), read_model(path).attributes
    rng = np.random.default_rng(0)
    sentence, n_errors = [[name] for name in names], 0
    for _ in range(3000):
        broken = bytearray(data)
        for place in rng.integers(0, len(data), 2):
            broken[place] = rng.choice([0, 1, 127, 255, broken[place] ^ 1])
        tagger = Tagger()
        try:
            tagger.open_inmemory(bytes(broken))
            assert len(tagger.tag(sentence)) == len(names)
            tagger.marginals(), tagger.info()
        except ValueError:
            n_errors += 1
    assert 300 < n_errors < 3000
    for size in (0, 4, 47, 48, len(data) // 2, len(data) - 1):
        with pytest.raises(ValueError, match="cannot be opened"):
            Tagger().open_inmemory(data[:size])


def test_many_labels_in_a_small_file_are_refused(tmp_path):
    n = 4000
    labels = [str(k) for k in range(n)]
    empty = sparse.csr_array((n, n)), sparse.csr_array((0, n))
    write_model(tmp_path / "model", CRFsuiteModel(labels, [], empty[1], empty[0]))
    with pytest.raises(ValueError, match=r"from_crfsuite"):
        Tagger().open(tmp_path / "model")


def test_one_tagger_of_many_threads(path):
    tagger, X = Tagger(), sentences(WORDS, 50)
    tagger.open(path)
    expected, found = [tagger.tag(s) for s in X], [None] * 4

    def work(k):
        found[k] = [tagger.tag(sentence) for sentence in X]

    threads = [Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_tagging_imports_nothing_else(path):
    """Nor does it take longer than NumPy's import and 0.3 seconds."""
    code = (
        "import sys, time\n"
        "begin = time.process_time()\n"
        "import sksstruct.crfsuite as pycrfsuite\n"
        "tagger = pycrfsuite.Tagger()\n"
        f"tagger.open({str(path)!r})\n"
        "tagger.tag([{'w': 'a'}]), tagger.marginals(), tagger.info()\n"
        "pycrfsuite.Trainer().append([['a']], ['b'])\n"
        "seconds = time.process_time() - begin\n"
        "heavy = {'numpy', 'scipy', 'joblib', 'sklearn'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert seconds < 0.3, seconds\n"
        "from sksstruct.crfsuite import CRF\n"
        "assert 'sklearn' in sys.modules and pycrfsuite.CRF is CRF"
    )
    root = Path(sksstruct.__file__).parents[1]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)

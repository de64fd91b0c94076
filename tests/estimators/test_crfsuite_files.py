"""Model files of CRFsuite; python-crfsuite says what they mean."""

import copy
import gzip
import itertools
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from sksstruct import (
    CalibratedTagger,
    ChainCRF,
    Tagger,
    crfsuite_parameters,
    make_tagger,
)
from sksstruct.datasets import make_chain, read_conll
from sksstruct.estimators._crfsuite_format import (
    CRFsuiteModel,
    read_model,
    write_model,
)
from sksstruct.feature_extraction import ColumnFeatures, SequenceVectorizer
from sksstruct.models import ELUScore
from sksstruct.utils.packed import PackedSequences

LABELS = "B-x", "I-x", "O", "B-ü", "I-ü"


def sentences(n, seed=0, first=None):
    """Attributes with values, and labels in BIO."""
    rng, X, y = np.random.default_rng(seed), [], []
    for _ in range(n):
        size, row, before = int(rng.integers(1, 7)), [], "O"
        for _ in range(size):
            allowed = [x for x in LABELS if x[0] != "I" or x[1:] == before[1:]]
            row.append(before := allowed[rng.integers(len(allowed))])
        X.append(
            [
                {"w": f"{label[-1]}{rng.integers(9)}", "é": float(rng.normal())}
                for label in row
            ]
        )
        if first:
            X[-1][0][first] = 1.0
        y.append(row)
    return X, y


@pytest.fixture
def peer(tmp_path):
    """python-crfsuite's tagger of a file."""
    pycrfsuite = pytest.importorskip("pycrfsuite")

    def opened(path):
        tagger = pycrfsuite.Tagger()
        tagger.open(str(path))
        return tagger

    return opened


def assert_same(tagger, X, peer, items):
    """Both find the same labels, and probabilities if there are any."""
    labels = tagger.predict(X)
    assert [peer.tag(row) for row in items] == [row.tolist() for row in labels]
    if tagger[-1].loss != "log":
        return
    for row, expected in zip(items, tagger.predict_marginals(X), strict=True):
        peer.set(row)
        for t, of_labels in enumerate(expected):
            for label, probability in of_labels.items():
                assert peer.marginal(label, t) == pytest.approx(probability, abs=1e-9)


@pytest.mark.parametrize(
    ("parameters", "first"),
    [
        ({}, None),
        ({"loss": "log"}, None),
        ({"loss": "log", "forbidden_transitions": "bio"}, None),
        ({"loss": "log", "forbidden_transitions": [("O", None), (None, "I-x")]}, None),
        ({"loss": "log", "fit_intercept": False, "boundary": False}, None),
        # the mark is a feature already, as window_features makes it
        ({"loss": "log"}, "__BOS__"),
        ({"loss": "log", "l1_ratio": 0.9, "alpha": 0.3}, None),
    ],
)
def test_crfsuite_finds_the_same(parameters, first, tmp_path, peer):
    X, y = sentences(40, first=first)
    if ("O", None) in list(parameters.get("forbidden_transitions", ())):
        y = [[*row[:-1], "B-x"] for row in y]
    tagger = make_tagger(random_state=0, **parameters).fit(X, y)
    other, _ = sentences(40, seed=1, first=first)
    other[0] = [{"w": "new"}, {}] if not first else [{first: 1.0}]
    path = tmp_path / "model"
    tagger.to_crfsuite(path)
    items = tagger.crfsuite_items(other)
    assert_same(tagger, other, peer(path), items)
    # and so does what is read again
    again = Tagger.from_crfsuite(path)
    assert again.predict(items)[1].tolist() == tagger.predict(other)[1].tolist()
    assert_same(again, items, peer(path), items)


def test_files_of_a_calibrated_tagger(tmp_path, peer):
    X, y = sentences(40)
    calibrated = CalibratedTagger(make_tagger(random_state=0), cv=3).fit(X, y)
    tagger, expected = calibrated.estimator_, calibrated.predict_marginals(X)
    assert calibrated.temperature_ != pytest.approx(1.0, abs=0.1)
    tagger.to_json(tmp_path / "model.json")
    read = Tagger.from_json(tmp_path / "model.json")
    assert list(map(list, read.predict_marginals(X))) == list(map(list, expected))
    tagger.to_crfsuite(tmp_path / "model")
    other = peer(tmp_path / "model")
    for row, probabilities in zip(tagger.crfsuite_items(X), expected, strict=True):
        other.set(row)
        for label, probability in probabilities[0].items():
            assert other.marginal(label, 0) == pytest.approx(probability, abs=1e-9)


@pytest.mark.parametrize("form", ["sparsify", "cast"])
def test_forms_of_the_weights(form, tmp_path, peer):
    X, y = sentences(30)
    tagger = make_tagger(random_state=0).fit(X, y)
    tagger[-1].sparsify() if form == "sparsify" else tagger[-1].cast(np.float32)
    tagger.to_crfsuite(tmp_path / "model")
    assert_same(tagger, X, peer(tmp_path / "model"), tagger.crfsuite_items(X))


def test_many_labels(tmp_path, peer):
    # transitions are sparse: pairs that are not stored have the weight zero
    data = make_chain(150, n_classes=120, n_features=15, random_state=0)
    names = [f"x{j}" for j in range(15)]
    X = [PackedSequences(x, [0, len(x)], names) for x in data.X]
    X = PackedSequences(np.vstack(data.X), np.cumsum([0, *map(len, data.X)]), names)
    y = [[f"label {k}" for k in row] for row in data.y]
    crf = ChainCRF(max_iter=3, tol=1.0, random_state=0).fit(X, y)
    assert sparse.issparse(crf.transitions_)
    crf.to_crfsuite(tmp_path / "model")
    tagger = peer(tmp_path / "model")
    for row, labels in zip(crf.crfsuite_items(X), crf.predict(X), strict=True):
        assert tagger.tag(row) == labels.tolist()


@pytest.mark.parametrize("algorithm", ["lbfgs", "ap"])
def test_files_that_crfsuite_trained(algorithm, tmp_path, peer):
    import pycrfsuite

    X, y = sentences(60)
    X[0][0] |= {"many": ["a", "b"], "deep": {"c": 2.0}, "flag": True}
    trainer = pycrfsuite.Trainer(algorithm, verbose=False)
    for row, labels in zip(X, y, strict=True):
        trainer.append(row, labels)
    path = tmp_path / "model"
    trainer.train(str(path))
    tagger = Tagger.from_crfsuite(path)
    assert tagger[-1].classes_.tolist() == peer(path).labels()
    other, _ = sentences(40, seed=2)
    assert_same(tagger, [*X, *other, []], peer(path), [*X, *other, []])
    weights = peer(path).info()
    assert tagger.state_features_ == pytest.approx(weights.state_features, abs=1e-6)
    # only places in hash tables may differ in what is read and written again
    write_model(tmp_path / "again", read_model(path))
    assert len((tmp_path / "again").read_bytes()) == len(path.read_bytes())
    assert peer(tmp_path / "again").info().attributes == weights.attributes


@pytest.mark.parametrize("possible", [False, True])
@pytest.mark.parametrize(("c1", "c2"), [(0.1, 0.01), (0.0, 1.0)])
def test_the_same_problem(c1, c2, possible, tmp_path, peer):
    """The same weights exist, and both come as near to the optimum."""
    import pycrfsuite

    X, y = sentences(300)
    # zeros are seen with labels that do not occur where the values are true
    for row, labels in zip(X, y, strict=True):
        for item, before in zip(row, [None, *labels], strict=False):
            item["before"] = {"nothing": before is None, "O": before == "O"}
            item["inside"] = before is not None and before[0] == "I"
    kinds = "states", "transitions"
    same = crfsuite_parameters(
        300, c1=c1, c2=c2, **{f"all_possible_{kind}": possible for kind in kinds}
    )
    vectorizer = SequenceVectorizer(separator=":")
    ours = make_tagger(vectorizer, **same, random_state=0).fit(X, y)
    trainer = pycrfsuite.Trainer(verbose=False)
    # of negative values, too
    trainer.set_params({"c1": c1, "c2": c2, "feature.minfreq": -1e9})
    trainer.set_params({f"feature.possible_{kind}": possible for kind in kinds})
    for row, labels in zip(X, y, strict=True):
        trainer.append(row, labels)
    trainer.train(str(tmp_path / "model"))
    theirs = Tagger.from_crfsuite(tmp_path / "model")

    def objective(tagger):
        w = np.array(
            [*tagger.state_features_.values(), *tagger.transition_features_.values()]
        )
        return c1 * np.abs(w).sum() + c2 * w @ w - tagger.log_proba(X, y).sum()

    expected = trainer.logparser.last_iteration["loss"]
    assert objective(theirs) == pytest.approx(expected, rel=1e-5)
    assert objective(ours) == pytest.approx(expected, rel=1e-3)
    if c1 == 0.0:
        info = peer(tmp_path / "model").info()
        assert set(ours.state_features_) == set(info.state_features)
        present = {pair for pair, w in ours.transition_features_.items() if w}
        assert present == set(info.transitions)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["conll2000", "btc", "ncbi"])
def test_real_data(name, data_home, tmp_path, peer):
    files = {
        "conll2000": ("conll2000/{}.txt.gz", "bio"),
        "btc": ("ner/btc_{}.txt.gz", "bio"),
        "ncbi": ("bio/ncbi_disease_iobes_{}.txt.gz", "iobes"),
    }
    file, scheme = files[name]
    if not (data_home / file.format("test")).is_file():
        pytest.skip(f"{name} is not in {data_home}")
    parts = []
    for part in ("train", "test"):
        with gzip.open(data_home / file.format(part), "rt", encoding="utf-8") as lines:
            beginning = "".join(itertools.islice(lines, 2000))
        (tmp_path / part).write_text(beginning, encoding="utf-8")
        parts.append(read_conll(tmp_path / part, empty="_")[:60])
    train, test = parts
    crf = ChainCRF(loss="log", forbidden_transitions=scheme, max_iter=5, tol=1.0)
    steps = [("columns", ColumnFeatures()), ("features", SequenceVectorizer())]
    tagger = Tagger([*steps, ("crf", crf.set_params(random_state=0))])
    tagger.fit([s[:1] for s in train], [s[-1] for s in train])
    tagger.to_crfsuite(tmp_path / "model")
    X = [s[:1] for s in test]
    assert_same(tagger, X, peer(tmp_path / "model"), tagger.crfsuite_items(X))


def test_equal_scores_are_decided_by_the_order_of_the_file(tmp_path, peer):
    for labels in (["x", "y"], ["y", "x"]):
        nothing = sparse.csr_array((0, 2)), sparse.csr_array((2, 2))
        write_model(tmp_path / "m", CRFsuiteModel(labels, [], *nothing))
        tagger, X = Tagger.from_crfsuite(tmp_path / "m"), [[["a"], []], []]
        assert tagger.predict(X)[0].tolist() == 2 * labels[:1]
        assert_same(tagger, X, peer(tmp_path / "m"), X)


def test_bad_parameters(tmp_path):
    make_tagger().fit(*sentences(5)).to_crfsuite(tmp_path / "m")
    for options, message in (
        ({"separator": 3}, "'separator' parameter"),
        ({"alpha": -1.0}, "'alpha' parameter"),
    ):
        with pytest.raises(ValueError, match=message):
            Tagger.from_crfsuite(tmp_path / "m", **options)


# ---- training goes on ----


def test_warm_start_is_by_name(tmp_path):
    X, y = sentences(80)
    parameters = crfsuite_parameters(80, c2=0.1) | {"tol": 1e-8}
    tagger = make_tagger(**parameters, solver="lbfgs").fit(X, y)
    tagger.to_crfsuite(tmp_path / "model")
    options = {**parameters, "warm_start": True}
    again = Tagger.from_crfsuite(tmp_path / "model", **options)
    # the vectorizer sees features in another order
    again.fit(X[::-1], y[::-1])
    assert tagger[-1].n_iter_ > 10 and again[-1].n_iter_ <= 3
    assert again[-1].objective_ == pytest.approx(tagger[-1].objective_, rel=1e-6)
    # with further features and labels, too
    more = [*X, [{"w": "one more"}]], [*y, ["new"]]
    again = Tagger.from_crfsuite(tmp_path / "model", **options).fit(*more)
    fresh = make_tagger(**parameters, solver="lbfgs").fit(*more)
    assert again[-1].objective_ == pytest.approx(fresh[-1].objective_, rel=1e-6)
    assert again[-1].n_iter_ < fresh[-1].n_iter_
    hinge = Tagger.from_crfsuite(tmp_path / "model", loss="hinge", warm_start=True)
    with pytest.warns(UserWarning, match="training starts from zero"):
        hinge.set_params(chaincrf__solver="auto").fit(X, y)


def test_warm_start_is_not_from_what_is_forbidden(tmp_path):
    """A label that cannot be the first has a weight of -1e30 in the file."""
    X, y = sentences(80)
    options = {"loss": "log", "alpha": 0.1, "solver": "lbfgs"}
    tagger = make_tagger(**options, forbidden_transitions="bio").fit(X, y)
    tagger.to_crfsuite(tmp_path / "model", first="first", last="last")
    items = tagger.crfsuite_items(X, first="first", last="last")
    again = Tagger.from_crfsuite(tmp_path / "model", warm_start=True, **options)
    assert again[-1].coef_.min() == -1e30
    again.fit(items, y)
    assert again[-1].history_["primal"].max() < 2.0 * tagger[-1].objective_


def test_partial_fit(tmp_path):
    X, y = sentences(60)
    make_tagger(random_state=0).fit(X, y).to_crfsuite(tmp_path / "model")
    options = {"loss": "hinge", "solver": "auto"}
    tagger = Tagger.from_crfsuite(tmp_path / "model", **options)
    with pytest.raises(ValueError, match="n_sequences"):
        tagger[-1].partial_fit(tagger[0].transform(X), y)
    tagger = Tagger.from_crfsuite(tmp_path / "model", n_sequences=60, **options)
    before = copy.deepcopy(tagger[-1])
    tagger[-1].set_params(random_state=0).partial_fit(tagger[0].transform(X[:1]), y[:1])
    # one more sequence changes little
    assert tagger[-1].n_seen_ == 61.0
    cosine = np.vdot(before.coef_, tagger[-1].coef_) / (
        np.linalg.norm(before.coef_) * np.linalg.norm(tagger[-1].coef_)
    )
    assert 0.95 < cosine < 1.0
    for wrong in (0, -1, "1"):
        with pytest.raises(ValueError, match="n_sequences must be positive"):
            Tagger.from_crfsuite(tmp_path / "model", n_sequences=wrong)


# ---- what cannot travel ----


def _numbers():
    X, y = sentences(10)
    return make_tagger().fit(X, [[len(label) for label in row] for row in y])


def _named(names):
    data = make_chain(10, n_classes=3, n_features=2, random_state=0)
    rows, ends = np.vstack(data.X), np.cumsum([0, *map(len, data.X)])
    X = PackedSequences(rows, ends, names)
    return ChainCRF(max_iter=5).fit(X, [[f"{k}" for k in row] for row in data.y])


def _scored():
    data = make_chain(10, n_classes=3, n_features=2, random_state=0)
    crf = ChainCRF(score_function=ELUScore(2), max_iter=2, random_state=0)
    return crf.fit(data.X, data.y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("fitted", "message"),
    [
        (_numbers, "labels of CRFsuite are strings, and not 1"),
        (lambda: _named(None), "CRFsuite needs names of the features"),
        (lambda: _named(["a", "a"]), "must have different names"),
        (lambda: _named(["a", "b\0"]), r"the feature 'b\\x00' has a zero"),
        (lambda: _named(["a", "\ud800"]), r"the feature '\\ud800' has no UTF-8"),
        (_scored, "CRFsuite has no score_function"),
        (
            lambda: make_tagger(transition_features="w").fit(*sentences(9)),
            "CRFsuite has no weights of features on pairs",
        ),
        (ChainCRF, "not fitted"),
    ],
)
def test_what_cannot_travel(fitted, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        fitted().to_crfsuite(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_marks():
    X, y = sentences(20, first="__BOS__")
    tagger = make_tagger().fit(X, y)
    items = tagger.crfsuite_items(X, first="<s>", last="</s>")
    assert items[0][0]["<s>"] == items[0][-1]["</s>"] == 1.0
    assert tagger.crfsuite_items([[]]) == [[]]
    with pytest.raises(ValueError, match=r"X\[1\]: the feature '__BOS__'.* at \[\]"):
        tagger.crfsuite_items([X[0], [{"w": "x0"}]])
    with pytest.raises(ValueError, match="first and last must be different"):
        tagger.crfsuite_items(X, first="x", last="x")


# ---- damaged files ----


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The bytes of a file, and a path to write to."""
    path = tmp_path_factory.mktemp("damaged") / "model"
    make_tagger(loss="log").fit(*sentences(20)).to_crfsuite(path)
    return path.read_bytes(), path


def places(data):
    """Offsets of features, labels, attributes, and references of both."""
    return struct.unpack_from("<5I", data, 28)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d, at: d[:20], "the header would be at bytes 0 to 48"),
        (lambda d, at: b"", "the file has 0"),
        (lambda d, at: b"XCRF" + d[4:], "it begins with b'XCRF'"),
        (lambda d, at: d[:-1], "it should have"),
        (lambda d, at: d + b"\0", "it should have"),
        (lambda d, at: _put(d, 20, 0), "it has no labels"),
        (lambda d, at: _put(d, 16, 7), "the header has 7 features"),
        (lambda d, at: _put(d, 24, 2**31), "database of 2147483648 attributes"),
        (lambda d, at: _put(d, 28, len(d)), "FEAT would be at bytes"),
        (lambda d, at: _put(d, 28, 4), "byte 4 has"),
        (lambda d, at: _put(d, at[0] + 8, 2**32 - 1), "features would be at bytes"),
        (lambda d, at: _put(d, at[0] + 12, 1), "refers to features of another label"),
        (lambda d, at: _put(d, at[0] + 20, 99), "refers to a feature of label 99"),
        (lambda d, at: d[: at[0] + 24] + struct.pack("<d", np.nan) + d[at[0] + 32 :],
         f"a weight is not finite, byte {48 + 24}"),
        (lambda d, at: _put(d, at[1] + 12, 1), "head of a database of 5 labels"),
        (lambda d, at: _put(d, at[1] + 4, 2**32 - 1), "labels would be at bytes"),
        (lambda d, at: _put(d, at[1] + 20, 2**32 - 1), "labels would be at bytes"),
        (lambda d, at: _put(d, at[1] + 2072, 3), "wrong numbers or lengths"),
        (lambda d, at: _put(d, at[1] + 2076, 2**31), "longer than their chunk"),
        (lambda d, at: _put(d, at[1] + 2076, 3), "does not end where it should"),
        (lambda d, at: _put(d, at[1] + 2080, 0xFFFFFFFF), "not UTF-8|not end where"),
        (lambda d, at: _put(d, at[3] + 8, 5), "LFRF must have 7 rows"),
        (lambda d, at: _put(d, at[3] + 12, len(d)), "features of LFRF would be"),
        (lambda d, at: _put(d, _list(d, at[4]), 2**31), "must be at most 165"),
        (lambda d, at: _put(d, _list(d, at[4]), 0), "refer to some twice or never"),
        (lambda d, at: _put(d, _list(d, at[4]) + 4, 10**6), "below 165, got 1000000"),
        (lambda d, at: _name_twice(d), "refer to some twice or never"),
    ],
)  # fmt: skip
def test_damage_is_named(data, edit, message):
    content, path = data
    path.write_bytes(edit(content, places(content)))
    with pytest.raises(ValueError, match=message) as error:
        Tagger.from_crfsuite(path)
    assert str(error.value).startswith(f"{path} is no model file of CRFsuite: ")


def _put(data, place, number):
    return data[:place] + struct.pack("<I", number) + data[place + 4 :]


def _list(data, chunk):
    """Where the list of the first label or attribute is."""
    return struct.unpack_from("<I", data, chunk + 12)[0]


def _name_twice(data):
    """The last attribute, whose list ends the file, names its last feature again."""
    chunk = places(data)[4]
    (n,) = struct.unpack_from("<I", data, chunk + 8)
    last = _list(data, chunk + 4 * (n - 1))
    (count,) = struct.unpack_from("<I", data, last)
    assert len(data) == last + 4 + 4 * count
    return _put(_put(data, last, count + 1), 4, len(data) + 4) + data[-4:]


def test_files_that_are_cut(data):
    content, path = data
    for size in range(0, len(content), 97):
        # with the right size in the header, too
        path.write_bytes(_put(content[:size], 4, size)[:size])
        with pytest.raises(ValueError, match="no model file"):
            read_model(path)


@given(
    st.lists(
        st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=4
    )
)
def test_changed_bytes(data, edits):
    """What is read is consistent, or refused by a ValueError."""
    content, path = data
    changed = bytearray(content)
    for place, byte in edits:
        changed[place % len(content)] = byte
    path.write_bytes(changed)
    try:
        tagger = Tagger.from_crfsuite(path)
        labels = tagger.predict(sentences(2)[0])
    except ValueError:
        return
    assert all(set(row) <= set(tagger[-1].classes_) for row in labels)


def test_a_small_file_does_not_fill_the_memory(tmp_path):
    n = 20_000
    empty = sparse.csr_array((n, n))
    names = [f"{k}" for k in range(n)]
    model = CRFsuiteModel(names, names, empty, empty)
    write_model(tmp_path / "model", model)
    tagger = Tagger.from_crfsuite(tmp_path / "model")
    assert sparse.issparse(tagger[-1].coef_)
    assert tagger.predict([[["0"], ["1"]]])[0].tolist() == ["0", "0"]


def test_strings_of_all_lengths(tmp_path, peer):
    # every length of a hash's last block, and names that meet in the same slots
    names = [f"{k:0{size}d}" for size in range(1, 40) for k in range(50 if size else 1)]
    names = list(dict.fromkeys([*names, "ä" * 7, "\U0001f600"]))
    n = len(names)
    parity = np.arange(n) % 2
    states = sparse.csr_array((np.ones(n), (np.arange(n), parity)), (n, 2))
    pairs = sparse.csr_array((2, 2))
    write_model(tmp_path / "m", CRFsuiteModel(["a", "b"], names, states, pairs))
    tagger = peer(tmp_path / "m")
    assert tagger.info().attributes == {name: str(k) for k, name in enumerate(names)}
    # one that is not found has no weight, and gets the first label
    assert tagger.tag([[name] for name in names]) == ["ab"[k] for k in parity]
    model = read_model(tmp_path / "m")
    assert model.attributes == names and model.labels == ["a", "b"]
    np.testing.assert_array_equal(model.states.toarray(), states.toarray())

"""Taggers as JSON: the same to the last bit, and nothing else is read."""

import gzip
import json
import pickle
import re
from pathlib import Path

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.decomposition import PCA

from sksstruct import ChainCRF, Tagger, make_tagger
from sksstruct.datasets import make_chain
from sksstruct.feature_extraction import (
    ColumnFeatures,
    SequenceHasher,
    SequenceVectorizer,
)
from sksstruct.losses import SmoothedHinge
from sksstruct.models import ELUScore
from sksstruct.solvers import BCFW

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
X = [
    [{"w": "Ada", "é": 0.1}, {"w": "ran"}],
    [{"w": "She"}, {"w": "ran", "\ud800": 2.0}],
    [{"w": "Ada"}],
]
y = [["B-x", "O"], ["O", "O"], ["B-x"]]
TEMPLATE = "U0:%x[0,0]\nB1:%x[0,0]"
COLUMNS = [([row["w"] for row in rows],) for rows in X]


def fitted(*transformers, X=X, y=y, **parameters):
    return make_tagger(*transformers, random_state=0, **parameters).fit(X, y)


def of_columns():
    crf = ChainCRF(loss="log", transition_features="B", random_state=0)
    steps = [("c", ColumnFeatures(TEMPLATE)), ("v", SequenceVectorizer()), ("t", crf)]
    return Tagger(steps).fit(COLUMNS, y)


def changed(tagger, method, *arguments):
    getattr(tagger[-1], method)(*arguments)
    return tagger


TAGGERS = {
    "hinge": fitted,
    "likelihood": lambda: fitted(loss="log", forbidden_transitions="bio"),
    "smoothed": lambda: fitted(loss="smoothed_hinge", class_weight={"O": 2.0}),
    "pairs": lambda: fitted(transition_features=[True] + [False] * 4, alpha=0.1),
    "numbers": lambda: fitted(y=[[1, 2], [2, 2], [1]]),
    "kinds": lambda: fitted(y=[["1", 1], [1, 2.5], ["1"]]),
    "hashes": lambda: fitted(SequenceHasher(n_features=64), X=X[:1], y=y[:1]),
    "single": lambda: fitted(SequenceVectorizer(dtype=np.float32)),
    "sparse": lambda: changed(fitted(loss="log"), "sparsify"),
    "float32": lambda: changed(fitted(), "cast", np.float32),
    "missing": lambda: fitted(y=[["B-x", None], ["O", "O"], ["B-x"]]),
    "stopped": lambda: fitted(max_iter=1),
}


def assert_equal(tagger, other, X):
    """All that taggers say is equal."""
    one, two = tagger[-1], other[-1]
    methods = ["predict", "decision_function"]
    methods += ["predict_proba"] if one.loss == "log" else []
    for method in methods:
        pairs = zip(getattr(tagger, method)(X), getattr(other, method)(X), strict=True)
        for a, b in pairs:
            np.testing.assert_array_equal(a, b)
    assert str(tagger.predict_topk(X, 3)) == str(other.predict_topk(X, 3))
    assert one.coef_.dtype == two.coef_.dtype
    assert sparse.issparse(one.coef_) == sparse.issparse(two.coef_)
    assert one.classes_.dtype == two.classes_.dtype
    assert tagger.transition_features_ == other.transition_features_
    if hasattr(one, "transition_coef_"):
        assert tagger.pair_features_ == other.pair_features_
    if one._names_in is not None:
        assert tagger.state_features_ == other.state_features_
    assert repr(tagger) == repr(other)


@pytest.mark.parametrize("name", TAGGERS)
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_round_trip(name, suffix, tmp_path):
    tagger, path = TAGGERS[name](), tmp_path / f"tagger{suffix}"
    tagger.to_json(path)
    other = Tagger.from_json(path)
    assert_equal(tagger, other, X[:1])
    # it is written again as it was, and travels on by other means
    other.to_json(tmp_path / f"again{suffix}")
    assert (tmp_path / f"again{suffix}").read_bytes() == path.read_bytes()
    assert_equal(tagger, pickle.loads(pickle.dumps(other)), X[:1])


def test_format_1_is_read_by_every_later_version():
    """The file is never written again: versions of 0.1 have written such files."""
    tagger = Tagger.from_json(Path(__file__).parent / "format_1.json")
    X, y = [(["Ada", "ran"],), (["It", "ran"],)], [["B-PER", "O"], ["O", "O"]]
    assert [labels.tolist() for labels in tagger.predict(X)] == y
    np.testing.assert_allclose(tagger.log_proba(X, y), [-0.22886058, -0.21021791])


def test_columns(tmp_path):
    tagger = of_columns()
    tagger.to_json(tmp_path / "x")
    other = Tagger.from_json(tmp_path / "x")
    assert other[0].has_pairs_ and other[0].n_columns_ == 1
    assert_equal(tagger, other, COLUMNS)
    rows = [[{"w": word} for word in words] for (words,) in COLUMNS]
    tagger.set_params(c__template=None, t__transition_features=None).fit(rows, y)
    tagger.to_json(tmp_path / "x")
    assert_equal(tagger, Tagger.from_json(tmp_path / "x"), rows)


def test_a_chain_alone(tmp_path):
    data = make_chain(150, n_classes=120, n_features=15, random_state=0)
    crf = ChainCRF(max_iter=3, tol=1.0, random_state=0).fit(data.X, data.y)
    assert sparse.issparse(crf.transitions_)
    crf.to_json(tmp_path / "x")
    other = ChainCRF.from_json(tmp_path / "x")
    for a, b in zip(crf.predict(data.X), other.predict(data.X), strict=True):
        np.testing.assert_array_equal(a, b)
    assert sparse.issparse(other.transitions_) and other.alpha_ == crf.alpha_
    # training goes on from the weights
    more = make_chain(1, n_classes=120, n_features=15, random_state=1)
    for one in (crf, other):
        one.partial_fit(more.X, more.y)
    np.testing.assert_allclose(crf.coef_, other.coef_, rtol=1e-9, atol=1e-12)
    fitted().to_json(tmp_path / "y")
    with pytest.raises(ValueError, match="read it with Tagger"):
        ChainCRF.from_json(tmp_path / "y")


def test_single_precision_takes_nine_digits(tmp_path):
    """Eight digits are another number for about one in five of these."""
    data = make_chain(5, n_classes=9, n_features=200, random_state=0)
    crf = ChainCRF(max_iter=2, random_state=0).fit(data.X, data.y).cast(np.float32)
    crf.coef_[:] = np.random.default_rng(0).normal(size=crf.coef_.shape)
    crf.to_json(tmp_path / "x")
    other = ChainCRF.from_json(tmp_path / "x")
    np.testing.assert_array_equal(crf.coef_, other.coef_)
    np.testing.assert_array_equal(crf.transitions_, other.transitions_)
    # and no more: doubles of the same numbers have seventeen
    (step,) = json.loads((tmp_path / "x").read_text())["steps"]
    digits = [f"{x!r}".strip("-0.") for x in step["fitted"]["coef"]["values"]]
    assert max(len(each.replace(".", "").partition("e")[0]) for each in digits) == 9


def test_warm_start(tmp_path):
    options = {"loss": "log", "solver": "lbfgs", "tol": 1e-8, "warm_start": True}
    tagger = fitted(**options)
    tagger.to_json(tmp_path / "x")
    other = Tagger.from_json(tmp_path / "x").fit(X, y)
    assert other[-1].n_iter_ < tagger[-1].n_iter_
    np.testing.assert_allclose(other[-1].coef_, tagger[-1].coef_, atol=1e-5)


def test_size(tmp_path):
    rng = np.random.default_rng(0)
    rows = [[{f"{rng.integers(3000)}": 1.0} for _ in range(9)] for _ in range(500)]
    labels = [[f"{rng.integers(7)}" for _ in range(9)] for _ in rows]
    tagger = fitted(X=rows, y=labels, loss="log", max_iter=5)
    tagger.to_json(tmp_path / "x.json.gz")
    joblib.dump(tagger, tmp_path / "x.joblib")
    size = (tmp_path / "x.json.gz").stat().st_size
    assert size < 2 * (tmp_path / "x.joblib").stat().st_size


@pytest.mark.parametrize(
    ("tagger", "message"),
    [
        (lambda: fitted(solver=BCFW()), r"ChainCRF, solver is BCFW\(\)"),
        (lambda: fitted(loss=SmoothedHinge()), "ChainCRF, loss is SmoothedHinge"),
        (
            lambda: make_tagger(random_state=np.random.RandomState(0)).fit(X, y),
            "ChainCRF, random_state is RandomState",
        ),
        (
            lambda: fitted(y=[[("a",), "O"], ["O", "O"], ["O"]]),
            r"classes_ has the label \('a',\)",
        ),
        (lambda: Tagger([("p", PCA()), ("t", ChainCRF())]), "'p' is a PCA"),
        (make_tagger, "not fitted"),
        (lambda: Tagger([("t", _scored())]), "the score_function of a ChainCRF"),
    ],
)  # fmt: skip
def test_what_cannot_travel(tagger, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        tagger().to_json(tmp_path / "x")
    assert not (tmp_path / "x").exists()


def _scored():
    data = make_chain(9, n_classes=3, n_features=2, random_state=0)
    crf = ChainCRF(score_function=ELUScore(2), max_iter=1, random_state=0)
    return crf.fit(data.X, data.y).set_params(score_function=None)


# ---- files that are not right ----


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """The text of a file, and a path to write to."""
    path = tmp_path_factory.mktemp("json") / "x.json"
    tagger = fitted(
        loss="log", transition_features="w=ran", forbidden_transitions="bio"
    )
    tagger.to_json(path)
    return path.read_text(), path


def refused(path, text, message):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message) as error:
        Tagger.from_json(path)
    assert str(error.value).startswith(f"{path} is no tagger in JSON: ")


V, C = ("steps", 0), ("steps", 1)
F = (*C, "fitted")


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (
            ("format_version",),
            2,
            r"tagger', 2\); expected 'sksstruct tagger' and 1",
        ),
        (("format",), "x", r"are \('x', 1\); expected"),
        (("more",), 1, r"the file must have .*; it differs in \['more'\]"),
        (("steps",), {}, "steps must be list"),
        (V, 3, r"steps\[0\] must be an object, got 3"),
        ((*V, "class"), "PCA", r"steps\[0\], class must be one of .*, got 'PCA'"),
        ((*V, "class"), ["PCA"], r"steps\[0\], class must be str"),
        ((*V, "name"), "chaincrf", "the name 'chaincrf' occurs twice"),
        ((*V, "parameters", "dtype"), "object", "dtype must be one of"),
        ((*V, "parameters", "separator"), 3, "'separator' parameter"),
        ((*V, "fitted", "features"), ["a", "a"], "features must be different strings"),
        ((*V, "fitted", "features"), ["a", 1], "features must be different strings"),
        ((*V, "fitted", "counts"), [1], "counts must have 5 numbers, not 1"),
        ((*C, "parameters", "alpha"), -1.0, "'alpha' parameter"),
        ((*C, "parameters", "x"), 1, "ChainCRF has no parameter 'x'"),
        ((*F, "labels"), ["O", "O"], "labels must be different strings or numbers"),
        ((*F, "labels"), ["O", None], "labels must be different strings or numbers"),
        ((*F, "labels"), [], "labels must be different strings or numbers"),
        ((*F, "n_features"), True, "n_features must be int, got True"),
        ((*F, "n_features"), 4, "features must be 4, not 5"),
        ((*F, "features"), None, None),
        ((*F, "features"), "x", "features must be list"),
        ((*F, "dtype"), "float16", "dtype must be one of"),
        ((*F, "loss"), "x", "loss must be one of"),
        ((*F, "intercept"), [0.0], "intercept must have 2 numbers"),
        ((*F, "intercept"), [0.0, "1"], "intercept must have numbers only"),
        ((*F, "intercept"), [0.0, True], "intercept must have numbers only"),
        ((*F, "start"), [0, 10**400], r"fitted, start\[1\] must be a finite number"),
        ((*F, "coef", "counts"), [2, 2, 2, 2, 3], "the counts must sum to"),
        ((*F, "coef", "counts"), [-1, 2, 2, 2, 2], "counts has a negative number"),
        ((*F, "coef", "counts"), [10**30, 2, 2, 2, 2], "counts has .* too large"),
        ((*F, "coef", "columns"), [0, 1] * 4 + [1, 0], "columns must ascend"),
        ((*F, "coef", "columns"), [0, 1] * 4 + [0, 2], "ascend in each row, to 1"),
        ((*F, "transition_coef", "columns"), [[]], "columns must have integers only"),
        (
            (*F, "forbidden_transitions"),
            [["O", "x"]],
            r"'x'\] is no pair of labels",
        ),
        ((*F, "forbidden_transitions"), [[None, None]], "no pair of labels"),
        ((*F, "forbidden_transitions"), [[["O"], "O"]], "no pair of labels"),
        ((*F, "training", "alpha_"), -1.0, "training must not be negative"),
        ((*F, "training", "x"), 1.0, r"training must have .*; it differs in \['x'\]"),
        ((*F, "stream", "visits"), "1", "visits must be float"),
        ((*F, "training", "temperature"), 0.0, "temperature must be positive"),
        ((*F, "training", "temperature"), 1e-320, "temperature must be positive"),
        ((*F, "dtype"), "float32", None),
        ((*V, "fitted", "features"), [["a"]], "features must be different strings"),
        ((*F, "forbidden_transitions"), [[{}, "O"]], "no pair of labels"),
        ((*C, "parameters", "n_jobs"), 0, r"steps\[1\], parameters: The 'n_jobs'"),
        ((*C, "parameters", "n_jobs"), True, r"parameters, n_jobs must not be True"),
        ((*C, "parameters", "n_jobs"), 1.5, "The 'n_jobs' parameter"),
        ((*C, "parameters", "order"), True, "parameters, order must not be True"),
        ((*C, "parameters", "solver"), 3, "parameters, solver must not be 3"),
        ((*V, "parameters", "min_count"), True, "min_count must not be True"),
        ((*C, "parameters", "class_weight"), [["O"]], "class_weight: .*no pair of a"),
        ((*C, "parameters", "class_weight"), [["O", "x"]], "class_weight: .*no pair"),
        ((*C, "parameters", "class_weight"), [["O", 2.0]], None),
    ],
)
def test_every_value_is_checked(text, keys, value, message):
    document = json.loads(text[0])
    place = document
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    changed, path = json.dumps(document), text[1]
    if message is not None:
        return refused(path, changed, message)
    path.write_text(changed)
    assert Tagger.from_json(path).predict(X)[0].tolist() == y[0]


def numbers_in(value, keys=()):
    """The places of all numbers, of lists the last one only."""
    if type(value) in (int, float):
        yield keys
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from numbers_in(each, (*keys, key))
    elif isinstance(value, list) and value:
        yield from numbers_in(value[-1], (*keys, len(value) - 1))


@pytest.mark.parametrize("number", ["1e999", "-1e999", "7" * 400, "7" * 5000])
def test_no_number_is_infinite(text, number):
    document = json.loads(text[0])
    document["steps"][1]["fitted"]["training"]["temperature"] = 1.5
    document["steps"][1]["parameters"]["class_weight"] = [[5, 1.0]]
    document["steps"][1]["fitted"]["labels"] = ["O", 7]
    places = list(numbers_in(document))
    assert len(places) > 30
    for *keys, last in places:
        place = document
        for key in keys:
            place = place[key]
        before, place[last] = place[last], "number"
        where = "".join(
            f"[{key}]" if isinstance(key, int) else f", {key}" for key in (*keys, last)
        )
        changed = json.dumps(document).replace('"number"', number)
        message = f"{where.removeprefix(', ')} must be a finite number"
        refused(text[1], changed, re.escape(message))
        place[last] = before


def test_numbers_are_finite_in_single_precision(text):
    document = json.loads(text[0])
    fitted = document["steps"][1]["fitted"]
    fitted["dtype"], fitted["coef"]["values"][2] = "float32", -1e39
    message = r"fitted, coef, values\[2\] must be finite as float32, got -1e\+39"
    refused(text[1], json.dumps(document), message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[:-1], "line 1 column"),
        (lambda t: "", "line 1 column 1"),
        (lambda t: "[]", "the file must be an object"),
        (lambda t: t.encode("utf-16"), "codec can't decode"),
        (lambda t: "[" * 10**5, "nested too deeply"),
        (lambda t: t.replace('"name"', '"name":"x","name"', 1), "a key occurs twice"),
        (lambda t: re.sub(r'"alpha":"auto"', '"alpha":NaN', t), "NaN is not JSON"),
        (
            lambda t: re.sub(r'"start":\[[^,]*', '"start":[1e999', t),
            "must be a finite number",
        ),
    ],
)
def test_text(text, change, message):
    refused(text[1], change(text[0]), message)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([], "the last step, and no other, must be a ChainCRF"),
        ([0], "the last step, and no other, must be a ChainCRF"),
        ([0, 0, 1], "the name 'sequencevectorizer' occurs twice"),
        ([1, 0], "features must be list, got 'of the step before'"),
    ],
)
def test_steps(text, numbers, message):
    document = json.loads(text[0])
    document["steps"] = [document["steps"][k] for k in numbers]
    refused(text[1], json.dumps(document), message)


def test_compressed_text(text):
    path = text[1].with_suffix(".gz")
    refused(path, text[0], "truncated or damaged")
    refused(path, gzip.compress(text[0].encode())[:-9], "truncated or damaged")
    refused(path, gzip.compress(b" " * 10**7), "more than 1000 times as long")


def test_a_short_text_does_not_fill_the_memory(tmp_path):
    # a table of eighty gigabytes, as it is declared
    names = labels = [f"{k}" for k in range(10**5)]
    nothing = {"counts": [0] * len(names), "columns": [], "values": []}
    fitted(loss="log").to_json(tmp_path / "x")
    document = json.loads((tmp_path / "x").read_text())
    vectorizer, chain = (step["fitted"] for step in document["steps"])
    zeros = [0] * len(labels)
    vectorizer |= {"features": names, "counts": nothing["counts"]}
    chain |= {"labels": labels, "n_features": len(names), "coef": nothing}
    chain |= {"transitions": nothing | {"counts": zeros}, "intercept": zeros}
    chain |= {"start": zeros, "end": zeros}
    (tmp_path / "x").write_text(json.dumps(document))
    crf = Tagger.from_json(tmp_path / "x")[-1]
    assert sparse.issparse(crf.coef_) and sparse.issparse(crf.transitions_)


@given(
    st.lists(
        st.tuples(st.integers(0, 2**20), st.sampled_from('0129-.eE"[]{},:ntx ')),
        min_size=1,
        max_size=4,
    )
)
def test_changed_letters(text, edits):
    """What is read is consistent, or refused by a ValueError."""
    letters, path = list(text[0]), text[1]
    for place, letter in edits:
        letters[place % len(letters)] = letter
    path.write_text("".join(letters))
    try:
        tagger = Tagger.from_json(path)
        labels = tagger.predict(X)
    except ValueError:
        return
    assert all(set(row) <= set(tagger[-1].classes_) for row in labels)

"""Probabilities of entities and labelings, entropies and explanations of chains."""

import itertools
import json
import re
import subprocess
import sys
from functools import cache

import joblib
import numpy as np
import pytest
from reference import enumerate_chain
from scipy.special import logsumexp

from sksstruct import ChainCRF, make_tagger
from sksstruct.datasets import make_chain
from sksstruct.inference import scheme_transitions
from sksstruct.metrics import iter_chunks

SETS = {
    "BIO": ["O", "B-X", "I-X", "B-Y", "I-Y"],
    "IOB1": ["O", "I-X", "B-X", "I-Y"],
    "IOBES": ["O", "B-X", "I-X", "E-X", "S-X", "S-Y"],
    "BILOU": ["O", "B-X", "I-X", "L-X", "U-Y", "U-X"],
    "letters": ["O", "B", "I"],
    "no outside": ["B-X", "I-X"],
}
LENGTHS = [1, 3, 0, 4]


def scored(labels, scale, seed=0):
    """A chain whose features are the scores of labels, and the scores."""
    rng = np.random.RandomState(seed)
    n = len(labels)
    tagger = ChainCRF(loss="log").fit([np.eye(n)], [labels])
    # integers, so that there are ties
    tagger.coef_, tagger.intercept_ = np.eye(n), np.zeros(n)
    ends = scale * rng.randint(-2, 3, size=(n + 2, n)).astype(float)
    tagger.start_, tagger.end_, tagger.transitions_ = ends[0], ends[1], ends[2:]
    X = [scale * rng.randint(-2, 3, size=(size, n)).astype(float) for size in LENGTHS]
    return tagger, X


def enumerated(tagger, x, forbidden=()):
    """All labelings of a sequence, as labels, and their scores."""
    classes = tagger.classes_.tolist()
    if not len(x):
        return [[]], np.zeros(1)
    unary = np.asarray(x) @ tagger.coef_.T + tagger.intercept_
    unary[0] += tagger.start_
    unary[-1] += tagger.end_
    codes, scores = enumerate_chain(unary, tagger.transitions_)
    labelings = [[classes[k] for k in row] for row in codes]
    for i, labels in enumerate(labelings):
        pairs = itertools.pairwise([None, *labels, None])
        if any(pair in forbidden for pair in pairs):
            scores[i] = -np.inf
    return labelings, scores


@cache
def chunks_of(labels):
    """Kind, start and stop of the chunks of a labeling."""
    return list(iter_chunks(list(labels)))


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("scale", [0.0, 0.7, 900.0])
@pytest.mark.parametrize("name", SETS)
def test_against_enumeration(name, scale, constrained):
    """Scores of 900 are summed in log space."""
    labels = SETS[name]
    tagger, X = scored(labels, scale)
    arguments, forbidden = {}, []
    if constrained and name != "letters":
        forbidden = scheme_transitions(labels, "IOB1" if name == "IOB1" else "auto")
        arguments = {"forbidden_transitions": forbidden}
    entities, entropy = (
        getattr(tagger, method)(X, **arguments)
        for method in ("predict_entities", "entropy")
    )
    by_position = tagger.entropy(X, positions=True, **arguments)
    marginals = tagger.predict_proba(X, **arguments)
    for i, x in enumerate(X):
        labelings, scores = enumerated(tagger, x, forbidden)
        logs = scores - logsumexp(scores)
        p = np.exp(logs)
        found = tagger.log_proba([x] * len(labelings), labelings, **arguments)
        np.testing.assert_allclose(found, logs, rtol=1e-9, atol=1e-9)
        seen = p > 0
        want = -(p[seen] * logs[seen]).sum()
        np.testing.assert_allclose(entropy[i], want, rtol=1e-9, atol=1e-9)
        chunks = [chunks_of(tuple(row)) for row in labelings]
        predicted = tagger.predict([x], **arguments)[0].tolist()
        seen = [(kind, start, stop) for start, stop, kind, _ in entities[i]]
        assert seen == chunks_of(tuple(predicted))
        for start, stop, kind, probability in entities[i]:
            want = p[[(kind, start, stop) in each for each in chunks]].sum()
            assert probability == pytest.approx(want, rel=1e-9, abs=1e-12)
            assert [type(v) for v in (start, stop, probability)] == [int, int, float]
        q = marginals[i]
        want = -(q * np.log(np.where(q > 0, q, 1.0))).sum(axis=1)
        np.testing.assert_allclose(by_position[i], want, atol=1e-12)


def test_missing_labels_and_sets():
    tagger, X = scored(SETS["BIO"], 0.6)
    rng = np.random.RandomState(1)
    for x in X:
        labelings, scores = enumerated(tagger, x)
        logs = scores - logsumexp(scores)
        for _ in range(5):
            y = [
                [None, label, {label, "O"}, {"I-X", "unseen"}][rng.randint(4)]
                for label in labelings[rng.randint(len(labelings))]
            ]
            if y and all(label is None for label in y):
                continue
            fits = [
                all(
                    want is None
                    or label == want
                    or (type(want) is set and label in want)
                    for label, want in zip(row, y, strict=True)
                )
                for row in labelings
            ]
            (found,) = tagger.log_proba([x], [y])
            assert found == pytest.approx(logsumexp(logs[fits]), abs=1e-9)


def test_impossible_labelings():
    tagger, X = scored(SETS["BIO"], 0.6)
    y = [["O"], ["O", "I-X", "O"], [], ["O", "O", "unseen", "O"]]
    found = tagger.log_proba(X, y, forbidden_transitions="bio")
    assert np.isneginf(found).tolist() == [False, True, False, True]
    known = [None, ["O", None, None], None, None]
    given = tagger.log_proba(X, [["O"] * n for n in LENGTHS], known=known)
    alone = tagger.log_proba(X, [["O"] * n for n in LENGTHS])
    assert given[1] > alone[1] + 1e-3 and given[0] == alone[0]
    # the empty labeling
    assert found[2] == tagger.entropy(X)[2] == 0.0


@pytest.mark.parametrize("scale", [1.0, 400.0])
def test_own_tables_of_positions(scale):
    """With features on pairs of labels, each position has its own transitions."""
    rng = np.random.RandomState(0)
    y = [rng.choice(SETS["letters"], size=n).tolist() for n in (3, 1, 4, 2)]
    X = [rng.normal(size=(len(row), 2)) for row in y]
    tagger = ChainCRF(loss="log", alpha=0.01, transition_features=[0, 1]).fit(X, y)
    tagger.coef_, tagger.transition_coef_ = (
        scale * tagger.coef_,
        scale * tagger.transition_coef_,
    )
    for x, size in zip(X, map(len, y), strict=True):
        rows = [list(row) for row in itertools.product(SETS["letters"], repeat=size)]
        _, scores = tagger.predict_topk([x], len(rows))
        logs = tagger.log_proba([x] * len(rows), rows)
        np.testing.assert_allclose(
            np.sort(logs)[::-1], scores[0] - logsumexp(scores[0]), rtol=1e-9, atol=1e-9
        )
        p = np.exp(logs)
        want = -(p * np.where(p > 0, logs, 0.0)).sum()
        assert tagger.entropy([x])[0] == pytest.approx(want, rel=1e-9, abs=1e-9)
        for start, stop, kind, probability in tagger.predict_entities([x])[0]:
            has = [(kind, start, stop) in list(iter_chunks(row)) for row in rows]
            assert probability == pytest.approx(p[has].sum(), rel=1e-9)
        for t in range(size):
            _check_explanation(tagger, x, t)


def test_long_sequences_do_not_underflow():
    """The probability of a labeling of 3000 positions is no floating-point number."""
    tagger, _ = scored(SETS["BIO"], 0.5)
    x = np.random.RandomState(0).normal(size=(3000, 5))
    (entropy,) = tagger.entropy([x])
    draws = [tagger.predict([x])[0].tolist()]
    log_proba = tagger.log_proba([x], draws)[0]
    assert -np.inf < log_proba < -745 and entropy > -log_proba
    # two halves that are independent of each other
    tagger.transitions_ = np.zeros((5, 5))
    tagger.start_ = tagger.end_ = np.zeros(5)
    whole, halves = tagger.entropy([x])[0], tagger.entropy([x[:1000], x[1000:]])
    assert whole == pytest.approx(halves.sum())


def test_threads_and_storage_change_nothing():
    tagger, _ = scored(SETS["BIO"], 0.5)
    rng = np.random.RandomState(0)
    X = [rng.normal(size=(rng.randint(0, 30), 5)) for _ in range(200)]
    y, flat = [["O"] * len(x) for x in X], itertools.chain.from_iterable
    want = tagger.predict_entities(X), tagger.log_proba(X, y), tagger.entropy(X)
    for change in (
        lambda: tagger.set_params(n_jobs=2),
        tagger.sparsify,
        tagger.densify,
        lambda: tagger.cast(np.float32),
    ):
        change()
        entities = tagger.predict_entities(X)
        for ours, theirs in zip(*map(flat, (entities, want[0])), strict=True):
            assert ours[:3] == theirs[:3] and ours[3] == pytest.approx(theirs[3])
        np.testing.assert_allclose(tagger.log_proba(X, y), want[1])
        np.testing.assert_allclose(tagger.entropy(X), want[2])


# ---- explanations ----


def _check_explanation(tagger, x, t, **arguments):
    """The table accounts for the difference of the best two; the labelings are they."""
    found = tagger.explain(x, t, **arguments)
    listed = {name: [value] for name, value in arguments.items()}
    labelings, scores = (each[0] for each in tagger.predict_topk([x], 10**4, **listed))
    assert found.labels.tolist() == labelings[0].tolist()
    rank = next(k for k, row in enumerate(labelings) if row[t] != labelings[0][t])
    assert found.score == pytest.approx(scores[0])
    assert found.other_score == pytest.approx(scores[rank])
    assert found.labels[t] != found.other_labels[t]
    table, gap = found.table, found.score - found.other_score
    size = np.abs(table["contribution"]).sum()
    assert table["contribution"].sum() == pytest.approx(gap, abs=1e-9 * (1 + size))
    np.testing.assert_allclose(
        table["contribution"],
        table["value"] * (table["weight"] - table["other_weight"]),
        rtol=1e-9,
    )
    assert (np.diff(np.abs(table["contribution"])) <= 0).all()
    return found


@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_explanations(loss):
    rng = np.random.RandomState(0)
    y = [rng.choice(SETS["BIO"], size=n).tolist() for n in (3, 1, 4, 5, 4)]
    X = [rng.normal(size=(len(row), 3)) for row in y]
    tagger = ChainCRF(loss=loss, random_state=0).fit(X, y)
    for x in X:
        for t in range(len(x)):
            _check_explanation(tagger, x, t)
    fixed = ["B-X", None, None, None]
    found = _check_explanation(tagger, X[2], 2, known=fixed)
    assert found.labels[0] == found.other_labels[0] == "B-X"
    excluded = [None, None, {"O", "B-X", "I-X"}, None]
    found = _check_explanation(tagger, X[2], 2, excluded=excluded)
    assert {found.labels[2], found.other_labels[2]} == {"B-Y", "I-Y"}
    with pytest.raises(ValueError, match="leave position t=0 no label but 'B-X'"):
        tagger.explain(X[2], 0, known=fixed)
    for t in (-1, 4, 1.0):
        with pytest.raises(ValueError, match=r"t must be a position .* to 3, got"):
            tagger.explain(X[2], t)
    tagger.sparsify()
    _check_explanation(tagger, X[3], 2)


def test_explanations_have_names_and_displays():
    X = [[{"w": "<Ada>"}, {"w": "ran"}], [{"w": "he"}, {"w": "ran"}]]
    tagger = make_tagger(random_state=0).fit(X, [["B-PER", "O"], ["O", "O"]])
    found = tagger.explain(X[0], 0)
    assert (found.labels[0], found.other_labels[0]) == ("B-PER", "O")
    row = found.table[found.table["feature"] == "w=<Ada>"][0]
    assert row["weight"] == pytest.approx(tagger.state_features_["w=<Ada>", "B-PER"])
    assert row["value"] == 1.0 and row["position"] == 0
    row = found.table[found.table["feature"] == "(transition)"][0]
    assert row["label"] == ("B-PER", "O") and row["other_label"] == ("O", "O")
    text, html = repr(found), found._repr_html_()
    assert text.startswith("position 0: B-PER, not O, by ")
    assert "w=<Ada>" in text and "w=&lt;Ada&gt;" in html and "<Ada>" not in html
    assert "B-PER -> O" in text
    pandas = pytest.importorskip("pandas")
    frame = found.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == len(found.table)
    known = ["O", None]
    assert tagger.explain(X[0], 1, known=known).labels.tolist() == ["O", "O"]


def test_explanations_of_many_features_end_with_the_sum_of_the_rest():
    data = make_chain(20, n_classes=3, n_features=60, random_state=0)
    found = ChainCRF(0.01, random_state=0).fit(data.X, data.y).explain(data.X[0], 1)
    _, header, *rows = repr(found).splitlines()
    shown = [float(row.split()[0]) for row in rows]
    assert header.startswith("contribution") and len(rows) == 21
    gains = found.table["contribution"]
    assert rows[-1].endswith(f"({len(gains) - 20} more)")
    np.testing.assert_allclose(shown[:-1], gains[:20], atol=5.1e-4)
    assert shown[-1] == pytest.approx(gains[20:].sum(), abs=5.1e-4)
    assert sum(gains) == pytest.approx(found.score - found.other_score)


def test_score_functions_have_nothing_to_explain():
    from sksstruct.models import ELUScore

    rng = np.random.RandomState(0)
    X, y = [rng.normal(size=(4, 2)) for _ in range(4)], [["a", "b", "a", "b"]] * 4
    tagger = ChainCRF(
        loss="log", score_function=ELUScore(2), tol=1.0, random_state=0
    ).fit(X, y)
    with pytest.raises(ValueError, match="explain needs weights of features"):
        tagger.explain(X[0], 0)
    rows = [list(row) for row in itertools.product("ab", repeat=4)]
    total = np.exp(tagger.log_proba([X[0]] * 16, rows)).sum()
    assert total == pytest.approx(1.0)


# ---- errors, and life after training ----


def test_errors():
    X, y = [np.eye(2)], [["NN", "VB"]]
    tagger = ChainCRF(loss="log").fit(X, y)
    with pytest.raises(ValueError, match="classes_ has the label 'NN', which is of no"):
        tagger.predict_entities(X)
    with pytest.raises(ValueError, match=r"y\[0\] has 1 labels, but X\[0\] has 2"):
        tagger.log_proba(X, [["NN"]])
    with pytest.raises(ValueError, match="y has 2 sequences, but X has 1"):
        tagger.log_proba(X, y * 2)
    with pytest.raises(ValueError, match=r"X\[0\]: the constraints leave no labeling"):
        tagger.entropy(X, excluded=[[{"NN", "VB"}, None]])
    mixed = ChainCRF(loss="log").fit([np.eye(3)], [["O", "S-X", "U-X"]])
    with pytest.raises(ValueError, match=r"'S-X', which is of the scheme IOBES, but"):
        mixed.predict_entities([np.eye(3)])


def test_the_hinge_says_what_it_lacks():
    X, y = [np.eye(2)], [["O", "B-X"]]
    for tagger in (ChainCRF().fit(X, y), make_tagger()):
        for name in ("predict_entities", "log_proba", "entropy"):
            assert not hasattr(tagger, name)
            with pytest.raises(AttributeError, match=rf"{name}.*CalibratedTagger"):
                getattr(tagger, name)
        assert hasattr(tagger, "explain")


@pytest.mark.slow
def test_served_by_another_process(tmp_path):
    """Saved with joblib, loaded where nothing else was imported, one sentence."""
    X = [[{"w": "Ada"}, {"w": "ran"}], [{"w": "he"}, {"w": "ran"}]]
    y = [["B-PER", "O"], ["O", "O"]]
    tagger = make_tagger(loss="log").fit(X, y)
    joblib.dump(tagger, tmp_path / "tagger.joblib")
    code = (
        "import joblib, json\n"
        f"tagger = joblib.load({str(tmp_path / 'tagger.joblib')!r})\n"
        f"x = {X[0]!r}\n"
        "print(json.dumps([tagger.predict_entities([x]), "
        "tagger.log_proba([x], [['B-PER', None]]).tolist(), "
        "tagger.entropy([x]).tolist(), str(tagger.explain(x, 0))]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    entities, log_proba, entropy, text = json.loads(run.stdout)
    assert [[tuple(each) for each in row] for row in entities] == (
        tagger.predict_entities(X[:1])
    )
    assert log_proba == tagger.log_proba(X[:1], [["B-PER", None]]).tolist()
    assert entropy == tagger.entropy(X[:1]).tolist()
    assert re.match("position 0: B-PER, not O", text)

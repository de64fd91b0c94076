"""What `ArcVectorizer` makes of sentences, against a reference in plain Python."""

import itertools
import pickle
import re
from collections import Counter

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from sksstruct import SSVMClassifier
from sksstruct.feature_extraction import ArcVectorizer
from sksstruct.feature_extraction import _arcs as module
from sksstruct.metrics import token_accuracy_score
from sksstruct.models import DependencyModel
from sksstruct.utils.packed import PackedSequences

TEMPLATES = (
    "|hw|ht|hw,ht|mw|mt|mw,mt|hw,mw|ht,mt|hw,ht,mw|hw,ht,mt|hw,mw,mt|ht,mw,mt|"
    "hw,ht,mw,mt|ht,ht+1,mt-1,mt|ht-1,ht,mt-1,mt|ht,ht+1,mt,mt+1|ht-1,ht,mt,mt+1"
).split("|")


def random_sentences(n_sentences, seed, longest=7, n_words=4):
    """Sentences in which words and tags come back, and any heads."""
    rng = np.random.RandomState(seed)
    X, y = [], []
    for _ in range(n_sentences):
        n = rng.randint(1, longest + 1)
        words, tags = rng.randint(n_words, size=n), rng.randint(3, size=n)
        X.append([(f"w{a}", f"t{b}") for a, b in zip(words, tags, strict=True)])
        y.append(
            [rng.choice([h for h in range(n + 1) if h != m + 1]) for m in range(n)]
        )
    return X, y


def with_morphology(X, seed=0):
    """The sentences with up to three morphological features of each word."""
    rng = np.random.RandomState(seed)

    def some():
        return "|".join(f"F{k}=x" for k in rng.permutation(4)[: rng.randint(4)]) or "_"

    return [[(*token, some()) for token in sentence] for sentence in X]


def features_of_arc(sentence, head, modifier, affixes=()):
    """Names of the features of one arc."""
    words = ["<root>", *(token[0] for token in sentence)]
    tags = ["<root>", *(token[1] for token in sentence), "<end>"]
    given = {"f": [set()], "a": [set()]}
    for word, _, *more in sentence:
        given["f"].append(set("".join(more).split("|")) - {"_", ""})
        given["a"].append({f"w:prefix={word[:k]}" for k in affixes if k <= len(word)}
                          | {f"w:suffix={word[-k:]}" for k in affixes
                             if k <= len(word)})  # fmt: skip

    def value(name):
        at = (head if name[0] == "h" else modifier) + int(name[2:] or 0)
        # before the root there is what is after the last word
        return words[at] if name[1] == "w" else tags[at]

    distance = abs(modifier - head)
    low = max(k for k in (1, 2, 3, 4, 5, 10) if k <= distance)
    arc = f"{'+' if modifier > head else '-'}{low}"
    found = []
    for template in TEMPLATES:
        names = template.split(",") if template else []
        values = [value(name) for name in names]
        if "h" in template:
            found.append("|".join(names) + "=" + "|".join(values))
        found.append("|".join([*names, "arc"]) + "=" + "|".join([*values, arc]))
    for tag in set(tags[min(head, modifier) + 1 : max(head, modifier)]):
        values = [tags[head], tag, tags[modifier]]
        found.append("ht|bt|mt=" + "|".join(values))
        found.append("ht|bt|mt|arc=" + "|".join([*values, arc]))
    for kinds in ("hf", "mf", "hf,mf", "ha", "ma"):
        kinds = kinds.split(",")
        rows = [given[k[1]][head if k[0] == "h" else modifier] for k in kinds]
        names = "|".join(["ht", "mt", *kinds])
        for values in itertools.product([tags[head]], [tags[modifier]], *rows):
            found.append(f"{names}={'|'.join(values)}")
            found.append(f"{names}|arc={'|'.join([*values, arc])}")
    return found


def arcs_of(sentence):
    n = len(sentence)
    return [(h, m) for h in range(n + 1) for m in range(1, n + 1)]


def counts_of(X, y=None, affixes=()):
    """Numbers of arcs that have each feature."""
    counts = Counter()
    for i, sentence in enumerate(X):
        for head, modifier in arcs_of(sentence):
            if head != modifier and (y is None or y[i][modifier - 1] == head):
                counts.update(features_of_arc(sentence, head, modifier, affixes))
    return counts


def check_rows(vectorizer, X, known, affixes=()):
    names = vectorizer.get_feature_names_out()
    packed = vectorizer.transform(X)
    assert packed.values.shape[1] == len(names)
    for sentence, rows in zip(X, packed, strict=True):
        assert rows.shape[0] == len(arcs_of(sentence))
        assert (rows.data == 1).all()
        for k, (head, modifier) in enumerate(arcs_of(sentence)):
            columns = rows.indices[rows.indptr[k] : rows.indptr[k + 1]]
            assert (np.diff(columns) > 0).all()
            expected = set()
            if head != modifier:
                found = features_of_arc(sentence, head, modifier, affixes)
                expected = known & set(found)
            assert set(names[columns]) == expected


@pytest.mark.slow
@pytest.mark.parametrize("min_count", [1, 2, 5])
@pytest.mark.parametrize("with_trees", [True, False])
@pytest.mark.parametrize("more", [False, True])
def test_agrees_with_the_reference(min_count, with_trees, more):
    X, y = random_sentences(8, seed=0)
    X.append([(f"w{k % 3}", f"t{k % 2}") for k in range(14)])  # distances beyond 10
    y.append([0, *range(1, 13), 1])
    y = y if with_trees else None
    new = [[(word, tag.replace("2", "new")) for word, tag in x] for x in X]
    new += random_sentences(5, seed=1, n_words=6)[0]
    affixes = (1, 2, 3) if more else ()
    if more:
        X, new = with_morphology(X), with_morphology(new, seed=1)
        # of some sentences alone, and in vain
        new[0] = [(*token[:2], "F9=x") for token in new[0]]
        X[1] = [token[:2] for token in X[1]]
    vectorizer = ArcVectorizer(min_count=min_count, affixes=affixes).fit(X, y)
    counts = counts_of(X, y, affixes)
    known = {name for name, count in counts.items() if count >= min_count}
    names = vectorizer.get_feature_names_out()
    assert len(names) == len(known) and set(names) == known
    assert vectorizer.counts_.tolist() == [counts[name] for name in names]
    # words and tags that were not seen, too
    check_rows(vectorizer, X, known, affixes)
    check_rows(vectorizer, new, known, affixes)


def test_sentences_of_one_word():
    vectorizer = ArcVectorizer().fit([[("go", "VB")]], [[0]])
    assert vectorizer.transform([[("go", "VB")]])[0].shape == (2, 14 + 18)
    rows = vectorizer.transform([[("run", "VB")], [("no", "UH")]])
    assert rows.values.indptr.tolist()[-2:] == [rows.values.nnz] * 2
    names = vectorizer.get_feature_names_out()[rows[1].indices]
    assert names.tolist() == [
        "arc=+1",
        "hw=<root>",
        "hw|arc=<root>|+1",
        "ht=<root>",
        "ht|arc=<root>|+1",
        "hw|ht=<root>|<root>",
        "hw|ht|arc=<root>|<root>|+1",
    ]


def test_transformer_contract():
    X, y = random_sentences(5, seed=2)
    vectorizer = ArcVectorizer(min_count=2)
    with pytest.raises(NotFittedError):
        vectorizer.transform(X)
    with pytest.raises(NotFittedError):
        vectorizer.get_feature_names_out()
    packed = vectorizer.fit_transform(X, y)
    assert isinstance(packed, PackedSequences) and packed.values.has_canonical_format
    assert len(packed[1:3]) == 2
    for other in (
        pickle.loads(pickle.dumps(vectorizer)),
        clone(vectorizer).fit(iter(X), [np.array(heads) for heads in y]),
        clone(vectorizer).fit([[list(token) for token in x] for x in X], y),
    ):
        again = other.transform(tuple(X))
        assert (packed.values != again.values).nnz == 0
        names = vectorizer.get_feature_names_out()
        assert other.get_feature_names_out().tolist() == names.tolist()
    assert vectorizer.transform([]).values.shape == (0, packed.n_features)
    assert clone(vectorizer).min_count == 2


BAD = {
    "X is a single str": ("a cat", None),
    "X is a single dict": ({"a": "DT"}, None),
    "X is a single int": (3, None),
    "X is empty": ([], None),
    r"X\[0\] must be a list of \(word, tag\) pairs, got 'cat'": (["cat"], None),
    r"X\[0\]\[1\] must be a pair .* got 'cat'": ([[("a", "DT"), "cat"]], None),
    r"X\[0\]\[0\] must be a pair .* got \('a',\)": ([[("a",)]], None),
    r"X\[0\]\[0\] must be a pair .* got \('a', 1\)": ([[("a", 1)]], None),
    r"X\[0\]\[0\] must be a pair .* got \('a', 'X', None\)": (
        [[("a", "X", None)]],
        None,
    ),
    "the 1 sentences of X, got 2": ([[("a", "DT")]], [[0], [0]]),
    r"y\[0\] must be integers of shape \(1,\)": ([[("a", "DT")]], [[0, 1]]),
    r"y\[0\] must be integers .* got float64": ([[("a", "DT")]], [[0.0]]),
    r"y\[0\] must be integers .* convert what was read": ([[("a", "DT")]], [["0"]]),
    r"y\[0\] has head 1 for word 1": ([[("a", "DT")]], [[1]]),
    r"y\[0\] has head 3 for word 2": ([[("a", "DT"), ("b", "X")]], [[0, 3]]),
    r"y\[0\] has head -1 for word 1": ([[("a", "DT"), ("b", "X")]], [[-1, 0]]),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_data(text):
    with pytest.raises((TypeError, ValueError), match=text):
        ArcVectorizer().fit(*BAD[text])


def test_bad_sentences_at_prediction():
    vectorizer = ArcVectorizer().fit([[("a", "DT")]])
    with pytest.raises(TypeError, match=re.escape("X[1][0] must be a pair")):
        vectorizer.transform([[("a", "DT")], ["a"]])


def test_bad_parameters():
    X = [[("a", "DT")]]
    with pytest.raises(ValueError, match="min_count"):
        ArcVectorizer(min_count=0).fit(X)
    with pytest.raises(ValueError, match=r"affixes .* got 0"):
        ArcVectorizer(affixes=(2, 0)).fit(X)
    with pytest.raises(ValueError, match=r"affixes .* got '3'"):
        ArcVectorizer(affixes=["3"]).fit(X)
    with pytest.raises(ValueError, match="no feature occurs on min_count=9"):
        ArcVectorizer(min_count=9).fit(X)


def test_too_many_combinations(monkeypatch):
    monkeypatch.setattr(module, "_MOST", 100)
    with pytest.raises(ValueError, match="3 words and 1 tags"):
        ArcVectorizer().fit([[(word, "NN") for word in "abc"]])


def grammar(n_sentences, seed):
    """Subject, verb, and sometimes an object; articles and adjectives before nouns."""
    rng = np.random.RandomState(seed)
    X, y = [], []
    for _ in range(n_sentences):
        tokens, heads, nouns = [], [], []
        for _ in range(rng.randint(1, 3)):
            below = ["DT", *["JJ"] * rng.randint(3)]
            noun = len(tokens) + len(below) + 1
            tokens += [*below, "NN"]
            heads += [noun] * len(below) + [None]
            nouns.append(noun)
            if len(nouns) == 1:
                tokens.append("VB")
                heads.append(0)
        verb = nouns[0] + 1
        X.append([(f"{tag}{rng.randint(9)}", tag) for tag in tokens])
        y.append([verb if head is None else head for head in heads])
    return X, y


@pytest.mark.slow
@pytest.mark.parametrize("projective", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_pipeline_learns_a_grammar(projective, loss):
    X, y = grammar(40, seed=0)
    test, true = grammar(40, seed=1)
    parser = make_pipeline(
        ArcVectorizer(),
        SSVMClassifier(
            DependencyModel(projective), loss=loss, alpha=1e-3, random_state=0
        ),
    )
    parser.fit(X, y)
    assert token_accuracy_score(true, parser.predict(test)) == 1.0
    assert parser.score(test, true) == 1.0
    again = pickle.loads(pickle.dumps(parser)).predict(test)
    assert all(map(np.array_equal, again, true))

"""Attributes from columns: words that are none, and templates of Wapiti."""

import numpy as np
import pytest

from sksstruct import ChainCRF, Tagger
from sksstruct.feature_extraction import (
    ArcVectorizer,
    ClusterFeatures,
    ColumnFeatures,
    GazetteerFeatures,
    SequenceHasher,
    SequenceVectorizer,
    WordClusters,
    WordVectors,
)

LOOKED_UP = [
    ClusterFeatures({"Ada": "01"}),
    GazetteerFeatures({"person": ["Ada"]}),
    WordClusters(),
]
VECTORS = {"Ada": [1.0, 2.0]}


def tuples(words):
    return (words,)


def dicts(words):
    return [{"w": word} for word in words]


def lists(words):
    return [[word] for word in words]


def pairs(words):
    return [(word, "N") for word in words]


@pytest.mark.parametrize("bad", [np.nan, None, 12, b"saw"], ids=repr)
@pytest.mark.parametrize(
    ("transformer", "form", "place"),
    [
        (ColumnFeatures(), list, r"X\[1\]\[2\] "),
        (ColumnFeatures(), tuples, r"X\[1\]\[0\]\[2\] "),
        (ColumnFeatures(), dicts, r"X\[1\]\['w'\]\[2\] "),
        *((each, list, r"X\[1\]\[2\] ") for each in LOOKED_UP),
        *((each, dicts, r"X\[1\]\[2\]\['w'\] ") for each in LOOKED_UP),
        (WordVectors(VECTORS), list, r"X\[1\]\[2\] "),
        (WordVectors(VECTORS), dicts, r"X\[1\]\['w'\]\[2\] "),
        (ArcVectorizer(), pairs, r"X\[1\]\[2\] "),
        (SequenceVectorizer(), lists, r"X\[1\] .* position 2"),
        (SequenceHasher(), lists, r"X\[1\] .* position 2"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_missing_words(transformer, form, place, bad):
    """The place and value of the word that is none, and not of one that is right."""
    X = [form(["Ada", "saw"]), form(["Ada", "saw", bad, "."])]
    with pytest.raises(TypeError, match=rf"^{place}.*{bad!r}"):
        transformer.fit_transform(X)


@pytest.mark.parametrize("words", [[None, "saw"], [None], [b"Ada"]], ids=str)
def test_missing_first_word(words):
    with pytest.raises(TypeError, match=rf"^X\[0\]\[0\] must be .* {words[0]!r}$"):
        ColumnFeatures().fit([words])


def test_templates_of_wapiti():
    X = [(["Ada", "Ran"], ["NNP", "VBD"])]
    template = "u:w=%X[0,0]/%x[-1,0]\nb\nb:t=%x[0,1]\n*:s=%X[1,1]\n*\nB"
    features = ColumnFeatures(template)
    assert features.fit_transform(X) == [
        [
            ["U:w=ada/_B-1", "B:t=NNP", "B*:s=vbd"],
            ["U:w=ran/Ada", "B:t=VBD", "B*:s=_B+1"],
        ]
    ]
    assert features.has_pairs_
    assert not ColumnFeatures("u:%x[0,0]\nb").fit(X).has_pairs_
    crf = ChainCRF(transition_features="B", random_state=0)
    steps = [("columns", features), ("features", SequenceVectorizer()), ("crf", crf)]
    tagger = Tagger(steps).fit(X, [["P", "O"]])
    assert tagger[-1].transition_coef_.shape[-1] == 4


@pytest.mark.parametrize("macro", ['%m[0,0,"a"]', '%T[0,0,"a"]', "%x[@0,0]"])
def test_templates_that_have_to_be_rewritten(macro):
    match = r"line 2: .* not supported: put their values into a column"
    with pytest.raises(ValueError, match=match):
        ColumnFeatures(f"u:%x[0,0]\nu:{macro}").fit([["a"]])

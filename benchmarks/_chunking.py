"""CoNLL-2000 chunking with the usual CRFsuite template: 19 attributes a token."""

from sksstruct.datasets import fetch_conll2000
from sksstruct.feature_extraction import window_features

_W = [[("w", k)] for k in range(-2, 3)] + [[("w", k), ("w", k + 1)] for k in (-1, 0)]
_POS = (
    [[("pos", k)] for k in range(-2, 3)]
    + [[("pos", k), ("pos", k + 1)] for k in range(-2, 2)]
    + [[("pos", k), ("pos", k + 1), ("pos", k + 2)] for k in range(-2, 1)]
)


def chunking_features(words, tags):
    """Attributes of one sentence."""
    return window_features({"w": words, "pos": tags}, _W + _POS)


def chunking_data(subset, data_home=None):
    """Lists of attribute strings, and labels."""
    data = fetch_conll2000(subset, data_home=data_home)
    pairs = zip(data.words, data.tags, strict=True)
    return [chunking_features(words, tags) for words, tags in pairs], data.labels

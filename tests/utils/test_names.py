"""Names of features: packed, compared, and read from damaged files."""

import pickle

import numpy as np
import pytest

from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.utils._names import FeatureNames
from sksstruct.utils.packed import PackedSequences

NAMES = ["", "w=a", "w=é", "\U0001f600\n\x00", "\ud800", "w=a "]


def test_round_trip():
    names = FeatureNames(np.array(NAMES, dtype=object))
    twin = pickle.loads(pickle.dumps(names))
    assert twin == names and hash(twin) == hash(names) and len(twin) == 6
    assert twin.tolist() == list(twin) == twin.to_array().tolist() == NAMES
    assert twin.to_array() is twin.to_array() and np.array(twin).dtype == object
    assert FeatureNames.of(twin) is twin and FeatureNames.of(None) is None
    assert names == NAMES == names and names != FeatureNames(NAMES[1:])
    assert names != NAMES[1:] and names != "w"
    with pytest.raises(TypeError, match=r"feature_names\[1\] must be a string"):
        PackedSequences([[0.0, 1.0]], [0, 1], ["a", 3])


@pytest.mark.parametrize(
    "change",
    [
        {"names_lengths": np.array([3, -1], dtype=np.int32)},
        {"names_lengths": np.array([1, 2], dtype=np.int32)},
        {"names_lengths": np.array([1, 1], dtype=np.int64)},
        {"names_utf8": np.array([97, 255], dtype=np.uint8)},
        {"names_utf8": "ab"},
    ],
)
def test_damaged_names_are_refused(change):
    vectorizer = SequenceVectorizer().fit([[["a", "b"]]])
    state = vectorizer.__getstate__()
    SequenceVectorizer().__setstate__(state)
    names = next(name for name, v in state.items() if FeatureNames.is_packed(v))
    with pytest.raises(ValueError, match=r"packed names|utf-8"):
        SequenceVectorizer().__setstate__({**state, names: state[names] | change})
    for counts in (np.ones(3, dtype=np.int64), np.ones(1, dtype=np.int64)):
        with pytest.raises(ValueError, match="name for each"):
            SequenceVectorizer().__setstate__({**state, "counts_": counts})

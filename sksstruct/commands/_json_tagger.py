"""A tagger of columns by a model in JSON, without scikit-learn and SciPy.

The tagger has the weights of a `ChainCRF` of the first order without constraints, in
double precision. Files of other models are left to `sksstruct.Tagger.from_json`.
"""

import json

import numpy as np

from sksstruct.commands._label_scores import write_label_scores
from sksstruct.feature_extraction._collect import collect
from sksstruct.feature_extraction._column_rules import expand, parse, usual
from sksstruct.feature_extraction._vocabulary import Vocabulary
from sksstruct.inference.chains._viterbi import find_each
from sksstruct.utils._layout import pad_rows, padded_length

# Errors of `JsonTagger` for files with another model, and for damaged files.
UNREADABLE = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
)  # fmt: skip
_STEPS = ["ColumnFeatures", "SequenceVectorizer", "ChainCRF"]
_FORMAT = "sksstruct tagger", 1
# Number of sentences whose scores are in memory at the same time.
_BLOCK = 500
# Largest number of bytes of a table of weights; larger tables may be sparse in a
# `ChainCRF`.
_SMALL = 2**26
# Parameters and fitted attributes that `JsonTagger` requires.
_CHAIN = {
    "order": 1,
    "risk": "sequence",
    "score_function": None,
    "transition_features": None,
}
_FITTED = {
    "features": "of the step before",
    "dtype": "float64",
    "sparse": [],
    "transition_coef": None,
    "triples": None,
    "forbidden_transitions": [],
}


class JsonTagger:
    """Tagger that predicts like the tagger that `sksstruct.Tagger.from_json` reads.

    Parameters
    ----------
    name : str
        The file.

    Attributes
    ----------
    n_columns : int
        Number of columns that the model was trained on.

    Raises
    ------
    UNREADABLE
        If the file has another model, or is damaged: `Tagger.from_json` says where.
    """

    def __init__(self, name):
        with open(name, encoding="utf-8") as file:
            # `int` refuses "NaN" and "Infinity", which are not JSON
            document = json.load(file, parse_constant=int)
        _require((document["format"], document["format_version"]) == _FORMAT)
        steps = document["steps"]
        _require([step["class"] for step in steps] == _STEPS)
        columns, vectorizer, chain = (step["fitted"] for step in steps)
        given = [step["parameters"] for step in steps]
        template, self._separator = given[0]["template"], given[1]["separator"]
        _require(given[1]["dtype"] == "float64" and type(self._separator) is str)
        _require(all(given[2][key] == value for key, value in _CHAIN.items()))
        _require(all(chain[key] == value for key, value in _FITTED.items()))
        self.n_columns = columns["n_columns"]
        _require(type(self.n_columns) is int and self.n_columns > 0)
        self._rules = template and [parts for _, _, parts in parse(template)]
        named = [part[1] for parts in self._rules or () for part in parts[1::2]]
        _require(max(named, default=0) < self.n_columns)
        self._set_weights(vectorizer["features"], chain)

    def _set_weights(self, names, chain):
        """Store dense tables of the weights, in rows that are padded for the kernel."""
        self._labels, n_features = chain["labels"], len(names)
        n_labels = len(self._labels)
        for strings in (names, self._labels):
            _require(strings and set(map(type, strings)) == {str})
            _require(len(set(strings)) == len(strings))
        _require(chain["n_features"] == n_features)
        ld = padded_length(n_labels)
        _require(8 * ld * max(n_features, n_labels) <= _SMALL)
        self._weights = pad_rows(_table(chain["coef"], n_features, n_labels))
        self._transitions = pad_rows(_table(chain["transitions"], n_labels, n_labels))
        ends = [_numbers(chain[key], n_labels) for key in ("intercept", "start", "end")]
        self._bias, self._start, self._end = pad_rows(ends)
        self._vocabulary = Vocabulary(names)

    def predict(self, X):
        """Best labels of sentences.

        Parameters
        ----------
        X : list of tuple of list of str
            The columns of each sentence.

        Returns
        -------
        y : list of list of str
            Labels.
        """
        labels = []
        for first in range(0, len(X), _BLOCK):
            labels += self._labeled(X[first : first + _BLOCK], first)
        return labels

    def _labeled(self, X, first):
        """Return the labels of some sentences; errors count sentences from `first`."""
        if self._rules is None:
            items = [usual(columns) for columns in X]
        else:
            items = [expand(self._rules, columns) for columns in X]
        values, features, rows, offsets, _ = collect(
            items, self._vocabulary, False, self._separator, False
        )
        theta = np.empty((offsets[-1], self._weights.shape[1]))
        write_label_scores(values, features, rows, self._weights, self._bias, theta)
        theta[offsets[:-1]] += self._start
        theta[offsets[1:] - 1] += self._end
        codes = np.empty(len(theta), dtype=np.int32)
        # every chain has the transitions of table 0, at all of its positions
        same, scores = np.zeros(len(X), dtype=np.intp), np.empty(len(X))
        find_each(
            len(self._labels), theta, offsets, self._transitions, same, same, codes,
            scores,
        )  # fmt: skip
        for i in np.flatnonzero(~np.isfinite(scores)):
            raise ValueError(
                f"X[{first + i}]: its scores are too large for floating-point "
                "arithmetic"
            )
        flat, bounds = [self._labels[k] for k in codes.tolist()], offsets.tolist()
        return [flat[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def _require(is_so):
    if not is_so:
        raise ValueError("another model, or a damaged file")


def _numbers(values, n):
    _require(len(values) == n and set(map(type, values)) <= {int, float})
    numbers = np.array(values, dtype=np.float64)
    _require(np.isfinite(numbers).all())
    return numbers


def _table(part, n_rows, n_columns):
    """Return a dense table of weights that a file stores sparsely, row by row.

    The file has the number of entries of each row, and all columns and values.
    """
    counts, columns = (
        np.array(part[key] or np.zeros(0, int)) for key in ("counts", "columns")
    )
    values = _numbers(part["values"], len(columns))
    _require(len(counts) == n_rows and counts.sum() == len(columns))
    rows = np.repeat(np.arange(n_rows), counts)
    places = rows * n_columns + columns
    # a negative column, or one beyond the last, is in the range of another row
    _require((np.diff(places) > 0).all() and (columns // n_columns == 0).all())
    table = np.zeros((n_rows, n_columns))
    table[rows, columns] = values
    return table

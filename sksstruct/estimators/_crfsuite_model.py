"""Taggers as CRFsuite models, and CRFsuite models as taggers."""

import numpy as np
from scipy import sparse

from sksstruct.estimators._crfsuite_format import CRFsuiteModel
from sksstruct.utils._names import FeatureNames
from sksstruct.utils.labels import LabelEncoder
from sksstruct.utils.validation import check_sequences

# Weight that stands for a forbidden label or pair. It is finite because CRFsuite's
# Viterbi search reads an unset backpointer where all scores of a label are -inf.
FORBIDDEN = -1e30
# A table of weights is read as a dense array if the array has at most this number of
# bytes, whatever the size of the file.
_SMALL = 2**26
# A larger table is read as a dense array if the array has at most this multiple of the
# bytes of the file: a small file must not fill the memory.
_TIMES = 16


def is_small(n_rows, n_columns, n_bytes):
    """Whether a dense table is small, by itself or relative to its file of n_bytes."""
    return 8 * n_rows * n_columns <= max(_SMALL, _TIMES * n_bytes)


class CRFsuiteWeights:
    """The weights of a fitted tagger in the form of a CRFsuite model.

    CRFsuite has weights of attributes and of pairs of labels only. The bias of a label
    is added to the weights of all pairs that end with the label, and to its weight as
    first label. The weights of first and last labels become weights of two attributes
    that mark the first and the last position.

    Parameters
    ----------
    crf : ChainCRF
        A fitted tagger.
    names : FeatureNames or None
        Names of the features of `crf`, with their spellings if these are known.
    first, last : str
        Names of the attributes of the first and of the last position.

    Attributes
    ----------
    marks : list of (str, int, ndarray of shape (n_labels,))
        Name, position and weights of the attributes of the first and of the last
        position; an attribute without weights is left out.
    """

    def __init__(self, crf, names, first, last):
        self.crf, fitted = crf, vars(crf)
        if "score_parameters_" in fitted:
            raise ValueError(
                "CRFsuite has no score_function: train the ChainCRF without one"
            )
        if "transition_coef_" in fitted and crf.transition_coef_.nnz:
            raise ValueError(
                "CRFsuite has no weights of features on pairs of labels: train without "
                "transition_features"
            )
        if "triples_" in fitted and crf.triples_.nnz:
            raise ValueError("CRFsuite has no weights of triples: use order=1")
        if names is None:
            raise ValueError(
                "CRFsuite needs names of the features, which X did not have in fit: "
                "use a SequenceVectorizer, or PackedSequences with feature_names"
            )
        if not isinstance(first, str) or not isinstance(last, str) or first == last:
            raise ValueError(
                f"first and last must be different strings, got {first!r} and {last!r}"
            )
        labels = crf.classes_.tolist()
        index = {label: k for k, label in enumerate(labels)}
        bias = np.asarray(crf.intercept_, dtype=np.float64)
        table = crf.transitions_
        table = table.toarray() if sparse.issparse(table) else table
        # scores of a calibrated tagger are divided by its temperature
        self._scale = 1.0 / (crf._temperature or 1.0)
        # row 0 has the weights of first labels, row 1 has the weights of last labels,
        # and row 2 + k has the weights of pairs whose first label is k
        rows = self._scale * np.vstack([bias + crf.start_, crf.end_, bias + table])
        for before, after in crf.forbidden_transitions_:
            if before is None:
                rows[0, index[after]] = FORBIDDEN
            elif after is None:
                rows[1, index[before]] = FORBIDDEN
            else:
                rows[2 + index[before], index[after]] = FORBIDDEN
        ends = (first, 0, rows[0]), (last, -1, rows[1])
        self.marks = [mark for mark in ends if mark[2].any()]
        self._labels, self._transitions = labels, rows[2:]
        self._names = names.spelled()

    def _owners(self, coef):
        """Dict from the name of each attribute to the column of its feature."""
        if len(names := self.crf._names_in.to_list()) > len(set(names)):
            raise ValueError(
                "the features of X in fit must have different names for CRFsuite"
            )
        places, used = {}, np.diff(coef.indptr) > 0
        for j, spelled in enumerate(self._names):
            for name in spelled:
                k = places.setdefault(name, j)
                if k != j and (used[k] or used[j]):
                    raise ValueError(
                        f"the features {names[k]!r:.80} and {names[j]!r:.80} are one "
                        f"attribute for CRFsuite, {name!r:.80}: train with "
                        "SequenceVectorizer(separator=':')"
                    )
        return places

    def model(self):
        """The `CRFsuiteModel`, with all attributes that have a nonzero weight."""
        for label in self._labels:
            if not isinstance(label, str):
                raise ValueError(
                    f"labels of CRFsuite are strings, and not {label!r:.80}"
                )
        coef, n = sparse.csr_array(self.crf.coef_.T), len(self._labels)
        coef.eliminate_zeros()
        owners = self._owners(coef)
        coef = coef[list(owners.values())].tocoo()
        places = {name: k for k, name in enumerate(owners)}
        entries = [(self._scale * coef.data.astype(np.float64), coef.row, coef.col)]
        for name, _, row in self.marks:
            j = places.setdefault(name, len(places))
            entries.append((row, np.full(n, j), np.arange(n)))
        data, rows, columns = map(np.concatenate, zip(*entries, strict=True))
        states = sparse.csr_array((data, (rows, columns)), shape=(len(places), n))
        states.eliminate_zeros()
        used, names = np.flatnonzero(np.diff(states.indptr)), list(places)
        return CRFsuiteModel(
            self._labels,
            [names[j] for j in used.tolist()],
            states[used],
            sparse.csr_array(self._transitions),
        )

    def items(self, X):
        """Attributes of sequences: a dict of names and values for each position."""
        crf = self.crf
        packed = check_sequences(X, n_features=crf.n_features_in_, all_empty=True)
        packed = packed.in_one_form()
        crf._check_feature_names(packed)
        rows = sparse.csr_array(packed.values)
        names = np.array([spelled[0] for spelled in self._names], dtype=object)
        attributes, values = names[rows.indices].tolist(), rows.data.tolist()
        items = [
            dict(zip(attributes[a:b], values[a:b], strict=True))
            for a, b in _pairs(rows.indptr)
        ]
        sequences = [items[a:b] for a, b in _pairs(packed.offsets)]
        features = {name for spelled in self._names for name in spelled}
        for name, place, _ in self.marks:
            for i, sequence in enumerate(sequences):
                if name in features:
                    _check_mark(i, sequence, name, place)
                elif sequence:
                    sequence[place][name] = 1.0
        return sequences


def _pairs(bounds):
    bounds = bounds.tolist()
    return zip(bounds[:-1], bounds[1:], strict=True)


def _check_mark(i, sequence, name, place):
    """Raise an error if a feature has the name of the attribute that marks a position.

    The feature is allowed if its only nonzero value is a 1 at the marked position.
    """
    found = {t: item[name] for t, item in enumerate(sequence) if item.get(name)}
    if sequence and found != {range(len(sequence))[place]: 1.0}:
        end = "last" if place else "first"
        raise ValueError(
            f"X[{i}]: the feature {name!r:.80}, which is also the mark of the {end} "
            f"position, must be 1 there and nowhere else; it is at "
            f"{list(found)!r:.80}: give the mark another name by {end}="
        )


def weights_of(model, n_bytes, first=None, last=None):
    """Fitted attributes of a tagger for a CRFsuite model; `n_bytes` is its file's size.

    Labels stay in the order of the file, which decides between equal scores. The
    attributes `first` and `last` become weights of the first and of the last label.
    """
    model, (start, end) = _unmarked(model, (first, last))
    n_labels, n_features = len(model.labels), len(model.attributes)
    pairs, labels = model.transitions.tocoo(), model.labels
    is_forbidden = pairs.data <= FORBIDDEN
    places = pairs.row[is_forbidden].tolist(), pairs.col[is_forbidden].tolist()
    pairs.data[is_forbidden] = 0.0
    forbidden = []
    for row in (start, end):
        forbidden.append([labels[k] for k in np.flatnonzero(row <= FORBIDDEN)])
        row[row <= FORBIDDEN] = 0.0
    transitions, coef = pairs.tocsr(), model.states.T
    if is_small(n_labels, n_labels, n_bytes):
        transitions = transitions.toarray()
    if is_small(n_labels, n_features, n_bytes):
        coef = coef.toarray()
    return {
        "classes_": LabelEncoder.in_order(labels).classes_,
        "n_features_in_": n_features,
        "_names_in": FeatureNames(model.attributes),
        "coef_": coef,
        "intercept_": np.zeros(n_labels),
        "start_": start,
        "end_": end,
        "transitions_": transitions,
        "forbidden_transitions_": [
            *((None, label) for label in forbidden[0]),
            *((label, None) for label in forbidden[1]),
            *((labels[a], labels[b]) for a, b in zip(*places, strict=True)),
        ],
    }


def _unmarked(model, marks):
    """A model without the attributes `marks`, and the weights of these attributes."""
    rows, keep = np.zeros((2, len(model.labels))), np.ones(len(model.attributes), bool)
    for row, mark in zip(rows, marks, strict=True):
        if mark in model.attributes:
            j = model.attributes.index(mark)
            row += model.states[[j]].toarray()[0]
            keep[j] = False
    attributes = [model.attributes[j] for j in np.flatnonzero(keep).tolist()]
    states = model.states[keep]
    return CRFsuiteModel(model.labels, attributes, states, model.transitions), rows

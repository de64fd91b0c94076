"""Sets of labels as `MultilabelPairwise` trains and decodes them."""

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import type_of_target

from sksstruct.factor_graphs import DenseTable, FactorGraph
from sksstruct.inference.cuts._roof_dual import RoofDual
from sksstruct.inference.lp import resolve_map_solver
from sksstruct.models.multilabel._multilabel import BoundMultilabel
from sksstruct.models.spec import ROWS, ModelSpec
from sksstruct.utils.parallel import run_in_chunks
from sksstruct.utils.sparse_input import validate_rows
from sksstruct.utils.validation import check_example_weight

# Largest number of labels left open by the relaxation that are enumerated.
MOST_OPEN = 16


class MultilabelModel(ModelSpec):
    """Scores of labels, and of pairs of them.

    Parameters
    ----------
    pairs, interaction_scaling, fit_intercept
        As in `sksstruct.MultilabelPairwise`.
    enumerates : callable
        ``enumerates(n_labels)`` returns whether all sets of labels are tried.

    Attributes
    ----------
    classes_ : ndarray
        Numbers of the labels, or the two values where y was 1-D.
    label_pairs_ : ndarray of shape (n_pairs, 2)
        Pairs of labels that interact.
    """

    def __init__(self, *, pairs, interaction_scaling, fit_intercept, enumerates):
        self.pairs = pairs
        self.interaction_scaling = interaction_scaling
        self.fit_intercept = fit_intercept
        self.enumerates = enumerates

    def _read(self, X, y, sample_weight, seen):
        X, y = validate_rows(seen, X, y, **ROWS, multi_output=True)
        if sparse.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        self._sparse_output = sparse.issparse(y)
        Y, self._values = columns_of(y)
        n_labels = Y.shape[1]
        self.classes_ = np.arange(n_labels) if self._values is None else self._values
        self.label_pairs_ = check_pairs(self.pairs, Y)
        self._exact = self.enumerates(n_labels)
        keep, weight = check_example_weight(sample_weight, len(Y))
        if len(keep) < len(Y):
            X, Y = X[keep], Y[keep]
            if self._values is not None and len(np.unique(Y)) < 2:
                raise ValueError(
                    "y has 1 class where sample_weight is positive: training needs 2"
                )
        return X, Y, weight

    def _bind(self, examples):
        X, Y, weight = examples
        return BoundMultilabel.bind(
            X,
            Y.shape[1],
            self.label_pairs_,
            Y,
            weight,
            scaling=self.interaction_scaling,
            exact=self._exact,
            fit_intercept=self.fit_intercept,
        )

    def _attributes(self, weights, views=None):
        n_pairs = len(self.label_pairs_)
        coef, pair_coef = views["coef"], views["pair_coef"]
        table = np.zeros((len(coef), len(coef)))
        if n_pairs:
            first, second = self.label_pairs_.T
            table[first, second] = self.interaction_scaling * pair_coef
            table[second, first] = table[first, second]
        bias = self.fit_intercept
        return {
            "classes_": self.classes_,
            "_values": self._values,
            "label_pairs_": self.label_pairs_,
            "_sparse_output": self._sparse_output,
            "coef_": np.ascontiguousarray(coef[:, :-1] if bias else coef),
            "intercept_": coef[:, -1].copy() if bias else np.zeros(len(coef)),
            "interactions_": table,
        }


def columns_of(y):
    """Label indicator as 0 and 1, and the values of a single label or None."""
    if sparse.issparse(y):
        y = y.toarray()
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind.startswith("continuous"):
        raise ValueError(f"Unknown label type: {kind}; a label indicator has 0 and 1")
    if y.ndim == 2 and (y.dtype.kind in "biuf" and np.isin(y, (0, 1)).all()):
        if y.shape[1] == 0:
            raise ValueError("y has no label")
        return y.astype(np.int32), None
    if y.ndim == 2 and y.shape[1] > 1:
        raise ValueError(
            f"y must be a label indicator of 0 and 1 with a column for each label, "
            f"got {kind} values such as {y.ravel()[:4].tolist()}"
        )
    values, codes = np.unique(y, return_inverse=True)
    if len(values) > 2:
        raise ValueError(
            "Only binary classification is supported for 1-D y. The type of the target "
            f"is {kind}; a label indicator has a column for each label"
        )
    if len(values) < 2:
        raise ValueError(f"y has 1 class, {values.tolist()[0]!r}: training needs 2")
    return codes.astype(np.int32).reshape(-1, 1), values


def check_pairs(pairs, Y):
    """Pairs of labels that interact, each once, the smaller number first."""
    n = Y.shape[1]
    if isinstance(pairs, str):
        if pairs == "all":
            found = np.column_stack(np.triu_indices(n, 1))
        else:
            both = sparse.csr_array(Y)
            found = np.argwhere(np.triu((both.T @ both).toarray(), 1))
        return np.ascontiguousarray(found, dtype=np.intp).reshape(-1, 2)
    try:
        pairs = np.asarray(pairs)
    except ValueError:
        raise ValueError("pairs must be rows of two labels each") from None
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.intp)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(
            "pairs must be 'all', 'cooccurring', or an array of integers of shape "
            f"(n_pairs, 2), got {pairs.dtype} of shape {pairs.shape}"
        )
    if pairs.min() < 0 or pairs.max() >= n or (pairs[:, 0] == pairs[:, 1]).any():
        raise ValueError(f"pairs must name two different ones of the {n} labels")
    pairs = np.sort(pairs, axis=1).astype(np.intp)
    if len(np.unique(pairs, axis=0)) < len(pairs):
        raise ValueError("pairs names a pair of labels twice")
    return pairs


def decode(unaries, pairs, interactions, *, exact, by_gdmm, n_jobs):
    """Best labels of samples with the given unary scores, as 0 and 1."""
    n, n_labels = unaries.shape
    scores = interactions[pairs[:, 0], pairs[:, 1]]
    used = scores != 0.0
    pairs, scores = pairs[used], scores[used]
    labels = np.empty((n, n_labels), dtype=np.int64)

    def run(first, last):
        solver = RoofDual(pairs, n_labels)
        for i in range(first, last):
            if by_gdmm:
                labels[i] = _by_gdmm(unaries[i], pairs, scores)
                continue
            y, _ = solver.solve(unaries[i], scores, exact=exact)
            open_ = np.flatnonzero(y == 0.5)
            if len(open_):
                y[open_] = _decide_open(
                    y, open_, unaries[i], pairs, scores, interactions
                )
            labels[i] = y

    run_in_chunks(run, n, n_jobs)
    return labels


def _decide_open(y, open_, unary, pairs, scores, interactions):
    """Values of the labels that the relaxation left open, the others being fixed."""
    fixed = np.where(y == 0.5, 0.0, y)
    inner = unary[open_] + interactions[open_] @ fixed
    places = np.full(len(y), -1)
    places[open_] = np.arange(len(open_))
    ends = places[pairs]
    inside = (ends >= 0).all(axis=1)
    ends, scores = ends[inside], scores[inside]
    if len(open_) <= MOST_OPEN:
        return RoofDual(ends, len(open_)).solve(inner, scores, exact=True)[0]
    return _by_gdmm(inner, ends, scores)


def _by_gdmm(unary, pairs, scores):
    """Labels by Algorithm 2 of Huang et al. (2017)."""
    unaries = np.column_stack([np.zeros_like(unary), unary])
    if not len(pairs):
        return (unary > 0.0).astype(np.int64)
    graph = FactorGraph(
        unaries, pairs, DenseTable([[0.0, 0.0], [0.0, 1.0]]), edge_weights=scores
    )
    return resolve_map_solver("gdmm_binary").solve(graph, random_state=0).labeling

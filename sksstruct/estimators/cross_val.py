"""Cross-validated probabilities: each sequence by a tagger not trained on it."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, _num_samples

from sksstruct.utils.labels import LabelEncoder
from sksstruct.utils.typing import Items, Labelings


def cross_val_proba(
    estimator: BaseEstimator,
    X: Items,
    y: Labelings,
    *,
    groups: ArrayLike | None = None,
    cv: int | Iterable | Any | None = None,
    n_jobs: int | None = None,
    params: dict[str, Any] | None = None,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Probabilities of labels by taggers that were not trained on the sequence.

    The function is the counterpart of ``cross_val_predict(method="predict_proba")``,
    which takes no label sequences. The probabilities serve as training inputs of a
    second model, for finding wrong annotations, and for choosing thresholds.

    Parameters
    ----------
    estimator : ChainCRF, Tagger, CalibratedTagger or other estimator
        An estimator with `predict_proba` for sequences, and `classes_`, or a search
        around one. Each fold trains a clone.
    X : list of sequences
        Input of the estimator.
    y : list of array-like of shape (n_positions,)
        Labels, with None or sets as for `ChainCRF`.
    groups : array-like of shape (n_sequences,), default=None
        Groups for `cv` to divide by.
    cv : int, cross-validation generator or iterable, default=None
        Folds, as in `sklearn.model_selection.cross_val_predict`; None: 5 folds. Every
        sequence must be held out once.
    n_jobs : int, default=None
        Number of folds that are trained at the same time, in threads.
    params : dict, default=None
        Parameters of `fit`, such as ``{"chaincrf__sample_weight": weights}`` for a
        pipeline. A value with an entry for each sequence is split into folds like X.

    Returns
    -------
    probabilities : list of ndarray of shape (n_positions, n_classes)
        Marginal probabilities of each sequence. A label that the training data of a
        fold lack has the probability 0 in the sequences of the fold.
    classes : ndarray of shape (n_classes,)
        The labels of the columns, in the order of ``classes_`` after a fit to all data.

    Raises
    ------
    AttributeError
        If the estimator has no probabilities, as with the hinge.
    ValueError
        If a sequence is not held out exactly once.

    See Also
    --------
    CalibratedTagger : Uses held-out sequences to give probabilities to the hinge.

    Examples
    --------
    >>> from sksstruct import cross_val_proba, make_tagger
    >>> X = [[["Ada"], ["ran"]], [["he"], ["ran"]]] * 5
    >>> y = [["PER", "O"], ["O", "O"]] * 5
    >>> tagger = make_tagger(loss="log", random_state=0)
    >>> probabilities, classes = cross_val_proba(tagger, X, y)
    >>> classes.tolist(), probabilities[0].argmax(axis=1).tolist()
    (['O', 'PER'], [1, 0])
    """
    # an estimator without probabilities raises its AttributeError before any training
    estimator.predict_proba  # noqa: B018
    X, y, groups = indexable(X, y, groups)
    n = _num_samples(X)
    folds = list(check_cv(cv, y, classifier=False).split(X, y, groups))
    held_out = np.concatenate([np.arange(n)[test] for _, test in folds])
    counts = np.bincount(held_out, minlength=n)
    if (counts != 1).any():
        i = int(np.flatnonzero(counts != 1)[0])
        raise ValueError(
            f"cv must hold out every sequence once, but X[{i}] is held out {counts[i]} "
            "times"
        )
    # threads, as kernels release the GIL
    parts = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(_fold)(estimator, X, y, params, *fold) for fold in folds
    )
    labels = chain.from_iterable(classes.tolist() for _, classes in parts)
    encoder = LabelEncoder.from_labels(labels)
    rows = [
        _in_columns(row, encoder.encode(classes.tolist()), len(encoder.classes_))
        for probabilities, classes in parts
        for row in probabilities
    ]
    order = np.argsort(held_out)
    return [rows[k] for k in order], encoder.classes_


def _fold(estimator, X, y, params, train, test):
    """Probabilities of the held-out sequences, and the labels of the columns."""
    params = _check_method_params(X, params or {}, indices=train)
    fitted = clone(estimator)
    fitted.fit(_safe_indexing(X, train), _safe_indexing(y, train), **params)
    probabilities = fitted.predict_proba(_safe_indexing(X, test))
    for row in probabilities:
        if np.ndim(row) != 2 or row.shape[1] != len(fitted.classes_):
            raise ValueError(
                f"predict_proba of {type(fitted).__name__} must return an array of "
                f"shape (n_positions, {len(fitted.classes_)}) for each sequence, one "
                f"column for each of classes_, got one of shape {np.shape(row)}"
            )
    return probabilities, fitted.classes_


def _in_columns(row, columns, n_classes):
    full = np.zeros((len(row), n_classes))
    full[:, columns] = row
    return full

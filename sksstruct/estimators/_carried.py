"""Set the attributes of taggers read from files, and warm-start from such taggers."""

import numpy as np
from scipy import sparse

from sksstruct.estimators._crfsuite_model import FORBIDDEN
from sksstruct.utils._layout import aligned_zeros

# Value of `_warm` for a tagger from a file, which has no state of a solver: a warm
# start reads its attributes.
FROM_ATTRIBUTES = "the attributes"


def set_fitted(estimator, attributes):
    """Set the fitted attributes of an estimator that comes from a file.

    Parameters
    ----------
    estimator : Trained
        A new estimator.
    attributes : dict
        Fitted attributes by name.
    """
    names = tuple(attributes)
    attributes = {**attributes, "_warm": FROM_ATTRIBUTES}
    estimator._restore({**attributes, "_fitted_names": (*names, "_warm")})


def weights_by_name(tagger, problem):
    """Flat weights of a training problem from the attributes of a fitted tagger.

    Parameters
    ----------
    tagger : ChainCRF
        Fitted tagger, whose labels and features may differ from those of the problem.
    problem : Problem
        The training problem. Weights of labels and features that the tagger does not
        have are zero, as are weights of features on pairs of labels.

    Returns
    -------
    state : dict
        Initial state for a solver that starts from weights.
    """
    spec = problem.spec
    flat = aligned_zeros(problem.model.n_weights)
    views = problem.model.views(flat)
    old, new = _common(tagger.classes_.tolist(), spec.classes_.tolist())
    old_names, names = tagger._names_in, spec.feature_names_
    if old_names is None or names is None:
        n = tagger.n_features_in_ if tagger.n_features_in_ == spec.n_features_ else 0
        columns = rows = np.arange(n)
    else:
        columns, rows = _common(old_names.to_list(), names.to_list())
    coef = tagger.coef_[old][:, columns]
    views["coef"][np.ix_(new, rows)] = spec.intercept_scaling_ * _dense(coef)
    views["transitions"][np.ix_(new, new)] = _dense(tagger.transitions_[old][:, old])
    for name in ("intercept", "start", "end"):
        views[name][new] = vars(tagger)[f"{name}_"][old]
    if spec.centers_ is not None:
        views["intercept"][new] += _dense(coef) @ spec.centers_[rows]
    # training does not start from the weight that marks a forbidden label in files of
    # CRFsuite
    flat[flat <= FORBIDDEN] = 0.0
    return {"weights": flat}


def _dense(table):
    return table.toarray() if sparse.issparse(table) else table


def _common(old, new):
    """Indices in `old` and in `new` of the names that both lists have."""
    places = {name: k for k, name in enumerate(old)}
    pairs = [(places[name], k) for k, name in enumerate(new) if name in places]
    return np.array(pairs, dtype=np.intp).reshape(-1, 2).T

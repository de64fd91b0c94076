"""Advice for training that did not converge, from the data and the solver's history.

Each public function between `advice` and `rows_of` diagnoses one cause: it returns a
sentence with the remedy, or an empty string if the cause does not apply. The functions
run only when a convergence warning is to be given, because some read all the data.
"""

import numpy as np
from scipy import sparse
from sklearn.base import clone

from sksstruct.models.chain.chain import ChainModel
from sksstruct.models.scale import ColumnMoments
from sksstruct.models.segments.segments import SegmentModel
from sksstruct.solvers import Continuation
from sksstruct.utils._mixed import MixedRows

# Classes of models whose examples are sequences.
SEQUENCES = ChainModel, SegmentModel
# Largest number of sentences in a warning.
MOST_SENTENCES = 2
# Largest number of sequences that counts as few.
_FEW = 50
# Smallest mean number of positions of sequences that count as long.
_LONG = 50
# Smallest mean number of nodes for which `normalize=True` is advised.
_LARGE_GRAPH = 10
# A column is large if the deviation of its values, corrected for the share of zeros,
# exceeds this multiple of the median over the columns.
_LARGE = 10.0
# Columns have an offset if the sum of their squared means exceeds this multiple of the
# sum of their variances.
_OFFSET = 10.0
# A value of alpha is small if it is less than this share of the default value.
_SMALL_ALPHA = 0.01
# The model counts as trained if the duality gap is at most this share of the objective.
_VERY_NEAR = 0.01
# If the objective has stalled, the model counts as trained if the duality gap is at
# most this share of the objective.
_NEAR = 0.2
# The objective has stalled if the last half of the passes lowered the objective by at
# most this share of its value.
_STALLED = 1e-3
# Smallest number of passes after which an objective is judged to have stalled.
_ENOUGH_PASSES = 20


def advice(estimator, problem, result, data=None):
    """Sentences of advice for training that did not converge, the most specific first.

    Parameters
    ----------
    estimator : estimator
        The estimator that was trained.
    problem : Problem
        Its training problem.
    result : SolverResult or None
        Result of the solver; None if nothing but the failure to converge is known.
    data : tuple, default=None
        X, y and sample weights; None if they are in parts.

    Returns
    -------
    sentences : list of str
        At most `MOST_SENTENCES`.
    """
    cases = (
        lambda: few_long_sequences(problem),
        lambda: sums_over_nodes(estimator, problem.spec),
        # the default alpha depends on the units of the columns: if the advice is to
        # scale the columns, do not compare alpha with the default
        lambda: (
            columns(rows_of(problem.model), _names(estimator, problem.spec))
            or small_alpha(estimator, problem, data)
        ),
        lambda: near_optimum(result, problem.solver.tol),
    )
    found = []
    for case in cases:
        sentence = case()
        if sentence:
            found.append(sentence)
        if len(found) == MOST_SENTENCES:
            break
    return found


def few_long_sequences(problem):
    """Advise on a hinge loss of few long sequences: a pass has one step for each."""
    model, is_sequences = problem.model, isinstance(problem.spec, SEQUENCES)
    # a model of data in parts does not have the lengths of the sequences
    sizes = getattr(model, "sizes", None)
    if not is_sequences or sizes is None or model.surrogate is not None:
        return ""
    # the number of steps of a continuation does not depend on the number of sequences
    if isinstance(problem.solver, Continuation):
        return ""
    if len(sizes) > _FEW or sizes.mean() < _LONG:
        return ""
    return (
        f"The data are few long sequences, {len(sizes)} of {sizes.mean():.0f} "
        f"positions on average, and {type(problem.solver).__name__} takes one step "
        "for each: use solver='continuation', cut them into shorter ones, or use "
        "loss='log'."
    )


def sums_over_nodes(estimator, spec):
    """Advise on graphs whose losses are means over nodes, while features are sums."""
    # alpha="auto" accounts for the size of the graphs
    if estimator.alpha == "auto":
        return ""
    normalize = getattr(spec, "normalize_", getattr(spec, "normalize", True))
    if normalize or spec.mean_size_ < _LARGE_GRAPH:
        return ""
    return (
        "Features are sums over the nodes of graphs: means over them take far fewer "
        f"passes, {type(spec).__name__}(normalize=True)."
    )


def columns(rows, names=None):
    """Advise on a column in larger units than most, or on columns with an offset.

    Parameters
    ----------
    rows : ndarray, CSR or MixedRows of shape (n_rows, n_features), or None
        Rows of features.
    names : sequence of str, default=None
        Names of the columns; with None, the sentence has the number of the column.
    """
    if rows is None or not min(rows.shape):
        return ""
    moments = ColumnMoments.of(rows)
    mean, deviation = moments.mean, np.sqrt(moments.squares / moments.total)
    # the deviation is divided by the root of the share of nonzero values, so that a
    # rare indicator has the same size as a frequent one
    size = deviation / np.sqrt(np.maximum(moments.filled, 1.0) / moments.total)
    ascending = np.sort(size[size > 0.0])

    def name(j):
        return f"column {j}" if names is None else f"column {names[j]!r:.80}"

    if len(ascending):
        # the lower median: of two columns, the smaller size
        median, j = ascending[(len(ascending) - 1) // 2], int(size.argmax())
        if size[j] > _LARGE * median:
            # MaxAbsScaler keeps the zeros of sparse rows
            scaler = "Standard" if isinstance(rows, np.ndarray) else "MaxAbs"
            return (
                f"The values of {name(j)} vary {size[j] / median:.3g} times as much as "
                "those of the median column: scale the columns, for instance by "
                f"{scaler}Scaler()."
            )
    if mean @ mean > _OFFSET * (deviation @ deviation):
        j = int(np.abs(mean).argmax())
        return (
            f"The means of columns are far above their deviations, {mean[j]:.3g} and "
            f"{deviation[j]:.3g} for {name(j)}: subtract them, for instance by "
            "StandardScaler()."
        )
    return ""


def small_alpha(estimator, problem, data):
    """Advise on an alpha far below the default: the problem is ill-conditioned."""
    alpha = problem.alpha
    default = _default_alpha(estimator, problem.spec, data) if alpha > 0.0 else None
    if default is None or alpha >= _SMALL_ALPHA * default:
        return ""
    return (
        f"alpha={alpha:.3g} is far below the default for these data, "
        f"{default:.3g}: a larger alpha takes fewer passes."
    )


def near_optimum(result, tol):
    """Advise to raise tol if the objective is near its minimum, or has stalled."""
    if result is None:
        return ""
    gap, objective = result.dual_gap, abs(result.objective)
    if not (result.target > 0.0 and gap <= _NEAR * objective):
        return ""
    if gap <= _VERY_NEAR * objective:
        where = f"is within {_VERY_NEAR:.0%} of its minimum".replace("%", " %")
    elif _has_stalled(result.history, objective):
        where = "has not fallen in the last half of the passes"
    else:
        return ""
    enough = _rounded_up(tol * gap / result.target)
    return f"The objective {where}, so the model is trained: tol={enough:g} would do."


def _has_stalled(history, objective):
    """Whether the second half of the passes has hardly lowered the objective."""
    passes, primal = history["pass"], history["primal"]
    early = passes <= passes[-1] / 2
    if passes[-1] < _ENOUGH_PASSES or not early.any():
        return False
    return primal[early].min() - primal.min() <= _STALLED * objective


def _rounded_up(value):
    """The smallest number with one significant digit that is at least the value."""
    unit = 10.0 ** np.floor(np.log10(value))
    return float(np.ceil(value / unit * (1.0 - 1e-12)) * unit)


def _default_alpha(estimator, spec, data):
    """The value that alpha="auto" would have, or None if it is not known."""
    if spec.mean_square_:
        return spec.default_alpha
    if data is None:
        return None
    # with a given alpha, the model has not computed the mean square of the features
    unscaled = clone(estimator).set_params(alpha="auto")
    spec = unscaled._model()
    spec.check()
    spec._read(*data, unscaled)
    return spec.default_alpha


def _names(estimator, spec):
    """Names of the feature columns, which the model or the estimator has, or None."""
    names = getattr(spec, "feature_names_", None)
    return getattr(estimator, "feature_names_in_", None) if names is None else names


def rows_of(model):
    """Rows of features of a bound model, or None if the model has no such rows."""
    packed, features = getattr(model, "packed", None), getattr(model, "features", None)
    if packed is not None:
        return packed.values
    if isinstance(features, list):
        # `features` has a matrix for each block of weights: the advice is for the first
        # matrix
        features = features[0] if features else None
    for rows in (features, getattr(model, "X", None)):
        if isinstance(rows, np.ndarray | MixedRows) or sparse.issparse(rows):
            return rows
    return None

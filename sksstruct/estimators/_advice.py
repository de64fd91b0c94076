"""What will help a run that did not converge, found from its data and its history.

Each function below is one case: it returns a sentence where the case is at hand, and an
empty string otherwise. They are called only when a warning is to be given.
"""

import numpy as np
from scipy import sparse
from sklearn.base import clone

from sksstruct.models.chain.chain import ChainModel
from sksstruct.models.scale import ColumnMoments
from sksstruct.models.segments.segments import SegmentModel
from sksstruct.solvers import Continuation
from sksstruct.utils._mixed import MixedRows

# Models of sequences.
SEQUENCES = ChainModel, SegmentModel
# Sentences of a warning.
MOST_SENTENCES = 2
# Sequences are few if there are at most so many of them.
_FEW = 50
# Sequences are long from this mean number of positions on.
_LONG = 50
# Nodes of graphs whose sums are far from means.
_LARGE_GRAPH = 10
# A column is in other units if its size is so many times that of the median column.
_LARGE = 10.0
# Columns have an offset if the squares of their means are so many times the variances.
_OFFSET = 10.0
# An alpha is small if it is less than this share of the default.
_SMALL_ALPHA = 0.01
# The model is trained if the gap is below this share of the objective.
_VERY_NEAR = 0.01
# Below this share of the objective, it is trained if the objective is at rest.
_NEAR = 0.2
# At rest, the last half of the passes has gained less than this share of the objective.
_AT_REST = 1e-3
# Passes from which on an objective can be at rest.
_ENOUGH = 20


def advice(estimator, problem, result, data=None):
    """What will help, the most specific first.

    Parameters
    ----------
    estimator : estimator
        What was trained.
    problem : Problem
        Its problem.
    result : SolverResult or None
        How far training came; None if only that it was not far enough.
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
        # the default is that of columns as they are: only one of both is right
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
    """The hinge of few long sequences, whose steps are as few."""
    model, is_sequences = problem.model, isinstance(problem.spec, SEQUENCES)
    # what is known of data in parts has none
    sizes = getattr(model, "sizes", None)
    if not is_sequences or sizes is None or model.surrogate is not None:
        return ""
    # whose iterations do not follow the number of sequences
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
    """Graphs whose losses are divided by their sizes, and their features are not."""
    # which the default of alpha makes up for
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
    """A column in other units than the others, or columns with an offset.

    Parameters
    ----------
    rows : ndarray, CSR or MixedRows of shape (n_rows, n_features), or None
        Rows of features.
    names : sequence of str, default=None
        Names of the columns. None: their numbers.
    """
    if rows is None or not min(rows.shape):
        return ""
    moments = ColumnMoments.of(rows)
    mean, deviation = moments.mean, np.sqrt(moments.squares / moments.total)
    # of the values that are not zero, as a rare indicator is in the same units
    size = deviation / np.sqrt(np.maximum(moments.filled, 1.0) / moments.total)
    some = np.sort(size[size > 0.0])

    def name(j):
        return f"column {j}" if names is None else f"column {names[j]!r:.80}"

    if len(some):
        # of two columns, the smaller one
        median, j = some[(len(some) - 1) // 2], int(size.argmax())
        if size[j] > _LARGE * median:
            # zeros stay zeros
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
    """An alpha far below the default, which makes the problem hard."""
    alpha = problem.alpha
    default = _default_alpha(estimator, problem.spec, data) if alpha > 0.0 else None
    if default is None or alpha >= _SMALL_ALPHA * default:
        return ""
    return (
        f"alpha={alpha:.3g} is far below the default for these data, "
        f"{default:.3g}: a larger alpha takes fewer passes."
    )


def near_optimum(result, tol):
    """An objective near its minimum, or that no longer falls."""
    if result is None:
        return ""
    gap, objective = result.dual_gap, abs(result.objective)
    if not (result.target > 0.0 and gap <= _NEAR * objective):
        return ""
    if gap <= _VERY_NEAR * objective:
        where = f"is within {_VERY_NEAR:.0%} of its minimum".replace("%", " %")
    elif _is_at_rest(result.history, objective):
        where = "has not fallen in the last half of the passes"
    else:
        return ""
    enough = _rounded_up(tol * gap / result.target)
    return f"The objective {where}, so the model is trained: tol={enough:g} would do."


def _is_at_rest(history, objective):
    """Whether the second half of the passes was for the certificate only."""
    passes, primal = history["pass"], history["primal"]
    early = passes <= passes[-1] / 2
    if passes[-1] < _ENOUGH or not early.any():
        return False
    return primal[early].min() - primal.min() <= _AT_REST * objective


def _rounded_up(value):
    """A number of one digit, at least the value."""
    unit = 10.0 ** np.floor(np.log10(value))
    return float(np.ceil(value / unit * (1.0 - 1e-12)) * unit)


def _default_alpha(estimator, spec, data):
    """The number that stands for alpha="auto", or None if it is not known."""
    if spec.mean_square_:
        return spec.default_alpha
    if data is None:
        return None
    # how large features are was of no interest before
    other = clone(estimator).set_params(alpha="auto")
    spec = other._model()
    spec.check()
    spec._read(*data, other)
    return spec.default_alpha


def _names(estimator, spec):
    """Names of the columns, or None."""
    names = getattr(spec, "feature_names_", None)
    return getattr(estimator, "feature_names_in_", None) if names is None else names


def rows_of(model):
    """Rows of features of a bound model, or None if it has no such rows."""
    packed, features = getattr(model, "packed", None), getattr(model, "features", None)
    if packed is not None:
        return packed.values
    if isinstance(features, list):
        # blocks of weights, of which the first is that of the features
        features = features[0] if features else None
    for rows in (features, getattr(model, "X", None)):
        if isinstance(rows, np.ndarray | MixedRows) or sparse.issparse(rows):
            return rows
    return None

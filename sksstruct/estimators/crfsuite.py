"""Parameters of CRFsuite as parameters of `ChainCRF`."""

from numbers import Integral, Real
from typing import Any, Literal

from sksstruct.utils._param_validation import Interval, StrOptions

_ALGORITHMS = ("lbfgs", "l2sgd", "ap", "pa", "arow")
# CRFsuite stops when ten iterations improve the objective by a share of less than 1e-5.
# Its objective then exceeds the optimum by a share of about `_TOL`.
_TOL = 1e-4
# Tolerance with c1 alone, with which CRFsuite stops further from the optimum, as its
# iterations gain little; and tolerance without regularization, when the optimum is
# often zero, and a share of the optimum is tiny.
_TOL_OF_L1, _TOL_OF_NOTHING = 2e-3, 1e-8


def crfsuite_parameters(
    n_sequences: int,
    *,
    algorithm: Literal["lbfgs", "l2sgd", "ap", "pa", "arow"] = "lbfgs",
    c1: float = 0.0,
    c2: float = 1.0,
    max_iterations: int | None = None,
    all_possible_states: bool = False,
    all_possible_transitions: bool = False,
) -> dict:
    """Parameters of `ChainCRF` for a problem that CRFsuite would solve.

    CRFsuite minimizes the sum of the losses plus ``c1 |w|_1 + c2 |w|^2``. Its model has
    neither biases nor weights of first and last labels. By default, only pairs of a
    feature and a label, or of two labels, that occur in the training data have weights;
    a feature with the value zero, such as a False in a dict, occurs, too. With `tol` at
    1e-4, the objective is at most 0.01 % above its optimum, and that of CRFsuite is
    usually about as near.

    The models have one difference: in CRFsuite, a feature and a label have no weight if
    the values of the feature at the positions with the label have a negative sum. To
    train the same model on negative values, set ``feature.minfreq`` of CRFsuite to
    -1e9.

    Parameters
    ----------
    n_sequences : int
        Number of training sequences.
    algorithm : {"lbfgs", "l2sgd", "ap", "pa", "arow"}, default="lbfgs"
        CRFsuite's training algorithm. The likelihood of "lbfgs" and "l2sgd" has the
        same optimum here. The three online algorithms have no objective: the parameters
        are those of the structured hinge with its defaults, and `c1` and `c2` have no
        effect.
    c1, c2 : float, default=0.0 and 1.0
        Factors of the sum of the absolute weights and of the squared norm. With
        ``c2=0`` the solver is "lbfgs", because other solvers need a squared norm; it
        stops where the objective is flat, and `tol` is 2e-3 if `c1` is positive, or
        else 1e-8.
    max_iterations : int, default=None
        Maximum number of passes. None: `max_iter` keeps its default.
    all_possible_states, all_possible_transitions : bool, default=False
        Whether pairs of a feature and a label, or of two labels, have weights even if
        they do not occur in the training data.

    Returns
    -------
    parameters : dict
        Keyword arguments of `ChainCRF`, with `tol` unless the loss is the hinge.

    Examples
    --------
    >>> from sksstruct import ChainCRF, crfsuite_parameters
    >>> tagger = ChainCRF(**crfsuite_parameters(1000, c1=0.1, c2=0.1))
    >>> round(tagger.alpha, 6), round(tagger.l1_ratio, 3)
    (0.0003, 0.333)
    """
    _check(n_sequences, algorithm, c1, c2, max_iterations)
    parameters: dict[str, Any] = {"fit_intercept": False, "boundary": False}
    if max_iterations is not None:
        parameters["max_iter"] = max_iterations
    if algorithm not in ("lbfgs", "l2sgd"):
        return parameters
    total, tol = c1 + 2.0 * c2, _TOL
    alpha, l1_ratio = total / n_sequences, c1 / total if total else 0.0
    if total and alpha == 0.0:
        raise ValueError(
            f"{c1=!r} and {c2=!r} are too small for {n_sequences=!r}: alpha would be 0"
        )
    # true if c2 is zero, or too small beside c1 to change the sum
    if total == c1:
        parameters["solver"], tol = "lbfgs", _TOL_OF_L1 if c1 else _TOL_OF_NOTHING
    return {
        **parameters,
        "loss": "log",
        "tol": tol,
        "alpha": alpha,
        "l1_ratio": l1_ratio,
        "all_possible_states": all_possible_states,
        "all_possible_transitions": all_possible_transitions,
    }


def _check(n_sequences, algorithm, c1, c2, max_iterations):
    """Raise an error if an argument is not valid."""
    checks = [
        ("n_sequences", n_sequences, Interval(Integral, 1, None, closed="left")),
        ("algorithm", algorithm, StrOptions(set(_ALGORITHMS))),
        ("c1", c1, Interval(Real, 0, None, closed="left")),
        ("c2", c2, Interval(Real, 0, None, closed="left")),
    ]
    if max_iterations is not None:
        limit = Interval(Integral, 1, None, closed="left")
        checks.append(("max_iterations", max_iterations, limit))
    for name, value, constraint in checks:
        if not constraint.is_satisfied_by(value):
            raise ValueError(f"{name} must be {constraint}, got {value!r}")

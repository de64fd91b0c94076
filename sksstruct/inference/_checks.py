"""Checks of potentials, for every oracle the same."""

import numpy as np


def check_scores(name, scores, ndim=None):
    """Scores as float64: not NaN, not +inf."""
    try:
        scores = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers") from None
    if ndim is not None and scores.ndim != ndim:
        raise ValueError(f"{name} must be {ndim}-D, got {scores.ndim}-D")
    # A maximum that is NaN or +inf says it all, in one look.
    if scores.size and not scores.max() < np.inf:
        raise ValueError(f"{name} has an entry that is NaN or +inf")
    return scores


def check_chain(unary, pairwise):
    """Potentials of a chain: (T, K), and (K, K) or (T - 1, K, K)."""
    unary = check_scores("unary", unary)
    pairwise = check_scores("pairwise", pairwise)
    if unary.ndim != 2 or unary.shape[0] < 1 or unary.shape[1] < 1:
        raise ValueError(
            f"unary must have shape (T, K) with T >= 1 and K >= 1, got {unary.shape}"
        )
    size, n_states = unary.shape
    square = (n_states, n_states)
    if pairwise.shape != square and pairwise.shape != (size - 1, *square):
        raise ValueError(
            f"pairwise must have shape {square} or {(size - 1, *square)} for unary of "
            f"shape {unary.shape}, got {pairwise.shape}"
        )
    return unary, pairwise


def check_k(k):
    """Number of labelings asked for."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k must be an integer of at least 1, got {k!r}")
    return int(k)

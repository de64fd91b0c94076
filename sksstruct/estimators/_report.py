"""How a run ended, for the user."""

import warnings

from sklearn.exceptions import ConvergenceWarning

_REMEDIES = {
    "max_iter": "Increase max_iter, tol or alpha.",
    "stalled": "Rounding errors allow no further progress: increase tol or alpha, or "
    "scale the features.",
    "softened": "The softened problem is solved; increase rho.",
    "rounds": "The labels completed by decoding still changed after the last round: "
    "increase alpha, or use loss='log'.",
}


def report_result(result, noun):
    """Raise or warn where a run was interrupted or did not converge.

    Called by `fit`, which a decorator wraps.
    """
    if result.status == "interrupted":
        raise KeyboardInterrupt(
            f"training was interrupted after {result.n_iter} passes; the {noun} can "
            "be used"
        )
    if result.status in _REMEDIES:
        warnings.warn(
            f"training did not converge in {result.n_iter} passes: the duality gap is "
            f"{result.dual_gap:.3g}, the tolerance {result.target:.3g}. "
            f"{_REMEDIES[result.status]}",
            ConvergenceWarning,
            stacklevel=4,  # past fit and its decorator
        )


def warn_path(path, max_iter, stacklevel=3):
    """Warn where a breakpoint of a path did not converge."""
    if not path.converged.all():
        j = int((~path.converged).argmax())
        warnings.warn(
            f"the path did not converge at alpha = {path.alphas[j]:.3g}"
            f"{'' if path.method == 'grid' else ', where it ends'}: the duality gap is "
            f"{path.gaps[j]:.3g} after {max_iter} passes, epsilon {path.epsilon:.3g}. "
            "Increase max_iter, epsilon or alpha_min.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )

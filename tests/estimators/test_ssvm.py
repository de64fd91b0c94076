import warnings

from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from sksstruct import SSVMClassifier


# Solved precisely, so that checks of equal results see the optimum and not the path.
@parametrize_with_checks(
    [
        SSVMClassifier(alpha=0.1, tol=1e-13, max_iter=20000),
        SSVMClassifier(solver="bmrm", alpha=0.1, tol=1e-12),
    ]
)
def test_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)

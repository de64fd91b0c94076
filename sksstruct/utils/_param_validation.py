"""The one place that touches scikit-learn's private parameter validation."""

from sklearn.utils._param_validation import (
    Interval,
    Options,
    StrOptions,
    validate_parameter_constraints,
)

__all__ = [
    "Interval",
    "Options",
    "StrOptions",
    "validate_parameter_constraints",
    "validate_params",
]


def validate_params(estimator):
    """Check constructor parameters against ``_parameter_constraints``."""
    validate_parameter_constraints(
        estimator._parameter_constraints,
        estimator.get_params(deep=False),
        caller_name=type(estimator).__name__,
    )

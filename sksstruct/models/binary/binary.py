"""Two classes and a linear score, as `LinearSSVC` trains them."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
from scipy import sparse
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from sksstruct.models.binary._binary import BoundBinary
from sksstruct.models.spec import ROWS, ModelSpec
from sksstruct.utils.sparse_input import validate_rows
from sksstruct.utils.validation import check_example_weight


@dataclass(eq=False, repr=False)
class BinaryModel(ModelSpec):
    """A linear score of the second of two classes.

    Parameters
    ----------
    fit_intercept, penalize_intercept, class_weight
        As in `sksstruct.LinearSSVC`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The classes.
    """

    _: KW_ONLY
    fit_intercept: bool = True
    penalize_intercept: bool = True
    class_weight: dict | str | None = None

    auto_alpha = 1e-4

    def _read(self, X, y, sample_weight, seen):
        X, y = validate_rows(seen, X, y, **ROWS)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(y)}."
            )
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has 1 class, {self.classes_.tolist()[0]!r}: training needs 2"
            )

        def factors(weight):
            return compute_class_weight(
                self.class_weight, classes=self.classes_, y=y, sample_weight=weight
            )[labels]

        keep, weight = check_example_weight(sample_weight, len(y), factors)
        if len(keep) < len(y):
            X, labels = X[keep], labels[keep]
        if sparse.issparse(X) and not X.has_sorted_indices:
            X = X.sorted_indices()
        return self._over_scale(X, weight), labels, weight

    def _bind(self, examples):
        free = self.fit_intercept and not self.penalize_intercept
        return BoundBinary(
            *examples, fit_intercept=self.fit_intercept and not free, free_bias=free
        )

    def _attributes(self, weights, views=None):
        if views is None:
            views = {"coef": weights[None, :-1], "intercept": weights[-1:]}
        return {
            "classes_": self.classes_,
            "coef_": views["coef"] / self.intercept_scaling_,
            "intercept_": views["intercept"].copy(),
        }

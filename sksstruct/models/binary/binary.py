"""Two classes and a linear score, the model of `LinearSSVC`."""

from dataclasses import KW_ONLY, dataclass

from sklearn.utils.multiclass import type_of_target

from sksstruct.models.binary._binary import BoundBinary
from sksstruct.models.rows import ClassesModel


@dataclass(eq=False, repr=False)
class BinaryModel(ClassesModel):
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

    @property
    def _class_weight(self):
        return self.class_weight

    def _learn(self, X, y):
        labels = super()._learn(X, y)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(y)}."
            )
        return labels

    def _bind(self, examples):
        free = self.fit_intercept and not self.penalize_intercept
        return BoundBinary(
            *examples, fit_intercept=self.fit_intercept and not free, free_bias=free
        )

    def _attributes(self, weights, views=None):
        if views is None:
            views = {"coef": weights[None, :-1], "intercept": weights[-1:]}
        coef = views["coef"] / self.intercept_scaling_
        return {
            "classes_": self.classes_,
            "coef_": coef,
            "intercept_": views["intercept"] - self._off_centers(coef),
        }

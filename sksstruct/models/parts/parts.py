"""Parts on a grid, held together by springs: pose estimation."""

import itertools
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real

import numpy as np

from sksstruct.inference._checks import check_edges
from sksstruct.inference.trees._tree import Tree
from sksstruct.models._compiled import CompiledModel, check_features
from sksstruct.models.parts._parts import BoundParts
from sksstruct.utils._param_validation import Interval


@dataclass(eq=False, repr=False)
class PartsModel(CompiledModel):
    """Positions of parts in an image, with springs along the edges of a tree.

    An input is an array of shape (height, width, n_features): features of every
    position. An output is an integer array of shape (n_parts, 2): row and column of
    each part. A spring scores the displacement between its two ends by a linear and a
    quadratic function of rows and of columns. Displacements are taken minus their mean
    over the training data, in units of half the image size. Quadratic costs are kept at
    zero or above, so that distance transforms find the best positions [1]_.

    Parameters
    ----------
    edges : array-like of shape (n_edges, 2), default=()
        Pairs of parts, without a cycle.
    unit : float or tuple of two int, default=5.0
        The loss is the mean over the parts of ``min(1, distance^2 / unit^2)``. The unit
        is a number, or, for each image, the observed distance of the two given parts.
    fit_intercept : bool, default=True
        Whether parts have a bias.

    Attributes
    ----------
    edges_ : ndarray of shape (n_edges, 2)
        Pairs of parts.
    offsets_, scales_ : ndarray of shape (n_edges, 2)
        Mean displacement of the second part from the first, and the units of deviations
        from it: half the mean height and width of the images.

    Notes
    -----
    A fitted `sksstruct.SSVMClassifier` has ``coef_`` (n_parts, n_features),
    ``intercept_`` (n_parts,), ``linear_`` and ``quadratic_`` (n_edges, 2).

    References
    ----------
    .. [1] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. Dokania and S. Lacoste-Julien,
       "Minding the gaps for block Frank-Wolfe optimization of structured SVMs",
       ICML 2016, Section I.4, whose loss is min(1, .).

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct import SSVMClassifier
    >>> from sksstruct.models import PartsModel
    >>> X, y = np.zeros((1, 4, 5, 2)), [[[1, 1], [2, 3]]]
    >>> X[0, 1, 1, 0] = X[0, 2, 3, 1] = 1.0
    >>> model = PartsModel(edges=[(0, 1)], unit=2.0)
    >>> classifier = SSVMClassifier(model, alpha=0.1, random_state=0).fit(X, y)
    >>> classifier.predict(X)[0].tolist()
    [[1, 1], [2, 3]]
    """

    edges: object = ()
    _: KW_ONLY
    unit: object = 5.0
    fit_intercept: bool = True

    _parameter_constraints = {
        "edges": ["array-like"],
        "unit": [Interval(Real, 1e-6, None, closed="left"), tuple, list],
        "fit_intercept": ["boolean"],
    }

    def bounds(self):
        return {"quadratic": (0.0, None)}

    def _input(self, x, name):
        x = check_features(x, name, 3, getattr(self, "n_features_", None))
        if not x.shape[0] or not x.shape[1]:
            raise ValueError(f"{name} has no positions")
        return x

    def _learn(self, X, y, weight):
        sizes = {x.shape[2] for x in X}
        if len(sizes) > 1:
            raise ValueError(f"X has positions of {sorted(sizes)} features")
        n_features = sizes.pop()
        self.n_parts_ = len(np.atleast_1d(y[0]))
        if not self.n_parts_:
            raise ValueError("y[0] has no parts")
        if isinstance(self.unit, (tuple, list)) and not all(
            0 <= p < self.n_parts_ for p in self.unit
        ):
            raise ValueError(f"unit names parts {self.unit}, y has {self.n_parts_}")
        self.edges_ = check_edges(self.edges, self.n_parts_)
        Tree(self.n_parts_, self.edges_)
        y = self._outputs(X, y)
        self.n_features_ = n_features
        moves = np.array([z[self.edges_[:, 1]] - z[self.edges_[:, 0]] for z in y])
        self.offsets_ = np.average(moves, axis=0, weights=weight)
        size = np.average([x.shape[:2] for x in X], axis=0, weights=weight)
        # Keeps features of springs at about 1. In units of their spread, parts that are
        # far off would outweigh all else, and training would take ten times as long.
        self.scales_ = np.broadcast_to(size / 2.0, moves.shape[1:]).copy()
        return y

    def _output(self, x, y, name):
        try:
            y = np.asarray(y)
        except ValueError:
            y = np.zeros(0)
        if y.dtype.kind not in "iu" or y.shape != (self.n_parts_, 2):
            raise ValueError(
                f"{name} must be integers of shape {(self.n_parts_, 2)}, row and "
                f"column of each part, got {y.dtype} of shape {y.shape}"
            )
        if (y < 0).any() or (x is not None and (y >= x.shape[:2]).any()):
            raise ValueError(f"{name} has a part outside the image")
        return y.astype(np.intp)

    def _unit(self, y, name="y"):
        if not isinstance(self.unit, (tuple, list)):
            return float(self.unit)
        p, q = self.unit
        distance = float(np.linalg.norm(y[p] - y[q]))
        if not distance:
            raise ValueError(
                f"{name} has the parts of unit={self.unit!r} at one position"
            )
        return distance

    def check(self):
        super().check()
        if isinstance(self.unit, (tuple, list)) and (
            len(self.unit) != 2 or not all(isinstance(p, Integral) for p in self.unit)
        ):
            raise ValueError(f"unit must be a number or two parts, got {self.unit!r}")

    def _labeling(self, x, y):
        return (y[:, 0] * x.shape[1] + y[:, 1]).astype(np.int32)

    def _shown(self, x, labeling):
        return np.column_stack(np.divmod(labeling, x.shape[1])).astype(np.intp)

    @property
    def _n_columns(self):
        return self.n_parts_

    def _offsets(self, X):
        cells = [x.shape[0] * x.shape[1] for x in X]
        return np.concatenate([[0], np.cumsum(cells)])

    def _rows(self, X):
        return np.concatenate([x.reshape(-1, x.shape[2]) for x in X])

    def _bound(self, X, y_true, example_weights, rows=None):
        shapes = np.array([x.shape[:2] for x in X], dtype=np.intp)
        labels = units = None
        if y_true is not None:
            labels = np.concatenate(
                [self._labeling(x, y) for x, y in zip(X, y_true, strict=True)]
            )
            units = [self._unit(y, f"y[{i}]") for i, y in enumerate(y_true)]
            units = np.array(units)
        block = (
            self._rows(X) if rows is None else rows,
            self._offsets(X),
            self.n_parts_,
            self.fit_intercept and rows is None,
        )
        n_edges = len(self.edges_)
        model = BoundParts(
            [block],
            np.full(len(X), self.n_parts_),
            labels,
            example_weights,
            self.n_parts_ + n_edges,
            n_edges * int((2 * shapes - 1).prod(axis=1).max()),
            4 * n_edges,
            shapes=shapes,
            edges=self.edges_,
            offsets=self.offsets_,
            scales=self.scales_,
            units=units,
        )
        model.oracle_bounds = self.bounds()
        return model

    def _marginals_of(self, model, i, means):
        """Probability of each position of each part, (n_parts, height, width)."""
        height, width = model.shapes[i]
        table = means[: height * width * model.ld].reshape(height, width, model.ld)
        return np.ascontiguousarray(table.transpose(2, 0, 1)[: model.n_parts])

    # ---- the methods of any model ----

    def loss(self, y, y_hat):
        y, y_hat = self._output(None, y, "y"), self._output(None, y_hat, "y_hat")
        squared = ((y - y_hat) ** 2).sum(axis=1) / self._unit(y) ** 2
        return float(np.minimum(squared, 1.0).mean())

    def labelings(self, x):
        x = self._input(x, "x")
        places = range(x.shape[0] * x.shape[1])
        for labeling in itertools.product(places, repeat=self.n_parts_):
            yield self._shown(x, np.array(labeling))

    def _attributes(self, weights, views=None):
        model = self._bound([np.zeros((1, 1, self.n_features_))], None, None)
        return self._views(model, weights)
